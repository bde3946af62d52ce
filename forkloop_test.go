package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

// The fork of a partial run does 2 failed tasks of 500 again, although the node that they are in is on a loop. What came after them is done again, too.
func TestForkFailedWithinALoop(t *testing.T) {
	const tasks = 500
	var mu sync.Mutex
	did, broken := map[string]int{}, true
	inner := graph.New("inner", merge)
	for i := range tasks {
		name := fmt.Sprintf("t%d", i)
		n := graph.Node[facts, facts]{Name: name, OnError: graph.Skip, Reads: []string{}, Run: func(context.Context, *graph.Task, facts) (facts, error) {
			mu.Lock()
			defer mu.Unlock()
			if did[name]++; broken && (i == 7 || i == 300) {
				return facts{}, errors.New("broken")
			}
			return facts{[]string{name}}, nil
		}}
		inner.AddNode(n)
		inner.Edge(graph.Start, name)
		inner.Edge(name, graph.End)
	}
	sub, err := inner.Compile()
	if err != nil {
		t.Fatal(err)
	}
	outer := graph.New("outer", merge)
	outer.AddNode(graph.Node[facts, facts]{Name: "work", Run: func(ctx context.Context, task *graph.Task, s facts) (facts, error) {
		if task.Visit() > 0 {
			return facts{[]string{"more"}}, nil
		}
		o := task.Nested("")
		o.Ended = func(_ int, skipped []string) { task.PassOver(skipped...) }
		last, err := sub.Run(ctx, facts{}, o)
		return facts{[]string{fmt.Sprint(len(last.Words))}}, err
	}})
	outer.Add("judge", func(context.Context, facts) (facts, error) { return facts{}, nil })
	outer.Edge(graph.Start, "work")
	outer.Edge("work", "judge")
	outer.Branch("judge", func(s facts) string {
		if len(s.Words) > 1 {
			return graph.End
		}
		return "work"
	}, "work", graph.End)
	flow, err := outer.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("loop", "", flow, func(struct{}) (facts, error) { return facts{}, nil }, func(s facts) (facts, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, runlog.NewMemory(nil), w)
	run, err := e.Start(t.Context(), "loop", json.RawMessage(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Partial)
	broken, did = false, map[string]int{}
	fork, err := e.ForkFailed(t.Context(), run.ID())
	if err != nil {
		t.Fatal(err)
	}
	out := ends(t, resume(t, e, fork.ID, &superstep.ResumeOptions{}), runlog.Completed)
	if diff := cmp.Diff(map[string]int{"t7": 1, "t300": 1}, did); diff != "" {
		t.Error(diff)
	}
	if string(out.Output) != `{"words":["500","more"]}` {
		t.Errorf("%s", out.Output)
	}
}

// What may have happened and must not happen twice is not done again because a partial run is resumed. An explicit fork does it.
func TestForkFailedOnce(t *testing.T) {
	store, done := runlogtest.NewMortal(), 0
	g := graph.New("pay", merge)
	g.AddNode(graph.Node[facts, facts]{Name: "pay", OnError: graph.Skip, Run: func(ctx context.Context, _ *graph.Task, _ facts) (facts, error) {
		paid, err := graph.Once(ctx, "charge", func(context.Context, string) (string, error) {
			if done++; done == 1 {
				store.Die()
			}
			return "paid", nil
		})
		return facts{[]string{paid}}, err
	}})
	g.Edge(graph.Start, "pay")
	g.Edge("pay", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("pay", "", flow, func(struct{}) (facts, error) { return facts{}, nil }, func(s facts) (facts, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, store, w)
	run, err := e.Start(t.Context(), "pay", json.RawMessage(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = run.Wait(t.Context())
	store.Revive()
	e = engine(t, store, w)
	q := ends(t, resume(t, e, run.ID(), nil), runlog.Paused).Open[0]
	if err := e.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(fmt.Sprintf("%q", runlog.UnknownHappened)), By: "person"}); err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, run.ID(), nil), runlog.Partial)
	var twice *superstep.RepeatError
	if _, err := e.ForkFailed(t.Context(), run.ID()); !errors.As(err, &twice) || twice.Effect.Path != "pay" || done != 1 {
		t.Fatalf("%v, done %d times", err, done)
	}
	fork, err := e.Fork(t.Context(), run.ID(), 0, &superstep.ForkOptions{Again: []string{"pay"}})
	if err != nil {
		t.Fatal(err)
	}
	if ends(t, resume(t, e, fork.ID, nil), runlog.Completed); done != 2 {
		t.Errorf("done %d times", done)
	}
}
