package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/events"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// questionJSON is an open question.
type questionJSON struct {
	*transcript.Question
	Schema  json.RawMessage `json:"schema,omitempty"`  // what fits
	Example string          `json:"example,omitempty"` // of an answer, where it is more than a text
}

// finishedJSON is the data of the event run.finished.
type finishedJSON struct {
	Status   runlog.Status    `json:"status"`
	Reason   string           `json:"reason,omitempty"` // "message": it waits for the next message of a conversation
	Exit     int              `json:"exit"`
	Duration int64            `json:"duration_ms"`
	Usage    transcript.Usage `json:"usage"`
	Output   json.RawMessage  `json:"output,omitempty"`
	stepLists
	Questions []questionJSON `json:"questions,omitempty"`
	Error     *errorJSON     `json:"error,omitempty"`
}

// stepLists holds the paths of the tasks of a run that failed, were skipped or have only part of
// their result.
type stepLists struct {
	Failed   []string `json:"failed,omitempty"`
	Degraded []string `json:"degraded,omitempty"` // they gave less than was wanted
	Skipped  []string `json:"skipped,omitempty"`  // they had no reason to run
}

func stepsOf(r *transcript.Run) stepLists { return stepLists{r.Failed, r.Degraded, r.Skipped} }

func (e *ending) json() finishedJSON {
	f := finishedJSON{
		Status: e.status, Exit: e.exit, Duration: e.duration.Milliseconds(), Output: e.output, stepLists: stepsOf(e.run),
		Usage: e.run.Used(), Questions: questions(e.open),
	}
	if e.awaits {
		f.Reason = host.ReasonMessage
	}
	for i := range f.Questions {
		f.Questions[i].Schema, f.Questions[i].Example = e.open[i].Asked.Schema, e.open[i].Example()
	}
	if e.err != nil {
		f.Error = e.err.json()
	}
	return f
}

func questions(open []tui.Question) []questionJSON {
	var out []questionJSON
	for _, q := range open {
		out = append(out, questionJSON{Question: q.Question})
	}
	return out
}

// finishRun prints how a run ended: the result on standard output, everything else on standard
// error.
func finishRun(a *app, s *tui.Session, stream *events.Stream, e *ending) error {
	if a.programs() {
		adviseLimit(a, e)
	}
	switch a.set.output {
	case "jsonl":
		stream.Put(&events.Event{Run: e.id, Type: "run.finished", Data: e.json()}, time.Now())
	case "json":
		if err := a.out.json(struct {
			Run      string `json:"run"`
			Workflow string `json:"workflow"`
			finishedJSON
		}{e.id, e.run.Workflow, e.json()}, true); err != nil {
			return err
		}
	default:
		if text := a.tty.Result(e.output); text != "" {
			fmt.Fprintln(a.out, text)
		}
	}
	if !a.programs() {
		summarize(a, s, e)
	} else if e.err != nil && !e.err.shown {
		_ = a.err.json(struct {
			Error *errorJSON `json:"error"`
		}{e.err.json()}, false)
	}
	if e.exit == ExitOK {
		return nil
	}
	return &Error{Exit: e.exit, Code: "run", Message: string(e.status), shown: true}
}

const (
	mostSteps = 10 // that a summary lists
	mostLines = 60 // of an open question, at the end of a command
)

// completed returns the finished steps of a run, each with the beginning of its output.
func completed(r *transcript.Run) []string {
	var out []string
	for _, t := range r.Tasks {
		if strings.Contains(t.Path, "/") || t.State != transcript.Done && t.State != transcript.Partly {
			continue
		}
		said := t.Last()
		if n := len(t.Parts); said == "" && n > 0 && t.Parts[n-1].Tool != nil {
			said = t.Parts[n-1].Tool.Result
		}
		line := t.Label()
		if said = transcript.Line(said); said != "" {
			line += ": " + ansi.Truncate(said, 100, "…")
		}
		out = append(out, line)
	}
	return out
}

// failedSteps returns the steps of a run that failed although it goes on, each with the reason.
func failedSteps(r *transcript.Run) []string {
	var out []string
	for _, t := range r.Tasks {
		if t.Parent == nil && t.State == transcript.Failed {
			out = append(out, t.Label()+": "+transcript.Line(t.Error))
		}
	}
	return out
}

// listSteps lists what became of steps of a paused run.
func listSteps(a *app, how string, steps []string) {
	for i, line := range steps {
		switch i {
		case 0:
			a.err.line("  " + how + " steps so far:")
		case mostSteps:
			a.err.line(fmt.Sprintf("    and %d more", len(steps)-i))
			return
		}
		a.err.line(a.tty.Wrap("    " + line))
	}
}

// summarize prints the summary of a run.
func summarize(a *app, s *tui.Session, e *ending) {
	if e.err != nil && e.err.Code == "pipe" {
		return
	}
	if !a.set.Quiet {
		fmt.Fprintln(a.err, s.LastLine(e.status, e.exit, e.duration))
	}
	if e.err != nil && !e.err.shown {
		told := *e.err
		if len(told.Next) == 0 && e.status != runlog.Quarantined {
			told.Next = remedies(a, e.err)
		}
		complain(a, &told)
	}
	for _, line := range lacking(e.run) {
		a.err.line("  " + line)
	}
	if len(e.open) > 0 {
		listSteps(a, "Completed", completed(e.run))
		listSteps(a, "Failed", failedSteps(e.run))
		if denied := withoutLeave(e.run, e.id); denied != nil {
			a.err.line(a.tty.Wrap("  " + denied.Next[0]))
		}
	}
	for _, q := range e.open {
		lines := []string{q.Headline()}
		if q.Call != nil || tui.Long(q.Question.Question) {
			lines = q.Lines(a.tty.Err)
		}
		if n := len(lines) - mostLines; n > 1 && q.Call == nil {
			lines = append(lines[:mostLines:mostLines], fmt.Sprintf("… and %d more lines: %s", n, a.hint("runs", "show", e.id)))
		}
		for _, line := range lines {
			a.err.line("  " + line)
		}
	}
	if a.set.Quiet && e.exit == ExitOK {
		return
	}
	nextSteps(a, e)
}

// nextSteps prints the commands to type next.
func nextSteps(a *app, e *ending) {
	if !a.kept() {
		return
	}
	line := func(what, do string) { a.err.line("  " + pad(what) + " " + do) }
	var o struct{ Report *string }
	if json.Unmarshal(e.output, &o) == nil && o.Report != nil {
		if dir, _ := a.host().Folder(e.id); *o.Report == "" && dir != "" {
			*o.Report = filepath.Join(dir, "reports", "report.md")
		}
		if *o.Report != "" {
			line("Report", a.near(*o.Report))
		}
	}
	printAnswers(a, e)
	for _, l := range kin(context.Background(), a, e) {
		line(l.what, l.do)
	}
	switch from := e.again(); e.status {
	case runlog.Partial:
		if task := happened(context.Background(), a, e); task != "" {
			line("Again", a.forkAgain(e.id, task)+"   if it did not happen, or may again")
		} else if do := failedIn(context.Background(), a, e.id); do != nil {
			line("Resume", a.hint(do...)+"   does again what failed, and what follows")
		}
	case runlog.Queued:
		line("Resume", a.hint("runs", "resume", e.id)+"   executes it here")
	case runlog.Quarantined:
		line("Resume", a.hint("runs", "resume", e.id, "--quarantined"))
	case runlog.Failed, runlog.Interrupted, runlog.WaitingStorage:
		switch {
		case e.status == runlog.Interrupted && e.run.Seq == 0:
			line("Remove", a.hint("runs", "rm", e.id))
		case e.status == runlog.Failed && from != "":
			line("Again", a.forkAgain(e.id, from)+"   asks again")
		case e.exit != ExitUsage:
			line("Resume", a.hint("runs", "resume", e.id))
		}
	case runlog.Paused:
		if e.awaits {
			line("Reply", continues(a, e.id))
			break
		}
		words := []string{"runs", "resume", e.id}
		if short := e.run.Short; short != nil {
			words = append([]string{"runs", "resume", cmp.Or(short.Run, e.id)}, raised(short)...)
		}
		hint := a.hint(words...)
		if e.run.Short == nil && len(e.open) > 0 {
			hint += "   asks again, on a terminal"
		}
		line("Resume", hint)
	}
	if !e.shown {
		line("Inspect", a.hint("runs", "show", e.id))
	}
}

// near returns a path as shownPath does, and begins one that lies below the current folder with a dot.
func (a *app) near(path string) string {
	if short := a.shownPath(path); short != path {
		return "." + string(filepath.Separator) + short
	}
	return path
}
