package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// eager returns a model that wants to put two things, and then says what became of that.
func eager() model.Model {
	return &scripted.Model{ID: "test/eager", Answer: func(r *model.Request) scripted.Turn {
		var results []string
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Kind == model.Result {
					results = append(results, p.Text)
				}
			}
		}
		if len(results) > 0 {
			return scripted.Say(strings.Join(results, " | "))
		}
		return scripted.Call("put", `{"what":"a"}`).And(scripted.Call("put", `{"what":"b"}`))
	}}
}

// needsLeave has a person asked about every call.
type needsLeave struct{}

func (needsLeave) Check(_ *tool.Tool, c *tool.Call) tool.Verdict {
	return tool.Verdict{Decision: tool.Ask, Subject: "put " + string(c.Args), Reason: "no rule allows it", Always: "put(" + string(c.Args[9:10]) + ")"}
}

// leaving is a workflow whose agent asks for leave twice in one turn.
func leaving() (*workflow.Workflow, error) {
	put := &tool.Tool{Name: "put", Input: &jsonschema.Schema{Type: "object"}, Run: func(_ context.Context, c *tool.Call) (string, error) {
		var in struct{ What string }
		err := json.Unmarshal(c.Args, &in)
		return "put " + in.What, err
	}}
	tools, err := tool.NewSet(put)
	if err != nil {
		return nil, err
	}
	return simple("leave", "Asks for leave", node{Name: "work", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		a := &agent.Agent{Name: "tester", Model: eager(), Tools: tools, Gate: needsLeave{}, Headless: host.ResourcesOf(t).Headless(), Remember: func(string) error { return nil }}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "put"})
		if err != nil {
			return nil, err
		}
		return values{"out": out.Text}, nil
	}})
}
