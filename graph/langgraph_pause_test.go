package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// pauses runs a flow until it is done and answers, after each pause, the first open
// question: with "1", then "2", and so on. It gives the last state and how often it paused.
func pauses(t *testing.T, f *graph.Flow[state, update]) (state, int) {
	t.Helper()
	store := runlog.NewMemory(nil)
	j := open(t, store, true)
	for n := 0; ; n++ {
		got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
		var wait *pregel.WaitingError
		if !errors.As(err, &wait) {
			if err != nil {
				t.Fatal(err)
			}
			return got, n
		}
		q := j.Open()[0]
		if err := j.Answer(t.Context(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(fmt.Sprint(n + 1))}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(t.Context()); err != nil { // somebody else continues with the run
			t.Fatal(err)
		}
		j = open(t, store, false)
	}
}

// A node that asks is run again from its top; what is in a Do is not, and being run again
// is not another attempt.
func TestLangGraphInterruptRunsTheNodeAgain(t *testing.T) {
	bare, kept := 0, 0
	f := compile(t, one(graph.Node[state, update]{Name: "a", Retry: &graph.Retry{Attempts: 1}, Run: func(ctx context.Context, t *graph.Task, _ state) (u update, err error) {
		bare++
		if _, err = graph.Do(ctx, "mail", func(context.Context, string) (int, error) { kept++; return kept, nil }); err != nil {
			return u, err
		}
		for _, q := range []string{"first", "second"} {
			n, err := graph.Ask[int](ctx, graph.Question{Key: q, Text: q + "?"})
			if err != nil {
				return u, err
			}
			u.Add = 10*u.Add + n
		}
		u.Visit = fmt.Sprint(t.Attempt())
		return u, nil
	}}))
	got, n := pauses(t, f)
	if n != 2 || bare != 3 || kept != 1 || got.N != 12 || got.Trail[0] != "1" {
		t.Fatalf("got %v after %d pauses; %d runs of the node, %d effects", got, n, bare, kept)
	}
}

// Questions of one node are told apart by their keys: that they come in another order the
// second time does not swap their answers.
func TestLangGraphQuestionsByKey(t *testing.T) {
	runs := 0
	f := compile(t, one(graph.Node[state, update]{Name: "a", Run: func(ctx context.Context, t *graph.Task, _ state) (u update, err error) {
		keys := []string{"x", "y"}
		if runs++; runs == 2 {
			keys = []string{"y", "x"}
		}
		got := map[string]int{}
		for _, key := range keys {
			if got[key], err = graph.Ask[int](ctx, graph.Question{Key: key, Text: key + "?"}); err != nil {
				return u, err
			}
		}
		return update{Visit: fmt.Sprint(got)}, nil
	}}))
	got, n := pauses(t, f)
	if n != 2 || got.Trail[0] != "map[x:1 y:2]" {
		t.Fatalf("got %v after %d pauses", got, n)
	}
}

// Asking needs a log, as interrupts need a checkpointer; a denied question is an error of its own.
func TestLangGraphAskingWithoutALog(t *testing.T) {
	f := compile(t, one(graph.Node[state, update]{Name: "a", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		_, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "?"})
		if errors.Is(err, journal.ErrDenied) {
			return update{Visit: "denied"}, nil
		}
		return update{}, err
	}}))
	if _, err := f.Run(t.Context(), state{}, nil); !errors.Is(err, journal.ErrNoLog) {
		t.Errorf("got %v", err)
	}
	j := open(t, runlog.NewMemory(nil), true)
	var wait *pregel.WaitingError
	if _, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !errors.As(err, &wait) {
		t.Fatalf("got %v", err)
	}
	if err := j.Answer(t.Context(), "a", &runlog.Answer{Key: "q", Denied: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); err != nil || got.Trail[0] != "denied" {
		t.Errorf("got %v, %v", got, err)
	}
}

// A node that does not pass on what Ask gave it fails, and the question stays open for a node that does.
func TestLangGraphSwallowedQuestion(t *testing.T) {
	f := compile(t, one(graph.Node[state, update]{Name: "a", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		_, _ = graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "?"})
		return update{Visit: "a"}, nil
	}}))
	j := open(t, runlog.NewMemory(nil), true)
	_, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err == nil || !strings.Contains(err.Error(), "did not wait for the answer") || len(j.Open()) != 1 {
		t.Fatalf("got %v, open %v", err, j.Open())
	}
}

// What stands before a question in the same superstep is not in the state until it is
// answered, and is not run again.
func TestLangGraphSiblingsOfAQuestion(t *testing.T) {
	g := graph.New("wait", reduce)
	g.AddNode(graph.Node[state, update]{Name: "ask", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		n, err := graph.Ask[int](ctx, graph.Question{Key: "q", Text: "?"})
		return update{Add: n}, err
	}})
	var ran atomic.Int32
	g.Add("b", func(context.Context, state) (update, error) { ran.Add(1); return update{Visit: "b"}, nil })
	g.Add("c", func(context.Context, state) (update, error) { ran.Add(10); return update{Visit: "c"}, nil })
	edges(g, "@start ask", "@start b", "b c", "ask @end", "c @end")
	f, j := compile(t, g), open(t, runlog.NewMemory(nil), true)
	got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err == nil || len(got.Trail) != 0 || ran.Load() != 1 {
		t.Fatalf("before the answer: got %v, %v, ran %d", got, err, ran.Load())
	}
	if err := j.Answer(t.Context(), "ask", &runlog.Answer{Key: "q", Value: json.RawMessage("7")}); err != nil {
		t.Fatal(err)
	}
	if got, err = f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); err != nil || got.N != 7 || strings.Join(got.Trail, "") != "bc" || ran.Load() != 11 {
		t.Fatalf("got %v, %v, ran %d", got, err, ran.Load())
	}
}

// A breakpoint is a node that asks before the one it guards.
func TestLangGraphBreakpoint(t *testing.T) {
	ran := 0
	g := graph.New("guarded", reduce)
	g.AddNode(graph.Node[state, update]{Name: "before", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		_, err := graph.Ask[int](ctx, graph.Question{Key: "go", Text: "May it?"})
		return update{}, err
	}})
	g.Add("guarded", func(context.Context, state) (update, error) { ran++; return update{Visit: "g"}, nil })
	edges(g, "@start before", "before guarded", "guarded @end")
	if got, n := pauses(t, compile(t, g)); n != 1 || ran != 1 || len(got.Trail) != 1 {
		t.Fatalf("got %v after %d pauses, ran %d", got, n, ran)
	}
}

// A graph inside has a state of its own, of any type, and begins anew at each visit.
func TestLangGraphSubgraphState(t *testing.T) {
	inner := graph.New("count", func(a, b int) int { return a + b })
	inner.Add("one", func(context.Context, int) (int, error) { return 1, nil })
	inner.Edge(graph.Start, "one")
	inner.Edge("one", graph.End)
	counts, err := inner.Compile()
	if err != nil {
		t.Fatal(err)
	}
	build := func(in func(state) (int, error)) *graph.Flow[state, update] {
		g := graph.New("outer", reduce)
		g.AddNode(graph.Sub("sub", counts, in, func(n int) (update, error) { return update{Add: n, Visit: fmt.Sprint(n)}, nil }))
		edges(g, "@start sub")
		g.Branch("sub", func(s state) string {
			if len(s.Trail) < 3 {
				return "sub"
			}
			return graph.End
		}, "sub", graph.End)
		return compile(t, g)
	}
	for want, in := range map[string]func(state) (int, error){
		"1 1 1": func(state) (int, error) { return 0, nil },
		"1 2 4": func(s state) (int, error) { return s.N, nil }, // what it is to remember, it is given
	} {
		for _, j := range []*journal.Journal{nil, open(t, runlog.NewMemory(nil), true)} {
			got, err := build(in).Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
			if err != nil || strings.Join(got.Trail, " ") != want {
				t.Errorf("got %v, %v, want %s", got, err, want)
			}
		}
	}
}

// Two graphs of one task need keys to tell them apart, wherever they stand.
func TestLangGraphTwoSubgraphsOfOneTask(t *testing.T) {
	inner := graph.New("inner", reduce)
	inner.Add("x", visit("x"))
	edges(inner, "@start x", "x @end")
	other := graph.New("other", reduce)
	other.Add("y", visit("y"))
	edges(other, "@start y", "y @end")
	a, b := compile(t, inner), compile(t, other)
	for _, c := range []struct {
		keys [2]string
		ok   bool
	}{{[2]string{"a", "b"}, true}, {[2]string{"", ""}, false}, {[2]string{"a", "a"}, false}} {
		f := compile(t, one(graph.Node[state, update]{Name: "n", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
			one, err := a.Run(ctx, s, t.Nested(c.keys[0]))
			if err != nil {
				return update{}, err
			}
			two, err := b.Run(ctx, one, t.Nested(c.keys[1]))
			return update{Visit: strings.Join(two.Trail, "")}, err
		}}))
		got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, runlog.NewMemory(nil), true)})
		if (err == nil) != c.ok || c.ok && got.Trail[0] != "xy" {
			t.Errorf("%q: got %v, %v", c.keys, got, err)
		}
	}
}

// Pieces of work of a node run side by side, and those that are done are not done again.
func TestLangGraphTasksInANode(t *testing.T) {
	var mu sync.Mutex
	did := map[string]int{}
	fails := true
	f := compile(t, one(graph.Node[state, update]{Name: "n", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		var group sync.WaitGroup
		results, errs := make([]int, 3), make([]error, 3)
		for i := range results {
			group.Go(func() {
				key := fmt.Sprint("part", i)
				results[i], errs[i] = graph.Do(ctx, key, func(context.Context, string) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					did[key]++
					if i == 1 && fails {
						return 0, errBroken
					}
					return i + 1, nil
				})
			})
		}
		group.Wait()
		return update{Add: results[0] + results[1] + results[2]}, errors.Join(errs...)
	}}))
	j := open(t, runlog.NewMemory(nil), true)
	if _, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	fails = false
	got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil || got.N != 6 || did["part0"] != 1 || did["part1"] != 2 || did["part2"] != 1 {
		t.Fatalf("got %v, %v, did %v", got, err, did)
	}
}

// A run is not a thread: it ends. Who wants to go on from its state begins another.
func TestLangGraphAFinishedRun(t *testing.T) {
	store := runlog.NewMemory(nil)
	ran := 0
	f := compile(t, one(graph.Node[state, update]{Name: "a", Run: func(context.Context, *graph.Task, state) (update, error) {
		ran++
		return update{Add: 1}, nil
	}}))
	j := open(t, store, true)
	first, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(t.Context(), first, &graph.RunOptions{Journal: j}); err == nil || !strings.Contains(err.Error(), "a graph was run there already") || ran != 1 {
		t.Errorf("the same log again: got %v, ran %d", err, ran)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := journal.Open(t.Context(), store, "next", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Run(t.Context(), first, &graph.RunOptions{Journal: next}); err != nil || got.N != 2 || ran != 2 {
		t.Errorf("got %v, %v, ran %d", got, err, ran)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What is inside another graph is in every stream, under its path.
func TestLangGraphStreamsOfSubgraphs(t *testing.T) {
	inner := graph.New("inner", reduce)
	inner.AddNode(graph.Node[state, update]{Name: "x", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		return update{Visit: "x"}, t.Emit(ctx, "half", 50)
	}})
	edges(inner, "@start x", "x @end")
	g := graph.New("outer", reduce)
	g.AddNode(graph.Sub("sub", compile(t, inner), func(s state) (state, error) { return s, nil }, func(s state) (update, error) {
		return update{Visit: "sub"}, nil
	}))
	edges(g, "@start sub", "sub @end")
	store := runlog.NewMemory(nil)
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, true)}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range graph.Events(runlog.Records(t.Context(), store, "run", 0)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSpace(e.Kind+" "+e.Path+" "+e.Name+" "+string(e.Data)))
	}
	if !slices.Equal(got, []string{"emitted sub/x half 50", "done sub/x", "done sub"}) {
		t.Errorf("got %q", got)
	}
}
