package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/encodable"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// Paused is the error of a run that waits for answers or for a larger budget. To resume it, answer
// its questions, see [Flow.Answer], and run it again.
type Paused struct {
	Run       string            // its ID
	Questions []runlog.Question // the open ones, ordered by path and key

	err *pregel.WaitingError // the tasks that wait, and for what
}

func (e *Paused) Error() string { return e.err.Error() }

// Unwrap returns the error that lists the waiting tasks.
func (e *Paused) Unwrap() error { return e.err }

// durable runs the graph in a store, from opening the run to recording how it ended.
func (f *core) durable(ctx context.Context, state any, o RunOptions) (final outcome[any], err error) {
	final.State = state
	if o.ID == "" || o.Journal != nil {
		return final, errors.New("RunOptions with a Store need an ID, and no Journal")
	}
	opt := &journal.Options{Create: &runlog.NewRun{Workflow: f.name}, Reopen: true, Alone: o.alone}
	j, err := journal.Open(ctx, o.Store, o.ID, opt)
	if err != nil {
		return final, err
	}
	if err := f.sameStart(ctx, j, state); err != nil {
		return final, errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}
	if o.opened != nil {
		o.opened(j)
	}
	held, release := j.Hold(ctx)
	o.Store, o.Journal = nil, j
	final, err = f.run(held, state, &o)
	cause := context.Cause(held)
	release()
	ctx = context.WithoutCancel(ctx)
	if rerr := finish(ctx, j, cause, &final, err); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if cerr := j.Close(ctx); cerr != nil && !errors.Is(err, runlog.ErrFenced) {
		err = errors.Join(err, cerr)
	}
	return final, err
}

// sameStart returns an error if the run of a journal began with another state than this one, which is not the zero state. A fork begins with a state of
// its own, and that of a graph that has changed may look different: for both it returns nil.
func (f *core) sameStart(ctx context.Context, j *journal.Journal, state any) error {
	k := &f.types
	// as is how a state would be encoded after it was recorded.
	as := func(recorded json.RawMessage) (json.RawMessage, error) {
		s, err := k.readState(recorded, false)
		if err != nil {
			return nil, err
		}
		return json.Marshal(k.value(s))
	}
	small, part, err := k.detachState(state)
	if err != nil {
		return err
	}
	given, err := json.Marshal(k.value(small))
	if err != nil {
		return nil //nolint:nilerr // the run says what cannot be encoded
	}
	zero, err := json.Marshal(k.value(k.newState()))
	if err != nil || bytes.Equal(given, zero) && len(part) == 0 {
		return nil //nolint:nilerr // there is nothing to compare
	}
	for r, err := range j.Since(ctx, 0) {
		if err != nil {
			return err
		}
		if r.Kind != runlog.KindSnapshot {
			continue
		}
		var first snapshot[json.RawMessage]
		if json.Unmarshal(r.Data, &first) != nil || first.Machine.Step > 0 || first.Digest != f.digest {
			return nil
		}
		began, err := as(first.Machine.State)
		if err == nil {
			given, err = as(j.Clean(given))
		}
		if err == nil && (!bytes.Equal(began, given) || !bytes.Equal(r.Attachment, part)) {
			err = fmt.Errorf("run %s began with another state: %s; use another ID, or pass the zero state to resume it", j.ID(), differs(began, given))
		}
		return err
	}
	return nil
}

// differs describes the first difference between two states.
func differs(began, given json.RawMessage) string {
	const longest = 60
	name, was, is := "it", string(began), string(given)
	var before, now map[string]json.RawMessage
	if json.Unmarshal(began, &before) == nil && json.Unmarshal(given, &now) == nil {
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if !bytes.Equal(before[key], now[key]) {
				name, was, is = key, string(before[key]), cmp.Or(string(now[key]), "missing")
				break
			}
		}
	}
	return fmt.Sprintf("%s was %s and is %s", name, clean.Clip(was, longest), clean.Clip(is, longest))
}

// finish records how a run has ended. Nothing is recorded for a run that was stopped (cause is
// non-nil): it can be resumed, unless it was cancelled.
func finish(ctx context.Context, j *journal.Journal, cause error, final *outcome[any], err error) error {
	var paused *Paused
	switch {
	case j.Info().Status.Ended():
		return nil
	case errors.Is(cause, journal.ErrCancelRequested):
		return j.Write(ctx, runlog.Cancelled, runlog.KindRunCancelled, "", nil)
	case err != nil && cause != nil, errors.Is(err, pregel.ErrStopped), errors.Is(err, runlog.ErrFenced), errors.Is(err, runlog.ErrUnknown):
		return nil
	case errors.As(err, &paused):
		return j.Write(ctx, runlog.Paused, runlog.KindRunPaused, "", runlog.RunPaused{Waiting: paused.err.Paths, Waited: j.Waited()})
	case err != nil:
		return j.Write(ctx, runlog.Failed, runlog.KindRunFailed, "", runlog.RunFailed{Error: err.Error()})
	}
	output, err := json.Marshal(final.State)
	if err != nil || encodable.Suspect(output) {
		if err := unencodable("the last state of run "+j.ID(), final.State, err); err != nil {
			return err
		}
	}
	if len(output) > largest { // the log has it in parts
		output = nil
	}
	status := runlog.Completed
	if len(final.Skipped) > 0 {
		status = runlog.Partial
	}
	return j.Write(ctx, status, runlog.KindRunFinished, "", runlog.RunFinished{Output: output, Steps: final.Steps, Skipped: final.Skipped})
}

// Answer answers an open question of a run that no process executes, as [Paused] lists them. The
// value encodes as JSON. If it does not fit, the error is a *journal.UnfitError and the question
// stays open; if the question is answered already, a *journal.AnsweredError. For a run that a
// process executes, the error is a *runlog.BusyError.
func (*flow) Answer(ctx context.Context, store runlog.Store, id string, q runlog.Question, value any) error {
	answer, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("the answer to %q cannot be encoded: %w", q.Text, err)
	}
	j, err := journal.Open(ctx, store, id, nil)
	if err != nil {
		return err
	}
	err = j.Answer(ctx, q.Path, &runlog.Answer{Key: q.Key, Value: answer})
	if cerr := j.Close(context.WithoutCancel(ctx)); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return err
}
