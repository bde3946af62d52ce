package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
)

// ScriptOptions are the settings of Script. Nil means the defaults.
type ScriptOptions struct {
	Uses []string // the workflows that it may call
	// Version changes whenever the function comes to mean something else, so that unfinished runs do not resume with it.
	Version string
	Clock   *agent.Clock // that Sleep goes by; defaults to the clock of the system
}

// Steps are the steps of a script that need more than its context, for which there are [graph.Do], [graph.Once] and [graph.Ask]. Its Scope records the work
// of agents; see agent.Typed.
type Steps struct {
	*graph.Task
	clock agent.Clock
}

// Script creates a workflow from a function, which needs no graph. When the run is resumed, the function is run again from its top, and each step that has
// a recorded outcome returns it: [graph.Do] and [graph.Once] with the context, [graph.Ask], Steps.Sleep and Steps.Call. Each step has a key of its own,
// the same in every run of the function. Between its steps the function must be deterministic. Steps may run in parallel. A picture of a run shows its steps.
func Script[In, Out any](name, description string, run func(ctx context.Context, s *Steps, in In) (Out, error), opt *ScriptOptions) (*Workflow, error) {
	o := ScriptOptions{}
	if opt != nil {
		o = *opt
	}
	clock := agent.Clock{Now: time.Now, After: time.After}
	if o.Clock != nil {
		clock = *o.Clock
	}
	if run == nil {
		return nil, fmt.Errorf("workflow %q has no function", name)
	}
	type state struct {
		In  *In  `json:"in,omitempty"`
		Out *Out `json:"out,omitempty"`
	}
	g := graph.New(name, func(s, u state) state { return u })
	g.AddNode(graph.Node[state, state]{
		Name: "script", Kind: "script", Version: o.Version, Uses: o.Uses,
		Run: func(ctx context.Context, t *graph.Task, s state) (state, error) {
			out, err := run(ctx, &Steps{t, clock}, *s.In)
			return state{Out: &out}, err
		},
	})
	g.Edge(graph.Start, "script")
	g.Edge("script", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return New(name, description, flow, func(in In) (state, error) { return state{In: &in}, nil }, func(s state) (out Out, err error) {
		if s.Out != nil { // it is null
			out = *s.Out
		}
		return out, nil
	})
}

// Sleep waits for a while. The end of the wait is recorded when it begins: a resumed run waits only for the rest. If the run is told to stop, the wait
// continues when it is resumed. A second Sleep of a key is a *journal.UsedError.
func (s *Steps) Sleep(ctx context.Context, key string, d time.Duration) error {
	if _, err := s.Scope().Use("sleep", key); err != nil {
		return err
	}
	scope := s.Scope().Reuse()
	until := &journal.Effect{Key: key + "/until", Kind: "timer", Name: key, Input: d.String()}
	end, err := journal.Do(ctx, scope, until, func(context.Context, string) (time.Time, error) {
		return s.clock.Now().Add(d).UTC().Round(0), nil
	})
	if err != nil {
		return err
	}
	_, err = journal.Do(ctx, scope, &journal.Effect{Key: key, Kind: "sleep", Name: key}, func(ctx context.Context, _ string) (any, error) {
		for left := end.Sub(s.clock.Now()); left > 0; left = end.Sub(s.clock.Now()) {
			select {
			case <-s.clock.After(left):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-s.Stopped():
				return nil, asleep{}
			}
		}
		return nil, nil
	})
	if errors.Is(err, asleep{}) {
		return graph.ErrStopped
	}
	return err
}

// asleep reports that a run was stopped within a step. It waits, so that this leaves no trace in the log.
type asleep struct{}

func (asleep) Error() string { return "the run was stopped" }

// Waits reports that nothing has failed.
func (asleep) Waits() bool { return true }

// Call runs a workflow, which must be among the Uses of the script, within the run, and decodes its output into out. The inputs encode as a JSON object.
// A second Call of a key is a *journal.UsedError.
func (s *Steps) Call(ctx context.Context, key, workflow string, inputs, out any) error {
	w, err := s.Workflow(workflow)
	if err == nil {
		_, err = s.Scope().Use("call", key)
	}
	if err != nil {
		return err
	}
	scope := s.Scope().Reuse()
	given, err := json.Marshal(inputs)
	if err != nil {
		return fmt.Errorf("the inputs of %s cannot be encoded: %w", workflow, err)
	}
	settle := &journal.Effect{Key: key + "/inputs", Kind: "inputs", Name: workflow}
	given, err = journal.Do(ctx, scope, settle, func(context.Context, string) (json.RawMessage, error) { return w.Settle(given) })
	if err != nil {
		return err
	}
	call := &journal.Effect{Key: key, Kind: "workflow", Name: workflow, Inside: true, Input: given}
	output, err := journal.Do(ctx, scope, call, func(ctx context.Context, _ string) (json.RawMessage, error) {
		out, err := w.RunNested(ctx, given, s.Nested(key))
		if errors.Is(err, graph.ErrStopped) {
			err = asleep{}
		}
		return out, err
	})
	switch {
	case errors.Is(err, asleep{}):
		return graph.ErrStopped
	case err != nil:
		return fmt.Errorf("%s: %w", workflow, err)
	case out == nil:
		return nil
	}
	return json.Unmarshal(output, out)
}
