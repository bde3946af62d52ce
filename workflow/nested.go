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

var (
	_ graph.Detachable = (*Workflow)(nil)
	_ graph.Detachable = pinning{}
)

// RunNested runs the workflow, with inputs as Settle gives them, within a task of another, which
// gives the options. Tasks that are skipped in it do not affect the outer run.
func (w *Workflow) RunNested(ctx context.Context, inputs json.RawMessage, opt *graph.RunOptions) (json.RawMessage, error) {
	res, err := w.Run(ctx, &Exec{Inputs: inputs, Journal: opt.Journal, Graph: *opt, Nested: true})
	if err != nil {
		return nil, err
	}
	return res.Output, nil
}

// Detach implements graph.Detachable.
func (w *Workflow) Detach(inputs json.RawMessage) (*graph.ChildRun, error) {
	return &graph.ChildRun{Workflow: w.Name, Inputs: inputs, Budget: w.Budget}, nil
}

// Nested returns the workflow of a name to nodes that run it.
func (s Set) Nested(name string) (graph.Nested, error) {
	w, err := s.Find(name)
	if err != nil || w.Pin == nil {
		return w, err
	}
	return pinning{w}, nil
}

// pinning runs a nested workflow in the version with which it began: its pinned definition is
// settled together with its inputs.
type pinning struct{ w *Workflow }

type pinnedInputs struct {
	Inputs json.RawMessage `json:"inputs"`
	Pinned json.RawMessage `json:"pinned"`
}

// Settle implements graph.Nested.
func (p pinning) Settle(inputs json.RawMessage) (json.RawMessage, error) {
	settled, err := p.w.Settle(inputs)
	if err != nil {
		return nil, err
	}
	pinned, err := p.w.Pin(settled)
	if err != nil {
		return nil, err
	}
	return json.Marshal(pinnedInputs{orEmpty(settled), pinned})
}

// RunNested implements graph.Nested.
func (p pinning) RunNested(ctx context.Context, inputs json.RawMessage, opt *graph.RunOptions) (json.RawMessage, error) {
	var in pinnedInputs
	if err := json.Unmarshal(inputs, &in); err != nil {
		return nil, err
	}
	w, err := p.w.Restore(in.Pinned)
	if err != nil {
		return nil, err
	}
	return w.RunNested(ctx, in.Inputs, opt)
}

// Called returns the graph of a workflow that a node called by name, with the inputs that its log has; see [graph.Inside].
func (s Set) Called(name string, settled json.RawMessage) (graph.Reading, error) {
	w, err := s.Find(name)
	if err != nil {
		return nil, err
	}
	if w.Pin != nil {
		var in pinnedInputs
		if err := json.Unmarshal(settled, &in); err != nil {
			return nil, err
		}
		if w, err = w.Restore(in.Pinned); err != nil {
			return nil, err
		}
		settled = in.Inputs
	}
	if w.Flow == nil {
		return nil, &OpaqueError{Name: w.Name}
	}
	return w.Flow(settled)
}

// Detach implements graph.Detachable.
func (p pinning) Detach(inputs json.RawMessage) (*graph.ChildRun, error) {
	var in pinnedInputs
	if err := json.Unmarshal(inputs, &in); err != nil {
		return nil, err
	}
	return &graph.ChildRun{Workflow: p.w.Name, Inputs: in.Inputs, Pinned: in.Pinned, Budget: p.w.Budget}, nil
}

// uses returns the mistakes in the names of nested workflows: unknown names and cycles.
func (s Set) uses() []string {
	var problems []string
	names := make([]string, len(s))
	for i, w := range s {
		names[i] = w.Name
	}
	const open, closed = 1, 2
	state := map[string]int{}
	var way []string
	var visit func(w *Workflow)
	visit = func(w *Workflow) {
		state[w.Name] = open
		way = append(way, w.Name)
		for _, name := range w.Uses {
			inner, err := s.Find(name)
			if err == nil {
				name = inner.Name // it may be an alias
			}
			switch {
			case err != nil:
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
		if state[w.Name] == 0 {
			visit(w)
		}
	}
	return problems
}
