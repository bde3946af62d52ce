package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

type verdict struct {
	Approve bool   `json:"approve"`
	Why     string `json:"why,omitempty"`
}

// asking is a graph of three nodes that ask, one of them within a graph of its own, and
// beside them a chain that asks nobody.
func asking(t *testing.T, ran map[string]int) *graph.Flow[state, update] {
	ask := func(ctx context.Context, t *graph.Task, s state) (u update, err error) {
		_, err = graph.Do(ctx, "work", func(context.Context, string) (int, error) { ran[t.Scope().Path()]++; return 1, nil })
		if err != nil {
			return u, err
		}
		v, err := graph.Ask[verdict](ctx, graph.Question{Key: "ok", Text: "May " + t.Node() + "?"})
		if err != nil {
			return u, err
		}
		return update{Visit: fmt.Sprintf("%s:%v:%s", t.Node(), v.Approve, v.Why)}, nil
	}
	inner := graph.New("inner", reduce)
	inner.AddNode(graph.Node[state, update]{Name: "deep", Run: ask})
	inner.Add("after", visit("after"))
	edges(inner, "@start deep", "deep after", "after @end")
	innerFlow := compile(t, inner)
	g := graph.New("asking", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: ask})
	g.AddNode(graph.Node[state, update]{Name: "b", Run: ask})
	g.AddNode(graph.Sub("sub", innerFlow, func(s state) (state, error) { return state{}, nil }, func(s state) (update, error) {
		return update{Visit: strings.Join(s.Trail, "+")}, nil
	}))
	chain := []string{"c0", "c1", "c2"}
	for i, n := range chain {
		nd := graph.Node[state, update]{Name: n, Reads: chain[:i], Run: func(context.Context, *graph.Task, state) (update, error) {
			ran[n]++
			return update{Visit: n}, nil
		}}
		if i == 0 {
			nd.Reads = []string{}
		}
		g.AddNode(nd)
	}
	edges(g, "@start a", "@start b", "@start sub", "@start c0", "c0 c1", "c1 c2", "a @end", "b @end", "sub @end", "c2 @end")
	return compile(t, g)
}

const asked = "a:true:yes b:false: deep:true:+after c0 c1 c2"

func TestManyQuestionsAnsweredInAnyOrder(t *testing.T) {
	for _, order := range [][]string{{"a", "b", "sub/deep"}, {"sub/deep", "b", "a"}, {"b", "sub/deep", "a"}} {
		store := runlog.NewMemory(nil)
		ran := map[string]int{}
		flow := asking(t, ran)
		answers := map[string]string{"a": `{"approve":true,"why":"yes"}`, "b": `{"approve":false}`, "sub/deep": `{"approve":true}`}
		for i := 0; ; i++ {
			j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, Reopen: true, SnapshotAfter: 1})
			if err != nil {
				t.Fatal(err)
			}
			got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, Parallelism: 1})
			if i == len(order) {
				if err != nil || strings.Join(got.Trail, " ") != asked {
					t.Fatalf("%v: got %v, %v", order, got.Trail, err)
				}
				break
			}
			var wait *pregel.WaitingError
			if !errors.As(err, &wait) || len(wait.Paths) != len(order)-i || len(j.Open()) != len(order)-i {
				t.Fatalf("got %v, open %v", err, j.Open())
			}
			if ran["c2"] != 1 {
				t.Fatalf("the other branch stands still: %v", ran)
			}
			if err := j.Answer(t.Context(), order[i], &runlog.Answer{Key: "ok", Value: json.RawMessage(`{"approve":"perhaps"}`)}); err == nil || !strings.Contains(err.Error(), "does not fit") {
				t.Fatalf("a wrong answer gave %v", err)
			}
			if err := j.Answer(t.Context(), order[i], &runlog.Answer{Key: "ok", Value: json.RawMessage(answers[order[i]])}); err != nil {
				t.Fatal(err)
			}
			var twice *journal.AnsweredError
			if err := j.Answer(t.Context(), order[i], &runlog.Answer{Key: "ok", Value: json.RawMessage(answers[order[i]])}); !errors.As(err, &twice) {
				t.Fatalf("a second answer gave %v", err)
			}
			if err := j.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for path, n := range ran {
			if n != 1 {
				t.Errorf("%s was done %d times", path, n)
			}
		}
	}
}

// An answer reaches a run while the rest of it is still running.
func TestAnswerWhileTheRunGoesOn(t *testing.T) {
	j := open(t, runlog.NewMemory(nil), true)
	answered := make(chan struct{})
	g := graph.New("live", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		v, err := graph.Ask[string](ctx, graph.Question{Key: "q", Text: "?"})
		if err == nil {
			close(answered)
		}
		return update{Visit: v}, err
	}})
	g.Add("b", func(ctx context.Context, s state) (update, error) {
		for len(j.Open()) == 0 { // until a has asked
			if ctx.Err() != nil {
				return update{}, ctx.Err()
			}
		}
		if err := j.Answer(ctx, "a", &runlog.Answer{Key: "q", Value: json.RawMessage(`"now"`)}); err != nil {
			return update{}, err
		}
		<-answered // which it can only be if a goes on meanwhile
		return update{Visit: "b"}, nil
	})
	edges(g, "@start a", "@start b", "a @end", "b @end")
	got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil || strings.Join(got.Trail, " ") != "now b" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// A run that is stopped ends between two tasks, keeps what it has, and goes on later.
func TestStopIsBetweenTasks(t *testing.T) {
	store := runlog.NewMemory(nil)
	stop := make(chan struct{})
	ran := map[string]int{}
	g := graph.New("stop", reduce)
	for _, n := range []string{"a", "b", "c"} {
		g.Add(n, func(context.Context, state) (update, error) {
			if n == "b" && ran["b"] == 0 {
				close(stop)
			}
			ran[n]++
			return update{Visit: n}, nil
		})
	}
	edges(g, "@start a", "a b", "b c", "c @end")
	inner := compile(t, g)
	outer := graph.New("outer", reduce)
	outer.AddNode(graph.Sub("sub", inner, func(s state) (state, error) { return s, nil }, func(s state) (update, error) {
		return update{Visit: strings.Join(s.Trail, "")}, nil
	}))
	edges(outer, "@start sub", "sub @end")
	flow := compile(t, outer)
	j := open(t, store, true)
	if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, Stop: stop}); !errors.Is(err, graph.ErrStopped) {
		t.Fatalf("got %v", err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, false)})
	if err != nil || strings.Join(got.Trail, "") != "abc" || ran["a"] != 1 || ran["b"] != 1 || ran["c"] != 1 {
		t.Fatalf("got %v, %v; ran %v", got, err, ran)
	}
}

func TestOneGraphInOnePlace(t *testing.T) {
	inner := graph.New("inner", reduce)
	inner.Add("x", visit("x"))
	edges(inner, "@start x", "x @end")
	flow := compile(t, inner)
	g := graph.New("outer", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		one, err := flow.Run(ctx, s, t.Nested("one"))
		if err != nil {
			return update{}, err
		}
		two, err := flow.Run(ctx, one, t.Nested("two/2"))
		return update{Visit: strings.Join(two.Trail, "")}, err
	}})
	edges(g, "@start a", "a @end")
	store := runlog.NewMemory(nil)
	got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, true)})
	if err != nil || got.Trail[0] != "xx" {
		t.Fatalf("got %v, %v", got, err)
	}
	var paths []string
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindTaskDone {
			paths = append(paths, r.Path)
		}
	}
	if want := "a/~[one]/x a/~[two%2F2]/x a"; strings.Join(paths, " ") != want {
		t.Errorf("got %v", paths)
	}
}
