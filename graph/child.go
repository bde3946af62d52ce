package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A Child makes the workflow of a node a run of its own, a child run, with its own log and writer. The task waits for the run's end as for an answer.
// Without an engine, the workflow runs within the task.
type Child struct {
	// Place holds the labels that a worker must have to execute the run. If nil, any process of the engine executes it.
	Place []string
	// Budget limits the run. The budget of the parent is reserved for it and settled when it has ended. A limit that is zero, and that the parent has,
	// is what the parent has left then: such children run one after another. If nil, all of them are.
	Budget *runlog.Budget
}

// A ChildRun is a run that [RunOptions.Children] creates.
type ChildRun struct {
	ID       string
	Of       *runlog.Child // the task that waits for it
	Workflow string
	Inputs   json.RawMessage
	Pinned   json.RawMessage // see runlog.RunStarted; nil for nothing
	Budget   *runlog.Budget  // the default of the workflow; nil for no limits
	Limit    runlog.Budget   // what the parent has reserved
	Place    []string
}

// A Detachable is a Nested that can be the workflow of a child run.
type Detachable interface {
	Nested
	// Detach returns the definition of a run with settled inputs: Workflow, Inputs, Pinned and Budget.
	Detach(inputs json.RawMessage) (*ChildRun, error)
}

// Child runs a workflow with settled inputs as a child run and returns how it has ended, or an error that the task must return, since it waits. The key
// distinguishes the child runs of one task. It may be called again with the same key.
func (t *Task) Child(ctx context.Context, key string, w Nested, inputs json.RawMessage, c *Child) (*runlog.End, error) {
	d, ok := w.(Detachable)
	if !t.logged() || t.opt.Children == nil || !ok {
		out, err := w.RunNested(ctx, inputs, t.Nested(key))
		return &runlog.End{Status: runlog.Completed, Output: out}, err
	}
	def, err := d.Detach(inputs)
	if err != nil {
		return nil, err
	}
	if c == nil {
		c = &Child{}
	}
	want := runlog.Budget{}
	if def.Budget != nil {
		want = *def.Budget
	}
	if c.Budget != nil {
		want = c.Budget.Over(want)
	}
	// A task that is tried again needs another run.
	if n, given := t.attempt, t.scope.GivenUp(); n > 1 || given > 0 {
		key += fmt.Sprintf("~%d", n+given*1000)
	}
	shown := struct {
		Inputs json.RawMessage `json:"inputs,omitempty"`
		Place  []string        `json:"place,omitempty"`
	}{def.Inputs, c.Place}
	begin := func(ctx context.Context, id string, of *runlog.Child, limit runlog.Budget) error {
		run := *def
		run.ID, run.Of, run.Limit, run.Place = id, of, limit, c.Place
		return t.opt.Children(ctx, &run)
	}
	return t.scope.Child(ctx, &journal.Child{Key: key, Workflow: def.Workflow, Input: shown, Budget: want, Begin: begin})
}

// ChildError returns the error of a child run that has not completed, nil for one that has. A partial run has completed.
func ChildError(workflow string, end *runlog.End) error {
	if end.Status == runlog.Completed || end.Status == runlog.Partial {
		return nil
	}
	return fmt.Errorf("%s: %w", workflow, errors.New(cmp.Or(end.Error, fmt.Sprintf("its run is %s", end.Status))))
}
