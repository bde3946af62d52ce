package compile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/workflow"
)

// detached runs a workflow as a run of its own. Called is its recipe, or nil if it is a workflow of the host.
func (w *work) detached(ctx context.Context, called *recipe.Recipe, inputs json.RawMessage) (g given, err error) {
	call := w.step.Workflow
	var n graph.Nested
	if called != nil {
		n, err = w.callee(called)
	} else {
		n, err = w.task.Workflow(call.Name)
	}
	if err != nil {
		return g, err
	}
	inputs, err = graph.Do(ctx, "inputs", func(context.Context, string) (json.RawMessage, error) { return n.Settle(inputs) })
	if err != nil {
		return g, err
	}
	end, err := w.task.Child(ctx, "", n, inputs, &graph.Child{Place: call.Place, Budget: budget(call.Budget)})
	if err == nil {
		err = graph.ChildError(call.Name, end)
	}
	if err != nil {
		return g, err
	}
	g.output = end.Output
	if len(end.Skipped) > 0 {
		w.task.PassOver("")
		g.degraded, g.failed = "in its run failed: "+strings.Join(end.Skipped, ", "), true
	}
	return g, nil
}

// callee returns a recipe of the bundle as a workflow, which has the folder, the rules and the parts of this run.
func (w *work) callee(called *recipe.Recipe) (graph.Nested, error) {
	b := &Bundle{Main: called}
	for todo := []*recipe.Recipe{called}; len(todo) > 0; todo = todo[1:] {
		for _, name := range todo[0].Uses() {
			if r := w.bundle.find(name); r != nil && r != called && !slices.Contains(b.Uses, r) {
				b.Uses, todo = append(b.Uses, r), append(todo, r)
			}
		}
	}
	m := &machine{bundle: b, opt: w.opt, needs: b.Needs(), drawn: &drawn{}}
	if w.machine.kept != nil {
		own := *w.machine.kept
		err := w.task.Scope().Afresh(func() error {
			own.Parts = nil
			if w.opt.Prepare == nil {
				return nil
			}
			return w.opt.Prepare(&m.needs, &own)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", called.Name, err)
		}
		for part := range own.Parts { // a part that has changed since is refused when the run begins
			if was, ok := w.machine.kept.Parts[part]; ok {
				own.Parts[part] = was
			}
		}
		own.Rules = w.machine.kept.Rules
		m.kept = &own
	}
	return workflow.Set{m.workflow()}.Nested(called.Name)
}
