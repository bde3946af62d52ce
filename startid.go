package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/workflow"
)

// A ConflictError reports that a different run already has the ID, see StartOptions.ID.
type ConflictError struct {
	ID  string
	Why string // what differs
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("run %s is there already, and %s; use another ID", e.ID, e.Why)
}

// again continues an existing run that Start found under its ID, if workflow and inputs are the same.
func (e *Engine) again(ctx context.Context, j *journal.Journal, w *workflow.Workflow, inputs json.RawMessage, o *StartOptions) (*Run, error) {
	r, err := e.same(ctx, j, w, inputs, o)
	if r == nil || r.journal == nil { // nothing executes
		err = errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (e *Engine) same(ctx context.Context, j *journal.Journal, w *workflow.Workflow, inputs json.RawMessage, o *StartOptions) (*Run, error) {
	started, err := e.started(ctx, j.ID())
	if err != nil {
		return nil, err
	}
	if started.Workflow != w.Name {
		return nil, &ConflictError{j.ID(), fmt.Sprintf("it is of workflow %s", started.Workflow)}
	}
	changes, err := Diff(orNone(started.Inputs), orNone(j.Clean(inputs)))
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		c := changes[0]
		return nil, &ConflictError{j.ID(), fmt.Sprintf("its input %s is %s, not %s", c.Path, short(c.Before), short(c.After))}
	}
	if info := j.Info(); info.Status.Ended() {
		return e.finished(ctx, info)
	}
	return e.resume(ctx, j, &ResumeOptions{Answer: o.Answer, Observe: o.Observe, Budget: o.Budget})
}

// orNone returns the inputs, or an empty JSON object if there are none.
func orNone(inputs json.RawMessage) json.RawMessage {
	if len(inputs) == 0 {
		return json.RawMessage("{}")
	}
	return inputs
}
