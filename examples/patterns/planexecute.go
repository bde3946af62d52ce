package main

import (
	"errors"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// planAndExecute plans the steps of a task, does the first of them, and plans anew with its result, until there is an answer.
func planAndExecute(m model.Model, tools *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Task string `json:"task" jsonschema:"what to find out"`
	}
	type state struct {
		Task, Answer string
		Plan, Done   []string
	}
	type plan struct {
		Steps  []string `json:"steps" jsonschema:"what is left to do, in order"`
		Answer string   `json:"answer,omitempty" jsonschema:"the answer, if nothing is left to do"`
	}
	g := graph.New("plan-and-execute", func(s, u state) state {
		return state{s.Task, u.Answer, u.Plan, append(s.Done[:len(s.Done):len(s.Done)], u.Done...)}
	})
	soFar := func(s state) string { return "Task: " + s.Task + "\nDone so far:\n" + strings.Join(s.Done, "\n") }
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
	worker := &agent.Agent{Name: "worker", Model: m, Prompt: "Do one step of a task. Answer with its result.", Tools: tools}
	g.AddNode(node.Agent("execute", worker,
		func(s state) (string, error) { return soFar(s) + "\nYour step: " + s.Plan[0], nil },
		func(s state, out *agent.Outcome) (state, error) {
			return state{Done: []string{s.Plan[0] + ": " + out.Text}}, nil
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
