package compile

import (
	"context"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/recipe"
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
func (w *work) named(t *recipe.Template, text string) []string {
	if !slices.ContainsFunc(w.took, tool.Stranger) {
		return clean.Links(text)
	}
	bare := *w.scope
	bare.Vars = nil
	bare.Step = func(id string) (*recipe.Result, bool) {
		r, ok := w.scope.Step(id)
		if ok {
			r = &recipe.Result{Status: r.Status}
		}
		return r, ok
	}
	text, err := t.Render(&bare)
	if err != nil { // it reads a field of what a step gave
		return nil
	}
	return clean.Links(text)
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
	case s.Foreach != nil:
		if _, err := s.Foreach.In.Resolve(w.tracked()); err != nil {
			return nil // it will say so
		}
	case s.Value != nil:
		if _, err := s.Value.Value(w.tracked()); err != nil {
			return nil
		}
	case s.Workflow != nil && (s.Workflow.Detached || w.bundle.find(s.Workflow.Name) == nil):
		w.took = append(w.took, "run_workflow") // what it gives is the work of agents
	case s.Parallel != nil, s.Loop != nil: // its output may name steps around it
		for _, id := range s.Reads {
			if r, ok := w.scope.Step(id); ok && r.Status != recipe.Skipped {
				w.took = append(w.took, w.saw(id)...)
			}
		}
		_, err := w.task.Scope().Mark(ctx, "inherits", agent.Seen(w.took))
		return err
	}
	_, err := w.task.Scope().Mark(ctx, "inherits", agent.Within(w.took))
	return err
}
