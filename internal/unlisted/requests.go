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

// The kinds of requests to the holder of a run. They are not records of the run, which has only what comes of a request.
const (
	// KindCancel asks for the part of the run that Path names to be cancelled. What is not running then is not cancelled.
	KindCancel runlog.Kind = "cancel.requested"
	// KindPause asks for the run to pause. Data is a runlog.RunPaused with By.
	KindPause runlog.Kind = "pause.requested"
	// KindReply answers a question of the task of that path. Data is an Answer.
	KindReply runlog.Kind = "answer.requested"
)

// RequestsID returns the ID of the log in which requests to the holder of a run are kept. It is a log of its own, for
// only the holder writes that of the run, and it has the status runlog.Importing, so that no listing shows it. Its
// Info.Parent is the run. It is redacted and encrypted like any other log.
func RequestsID(run string) string {
	sum := sha256.Sum256([]byte(run))
	return "requests-" + hex.EncodeToString(sum[:16])
}

// Request stores a request for whoever holds the run. It is durable: a later holder reads it if this one does not.
func Request(ctx context.Context, store runlog.Store, run string, r runlog.Record) error {
	id := RequestsID(run)
	for {
		log, _, err := store.Acquire(ctx, id, nil)
		if errors.As(err, new(*runlog.NotFoundError)) {
			log, _, err = store.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Parent: run, Status: runlog.Importing}})
		}
		if err == nil {
			err = log.Append(ctx, &runlog.Batch{Records: []runlog.Record{r}})
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

// DropRequests removes the requests to the holder of a run that has ended or was removed.
func DropRequests(ctx context.Context, store runlog.Store, run string) error {
	err := store.Delete(ctx, RequestsID(run))
	if errors.As(err, new(*runlog.NotFoundError)) || errors.As(err, new(*runlog.BusyError)) {
		return nil // who makes a request now finds that the run has ended
	}
	return err
}
