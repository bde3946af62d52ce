package ralph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/builtin/ralph"
	"github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// Of 500 tasks 2 fail. The resumed run does these again and what waits for them, and no other. The graph and the engine are those of a run, but a function
// does the tasks, for 500 worktrees would take minutes.
func TestFailedTasksAgain(t *testing.T) {
	t.Parallel()
	var s ralph.State
	for i := range 500 {
		p := plan.Task{ID: fmt.Sprint(i), Title: "t"}
		if i >= 10 && i != 300 {
			p.BlockedBy = []string{fmt.Sprint(i % 5)}
		}
		s.Tasks = append(s.Tasks, p)
	}
	s.Tasks[400].BlockedBy = []string{"300"}
	var mu sync.Mutex
	did, broken := map[string]int{}, true
	type counts map[string]int // of the tasks of each status
	outer := graph.New("outer", func(_, u counts) counts { return u })
	outer.AddNode(graph.Node[counts, counts]{Name: "work", Run: func(ctx context.Context, task *graph.Task, _ counts) (counts, error) {
		inner, begin, err := s.Graph("run", func(_ context.Context, _ *graph.Task, p plan.Task, d ralph.Done) (ralph.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, b := range p.BlockedBy {
				if d[b].Status != plan.Completed {
					return ralph.Result{ID: p.ID, Status: plan.Pending}, nil
				}
			}
			if did[p.ID]++; broken && (p.ID == "7" || p.ID == "300") {
				return ralph.Result{}, errors.New("broken")
			}
			return ralph.Result{ID: p.ID, Status: plan.Completed}, nil
		})
		if err != nil {
			return nil, err
		}
		o := task.Nested("")
		o.Ended = func(_ int, skipped []string) { task.PassOver(skipped...) }
		final, err := inner.Run(ctx, begin, o)
		count := counts{}
		for _, res := range final {
			count[res.Status]++
		}
		return count, err
	}})
	outer.Edge(graph.Start, "work")
	outer.Edge("work", graph.End)
	flow, err := outer.Compile()
	if err != nil {
		t.Fatal(err)
	}
	same := func(c counts) (counts, error) { return c, nil }
	w, err := workflow.New("tasks", "", flow, func(struct{}) (counts, error) { return nil, nil }, same)
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ends := func(run *superstep.Run, err error, want runlog.Status, output string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Wait(t.Context())
		if err != nil || out.Status != want || string(out.Output) != output {
			t.Fatalf("it is %s with %s, %v", out.Status, out.Output, err)
		}
	}
	run, err := e.Start(t.Context(), "tasks", json.RawMessage(`{}`), nil)
	ends(run, err, runlog.Partial, `{"completed":497,"error":2,"pending":1}`)
	if len(did) != 499 || did["400"] != 0 {
		t.Errorf("%d tasks were done", len(did))
	}
	mu.Lock()
	broken = false
	clear(did)
	mu.Unlock()
	fork, err := e.ForkFailed(t.Context(), run.ID())
	if err != nil {
		t.Fatal(err)
	}
	run, err = e.Resume(t.Context(), fork.ID, nil)
	ends(run, err, runlog.Completed, `{"completed":500}`)
	if diff := cmp.Diff(map[string]int{"7": 1, "300": 1, "400": 1}, maps.Clone(did)); diff != "" {
		t.Error(diff)
	}
}
