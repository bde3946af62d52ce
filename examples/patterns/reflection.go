package main

import (
	"cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// reflection is a writer whose drafts a critic judges, until one is accepted or three were written.
// The writer sees the whole conversation, the critic only the draft.
func reflection(m model.Model, _ *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Task string `json:"task" jsonschema:"what to write"`
	}
	type state struct {
		Talk     []model.Message
		Draft    string
		Drafts   int
		Accepted bool
	}
	type verdict struct {
		Accepted bool   `json:"accepted"`
		Advice   string `json:"advice" jsonschema:"what to change"`
	}
	g := graph.New("reflection", func(s, u state) state {
		return state{node.Messages(s.Talk, u.Talk), cmp.Or(u.Draft, s.Draft), s.Drafts + u.Drafts, u.Accepted}
	})
	writer := &agent.Agent{Name: "writer", Model: m, Prompt: "Write what the user wants. Answer with the text alone."}
	g.AddNode(node.Chat("write", writer, node.Conversation[state, state]{
		Messages: func(s state) []model.Message { return s.Talk },
		Add: func(_ state, more []model.Message) (state, error) {
			return state{Talk: more, Draft: more[len(more)-1].Text(), Drafts: 1}, nil
		},
	}, nil))
	critic := &agent.Agent{Name: "critic", Model: m, Prompt: "Judge a text. Accept it if there is nothing to improve."}
	g.AddNode(node.Typed("judge", critic,
		func(s state) (string, error) { return s.Talk[0].Text() + "\n\nThe text:\n\n" + s.Draft, nil },
		func(_ state, v verdict) (state, error) {
			return state{Talk: []model.Message{model.UserText(v.Advice)}, Accepted: v.Accepted}, nil
		}))
	g.Edge(graph.Start, "write")
	g.Edge("write", "judge")
	g.Branch("judge", func(s state) string {
		if s.Accepted || s.Drafts == 3 {
			return graph.End
		}
		return "write"
	}, "write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("reflection", "Write a text, and improve it until a critic accepts it", flow,
		func(in input) (state, error) { return state{Talk: []model.Message{model.UserText(in.Task)}}, nil },
		func(s state) (string, error) { return s.Draft, nil })
}
