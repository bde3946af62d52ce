package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

type state struct {
	N     int
	Trail []string
}

type update struct {
	Add   int
	Visit string
}

func reduce(s state, u update) state {
	s.N += u.Add
	if u.Visit != "" {
		s.Trail = append(s.Trail[:len(s.Trail):len(s.Trail)], u.Visit)
	}
	return s
}

func visit(name string) graph.Func[state, update] {
	return func(context.Context, state) (update, error) { return update{Add: 1, Visit: name}, nil }
}

func compile(t testing.TB, g *graph.Graph[state, update]) *graph.Flow[state, update] {
	t.Helper()
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestChainRunsInOrder(t *testing.T) {
	g := graph.New("chain", reduce)
	for _, n := range []string{"a", "b", "c"} {
		g.Add(n, visit(n))
	}
	g.Edge(graph.Start, "a")
	g.Edge("a", "b")
	g.Edge("b", "c")
	g.Edge("c", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, "") != "abc" {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestBranchLoopsUntilEnough(t *testing.T) {
	g := graph.New("loop", reduce)
	g.Add("search", visit("s"))
	g.Add("write", visit("w"))
	g.Edge(graph.Start, "search")
	g.Branch("search", func(s state) string {
		if s.N < 3 {
			return "search"
		}
		return "write"
	}, "search", "write")
	g.Edge("write", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, "") != "sssw" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// The updates of a superstep are folded in the order of the sends, however long each takes.
func TestFanOutFoldsInOrder(t *testing.T) {
	g := graph.New("fan", reduce)
	g.Add("plan", visit("p"))
	g.AddNode(graph.Node[state, update]{Name: "work", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		var n int
		if err := t.Arg(&n); err != nil {
			return update{}, err
		}
		time.Sleep(time.Duration(10-n) * time.Millisecond)
		return update{Add: n, Visit: t.Key()}, nil
	}})
	g.Add("join", visit("j"))
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func(state) []graph.Send {
		var out []graph.Send
		for i := range 10 {
			out = append(out, graph.Send{To: "work", Key: fmt.Sprint("k", i), Arg: i})
		}
		return out
	}, "work")
	g.Edge("work", "join")
	g.Edge("join", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "p k0 k1 k2 k3 k4 k5 k6 k7 k8 k9 j" || got.N != 47 {
		t.Fatalf("got %v, %v", got, err)
	}
}

// A join of all waits for the long way round; a join of any runs twice.
func TestJoins(t *testing.T) {
	for _, c := range []struct {
		join graph.Join
		want string
	}{{graph.Any, "s a b1 j b2 j"}, {graph.All, "s a b1 b2 j"}} {
		g := graph.New("join", reduce)
		for _, n := range []string{"s", "a", "b1", "b2"} {
			g.Add(n, visit(n))
		}
		g.AddNode(graph.Node[state, update]{Name: "j", Join: c.join, Run: func(context.Context, *graph.Task, state) (update, error) { return update{Visit: "j"}, nil }})
		for _, e := range [][2]string{{graph.Start, "s"}, {"s", "a"}, {"s", "b1"}, {"b1", "b2"}, {"a", "j"}, {"b2", "j"}, {"j", graph.End}} {
			g.Edge(e[0], e[1])
		}
		got, err := compile(t, g).Run(t.Context(), state{}, nil)
		if trail := strings.Join(got.Trail, " "); err != nil || trail != c.want && trail != strings.ReplaceAll(c.want, "j b2", "b2 j") {
			t.Errorf("join %d: got %q, %v; want %q", c.join, trail, err, c.want)
		}
	}
}

func TestCompileReportsEverythingAtOnce(t *testing.T) {
	g := graph.New("bad", reduce)
	g.Add("search", visit("s"))
	g.Add("search", visit("s"))
	g.Add("no name!", nil)
	g.Edge("search", "serach")
	g.Edge("search", graph.Start)
	g.Branch("search", nil)
	_, err := g.Compile()
	var bad *graph.CompileError
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`node "search" is added twice`, `node "no name!": a name is`, `node "no name!" has no function`,
		`there is no node "serach"; did you mean "search"?`, "leads to graph.Start", "branch from search has no function", "branch from search names no targets",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

// One mistake hides no other, and what only follows from one is not reported.
func TestCompileHidesNothing(t *testing.T) {
	problems := func(g *graph.Graph[state, update]) []string {
		_, err := g.Compile()
		var bad *graph.CompileError
		if !errors.As(err, &bad) {
			t.Fatalf("got %v", err)
		}
		return bad.Problems
	}
	g := graph.New("bad", reduce)
	for _, n := range []string{"a", "b", "lost", "write"} {
		g.Add(n, visit(n))
	}
	edges(g, "a b", "b wrte", "write @end", "lost @end", "gone a")
	if got := problems(g); !slices.Equal(got, []string{
		`edge b → wrte: there is no node "wrte"; did you mean "write"?`, `edge gone → a: there is no node "gone"; known: a, b, lost, write`, "no start node; add an edge from graph.Start",
	}) {
		t.Errorf("%q", got)
	}
	edges(g, "@start b")
	if got := problems(g); len(got) != 3 || got[2] != `node "lost" cannot be reached from graph.Start` {
		t.Errorf("%q", got)
	}
	g = graph.New("types", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a"})
	if got := problems(g); !slices.Equal(got, []string{`node "a" has no function`, "no start node; add an edge from graph.Start", `node "a" leads nowhere; add an edge to graph.End if the run ends there`}) {
		t.Errorf("%q", got)
	}
}

func TestCompileChecksRoutes(t *testing.T) {
	pick := func(state) string { return "" }
	for name, c := range map[string]struct {
		edges  [][2]string
		branch []string // from, to...
		join   string
		want   string
	}{
		"no entry":       {edges: [][2]string{{"a", graph.End}, {"b", graph.End}}, want: "no start node"},
		"unreachable":    {edges: [][2]string{{graph.Start, "a"}, {"a", graph.End}, {"b", graph.End}}, want: `node "b" cannot be reached`},
		"dead end":       {edges: [][2]string{{graph.Start, "a"}, {"a", "b"}}, want: `node "b" leads nowhere`},
		"no way out":     {edges: [][2]string{{graph.Start, "a"}, {"a", "b"}}, branch: []string{"b", "a", "b"}, want: "no way out of a, b"},
		"endless":        {edges: [][2]string{{graph.Start, "a"}, {"a", "b"}, {"b", "a"}, {"b", graph.End}}, want: "a → b → a runs for ever"},
		"join by choice": {edges: [][2]string{{graph.Start, "a"}, {graph.Start, "b"}, {"a", "b"}, {"b", graph.End}}, branch: []string{graph.Start, "b", graph.End}, join: "b", want: "leads to it by a choice"},
	} {
		g := graph.New("g", reduce)
		for _, n := range []string{"a", "b"} {
			nd := graph.Node[state, update]{Name: n, Run: func(context.Context, *graph.Task, state) (update, error) { return update{}, nil }}
			if n == c.join {
				nd.Join = graph.All
			}
			g.AddNode(nd)
		}
		for _, e := range c.edges {
			g.Edge(e[0], e[1])
		}
		if c.branch != nil {
			g.Branch(c.branch[0], pick, c.branch[1:]...)
		}
		if _, err := g.Compile(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func one(n graph.Node[state, update]) *graph.Graph[state, update] {
	g := graph.New("one", reduce)
	g.AddNode(n)
	g.Edge(graph.Start, n.Name)
	g.Edge(n.Name, graph.End)
	return g
}

func TestRetry(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name     string
		retry    *graph.Retry
		fails    int32
		attempts int32
		ok       bool
	}{
		{"twice of three", &graph.Retry{Attempts: 3, Backoff: 1}, 2, 3, true},
		{"always of two", &graph.Retry{Attempts: 2, Backoff: 1}, 9, 2, false},
		{"not worth it", &graph.Retry{Attempts: 3, Backoff: 1, If: func(error) bool { return false }}, 9, 1, false},
		{"no retry", nil, 1, 1, false},
	} {
		var n atomic.Int32
		f := compile(t, one(graph.Node[state, update]{Name: "x", Retry: c.retry, Run: func(context.Context, *graph.Task, state) (update, error) {
			if n.Add(1) <= c.fails {
				return update{Add: 100}, boom
			}
			return update{Add: 1}, nil
		}}))
		got, err := f.Run(t.Context(), state{}, nil)
		if n.Load() != c.attempts || c.ok != (err == nil) || !c.ok && (!errors.Is(err, boom) || got.N != 0) || c.ok && got.N != 1 {
			t.Errorf("%s: %d attempts, state %v, %v", c.name, n.Load(), got, err)
		}
	}
}

func TestLimits(t *testing.T) {
	g := graph.New("endless", reduce)
	g.Add("a", visit("a"))
	g.Edge(graph.Start, "a")
	g.Branch("a", func(state) string { return "a" }, "a", graph.End)
	var limit *graph.StepLimitError
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{MaxSteps: 5}); !errors.As(err, &limit) || limit.Limit != 5 || !strings.Contains(err.Error(), "stopped at 5 steps; frontier: a#5") {
		t.Errorf("got %v", err)
	}
	hang := graph.Node[state, update]{Name: "slow", Run: func(ctx context.Context, _ *graph.Task, _ state) (update, error) {
		<-ctx.Done()
		return update{}, ctx.Err()
	}}
	var late *graph.TimeoutError
	if _, err := compile(t, one(hang)).Run(t.Context(), state{}, &graph.RunOptions{Timeout: 20 * time.Millisecond}); !errors.As(err, &late) || late.What != "the run" {
		t.Errorf("got %v", err)
	}
	hang.Timeout = 20 * time.Millisecond
	if _, err := compile(t, one(hang)).Run(t.Context(), state{}, nil); !errors.As(err, &late) || late.What != "node slow" {
		t.Errorf("got %v", err)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	f := compile(t, one(graph.Node[state, update]{Name: "x", Run: func(context.Context, *graph.Task, state) (update, error) { panic("ouch") }}))
	var p *graph.PanicError
	if _, err := f.Run(t.Context(), state{}, nil); !errors.As(err, &p) || p.Value != "ouch" || !strings.Contains(err.Error(), "node x: panic: ouch") {
		t.Fatalf("got %v", err)
	}
}

func TestSkippedNodeIsPassedOver(t *testing.T) {
	g := graph.New("skip", reduce)
	g.AddNode(graph.Node[state, update]{Name: "x", OnError: graph.Skip, Run: func(context.Context, *graph.Task, state) (update, error) {
		return update{Add: 7}, errors.New("no luck")
	}})
	g.Add("y", visit("y"))
	g.Edge(graph.Start, "x")
	g.Edge("x", "y")
	g.Edge("y", graph.End)
	got, err := compile(t, g).Execute(t.Context(), state{}, nil)
	if err != nil || got.State.N != 1 || got.Steps != 2 || len(got.Skipped) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestCancelIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	f := compile(t, one(graph.Node[state, update]{Name: "x", Run: func(ctx context.Context, _ *graph.Task, _ state) (update, error) {
		stop(why)
		<-ctx.Done()
		return update{}, ctx.Err()
	}}))
	if _, err := f.Run(ctx, state{}, nil); !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
}

// What was skipped is told in path order, whichever was given up first.
func TestSkippedIsInPathOrder(t *testing.T) {
	g := graph.New("skips", reduce)
	for _, n := range []string{"slow", "quick"} {
		g.AddNode(graph.Node[state, update]{Name: n, OnError: graph.Skip, Run: func(context.Context, *graph.Task, state) (update, error) {
			if n == "slow" {
				time.Sleep(20 * time.Millisecond)
			}
			return update{}, errors.New("no luck")
		}})
		g.Edge(graph.Start, n)
		g.Edge(n, graph.End)
	}
	got, err := compile(t, g).Execute(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Skipped, " ") != "slow quick" {
		t.Fatalf("got %v, %v", got.Skipped, err)
	}
}
