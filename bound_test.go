package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// squad is a workflow that fans out to as many agents as its input says, at most most.
func squad(t *testing.T, most int, ran *int) *workflow.Workflow {
	t.Helper()
	g := graph.New("squad", func(s, u int) int { return s + u })
	g.Add("split", func(context.Context, int) (int, error) { return 0, nil })
	g.AddNode(graph.Node[int, int]{Name: "agent", Kind: "worker", Agents: 1, Most: most, Run: func(ctx context.Context, t *graph.Task, _ int) (int, error) {
		return journal.Do(ctx, t.Scope(), &journal.Effect{Key: "agent", Cost: runlog.Amount{Agents: 1}}, func(context.Context, string) (int, error) {
			*ran++
			return 0, nil
		})
	}})
	g.Edge(graph.Start, "split")
	g.Fan("split", func(n int) (out []graph.Send) {
		for i := range n {
			out = append(out, graph.Send{To: "agent", Key: fmt.Sprint(i)})
		}
		return out
	}, "agent")
	g.Edge("agent", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("squad", "", flow, func(in struct{ N int }) (int, error) { return in.N, nil }, func(n int) (int, error) { return n, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestBoundIsComparedBeforeTheRun(t *testing.T) {
	ran := 0
	store := runlog.NewMemory(nil)
	e, err := superstep.New(store, &superstep.Options{Workflows: workflow.Set{squad(t, 8, &ran)}, Parallelism: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Start(t.Context(), "squad", json.RawMessage(`{"N":2}`), &superstep.StartOptions{Budget: &runlog.Budget{Agents: 7}})
	if err == nil || !strings.Contains(err.Error(), "may start 8 agents, and the budget has 7") || superstep.FailureCode(err) != superstep.CodeBudget {
		t.Fatalf("got %v", err)
	}
	if runs, err := e.Runs(t.Context(), nil); err != nil || len(runs) != 0 {
		t.Errorf("there is a run: %v, %v", runs, err)
	}
	r, err := e.Start(t.Context(), "squad", json.RawMessage(`{"N":2}`), &superstep.StartOptions{Budget: &runlog.Budget{Agents: 8}})
	if out := wait(t, r, err); out.Status != runlog.Completed || ran != 2 {
		t.Errorf("got %+v, %d agents", out, ran)
	}
}

// A fan-out wider than what is left is turned down before the first of its agents, and
// continues with a larger budget.
func TestFanBeyondTheBudget(t *testing.T) {
	ran := 0
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: workflow.Set{squad(t, 0, &ran)}, Parallelism: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r, err := e.Start(t.Context(), "squad", json.RawMessage(`{"N":5}`), &superstep.StartOptions{Budget: &runlog.Budget{Agents: 4}})
	if out := wait(t, r, err); out.Status != runlog.Paused || out.Short == nil || ran != 0 {
		t.Fatalf("got %+v, %d agents", out, ran)
	}
	r, err = e.Resume(t.Context(), r.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Agents: 5}})
	if out := wait(t, r, err); out.Status != runlog.Completed || ran != 5 {
		t.Errorf("got %+v, %d agents", out, ran)
	}
}
