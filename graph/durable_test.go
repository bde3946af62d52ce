package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A run with a store opens, resumes and finishes itself, and does everything once.
func TestRunInAStore(t *testing.T) {
	store, ran, works := runlog.NewMemory(nil), map[string]int{}, false
	g := graph.New("stored", reduce)
	g.Add("a", func(ctx context.Context, _ state) (update, error) {
		ran["a"]++
		_, err := graph.Do(ctx, "work", func(context.Context, string) (int, error) { ran["work"]++; return 1, nil })
		if err != nil {
			return update{}, err
		}
		answer, err := graph.Ask[string](ctx, graph.Question{Text: "Go on?"})
		return update{Visit: answer}, err
	})
	g.Add("b", func(context.Context, state) (update, error) {
		if ran["b"]++; !works {
			return update{}, errBroken
		}
		return update{Visit: "b"}, nil
	})
	edges(g, "@start a", "a b", "b @end")
	flow := compile(t, g)
	run := func() (state, error) {
		return flow.Run(t.Context(), state{N: 7}, &graph.RunOptions{Store: store, ID: "my-run"})
	}
	status := func(want runlog.Status) {
		t.Helper()
		infos, err := store.Runs(t.Context(), nil)
		if err != nil || len(infos) != 1 || infos[0].Status != want || infos[0].Workflow != "stored" || infos[0].Owner != "" {
			t.Fatalf("got %+v, %v; want %s", infos, err, want)
		}
	}
	var paused *graph.Paused
	for range 2 {
		if _, err := run(); !errors.As(err, &paused) || paused.Run != "my-run" || len(paused.Questions) != 1 || paused.Questions[0].Path != "a" {
			t.Fatalf("got %v", err)
		}
		status(runlog.Paused)
	}
	if err := flow.Answer(t.Context(), store, "my-run", paused.Questions[0], "yes"); err != nil {
		t.Fatal(err)
	}
	var late *journal.AnsweredError
	if err := flow.Answer(t.Context(), store, "my-run", paused.Questions[0], "no"); !errors.As(err, &late) {
		t.Errorf("got %v", err)
	}
	if _, err := run(); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	status(runlog.Failed)
	works = true
	for range 2 { // the second is given the end
		got, err := run()
		if err != nil || strings.Join(got.Trail, " ") != "yes b" || got.N != 7 {
			t.Fatalf("got %v, %v", got, err)
		}
		status(runlog.Completed)
	}
	if ran["work"] != 1 || ran["b"] != 2 {
		t.Errorf("ran %v", ran)
	}
}

// A run that is stopped or that a process executes stays as it is.
func TestRunInAStoreStops(t *testing.T) {
	store := runlog.NewMemory(nil)
	ctx, cancel := context.WithCancel(t.Context())
	var flow *graph.Flow[state, update]
	var busy error
	g := graph.New("stored", reduce)
	g.Add("a", func(inner context.Context, s state) (update, error) {
		_, busy = flow.Run(inner, s, &graph.RunOptions{Store: store, ID: "r"})
		cancel()
		<-inner.Done()
		return update{}, inner.Err()
	})
	edges(g, "@start a", "a @end")
	flow = compile(t, g)
	if _, err := flow.Run(ctx, state{}, &graph.RunOptions{Store: store, ID: "r"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	var held *runlog.BusyError
	if !errors.As(busy, &held) {
		t.Errorf("got %v", busy)
	}
	infos, err := store.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 || infos[0].Status != runlog.Interrupted {
		t.Errorf("got %+v, %v", infos, err)
	}
	stop := make(chan struct{})
	close(stop)
	if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Store: store, ID: "r", Stop: stop}); !errors.Is(err, graph.ErrStopped) {
		t.Errorf("got %v", err)
	}
	for _, opt := range []*graph.RunOptions{{Store: store}, {Store: store, ID: "x", Journal: open(t, runlog.NewMemory(nil), true)}} {
		if _, err := flow.Run(t.Context(), state{}, opt); err == nil || !strings.Contains(err.Error(), "need an ID") {
			t.Errorf("got %v", err)
		}
	}
}

// A run without a log that a node begins by itself has nothing to do with the log of that node's run.
func TestARunWithinANode(t *testing.T) {
	calls := 0
	inner := graph.New("inner", reduce)
	inner.Add("n", func(ctx context.Context, _ state) (update, error) {
		n, err := graph.Do(ctx, "n", func(context.Context, string) (int, error) { calls++; return calls, nil })
		return update{Add: n}, err
	})
	edges(inner, "@start n", "n @end")
	in := compile(t, inner)
	g := graph.New("outer", reduce)
	g.Add("n", func(ctx context.Context, _ state) (update, error) {
		sum := 0
		for range 2 {
			s, err := in.Run(ctx, state{}, nil)
			if err != nil {
				return update{}, err
			}
			sum += s.N
		}
		return update{Add: sum}, nil
	})
	edges(g, "@start n", "n @end")
	got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Store: runlog.NewMemory(nil), ID: "r"})
	if err != nil || got.N != 3 || calls != 2 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
}

// The ID of a run belongs to the state that it began with, whether the run has finished or not. The zero state resumes any run.
func TestAnotherFirstState(t *testing.T) {
	open, stuck := onDisk(t), true
	g := graph.New("stored", reduce)
	g.Add("a", func(context.Context, state) (update, error) { return update{Add: 1, Visit: "a"}, nil })
	g.Add("b", func(context.Context, state) (update, error) {
		if stuck {
			return update{}, errBroken
		}
		return update{Visit: "b"}, nil
	})
	edges(g, "@start a", "a b", "b @end")
	flow := compile(t, g)
	run := func(s state, every int) (state, error) {
		return flow.Run(t.Context(), s, &graph.RunOptions{Store: open(), ID: "my-run", SnapshotEvery: every})
	}
	if _, err := run(state{N: 7, Trail: []string{"x"}}, 1); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	for _, stuck = range []bool{true, false} {
		for want, other := range map[string]state{
			"run my-run began with another state: N was 7 and is 8;":              {N: 8, Trail: []string{"x"}},
			`Trail was ["x"] and is null; use another ID, or pass the zero state`: {N: 7},
		} {
			if got, err := run(other, 0); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %+v, %v; want %q", got, err, want)
			}
		}
		for _, s := range []state{{}, {N: 7, Trail: []string{"x"}}} {
			got, err := run(s, 0)
			if stuck && !errors.Is(err, errBroken) || !stuck && (err != nil || got.N != 8 || len(got.Trail) != 3) {
				t.Errorf("got %+v, %v", got, err)
			}
		}
	}
	if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{ID: "r"}); err == nil || !strings.Contains(err.Error(), "run r needs a Store") {
		t.Errorf("an ID without a store: got %v", err)
	}
}
