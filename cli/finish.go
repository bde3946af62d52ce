package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/transcript"
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
	Exit     int              `json:"exit"`
	Duration int64            `json:"duration_ms"`
	Usage    transcript.Usage `json:"usage"`
	Output   json.RawMessage  `json:"output,omitempty"`
	stepLists
	Questions []questionJSON `json:"questions,omitempty"`
	Error     *errorJSON     `json:"error,omitempty"`
}

// stepLists are the tasks of a run that did not give all that was wanted, by their paths.
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
	for i := range f.Questions {
		q := &f.Questions[i]
		q.Schema = q.Asked.Schema
		if form := formOf(q.Schema); form != nil {
			q.Example = form.with(q.Asked.Default).example()
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
		out = append(out, questionJSON{Question: q})
	}
	return out
}

// finish says how a run ended: the result on standard output, the rest on standard error.
func (a runsCommands) finish(s *session, e *ending) error {
	if a.programs() {
		summary{a.app, e}.advise()
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
		if text := a.term.result(e.output); text != "" {
			fmt.Fprintln(a.out, text)
		}
	}
	if !a.programs() {
		summary{a.app, e}.print()
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

// result is an output as people read it: a text, the text of an object that has one, else JSON. Of an object with a
// text and a folder of documents, places in that folder are links.
func (t *terminal) result(output json.RawMessage) string {
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	var o struct{ Text, Answer, Docs string }
	if json.Unmarshal(output, &o.Text) != nil {
		_ = json.Unmarshal(output, &o) // what is no such object is shown as it is
	}
	if said := strings.TrimRight(cmp.Or(o.Text, o.Answer), "\n"); said != "" {
		return t.markdown(said, o.Docs)
	}
	var b bytes.Buffer
	switch {
	case output[0] == '"': // an empty text
		return ""
	case json.Indent(&b, output, "", "  ") != nil:
		b.Write(output)
	}
	return t.wrap(transcript.Clean(b.String()))
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

// summary is what is said last about a run.
type summary struct {
	*app
	e *ending
}

func (a summary) print() {
	e := a.e
	if e.err != nil && e.err.Code == "pipe" {
		return
	}
	if !a.set.quiet {
		last := finalLine(e, time.Now())
		if a.term.live {
			last = closing(palette(a.term.errColor), e)
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
		if q.Call == nil {
			a.err.line("  " + addressed(e.open, q) + " asks: " + transcript.Line(headed(q.Header, q.Question)) + choices(q))
			continue
		}
		for _, line := range described(addressed(e.open, q), q, palette(a.term.errColor)) {
			a.err.line("  " + line)
		}
	}
	if a.set.quiet && e.exit == ExitOK {
		return
	}
	a.next()
}

func choices(q *transcript.Question) string {
	if len(q.Options) == 0 {
		return ""
	}
	return " [" + strings.Join(q.Options, ", ") + "]"
}

// closing is the completion line on a terminal.
func closing(p palette, e *ending) string {
	sign, how := p.yellow("■"), "stopped after"
	switch e.status {
	case runlog.Completed:
		sign, how = p.green("⣿"), "completed in"
	case runlog.Partial:
		sign, how = p.yellow("⣿"), "completed in part in"
	case runlog.WaitingStorage:
		sign, how = p.yellow("?"), "waits for storage after"
	case runlog.Paused:
		sign, how = p.yellow("?"), "paused after"
	case runlog.Failed:
		sign, how = p.red("✗"), "failed after"
	case runlog.Cancelled:
		sign, how = p.red("■"), "cancelled after"
	}
	return sign + " Workflow " + how + " " + strings.Join(append([]string{duration(e.duration)}, spent(e.run)...), " · ")
}

// spent are the tokens and agents of a run, nil if it has none.
func spent(r *transcript.Run) []string {
	tokens := r.Usage.In + r.Usage.Out
	if tokens == 0 && len(r.Agents) == 0 {
		return nil
	}
	return []string{"↓ " + count(tokens) + " tokens", plural(len(r.Agents), "agent")}
}

// finalLine is the last line of plain progress.
func finalLine(e *ending, now time.Time) string {
	word := string(e.status)
	if e.status == runlog.Completed {
		word = "finished"
	}
	line := fmt.Sprintf("%s run %s %s %s tokens=%s agents=%d", now.Format(time.TimeOnly), e.id, word, duration(e.duration),
		count(e.run.Usage.In+e.run.Usage.Out), len(e.run.Agents))
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
func (a summary) next() {
	e := a.e
	if !a.kept() {
		return
	}
	line := func(what, do string) { a.err.line(fmt.Sprintf("  %-7s %s", what, do)) }
	var o struct{ Report *string }
	if json.Unmarshal(e.output, &o) == nil && o.Report != nil {
		if dir, _ := a.host().Folder(e.id); *o.Report == "" && dir != "" {
			*o.Report = filepath.Join(dir, "reports", "report.md")
		}
		if *o.Report != "" {
			line("Report", near(*o.Report))
		}
	}
	a.answers()
	switch from := e.again(); e.status {
	case runlog.Partial:
		if do := a.failedIn(context.Background(), e.id); do != nil {
			line("Resume", a.hint(do...)+"   does again what failed, and what follows")
		}
	case runlog.Quarantined:
		line("Resume", a.hint("runs", "resume", e.id, "--quarantined"))
	case runlog.Failed, runlog.Interrupted, runlog.WaitingStorage:
		switch {
		case e.status == runlog.Interrupted && e.run.Seq == 0:
			line("Remove", a.hint("runs", "rm", e.id))
		case e.status == runlog.Failed && from != "":
			line("Again", a.hint("runs", "fork", e.id, "--from", quote(from))+"   asks again")
		case e.exit != ExitUsage:
			line("Resume", a.hint("runs", "resume", e.id))
		}
	case runlog.Paused:
		words := []string{"runs", "resume", e.id}
		if e.run.Short != nil {
			words = append(words, raised(e.run.Short)...)
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
