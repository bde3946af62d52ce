package graph

import "github.com/superstep-dev/superstep/internal/pregel"

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
