package ralph

import (
	"context"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/plan"
)

// What tests of the package need to execute a graph of tasks without a repository.
type (
	State  = state
	Done   = done
	Result = result
)

func (s *state) Graph(run string, do func(context.Context, *graph.Task, plan.Task, done) (result, error)) (*graph.Flow[done, result], done, error) {
	return s.graph(run, do)
}
