package graph

import "github.com/superstep-dev/superstep/internal/pregel"

// The errors of a run, beside [Paused].
type (
	TasksError     = pregel.TasksError     // tasks of a superstep failed for good
	StepLimitError = pregel.StepLimitError // it took as many supersteps as it may
	TimeoutError   = pregel.TimeoutError   // the run or a task took longer than it may
	PanicError     = pregel.PanicError     // a node panicked
)

// ErrStopped is the error of a run that was asked to stop, see RunOptions.Stop: the run is interrupted.
var ErrStopped = pregel.ErrStopped
