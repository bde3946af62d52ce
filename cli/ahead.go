package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

// topNode is the node of the graph of the run that a path lies in.
func topNode(path string) string {
	if i := strings.IndexAny(path, "[#/:"); i >= 0 {
		return path[:i]
	}
	return path
}

// ahead refuses answers that no step of a workflow can ask for, before anything runs.
func (a *app) ahead(w *workflow.Workflow, inputs json.RawMessage, ans answers) error {
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
	r := a.recipeOf(w.Name)
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
func (a *app) askable(ctx context.Context, e *superstep.Engine, info runlog.Info, ans answers) error {
	if len(ans) == 0 {
		return nil
	}
	flow, err := e.Reading(ctx, info.ID)
	if err != nil {
		return nil // who goes on with the run says so
	}
	return knownSteps(info.Workflow, flow.Shape(), ans)
}

// recipeOf is the recipe that a workflow was made of, nil if it is not known or there is none.
func (a *app) recipeOf(name string) *recipe.Recipe {
	b := &a.recipes
	if b.file != nil && b.file.Name == name {
		return b.file.Recipe
	}
	if b.project == nil {
		return nil
	}
	e, _, err := b.project.Look(name)
	if err != nil || e.Name != name {
		return nil
	}
	return e.Recipe
}

// askedBy is what a step asks, as far as it says what may be answered.
func askedBy(a *recipe.Ask) (*runlog.Asked, error) {
	q := &runlog.Asked{Options: a.Options}
	schema := &jsonschema.Schema{Type: "string"}
	if a.Form != nil {
		schema = recipe.InputSchema(a.Form)
	}
	for _, o := range a.Options {
		schema.Enum = append(schema.Enum, o)
	}
	var err error
	q.Schema, err = json.Marshal(schema)
	return q, err
}

// keptFile is the text of a recipe as a run keeps it.
type keptFile struct{ Name, Text string }

// recipeFiles are the recipes that a run is made of, the first its own; nil if it is no run of a recipe.
func (a *app) recipeFiles(ctx context.Context, id string) []keptFile {
	recs, err := a.store.Read(ctx, id, 1, 1)
	var d runlog.RunStarted
	if err != nil || len(recs) == 0 || recs[0].Kind != runlog.KindRunStarted || json.Unmarshal(recs[0].Data, &d) != nil {
		return nil // who needs it says what is wrong
	}
	var pinned struct{ Files []keptFile }
	if json.Unmarshal(d.Pinned, &pinned) != nil {
		return nil
	}
	return pinned.Files
}

// changedSince says so if the recipe of a run is another one by now, "" if it is not or nobody knows.
func (a *app) changedSince(ctx context.Context, info *runlog.Info) string {
	p := a.recipes.project
	if p == nil {
		return ""
	}
	files := a.recipeFiles(ctx, info.ID)
	e, _, err := p.Look(info.Workflow)
	if err != nil || len(files) == 0 || e.File != files[0].Name || bytes.Equal(e.Text, []byte(files[0].Text)) {
		return ""
	}
	return fmt.Sprintf("%s has changed since run %s began, which goes on with the recipe as it was then", e.File, info.ID)
}
