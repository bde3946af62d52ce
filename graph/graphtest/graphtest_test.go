package graphtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/graphtest"
	"github.com/superstep-dev/superstep/runlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type state struct {
	Counts map[string]int
	Words  []string
}

func sum(s, u state) state {
	out := state{Counts: map[string]int{}, Words: append(slices.Clone(s.Words), u.Words...)}
	for _, m := range []map[string]int{s.Counts, u.Counts} {
		for k, v := range m {
			out.Counts[k] += v
		}
	}
	return out
}

// heard is a test that hears what fails.
type heard struct {
	testing.TB
	failures, notes []string
}

func (h *heard) Helper()      {}
func (h *heard) Failed() bool { return len(h.failures) > 0 }
func (h *heard) Errorf(format string, args ...any) {
	h.failures = append(h.failures, fmt.Sprintf(format, args...))
}
func (h *heard) Logf(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// loop is a graph that goes round until its count is six: a and b beside each other, and then c.
func loop(t *testing.T, reduce func(s, u state) state, a func(ctx context.Context, s state) (state, error)) *graph.Flow[state, state] {
	t.Helper()
	one := func(context.Context, state) (state, error) { return state{Counts: map[string]int{"n": 1}}, nil }
	g := graph.New("loop", reduce)
	g.Add("a", a)
	g.Add("b", one)
	g.AddNode(graph.Node[state, state]{Name: "c", Join: graph.All, Run: func(_ context.Context, t *graph.Task, _ state) (state, error) {
		return state{Words: []string{fmt.Sprint(t.Visit())}}, nil
	}})
	g.Edge(graph.Start, "a")
	g.Edge(graph.Start, "b")
	g.Edge("a", "c")
	g.Edge("b", "c")
	g.Fan("c", func(s state) []graph.Send {
		if s.Counts["n"] < 6 {
			return []graph.Send{{To: "a"}, {To: "b"}}
		}
		return nil
	}, "a", "b", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func effect(ctx context.Context, key, word string) (state, error) {
	w, err := graph.Do(ctx, key, func(context.Context, string) (string, error) { return word, nil })
	return state{Counts: map[string]int{"n": 1}, Words: []string{w}}, err
}

func TestKillEverywhere(t *testing.T) {
	fine := func(ctx context.Context, s state) (state, error) {
		return effect(ctx, "w", fmt.Sprint("n", s.Counts["n"]))
	}
	calls := 0
	for name, c := range map[string]struct {
		reduce func(s, u state) state
		a      func(ctx context.Context, s state) (state, error)
		want   string
	}{
		"fine": {sum, fine, ""},
		"asks": {sum, func(ctx context.Context, _ state) (state, error) {
			word, err := graph.Ask[string](ctx, graph.Question{Text: "Which?"})
			return state{Counts: map[string]int{"n": 1}, Words: []string{word}}, err
		}, ""},
		"a key twice": {sum, func(ctx context.Context, _ state) (state, error) {
			if _, err := effect(ctx, "w", "one"); err != nil {
				return state{}, err
			}
			return effect(ctx, "w", "two")
		}, `effect "w" is used twice`},
		"outside of an effect": {sum, func(ctx context.Context, _ state) (state, error) {
			calls++
			return state{Counts: map[string]int{"n": 1}, Words: []string{fmt.Sprint(calls)}}, nil
		}, "the state is another one"},
		"writes into a map": {func(s, u state) state {
			for k, v := range u.Counts {
				if s.Counts == nil {
					s.Counts = map[string]int{}
				}
				s.Counts[k] += v
			}
			return s
		}, fine, `the reducer changes the state that it is given: Counts was {"n":`},
		"reads the clock": {func(s, u state) state {
			s = sum(s, u)
			s.Words = []string{fmt.Sprint(time.Now().UnixNano())}
			return s
		}, fine, "does not give the same twice"},
	} {
		h := &heard{TB: t}
		graphtest.KillEverywhere(h, loop(t, c.reduce, c.a), state{Counts: map[string]int{"n": 0}}, &graphtest.Options{
			Seed: 1, Schedules: 40, Answer: func(runlog.Question) any { return "that" },
		})
		if c.want == "" && h.Failed() || c.want != "" && (len(h.failures) == 0 || !strings.Contains(strings.Join(h.failures, "\n"), c.want)) {
			t.Errorf("%s: %q, want %q", name, h.failures, c.want)
		}
		if notes := strings.Join(h.notes, "\n"); name == "fine" && (!strings.Contains(notes, "are seen in: b, c") || !strings.Contains(notes, "40 schedules of seed 1")) {
			t.Errorf("notes %q", notes)
		}
	}
}
