package graph

import (
	"errors"

	"github.com/superstep-dev/superstep/internal/pregel"
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
