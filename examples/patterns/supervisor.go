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

// supervisor is a lead that gives each part of a task to the worker for it, and answers at the end.
// The conversation keeps all messages of the workers, with their calls of tools, or only their answers.
func supervisor(m model.Model, tools *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Task string `json:"task" jsonschema:"what to find out"`
		Full bool   `json:"full,omitempty" jsonschema:"keep all messages of the workers, not only their answers"`
	}
	type state struct {
		Talk []model.Message
		Full bool
	}
	g := graph.New("supervisor", func(s, u state) state { return state{node.Messages(s.Talk, u.Talk), s.Full} })
	conv := node.Conversation[state, state]{
		Messages: func(s state) []model.Message { return s.Talk },
		Add:      func(_ state, more []model.Message) (state, error) { return state{Talk: more}, nil },
	}
	lead := &agent.Agent{Name: "lead", Model: m, Prompt: "Give each part of the task to the agent for it. Answer once you have all parts.",
		Actions: []*agent.Action{agent.Handoff("researcher", "It looks facts up."), agent.Handoff("calculator", "It computes.")}}
	g.AddNode(node.Chat("lead", lead, conv, func(s state) (string, error) {
		if s.Talk[len(s.Talk)-1].Role == model.Assistant { // a worker
			return "Hand over the next part, or answer.", nil
		}
		return "", nil
	}))
	g.Branch("lead", func(s state) string { return cmp.Or(agent.HandedTo(s.Talk), graph.End) }, "researcher", "calculator", graph.End)
	conv.Add = func(s state, more []model.Message) (state, error) {
		if !s.Full {
			more = more[len(more)-1:]
		}
		return state{Talk: more}, nil
	}
	researcher := &agent.Agent{Name: "researcher", Model: m, Prompt: "Look up what your part of the task needs.", Tools: tools}
	calculator := &agent.Agent{Name: "calculator", Model: m, Prompt: "Compute what your part of the task needs."}
	for _, worker := range []*agent.Agent{researcher, calculator} {
		g.AddNode(node.Chat(worker.Name, worker, conv, nil))
		g.Edge(worker.Name, "lead")
	}
	g.Edge(graph.Start, "lead")
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("supervisor", "Have the parts of a task done by agents under a lead", flow,
		func(in input) (state, error) { return state{[]model.Message{model.UserText(in.Task)}, in.Full}, nil },
		func(s state) (string, error) { return s.Talk[len(s.Talk)-1].Text(), nil })
}
