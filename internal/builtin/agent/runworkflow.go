package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// The tools of the agent that leads a run. No other agent gets them, so that workflows lie
// one level deep, where people can see them.
const (
	RunTool     = "run_workflow"
	CollectTool = "collect_workflow"
	SaveTool    = "save_workflow"
)

// actions returns the tools for workflows, as far as there is something for them.
func (k *desk) actions(crew *Crew) []*agent.Action {
	var out []*agent.Action
	if len(k.flows.opt.Workflows) > 0 {
		out = append(out, k.runAction(), k.collectAction())
	}
	keep := k.flows.opt.SaveDraft
	if crew.SaveDraft != nil {
		keep = crew.SaveDraft
	}
	if keep != nil {
		out = append(out, k.saveAction(&drafting{keep, crew.Check}))
	}
	return out
}

// object returns the schema of a tool's arguments.
func object(order []string, properties map[string]*jsonschema.Schema, required ...string) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Properties: properties, PropertyOrder: order, Required: required,
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
}

func (k *desk) runAction() *agent.Action {
	return &agent.Action{
		Tool: &tool.Tool{
			Name: RunTool,
			Description: "Run a workflow and get its output: a fixed procedure with steps of its own, better than improvising one. " +
				"Without a name it lists the workflows there are, with their inputs. " +
				"It waits for the end; with background it returns at once with a handle, you go on with your work, and " + CollectTool + " gets the result.",
			Input: object([]string{"name", "inputs", "background"}, map[string]*jsonschema.Schema{
				"name":       {Type: "string", Description: "which workflow; leave it out for the list"},
				"inputs":     {Type: "object", Description: "its inputs by name"},
				"background": {Type: "boolean", Description: "start it and do not wait for it; default false"},
			}),
			Whole: true,
		},
		Run: k.runWorkflow,
	}
}

func (k *desk) runWorkflow(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
	var in struct {
		Name       string          `json:"name"`
		Inputs     json.RawMessage `json:"inputs"`
		Background bool            `json:"background"`
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return tool.Result{}, err
	}
	set := workflow.Set(k.flows.opt.Workflows)
	name := strings.TrimSpace(in.Name)
	if name == "" {
		return say(ctx, scope, "list", func() string { return listing(set) })
	}
	w, err := set.Find(name)
	if err != nil {
		return tool.Failed(fmt.Sprintf("%v\nThe workflows are: %s", err, strings.Join(names(set), ", "))), nil
	}
	nested, err := k.task.Workflow(w.Name)
	if err != nil {
		return tool.Result{}, err
	}
	settle := func() (json.RawMessage, error) { return nested.Settle(in.Inputs) }
	if in.Background {
		return k.launch(ctx, scope, w, settle, c)
	}
	e := &journal.Effect{Key: "inputs/" + c.Key, Kind: "inputs", Name: w.Name, Repeat: journal.RepeatByKey}
	settled, err := journal.Do(ctx, k.task.Scope().Reuse(), e, func(context.Context, string) (json.RawMessage, error) { return settle() })
	if err != nil {
		return mistaken(ctx, w, err)
	}
	out, err := nested.RunNested(ctx, settled, k.task.Nested(c.Key))
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Text: text(out)}, nil
}

// launch starts a workflow in the background.
func (k *desk) launch(ctx context.Context, scope *journal.Scope, w *workflow.Workflow, settle func() (json.RawMessage, error),
	c *tool.Call) (tool.Result, error) {
	call := scope.Path()
	if scope.Run() == "" {
		call = c.Key
	}
	b, full, err := k.start(ctx, w.Name, settle, call)
	switch {
	case full:
		return tool.Failed(fmt.Sprintf("%d workflows are in the background and not collected, which is as many as there may be; collect one with %s first",
			mostUncollected, CollectTool)), nil
	case err != nil:
		return mistaken(ctx, w, err)
	}
	return tool.Result{Text: fmt.Sprintf("%s is under way in the background; its handle is %s. Go on with what does not need its result, and "+
		"get that with %s.", w.Name, b.Handle, CollectTool)}, nil
}

// mistaken explains to a model the mistakes in inputs and the expected ones. It returns errors about the run unchanged.
func mistaken(ctx context.Context, w *workflow.Workflow, err error) (tool.Result, error) {
	if ctx.Err() != nil || agent.OfRun(err) {
		return tool.Result{}, err
	}
	return tool.Failed(err.Error() + "\n\n" + described(w)), nil
}

func (k *desk) collectAction() *agent.Action {
	return &agent.Action{
		Tool: &tool.Tool{
			Name: CollectTool, Effect: tool.Pure, Whole: true,
			Description: "Get the result of a workflow that " + RunTool +
				" has started in the background. It waits until there is one; with wait false it says at once how far it is. " +
				"A result can be had again. Without a handle it lists what is in the background.",
			Input: object([]string{"handle", "wait"}, map[string]*jsonschema.Schema{
				"handle": {Type: "string", Description: "which one, as " + RunTool + " has named it; leave it out for the list"},
				"wait":   {Type: "boolean", Description: "wait for the result; default true"},
			}),
		},
		Run: k.collectWorkflow,
	}
}

func (k *desk) collectWorkflow(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
	var in struct {
		Handle string `json:"handle"`
		Wait   *bool  `json:"wait"`
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return tool.Result{}, err
	}
	handle := strings.TrimSpace(in.Handle)
	if handle == "" {
		return say(ctx, scope, "list", func() string { return k.listing(ctx) })
	}
	b, handles := k.find(handle)
	if b == nil {
		there := "; nothing was started in the background"
		if len(handles) > 0 {
			there = cmp.Or(suggest.Hint(handle, handles), "; there are: "+strings.Join(handles, ", "))
		}
		return tool.Failed(fmt.Sprintf("no workflow in the background has the handle %q%s", handle, there)), nil
	}
	if in.Wait != nil && !*in.Wait {
		still, err := say(ctx, scope, "look", func() string { return k.still(ctx, b) })
		if err != nil || still.Text != "" {
			return still, err
		}
	}
	r, err := k.wait(b)
	if err != nil {
		return tool.Result{}, err
	}
	return b.told(&r), k.collect(ctx, b)
}

// say sends an agent a text that may differ when the task runs again: the text is recorded, and a repeated task gets the recorded one.
func say(ctx context.Context, scope *journal.Scope, key string, what func() string) (tool.Result, error) {
	e := &journal.Effect{Key: key, Kind: "note", Name: key}
	text, err := journal.Do(ctx, scope, e, func(context.Context, string) (string, error) { return what(), nil })
	return tool.Result{Text: text}, err
}

func names(set workflow.Set) []string {
	out := make([]string, len(set))
	for i, w := range set {
		out[i] = w.Name
	}
	return out
}

// text returns an output in the form that an agent reads: the text of the output if it has one.
func text(output json.RawMessage) string {
	var says struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(output, &says) == nil && says.Text != "" {
		return says.Text
	}
	var plain string
	if json.Unmarshal(output, &plain) == nil && plain != "" {
		return plain
	}
	return string(output)
}
