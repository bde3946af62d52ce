// Package unlisted manages runs that no listing shows, because their status is runlog.Importing: runs that are being created, the mailboxes of runs, the
// descriptions of workers, and the marks that hide runs.
package unlisted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// The kinds of requests to the holder of a run. A request is no record of the run; the run's log has only its result.
const (
	// KindCancel asks to cancel the part of the run that Path names. Nothing happens if that part is not running.
	KindCancel runlog.Kind = "cancel.requested"
	// KindPause asks for the run to pause. Data is a runlog.RunPaused with By.
	KindPause runlog.Kind = "pause.requested"
	// KindReply answers a question of the task of that path. Data is a runlog.Answer.
	KindReply runlog.Kind = "answer.requested"
	// KindBudget changes the budget of the run, see runlog.Budget.Over. Data is a runlog.Budget.
	KindBudget runlog.Kind = "budget.requested"
	// KindLend asks a parent to set more aside for the child run that Path names. Data is the runlog.Budget that the child is to have.
	KindLend runlog.Kind = "loan.requested"
	// KindSteer adds a user's message to the conversation of the agent at that path, before its next turn. Data is a string. With the data
	// Compact, the agent sums up its conversation instead. A Path of "" then means the next agent that is a task of the run itself.
	KindSteer runlog.Kind = "steer.requested"
	// KindInterrupt ends the current model turn of the agent at that path, or the next one if none is under way.
	KindInterrupt runlog.Kind = "interrupt.requested"
)

// Compact is the data of a request of KindSteer that has no text: the agent sums up its conversation before its next turn.
const Compact = `{"compact":true}`

// A Request asks the holder of a run for something.
type Request struct {
	ID   string // the sender's, of the form of a run's ID; one posted again, even when handled, is no new request. Post sets one if it is ""
	Kind runlog.Kind
	Path string // the task, agent or child run that it is about, "" for the run
	Time time.Time
	Data json.RawMessage // at most MaxData bytes
	Seq  uint64          // its place in the mailbox, from 1; set by Post and Read
}

// MaxData is how many bytes the data of a request may have.
const MaxData = 64 << 10

// stored is the data of the record of a request.
type stored struct {
	ID   string          `json:"id"`
	Data json.RawMessage `json:"data,omitempty"`
}

// RequestsID returns the ID of the log that serves as the mailbox of a run. The mailbox is a separate log, since only the holder may write to the log of
// the run. Its status is runlog.Importing, so that no listing shows it, and its Info.Parent is the run. It is redacted and encrypted like any other log.
func RequestsID(run string) string {
	sum := sha256.Sum256([]byte(run))
	return RequestsPrefix + hex.EncodeToString(sum[:16])
}

// RequestsPrefix begins the IDs of mailboxes.
const RequestsPrefix = "requests-"

// Post stores a request for whoever holds the run. It is durable: a later holder reads it if this one does not. The error is *runlog.NotFoundError or
// *runlog.EndedError if there is no such run or it has ended before. If the run ends meanwhile, its log shows whether the request was still carried out.
func Post(ctx context.Context, store runlog.Store, run string, r *Request) error {
	known := r.ID != ""
	if !known {
		r.ID = fmt.Sprintf("%016x", rand.Uint64())
	}
	if runlog.CheckID(r.ID) != nil {
		return fmt.Errorf("a request has the ID %.70q: use 1 to 64 of a-z, 0-9 and -", r.ID)
	}
	if len(r.Data) > MaxData {
		return fmt.Errorf("what is sent to run %s has %d bytes, and may have %d: put it into a file, and name that", run, len(r.Data), MaxData)
	}
	data, err := json.Marshal(stored{r.ID, r.Data})
	if err != nil {
		return err
	}
	if err := open(ctx, store, run); err != nil {
		return err
	}
	rec := runlog.Record{Kind: r.Kind, Path: r.Path, Time: r.Time, Data: data}
	for ; ; known = true { // it may be stored after an error
		err := post(ctx, store, run, r, rec, known)
		if err == nil {
			break
		}
		if !errors.Is(err, runlog.ErrExists) && !errors.Is(err, runlog.ErrFenced) && !errors.Is(err, runlog.ErrUnknown) && !errors.As(err, new(*runlog.BusyError)) {
			return err
		}
		select { // somebody else has a request
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err = open(ctx, store, run)
	switch {
	case errors.As(err, new(*runlog.EndedError)): // perhaps with what comes of it; nobody else drops it any more
		return DropRequests(context.WithoutCancel(ctx), store, run)
	case errors.As(err, new(*runlog.NotFoundError)):
		return errors.Join(err, DropRequests(context.WithoutCancel(ctx), store, run))
	}
	return nil
}

// open returns an error if a run takes no requests.
func open(ctx context.Context, store runlog.Store, run string) error {
	infos, err := store.Runs(ctx, &runlog.Filter{ID: run})
	switch {
	case err != nil:
		return err
	case len(infos) == 0:
		return Missing(ctx, store, run)
	case infos[0].Status.Ended():
		return &runlog.EndedError{ID: run, Status: infos[0].Status}
	}
	return nil
}

// post stores a request. If known, it first checks that none of the same ID is stored.
func post(ctx context.Context, store runlog.Store, run string, r *Request, rec runlog.Record, known bool) (err error) {
	id := RequestsID(run)
	log, info, err := store.Acquire(ctx, id, nil)
	if errors.As(err, new(*runlog.NotFoundError)) {
		log, info, err = store.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Parent: run, Status: runlog.Importing}})
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Release(context.WithoutCancel(ctx))) }()
	for after := uint64(0); known && after < info.Head; {
		there, err := Read(ctx, store, run, after)
		if err != nil {
			return err
		}
		for i := range there {
			if there[i].ID == r.ID {
				r.Seq = there[i].Seq
				return nil
			}
		}
		after += uint64(len(there))
		if len(there) == 0 {
			break
		}
	}
	b := runlog.Batch{Records: []runlog.Record{rec}}
	if err := log.Append(ctx, &b); err != nil {
		return err
	}
	r.Seq = b.Records[0].Seq
	return nil
}

// Read returns the next requests to the holder of a run, those with a Seq above after (0 for all). It returns none only if there are no more; else there
// may be more.
func Read(ctx context.Context, store runlog.Store, run string, after uint64) ([]Request, error) {
	const page = 64
	recs, err := store.Read(ctx, RequestsID(run), after+1, page)
	if errors.As(err, new(*runlog.NotFoundError)) {
		return nil, nil
	}
	out := make([]Request, len(recs))
	for i := range recs {
		r := &recs[i]
		var d stored
		_ = json.Unmarshal(r.Data, &d) // what cannot be read has no data, and comes to nothing
		out[i] = Request{ID: d.ID, Kind: r.Kind, Path: r.Path, Time: r.Time, Data: d.Data, Seq: r.Seq}
	}
	return out, err
}

// DropRequests removes the mailbox of a run that has ended or was removed.
func DropRequests(ctx context.Context, store runlog.Store, run string) error {
	err := store.Delete(ctx, RequestsID(run))
	if errors.As(err, new(*runlog.NotFoundError)) || errors.As(err, new(*runlog.BusyError)) {
		return nil // who makes a request now finds that the run has ended
	}
	return err
}
