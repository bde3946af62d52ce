package graph

import (
	"errors"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

type (
	// TasksError reports that tasks of a superstep failed for good.
	TasksError = pregel.TasksError
	// StepLimitError reports that a run reached its limit of supersteps.
	StepLimitError = pregel.StepLimitError
	// TimeoutError reports that a run or a task exceeded its time limit.
	TimeoutError = pregel.TimeoutError
	// PanicError reports that a node panicked.
	PanicError = pregel.PanicError
)

// ErrStopped is the error of a run that was asked to stop, see RunOptions.Stop: the run is interrupted.
var ErrStopped = pregel.ErrStopped

// Halt wraps err so that a node that returns it fails the whole run: there is no further attempt,
// and no OnError, Catch or Settled join handles it, neither the node's own nor one of the nodes
// around it.
func Halt(err error) error { return &haltError{err} }

type haltError struct{ err error }

func (e *haltError) Error() string { return e.err.Error() }

func (e *haltError) Unwrap() error { return e.err }

// Halts reports whether an error was created by Halt, or wraps such an error.
func Halts(err error) bool { return errors.As(err, new(*haltError)) }

// timeout returns the error of an attempt that took too long, whatever the attempt returned.
func (n *node) timeout(err error) error {
	return &pregel.TimeoutError{What: "node " + n.Name, After: n.Timeout, Err: err}
}

// late returns the result of an attempt. An attempt that ran past its deadline has failed, whatever
// the node returned, unless it has paused by then.
func (n *node) late(err error, late bool) error {
	if !late || journal.Waits(err) {
		return err
	}
	return n.timeout(err)
}

// isLate reports whether an error means that an attempt ran out of time. A node that measures its own time
// returns an error with a method OfAttempt.
func (n *node) isLate(err error) bool {
	switch err := err.(type) { //nolint:errorlint // one that it wraps is of another node
	case *pregel.TimeoutError:
		return err.What == "node "+n.Name
	case interface{ OfAttempt() bool }:
		return err.OfAttempt()
	}
	return false
}
