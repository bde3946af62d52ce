package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// A run of any of the kinds is replayed from its log to the same records, without doing
// anything to the world.
func TestReplay(t *testing.T) {
	kinds := map[string]func(t testing.TB, w *world) *graph.Flow[state, update]{
		"limit, and anew": func(t testing.TB, w *world) *graph.Flow[state, update] {
			m := &scripted.Model{ID: "test/m"}
			m.Answer = func(*model.Request) scripted.Turn {
				w.did("turn")
				if len(m.Requests()) < 3 {
					return scripted.Say("hm")
				}
				return scripted.Call("done", `{"a":"x"}`)
			}
			a := &agent.Agent{Name: "a", Model: m, Tools: tools(t, echo(t, "done", tool.Pure, nil)), Finish: "done", Limits: agent.Limits{Turns: 2}}
			n := node.Agent("work", a, topic, said)
			n.Retry = &graph.Retry{Attempts: 2, Backoff: 1}
			return oneWay(t, n)
		},
		"a file that is written later": func(t testing.TB, w *world) *graph.Flow[state, update] {
			fetch := echo(t, "fetch", tool.Pure, nil)
			fetch.Network = true
			all := tools(t, fetch, echo(t, "read_file", tool.Pure, nil), echo(t, "write_file", tool.Idempotent, nil))
			works := func(name string, turns ...scripted.Turn) graph.Node[state, update] {
				m := &scripted.Model{ID: "test/m", Turns: append(turns, scripted.Say("done"))}
				return node.Agent(name, &agent.Agent{Name: name, Model: m, Tools: all}, topic, func(s state, o *agent.Outcome) (update, error) { return add(s, strings.Join(o.Seen, ",")) })
			}
			return oneWay(t, works("before", scripted.Call("read_file", "{}")), works("writer", scripted.Call("fetch", "{}"), scripted.Call("write_file", `{"a":"x"}`)),
				works("after", scripted.Call("read_file", "{}")))
		},
		"until": func(t testing.TB, w *world) *graph.Flow[state, update] {
			holds := func(context.Context, state) (bool, error) { w.did("look"); return true, nil }
			return oneWay(t, node.Until("wait", clock(), time.Second, holds, idle))
		},
		"branches fail": func(t testing.TB, w *world) *graph.Flow[state, update] {
			broken := func(context.Context, *graph.Task, state) (update, error) { return update{}, errors.New("it is broken") }
			return oneWay(t, node.Parallel("n", []graph.Node[state, update]{effect(w, "n", "a", false), {Name: "b", Run: broken}}, notes, &node.ParallelOptions{Settled: true}))
		},
		"late before an effect": func(t testing.TB, w *world) *graph.Flow[state, update] {
			do := func(ctx context.Context, key string) error {
				_, err := graph.Do(ctx, key, func(context.Context, string) (int, error) { w.did(key); return 1, nil })
				return err
			}
			return oneWay(t, graph.Node[state, update]{Name: "slow", Timeout: 20 * time.Millisecond, Retry: &graph.Retry{Attempts: 5, Backoff: -1},
				Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
					if err := do(ctx, "a"); err != nil {
						return update{}, err
					}
					if t.Attempt() == 1 {
						time.Sleep(40 * time.Millisecond)
					}
					return update{}, do(ctx, "b")
				}})
		},
		"late": func(t testing.TB, w *world) *graph.Flow[state, update] {
			slow := func(path, name string, end error) graph.Node[state, update] {
				n := effect(w, path, name, false)
				run := n.Run
				n.Timeout, n.Retry = 20*time.Millisecond, &graph.Retry{Attempts: 2, Backoff: -1}
				n.Run = func(ctx context.Context, t *graph.Task, s state) (update, error) {
					u, err := run(ctx, t, s)
					if t.Attempt() == 1 {
						time.Sleep(40 * time.Millisecond) // whatever ctx says
						return u, end
					}
					return u, err
				}
				return n
			}
			return oneWay(t, slow("one", "one", nil), slow("two", "two", errors.New("it was slow")), node.Parallel("n", []graph.Node[state, update]{slow("n/part", "part", nil)}, notes, nil))
		},
	}
	for name, build := range crashing {
		kinds[name] = build
	}
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			type inputs struct {
				Topic string `json:"topic"`
			}
			first := state{Items: []int{1, 2, 3}, Talk: []model.Message{model.UserText("a"), model.UserText("b"), model.UserText("c")}}
			f, err := workflow.New("test", "A test.", build(t, w), func(in inputs) (state, error) { s := first; s.Topic = in.Topic; return s, nil },
				func(s state) (string, error) { return strings.Join(s.Notes, " "), nil })
			if err != nil {
				t.Fatal(err)
			}
			e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{f}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			run, err := e.Start(t.Context(), "test", json.RawMessage(`{"topic":"go"}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed {
				t.Fatal(out, err)
			}
			did := len(w.done)
			report, err := e.Replay(t.Context(), run.ID(), &superstep.ReplayOptions{Wait: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if report.Diverged != nil {
				t.Errorf("%v: recorded %+v, replayed %+v", report.Diverged, report.Diverged.Recorded, report.Diverged.Replayed)
			}
			if len(w.done) != did {
				t.Errorf("the replay did %v", w.done[did:])
			}
		})
	}
}
