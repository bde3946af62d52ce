package agent

import (
	"errors"
	"slices"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A placedError says of a graph that waits, which knows its tasks by their own paths, where in
// the log it is.
type placedError struct {
	err   error
	paths []string
}

func (e *placedError) Error() string { return e.err.Error() }

func (e *placedError) Unwrap() error { return e.err }

// within adds to an error of a graph that was run in a place of the task where that is.
func (k *desk) within(place string, err error) error {
	var waits *pregel.WaitingError
	if !errors.As(err, &waits) {
		return err
	}
	e := &placedError{err: err}
	for _, path := range waits.Paths {
		e.paths = append(e.paths, k.task.Scope().Inner(place).Inner(path).Path())
	}
	return e
}

// answered reports whether some of what an error waits for has come: a question has its answer, or
// a task of a graph waits for nothing more. A workflow that waits for another condition, such as a
// larger budget, cannot resume while the task runs.
func (k *desk) answered(why error) bool {
	if k.journal == nil {
		return false
	}
	open, asking := k.task.Scope().Open(), k.journal.Asking()
	return some(why, func(err error) bool {
		switch e := err.(type) { //nolint:errorlint // it goes through all that is wrapped
		case *journal.WaitError:
			return !slices.ContainsFunc(open, func(q runlog.Question) bool { return q.Path == e.Question.Path && q.Key == e.Question.Key })
		case *placedError:
			return slices.ContainsFunc(e.paths, func(path string) bool { return !asking[path] })
		}
		return false
	})
}

// some reports whether a condition holds for an error or for an error that it wraps.
func some(err error, is func(error) bool) bool {
	if err == nil {
		return false
	}
	if is(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return some(e.Unwrap(), is)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return some(err, is) })
	}
	return false
}
