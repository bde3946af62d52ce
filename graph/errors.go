package graph

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

// A TasksError reports that tasks of a superstep failed for good.
type TasksError struct {
	Step  int
	Tasks []TaskError // in path order
}

func (e *TasksError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the failures one by one, each a *TaskError.
func (e *TasksError) Unwrap() []error {
	out := make([]error, len(e.Tasks))
	for i := range e.Tasks {
		out[i] = &e.Tasks[i]
	}
	return out
}

// A TaskError reports why one task failed.
type TaskError struct {
	Path string
	Err  error
}

func (e *TaskError) Error() string { return (*pregel.TaskError)(e).Error() }

// Unwrap returns the cause.
func (e *TaskError) Unwrap() error { return e.Err }

// A StepLimitError reports that a run reached its limit of supersteps.
type StepLimitError struct {
	Limit    int
	Frontier []string // the paths of the tasks that would have run next, at most ten
}

func (e *StepLimitError) Error() string { return (*pregel.StepLimitError)(e).Error() }

// A TimeoutError reports that a run or an attempt of a node exceeded its time limit.
type TimeoutError struct {
	What  string // "the run", or "node " and its name
	After time.Duration
	Err   error // what it ended with after that, nil if it did not fail
}

func (e *TimeoutError) Error() string { return (*pregel.TimeoutError)(e).Error() }

// Unwrap returns what it ended with.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// A PanicError reports that a node or a reducer panicked.
type PanicError struct {
	Value  any
	Stack  []byte
	During string // what was done with which task's update, "" for a node itself
}

func (e *PanicError) Error() string { return (*pregel.PanicError)(e).Error() }

// Unwrap returns the panic value if it is an error.
func (e *PanicError) Unwrap() error { return (*pregel.PanicError)(e).Unwrap() }

// ErrStopped is the error of a run that was asked to stop, see RunOptions.Stop: the run is interrupted.
var ErrStopped error = pregel.ErrStopped

// public returns an error of the machine as the type that this package documents.
func public(err error) error {
	switch e := err.(type) { //nolint:errorlint // what a node wraps is of another run
	case *pregel.TasksError:
		out := &TasksError{Step: e.Step}
		for _, t := range e.Tasks {
			out.Tasks = append(out.Tasks, TaskError{t.Path, public(t.Err)})
		}
		return out
	case *pregel.StepLimitError:
		return (*StepLimitError)(e)
	case *pregel.PanicError:
		return (*PanicError)(e)
	}
	return err
}

// A ChangedError reports that a run was begun with another version of its graph.
type ChangedError struct {
	Graph string
	Diff  []string // "+ node x", "- edge a → b"
	Why   string   // why it cannot be continued with all the same, "" if nobody has tried
}

func (e *ChangedError) Error() string {
	remedy := "finish the run with the version that began it, start a new one, or go on with --allow-graph-change (AllowChange) if what it " +
		"does next is still there"
	if e.Why != "" {
		remedy = "it cannot go on with this version: " + e.Why + "; finish the run with the version that began it, or start a new one"
	}
	return fmt.Sprintf("graph %q changed since the run began:\n  %s\n%s", e.Graph, strings.Join(e.Diff, "\n  "), remedy)
}

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
	return &TimeoutError{What: "node " + n.Name, After: n.Timeout, Err: err}
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
	case *TimeoutError:
		return err.What == "node "+n.Name
	case interface{ OfAttempt() bool }:
		return err.OfAttempt()
	}
	return false
}
