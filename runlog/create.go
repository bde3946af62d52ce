package runlog

import (
	"context"
	"errors"
)

// Create makes a run of status Importing: it is not listed until a batch gives it another
// status. It replaces what a process that died has left of such a run, and returns
// *BusyError while a live process makes one of that ID. The error wraps ErrExists if there is
// another run of that ID.
func Create(ctx context.Context, store Store, id string, run NewRun) (Log, Info, error) {
	run.Status = Importing
	opt := &AcquireOptions{Create: &run}
	log, info, err := store.Acquire(ctx, id, opt)
	if !errors.Is(err, ErrExists) {
		return log, info, err
	}
	left, lerr := store.Runs(ctx, &Filter{ID: id, Status: []Status{Importing}})
	if lerr != nil || len(left) == 0 {
		return nil, Info{}, errors.Join(lerr, err)
	}
	if err := store.Delete(ctx, id); err != nil {
		return nil, Info{}, err
	}
	return store.Acquire(ctx, id, opt)
}
