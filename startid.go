package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/journal"
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
func (e *Engine) again(ctx context.Context, j *journal.Journal, n *beginning) (*Run, error) {
	r, err := e.same(ctx, j, n)
	if r == nil || r.journal == nil { // nothing executes
		err = errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (e *Engine) same(ctx context.Context, j *journal.Journal, n *beginning) (*Run, error) {
	if err := e.conflict(ctx, j.ID(), n, j.Clean); err != nil {
		return nil, err
	}
	if info := j.Info(); info.Status.Ended() {
		return e.finished(ctx, info)
	}
	return e.resume(ctx, j, &ResumeOptions{Answer: n.Answer, Observe: n.Observe, Budget: n.Budget})
}

// conflict returns a *ConflictError if the run of an ID has another workflow or other inputs. Clean returns inputs as the store keeps them.
func (e *Engine) conflict(ctx context.Context, id string, n *beginning, clean func(json.RawMessage) json.RawMessage) error {
	started, err := e.started(ctx, id)
	if err != nil {
		return err
	}
	if started.Workflow != n.w.Name {
		return &ConflictError{id, fmt.Sprintf("it is of workflow %s", started.Workflow)}
	}
	changes, err := Diff(orNone(started.Inputs), orNone(clean(n.inputs)))
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		c := changes[0]
		return &ConflictError{id, fmt.Sprintf("its input %s is %s, not %s", c.Path, short(c.Before), short(c.After))}
	}
	return nil
}

// orNone returns the inputs, or an empty JSON object if there are none.
func orNone(inputs json.RawMessage) json.RawMessage {
	if len(inputs) == 0 {
		return json.RawMessage("{}")
	}
	return inputs
}
