package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/suggest"
)

var _ graph.Nested = (*Workflow)(nil)

// RunNested runs the workflow, with inputs as Settle gives them, within a task of another,
// which gives the options. The tasks that were passed over in it are no concern of the
// outer run.
func (w *Workflow) RunNested(ctx context.Context, inputs json.RawMessage, opt *graph.RunOptions) (json.RawMessage, error) {
	res, err := w.Run(ctx, &Exec{Inputs: inputs, Journal: opt.Journal, Graph: *opt})
	if err != nil {
		return nil, err
	}
	return res.Output, nil
}

// Nested gives the workflow of a name to nodes that run it.
func (s Set) Nested(name string) (graph.Nested, error) { return s.Find(name) }

// uses reports what is wrong with the workflows that others run by name: those that are
// not there, and circles.
func (s Set) uses() []string {
	var problems []string
	names := make([]string, len(s))
	byName := make(map[string]*Workflow, len(s))
	for i, w := range s {
		if w != nil {
			names[i] = w.Name
			byName[w.Name] = w
		}
	}
	const open, closed = 1, 2
	state := map[string]int{}
	var way []string
	var visit func(w *Workflow)
	visit = func(w *Workflow) {
		state[w.Name] = open
		way = append(way, w.Name)
		for _, name := range w.Uses {
			switch inner := byName[name]; {
			case inner == nil:
				problems = append(problems, fmt.Sprintf("workflow %q runs %q, and there is no such workflow%s", w.Name, name, suggest.Hint(name, names)))
			case state[name] == open:
				circle := append(slices.Clone(way[slices.Index(way, name):]), name)
				problems = append(problems, fmt.Sprintf("workflows run each other in a circle: %s", strings.Join(circle, " → ")))
			case state[name] == 0:
				visit(inner)
			}
		}
		way = way[:len(way)-1]
		state[w.Name] = closed
	}
	for _, w := range s {
		if w != nil && state[w.Name] == 0 {
			visit(w)
		}
	}
	return problems
}
