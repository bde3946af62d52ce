package graph_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
)

// Once a node has failed for good, no node of a later superstep begins, nor one of a graph inside: with a store and without, with early
// starts and without.
func TestNothingBeginsAfterAFailure(t *testing.T) {
	for _, store := range []bool{false, true} {
		for _, reads := range []bool{false, true} {
			for _, fast := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) { failing(t, store, reads, fast) })
			}
		}
	}
}

func failing(t *testing.T, store, reads, fast bool) {
	var mu sync.Mutex
	var ran []string
	slow := func(name string) graph.Node[state, update] {
		n := graph.Node[state, update]{Name: name, Run: func(ctx context.Context, _ *graph.Task, _ state) (update, error) {
			mu.Lock()
			ran = append(ran, name)
			mu.Unlock()
			select {
			case <-time.After(50 * time.Millisecond):
				return update{Visit: name}, nil
			case <-ctx.Done():
				return update{}, context.Cause(ctx)
			}
		}}
		if reads {
			n.Reads = []string{}
		}
		return n
	}
	in := graph.New("in", reduce)
	in.AddNode(slow("i"))
	in.AddNode(slow("j"))
	edges(in, "@start i", "i j", "j @end")
	g := graph.New("doomed", reduce)
	g.Add("bad", func(context.Context, state) (update, error) {
		time.Sleep(10 * time.Millisecond)
		return update{}, errBroken
	})
	for _, n := range []string{"a", "b", "c"} {
		g.AddNode(slow(n))
	}
	g.AddNode(graph.Sub("sub", compile(t, in), func(s state) (state, error) { return s, nil }, func(state) (update, error) { return update{}, nil }))
	edges(g, "@start bad", "@start a", "@start sub", "a b", "b c", "bad @end", "c @end", "sub @end")
	opt := &graph.RunOptions{FailFast: fast}
	if store {
		opt.Store, opt.ID = runlog.NewMemory(nil), "run"
	}
	begun, took := time.Now(), 50*time.Millisecond
	if fast {
		took = 10 * time.Millisecond
	}
	_, err := compile(t, g).Run(t.Context(), state{}, opt)
	var tasks *graph.TasksError
	if !errors.As(err, &tasks) || len(tasks.Tasks) != 1 || tasks.Tasks[0].Path != "bad" || !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(ran, " "); got != "a i" && got != "i a" || time.Since(begun) != took {
		t.Errorf("store %v, reads %v, fast %v: ran %q and took %v", store, reads, fast, got, time.Since(begun))
	}
}
