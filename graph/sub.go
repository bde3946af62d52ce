package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// Sub returns a node that runs another graph. In makes the first state of that graph from the state
// of this one, and out the update from its last. The inner graph has its own path in the log, is
// resumed where it stopped, and may ask questions. Each visit of the node runs it from its start.
// The two graphs may have different state types.
func Sub[S, U, S2, U2 any](name string, flow *Flow[S2, U2], in func(S) (S2, error), out func(S2) (U, error)) Node[S, U] {
	n := Node[S, U]{Name: name, Kind: "sub"}
	if flow == nil || in == nil || out == nil {
		n.Err = errors.New("its graph, or a function to go in or out, is nil")
		return n
	}
	f := flow.engine
	shape := f.Shape()
	n.Sub, n.Uses, n.Inner = &shape, f.uses(), func(string) (Reading, error) { return f, nil }
	n.Run = func(ctx context.Context, t *Task, s S) (u U, err error) {
		first, err := in(s)
		if err != nil {
			return u, err
		}
		last, err := f.run(ctx, &first, t.Nested(""))
		if err != nil {
			return u, fmt.Errorf("%s: %w", f.Name(), err)
		}
		t.PassOver(last.Skipped...)
		return out(*last.State.(*S2)) //nolint:forcetypeassert,errcheck // a state is a *S
	}
	return n
}

// inputsKey is the effect of a Call that settles the inputs of its workflow.
const inputsKey = "inputs"

// Call returns a node that runs a workflow the host has under a name, within the same run, or as a run of its own if Child of the node is set.
// In makes its inputs, which encode as a JSON object, and out the update from its output.
func Call[S, U any](name, workflow string, in func(S) (any, error), out func(json.RawMessage) (U, error)) Node[S, U] {
	if workflow == "" || in == nil || out == nil {
		return Node[S, U]{Name: name, Err: errors.New("the name of its workflow is empty, or a function to go in or out is nil")}
	}
	return Node[S, U]{
		Name: name, Kind: "sub", Uses: []string{workflow},
		Run: func(ctx context.Context, t *Task, s S) (u U, err error) {
			w, err := t.Workflow(workflow)
			if err != nil {
				return u, err
			}
			v, err := in(s)
			if err != nil {
				return u, err
			}
			inputs, err := json.Marshal(v)
			if err != nil {
				return u, fmt.Errorf("the inputs of %s cannot be encoded: %w", workflow, err)
			}
			inputs, err = Do(ctx, inputsKey, func(context.Context, string) (json.RawMessage, error) { return w.Settle(inputs) })
			if err != nil {
				return u, err
			}
			if t.child == nil {
				output, err := w.RunNested(ctx, inputs, t.Nested(""))
				if err != nil {
					return u, fmt.Errorf("%s: %w", workflow, err)
				}
				return out(output)
			}
			end, err := t.Child(ctx, "", w, inputs, t.child)
			if err == nil {
				err = ChildError(workflow, end)
			}
			if err != nil {
				return u, err
			}
			return out(end.Output)
		},
	}
}

// Uses returns the workflows that the graph or a nested graph runs by name, in the order of its
// nodes.
func (f *flow) Uses() []string { return f.engine.uses() }

func (f *core) uses() []string {
	var out []string
	seen := map[string]bool{}
	for i := range f.nodes {
		for _, name := range f.nodes[i].Uses {
			if !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}

// PassOver notes what was skipped inside the task, so that the run ends partial. Pass the Skipped
// of a graph that was run with the options of [Task.Nested], or "" for the task itself if its
// update is incomplete. The note counts if the attempt succeeds. Without a log it counts only if
// some node of the graph may be skipped. Call it from one goroutine.
func (t *Task) PassOver(paths ...string) {
	for _, p := range paths {
		switch own := pregel.Path(t.node, t.key, t.visit); {
		case p == "" && !t.logged():
			p = own
		case p == "":
			p = t.scope.Path()
		case !t.logged(): // then they are those within the inner graph
			p = own + "/" + p
		}
		t.inside = append(t.inside, p)
	}
}
