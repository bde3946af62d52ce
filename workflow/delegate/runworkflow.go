package delegate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// runWorkflow is the tool by which a lead agent runs workflows, within its own run.
func (d *delegate) runWorkflow(t *graph.Task) *agent.Action {
	return &agent.Action{
		Tool: &tool.Tool{
			Name: "run_workflow",
			Description: "Run a workflow to its end and get its output: a fixed procedure with steps of its own, better than improvising one. " +
				"Without a name it lists the workflows there are, with their inputs.",
			Input: &jsonschema.Schema{
				Type: "object",
				Properties: map[string]*jsonschema.Schema{
					"name":   {Type: "string", Description: "which workflow; leave it out for the list"},
					"inputs": {Type: "object", Description: "its inputs by name"},
				},
				PropertyOrder:        []string{"name", "inputs"},
				AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
			},
			Whole: true,
		},
		Run: func(ctx context.Context, _ *runlog.Scope, c *tool.Call) (tool.Result, error) {
			var in struct {
				Name   string          `json:"name"`
				Inputs json.RawMessage `json:"inputs"`
			}
			if err := json.Unmarshal(c.Args, &in); err != nil {
				return tool.Result{}, err
			}
			if strings.TrimSpace(in.Name) == "" {
				return tool.Result{Text: d.listing()}, nil
			}
			out, err := d.nested(ctx, t, in.Name, in.Inputs, c.Key)
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Text: text(out)}, nil
		},
	}
}

// nested runs a workflow within the task.
func (d *delegate) nested(ctx context.Context, t *graph.Task, name string, inputs json.RawMessage, key string) (json.RawMessage, error) {
	set := workflow.Set(d.opt.Workflows)
	if _, err := set.Find(name); err != nil {
		return nil, fmt.Errorf("no workflow %q%s; the workflows are: %s", name, suggest.Hint(name, names(set)), strings.Join(names(set), ", "))
	}
	w, err := t.Workflow(name)
	if err != nil {
		return nil, err
	}
	settled, err := graph.Do(ctx, t, "inputs/"+key, func(context.Context, string) (json.RawMessage, error) { return w.Settle(inputs) })
	if err != nil {
		return nil, err
	}
	return w.RunNested(ctx, settled, t.Nested(key))
}

func names(set workflow.Set) []string {
	out := make([]string, len(set))
	for i, w := range set {
		out[i] = w.Name
	}
	return out
}

// listing says what there is to run.
func (d *delegate) listing() string {
	var b strings.Builder
	b.WriteString("The workflows:\n")
	for _, w := range d.opt.Workflows {
		fmt.Fprintf(&b, "\n%s: %s\n", w.Name, w.Description)
		for _, in := range w.List() {
			need := "optional"
			if in.Required {
				need = "required"
			}
			fmt.Fprintf(&b, "  %s (%s, %s): %s\n", in.Name, in.Type, need, in.Description)
		}
	}
	return b.String()
}

// text is an output as an agent reads it: what it says, if it is one that says something.
func text(output json.RawMessage) string {
	var says struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(output, &says) == nil && says.Text != "" {
		return says.Text
	}
	return string(output)
}
