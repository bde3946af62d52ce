package rundir

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// note writes the line of a record into the log for users.
func (f *Folder) note(r *runlog.Record) {
	what := say(r)
	if what == "" {
		return
	}
	path := ""
	if r.Path != "" {
		path = transcript.Line(r.Path) + ": "
	}
	fmt.Fprintf(&f.log, "%s %6d %s%s\n", r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Seq, path, transcript.Line(what))
}

// say describes a record in words, or returns "" if it is not for users.
func say(r *runlog.Record) string {
	var d struct {
		Title, Workflow, Error, Code, Reason, Node, Kind, Name, Question, By string
		Waiting                                                              []string
		Attempt, Step, Steps                                                 int
		Final, Denied                                                        bool
		Answer, Data                                                         json.RawMessage
	}
	_ = json.Unmarshal(r.Data, &d) // as far as it says
	switch r.Kind {
	case runlog.KindRunStarted:
		return fmt.Sprintf("the run of %s starts: %s", d.Workflow, d.Title)
	case runlog.KindRunResumed:
		return "the run is resumed"
	case runlog.KindRunPaused:
		return "the run pauses: " + cmp.Or(d.Reason, strings.Join(d.Waiting, ", ")+" waits")
	case runlog.KindRunFailed:
		return fmt.Sprintf("the run fails (%s): %s", d.Code, d.Error)
	case runlog.KindRunCancelled:
		return "the run is cancelled"
	case runlog.KindRunFinished:
		return fmt.Sprintf("the run ends after %d supersteps", d.Steps)
	case runlog.KindTaskDone:
		if d.Error != "" {
			return "skipped: " + d.Error
		}
		return "done"
	case runlog.KindTaskFailed:
		return fmt.Sprintf("attempt %d failed: %s", d.Attempt, d.Error)
	case runlog.KindStepCommitted:
		return fmt.Sprintf("superstep %d is committed", d.Step)
	case runlog.KindIntended:
		return fmt.Sprintf("%s %s begins", d.Kind, d.Name)
	case runlog.KindSettled:
		if d.Error != "" {
			return fmt.Sprintf("%s %s failed: %s", d.Kind, d.Name, d.Error)
		}
		return fmt.Sprintf("%s %s is done", d.Kind, d.Name)
	case runlog.KindAsked:
		return "asks: " + d.Question
	case runlog.KindAnswered:
		if d.Denied {
			return "is given no answer"
		}
		return "is answered: " + transcript.Value(d.Answer)
	case runlog.KindEvent:
		var note struct{ Text string }
		if d.Name == "note" && json.Unmarshal(d.Data, &note) == nil {
			return note.Text
		}
	}
	return ""
}
