package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

func TestToolArgs(t *testing.T) {
	set := tools(t, echo(t, "echo", tool.Pure, nil))
	s := state{Topic: "go", Items: []int{7, 8}, Meta: map[string]any{"name": "deep"}}
	from := func(state) (map[string]any, error) { return map[string]any{"b": "from"}, nil }
	for _, tc := range []struct {
		name string
		args node.Args[state]
		want string
	}{
		{"none", node.Args[state]{}, "//0"},
		{"static", node.Args[state]{Static: map[string]any{"a": "x", "n": 3}}, "x//3"},
		{"a path overrides static", node.Args[state]{Static: map[string]any{"a": "x", "b": "y"}, Paths: map[string]string{"a": "topic"}}, "go/y/0"},
		{"deep paths", node.Args[state]{Paths: map[string]string{"a": "meta.name", "n": "items.1"}}, "deep//8"},
		{"a missing path leaves static", node.Args[state]{Static: map[string]any{"a": "x"}, Paths: map[string]string{"a": "meta.nothing"}}, "x//0"},
		{"a missing path is absent", node.Args[state]{Paths: map[string]string{"a": "items.2", "b": "topic.more", "n": "items.-1"}}, "//0"},
		{"a function overrides all", node.Args[state]{Static: map[string]any{"b": "x"}, Paths: map[string]string{"b": "topic"}, From: from}, "/from/0"},
	} {
		n := node.Tool("tool", set, "echo", tc.args, add)
		got, err := oneWay(t, n).Run(t.Context(), s, nil)
		if err != nil || fmt.Sprint(got.Notes) != "["+tc.want+"]" {
			t.Errorf("%s: got %v, %v, want %s", tc.name, got.Notes, err, tc.want)
		}
		if tc.args.Static["a"] != nil && tc.args.Static["a"] != "x" {
			t.Errorf("%s: the static arguments were changed", tc.name)
		}
	}
}

func TestToolFailures(t *testing.T) {
	calls := 0
	set := tools(t, echo(t, "echo", tool.Pure, func(*tool.Call) error {
		if calls++; calls == 1 {
			return errors.New("it is broken")
		}
		return nil
	}))
	n := node.Tool("tool", set, "echo", node.Args[state]{}, add)
	if _, err := oneWay(t, n).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "tool echo: it is broken") {
		t.Fatal(err)
	}
	calls = 0
	n.Retry = &graph.Retry{Attempts: 2, Backoff: 1}
	if got, err := oneWay(t, n).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, runlogtest.NewMortal())}); err != nil || calls != 2 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
	wrong := node.Tool("tool", set, "echo", node.Args[state]{Static: map[string]any{"z": 1}}, add)
	if _, err := oneWay(t, wrong).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "z") || calls != 2 {
		t.Errorf("got %v", err)
	}
}

func TestToolTimeout(t *testing.T) {
	set := tools(t, &tool.Tool{Name: "slow", Input: echo(t, "x", "", nil).Input, Run: func(ctx context.Context, _ *tool.Call) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}})
	n := node.Tool("tool", set, "slow", node.Args[state]{}, add)
	n.Timeout = time.Millisecond
	var limit *graph.TimeoutError
	if _, err := oneWay(t, n).Run(t.Context(), state{}, nil); !errors.As(err, &limit) {
		t.Errorf("got %v", err)
	}
}

// A call that must not happen twice, and that a crash has cut off, is not made again unasked.
func TestOnce(t *testing.T) {
	for name, build := range map[string]func(t *testing.T, hook func(*tool.Call) error) graph.Node[state, update]{
		"tool": func(t *testing.T, hook func(*tool.Call) error) graph.Node[state, update] {
			return node.Tool("send", tools(t, echo(t, "mail", tool.Once, hook)), "mail", node.Args[state]{Paths: map[string]string{"a": "topic"}}, add)
		},
		"func": func(_ *testing.T, hook func(*tool.Call) error) graph.Node[state, update] {
			return node.Func("send", "", topic, func(_ context.Context, key string, in string) (string, error) {
				return in + "//0", hook(&tool.Call{Key: key})
			}, add)
		},
	} {
		for answer, want := range map[string]struct {
			notes string
			calls int
		}{"do it again": {"[go//0]", 2}, "it happened": {"[sorry]", 1}} {
			t.Run(name+", "+answer, func(t *testing.T) {
				store, keys := runlogtest.NewMortal(), []string(nil)
				g := graph.New("test", reduce)
				g.AddNode(build(t, func(c *tool.Call) error {
					if keys = append(keys, c.Key); len(keys) == 1 {
						store.Die()
					}
					return nil
				}))
				g.AddNode(note("sorry"))
				g.Edge(graph.Start, "send")
				g.Edge("send", graph.End)
				g.Catch("send", "sorry")
				g.Edge("sorry", graph.End)
				flow := compile(t, g)
				run := func(j *journal.Journal) (state, error) {
					return flow.Run(t.Context(), state{Topic: "go"}, &graph.RunOptions{Journal: j})
				}
				if _, err := run(open(t, store)); !errors.Is(err, runlogtest.ErrCrash) {
					t.Fatal(err)
				}
				store.Revive()
				j := open(t, store)
				var wait *pregel.WaitingError
				if _, err := run(j); !errors.As(err, &wait) || len(keys) != 1 {
					t.Fatalf("%v after %d calls", err, len(keys))
				}
				if err := j.Answer(t.Context(), "send", &runlog.Answer{Key: j.Open()[0].Key, Value: json.RawMessage(`"` + answer + `"`)}); err != nil {
					t.Fatal(err)
				}
				got, err := run(j)
				if err != nil || fmt.Sprint(got.Notes) != want.notes || len(keys) != want.calls || keys[0] == "" || keys[0] != keys[len(keys)-1] {
					t.Errorf("got %v, %v, with keys %q", got.Notes, err, keys)
				}
			})
		}
	}
}

// TestToolWhole: a node gets all of a result, however large, as the steps of a recipe do.
func TestToolWhole(t *testing.T) {
	large := "[" + strings.Repeat("\"0123456789\",\n", 6000) + "0]"
	set := tools(t, &tool.Tool{Name: "large", Input: echo(t, "x", "", nil).Input, Effect: tool.Pure, Run: func(context.Context, *tool.Call) (string, error) { return large, nil }})
	got, err := oneWay(t, node.Tool("tool", set, "large", node.Args[state]{}, add)).Run(t.Context(), state{}, nil)
	if err != nil || len(got.Notes) != 1 || got.Notes[0] != large {
		t.Errorf("%d of %d bytes, %v", len(strings.Join(got.Notes, "")), len(large), err)
	}
}

// turning is a gate whose verdict changes.
type turning struct{ tool.Decision }

func (g *turning) Check(*tool.Tool, *tool.Call) tool.Verdict {
	return tool.Verdict{Decision: g.Decision, Reason: "the rules of the test"}
}

// allowsOnce is a gate that allows the first look at a call, and asks about every other.
type allowsOnce struct{ looks *int }

func (g allowsOnce) Check(*tool.Tool, *tool.Call) tool.Verdict {
	if *g.looks++; *g.looks == 1 {
		return tool.Verdict{Decision: tool.Allow}
	}
	return tool.Verdict{Decision: tool.Ask, Reason: "its path leads elsewhere by now"}
}

// TestToolGuard: a node obeys the guard of its set. What was permitted is not asked about again after a crash, and is
// refused if it has been denied since.
func TestToolGuard(t *testing.T) {
	for name, then := range map[string]tool.Decision{"again": tool.Ask, "denied since": tool.Deny} {
		t.Run(name, func(t *testing.T) {
			store, gate, calls := runlogtest.NewMortal(), &turning{tool.Ask}, 0
			set := tools(t, echo(t, "echo", tool.Pure, func(*tool.Call) error {
				if calls++; calls == 1 {
					store.Die()
				}
				return nil
			})).Guarded(tool.Guard{Gate: gate})
			flow := oneWay(t, node.Tool("tool", set, "echo", node.Args[state]{Static: map[string]any{"a": "x"}}, add))
			j := open(t, store)
			if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !journal.Waits(err) || calls != 0 {
				t.Fatalf("%v after %d calls", err, calls)
			}
			q := j.Open()[0]
			if !agent.Permission(&q) || !strings.Contains(q.Text, "May tool call echo?") {
				t.Errorf("asked %+v", q)
			}
			if err := j.Answer(t.Context(), "tool", &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"once"`)}); err != nil {
				t.Fatal(err)
			}
			if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !errors.Is(err, runlogtest.ErrCrash) {
				t.Fatal(err)
			}
			gate.Decision = then
			store.Revive()
			got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)})
			switch {
			case then == tool.Deny && (err == nil || !strings.Contains(err.Error(), "the rules of the test") || calls != 1):
				t.Errorf("%v after %d calls", err, calls)
			case then == tool.Ask && (err != nil || calls != 2 || len(got.Notes) != 1):
				t.Errorf("%v, %v after %d calls", got, err, calls)
			}
		})
	}
	// What was allowed unasked is looked at again right before it happens.
	calls, looks := 0, 0
	set := tools(t, echo(t, "echo", tool.Pure, func(*tool.Call) error { calls++; return nil })).Guarded(tool.Guard{Gate: allowsOnce{&looks}})
	if _, err := oneWay(t, node.Tool("tool", set, "echo", node.Args[state]{Static: map[string]any{"a": "x"}}, add)).Run(t.Context(), state{}, nil); err == nil ||
		!strings.Contains(err.Error(), "it needs permission") || calls != 0 || looks != 2 {
		t.Errorf("%v after %d calls and %d looks", err, calls, looks)
	}
	set = tools(t, echo(t, "echo", tool.Pure, nil)).Guarded(tool.Guard{Gate: &turning{tool.Ask}})
	var denied *agent.DeniedError
	_, err := oneWay(t, node.Tool("tool", set, "echo", node.Args[state]{}, add)).Run(t.Context(), state{}, nil)
	if !errors.As(err, &denied) || denied.Tool != "echo" || !errors.Is(err, journal.ErrDenied) {
		t.Errorf("without a log: %v", err)
	}
}
