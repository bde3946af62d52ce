package workflow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

// single makes a workflow of one node.
func single(t *testing.T, name string, n graph.Node[pair, pair]) *workflow.Workflow {
	t.Helper()
	g := graph.New(name, func(_, u pair) pair { return u })
	g.AddNode(n)
	g.Edge(graph.Start, n.Name)
	g.Edge(n.Name, graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New(name, "", flow, func(in pair) (pair, error) { return in, nil }, func(s pair) (pair, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func calls(name string) graph.Node[pair, pair] {
	return graph.Call("call", name, func(s pair) (any, error) { return s, nil }, func(out json.RawMessage) (u pair, err error) {
		return u, json.Unmarshal(out, &u)
	})
}

func TestNodeRunsAWorkflowByName(t *testing.T) {
	add := single(t, "add", graph.Node[pair, pair]{Name: "sum", Run: func(_ context.Context, _ *graph.Task, s pair) (pair, error) {
		return pair{A: s.A + s.B}, nil
	}})
	settled := 0
	add.Prepare = func(in json.RawMessage) (json.RawMessage, error) { settled++; return in, nil }
	outer := single(t, "outer", calls("add"))
	set := workflow.Set{outer, add}
	if err := set.Validate(); err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	e := &workflow.Exec{Inputs: json.RawMessage(`{"a":3,"b":4}`), Journal: j, Graph: graph.RunOptions{Journal: j, Workflows: set.Nested}}
	res, err := outer.Run(t.Context(), e)
	if err != nil || string(res.Output) != `{"a":7,"b":0}` || settled != 1 {
		t.Fatalf("got %+v, %v, settled %d times", res, err, settled)
	}
	var inner bool
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		inner = inner || r.Kind == runlog.KindTaskDone && r.Path == "call/sum"
	}
	if !inner {
		t.Error("the inner workflow left nothing in the log of the outer one")
	}
	e.Inputs, e.Graph.Journal, e.Graph.Workflows = json.RawMessage(`{"a":3,"b":4}`), nil, nil
	if _, err := outer.Run(t.Context(), e); err == nil || !strings.Contains(err.Error(), `no workflow "add" here`) {
		t.Errorf("got %v", err)
	}
}

func TestWorkflowsInACircle(t *testing.T) {
	set := workflow.Set{single(t, "a", calls("b")), single(t, "b", calls("c")), single(t, "c", calls("a")), single(t, "d", calls("ab"))}
	err := set.Validate()
	if err == nil || !strings.Contains(err.Error(), "a → b → c → a") || !strings.Contains(err.Error(), `workflow "d" runs "ab"`) {
		t.Fatalf("got %v", err)
	}
}

// A node runs no workflow that it has not named: circles would not be found.
func TestUndeclaredWorkflow(t *testing.T) {
	w := single(t, "sly", graph.Node[pair, pair]{Name: "n", Run: func(_ context.Context, t *graph.Task, s pair) (pair, error) {
		_, err := t.Workflow("sly")
		return s, err
	}})
	set := workflow.Set{w}
	_, err := w.Run(t.Context(), &workflow.Exec{Inputs: json.RawMessage(`{"a":1,"b":2}`), Graph: graph.RunOptions{Workflows: set.Nested}})
	if err == nil || !strings.Contains(err.Error(), "not among its Uses") {
		t.Errorf("got %v", err)
	}
}
