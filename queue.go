package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// Enqueue creates a run that no process executes yet: a worker takes it, see Serve. Everything that Start checks and pins is checked and pinned here. If a
// run with the same ID, workflow and inputs exists, whatever its status, Enqueue returns it and changes nothing; if a different run has the ID, the error
// is a *ConflictError. Queue of opt says what the run needs of its worker; Answer and Observe are not used.
func (e *Engine) Enqueue(ctx context.Context, name string, inputs any, opt *StartOptions) (runlog.Info, error) {
	leave, err := e.enter()
	if err != nil {
		return runlog.Info{}, err
	}
	defer leave()
	n, err := e.prepare(name, inputs, opt)
	if err != nil {
		return runlog.Info{}, err
	}
	if n.Queue != nil {
		if err := n.Queue.Check(); err != nil {
			return runlog.Info{}, err
		}
	}
	for {
		j, err := e.create(ctx, n.ID, n.journal())
		switch {
		case err == nil && j.Info().Head == 0:
			if err := e.record(ctx, j, n, runlog.Queued); err != nil {
				return runlog.Info{}, err
			}
			info := j.Info()
			return info, j.Close(context.WithoutCancel(ctx))
		case err == nil:
			err = j.Close(context.WithoutCancel(ctx))
		case errors.As(err, new(*runlog.BusyError)), errors.As(err, new(*runlog.QuarantinedError)):
			err = nil
		}
		if err != nil {
			return runlog.Info{}, err
		}
		info, err := e.find(ctx, n.ID)
		if err == nil {
			clean := func(data json.RawMessage) json.RawMessage { return data }
			if c, ok := runlog.As[interface {
				Clean(json.RawMessage) json.RawMessage
			}](e.store); ok {
				clean = c.Clean
			}
			return info, e.conflict(ctx, n.ID, n, clean)
		}
		if !errors.As(err, new(*runlog.NotFoundError)) {
			return runlog.Info{}, err
		}
		select { // another process is creating it
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return runlog.Info{}, context.Cause(ctx)
		}
	}
}

// A Load describes what a worker has to do, as of its last look.
type Load struct {
	Looked    time.Time // when it last listed runs without an error; zero if it never has
	Executing int       // runs that execute in this engine
	Taken     uint64    // runs that it has taken since it was created
	Waiting   int       // runs that it could take, now or later
	Elsewhere int       // queued runs that need a label that it does not have
	Oldest    time.Time // when the oldest run that it could take now was created; zero if there is none
}

// Load returns what this worker has to do.
func (e *Engine) Load() Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.load
	out.Executing = len(e.runs)
	return out
}

// weigh notes the load after a look. The caller holds taking.
func (e *Engine) weigh(looked time.Time, taken int) {
	waiting, oldest := e.list.Size()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.load.Looked, e.load.Waiting, e.load.Oldest, e.load.Elsewhere = looked, waiting, oldest, e.list.Away
	e.load.Taken += uint64(taken) //nolint:gosec // a length
}

// full returns true if as many other runs of a key as its limit allows execute.
func (e *Engine) full(ctx context.Context, id string, q *runlog.Queue) (bool, error) {
	running, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Running}})
	if err != nil {
		return false, err
	}
	n := 0
	for i := range running {
		if other := running[i].Queue(); running[i].ID != id && other != nil && other.Key == q.Key {
			n++
		}
	}
	return n >= max(q.Limit, 1), nil
}

// errFull reports that as many runs of a key execute as may.
var errFull = errors.New("as many runs of its key execute as its limit allows")

// claim makes a run count as one that executes its key, and returns errFull, and the run to the queue, if others are too many then.
//
// Never more than the limit execute at once: of those that do, look at the one that began to count last. It looked at the others afterwards, when all of
// them counted already, and went back if they were as many as the limit. Two that begin at the same time may both go back; they try again at random.
func (e *Engine) claim(ctx context.Context, j *journal.Journal) error {
	info := j.Info()
	q := info.Queue()
	if q == nil || q.Key == "" {
		return nil
	}
	was := info.Status
	if err := j.Append(ctx, runlog.Running); err != nil {
		return err
	}
	full, err := e.full(ctx, info.ID, q)
	if full && err == nil {
		err = errFull
	}
	if err != nil {
		if was == runlog.Running {
			was = "" // an interrupted run stays one
		}
		if was != "" {
			err = errors.Join(err, j.Append(context.WithoutCancel(ctx), was))
		}
	}
	return err
}
