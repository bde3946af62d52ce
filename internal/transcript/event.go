package transcript

import (
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/runlog"
)

func (r *Run) applyEvent(rec *runlog.Record) {
	d, ok := decode[runlog.Event](rec)
	if !ok {
		return
	}
	if rec.Path == "" { // of the run
		var why struct{ Cause string }
		if b := mail.BudgetOf(rec); b != nil {
			r.Budget = b.Budget
		}
		if d.Name == "interrupted" && rec.Seq != 0 && json.Unmarshal(d.Data, &why) == nil {
			r.By = Line(why.Cause)
			r.halt(runlog.Interrupted, rec.Time)
		}
		return
	}
	switch {
	case rec.Seq == 0 && d.Name != "progress" && r.asks(rec.Path): // it began again, and waits on
	case d.Name == "task.started":
		var task struct{ Step int }
		if json.Unmarshal(d.Data, &task) != nil {
			return
		}
		fresh := r.paths[rec.Path] == nil
		t := r.work(rec.Path, task.Step, rec.Time)
		if fresh {
			t.Time = Span{since: rec.Time}
		}
	case d.Name == "note":
		var note struct{ Text string }
		if json.Unmarshal(d.Data, &note) != nil || note.Text == "" {
			return
		}
		r.add(r.tells(rec), "", Part{Kind: Note, Text: Clean(note.Text)})
	case d.Name == "progress" && rec.Seq == 0:
		var p Progress
		if t := r.paths[rec.Path]; t != nil && json.Unmarshal(d.Data, &p) == nil {
			p.Text = Line(p.Text)
			if t.Progress = &p; p.Done >= p.All {
				t.Progress = nil
			}
		}
	case d.Name == "denied" && rec.Seq != 0:
		var no struct {
			Agent, Tool, Subject, Reason, Always string
			Missing                              []string
		}
		if json.Unmarshal(d.Data, &no) != nil || no.Tool == "" {
			return
		}
		denial := Denial{rec.Path, Line(no.Agent), Line(no.Tool), Clean(no.Subject), Clean(no.Reason), Line(no.Always), nil, ""}
		if len(no.Missing) > 0 {
			denial.Missing = lines(no.Missing)
		}
		r.Denied = append(r.Denied, denial)
		r.add(r.tells(rec), "", Part{Kind: Note, Text: "denied " + denial.String() + " (nobody to ask)"})
	case d.Name == "context" && rec.Seq != 0:
		var level struct{ Action string }
		if json.Unmarshal(d.Data, &level) != nil {
			return
		}
		if text := map[string]string{"compacted": "the conversation so far was summed up",
			"cleared": "old results of tools were cut down"}[level.Action]; text != "" {
			r.add(r.tells(rec), "", Part{Kind: Compacted, Text: text})
		}
	case d.Name == cut.Event:
		if c, t := cut.Of(rec), r.paths[rec.Path]; c != nil && t != nil && c.Kind == "model" {
			r.settleTurn(t, c, rec.Time, true)
		}
	case d.Name == "tasks" && rec.Seq != 0:
		r.listed(rec, d.Data)
	case d.Name == "error_input" && rec.Seq != 0:
		var in struct{ Steps []string }
		if json.Unmarshal(d.Data, &in) == nil {
			r.tells(rec).Bad = lines(in.Steps)
		}
	case (d.Name == "not_run" || d.Name == "degraded") && rec.Seq != 0:
		var note struct{ Why string }
		if json.Unmarshal(d.Data, &note) != nil {
			return
		}
		t := r.tells(rec)
		if t.Why, t.fate = Clean(note.Why), Skipped; d.Name == "degraded" {
			t.fate = Partly
		}
	case rec.Seq != 0: // what follows is live-only
	case d.Name == "task.queued": // for a place; that is no execution time
		t := r.work(rec.Path, -1, rec.Time)
		t.Time, t.Queued = Span{spent: t.stored}, true
	case d.Name == "agent.queued": // it may have worked before
		t := r.work(rec.Path, -1, rec.Time)
		t.Time.stop(rec.Time)
		t.Queued = true
	case d.Name == "task.works", d.Name == "agent.works":
		r.work(rec.Path, -1, rec.Time)
	case d.Name == "model.retry":
		var wait struct {
			Until          time.Time
			Error, Limited string
		}
		if json.Unmarshal(d.Data, &wait) != nil {
			return
		}
		t := r.work(rec.Path, -1, rec.Time)
		t.RetryAt, t.Limit, t.Trouble = wait.Until, Line(wait.Limited), Line(wait.Error)
	case d.Name == "text", d.Name == "reasoning":
		var delta struct{ Agent, Text string }
		if json.Unmarshal(d.Data, &delta) != nil {
			return
		}
		t := r.paths[rec.Path]
		if r.heard = t != nil && t.State == Running && t.Thinking && !t.Queued && t.RetryAt.IsZero() && !t.Time.since.IsZero(); !r.heard {
			t = r.work(rec.Path, -1, rec.Time)
		}
		t.Thinking = true
		if d.Name == "text" && !t.Summing {
			t.hear(delta.Text)
		}
	}
}
