// Package runlog keeps the append-only logs that runs are made of.
//
// A run is an ordered log of records. Everything else (state, checkpoints, the
// transcript on screen, metrics) is a reading of that log. A record counts only
// once [Log.Append] has returned: by then it is durable in the way its store
// promises, and no reader sees it earlier.
//
// One process at a time writes a run. [Store.Acquire] raises the run's epoch, and
// every append checks that epoch inside the store's own transaction, so a writer
// that lost its run gets [ErrFenced] and writes nothing. Leases only decide how
// soon another process may take over; they are never needed for safety.
package runlog

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Kind names what a record says. Kinds are part of the stored format: they are never renamed, and a
// reader ignores unknown kinds.
type Kind string

// The kinds of version 1. The type of a record's Data is the payload of the same
// name in payload.go.
const (
	KindRunStarted    Kind = "run.started"
	KindRunResumed    Kind = "run.resumed"
	KindRunPaused     Kind = "run.paused"
	KindRunFailed     Kind = "run.failed"
	KindRunCancelled  Kind = "run.cancelled"
	KindRunFinished   Kind = "run.finished"
	KindTaskDone      Kind = "task.done"
	KindTaskFailed    Kind = "task.failed"
	KindStepCommitted Kind = "step.committed"
	KindSnapshot      Kind = "snapshot"
	KindIntended      Kind = "effect.intended"
	KindSettled       Kind = "effect.settled"
	KindAsked         Kind = "question.asked"
	KindAnswered      Kind = "question.answered"
	KindEvent         Kind = "event"
	KindInner         Kind = "snapshot.inner" // a KindSnapshot of a graph that a task runs; Path is the task's
)

// A Record is one entry of a run's log.
type Record struct {
	Seq   uint64          // position in the run, from 1 and without gaps; 0 in a live-only record
	Epoch uint64          // the epoch of the writer
	Time  time.Time       // when it was written, in UTC; for people, never for order
	Kind  Kind            // what it says
	Path  string          // the identity of the task it belongs to, or ""
	Data  json.RawMessage // a JSON object, or nil
	// Attachment is what belongs to Data and is large and no text, nil for nothing. It is stored unchanged: who writes it keeps secrets out of it.
	Attachment []byte
}

// Size returns the size of the data and the attachment in bytes.
func (r *Record) Size() int { return len(r.Data) + len(r.Attachment) }

// Status is the state of a run as listings show it.
type Status string

// The statuses of a run. Interrupted and Quarantined are never stored: a running run has one of
// these statuses once no process holds it any more.
const (
	Queued         Status = "queued" // created and recorded; no process executes it yet, and a worker takes it
	Running        Status = "running"
	Paused         Status = "paused"
	WaitingStorage Status = "waiting_storage" // paused, since the store could take no more
	Completed      Status = "completed"
	Partial        Status = "partial" // completed, but some tasks failed and were skipped
	Failed         Status = "failed"
	Cancelled      Status = "cancelled"
	Interrupted    Status = "interrupted"
	Quarantined    Status = "quarantined" // interrupted, and its processes died MaxTakeovers times over

	// Importing is the status of a run that is still being created: the records of its file (see
	// runlog/archive) or its first record are missing. Runs lists such a run only if a filter names
	// the status.
	Importing Status = "importing"
)

// MaxTakeovers is how often a run is taken over from a process that died while running it, before
// it is quarantined: it may be what kills them. Only consecutive crashes count; a released hold
// resets the count.
const MaxTakeovers = 3

// Ended reports whether a run of this status has ended: it writes no more records. A failed run has
// not ended in this sense, since it can be resumed.
func (s Status) Ended() bool { return s == Completed || s == Partial || s == Cancelled }

// Info describes a run without reading its log.
type Info struct {
	ID       string
	Workflow string
	Title    string // one line for people: what the run is about
	Status   Status
	Created  time.Time
	Updated  time.Time // when it was last acquired or changed its status
	Head     uint64    // the sequence number of the last record, 0 if there is none
	Snapshot uint64    // the sequence number of the last KindSnapshot record, 0 if there is none
	Epoch    uint64    // how often the run was acquired
	Owner    string    // who holds it, "" if nobody does
	Cancel   bool      // a cancellation was requested and not yet carried out

	Parent    string // of a fork: the run it goes on from; of a child: the run that waits for it, see IsChild; "" for none
	Takeovers int    // from processes that died while they ran it, since a hold was last released

	Summary string // as a batch last gave it, "" if none has
}

// NewRun describes how a run is listed when Acquire makes it.
type NewRun struct {
	Workflow string
	Title    string
	Parent   string // see Info.Parent
	Status   Status // the status that the run begins with; the default is Running
}

// AcquireOptions tell Acquire what to do. Nil means: the run must exist.
type AcquireOptions struct {
	Create      *NewRun // make the run; ErrExists if there is one of that ID
	Quarantined bool    // take the run even if it is quarantined, and begin the count of takeovers anew
}

// A Batch is the content of one append, which is written completely or not at all.
type Batch struct {
	Records []Record // Kind, Path, Time and Data from the caller; the log sets Seq and Epoch in place
	Status  Status   // the run's new status in listings, "" for no change
	// Summary describes the run for listings, in place of the summary before, "" for no change. It is a JSON object; its fields are a matter of its writers
	// and readers. A batch with a summary of more than MaxSummary bytes is refused.
	Summary string
}

// MaxSummary is how many bytes a summary may have. Writers use at most MaxSummary-64 of them, since encryption adds some.
const MaxSummary = 1024

// A Log is the hold of one process on one run. Its methods may be called from
// several goroutines.
type Log interface {
	// Append makes the batch durable and returns. On any error nothing of the batch
	// is in the log, with one exception: after an ErrUnknown the log must be read
	// again before anything is written. ErrFenced means somebody else holds the run,
	// *EndedError that a batch has given it a status that is its last, *StorageError
	// that the store can take no more for now: a full disk, for instance. A store that
	// can keeps space for a small batch of status WaitingStorage. Appends to one log wait
	// for each other; collect records into batches, as package journal does.
	Append(ctx context.Context, b *Batch) error

	// Renew extends the lease and reports whether a cancellation was requested.
	Renew(ctx context.Context) (cancel bool, err error)

	// Release releases the run, which is a clean end: Takeovers becomes 0. It is idempotent; a
	// later append returns ErrFenced.
	Release(ctx context.Context) error
}

// A Store keeps the logs of many runs. Its methods may be called from several
// goroutines, and from several processes where the store says so.
type Store interface {
	// Acquire takes a run for writing and raises its epoch, which fences every
	// earlier holder. It gives *BusyError while another live process holds the run,
	// *NotFoundError if there is no such run and ErrExists if there should not be.
	// A running run whose holder has not released it is taken over: that is counted
	// before Acquire returns, and gives *QuarantinedError instead when there were
	// MaxTakeovers already. The returned Info is as of the acquisition.
	Acquire(ctx context.Context, id string, opt *AcquireOptions) (Log, Info, error)

	// Read returns up to limit records from sequence number from on, in order, after
	// checking their checksums and the hash chain. An empty result means that there
	// are none yet. A damaged record gives *CorruptError, with the intact records before it.
	Read(ctx context.Context, id string, from uint64, limit int) ([]Record, error)

	// Runs lists runs, the newest first.
	Runs(ctx context.Context, f *Filter) ([]Info, error)

	// RequestCancel asks the holder of the run to stop it. The request is durable.
	RequestCancel(ctx context.Context, id string) error

	// Delete removes a run and its log. If the run is held, the error is a *BusyError.
	Delete(ctx context.Context, id string) error
}

// A Filter picks runs. Nil means all of them.
type Filter struct {
	ID     string   // this run exactly, "" for any
	Prefix string   // IDs that start with this, "" for any
	Status []Status // any of these, empty for all but Importing; matched on what is listed, so Interrupted works
	Limit  int      // at most this many, 0 for all
}

// Takes reports whether the filter picks runs that are listed with a status. It is for stores.
func (f *Filter) Takes(s Status) bool {
	if len(f.Status) == 0 {
		return s != Importing
	}
	return slices.Contains(f.Status, s)
}

// A Waiter is a store that reports when a run may have grown, so that readers need not poll. Wait
// returns nil once the run's head is at or past seq, or when it may be; readers read and wait
// again.
type Waiter interface {
	Wait(ctx context.Context, id string, seq uint64) error
}

// A Notifier is a store that reports when a run may have been queued, so that workers need not poll.
// The channel receives a value after each such change until ctx ends; changes while the connection to a
// server is interrupted may be missed, so workers still look from time to time.
type Notifier interface {
	Queued(ctx context.Context) (<-chan struct{}, error)
}

// A Sizer is a store that reports the disk space of runs in bytes, by ID, without reading their
// logs: for the runs that f picks (nil for all), except those that use none. Shared space is not
// counted.
type Sizer interface {
	Sizes(ctx context.Context, f *Filter) (map[string]int64, error)
}

// A Reclaimer is a store that keeps the disk space of deleted runs until it is asked to free it. It
// returns the number of bytes freed. Runs continue meanwhile.
type Reclaimer interface {
	Reclaim(ctx context.Context) (freed int64, err error)
}

// Show converts the stored state of a run into the one that listings show: a run that is Running
// and that nobody holds is Interrupted or Quarantined, and one that nobody holds has no owner. Died
// reports that its last holder has not released it. It is for stores.
func (i *Info) Show(held, died bool) {
	if held {
		return
	}
	i.Owner = ""
	switch {
	case i.Status != Running:
	case died && i.Takeovers >= MaxTakeovers:
		i.Status = Quarantined
	default:
		i.Status = Interrupted
	}
}

// TakeOver returns the new count of takeovers for the acquisition of a run that no process holds,
// or a *QuarantinedError. The Info is as stored; died says that its last holder has not released
// it. It is for stores.
func (i *Info) TakeOver(died bool, opt *AcquireOptions) (takeovers int, err error) {
	switch {
	case opt != nil && opt.Quarantined:
		return 0, nil
	case i.Status != Running || !died:
		return i.Takeovers, nil
	case i.Takeovers >= MaxTakeovers:
		return 0, &QuarantinedError{ID: i.ID, Takeovers: i.Takeovers}
	}
	return i.Takeovers + 1, nil
}
