package team

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/tool"
)

// The tools of a lead.
const (
	taskTool  = "task"
	batchTool = "task_batch"
)

// leads reports whether a tool is for the lead alone: a workflow within a task within a workflow would
// have no end that anybody could see.
func leads(name string) bool {
	switch name {
	case "run_workflow", "collect_workflow", "save_workflow":
		return true
	}
	return false
}

// Actions returns the tools with which an agent delegates work: task for one job, task_batch for
// several at once. An agent of the team that has these tools gets its own copies.
func (t *Team) Actions() []*agent.Action { return t.actions(nil) }

// actions returns the tools of the agent that has the seat.
func (t *Team) actions(s *seat) []*agent.Action {
	text := func(description string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Description: description}
	}
	job := func() *jsonschema.Schema {
		return &jsonschema.Schema{
			Type: "object",
			Properties: map[string]*jsonschema.Schema{
				"agent":       text("which agent"),
				"prompt":      text("what it is to do, with all that it needs to know for it: it sees nothing else of this conversation"),
				"description": text("the same in a few words, for people"),
			},
			PropertyOrder:        []string{"agent", "prompt", "description"},
			AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		}
	}
	one := job()
	one.Required = []string{"agent", "prompt"}
	return []*agent.Action{
		{
			Tool: &tool.Tool{
				Name: taskTool, Input: one, Effect: tool.Pure, Whole: true,
				Description: "Have another agent do a task, and get what it has to say of it. It works by itself and cannot ask you anything." + t.listing(),
			},
			Scoped: true,
			Run: func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
				return t.runTask(ctx, scope, s, c)
			},
		},
		{
			Tool: &tool.Tool{
				Name: batchTool, Effect: tool.Pure, Whole: true,
				Description: fmt.Sprintf("Have other agents do up to %d tasks side by side, and get the results of all of them, in order. Use it for "+
					"tasks that do not need each other's results.", t.opt.BatchCap) + t.listing(),
				Input: &jsonschema.Schema{
					Type: "object", Required: []string{"tasks"},
					Properties:           map[string]*jsonschema.Schema{"tasks": {Type: "array", Items: job(), Description: "each with agent and prompt"}},
					AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
				},
			},
			Scoped: true,
			Run: func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
				return t.runBatch(ctx, scope, s, c)
			},
		},
	}
}

func (t *Team) listing() string {
	var b strings.Builder
	b.WriteString(" The agents:")
	for _, i := range t.opt.List() {
		fmt.Fprintf(&b, "\n- %s: %s", i.Name, strings.Join(strings.Fields(i.Description), " "))
	}
	return b.String()
}

// asked is a task as a model asks for it.
type asked struct {
	Agent       string `json:"agent"`
	Prompt      string `json:"prompt"`
	Description string `json:"description"`
}

func (a *asked) job(c *tool.Call) Job {
	j := Job{Agent: a.Agent, Prompt: a.Prompt, Stopped: c.Stopped}
	if c.State != nil {
		j.State = func() ([]byte, error) { return c.State() }
	}
	return j
}

func (t *Team) runTask(ctx context.Context, scope *journal.Scope, s *seat, c *tool.Call) (tool.Result, error) {
	var in asked
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return tool.Result{}, err
	}
	results, err := t.spawnAll(ctx, scope, s, []Job{in.job(c)})
	if err != nil {
		return tool.Result{}, err
	}
	r := &results[0]
	if r.Success {
		return tool.Result{Text: r.Output}, nil
	}
	return tool.Result{Text: r.told(), Error: true}, nil
}

func (t *Team) runBatch(ctx context.Context, scope *journal.Scope, s *seat, c *tool.Call) (tool.Result, error) {
	var in struct {
		Tasks []asked `json:"tasks"`
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return tool.Result{}, err
	}
	switch n := len(in.Tasks); {
	case n == 0:
		return tool.Failed("empty task list"), nil
	case n > t.opt.BatchCap:
		return tool.Failed(fmt.Sprintf("%d tasks are too many for one call, which takes %d; do the rest in another", n, t.opt.BatchCap)), nil
	}
	jobs := make([]Job, len(in.Tasks))
	for i := range in.Tasks {
		jobs[i] = in.Tasks[i].job(c)
		jobs[i].ID = fmt.Sprint(i + 1)
	}
	results, err := t.spawnAll(ctx, scope, s, jobs)
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	for i := range results {
		r := &results[i]
		name := r.Agent
		if d := in.Tasks[i].Description; d != "" {
			name += " (" + d + ")"
		}
		fmt.Fprintf(&b, "%d/%d %s: %s\n\n", i+1, len(results), name, r.told())
	}
	return tool.Result{Text: strings.TrimSpace(b.String()), Error: !slices.ContainsFunc(results, func(r Result) bool { return r.Success })}, nil
}

// told returns a result as it is shown to a lead.
func (r *Result) told() string {
	switch {
	case r.Success:
		return r.Output
	case r.Output == "":
		return "failed: " + r.Error
	}
	return "failed: " + r.Error + "\nWhat it said last: " + r.Output
}

// confine adds to an agent its own tools for starting sub-agents, unless it is already too deep for them, and removes the tools that agents of a team
// must not have.
func (t *Team) confine(def *agent.Agent, s *seat) (*agent.Agent, error) {
	a := *def
	a.Actions = nil
	own := map[string]*agent.Action{}
	if s.depth < t.opt.Depth {
		for _, o := range t.actions(s) {
			own[o.Tool.Name] = o
		}
	}
	for _, o := range def.Actions {
		if o == nil || o.Tool == nil {
			continue
		}
		switch name := o.Tool.Name; {
		case leads(name):
		case name == taskTool, name == batchTool:
			if mine := own[o.Tool.Name]; mine != nil {
				a.Actions = append(a.Actions, mine)
			}
		default:
			a.Actions = append(a.Actions, o)
		}
	}
	var err error
	names := slices.DeleteFunc(def.Tools.Names(), func(n string) bool { return leads(n) || n == taskTool || n == batchTool })
	if len(names) < len(def.Tools.Names()) {
		a.Tools, err = def.Tools.Select(names...)
	}
	return &a, err
}
