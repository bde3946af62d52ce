package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// full is an open question with all there is to know of it, nil if that is not known.
func (e *ending) full(q *transcript.Question) *runlog.OpenQuestion {
	for i := range e.asked {
		if o := &e.asked[i]; transcript.Line(o.Path) == q.Path && transcript.Line(o.Key) == q.Key {
			return o
		}
	}
	return nil
}

// answers says how the first of the open questions is answered, and what the fields of all forms are.
func (a *app) answers(e *ending) {
	if len(e.open) == 0 {
		return
	}
	if e.asked == nil && a.store != nil {
		e.asked, _ = a.openQuestions(context.Background(), e.id) // a hint may know less
	}
	for _, q := range e.open {
		full := e.full(q)
		if full == nil {
			continue
		}
		title := "Fields"
		for _, line := range formOf(full.Schema).with(full.Default).lines() {
			a.err.line("  " + pad(title) + " " + addressed(e.open, q) + ": " + line)
			title = ""
		}
	}
	title := "Answer"
	for _, value := range e.values(e.open[0]) {
		a.err.line("  " + pad(title) + " " + a.hint("runs", "answer", e.id, quote(addressed(e.open, e.open[0])+"="+value)))
		title = ""
	}
}

func pad(title string) string { return title + strings.Repeat(" ", max(0, 7-len(title))) }

// values are answers to a question as they may be given: one such as it is wanted, or where a text may
// follow a word all there are.
func (e *ending) values(q *transcript.Question) []string {
	full := e.full(q)
	if full != nil && len(full.Options) == 0 {
		if f := formOf(full.Schema); f != nil {
			return []string{f.with(full.Default).example()}
		}
		var schema struct{ Type string }
		_ = json.Unmarshal(full.Schema, &schema) // a type may be a list, too
		if schema.Type != "" && schema.Type != "string" {
			return []string{string((&formField{Type: schema.Type, Default: full.Default}).example())}
		}
	}
	switch {
	case len(q.Options) == 0:
		return []string{"VALUE"}
	case full == nil || agent.Permission(&full.Asked) || !gated(&full.Asked):
		return q.Options[:1]
	}
	var out []string
	for _, o := range full.Options {
		word, open := opening(&full.Asked, o)
		switch {
		case open:
			out = append(out, word+": NEW TEXT")
		case reasoned(&full.Asked, o) && len(out) > 0: // with a reason or without
			out = append(out, o+": WHY")
		default:
			out = append(out, o)
		}
	}
	return out
}

// lacking says which tasks of a run that ended in part failed, and which gave less than was wanted.
func lacking(r *transcript.Run) []string {
	if r.Status != runlog.Partial {
		return nil
	}
	var failed, less, out []string
	for _, path := range r.Skipped {
		if t := r.Task(path); t != nil && t.State == transcript.Partly {
			less = append(less, path)
		} else {
			failed = append(failed, path)
		}
	}
	if len(failed) > 0 {
		out = append(out, "failed: "+strings.Join(failed, ", "))
	}
	if len(less) > 0 {
		out = append(out, "incomplete: "+strings.Join(less, ", "))
	}
	return out
}

// again is the step from which a fork of the run does what failed once more, "" for none, and what
// that is good for.
func (e *ending) again() (step, why string) {
	bad := map[string]bool{}
	switch e.status {
	case runlog.Partial:
		why = "does again what failed, and what follows"
		for _, path := range e.run.Skipped {
			bad[topNode(path)] = true
		}
	case runlog.Failed:
		why = "asks again"
		if path := rejected(e.run); path != "" {
			bad[topNode(path)] = true
		}
	}
	for _, t := range e.run.Tasks { // in the order in which they began
		if bad[topNode(t.Path)] {
			return topNode(t.Path), why
		}
	}
	return "", ""
}

// rejected is the task that a person did not let go on, for which the run failed; "" for none.
func rejected(r *transcript.Run) string {
	for i := len(r.Questions) - 1; i >= 0; i-- {
		q := r.Questions[i]
		if q.Key != "gate" && !strings.HasPrefix(q.Key, "gate-") || !q.Answered {
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
func (a *app) advise(e *ending) {
	short := e.run.Short
	if e.err == nil || short == nil || e.status != runlog.Paused || len(e.err.Next) > 0 || !a.kept() {
		return
	}
	if flag := raised(short); flag != nil {
		e.err.Next = []string{"go on with a larger budget: " + a.hint(append([]string{"runs", "resume", e.id}, flag...)...)}
	}
}
