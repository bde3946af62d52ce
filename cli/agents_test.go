package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// leading is a workflow whose agent has a sub-agent work that never ends by itself, and says what it gave.
func leading() (*workflow.Workflow, error) {
	wait, err := tool.New("wait", "Wait.", func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewSet(wait)
	if err != nil {
		return nil, err
	}
	crew, err := team.New(&team.Options{
		Agents: func(name string) (*agent.Agent, error) {
			return &agent.Agent{Name: name, Tools: tools, Model: &scripted.Model{ID: "test/stuck", Answer: func(*model.Request) scripted.Turn { return scripted.Call("wait", `{}`) }}}, nil
		},
		List: func() []team.Info { return []team.Info{{Name: "helper", Description: "Waits."}} },
	})
	if err != nil {
		return nil, err
	}
	lead := &scripted.Model{ID: "test/lead", Answer: func(req *model.Request) scripted.Turn {
		if last := req.Messages[len(req.Messages)-1].Parts[0]; last.Kind == model.Result {
			return scripted.Say("the helper gave: " + last.Text)
		}
		return scripted.Call("task", `{"agent":"helper","prompt":"wait"}`)
	}}
	return simple("lead", "Has a sub-agent work", node{Name: "work", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		a := &agent.Agent{Name: "lead", Model: lead, Actions: crew.Actions()}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "go"})
		if err != nil {
			return nil, err
		}
		return values{"out": out.Text}, nil
	}})
}

// crowd is a workflow of eight agents side by side, which says how many were at their model at once.
func crowd() (*workflow.Workflow, error) {
	var now, peak atomic.Int64
	m := &scripted.Model{ID: "test/crowd", Answer: func(*model.Request) scripted.Turn {
		n := now.Add(1)
		defer now.Add(-1)
		for was := peak.Load(); n > was && !peak.CompareAndSwap(was, n); was = peak.Load() {
		}
		time.Sleep(50 * time.Millisecond)
		return scripted.Say("done")
	}}
	g := graph.New("crowd", fold)
	g.Add("plan", func(context.Context, values) (values, error) { return nil, nil })
	g.AddNode(node{Name: "work", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		_, err := (&agent.Agent{Name: "one", Model: m}).Run(ctx, t.Scope(), &agent.Work{Prompt: "go"})
		return values{}, err
	}})
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func(values) (out []graph.Send) {
		for i := range 8 {
			out = append(out, graph.Send{To: "work", Key: fmt.Sprint(i)})
		}
		return out
	}, "work")
	g.Edge("work", graph.End)
	f, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("crowd", "Eight agents", f,
		func(struct{}) (values, error) { return values{}, nil },
		func(values) (string, error) { return fmt.Sprintf("%d at once", peak.Load()), nil })
}
