package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// mapReduce splits a topic, has all parts written in parallel, and makes one text of them. A run
// that is resumed has only those parts written that are missing.
func mapReduce(m model.Model, tools *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Topic string `json:"topic" jsonschema:"what to write about"`
	}
	type state struct {
		Topic, Text  string
		Parts, Notes []string
	}
	type parts struct {
		Parts []string `json:"parts" jsonschema:"two to five parts of the topic, no two alike"`
	}
	g := graph.New("map-reduce", func(s, u state) state {
		return state{s.Topic, cmp.Or(u.Text, s.Text), slices.Concat(s.Parts, u.Parts), slices.Concat(s.Notes, u.Notes)}
	})
	g.AddNode(node.Typed("split", &agent.Agent{Name: "editor", Model: m, Prompt: "Split a topic into parts."},
		func(s state) (string, error) { return s.Topic, nil },
		func(_ state, p parts) (state, error) { return state{Parts: p.Parts}, nil }))
	writer := &agent.Agent{Name: "writer", Model: m, Prompt: "Write a sentence about a part of a topic.", Tools: tools}
	g.AddNode(graph.Node[state, state]{Name: "write", Kind: "agent", Agents: 1, Run: func(ctx context.Context, t *graph.Task, s state) (u state, err error) {
		var part string
		if err := t.Arg(&part); err != nil {
			return u, err
		}
		out, err := writer.RunAgain(ctx, t.Scope(), &agent.Work{Prompt: s.Topic + ": " + part})
		if err == nil {
			u.Notes = []string{out.Text}
		}
		return u, err
	}})
	g.AddNode(node.Agent("join", &agent.Agent{Name: "editor", Model: m, Prompt: "Make one text of notes."},
		func(s state) (string, error) { return s.Topic + "\n\n" + strings.Join(s.Notes, "\n"), nil },
		func(_ state, out *agent.Outcome) (state, error) { return state{Text: out.Text}, nil }))
	g.Edge(graph.Start, "split")
	g.Fan("split", node.Map("write", func(s state) []string { return s.Parts }, func(part string) string { return part }), "write")
	g.Edge("write", "join")
	g.Edge("join", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("map-reduce", "Write about the parts of a topic in parallel", flow,
		func(in input) (state, error) { return state{Topic: in.Topic}, nil },
		func(s state) (string, error) { return s.Text, nil })
}
