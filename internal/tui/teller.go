package tui

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// news is the text of a view about a record: preceded by a sign if lines are decorated, or else by
// the kind of its subject.
type news struct{ sign, kind, text string }

// data returns the data of a record, as far as it can be decoded.
func data[T any](rec *runlog.Record) (d T) {
	_ = json.Unmarshal(rec.Data, &d)
	return d
}

// A teller describes what happens in a run, as far as all views say it.
type teller struct {
	s       *Session
	pal     Palette
	verbose bool // with what tasks do
	say     func(at time.Time, n *news)
	failed  failure
}

// failure is the last failed attempt of a task. It is not reported if the task has a partial result
// instead.
type failure struct {
	news
	path, why string
	at        time.Time
}

// due prints a pending failure before the next record.
func (v *teller) due(rec *runlog.Record, t *transcript.Task) {
	switch f := &v.failed; rec.Kind {
	case runlog.KindTaskDone:
		if rec.Path == f.path && t.State != transcript.Failed {
			*f = failure{}
		}
	case runlog.KindRunFailed: // why it failed is said at the end
		if f.why != "" && strings.Contains(transcript.Line(data[runlog.RunFailed](rec).Error), f.why) {
			f.text = strings.TrimSuffix(f.text, ": "+f.why)
		}
	}
	v.last()
}

// last prints a pending failure at the end of the run.
func (v *teller) last() {
	if f := v.failed; f.text != "" {
		v.say(f.at, &f.news)
	}
	v.failed = failure{}
}

// tell prints what a record is about.
func (v *teller) tell(rec *runlog.Record, r *transcript.Run, t *transcript.Task) {
	var n *news
	switch rec.Kind {
	case runlog.KindTaskFailed:
		n = v.taskFailed(rec, t)
	case runlog.KindAnswered:
		d := data[runlog.Answer](rec)
		if d.By == runlog.ByRun {
			break
		}
		value := denial(d.By)
		if !d.Denied {
			value = strconv.Quote(transcript.Line(transcript.Value(d.Value)))
		}
		if by := transcript.Line(d.By); by != "" {
			value += " (" + by + ")"
		}
		n = &news{"?", "ask", transcript.Line(rec.Path) + " -> " + value}
	case runlog.KindEvent:
		if d := data[runlog.Event](rec); t == nil || !noted(&d) {
			return
		}
		if i := len(t.Parts) - 1; i >= 0 && (t.Parts[i].Kind == transcript.Note || t.Parts[i].Kind == transcript.Compacted) {
			n = &news{"·", "note", t.Label() + " " + transcript.Line(t.Parts[i].Text)}
		}
	case runlog.KindSettled:
		if v.verbose {
			n = partOf(rec, r, t)
		}
		if t == nil || data[runlog.Settled](rec).Kind != mail.KindSteer {
			break
		}
		if i := len(t.Parts) - 1; i >= 0 && t.Parts[i].Kind == transcript.Note {
			n = &news{"·", "note", t.Label() + " " + transcript.Line(t.Parts[i].Text)}
		}
	}
	if n != nil {
		v.say(rec.Time, n)
	}
}

// taskFailed returns what to say of an attempt that failed. The last one waits for the next record.
func (v *teller) taskFailed(rec *runlog.Record, t *transcript.Task) *news {
	d := data[runlog.TaskFailed](rec)
	kind, name, _ := strings.Cut(what(t), " ")
	n := &news{"!", kind, fmt.Sprintf("%s %s %s attempt=%d", name, v.pal.Red("failed"), inwords.Brief(t.Time.Elapsed(rec.Time)), d.Attempt)}
	if !d.Final {
		n.text += " trying again"
	}
	why := whyFailed(t)
	if n.text += ": " + why; d.Final {
		n.sign = "✗"
		v.failed = failure{*n, rec.Path, why, rec.Time}
		return nil
	}
	return n
}

// confined returns what bounds the commands of a run, for its first line.
func confined(r *transcript.Run) string {
	if r.Sandbox == "" {
		return ""
	}
	return " sandbox=" + r.Sandbox
}

// whyFailed returns the error of a task without the agent of the same name.
func whyFailed(t *transcript.Task) string {
	return strings.TrimPrefix(transcript.Line(t.Error), "agent "+t.Node+": ")
}

// noted reports whether an event is a note for users.
func noted(d *runlog.Event) bool {
	var level struct{ Action string }
	return d.Name == "note" || d.Name == "denied" || d.Name == "context" && json.Unmarshal(d.Data, &level) == nil && level.Action != ""
}

// partOf returns what a task did or said last, as the record says that it ended; nil for nothing.
func partOf(rec *runlog.Record, r *transcript.Run, t *transcript.Task) *news {
	var d runlog.Settled
	if json.Unmarshal(rec.Data, &d) != nil {
		return nil
	}
	if d.Kind == "model" {
		var resp model.Response
		if d.Error != "" || json.Unmarshal(d.Output, &resp) != nil { // of a failure the task says more
			return nil
		}
		kind := "turn"
		if transcript.Summary(d.Key) {
			kind = "summary"
		}
		return &news{"·", kind, t.Label() + " tokens=" + inwords.Count(resp.Usage.In+resp.Usage.Out)}
	}
	n := len(t.Parts)
	if n == 0 || t.Parts[n-1].Tool == nil || t.Parts[n-1].Tool.Key != d.Key {
		return nil
	}
	var i, call int
	if k, err := fmt.Sscanf(d.Key, "turn-%d/call-%d", &i, &call); k == 2 && err == nil &&
		r.Task(fmt.Sprintf("%s/%s[%d.%d]", rec.Path, d.Name, i+1, call+1)) != nil {
		return nil // it had agents work, whose jobs were told of one by one
	}
	u := t.Parts[n-1].Tool
	line := t.Label() + " " + u.Name
	if u.Arg != "" {
		line += " " + strconv.Quote(u.Arg)
	}
	if u.State == transcript.Failed {
		line += " failed"
	} else {
		line += " ok"
	}
	line += " " + inwords.Brief(u.Time.Elapsed(rec.Time))
	if u.Kind == "job" && u.State == transcript.Failed {
		line += ": " + transcript.Line(u.Result)
	}
	return &news{"·", u.Kind, line}
}
