package cli

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// spender is a model that looks twice before it says something. A turn takes 4,000 tokens.
func spender(priced bool) model.Model {
	m := &scripted.Model{ID: "test/spender", Answer: func(req *model.Request) scripted.Turn {
		if len(req.Messages) < 5 {
			return scripted.Call("look", `{}`).Using(3000, 1000)
		}
		return scripted.Say("all seen").Using(3000, 1000)
	}}
	if priced {
		m.Cost = &model.Price{In: 1, Out: 7}
	}
	return m
}

// spend is a workflow of agents side by side.
func spend() (*workflow.Workflow, error) {
	type in struct {
		Agents int  `json:"agents,omitempty"`
		Free   bool `json:"free,omitempty" jsonschema:"take a model without a price"`
	}
	look, err := tool.New("look", "Look.", func(context.Context, struct{}) (string, error) { return "seen", nil }, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewSet(look)
	if err != nil {
		return nil, err
	}
	g := graph.New("spend", fold)
	g.Add("plan", func(context.Context, values) (values, error) { return nil, nil })
	g.AddNode(node{Name: "work", Run: func(ctx context.Context, t *graph.Task, s values) (values, error) {
		a := &agent.Agent{Name: "spender", Model: spender(s["free"] == "false"), Tools: tools}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "go"})
		if err != nil {
			return nil, err
		}
		return values{t.Key(): out.Text}, nil
	}})
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func(s values) []graph.Send {
		n := 1
		_, _ = fmt.Sscan(s["agents"], &n)
		var out []graph.Send
		for i := range max(n, 1) {
			out = append(out, graph.Send{To: "work", Key: fmt.Sprintf("a%d", i)})
		}
		return out
	}, "work")
	g.Edge("work", graph.End)
	f, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("spend", "Spend tokens", f,
		func(i in) (values, error) {
			return values{"agents": fmt.Sprint(i.Agents), "free": fmt.Sprint(i.Free)}, nil
		},
		func(s values) (string, error) { return fmt.Sprintf("%s %s %s", s["a0"], s["a1"], s["a2"]), nil })
}
