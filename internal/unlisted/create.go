package unlisted

import (
	"context"
	"errors"

	"github.com/superstep-dev/superstep/runlog"
)

// Create creates a run with the status runlog.Importing: it is not listed until a batch sets another status. It replaces the remains of such a run whose
// process crashed, and returns *runlog.BusyError while a live process creates a run of that ID. The error wraps runlog.ErrExists if another run has that
// ID.
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
