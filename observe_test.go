package superstep_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// An observer misses nothing, not even the live-only records of the first task, and
// has seen everything once there is an outcome.
func TestObserve(t *testing.T) {
	t.Parallel()
	g := graph.New("one", func(s, u string) string { return s + u })
	g.Add("only", func(context.Context, string) (string, error) { return "x", nil })
	g.Edge(graph.Start, "only")
	g.Edge("only", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("one", "", flow, func(struct{}) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 50 {
		var kinds []string
		run, err := e.Start(t.Context(), "one", json.RawMessage(`{}`), &superstep.StartOptions{Observe: func(r runlog.Record, err error) {
			kind := string(r.Kind)
			if r.Seq == 0 {
				kind = "live " + kind
			}
			kinds = append(kinds, kind)
			if err != nil {
				t.Error(err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"run.started", "snapshot", "live event", "task.done", "step.committed", "run.finished"}
		if len(kinds) != len(want) {
			t.Fatalf("saw %q", kinds)
		}
		for i := range want {
			if kinds[i] != want[i] {
				t.Fatalf("saw %q", kinds)
			}
		}
	}
}
