package runlog

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrFenced reports that another process has taken over the run.
	ErrFenced = errors.New("the run was taken over by another process")
	// ErrExists reports that a run of that ID exists already.
	ErrExists = errors.New("a run of this ID exists already")
	// ErrUnknown reports that a write may or may not have become durable: read before writing
	// again.
	ErrUnknown = errors.New("the outcome of the write is unknown")
	// ErrStoreReset reports that a store has lost acknowledged records: it was emptied, replaced,
	// or restored to an earlier state.
	ErrStoreReset = errors.New("the store has lost what it had")
)

// A BusyError reports that a live process holds the run.
type BusyError struct {
	ID    string
	Owner string
	Until time.Time // when its lease ends if it is not renewed
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("run %s is being run by %s", e.ID, e.Owner)
}

// A NotFoundError reports that the store has no such run, or that it is hidden.
type NotFoundError struct {
	ID     string
	Store  string // which store was searched, for people
	Hidden bool   // the run was removed, and can be restored
}

func (e *NotFoundError) Error() string {
	if e.Hidden {
		return fmt.Sprintf("run %s was removed, and can be restored", e.ID)
	}
	return fmt.Sprintf("no run %q in %s", e.ID, e.Store)
}

// A CorruptError reports that a stored record is damaged. Records before Seq are intact.
type CorruptError struct {
	ID   string
	Seq  uint64 // the first record that cannot be trusted
	Good uint64 // the last one that can, 0 if there is none
	Why  string
}

func (e *CorruptError) Error() string {
	good := fmt.Sprintf("record %d is the last good one", e.Good)
	if e.Good == 0 {
		good = "no record can be trusted"
	}
	return fmt.Sprintf("the log of run %s is damaged at record %d (%s); %s", e.ID, e.Seq, e.Why, good)
}

// An EndedError reports that a run is finished: nothing is added to its log any more.
type EndedError struct {
	ID     string
	Status Status
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("run %s is %s and takes no more; start a new one", e.ID, e.Status)
}

// A StorageError reports that a store cannot accept writes for now: the disk is full or fails, or a
// server has not answered in time. Nothing of the write is stored, and earlier records are safe.
type StorageError struct {
	Store string // which one, for people, without passwords
	Err   error
	// Unbegun reports that a run could not be created, so that there is none to resume.
	Unbegun bool
}

func (e *StorageError) Error() string {
	if e.Unbegun {
		return fmt.Sprintf("store %s can take no more (%v); the run was not created: see to that, then start it again", e.Store, e.Err)
	}
	return fmt.Sprintf("store %s can take no more (%v); nothing was lost: see to that, then resume the run", e.Store, e.Err)
}

func (e *StorageError) Unwrap() error { return e.Err }

// A QuarantinedError reports that a run has crashed several processes in a row.
type QuarantinedError struct {
	ID        string
	Takeovers int
}

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("run %s is quarantined: it was taken over %d times, and each process died while running it", e.ID, e.Takeovers)
}
