package unlisted

import (
	"context"
	"errors"

	"github.com/superstep-dev/superstep/runlog"
)

// Create begins a run of status runlog.Importing: it is not listed until a batch gives it another
// status. It replaces what a process that died has left of such a run, and returns
// *runlog.BusyError while a live process makes one of that ID. The error wraps runlog.ErrExists if there is
// another run of that ID.
func Create(ctx context.Context, store runlog.Store, id string, run runlog.NewRun) (runlog.Log, runlog.Info, error) {
	run.Status = runlog.Importing
	opt := &runlog.AcquireOptions{Create: &run}
	log, info, err := store.Acquire(ctx, id, opt)
	if !errors.Is(err, runlog.ErrExists) {
		return log, info, err
	}
	left, lerr := store.Runs(ctx, &runlog.Filter{ID: id, Status: []runlog.Status{runlog.Importing}})
	if lerr != nil || len(left) == 0 {
		return nil, runlog.Info{}, errors.Join(lerr, err)
	}
	if err := store.Delete(ctx, id); err != nil {
		return nil, runlog.Info{}, err
	}
	return store.Acquire(ctx, id, opt)
}
