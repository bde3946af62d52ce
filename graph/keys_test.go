package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// onDisk opens a store on disk. Each call of the function that it returns closes the store and opens it again.
func onDisk(t *testing.T) (open func() runlog.Store) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs.db")
	var last *sqlite.Store
	shut := func() {
		if last != nil {
			if err := last.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(shut)
	return func() runlog.Store {
		shut()
		store, err := sqlite.Open(t.Context(), file, nil)
		if last = store; err != nil {
			t.Fatal(err)
		}
		return store
	}
}

// everywhere calls a test without a store and with one on disk, in which the run of the ID "x" is resumed in a store that was opened again.
func everywhere(t *testing.T, test func(t *testing.T, opt func() *graph.RunOptions)) {
	t.Run("without a store", func(t *testing.T) { test(t, func() *graph.RunOptions { return nil }) })
	t.Run("with a store", func(t *testing.T) {
		open := onDisk(t)
		test(t, func() *graph.RunOptions { return &graph.RunOptions{Store: open(), ID: "x"} })
	})
}

// single returns a flow of one node.
func single(t *testing.T, n graph.Node[string, string]) *graph.Flow[string, string] {
	t.Helper()
	n.Name = "n"
	g := graph.New("single", func(_, u string) string { return u })
	g.AddNode(n)
	g.Edge(graph.Start, "n")
	g.Edge("n", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return flow
}

// A key that was used in an attempt is not used again in it. The error names both places and the key to use instead, with a store and without one alike.
func TestOneKeyOneUse(t *testing.T) {
	effect := func(ctx context.Context, key string) error {
		_, err := graph.Do(ctx, key, func(context.Context, string) (string, error) { return key, nil })
		return err
	}
	once := func(ctx context.Context, key string) error {
		_, err := graph.Once(ctx, key, func(context.Context, string) (string, error) { return key, nil })
		return err
	}
	raw := func(ctx context.Context, t *graph.Task, key string) error {
		_, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: key}, func(context.Context, string) (string, error) { return key, nil })
		return err
	}
	talk := func(ctx context.Context, s *journal.Scope, key string) error {
		m := &scripted.Model{Turns: []scripted.Turn{scripted.Say("Lyon")}}
		_, err := (&agent.Agent{Name: "geo", Model: m}).Run(ctx, s, &agent.Work{Key: key, Prompt: "sample a city"})
		return err
	}
	for name, c := range map[string]struct {
		run  func(ctx context.Context, t *graph.Task) error
		want string // in the error; "" for none
	}{
		"two effects": {func(ctx context.Context, _ *graph.Task) error {
			return errors.Join(effect(ctx, "a"), effect(ctx, "b"), once(ctx, "c"))
		}, ""},
		"one effect twice": {func(ctx context.Context, _ *graph.Task) error { return errors.Join(effect(ctx, "a"), effect(ctx, "a")) }, `effect "a" is used twice in one attempt (both at keys_test.go:`},
		"instead":          {func(ctx context.Context, _ *graph.Task) error { return errors.Join(effect(ctx, "a"), effect(ctx, "a")) }, `such as "a/2"`},
		"once after do":    {func(ctx context.Context, _ *graph.Task) error { return errors.Join(effect(ctx, "a"), once(ctx, "a")) }, `(at keys_test.go:`},
		"the scope's":      {func(ctx context.Context, t *graph.Task) error { return errors.Join(raw(ctx, t, "a"), effect(ctx, "a")) }, `effect "a" is used twice`},
		"two agents": {func(ctx context.Context, t *graph.Task) error {
			return errors.Join(talk(ctx, t.Scope(), ""), talk(ctx, t.Scope(), ""))
		}, `Scope().Inner("geo-2")`},
		"agents with keys": {func(ctx context.Context, t *graph.Task) error {
			return errors.Join(talk(ctx, t.Scope(), "1"), talk(ctx, t.Scope(), "2"))
		}, ""},
		"agents in scopes": {func(ctx context.Context, t *graph.Task) error {
			return errors.Join(talk(ctx, t.Scope(), ""), talk(ctx, t.Scope().Inner("b"), ""))
		}, ""},
		"agents, one scope": {func(ctx context.Context, t *graph.Task) error {
			return errors.Join(talk(ctx, t.Scope().Inner("b"), ""), talk(ctx, t.Scope().Inner("b"), ""))
		}, "(both at keys_test.go:"},
		"parts": {func(ctx context.Context, t *graph.Task) error {
			part := func(name string) error {
				_, err := graph.Part(ctx, t, &graph.Node[string, string]{Name: name, Run: func(ctx context.Context, _ *graph.Task, s string) (string, error) {
					return s, effect(ctx, "a")
				}}, "")
				return err
			}
			return errors.Join(part("p"), part("q"), effect(ctx, "a"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, opt func() *graph.RunOptions) {
				flow := single(t, graph.Node[string, string]{Run: func(ctx context.Context, t *graph.Task, _ string) (string, error) { return "done", c.run(ctx, t) }})
				for range 2 { // resumed, it is the same
					got, err := flow.Run(t.Context(), "", opt())
					if c.want == "" && (err != nil || got != "done") {
						t.Fatalf("got %q, %v", got, err)
					}
					var used *journal.UsedError
					if c.want != "" && (!errors.As(err, &used) || !strings.Contains(err.Error(), c.want)) {
						t.Fatalf("got %q, %v; want %q", got, err, c.want)
					}
				}
			})
		})
	}
}

// An effect that has failed is tried again under its key, by the node itself or by its next attempt, and one that has succeeded is not done again by the
// next attempt. A key that was used twice is no reason for a next attempt.
func TestKeysOfAttempts(t *testing.T) {
	everywhere(t, func(t *testing.T, opt func() *graph.RunOptions) {
		tried, paid, attempts := 0, 0, 0
		flow := single(t, graph.Node[string, string]{Retry: &graph.Retry{Attempts: 3, Backoff: 1}, Run: func(ctx context.Context, task *graph.Task, _ string) (string, error) {
			attempts++
			if _, err := graph.Do(ctx, "pay", func(context.Context, string) (int, error) { paid++; return paid, nil }); err != nil {
				return "", err
			}
			for range 2 {
				out, err := graph.Do(ctx, "flaky", func(context.Context, string) (string, error) {
					if tried++; tried < 4 {
						return "", errBroken
					}
					return "done", nil
				})
				if err == nil {
					return out, nil
				}
			}
			return "", errBroken
		}})
		o := opt()
		got, err := flow.Run(t.Context(), "", o)
		want := 1
		if o == nil {
			want = 2 // as docs say, there is no record to take it from
		}
		if err != nil || got != "done" || tried != 4 || attempts != 2 || paid != want {
			t.Errorf("got %q, %v after %d tries in %d attempts, %d paid", got, err, tried, attempts, paid)
		}
	})
	attempts := 0
	flow := single(t, graph.Node[string, string]{Retry: &graph.Retry{Attempts: 3, Backoff: 1}, Run: func(ctx context.Context, _ *graph.Task, _ string) (string, error) {
		attempts++
		for range 2 {
			if _, err := graph.Do(ctx, "k", func(context.Context, string) (int, error) { return 0, nil }); err != nil {
				return "", err
			}
		}
		return "", nil
	}})
	if _, err := flow.Run(t.Context(), "", nil); !errors.As(err, new(*journal.UsedError)) || attempts != 1 {
		t.Errorf("got %v after %d attempts", err, attempts)
	}
}

// The answer to one question is no answer to another: two questions have two keys, and a recorded question that asks something else now has no answer.
func TestOneKeyOneQuestion(t *testing.T) {
	ask := func(ctx context.Context, q graph.Question) (string, error) { return graph.Ask[string](ctx, q) }
	yesNo := []string{"yes", "no"}
	before := graph.Question{Key: "delete", Text: "Delete tmp?", Options: yesNo}
	answered := func(t *testing.T, open func() runlog.Store) {
		t.Helper()
		flow := single(t, graph.Node[string, string]{Run: func(ctx context.Context, _ *graph.Task, _ string) (string, error) { return ask(ctx, before) }})
		var paused *graph.Paused
		if _, err := flow.Run(t.Context(), "", &graph.RunOptions{Store: open(), ID: "x"}); !errors.As(err, &paused) {
			t.Fatalf("got %v", err)
		}
		if err := flow.Answer(t.Context(), open(), "x", paused.Questions[0], "yes"); err != nil {
			t.Fatal(err)
		}
	}
	another := func(change func(*graph.Question)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			q := before
			change(&q)
			return ask(ctx, q)
		}
	}
	for name, c := range map[string]struct {
		run  func(ctx context.Context) (string, error)
		want string // in the error; "" for the answer
	}{
		"the same": {another(func(*graph.Question) {}), ""},
		"twice": {func(ctx context.Context) (string, error) {
			a, err := ask(ctx, before)
			if err != nil {
				return a, err
			}
			return ask(ctx, graph.Question{Key: "delete", Text: "Delete prod?", Options: yesNo})
		}, `question "delete" is used twice in one attempt (both at keys_test.go:`},
		"another text":   {another(func(q *graph.Question) { q.Text = "Delete prod?" }), `question "delete" is recorded with another text, options or schema: "Delete tmp?", and now "Delete prod?"`},
		"other options":  {another(func(q *graph.Question) { q.Options = []string{"yes", "never"} }), `question "delete" is recorded with another`},
		"another schema": {another(func(q *graph.Question) { q.Schema = []byte(`{"type":"string"}`) }), `question "delete" is recorded with another`},
	} {
		t.Run(name, func(t *testing.T) {
			open := onDisk(t)
			answered(t, open)
			flow := single(t, graph.Node[string, string]{Run: func(ctx context.Context, _ *graph.Task, _ string) (string, error) { return c.run(ctx) }})
			got, err := flow.Run(t.Context(), "", &graph.RunOptions{Store: open(), ID: "x"})
			if c.want == "" && (err != nil || got != "yes") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// A node that drops the error of Ask does not pass its own gate, also if the answer comes while it runs. With the answer it goes on.
func TestGateThatDropsItsQuestion(t *testing.T) {
	for _, drop := range []func(error) error{func(error) error { return nil }, func(err error) error { return fmt.Errorf("asking: %v", err) }} {
		testGateThatDrops(t, onDisk(t), drop)
	}
}

func testGateThatDrops(t *testing.T, open func() runlog.Store, drop func(error) error) {
	gate := func(ctx context.Context) (string, error) {
		got, err := graph.Ask[string](ctx, graph.Question{Text: "Delete prod?", Options: []string{"yes", "no"}})
		if err != nil {
			return "yes", drop(err)
		}
		return got, nil
	}
	for name, run := range map[string]func(ctx context.Context, task *graph.Task) (string, error){
		"node": func(ctx context.Context, _ *graph.Task) (string, error) { return gate(ctx) },
		"part": func(ctx context.Context, task *graph.Task) (string, error) {
			return graph.Part(ctx, task, &graph.Node[string, string]{Name: "p", Run: func(ctx context.Context, _ *graph.Task, _ string) (string, error) { return gate(ctx) }}, "")
		},
	} {
		flow := single(t, graph.Node[string, string]{Run: func(ctx context.Context, task *graph.Task, _ string) (string, error) {
			return run(ctx, task)
		}})
		opt := func() *graph.RunOptions { return &graph.RunOptions{Store: open(), ID: name} }
		got, err := flow.Run(t.Context(), "", opt())
		if want := `it asked "Delete prod?" and did not wait for the answer; return the error of Ask`; err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%s: got %q, %v; want %q", name, got, err, want)
		}
		var q runlog.Question
		for r, err := range runlog.Records(t.Context(), open(), name, 1) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind == runlog.KindAsked {
				if err := json.Unmarshal(r.Data, &q); err != nil {
					t.Fatal(err)
				}
				q.Path = r.Path
			}
		}
		if err := flow.Answer(t.Context(), open(), name, q, "no"); err != nil {
			t.Fatal(err)
		}
		if got, err := flow.Run(t.Context(), "", opt()); err != nil || got != "no" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
