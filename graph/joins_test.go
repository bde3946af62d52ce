package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
)

var errBroken = errors.New("it is broken")

func broken(context.Context, *graph.Task, state) (update, error) { return update{}, errBroken }

// edges adds edges given as "a b".
func edges(g *graph.Graph[state, update], list ...string) {
	for _, e := range list {
		from, to, _ := strings.Cut(e, " ")
		g.Edge(from, to)
	}
}

func TestCatchRoutesAFailure(t *testing.T) {
	g := graph.New("catch", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: broken, Retry: &graph.Retry{Attempts: 2, Backoff: 1}})
	g.Add("next", visit("next"))
	var got []graph.Failure
	g.AddNode(graph.Node[state, update]{Name: "rescue", Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		got = t.Failures()
		return update{Visit: "rescue"}, nil
	}})
	edges(g, "@start a", "a next", "next @end", "rescue @end")
	g.Catch("a", "rescue")
	store := runlog.NewMemory(nil)
	final, err := compile(t, g).Execute(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, true)})
	if err != nil || !slices.Equal(final.State.Trail, []string{"rescue"}) || len(final.Skipped) > 0 {
		t.Fatalf("got %+v, %v", final, err)
	}
	want := graph.Failure{Node: "a", Error: errBroken.Error(), Attempts: 2}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v", got)
	}
}

func TestCatchAtEndForgets(t *testing.T) {
	g := graph.New("catch", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: broken})
	g.Add("b", visit("b"))
	edges(g, "@start a", "@start b", "a b", "b @end")
	g.Catch("a", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || !slices.Equal(got.Trail, []string{"b"}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestSettledJoinMeetsFailures(t *testing.T) {
	g := graph.New("settled", reduce)
	g.Add("a", visit("a"))
	g.AddNode(graph.Node[state, update]{Name: "b", Run: broken})
	g.Add("slow", visit("slow"))
	g.Add("c", visit("c"))
	var got []graph.Failure
	g.AddNode(graph.Node[state, update]{Name: "j", Join: graph.Settled, Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		got = t.Failures()
		return update{Visit: "j"}, nil
	}})
	edges(g, "@start a", "@start b", "@start slow", "slow c", "a j", "b j", "c j", "j @end")
	final, err := compile(t, g).Execute(t.Context(), state{}, nil)
	if err != nil || !slices.Equal(final.State.Trail, []string{"a", "slow", "c", "j"}) {
		t.Fatalf("got %+v, %v", final, err)
	}
	if len(got) != 1 || got[0].Node != "b" {
		t.Errorf("got %+v", got)
	}
}

func TestQuorumWakesOnceARound(t *testing.T) {
	g := graph.New("quorum", reduce)
	for _, n := range []string{"a", "b", "late", "c"} {
		g.Add(n, visit(n))
	}
	g.AddNode(graph.Node[state, update]{Name: "j", Join: graph.Quorum(2), Run: func(context.Context, *graph.Task, state) (update, error) {
		return update{Visit: "j"}, nil
	}})
	edges(g, "@start a", "@start b", "@start late", "late c", "a j", "b j", "c j", "j @end")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || !slices.Equal(got.Trail, []string{"a", "b", "late", "c", "j"}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

// The tasks of a fan are one source of a join, however many there are.
func TestFanIsOneSource(t *testing.T) {
	g := graph.New("fan", reduce)
	for _, n := range []string{"a", "split", "worker"} {
		g.Add(n, visit(n))
	}
	g.AddNode(graph.Node[state, update]{Name: "j", Join: graph.All, Run: func(context.Context, *graph.Task, state) (update, error) {
		return update{Visit: "j"}, nil
	}})
	edges(g, "@start split", "@start a", "a j", "worker j", "j @end")
	g.Fan("split", func(state) []graph.Send {
		return []graph.Send{{To: "worker", Key: "1"}, {To: "worker", Key: "2"}, {To: "worker", Key: "3"}}
	}, "worker")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "a split worker worker worker j" {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestAbortStopsSiblingsAtOnce(t *testing.T) {
	g := graph.New("abort", reduce)
	started := make(chan struct{})
	g.AddNode(graph.Node[state, update]{Name: "a", OnError: graph.Abort, Run: func(context.Context, *graph.Task, state) (update, error) {
		<-started
		return update{}, errBroken
	}})
	stopped := false
	g.Add("b", func(ctx context.Context, s state) (update, error) {
		close(started)
		<-ctx.Done()
		stopped = true
		return update{}, ctx.Err()
	})
	edges(g, "@start a", "@start b", "a @end", "b @end")
	_, err := compile(t, g).Run(t.Context(), state{}, nil)
	var tasks *graph.TasksError
	if !errors.As(err, &tasks) || tasks.Tasks[0].Path != "a" || !errors.Is(err, errBroken) || !stopped {
		t.Fatalf("got %v", err)
	}
}

func TestJoinsThatMayNeverFire(t *testing.T) {
	j := graph.Node[state, update]{Name: "j", Join: graph.All, Run: broken}
	pick := func(state) string { return graph.End }
	cases := map[string]struct {
		build func(g *graph.Graph[state, update])
		want  string // of the error; "" for none
	}{
		"one of two ways": {func(g *graph.Graph[state, update]) {
			edges(g, "@start x", "a j", "b j", "j @end")
			g.Branch("x", pick, "a", "b")
		}, "there is a way on which"},
		"one way is out": {func(g *graph.Graph[state, update]) {
			edges(g, "@start x", "@start b", "a j", "b j", "j @end")
			g.Branch("x", pick, "a", graph.End)
		}, "there is a way on which b runs and a does not"},
		"both ways lead to it": {func(g *graph.Graph[state, update]) {
			edges(g, "@start x", "@start b", "a c", "d c", "c j", "b j", "j @end")
			g.Branch("x", pick, "a", "d")
		}, ""},
		"all of it behind a choice": {func(g *graph.Graph[state, update]) {
			edges(g, "@start x", "c a", "c b", "a j", "b j", "j @end", "d @end")
			g.Branch("x", pick, "c", "d")
		}, ""},
		"only the ways that lead to both": {func(g *graph.Graph[state, update]) {
			edges(g, "@start a", "b p", "b q", "c p", "c q", "p j", "q j", "x @end", "j @end")
			g.Branch("a", pick, "x", "b", "c")
		}, ""},
		"a choice at the start": {func(g *graph.Graph[state, update]) {
			edges(g, "@start q", "a p", "b p", "p j", "q j", "j @end")
			g.Branch(graph.Start, pick, "a", "b")
		}, ""},
		"a choice at the start that leaves one out": {func(g *graph.Graph[state, update]) {
			edges(g, "@start q", "a p", "b @end", "p j", "q j", "j @end")
			g.Branch(graph.Start, pick, "a", "b")
		}, "there is a way on which q runs and p does not"},
		"a loop on the way": {func(g *graph.Graph[state, update]) {
			edges(g, "@start x", "x a", "x b", "b j", "c j", "j @end", "d @end", "@start d")
			g.Branch("a", pick, "a", "c")
		}, ""},
	}
	for name, c := range cases {
		g := graph.New("join", reduce)
		g.AddNode(j)
		for _, n := range []string{"x", "a", "b", "c", "d", "p", "q"} {
			g.Add(n, visit(n))
		}
		c.build(g)
		// Nodes a case does not use are no mistake here.
		_, err := g.Compile()
		got := ""
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if strings.Contains(line, "joins all") {
					got = line
				}
			}
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q (%v)", name, got, err)
		}
	}
	g := graph.New("quorum", reduce)
	g.Add("a", visit("a"))
	g.AddNode(graph.Node[state, update]{Name: "j", Join: graph.Quorum(2), Run: broken})
	edges(g, "@start a", "a j", "j @end")
	if _, err := g.Compile(); err == nil || !strings.Contains(err.Error(), "waits for 2 of its sources, but only 1") {
		t.Errorf("got %v", err)
	}
}

// A node that reads what is final does not wait for a slow branch beside it.
func TestEarlyStartBeatsTheBarrier(t *testing.T) {
	build := func(released chan struct{}) *graph.Flow[state, update] {
		g := graph.New("uneven", reduce)
		g.Add("a", visit("a"))
		g.Add("slow", func(ctx context.Context, s state) (update, error) {
			select {
			case <-released:
				return update{Visit: "slow"}, nil
			case <-ctx.Done():
				return update{}, ctx.Err()
			}
		})
		g.AddNode(graph.Node[state, update]{Name: "c", Reads: []string{"a"}, Run: func(_ context.Context, _ *graph.Task, s state) (update, error) {
			if strings.Join(s.Trail, " ") != "a" {
				return update{}, errors.New("it sees " + strings.Join(s.Trail, " "))
			}
			close(released)
			return update{Visit: "c"}, nil
		}})
		edges(g, "@start a", "@start slow", "a c", "c @end", "slow @end")
		return compile(t, g)
	}
	flow := build(make(chan struct{}))
	got, err := flow.Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "a slow c" {
		t.Fatalf("got %v, %v", got, err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := build(make(chan struct{})).Run(ctx, state{}, &graph.RunOptions{Barrier: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with barriers: got %v", err)
	}
	for _, s := range flow.Schedule() {
		if s.Early != (s.Node == "c") || (s.Why == "") != s.Early {
			t.Errorf("got %+v", s)
		}
	}
}
