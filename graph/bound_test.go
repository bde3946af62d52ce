package graph_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
)

func TestBound(t *testing.T) {
	agentNode := func(name string, most int) graph.Node[state, update] {
		return graph.Node[state, update]{Name: name, Agents: 1, Run: broken, Most: most}
	}
	none := func(state) []graph.Send { return nil }
	end := func(state) string { return graph.End }
	cases := map[string]struct {
		build func(g *graph.Graph[state, update])
		tasks int
		known bool
	}{
		"a chain": {func(g *graph.Graph[state, update]) {
			g.AddNode(agentNode("a", 0))
			g.AddNode(agentNode("b", 0))
			edges(g, "@start a", "a b", "b @end")
		}, 2, true},
		"a bounded fan, and what follows each": {func(g *graph.Graph[state, update]) {
			g.Add("s", visit("s"))
			g.AddNode(agentNode("w", 7))
			g.AddNode(agentNode("z", 0))
			edges(g, "@start s", "w z", "z @end")
			g.Fan("s", none, "w")
		}, 14, true},
		"a fan without a bound": {func(g *graph.Graph[state, update]) {
			g.Add("s", visit("s"))
			g.AddNode(agentNode("w", 0))
			edges(g, "@start s", "w @end")
			g.Fan("s", none, "w")
		}, 0, false},
		"a cycle": {func(g *graph.Graph[state, update]) {
			g.AddNode(agentNode("a", 0))
			edges(g, "@start a")
			g.Branch("a", end, "a", graph.End)
		}, 0, false},
		"a cycle of other nodes": {func(g *graph.Graph[state, update]) {
			g.AddNode(agentNode("a", 0))
			g.Add("b", visit("b"))
			edges(g, "@start a", "a b")
			g.Branch("b", end, "b", graph.End)
		}, 1, true},
	}
	for name, c := range cases {
		g := graph.New("bound", reduce)
		c.build(g)
		inner := compile(t, g)
		if tasks, known := inner.Shape().Agents(); tasks != c.tasks || known != c.known {
			t.Errorf("%s: got %d %v", name, tasks, known)
		}
		outer := graph.New("outer", reduce)
		outer.AddNode(graph.Sub("x", inner, func(s state) (state, error) { return s, nil }, func(state) (update, error) { return update{}, nil }))
		edges(outer, "@start x", "x @end")
		if tasks, known := compile(t, outer).Shape().Agents(); tasks != c.tasks || known != c.known {
			t.Errorf("%s, within another: got %d %v", name, tasks, known)
		}
	}
}

func TestFanIsBounded(t *testing.T) {
	g := graph.New("fan", reduce)
	g.Add("s", visit("s"))
	g.AddNode(graph.Node[state, update]{Name: "w", Agents: 2, Most: 3, Run: broken, OnError: graph.Skip})
	edges(g, "@start s", "w @end")
	width := 4
	g.Fan("s", func(state) (out []graph.Send) {
		for i := range width {
			out = append(out, graph.Send{To: "w", Key: fmt.Sprint(i)})
		}
		return out
	}, "w")
	flow := compile(t, g)
	if _, err := flow.Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "4 tasks of w, which may have 3") {
		t.Errorf("got %v", err)
	}
	width = 3
	refused := errors.New("too many")
	admit := func(_ string, agents int) error {
		if agents == 6 {
			return refused
		}
		return nil
	}
	if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Admit: admit}); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if _, err := flow.Run(t.Context(), state{}, nil); err != nil {
		t.Error(err)
	}
}
