package node_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// An agent and a tool that were sent an argument have it in the prompt, and among the arguments.
func TestSent(t *testing.T) {
	with := func(s state, word string) (state, error) {
		s.Topic = word
		return s, nil
	}
	m := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		return scripted.Say("asked " + r.Messages[len(r.Messages)-1].Text())
	}}
	g := graph.New("test", reduce)
	g.AddNode(graph.Node[state, update]{Name: "begin", Run: func(context.Context, *graph.Task, state) (update, error) { return update{}, nil }})
	g.AddNode(node.Sent(node.Agent("agent", named("a", m), topic, said), with))
	g.AddNode(node.Sent(node.Tool("tool", tools(t, echo(t, "echo", tool.Pure, nil)), "echo", node.Args[state]{Paths: map[string]string{"a": "topic"}}, add), with))
	g.Edge(graph.Start, "begin")
	g.Fan("begin", func(state) []graph.Send {
		return []graph.Send{{To: "agent", Key: "1", Arg: "one"}, {To: "agent", Key: "2", Arg: "two"}, {To: "tool", Arg: "three"}}
	}, "agent", "tool")
	g.Edge("agent", graph.End)
	g.Edge("tool", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{Topic: "none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(got.Notes, " ")
	for _, want := range []string{"asked one", "asked two", "three"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in %s", want, all)
		}
	}
	if got.Topic != "none" {
		t.Errorf("the state of the graph has %q", got.Topic)
	}
	lone := oneWay(t, node.Sent(node.Agent("agent", named("a", m), topic, func(state, *agent.Outcome) (update, error) { return update{}, nil }), with))
	if _, err := lone.Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "was not sent anything") {
		t.Errorf("without an argument: %v", err)
	}
	if got := mistakes(node.Sent[state, update, string](node.Agent("agent", named("a", m), topic, said), nil)); !strings.Contains(got, "function for what is sent is nil") {
		t.Error(got)
	}
}

func TestFields(t *testing.T) {
	type inner struct {
		Question string `json:"question"`
		First    int    `json:"first"`
		Missing  string `json:"missing"`
	}
	s := state{Topic: "ants", Items: []int{7, 8}}
	got, err := node.Fields[state, inner](map[string]string{"question": "topic", "first": "items.0", "missing": "meta.nothing"})(s)
	if diff := cmp.Diff(inner{Question: "ants", First: 7}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := node.Fields[state, map[string]any](map[string]string{"q": "topic", "missing": "meta.nothing"})(s); err != nil || len(got) != 1 || got["q"] != "ants" {
		t.Errorf("%v %v", got, err)
	}
	for path, want := range map[string]string{"question": `cannot unmarshal`, "unknown": `unknown field "unknown"`, "nothing": `unknown field "nothing"`} {
		if _, err := node.Fields[state, inner](map[string]string{path: map[string]string{"nothing": "meta.x"}[path] + map[string]string{"question": "items", "unknown": "topic"}[path]})(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
