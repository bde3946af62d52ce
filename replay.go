package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// ReplayOptions are the settings of Replay. Nil means the defaults.
type ReplayOptions struct {
	// Wait is how long the workflow may take from one record to the next before that counts as a divergence. The default is a minute, see
	// [journal.ReplayOptions].
	Wait time.Duration
}

// Replay executes a run again from its own log, in memory, and compares what it writes with what is
// recorded, frame by frame and with the hashes that chain them. No effect is performed: instead of
// calling models and tools, Replay uses their recorded results. Parallel tasks are replayed in the
// recorded order, and a crash is repeated at the same record. Records have the recorded times.
//
// Replay copies external events from the record: starts, resumptions, pauses and cancellations, the answers to questions, the records at which a process
// crashed or was stopped, and the beginning of a fork. The workflow must produce everything else again from its inputs, with the same code. Files,
// clocks and random values that it reads outside of effects are not recorded; if they differ, the replay diverges. An unfinished run is replayed up to
// its last record.
func (e *Engine) Replay(ctx context.Context, id string, opt *ReplayOptions) (*journal.Report, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	started, err := e.started(ctx, id)
	if err != nil {
		return nil, err
	}
	w, err := e.workflowOf(&started)
	if err != nil {
		return nil, err
	}
	o := &journal.ReplayOptions{Started: started, Run: func(ctx context.Context, j *journal.Journal) (journal.Ending, error) {
		res, err := runWorkflow(hook.With(ctx, e.opt.Hooks...), w, &workflow.Exec{
			Inputs: started.Inputs, Journal: j,
			Graph: graph.RunOptions{Journal: j, Parallelism: math.MaxInt32, MaxSteps: math.MaxInt32, Workflows: e.Workflows().Nested, Children: noChild, SnapshotEvery: started.Every},
		})
		if err == nil {
			return journal.Ending{Finished: &runlog.RunFinished{Output: res.Output, Steps: res.Steps, Skipped: res.Skipped}}, nil
		}
		if waits, ok := errors.AsType[*pregel.WaitingError](err); ok {
			return journal.Ending{Waiting: waits.Paths}, err
		}
		d := failure(err)
		return journal.Ending{Failed: &d}, err
	}}
	if opt != nil {
		o.Wait = opt.Wait
	}
	report, err := journal.Replay(ctx, e.store, id, o)
	if err != nil {
		return nil, err
	}
	if d := report.Diverged; d != nil && d.Recorded != nil && d.Replayed != nil && d.Replayed.Data != nil && d.Recorded.Kind == d.Replayed.Kind {
		d.Why += firstChange(d.Recorded.Data, d.Replayed.Data)
	}
	return report, nil
}

// firstChange describes the first difference of two payloads.
func firstChange(recorded, replayed json.RawMessage) string {
	changes, err := Diff(recorded, replayed)
	if err != nil || len(changes) == 0 {
		return ""
	}
	c := changes[0]
	return fmt.Sprintf(": %s was %s and is %s", c.Path, short(c.Before), short(c.After))
}

func short(v json.RawMessage) string {
	const most = 80
	switch {
	case v == nil:
		return "absent"
	case len(v) > most:
		return string([]rune(string(v[:most]))) + "…"
	}
	return string(v)
}

// noChild stands for what creates child runs: a replay has the recorded end of each.
func noChild(context.Context, *graph.ChildRun) error { return errors.New("a replay starts no run") }
