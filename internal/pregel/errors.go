package pregel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A TasksError names which tasks of a superstep failed for good, in path order.
type TasksError struct {
	Step  int
	Tasks []TaskError
}

// A TaskError explains why one task failed.
type TaskError struct {
	Path string
	Err  error
}

func (e *TaskError) Error() string {
	text, who := e.Err.Error(), "node "+e.Path
	if strings.HasPrefix(text, who+" ") { // it names the node itself
		return text
	}
	return who + ": " + text
}

// Unwrap returns the cause.
func (e *TaskError) Unwrap() error { return e.Err }

func (e *TasksError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the failures one by one.
func (e *TasksError) Unwrap() []error {
	out := make([]error, len(e.Tasks))
	for i := range e.Tasks {
		out[i] = &e.Tasks[i]
	}
	return out
}

// A WaitingError reports that a run can only continue once something it waits for has happened.
type WaitingError struct {
	Paths []string // the waiting tasks, in path order
	Errs  []error  // by path: what the task waits for; nil if it is not known
}

func (e *WaitingError) Error() string {
	lines := slices.Clone(e.Paths)
	for i, err := range e.Errs {
		switch {
		case err == nil:
		case strings.HasPrefix(err.Error(), lines[i]):
			lines[i] = err.Error()
		default:
			lines[i] += ": " + err.Error()
		}
	}
	return "paused: " + strings.Join(lines, "\n")
}

// Waits reports that the run is not over.
func (e *WaitingError) Waits() bool { return true }

// A StepLimitError reports that a run reached its limit of supersteps.
type StepLimitError struct {
	Limit    int
	Frontier []string // what would have computed next, in path order, at most ten
}

func (e *StepLimitError) Error() string {
	return fmt.Sprintf("stopped at %d steps; frontier: %s; raise the step limit (--max-steps, or MaxSteps) if the loop is meant to be longer",
		e.Limit, strings.Join(e.Frontier, ", "))
}

// A TimeoutError reports that a run or a task exceeded its time limit.
type TimeoutError struct {
	What  string
	After time.Duration
	Err   error // what it ended with after that, nil if it did not fail
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s took longer than its limit of %s", e.What, e.After)
	if e.Err == nil {
		return text
	}
	why := e.Err.Error()
	for _, cut := range []string{text, context.DeadlineExceeded.Error(), context.Canceled.Error()} {
		if strings.Contains(why, cut) { // that is only how it was told
			return text
		}
	}
	return text + ", and ended with: " + why
}

// Unwrap returns what it ended with.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// A StalledError reports that a join can never fire: the run is over and not every source has sent.
type StalledError struct {
	Vertex  string
	Need    int // of the Sources
	Sources int
	Missing []string
}

func (e *StalledError) Error() string {
	what := "all of its sources"
	if e.Need < e.Sources {
		what = fmt.Sprintf("%d of its %d sources", e.Need, e.Sources)
	}
	return fmt.Sprintf("node %q joins %s, but %s never sent; give it an `any` join, or make every route reach it", e.Vertex, what, strings.Join(e.Missing, ", "))
}

// A PanicError is a panic of a task.
type PanicError struct {
	Value  any
	Stack  []byte
	During string // what was done with which task's result, "" for a task itself
}

func (e *PanicError) Error() string {
	if e.During != "" {
		return fmt.Sprintf("%s: panic: %v", e.During, e.Value)
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// ErrGone reports that a task ended its goroutine instead of returning.
var ErrGone = errors.New("it ended its goroutine and returned nothing (t.FailNow or runtime.Goexit?)")

// Unwrap returns the panic value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Stuck returns why a superstep cannot continue when nothing is running and nothing may start: a
// *TasksError or a *WaitingError.
func (m *Machine[S, U, M]) Stuck() error {
	if failed := m.Failures(); len(failed) > 0 {
		e := &TasksError{Step: m.Step()}
		for _, i := range failed {
			e.Tasks = append(e.Tasks, TaskError{m.Path(&m.tasks[i]), m.results[i].Err})
		}
		return e
	}
	if len(m.cut) > 0 && m.ahead != nil { // it does not come to the superstep of the failure
		e := &TasksError{Step: m.doom}
		for _, c := range m.ahead.failures() {
			e.Tasks = append(e.Tasks, TaskError{m.ahead.path(c), c.result.Err})
		}
		return e
	}
	if waits := m.Waits(); len(waits) > 0 {
		e := &WaitingError{}
		for i := range waits {
			var why error
			if t := &waits[i]; t.Step == m.Step() && t.Index < len(m.results) {
				why = m.results[t.Index].Err
			}
			e.Paths, e.Errs = append(e.Paths, m.Path(&waits[i])), append(e.Errs, why)
		}
		return e
	}
	return errors.New("pregel: nothing to do in a superstep that is not complete")
}

// StallError returns what is wrong with the end of a run: a *StalledError, or nil.
func (m *Machine[S, U, M]) StallError() error {
	missing := m.Stalled()
	if len(missing) == 0 {
		return nil
	}
	to := slices.Min(slices.Collect(maps.Keys(missing)))
	v := &m.prog.Vertices[to]
	e := &StalledError{Vertex: v.Name, Need: v.Need, Sources: len(v.Sources)}
	for _, from := range missing[to] {
		e.Missing = append(e.Missing, m.prog.Vertices[from].Name)
	}
	return e
}

// LimitError is the *StepLimitError of a run that has come to its limit.
func (m *Machine[S, U, M]) LimitError(limit int) error {
	e := &StepLimitError{Limit: limit}
	for i := range m.tasks {
		if i == 10 {
			e.Frontier = append(e.Frontier, fmt.Sprintf("and %d more", len(m.tasks)-i))
			break
		}
		e.Frontier = append(e.Frontier, m.Path(&m.tasks[i]))
	}
	return e
}
