package host

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/workflow"
)

// check returns the mistakes of a recipe, checked against all agents, tools and workflows, whether
// usable or not. Tools of servers that are not connected are not known, and taken to be there. It
// checks the arguments of built-in tools. For a built-in tool that is turned off it returns a
// warning.
func (p *project) check(r *recipe.Recipe) recipe.Problems { return recipe.Check(r, p.world()) }

// checkText is check for the text of a file, which may have other mistakes.
func (p *project) checkText(file string, text []byte) recipe.Problems {
	return recipe.CheckText(file, text, p.world())
}

// agentOnly returns the tools that work for agents only.
func agentOnly() []string {
	return []string{"task", "task_batch", "ask_user", "run_workflow", "collect_workflow", "save_workflow"}
}

func (p *project) world() *recipe.World {
	w := &recipe.World{
		AgentsFrom: "the folders .superstep/agents, .claude/agents, .opencode/agents and .github/agents, your own, and those built in",
		ToolsFrom:  "the folder .superstep/tools, your own, MCP servers, and those built in",
		Workflows:  map[string]*recipe.Callee{},
		ToolsBad:   map[string]string{},
		ToolInputs: map[string]*jsonschema.Schema{},
	}
	tools, off := p.toolsHere()
	for _, t := range tools {
		w.ToolInputs[t.Name] = t.Input
	}
	w.ToolsOff = off
	for _, a := range p.Agents() {
		w.Agents = append(append(w.Agents, a.Name), a.Aliases...)
	}
	for _, name := range toolnames.Builtin() {
		if !slices.Contains(agentOnly(), name) {
			w.Tools = append(w.Tools, name)
		}
	}
	w.Tools = append(w.Tools, p.ToolNames()...)
	for _, x := range p.ToolProblems() {
		if file := filepath.Base(x.File); x.File != "" && !x.Warning {
			name, _, _ := strings.Cut(file, ".")
			w.ToolsBad[name] = file + ": " + x.Text
		}
	}
	for _, flow := range p.workflows {
		w.Workflows[flow.Name] = &recipe.Callee{Name: flow.Name, Inputs: inputsOf(flow)}
	}
	maps.Copy(w.Workflows, p.Callees())
	return w
}

// inputsOf returns the inputs of a workflow that is no recipe.
func inputsOf(w *workflow.Workflow) []recipe.Input {
	var out []recipe.Input
	for _, in := range w.List() {
		kind := in.Type
		switch kind {
		case "string", "integer", "number", "boolean":
		case "array":
			kind = "list"
		default:
			kind = "object"
		}
		out = append(out, recipe.Input{Name: in.Name, Description: in.Description, Type: kind, Required: in.Required, Default: in.Default})
	}
	return out
}
