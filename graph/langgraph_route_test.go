package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// leaving is a node in its full form that leaves its name in the trail.
func leaving(name string, join graph.Join) graph.Node[state, update] {
	return graph.Node[state, update]{Name: name, Join: join, Run: func(context.Context, *graph.Task, state) (update, error) {
		return update{Visit: name}, nil
	}}
}

// Several that lead to a node in one superstep wake it once.
func TestLangGraphFanInOfOneSuperstep(t *testing.T) {
	g := graph.New("in", reduce)
	for _, n := range []string{"s", "a", "b", "j"} {
		g.Add(n, visit(n))
	}
	edges(g, "@start s", "s a", "s b", "a j", "b j", "j @end")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, "") != "sabj" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// A join counts anew in every round of a loop.
func TestLangGraphJoinInALoop(t *testing.T) {
	g := graph.New("rounds", reduce)
	for _, n := range []string{"s", "a", "b", "b2"} {
		g.Add(n, visit(n))
	}
	g.AddNode(leaving("j", graph.All))
	edges(g, "@start s", "s a", "s b", "b b2", "a j", "b2 j")
	g.Branch("j", func(s state) string {
		if s.N < 8 {
			return "s"
		}
		return graph.End
	}, "s", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "s a b b2 j s a b b2 j" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// What a deferred node does there, a join does here: it waits for the longest way.
func TestLangGraphDeferredNode(t *testing.T) {
	g := graph.New("late", reduce)
	for _, n := range []string{"s", "a", "b", "b2", "b3"} {
		g.Add(n, visit(n))
	}
	g.AddNode(leaving("last", graph.All))
	edges(g, "@start s", "s a", "s b", "b b2", "b2 b3", "a last", "b3 last", "last @end")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "s a b b2 b3 last" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// scatter is a graph that sends words to a worker each, and joins what they make.
func scatter(t *testing.T, join graph.Join, sends func(words []string) []graph.Send) *graph.Flow[state, update] {
	g := graph.New("spread", reduce)
	g.Add("split", func(context.Context, state) (update, error) { return update{}, nil })
	g.AddNode(graph.Node[state, update]{Name: "work", Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		var words []string
		for _, m := range t.Messages() {
			words = append(words, string(m.Arg))
		}
		return update{Add: 1, Visit: fmt.Sprintf("%s%d", strings.Join(words, ","), len(s.Trail))}, nil
	}})
	g.AddNode(leaving("j", join))
	edges(g, "@start split", "work j", "j @end")
	g.Fan("split", func(s state) []graph.Send { return sends(s.Trail) }, "work")
	return compile(t, g)
}

// Each word has a task of its own, which sees the whole state and its word; what they
// make is folded in the order of the sends; the join comes once.
func TestLangGraphSend(t *testing.T) {
	for _, join := range []graph.Join{graph.Any, graph.All} {
		f := scatter(t, join, func(words []string) (out []graph.Send) {
			for i, w := range words {
				out = append(out, graph.Send{To: "work", Key: fmt.Sprint(9 - i), Arg: w})
			}
			return out
		})
		got, err := f.Run(t.Context(), state{Trail: []string{"x", "a", "m"}}, nil)
		if err != nil || strings.Join(got.Trail, " ") != `x a m "x"3 "a"3 "m"3 j` {
			t.Errorf("%v: got %v, %v", join, got, err)
		}
	}
}

// Tasks of a fan are told apart by their keys; those without are turned down.
func TestLangGraphSendsOfOneKey(t *testing.T) {
	f := scatter(t, graph.Any, func(words []string) (out []graph.Send) {
		for _, w := range words {
			out = append(out, graph.Send{To: "work", Arg: w})
		}
		return out
	})
	if _, err := f.Run(t.Context(), state{Trail: []string{"x", "a"}}, nil); err == nil || !strings.Contains(err.Error(), "sends to work twice") {
		t.Fatalf("got %v", err)
	}
}

// Sending nothing fails the node, so that a run that lacks a part does not end as if all
// were well, unless the fan says that it may.
func TestLangGraphEmptyFan(t *testing.T) {
	none := func(state) []graph.Send { return nil }
	build := func(to ...string) *graph.Flow[state, update] {
		g := graph.New("empty", reduce)
		for _, n := range []string{"split", "work"} {
			g.Add(n, visit(n))
		}
		edges(g, "@start split", "work @end")
		g.Fan("split", none, to...)
		return compile(t, g)
	}
	if got, err := build("work").Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "sends nothing") {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := build("work", graph.End).Run(t.Context(), state{}, nil); err != nil || strings.Join(got.Trail, " ") != "split" {
		t.Errorf("got %v, %v", got, err)
	}
}

// A task makes an update and says who is next, beside its edges.
func TestLangGraphCommand(t *testing.T) {
	for next, want := range map[string]string{"b": "a b edge", "c": "a c edge", "": "a edge"} {
		g := graph.New("command", reduce)
		g.AddNode(graph.Node[state, update]{Name: "a", Sends: []string{"b", "c"}, Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
			if next != "" {
				t.Send(graph.Send{To: next})
			}
			return update{Visit: "a"}, nil
		}})
		for _, n := range []string{"b", "c", "edge"} {
			g.Add(n, visit(n))
			g.Edge(n, graph.End)
		}
		edges(g, "@start a", "a edge")
		got, err := compile(t, g).Run(t.Context(), state{}, nil)
		if err != nil || strings.Join(got.Trail, " ") != want {
			t.Errorf("%q: got %v, %v", next, got, err)
		}
	}
}

// A graph inside says where the outer one goes by what it leaves in its state.
func TestLangGraphCommandParent(t *testing.T) {
	for _, to := range []string{"alice", "bob"} {
		inner := graph.New("inner", reduce)
		inner.Add("pick", visit(to))
		edges(inner, "@start pick", "pick @end")
		g := graph.New("outer", reduce)
		g.AddNode(graph.Sub("sub", compile(t, inner), func(state) (state, error) { return state{}, nil }, func(s state) (update, error) {
			return update{Visit: s.Trail[0]}, nil
		}))
		g.Add("alice", visit("A"))
		g.Add("bob", visit("B"))
		edges(g, "@start sub", "alice @end", "bob @end")
		g.Branch("sub", func(s state) string { return s.Trail[len(s.Trail)-1] }, "alice", "bob")
		got, err := compile(t, g).Run(t.Context(), state{}, nil)
		if want := to + " " + strings.ToUpper(to[:1]); err != nil || strings.Join(got.Trail, " ") != want {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

// looping is a loop of so many supersteps.
func looping(n int) *graph.Graph[state, update] {
	g := graph.New("rounds", reduce)
	g.Add("a", visit("a"))
	g.Edge(graph.Start, "a")
	g.Branch("a", func(s state) string {
		if s.N < n {
			return "a"
		}
		return graph.End
	}, "a", graph.End)
	return g
}

// The limit is of supersteps, 100 by default for a loop of one node; a run of exactly as many ends well. It
// counts from the start of the run, so that taking it up again gives no more of them.
func TestLangGraphStepLimit(t *testing.T) {
	for _, c := range []struct {
		steps, limit int
		ok           bool
	}{{5, 5, true}, {6, 5, false}, {100, 0, true}, {101, 0, false}} {
		got, err := compile(t, looping(c.steps)).Run(t.Context(), state{}, &graph.RunOptions{MaxSteps: c.limit})
		var limit *graph.StepLimitError
		if c.ok != (err == nil) || !c.ok && !errors.As(err, &limit) || got.N != c.steps && c.ok {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
	f, j := compile(t, looping(6)), open(t, runlog.NewMemory(nil), true)
	for _, c := range []struct{ limit, n int }{{4, 4}, {4, 4}, {6, 6}} {
		got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, MaxSteps: c.limit})
		if got.N != c.n || (err == nil) != (c.n == 6) {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
}

// A graph inside counts its own supersteps, against the default limit.
func TestLangGraphStepLimitInside(t *testing.T) {
	for n, ok := range map[int]bool{100: true, 101: false} {
		g := graph.New("outer", reduce)
		same := func(s state) (state, error) { return s, nil }
		g.AddNode(graph.Sub("sub", compile(t, looping(n)), same, func(s state) (update, error) { return update{Add: s.N}, nil }))
		edges(g, "@start sub", "sub @end")
		got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{MaxSteps: 1})
		if (err == nil) != ok || ok && got.N != n {
			t.Errorf("%d: got %v, %v", n, got, err)
		}
	}
}

// A failure does not stop its siblings, but nothing of their superstep is in the state.
func TestLangGraphFailureAndSiblings(t *testing.T) {
	failed := make(chan struct{})
	g := graph.New("siblings", reduce)
	g.Add("s", visit("s"))
	g.Add("bad", func(context.Context, state) (update, error) { defer close(failed); return update{}, errBroken })
	finished := false
	g.Add("good", func(ctx context.Context, _ state) (update, error) {
		<-failed
		finished = ctx.Err() == nil
		return update{Visit: "good"}, nil
	})
	edges(g, "@start s", "s bad", "s good", "bad @end", "good @end")
	got, err := compile(t, g).Execute(t.Context(), state{}, nil)
	if !errors.Is(err, errBroken) || !finished || strings.Join(got.State.Trail, " ") != "s" || got.Steps != 1 {
		t.Fatalf("got %+v, %v, finished: %v", got, err, finished)
	}
}

// The numbers of a Retry that says nothing.
func TestLangGraphRetryDefaults(t *testing.T) {
	var r graph.Retry
	for attempt, want := range map[int][2]time.Duration{1: {450 * time.Millisecond, 500 * time.Millisecond}, 2: {900 * time.Millisecond, time.Second}} {
		for _, chance := range []float64{0, 0.5, 0.999} {
			pause, again := (*pregel.Retry)(&r).After(attempt, errBroken, chance)
			if !again || pause < want[0] || pause > want[1] {
				t.Errorf("after attempt %d: %v, %v", attempt, pause, again)
			}
		}
	}
	if _, again := (*pregel.Retry)(&r).After(3, errBroken, 0); again {
		t.Error("there is a fourth attempt")
	}
	r.Attempts = 100
	if pause, _ := (*pregel.Retry)(&r).After(50, errBroken, 0); pause > 30*time.Second || pause < 27*time.Second {
		t.Errorf("the longest pause is %v", pause)
	}
	var none *graph.Retry
	if _, again := (*pregel.Retry)(none).After(1, errBroken, 0); again {
		t.Error("a node without a Retry is tried again")
	}
}

// An attempt that failed leaves nothing: no update, no sends. The next has what it had.
func TestLangGraphRetryStartsClean(t *testing.T) {
	var attempts atomic.Int32
	g := graph.New("clean", reduce)
	g.Add("s", visit("s"))
	g.AddNode(graph.Node[state, update]{Name: "a", Sends: []string{"b"}, Retry: &graph.Retry{Backoff: -1}, Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		var arg string
		if err := t.Arg(&arg); err != nil || arg != "go" || strings.Join(s.Trail, "") != "s" {
			return update{}, fmt.Errorf("it has %q and %v, %w", arg, s, err)
		}
		t.Send(graph.Send{To: "b", Key: fmt.Sprint(t.Attempt())})
		if attempts.Add(1) < 3 {
			return update{Visit: "never"}, errBroken
		}
		return update{Visit: "a"}, nil
	}})
	g.AddNode(graph.Node[state, update]{Name: "b", Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
		return update{Visit: "b" + t.Key()}, nil
	}})
	edges(g, "@start s", "b @end")
	g.Fan("s", func(state) []graph.Send { return []graph.Send{{To: "a", Arg: "go"}} }, "a")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "s a b3" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// A hit gives what the task sent itself, as well as its update.
func TestLangGraphCacheKeepsSends(t *testing.T) {
	g := graph.New("cached", reduce)
	ran := 0
	g.AddNode(graph.Node[state, update]{Name: "a", Sends: []string{"b"}, Cache: &graph.Caching[state]{}, Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
		ran++
		t.Send(graph.Send{To: "b", Arg: "x"})
		return update{Visit: "a"}, nil
	}})
	g.AddNode(graph.Node[state, update]{Name: "b", Run: func(_ context.Context, t *graph.Task, _ state) (u update, err error) {
		return update{Visit: "b"}, t.Arg(&u.Visit)
	}})
	edges(g, "@start a", "b @end")
	f, cache := compile(t, g), graph.NewMemoryCache(10, func() time.Time { return time.Unix(1, 0) })
	for i := range 2 {
		got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Cache: cache})
		if err != nil || strings.Join(got.Trail, " ") != "a b" || ran != 1 {
			t.Errorf("run %d: got %v, %v", i, got, err)
		}
	}
}
