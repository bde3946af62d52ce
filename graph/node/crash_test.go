package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// worker is an agent that calls a tool, and then says what it heard. Each of its turns
// counts as the effect "path prefix+turn".
func worker(t testing.TB, w *world, path string, prefix func(prompt string) string) *agent.Agent {
	m := &scripted.Model{ID: "test/worker"}
	m.Answer = func(req *model.Request) scripted.Turn {
		turn := len(req.Messages) / 2
		w.did(fmt.Sprintf("%s %sturn-%d", path, prefix(req.Messages[0].Text()), turn))
		if turn == 0 {
			return scripted.Call("echo", `{"a":"hi"}`)
		}
		return scripted.Say(req.Messages[0].Text() + ": " + req.Messages[2].Parts[0].Text)
	}
	return &agent.Agent{Name: "worker", Model: m, Tools: tools(t, echo(t, "echo", tool.Idempotent, nil))}
}

func topic(s state) (string, error) { return s.Topic, nil }

func said(s state, o *agent.Outcome) (update, error) { return add(s, o.Text) }

func jobs(s state) ([]node.Job, error) {
	var out []node.Job
	for _, n := range s.Items {
		out = append(out, node.Job{Prompt: fmt.Sprint(n)})
	}
	return out, nil
}

func texts(_ state, rs []node.Result[*agent.Outcome]) (update, error) {
	var u update
	for _, r := range rs {
		if r.Error != "" {
			u.Notes = append(u.Notes, r.Name+" failed: "+r.Error)
		} else {
			u.Notes = append(u.Notes, r.Name+" "+r.Value.Text)
		}
	}
	return u, nil
}

func notes(_ state, rs []node.Result[update]) (update, error) {
	var u update
	for _, r := range rs {
		if r.Error != "" {
			u.Notes = append(u.Notes, r.Name+" failed: "+r.Error)
		}
		u.Notes = append(u.Notes, r.Value.Notes...)
	}
	return u, nil
}

func conversation() node.Conversation[state, update] {
	return node.Conversation[state, update]{
		Messages: func(s state) []model.Message { return s.Talk },
		Replace:  func(_ state, m []model.Message) (update, error) { return update{Talk: m}, nil },
	}
}

// effect is a branch that does something, and something more.
func effect(w *world, path, name string, fail bool) graph.Node[state, update] {
	return graph.Node[state, update]{Name: name, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		for _, key := range []string{"a", "b"} {
			if _, err := graph.Do(ctx, key, func(context.Context, string) (int, error) { w.did(path + "/" + name + " " + key); return 1, nil }); err != nil {
				return update{}, err
			}
		}
		if fail {
			return update{}, fmt.Errorf("%s is broken", name)
		}
		return add(s, name)
	}}
}

var crashing = map[string]func(t testing.TB, w *world) *graph.Flow[state, update]{
	"agent": func(t testing.TB, w *world) *graph.Flow[state, update] {
		return oneWay(t, node.Agent("work", worker(t, w, "work", func(string) string { return "" }), topic, said), note("end"))
	},
	"typed": func(t testing.TB, w *world) *graph.Flow[state, update] {
		m := &scripted.Model{ID: "test/grader"}
		m.Answer = func(req *model.Request) scripted.Turn {
			turn := len(req.Messages) / 2
			w.did(fmt.Sprintf("work turn-%d", turn))
			return scripted.Say([]string{`{"points":"five"}`, `{"points":11}`, `{"points":5}`}[turn])
		}
		type grade struct {
			Points int `json:"points"`
		}
		to := func(s state, g grade) (update, error) { return add(s, fmt.Sprint(g.Points)) }
		few := func(g grade) error {
			if g.Points > 10 {
				return fmt.Errorf("points is %d, want at most 10", g.Points)
			}
			return nil
		}
		return oneWay(t, node.Typed("work", &agent.Agent{Name: "grader", Model: m}, topic, to, few), note("end"))
	},
	"subagents": func(t testing.TB, w *world) *graph.Flow[state, update] {
		a := worker(t, w, "work", func(prompt string) string { return "job/" + prompt + "/" })
		return oneWay(t, node.Subagents("work", []*agent.Agent{a}, jobs, texts, &node.SubagentsOptions{Width: 2}), note("end"))
	},
	"subagents, settled": func(t testing.TB, w *world) *graph.Flow[state, update] {
		a := worker(t, w, "work", func(prompt string) string { return "job/" + prompt + "/" })
		m := a.Model.(*scripted.Model)
		inner := m.Answer
		m.Answer = func(req *model.Request) scripted.Turn {
			if req.Messages[0].Text() == "2" {
				return scripted.Fail(fmt.Errorf("no answer"))
			}
			return inner(req)
		}
		return oneWay(t, node.Subagents("work", []*agent.Agent{a}, jobs, texts, &node.SubagentsOptions{Settled: true}), note("end"))
	},
	"tool and func": func(t testing.TB, w *world) *graph.Flow[state, update] {
		set := tools(t, echo(t, "echo", tool.Idempotent, func(*tool.Call) error { w.did("tool call"); return nil }))
		f := node.Func("func", tool.Pure, func(s state) (words, error) { return words{A: s.Topic}, nil },
			func(_ context.Context, _ string, in words) (words, error) {
				w.did("func call")
				return words{B: in.A}, nil
			},
			func(s state, out words) (update, error) { return add(s, out.B) })
		return oneWay(t, node.Tool("tool", set, "echo", node.Args[state]{Paths: map[string]string{"a": "topic"}}, add), f)
	},
	"router": func(t testing.TB, w *world) *graph.Flow[state, update] {
		m := &scripted.Model{ID: "test/chooser"}
		m.Answer = func(req *model.Request) scripted.Turn {
			w.did(fmt.Sprintf("route choice-%d", len(req.Messages)/2+1))
			if len(req.Messages) == 1 {
				return scripted.Call("choose", `{"to":"nowhere"}`)
			}
			return scripted.Call("choose", `{"to":"b"}`)
		}
		return routed(t, node.Router("route", node.ByModel(m, "Choose.", topic), add, "a", "a", "b"))
	},
	"parallel": func(t testing.TB, w *world) *graph.Flow[state, update] {
		return oneWay(t, node.Parallel("both", []graph.Node[state, update]{effect(w, "both", "x", false), effect(w, "both", "y", true), effect(w, "both", "z", false)}, notes, &node.ParallelOptions{Settled: true}), note("end"))
	},
	"any": func(t testing.TB, w *world) *graph.Flow[state, update] {
		return oneWay(t, node.Parallel("both", []graph.Node[state, update]{effect(w, "both", "x", true), effect(w, "both", "y", false)}, notes, &node.ParallelOptions{Strategy: node.Any}), note("end"))
	},
	"conversation": func(t testing.TB, w *world) *graph.Flow[state, update] {
		m := &scripted.Model{ID: "test/summer"}
		m.Answer = func(req *model.Request) scripted.Turn {
			w.did(map[bool]string{true: "monitor summary", false: "clear summary"}[strings.Contains(req.Messages[0].Text(), "user: b")])
			return scripted.Say("sum")
		}
		return oneWay(t,
			node.Monitor("monitor", conversation(), node.MonitorOptions[state]{Window: 1, Keep: 1, Summary: m, Summarize: 0.1}),
			node.Clear("clear", conversation(), &node.ClearOptions{Summary: m}))
	},
	"wait": func(t testing.TB, _ *world) *graph.Flow[state, update] {
		now := time.Unix(0, 0)
		clock := agent.Clock{Now: func() time.Time { return now }, After: func(d time.Duration) <-chan time.Time {
			now = now.Add(d)
			c := make(chan time.Time, 1)
			c <- now
			return c
		}}
		return oneWay(t, node.Wait("wait", clock, func(state) (time.Duration, error) { return time.Hour, nil }, idle), note("end"))
	},
}

// routed is a graph in which a router chooses between a, b and the end.
func routed(t testing.TB, r graph.Node[state, update]) *graph.Flow[state, update] {
	t.Helper()
	g := graph.New("test", reduce)
	g.AddNode(r)
	g.AddNode(note("a"))
	g.AddNode(note("b"))
	g.Edge(graph.Start, r.Name)
	for _, name := range []string{r.Name, "a", "b"} {
		g.Edge(name, graph.End)
	}
	return compile(t, g)
}
