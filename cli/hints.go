package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// answers says how the open questions are answered, and what the fields of forms are.
func (a summary) answers() {
	e := a.e
	if len(e.open) == 0 {
		return
	}
	for _, q := range e.open {
		title := "Fields"
		for _, line := range formOf(q.Asked.Schema).with(q.Asked.Default).lines() {
			a.err.line("  " + pad(title) + " " + addressed(e.open, q) + ": " + line)
			title = ""
		}
	}
	for _, q := range e.open {
		title := "Answer"
		for _, value := range answersTo(q) {
			a.err.line("  " + pad(title) + " " + a.hint("runs", "answer", e.id, quote(addressed(e.open, q)+"="+value)))
			title = ""
		}
	}
}

func pad(title string) string { return title + strings.Repeat(" ", max(0, 7-len(title))) }

// answersTo are answers to a question as they may be given: one such as it is wanted, or where a text may
// follow a word all there are.
func answersTo(q *transcript.Question) []string {
	asked := &q.Asked
	if len(asked.Options) == 0 {
		if f := formOf(asked.Schema); f != nil {
			return []string{f.with(asked.Default).example()}
		}
		if kind := typeOf(asked.Schema); kind != "" && kind != "string" {
			return []string{string((&formField{Type: kind, Default: asked.Default}).example())}
		}
	}
	switch {
	case len(q.Options) == 0, agent.Permission(asked): // nobody is to allow a call by copying a line
		return []string{"VALUE"}
	case !gated(asked):
		return q.Options[:1]
	}
	var out []string
	for i, o := range asked.Options {
		all := spellings(asked, o)
		out = append(out, all[min(i, len(all)-1)]) // the first without a reason, the others with one
	}
	return out
}

// lacking says which tasks of a run that ended in part failed, and which gave less than was wanted.
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

// again is the step from which a fork of the run asks once more at a gate, "" for none.
func (e *ending) again() (step string) {
	if e.status != runlog.Failed {
		return ""
	}
	return topNode(rejected(e.run))
}

// failedIn returns the words of the command that does again what failed in a partial run, nil if none can.
func (a *app) failedIn(ctx context.Context, id string) []string {
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
	return []string{"runs", "fork", in, "--from", quote(topNode(tasks[0]))}
}

// rejected is the task that a person did not let go on, for which the run failed; "" for none.
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

// advise puts what to do about a limit into the error, for programs, which are told nothing else.
func (a summary) advise() {
	e := a.e
	short := e.run.Short
	if e.err == nil || short == nil || e.status != runlog.Paused || len(e.err.Next) > 0 || !a.kept() {
		return
	}
	if flag := raised(short); flag != nil {
		e.err.Next = []string{"go on with a larger budget: " + a.hint(append([]string{"runs", "resume", e.id}, flag...)...)}
	}
}
