package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// checkTools is like tools, but also finds out which tools can be used: it runs the trusted modules to list their
// tools. The problems cover all tools in files, including problems found earlier.
func (p *project) checkTools(ctx context.Context) (_ []catalog.Item, problems []catalog.Problem, err error) {
	problems = p.ToolProblems()
	policy, err := p.policy()
	if err != nil {
		return nil, nil, err
	}
	in, err := p.openSandbox(policy, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	tools, told := p.load(ctx, in, nil)
	entries := p.tools()
	for i := range entries {
		if e := &entries[i]; e.Kind == string(script.Module) && e.State == catalog.Usable { // some of what a module exports is no tool
			names := slices.DeleteFunc(slices.Clone(e.Tools), func(name string) bool {
				return !slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Name == name })
			})
			if len(names) > 0 {
				e.Tools, e.Description = names, "tools: "+strings.Join(names, ", ")
			}
		}
	}
	for _, x := range told {
		problems = append(problems, catalog.Problem{Kind: "tools", File: x.File, Line: x.Line, Col: x.Column, Text: x.Text, Warning: x.Warning})
		for i := range entries {
			e := &entries[i]
			works := slices.ContainsFunc(tools, func(t *tool.Tool) bool { return slices.Contains(e.Tools, t.Name) })
			if x.Warning || e.Path != p.Shown(x.File) || slices.Contains(e.Problems, x.Text) {
				continue
			}
			if e.Problems = append(e.Problems, x.Text); !works {
				e.State = catalog.Invalid
			}
		}
	}
	return entries, problems, nil
}

// tools lists the tools that are known before anything runs. A module is one entry, and so is an
// MCP server.
func (p *project) tools() []catalog.Item {
	return append(p.builtinEntries(), p.Catalog.Tools(func(f script.Found) []script.Problem { return script.Check(f, p.scriptOptions(nil)) })...)
}

// builtinEntries returns the built-in tools, including disabled ones.
func (p *project) builtinEntries() []catalog.Item {
	described := map[string]string{
		"task":             "Has another agent do something, and gives its result",
		"task_batch":       "Has several agents work side by side, and gives their results in order",
		"ask_user":         askUser().Tool.Description,
		"run_workflow":     "Runs a workflow to its end, or in the background; for the agent that leads",
		"collect_workflow": "Gives the results of workflows in the background",
		"save_workflow":    "Proposes a recipe, which waits for approval",
	}
	does := map[string]string{"bash": "a shell", "web_search": "searches the web", "web_fetch": "fetches from the web", "skill": "reads skills"}
	tools, off := p.toolsHere()
	for _, t := range tools {
		described[t.Name] = t.Description
	}
	var out []catalog.Item
	for _, name := range toolnames.Builtin() {
		e := catalog.Item{Name: name, Kind: catalog.BuiltIn, Source: catalog.BuiltIn, State: catalog.Usable, Description: described[name]}
		if why := off[name]; why != "" {
			e.State, e.Description = catalog.Off, why
			if what := does[name]; what != "" {
				e.Description = what + "; " + why
			}
		}
		out = append(out, e)
	}
	return out
}

// toolsHere returns the tools that come with this program and can be used here, to look at, and why
// the others of them cannot. Neither includes the tools that only agents have.
func (p *project) toolsHere() (tools []*tool.Tool, off map[string]string) {
	why := map[string]string{
		"bash":       "turn it on with a rule of yours, such as --ask bash or --allow 'bash(go test *)'",
		"web_search": "set TAVILY_API_KEY, BRAVE_API_KEY or SEARXNG_URL",
		"web_fetch":  "it is off with --offline",
		"skill":      "there are none that may be used",
	}
	s := &Session{p: p}
	if p.dir != "" {
		if root, err := builtin.OpenRoot(p.dir, nil); err == nil {
			s.root = root
			defer root.Close()
		}
	}
	tools, err := p.builtins(s)
	if err != nil {
		tools = nil
	}
	off = map[string]string{}
	for _, name := range toolnames.Builtin() {
		if !slices.Contains(agentOnly(), name) && !slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Name == name }) {
			off[name] = cmp.Or(why[name], "needs a folder to work in")
		}
	}
	return tools, off
}
