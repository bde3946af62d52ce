package graphtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/graphtest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
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

// A graph that takes another key where one is used twice, and that asks again where its question was dropped, is right only because the engine
// says so. Without that, KillEverywhere finds what is wrong: each of these is a mutant of the sabotage suite.
func TestKillEverywhereFindsWhatTheEngineRefuses(t *testing.T) {
	say := func(word string) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) { return word, nil }
	}
	echo := &scripted.Model{Answer: func(r *model.Request) scripted.Turn { return scripted.Say(r.Messages[len(r.Messages)-1].Text()) }}
	words := func(out ...string) state { return state{Counts: map[string]int{"n": 6}, Words: out} }
	for name, run := range map[string]func(ctx context.Context, task *graph.Task) (state, error){
		"effects": func(ctx context.Context, _ *graph.Task) (state, error) {
			x, err := graph.Do(ctx, "download", say("x"))
			if err != nil {
				return state{}, err
			}
			y, err := graph.Do(ctx, "download", say("y"))
			if errors.As(err, new(*journal.UsedError)) {
				y, err = graph.Do(ctx, "download/2", say("y"))
			}
			return words(x, y), err
		},
		"questions": func(ctx context.Context, _ *graph.Task) (state, error) {
			q := graph.Question{Key: "delete", Text: "Delete tmp?"}
			if _, err := graph.Ask[string](ctx, q); err != nil {
				return state{}, err
			}
			q.Text = "Delete prod?"
			prod, err := graph.Ask[string](ctx, q)
			if errors.As(err, new(*journal.UsedError)) {
				q.Key = "prod"
				prod, err = graph.Ask[string](ctx, q)
			}
			if err == nil && prod != "prod: no" {
				err = fmt.Errorf("prod is deleted: %s", prod)
			}
			return words(prod), err
		},
		"agents": func(ctx context.Context, task *graph.Task) (state, error) {
			var out []string
			for _, prompt := range []string{"Lyon", "Rome"} {
				a := &agent.Agent{Name: "geo", Prompt: "Say a city.", Model: echo}
				got, err := a.Run(ctx, task.Scope(), &agent.Work{Prompt: prompt})
				if errors.As(err, new(*journal.UsedError)) {
					got, err = a.Run(ctx, task.Scope(), &agent.Work{Key: prompt, Prompt: prompt})
				}
				if err != nil {
					return state{}, err
				}
				out = append(out, got.Text)
			}
			return words(out...), nil
		},
		"a gate": func(ctx context.Context, task *graph.Task) (state, error) {
			got, err := graph.Ask[string](ctx, graph.Question{Text: "Go?"})
			if err != nil && task.Attempt() == 1 {
				got, err = "go: yes", nil
			}
			return words(got), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := graph.New("g", sum)
			g.AddNode(graph.Node[state, state]{Name: "n", Retry: &graph.Retry{Attempts: 2, Backoff: -1}, Run: func(ctx context.Context, task *graph.Task, _ state) (state, error) {
				return run(ctx, task)
			}})
			g.Edge(graph.Start, "n")
			g.Edge("n", graph.End)
			f, err := g.Compile()
			if err != nil {
				t.Fatal(err)
			}
			graphtest.KillEverywhere(t, f, state{}, &graphtest.Options{Seed: 1, Schedules: 20, Answer: func(q runlog.Question) any {
				return map[string]string{"Delete tmp?": "tmp: yes", "Delete prod?": "prod: no", "Go?": "go: yes"}[q.Text]
			}})
		})
	}
}
