package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// choosy is a workflow with inputs of many kinds.
func choosy(t *testing.T) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Func("choosy", "Takes\x1b[1m\nmuch", func(_ context.Context, in map[string]any, _ *workflow.Exec) (map[string]any, error) {
		return in, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Aliases = []string{"picky"}
	w.Inputs = &jsonschema.Schema{
		Type: "object", PropertyOrder: []string{"topic", "depth", "mode", "tags"}, Required: []string{"topic"},
		Properties: map[string]*jsonschema.Schema{
			"topic": {Type: "string", Description: "what it is about"},
			"depth": {Type: "integer", Default: json.RawMessage("2")},
			"mode":  {Type: "string", Enum: []any{"fast", "deep"}},
			"tags":  {Type: "array"},
		},
	}
	return w
}

// The list says all that a model needs to call a workflow, and mistakes are told all at once,
// with what would be right, in the background too.
func TestWorkflowsAreTold(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), &setup{options: func(o *delegate.Options) { o.Workflows = []*workflow.Workflow{choosy(t)} }})
	wrong := `{"name":"choosy","inputs":{"topc":"x","depth":"3","mode":"slow"}}`
	list := [][2]string{
		{"run_workflow", `{"name":"  "}`},
		{"run_workflow", `{"name":"chosy"}`},
		{"run_workflow", wrong},
		{"run_workflow", strings.Replace(wrong, `{"name"`, `{"background":true,"name"`, 1)},
		{"run_workflow", `{"name":"choosy","inputs":[1]}`},
		{"run_workflow", `{"nmae":"choosy"}`},
		{"collect_workflow", `{}`},
		{"collect_workflow", `{"handle":"choosy-1"}`},
	}
	b.say = calls(list...)
	run := b.start(t, nil)
	b.ends(t, run, runlog.Completed)
	const told = "choosy: Takes much\n  topic (string, required): what it is about\n  depth (integer, default 2)\n  mode (string, optional, one of \"fast\", \"deep\")\n  tags (array, optional)\n"
	contains(t, b.last(),
		"The workflows:\n\n"+told, `did you mean "choosy"`, told, told, "is an array, want object", `did you mean "name"`, "Nothing was started", "nothing was started in the background")
	for i := 2; i < 4; i++ {
		for _, want := range []string{"topic is required", `unknown input "topc"`, `depth: is the string "3", want integer`, "mode: "} {
			if r := b.last()[i]; !strings.Contains(r, want) {
				t.Errorf("%q does not say %q", r, want)
			}
		}
	}
	b.replays(t, run.ID())
}

// Agents that work for the lead have no tools for workflows: they lie one level deep.
func TestOnlyTheLeadHasWorkflows(t *testing.T) {
	s := (&drafts{}).setup()
	check := s.crew
	s.crew = func(c *delegate.Crew) {
		check(c)
		m := c.Agent.Model
		crew, err := team.New(&team.Options{
			Agents: func(name string) (*agent.Agent, error) {
				return &agent.Agent{Name: name, Prompt: "You help.", Model: m}, nil
			},
			List: func() []team.Info { return []team.Info{{Name: "helper"}} },
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Agent.Actions = crew.Actions()
		c.Close = func() error { crew.Close(); return nil }
	}
	b := newBench(t, runlog.NewMemory(nil), s)
	b.say = calls([2]string{"task", `{"agent":"helper","prompt":"help"}`}, [2]string{"run_workflow", `{"name":"study","inputs":{"text":"x"},"background":true}`})
	b.ends(t, b.start(t, nil), runlog.Completed)
	seen := map[string][]string{}
	for _, r := range b.server.Requests() {
		for _, spec := range r.Tools {
			seen[r.System] = append(seen[r.System], spec.Name)
		}
		seen[r.System] = append(seen[r.System], "")
	}
	for _, name := range []string{delegate.RunTool, delegate.CollectTool, delegate.SaveTool} {
		for who, tools := range seen {
			if lead := strings.HasPrefix(who, "You lead."); slices.Contains(tools, name) != lead {
				t.Errorf("%s has %q, and %s is not right", who, tools, name)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("running were %v", seen)
	}
}

// What a lead starts in the background works without a log too.
func TestBackgroundWithoutALog(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), nil)
	b.say = calls(
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"y"},"background":true}`},
		[2]string{"collect_workflow", `{"handle":"slow-1"}`},
		[2]string{"collect_workflow", `{"handle":"slow-1","wait":false}`},
	)
	set := b.engine.Workflows()
	w, err := set.Find(delegate.Name)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(t.Context(), &workflow.Exec{Inputs: json.RawMessage(`{"prompt":"Go."}`), Graph: graph.RunOptions{Workflows: set.Nested}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(res.Output), "with all of it") {
		t.Errorf("%s", res.Output)
	}
	contains(t, b.last(), "slow-1", "slow-2", "xabc", "xabc")
}
