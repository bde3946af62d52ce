package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// printAnswers prints how to answer the open questions, and the fields of forms.
func printAnswers(a *app, e *ending) {
	for _, q := range e.open {
		title := "Fields"
		for _, line := range q.Fields() {
			a.err.line("  " + pad(title) + " " + q.Address + ": " + line)
			title = ""
		}
	}
	for _, q := range e.open {
		title := "Answer"
		for _, value := range q.Answers() {
			a.err.line("  " + pad(title) + " " + a.hint("runs", "answer", e.id, clean.Shell(q.Address+"="+value)))
			title = ""
		}
	}
}

// A nextStep is a line of nextSteps.
type nextStep struct{ what, do string }

// kin returns which child runs a paused run waits for, with what they wait for, and which parent waits for a run that has ended.
func kin(ctx context.Context, a *app, e *ending) (out []nextStep) {
	engine, info, err := findRun(ctx, a, e.id)
	switch {
	case err != nil:
		return nil
	case info.IsChild() && (info.Status.Ended() || info.Status == runlog.Failed):
		parent, err := engine.Find(ctx, info.Parent)
		if err == nil && !parent.Status.Ended() && parent.Owner == "" {
			out = append(out, nextStep{"Parent", a.hint("runs", "resume", parent.ID) + "   waited for this"})
		}
		return out
	case info.Status != runlog.Paused || e.run.Short != nil:
		return nil
	}
	children, _ := engine.Children(ctx, info.ID)
	for i := range children {
		c := &children[i]
		sum := summary.Of(c)
		switch {
		case c.Status.Ended() || c.Status == runlog.Failed || sum == nil:
		case sum.Open > 0 && len(sum.Questions) > 0:
			q := &sum.Questions[0]
			out = append(out, nextStep{"Child", fmt.Sprintf("%s asks: %s", c.ID, transcript.Line(q.Text))}, nextStep{"Answer", a.hint("runs", "answer", c.ID)})
		case c.Status == runlog.Paused:
			out = append(out, nextStep{"Child", a.hint("runs", "resume", c.ID) + "   is paused"})
		}
		if len(out) >= 2*mostLines {
			return append(out, nextStep{"", a.hint("runs", "list", "--of", e.id) + "   shows all"})
		}
	}
	return out
}

func pad(title string) string { return title + strings.Repeat(" ", max(0, 7-len(title))) }

// lacking returns which tasks of a partial run failed, and which have only part of their result.
func lacking(r *transcript.Run) []string {
	if r.Status != runlog.Partial {
		return nil
	}
	var out []string
	if len(r.Failed) > 0 {
		out = append(out, "failed: "+strings.Join(r.Failed, ", "))
	}
	if len(r.Degraded) > 0 {
		out = append(out, "incomplete: "+strings.Join(r.Degraded, ", "))
	}
	return out
}

// again returns the step to fork the run from so that a gate asks again, or "" if there is none.
func (e *ending) again() (step string) {
	if e.status != runlog.Failed {
		return ""
	}
	return transcript.Top(rejected(e.run))
}

// failedIn returns the words of the command that repeats the failed tasks of a partial run, or nil
// if there is no such command.
func failedIn(ctx context.Context, a *app, id string) []string {
	e, err := superstep.New(a.store, nil)
	if err != nil {
		return nil
	}
	defer e.Close()
	in, tasks, err := e.Failed(ctx, id)
	if err != nil {
		return nil
	}
	if _, _, err := e.Failed(ctx, in); err == nil { // with all else that failed there
		return []string{"runs", "resume", in}
	}
	return []string{"runs", "fork", in, "--from", clean.Shell(transcript.Top(tasks[0]))}
}

// happened returns the task of an effect for which resuming a partial run would be refused, since it must not happen twice and may have happened, or ""
// if there is none. A person has been asked about such an effect.
func happened(ctx context.Context, a *app, e *ending) string {
	if !slices.ContainsFunc(e.run.Questions, func(q *transcript.Question) bool { return q.Kind == runlog.QuestionUnknown }) {
		return ""
	}
	engine, err := a.engine(ctx, "", nil)
	if err != nil {
		return ""
	}
	in, tasks, err := engine.Failed(ctx, e.id)
	if err != nil || in != e.id {
		return ""
	}
	fork, err := engine.Fork(ctx, e.id, 0, &superstep.ForkOptions{Again: tasks, Preview: true})
	if err != nil {
		return ""
	}
	for _, x := range fork.Repeats {
		if x.Unknown {
			return x.Path
		}
	}
	return ""
}

// forkAgain returns the command that does the step with a task again, and what depends on it.
func (a *app) forkAgain(id, task string) string {
	return a.hint("runs", "fork", id, "--from", clean.Shell(transcript.Top(task)))
}

// rejected returns the task that a user rejected so that the run failed, or "" if there is none.
func rejected(r *transcript.Run) string {
	for i := len(r.Questions) - 1; i >= 0; i-- {
		q := r.Questions[i]
		if q.Key != "gate" && !strings.HasPrefix(q.Key, "gate-") && !strings.HasPrefix(q.Key, "gate/") || !q.Answered {
			continue
		}
		var o struct{ Decision string }
		_ = json.Unmarshal([]byte(q.Answer), &o) // it may be a text
		if q.Denied || strings.HasPrefix(q.Answer, "reject") || o.Decision == "reject" {
			return q.Path
		}
	}
	return ""
}

// adviseLimit adds the advice about a limit to the error. Programs read only the error.
func adviseLimit(a *app, e *ending) {
	short := e.run.Short
	if e.err == nil || short == nil || e.status != runlog.Paused || len(e.err.Next) > 0 || !a.kept() {
		return
	}
	if flag := raised(short); flag != nil {
		e.err.Next = []string{"go on with a larger budget: " + a.hint(append([]string{"runs", "resume", cmp.Or(short.Run, e.id)}, flag...)...)}
	}
}
