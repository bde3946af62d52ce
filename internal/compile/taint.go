package compile

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/tool"
)

// tracked returns the scope of the step, which notes in took what the values come from that are read.
func (w *work) tracked() *recipe.Scope {
	sees := *w.scope
	sees.Step = func(id string) (*recipe.Result, bool) {
		r, ok := w.scope.Step(id)
		if ok {
			w.took = append(w.took, w.saw(id)...)
		}
		return r, ok
	}
	return &sees
}

// saw returns what the result of a step comes from, of the block of this one or around it.
func (w *work) saw(id string) []string {
	if w.task == nil {
		return nil
	}
	if _, here := w.state.find(id); here {
		return agent.Saw(w.task.Scope().Marks, strings.TrimSuffix(w.task.Scope().Path(), w.step.ID)+id)
	}
	if w.around == nil || w.around.saw == nil {
		return nil
	}
	return w.around.saw(id)
}

// named returns the addresses that a text of the recipe has without what steps gave, unless no stranger has written any of it: then all.
func (w *work) named(text func(*recipe.Scope) (string, error)) []string {
	sees := *w.scope
	if slices.ContainsFunc(w.took, tool.Stranger) {
		sees.Vars = nil
		sees.Step = func(id string) (*recipe.Result, bool) {
			r, ok := w.scope.Step(id)
			if ok {
				r = &recipe.Result{Status: r.Status}
			}
			return r, ok
		}
	}
	said, err := text(&sees)
	if err != nil { // it reads a field of what a step gave
		return nil
	}
	return clean.Links(said)
}

// decided records what decides whether the step runs, for it and for the steps inside of it.
func (w *work) decided(ctx context.Context) error {
	if w.step.OfError {
		w.took = append(w.took, w.saw("")...)
	}
	_, err := w.task.Scope().Mark(ctx, "when", agent.Within(w.took))
	return err
}

// keeps records what the result of a step comes from that another attempt of its block has given.
func keeps(ctx context.Context, scope *journal.Scope, id string) error {
	const again = "/~[" // see graph.Task.Nested
	path := scope.Path()
	block := path[:max(0, strings.LastIndex(path, again))]
	saw := agent.Saw(func(f func(string, []string) bool) {
		scope.Marks(func(p string, words []string) bool {
			if try, is := strings.CutPrefix(p, block+again); is {
				_, step, _ := strings.Cut(try, "/")
				p = block + "/" + step
			}
			return f(p, words)
		})
	}, block+"/"+id)
	_, err := scope.Mark(ctx, "keeps", agent.Within(saw))
	return err
}

// quotes records what the step comes from when it fails before it begins: the error may quote what it names. It returns that error.
func (w *work) quotes(ctx context.Context, why error) error {
	_, err := w.task.Scope().Mark(ctx, "quotes", agent.Within(w.took))
	return cmp.Or(err, why)
}

// inherits records what the step comes from, for whoever reads its result and for the steps inside of it.
func (w *work) inherits(ctx context.Context) error {
	if w.took == nil {
		w.took = []string{}
	}
	s := w.step
	switch {
	case s.Agent != nil, s.Tool != nil, s.Ask != nil: // the first two record it themselves, and an answer is the user's
		return nil
	case s.Foreach != nil: // an error says what it has found instead
		_, _ = s.Foreach.In.Resolve(w.tracked())
	case s.Value != nil:
		_, _ = s.Value.Value(w.tracked())
	case s.Workflow != nil && (s.Workflow.Detached || w.bundle.find(s.Workflow.Name) == nil):
		w.took = append(w.took, "run_workflow") // what it gives is the work of agents
	case s.Parallel != nil, s.Loop != nil: // its output may name steps around it
		var within []string
		for _, id := range s.Reads {
			r, ok := w.scope.Step(id)
			if ok && r.Status != recipe.Skipped {
				w.took = append(w.took, w.saw(id)...)
			}
			if s.Loop != nil && s.Loop.Until != nil && slices.ContainsFunc(s.Loop.Until.Refs(), func(r recipe.Ref) bool { return r.Step() == id }) {
				within = append(within, agent.Within(w.saw(id))...) // how many rounds there are
			}
		}
		_, err := w.task.Scope().Mark(ctx, "inherits", append(within, agent.Seen(w.took)...))
		return err
	}
	_, err := w.task.Scope().Mark(ctx, "inherits", agent.Within(w.took))
	return err
}
