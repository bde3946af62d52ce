package cli

import (
	"context"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// talk is a workflow of an agent that looks around until it hears "stop", and then says what it has heard.
func talk() (*workflow.Workflow, error) {
	look, err := tool.New("look", "Look.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return "nothing", ctx.Err()
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewSet(look)
	if err != nil {
		return nil, err
	}
	m := &scripted.Model{ID: "test/talker", Answer: func(req *model.Request) scripted.Turn {
		var heard []string
		for _, m := range req.Messages[1:] {
			if m.Role == model.User {
				heard = append(heard, m.Text())
			}
		}
		if said := strings.Join(heard, ", "); strings.Contains(said, "stop") {
			return scripted.Say("heard: "+said).Using(10, 10)
		}
		return scripted.Call("look", `{}`).Using(10, 10)
	}}
	g := graph.New("talk", fold)
	g.AddNode(node{Name: "lead", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		a := &agent.Agent{Name: "talker", Model: m, Tools: tools, Limits: agent.Limits{Turns: 2000}}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "go", Stopped: t.Stopped()})
		if err != nil {
			return nil, err
		}
		return values{"said": out.Text}, nil
	}})
	g.Edge(graph.Start, "lead")
	g.Edge("lead", graph.End)
	f, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("talk", "Listen", f, func(struct{}) (values, error) { return values{}, nil }, func(s values) (string, error) { return s["said"], nil })
}
