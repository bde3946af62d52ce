package graph_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A node that ends its goroutine, as t.FailNow does, has failed; so has a branch. The nodes beside it end as ever.
func TestNodeThatEndsItsGoroutine(t *testing.T) {
	gone := func(context.Context, *graph.Task, state) (update, error) { runtime.Goexit(); return update{}, nil }
	fine := func(context.Context, *graph.Task, state) (update, error) {
		time.Sleep(time.Millisecond)
		return update{Visit: "b"}, nil
	}
	for name, n := range map[string]graph.Node[state, update]{
		"a": {Name: "a", Run: gone},
		"all": node.Parallel("all", []graph.Node[state, update]{{Name: "x", Run: gone}, {Name: "y", Run: fine}},
			func(state, []node.Result[update]) (update, error) { return update{Visit: "merged"}, nil }, nil),
		"any": node.Parallel("any", []graph.Node[state, update]{{Name: "x", Run: gone}},
			func(state, []node.Result[update]) (update, error) { return update{Visit: "merged"}, nil }, &node.ParallelOptions{Strategy: node.Any}),
	} {
		for _, opt := range []*graph.RunOptions{nil, {Store: runlog.NewMemory(nil), ID: "run"}, {Parallelism: 2}} {
			g := graph.New("gone", reduce)
			g.AddNode(n)
			g.AddNode(graph.Node[state, update]{Name: "b", Run: fine})
			g.AddNode(graph.Node[state, update]{Name: "c", Run: fine})
			edges(g, "@start "+name, "@start b", "@start c", name+" @end", "b @end", "c @end")
			_, err := compile(t, g).Run(t.Context(), state{}, opt)
			var tasks *graph.TasksError
			if !errors.As(err, &tasks) || len(tasks.Tasks) != 1 || !strings.Contains(err.Error(), "node "+name+": ") || !strings.Contains(err.Error(), "it ended its goroutine") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

// A panic of the reducer names the graph and the node whose update it was given. With a store the nodes do not run again.
func TestReducerThatPanics(t *testing.T) {
	for _, opt := range []*graph.RunOptions{nil, {Store: runlog.NewMemory(nil), ID: "run"}} {
		g := graph.New("folds", func(s state, u update) state {
			if u.Visit == "b" {
				panic("no")
			}
			return reduce(s, u)
		})
		var ran atomic.Int32
		for _, n := range []string{"a", "b"} {
			g.Add(n, func(context.Context, state) (update, error) { ran.Add(1); return update{Visit: n}, nil })
			edges(g, "@start "+n, n+" @end")
		}
		for range 2 {
			_, err := compile(t, g).Run(t.Context(), state{}, opt)
			if want := `graph "folds": the reducer failed on the update of node b: panic: no`; fmt.Sprint(err) != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		if n := ran.Load(); opt != nil && n != 2 {
			t.Errorf("the nodes ran %d times, want 2", n)
		}
	}
}

// What was denied is denied again: it is not tried again.
func TestDeniedIsNotTriedAgain(t *testing.T) {
	n := 0
	g := graph.New("denied", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Retry: &graph.Retry{Attempts: 3, Backoff: -1}, Run: func(context.Context, *graph.Task, state) (update, error) {
		n++
		return update{}, fmt.Errorf("tool x: %w", journal.ErrDenied)
	}})
	edges(g, "@start a", "a @end")
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Store: runlog.NewMemory(nil), ID: "run"}); !errors.Is(err, journal.ErrDenied) || n != 1 {
		t.Errorf("%d attempts, %v", n, err)
	}
}
