package main

import (
	"cmp"
	"context"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// swarm is a conversation of the user with agents that hand it to each other. The run asks for each
// message of the user, which goes to the agent that spoke last. "bye" ends it.
func swarm(m model.Model, tools *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Message string `json:"message" jsonschema:"what you want to know"`
	}
	type state struct {
		Talk   []model.Message
		Active string // the agent that spoke last
	}
	g := graph.New("swarm", func(s, u state) state {
		return state{node.Messages(s.Talk, u.Talk), cmp.Or(u.Active, s.Active)}
	})
	next := func(s state) string { return cmp.Or(agent.HandedTo(s.Talk), "user") }
	agents := []*agent.Agent{{
		Name: "sales", Model: m, Tools: tools, Prompt: "You sell lamps.",
		Actions: []*agent.Action{agent.Handoff("repair", "It helps with lamps that do not work.")},
	}, {
		Name: "repair", Model: m, Tools: tools, Prompt: "You help with lamps that do not work.",
		Actions: []*agent.Action{agent.Handoff("sales", "It knows prices.")},
	}}
	for _, a := range agents {
		g.AddNode(node.Chat(a.Name, a, node.Conversation[state, state]{
			Messages: func(s state) []model.Message { return s.Talk },
			Add:      func(_ state, more []model.Message) (state, error) { return state{more, a.Name}, nil },
		}, nil))
		g.Branch(a.Name, next, "sales", "repair", "user")
	}
	last := func(s state) string { return s.Talk[len(s.Talk)-1].Text() }
	g.Add("user", func(ctx context.Context, s state) (state, error) {
		message, err := graph.Ask[string](ctx, graph.Question{Text: last(s)})
		return state{Talk: []model.Message{model.UserText(message)}}, err
	})
	g.Branch("user", func(s state) string {
		if last(s) == "bye" {
			return graph.End
		}
		return s.Active
	}, "sales", "repair", graph.End)
	g.Edge(graph.Start, "sales")
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("swarm", "Talk to agents that hand the conversation to each other", flow,
		func(in input) (state, error) { return state{Talk: []model.Message{model.UserText(in.Message)}}, nil },
		func(s state) (string, error) { return s.Active, nil })
}
