package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// topNode is the node of the graph of the run that a path lies in.
func topNode(path string) string {
	if i := strings.IndexAny(path, "[#/:"); i >= 0 {
		return path[:i]
	}
	return path
}

// ahead refuses answers that no step of a workflow can ask for, before anything runs.
func (a answering) ahead(w *workflow.Workflow, inputs json.RawMessage, ans answers) error {
	if len(ans) == 0 || w.Flow == nil {
		return nil
	}
	flow, err := w.Flow(inputs)
	if err != nil {
		return nil // the run says so, better
	}
	if err := knownSteps(w.Name, flow.Shape(), ans); err != nil {
		return err
	}
	r := keptRuns(a).recipeOf(w.Name)
	if r == nil {
		return nil
	}
	for _, g := range ans {
		for _, s := range r.Steps {
			if s.ID != g.path || s.Ask == nil || s.Gate != nil {
				continue
			}
			q, err := askedBy(s.Ask)
			if err != nil {
				return err
			}
			if _, err := fit(q, g.value); err != nil {
				return usage(fmt.Sprintf("--answer %s: %v", quote(g.text), err))
			}
		}
	}
	return nil
}

// knownSteps refuses answers for steps that a graph does not have.
func knownSteps(name string, shape graph.Shape, ans answers) error {
	var nodes []string
	known := map[string]bool{}
	for _, n := range shape.Nodes {
		nodes = append(nodes, n.Name)
		known[n.Name] = true
	}
	for _, g := range ans {
		if node := topNode(g.path); !known[node] {
			return usage(fmt.Sprintf("--answer %s: workflow %s has no step %q%s", quote(g.text), name, node, suggest.Hint(node, nodes)))
		}
	}
	return nil
}

// askable refuses answers that no step of a run can ask for.
func (a answering) askable(ctx context.Context, e *superstep.Engine, info runlog.Info, ans answers) error {
	if len(ans) == 0 {
		return nil
	}
	flow, err := e.Reading(ctx, info.ID)
	if err != nil {
		return nil // who goes on with the run says so
	}
	return knownSteps(info.Workflow, flow.Shape(), ans)
}

// keptRuns knows what runs are made of.
type keptRuns struct{ *app }

// recipeOf is the recipe that a workflow was made of, nil if it is not known or there is none.
func (a keptRuns) recipeOf(name string) *recipe.Recipe {
	i, err := a.host().Look(cmp.Or(a.host().File(name), name))
	if err != nil || i.Name != name {
		return nil
	}
	return i.Recipe()
}

// askedBy is what a step asks, as far as it says what may be answered.
func askedBy(a *recipe.Ask) (*runlog.Question, error) {
	schema, err := json.Marshal(a.Schema())
	return &runlog.Question{Options: a.Options, Schema: schema}, err
}

// changedSince says so if the recipe of a run is another one by now, "" if it is not or nobody knows.
func (a keptRuns) changedSince(ctx context.Context, info *runlog.Info) string {
	file, changed := a.host().Edited(ctx, info)
	if !changed {
		return ""
	}
	return fmt.Sprintf("%s has changed since run %s began, which finishes on its own version; compare: %s", file, info.ID,
		a.hint("runs", "diff", info.ID, quote(file)))
}
