package runlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// KindCancel is the record of a request to cancel the part of a run that Path names.
const KindCancel Kind = "cancel.requested"

// RequestsID returns the ID of the log in which requests to the holder of a run are kept. It is a log of its own, for
// only the holder writes that of the run, and it has the status Importing, so that no listing shows it. Its
// Info.Parent is the run. It is redacted and encrypted like any other log.
func RequestsID(run string) string {
	sum := sha256.Sum256([]byte(run))
	return "requests-" + hex.EncodeToString(sum[:16])
}

// RequestCancelOf asks whoever holds the run to cancel the part of it that has the path, see Cancellable of journal.Scope. The
// request is durable, and a later holder sees it too. What is not under way then is not cancelled.
func RequestCancelOf(ctx context.Context, store Store, run, path string, now time.Time) error {
	id := RequestsID(run)
	for {
		log, _, err := store.Acquire(ctx, id, nil)
		if errors.As(err, new(*NotFoundError)) {
			log, _, err = store.Acquire(ctx, id, &AcquireOptions{Create: &NewRun{Parent: run, Status: Importing}})
		}
		if err == nil {
			err = log.Append(ctx, &Batch{Records: []Record{{Kind: KindCancel, Path: path, Time: now.UTC()}}})
			return errors.Join(err, log.Release(context.WithoutCancel(ctx)))
		}
		if !errors.Is(err, ErrExists) && !errors.As(err, new(*BusyError)) {
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
func DropRequests(ctx context.Context, store Store, run string) error {
	err := store.Delete(ctx, RequestsID(run))
	if errors.As(err, new(*NotFoundError)) || errors.As(err, new(*BusyError)) {
		return nil // who makes a request now finds that the run is over
	}
	return err
}
