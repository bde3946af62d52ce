package main

import (
	"errors"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// planAndExecute plans the steps of a task, has the first of them done, and plans anew with its
// result, until there is an answer.
func planAndExecute(m model.Model, tools *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Task string `json:"task" jsonschema:"what to find out"`
	}
	type state struct {
		Task, Answer, Done string
		Plan               []string
	}
	type plan struct {
		Steps  []string `json:"steps" jsonschema:"what is left to do, in order"`
		Answer string   `json:"answer,omitempty" jsonschema:"the answer, if nothing is left to do"`
	}
	g := graph.New("plan-and-execute", func(s, u state) state {
		return state{s.Task, u.Answer, s.Done + u.Done, u.Plan}
	})
	soFar := func(s state) string { return "Task: " + s.Task + "\nDone so far:\n" + s.Done }
	planner := &agent.Agent{Name: "planner", Model: m, Prompt: "Plan the steps that are left of a task, or answer."}
	g.AddNode(node.Typed("plan", planner,
		func(s state) (string, error) { return soFar(s), nil },
		func(_ state, p plan) (state, error) { return state{Plan: p.Steps, Answer: p.Answer}, nil },
		func(p plan) error {
			if len(p.Steps) == 0 && p.Answer == "" {
				return errors.New("there are neither steps nor an answer")
			}
			return nil
		}))
	g.AddNode(node.Agent("execute", &agent.Agent{Name: "worker", Model: m, Prompt: "Do one step of a task. Answer with its result.", Tools: tools},
		func(s state) (string, error) { return soFar(s) + "Your step: " + s.Plan[0], nil },
		func(s state, out *agent.Outcome) (state, error) {
			return state{Done: s.Plan[0] + ": " + out.Text + "\n"}, nil
		}))
	g.Edge(graph.Start, "plan")
	g.Branch("plan", func(s state) string {
		if s.Answer != "" {
			return graph.End
		}
		return "execute"
	}, "execute", graph.End)
	g.Edge("execute", "plan")
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("plan-and-execute", "Plan the steps of a task, and do them", flow,
		func(in input) (state, error) { return state{Task: in.Task}, nil },
		func(s state) (string, error) { return s.Answer, nil })
}
