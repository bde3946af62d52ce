package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

type usageJSON struct {
	In     int `json:"in"`
	Out    int `json:"out"`
	Agents int `json:"agents"`
}

type questionJSON struct {
	Path     string          `json:"path"`
	Key      string          `json:"key"`
	Question string          `json:"question"`
	Options  []string        `json:"options,omitempty"`
	Default  string          `json:"default,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"`  // what fits
	Example  string          `json:"example,omitempty"` // of an answer, where it is more than a text
}

// finishedJSON is the data of the event run.finished.
type finishedJSON struct {
	Status    runlog.Status   `json:"status"`
	Exit      int             `json:"exit"`
	Duration  int64           `json:"duration_ms"`
	Usage     usageJSON       `json:"usage"`
	Output    json.RawMessage `json:"output,omitempty"`
	Skipped   []string        `json:"skipped,omitempty"`
	Questions []questionJSON  `json:"questions,omitempty"`
	Error     *errorJSON      `json:"error,omitempty"`
}

func (e *ending) json() finishedJSON {
	f := finishedJSON{
		Status: e.status, Exit: e.exit, Duration: e.duration.Milliseconds(), Output: e.output, Skipped: e.run.Skipped,
		Usage: usageJSON{e.run.Usage.In, e.run.Usage.Out, e.run.Agents}, Questions: questions(e.open),
	}
	for i, q := range e.open {
		if full := e.full(q); full != nil {
			f.Questions[i].Schema = full.Schema
			if form := formOf(full.Schema); form != nil {
				f.Questions[i].Example = form.with(full.Default).example()
			}
		}
	}
	if e.err != nil {
		f.Error = e.err.json()
	}
	return f
}

func questions(open []*transcript.Question) []questionJSON {
	var out []questionJSON
	for _, q := range open {
		out = append(out, questionJSON{Path: q.Path, Key: q.Key, Question: q.Question, Options: q.Options, Default: q.Default})
	}
	return out
}

// finish says how a run ended: the result on standard output, the rest on standard error.
func (a *app) finish(s *session, e *ending) error {
	e.asked = s.questions()
	if a.programs() {
		a.advise(e)
	}
	switch a.set.output {
	case "jsonl":
		for _, v := range s.views {
			if ev, ok := v.(*events); ok {
				ev.finished(e)
			}
		}
	case "json":
		if err := a.out.json(struct {
			Run      string `json:"run"`
			Workflow string `json:"workflow"`
			finishedJSON
		}{e.id, e.run.Workflow, e.json()}, true); err != nil {
			return err
		}
	default:
		if text := resultText(e.output); text != "" {
			a.out.line(a.term.wrap(text))
		}
	}
	if !a.programs() {
		a.summary(e)
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

// resultText is an output as people read it: a text, the text of an object that has one, else JSON.
func resultText(output json.RawMessage) string {
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(output, &s) == nil {
		return strings.TrimRight(s, "\n")
	}
	var o struct{ Text, Answer string }
	if json.Unmarshal(output, &o) == nil {
		if o.Text != "" {
			return strings.TrimRight(o.Text, "\n")
		}
		if o.Answer != "" {
			return strings.TrimRight(o.Answer, "\n")
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, output, "", "  ") != nil {
		return string(output)
	}
	return b.String()
}

// mostCompleted bounds how many steps completed lists.
const mostCompleted = 10

// completed are the steps of a run that are done, each with the beginning of what it gave.
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
		line := label(t)
		if said = transcript.Line(said); said != "" {
			line += ": " + ansi.Truncate(said, 100, "…")
		}
		out = append(out, line)
	}
	if n := len(out) - mostCompleted; n > 0 {
		out = append(out[:mostCompleted:mostCompleted], fmt.Sprintf("and %d more", n))
	}
	return out
}

// summary is what is said last.
func (a *app) summary(e *ending) {
	if e.err != nil && e.err.Code == "pipe" {
		return
	}
	if !a.set.quiet {
		last := finalLine(e, time.Now())
		if a.term.live {
			last = a.closing(e)
		}
		fmt.Fprintln(a.err, last)
	}
	if e.err != nil && !e.err.shown {
		told := *e.err
		if len(told.Next) == 0 && e.status != runlog.Quarantined {
			told.Next = a.remedies(e.err)
		}
		a.complain(&told)
	}
	for _, line := range lacking(e.run) {
		a.err.line("  " + line)
	}
	if done := completed(e.run); len(e.open) > 0 && len(done) > 0 {
		a.err.line("  Completed steps so far:")
		for _, line := range done {
			a.err.line("    " + line)
		}
	}
	for _, q := range e.open {
		a.err.line("  " + addressed(e.open, q) + " asks: " + transcript.Line(q.Question) + choices(q))
	}
	if a.set.quiet && e.exit == ExitOK {
		return
	}
	a.next(e)
}

func choices(q *transcript.Question) string {
	if len(q.Options) == 0 {
		return ""
	}
	return " [" + strings.Join(q.Options, ", ") + "]"
}

// closing is the completion line on a terminal.
func (a *app) closing(e *ending) string {
	p := palette(a.term.errColor)
	facts := fmt.Sprintf(" %s · ↓ %s tokens · %s", duration(e.duration), count(e.run.Usage.In+e.run.Usage.Out), plural(e.run.Agents, "agent"))
	switch e.status {
	case runlog.Completed:
		return p.green("⣿") + " Workflow completed in" + facts
	case runlog.Partial:
		return p.yellow("⣿") + " Workflow completed in part in" + facts
	case runlog.WaitingStorage:
		return p.yellow("?") + " Workflow waits for storage after" + facts
	case runlog.Paused:
		return p.yellow("?") + " Workflow paused after" + facts
	case runlog.Failed:
		return p.red("✗") + " Workflow failed after" + facts
	case runlog.Cancelled:
		return p.red("■") + " Workflow cancelled after" + facts
	}
	return p.yellow("■") + " Workflow stopped after" + facts
}

// finalLine is the last line of plain progress.
func finalLine(e *ending, now time.Time) string {
	word := string(e.status)
	if e.status == runlog.Completed {
		word = "finished"
	}
	line := fmt.Sprintf("%s run %s %s %s tokens=%s agents=%d", now.Format(time.TimeOnly), e.id, word, duration(e.duration), count(e.run.Usage.In+e.run.Usage.Out), e.run.Agents)
	denied := 0
	for _, q := range e.run.Questions {
		if q.Denied {
			denied++
		}
	}
	if denied > 0 {
		line += fmt.Sprintf(" denied=%d", denied)
	}
	return fmt.Sprintf("%s exit=%d", line, e.exit)
}

// next says what to type next.
func (a *app) next(e *ending) {
	if !a.kept() {
		return
	}
	line := func(what, do string) { a.err.line(fmt.Sprintf("  %-7s %s", what, do)) }
	var o struct{ Report string }
	if json.Unmarshal(e.output, &o) == nil && o.Report != "" {
		line("Report", near(o.Report))
	}
	a.answers(e)
	from, why := e.again()
	switch e.status {
	case runlog.Partial:
		if from != "" {
			line("Again", a.hint("runs", "fork", e.id, "--from", quote(from))+"   "+why)
		}
	case runlog.Quarantined:
		line("Resume", a.hint("runs", "resume", e.id, "--quarantined"))
	case runlog.Failed, runlog.Interrupted, runlog.WaitingStorage:
		switch {
		case e.status == runlog.Failed && from != "":
			line("Again", a.hint("runs", "fork", e.id, "--from", quote(from))+"   "+why)
		case e.exit != ExitUsage:
			line("Resume", a.hint("runs", "resume", e.id))
		}
	case runlog.Paused:
		words := []string{"runs", "resume", e.id}
		if e.run.Short != nil {
			words = append(words, raised(e.run.Short)...)
		}
		if e.run.Short != nil || len(e.open) == 0 {
			line("Resume", a.hint(words...))
		}
	}
	if !e.shown {
		line("Inspect", a.hint("runs", "show", e.id))
	}
}

// near is a path relative to here if it is below.
func near(path string) string {
	wd, err := os.Getwd()
	if err != nil || !filepath.IsAbs(path) {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return "." + string(filepath.Separator) + rel
}
