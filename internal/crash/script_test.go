package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/workflow"
)

// ScriptName is the name of the workflow without a graph, see [Job.Script].
const ScriptName = "crash-script"

// Workflows returns all that is broken.
func Workflows(w World) ([]*workflow.Workflow, error) {
	flow, err := Workflow(w)
	if err != nil {
		return nil, err
	}
	part, err := workflow.Script("crash-part", "Is called by the script.", func(ctx context.Context, s *workflow.Steps, j Job) ([]string, error) {
		return acts(ctx, w, s.Task, once(fmt.Sprint("order", j.Rounds)), ask("check"))
	}, nil)
	if err != nil {
		return nil, err
	}
	script, err := workflow.Script(ScriptName, "Is killed and goes on.", func(ctx context.Context, s *workflow.Steps, j Job) ([]string, error) {
		return play(ctx, w, s, j)
	}, &workflow.ScriptOptions{Uses: []string{"crash-part"}})
	return []*workflow.Workflow{flow, script, part}, err
}

// play is the script: steps beside each other, a loop with a sleep and a workflow in it, a question, and effects of all kinds.
func play(ctx context.Context, w World, s *workflow.Steps, j Job) ([]string, error) {
	trace, err := acts(ctx, w, s.Task, pure("read"))
	if err != nil {
		return nil, err
	}
	beside, failed := make([][]string, j.Width), make([]error, j.Width)
	var all sync.WaitGroup
	for i := range j.Width {
		all.Go(func() {
			beside[i], failed[i] = acts(ctx, w, s.Task, byKey(fmt.Sprint("send", i)), once(fmt.Sprint("charge", i)))
		})
	}
	all.Wait()
	for i := range j.Width {
		if failed[i] != nil {
			return nil, failed[i]
		}
		trace = append(trace, beside[i]...)
	}
	for i := range j.Rounds {
		if _, err := graph.Do(ctx, fmt.Sprint("pad", i), func(context.Context, string) (string, error) { return strings.Repeat(".", j.Pad), nil }); err != nil {
			return nil, err
		}
		if err := s.Sleep(ctx, fmt.Sprint("rest", i), 2*time.Millisecond); err != nil {
			return nil, err
		}
		var part []string
		if err := s.Call(ctx, fmt.Sprint("part", i), "crash-part", Job{Rounds: i}, &part); err != nil {
			return nil, err
		}
		trace = append(trace, part...)
	}
	last, err := acts(ctx, w, s.Task, byKey("draft"), ask("approve"), once("sign"))
	return append(trace, last...), err
}

// acts does one after the other, and returns what they came to.
func acts(ctx context.Context, w World, t *graph.Task, list ...act) ([]string, error) {
	var trace []string
	for _, a := range list {
		did, err := a(ctx, w, t)
		if err != nil {
			return nil, err
		}
		trace = append(trace, did)
	}
	return trace, nil
}
