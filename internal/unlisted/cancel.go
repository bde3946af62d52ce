// Package unlisted holds what is kept in runs that no listing shows, which are those of status runlog.Importing: runs that
// are being made, and requests to the holder of a run.
package unlisted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// KindCancel is the record of a request to cancel the part of a run that Path names.
const KindCancel runlog.Kind = "cancel.requested"

// RequestsID returns the ID of the log in which requests to the holder of a run are kept. It is a log of its own, for
// only the holder writes that of the run, and it has the status runlog.Importing, so that no listing shows it. Its
// Info.Parent is the run. It is redacted and encrypted like any other log.
func RequestsID(run string) string {
	sum := sha256.Sum256([]byte(run))
	return "requests-" + hex.EncodeToString(sum[:16])
}

// RequestCancel asks whoever holds the run to cancel the part of it that has the path, see Cancellable of journal.Scope. The
// request is durable, and a later holder sees it too. What is not under way then is not cancelled.
func RequestCancel(ctx context.Context, store runlog.Store, run, path string, now time.Time) error {
	id := RequestsID(run)
	for {
		log, _, err := store.Acquire(ctx, id, nil)
		if errors.As(err, new(*runlog.NotFoundError)) {
			log, _, err = store.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Parent: run, Status: runlog.Importing}})
		}
		if err == nil {
			err = log.Append(ctx, &runlog.Batch{Records: []runlog.Record{{Kind: KindCancel, Path: path, Time: now.UTC()}}})
			return errors.Join(err, log.Release(context.WithoutCancel(ctx)))
		}
		if !errors.Is(err, runlog.ErrExists) && !errors.As(err, new(*runlog.BusyError)) {
			return err
		}
		select { // somebody else has a request
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// DropRequests removes the requests to the holder of a run that is over or was removed.
func DropRequests(ctx context.Context, store runlog.Store, run string) error {
	err := store.Delete(ctx, RequestsID(run))
	if errors.As(err, new(*runlog.NotFoundError)) || errors.As(err, new(*runlog.BusyError)) {
		return nil // who makes a request now finds that the run is over
	}
	return err
}
