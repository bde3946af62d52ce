package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// chained returns a graph that goes through nodes one after another.
func chained(t testing.TB, name string, nodes ...graph.Node[facts, facts]) *graph.Flow[facts, facts] {
	t.Helper()
	g := graph.New(name, merge)
	from := graph.Start
	for _, n := range nodes {
		g.AddNode(n)
		g.Edge(from, n.Name)
		from = n.Name
	}
	g.Edge(from, graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func says(name string) graph.Node[facts, facts] {
	return graph.Node[facts, facts]{Name: name, Run: func(_ context.Context, _ *graph.Task, s facts) (facts, error) {
		return facts{[]string{fmt.Sprint(name, len(s.Words))}}, nil
	}}
}

func moments(t testing.TB, e *superstep.Engine, id, inside string) (out []string) {
	t.Helper()
	for m, err := range e.History(t.Context(), id, inside) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(m.Step, " ", string(m.State), " ", strings.Join(m.Next, " ")))
	}
	return out
}

// The history of a graph inside of a task is that of the graph run alone, whatever it is inside of.
func TestInside(t *testing.T) {
	t.Parallel()
	same := func(s facts) (facts, error) { return s, nil }
	last := func(s facts) (facts, error) { return facts{s.Words[len(s.Words)-1:]}, nil }
	innermost := chained(t, "innermost", says("x"), says("y"))
	middle := chained(t, "middle", says("before"), graph.Sub("deep", innermost, same, last))
	parts := node.Parallel("fan", []graph.Node[facts, facts]{says("plain"), graph.Sub("branch", innermost, same, last)},
		func(_ facts, all []node.Result[facts]) (facts, error) {
			return facts{[]string{all[1].Value.Words[0]}}, nil
		}, nil)
	called, err := workflow.New("called", "It is called.", middle, same, same)
	if err != nil {
		t.Fatal(err)
	}
	opaque := graph.Node[facts, facts]{Name: "opaque", Run: func(ctx context.Context, task *graph.Task, s facts) (facts, error) {
		_, err := innermost.Run(ctx, s, task.Nested(""))
		return facts{}, err
	}}
	whole := chained(t, "whole", graph.Sub("sub", middle, same, last), parts,
		graph.Call("call", "called", func(s facts) (any, error) { return s, nil }, func(json.RawMessage) (facts, error) { return facts{}, nil }), opaque, says("plain"))
	w, err := workflow.New("job", "A job.", whole, func(job) (facts, error) { return facts{}, nil }, same)
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	e := engine(t, store, w, called)
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	if got, err := e.Insides(t.Context(), run.ID()); err != nil || strings.Join(got, " ") != "sub sub/deep fan/branch call call/deep opaque" {
		t.Errorf("%v, %v", got, err)
	}
	for inside, want := range map[string][]string{
		"sub":        {`0 {"words":null} sub/before`, `1 {"words":["before0"]} sub/deep`, `2 {"words":["before0","y2"]} `},
		"sub/deep":   {`0 {"words":["before0"]} sub/deep/x`, `1 {"words":["before0","x1"]} sub/deep/y`, `2 {"words":["before0","x1","y2"]} `},
		"fan/branch": {`0 {"words":["y2"]} fan/branch/x`, `1 {"words":["y2","x1"]} fan/branch/y`, `2 {"words":["y2","x1","y2"]} `},
		"call":       {`0 {"words":["y2","y2"]} call/before`, `1 {"words":["y2","y2","before2"]} call/deep`, `2 {"words":["y2","y2","before2","y4"]} `},
		"call/deep":  {`0 {"words":["y2","y2","before2"]} call/deep/x`, `1 {"words":["y2","y2","before2","x3"]} call/deep/y`, `2 {"words":["y2","y2","before2","x3","y4"]} `},
	} {
		if diff := cmp.Diff(want, moments(t, e, run.ID(), inside)); diff != "" {
			t.Errorf("%s: %s", inside, diff)
		}
	}
	for ref, want := range map[string]string{"sub/": `2 sub`, "sub/deep/y": "1 sub/deep", "call/deep/0": "0 call/deep", "sub/before": "0 sub"} {
		m, err := e.At(t.Context(), run.ID(), ref)
		if path := ref[:strings.LastIndexByte(ref, '/')]; err != nil || fmt.Sprint(m.Step, " ", path) != want {
			t.Errorf("%s: %d, %v", ref, m.Step, err)
		}
	}
	for inside, want := range map[string]string{
		"plain":  "there is no graph inside of plain; there is one inside of: sub, sub/deep, fan/branch, call, call/deep, opaque",
		"opaque": "the graph inside of opaque cannot be read: it is made while its node runs",
	} {
		if _, err := e.Inside(t.Context(), run.ID(), inside); err == nil || err.Error() != want || !errors.As(err, new(*graph.InsideError)) {
			t.Errorf("%s: %v", inside, err)
		}
	}
	flow, err := e.Inside(t.Context(), run.ID(), "sub")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Fork(runlog.Records(t.Context(), store, run.ID(), 0), &graph.ForkPoint{At: 5}); err == nil || !strings.Contains(err.Error(), "the run's own graph") {
		t.Errorf("a fork: %v", err)
	}
}

// A run that was resumed in the middle of an inner graph, and a fork, have the history of that graph as well.
func TestInsideOfFork(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	e := engine(t, runlog.NewMemory(nil), deep(t, &did))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	began, err := e.At(t.Context(), run.ID(), "0")
	if err != nil {
		t.Fatal(err)
	}
	fork, err := e.Fork(t.Context(), run.ID(), began.Seq, nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, fork.ID, nil), runlog.Completed)
	if diff := cmp.Diff(moments(t, e, run.ID(), "sub"), moments(t, e, fork.ID, "sub")); diff != "" || len(moments(t, e, fork.ID, "sub")) != 4 {
		t.Error(diff)
	}
}
