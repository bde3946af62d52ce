package project

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent/definition"
)

// With returns the project as another run sees it: with the options of a run that o has, such as its rules, its models and
// whom to notify. What was found in the folders is the same and is not read again, so the folders of o do not count.
func (p *Project) With(o *Options) (*Project, error) {
	c := *p
	c.opt = *o
	c.opt.Dir, c.opt.Home, c.opt.ConfigHome, c.opt.StateDir = p.opt.Dir, p.opt.Home, p.opt.ConfigHome, p.opt.StateDir
	c.opt.Workflows, c.opt.Taken = p.opt.Workflows, p.opt.Taken
	if err := c.opt.fill(); err != nil {
		return nil, err
	}
	if o.TrustProject && !p.opt.TrustProject {
		c.trust = p.trust.TrustAll()
		c.Catalog = p.Catalog.Trusting(c.trust)
	}
	return &c, nil
}

// Needs are what a session is started for: agents and tools of steps, by name.
type Needs struct{ Agents, Tools []string }

// usage is what needs come to: the agents with those that they may start, and tools.
type usage struct {
	agents []*definition.Definition
	tools  []string
}

// usage returns the agents that needs name, with those that they give work to, and the tools. Nil needs everything: then it
// returns nil.
func (p *Project) usage(n *Needs) *usage {
	if n == nil {
		return nil
	}
	u := &usage{tools: n.Tools}
	for _, name := range n.Agents {
		if d, err := p.Agent(name); err == nil { // else whoever makes the agent says so
			u.agents = append(u.agents, p.withSubagents(d)...)
		}
	}
	return u
}

// withSubagents returns an agent and those that it may start.
func (p *Project) withSubagents(d *definition.Definition) []*definition.Definition {
	agents := []*definition.Definition{d}
	if d.Kind != definition.Simple && (d.MayUse("task") || d.MayUse("task_batch")) {
		for _, other := range p.UsableAgents() {
			if d.MayStart(other.Name) {
				agents = append(agents, other)
			}
		}
	}
	return agents
}

// tool reports whether a tool is used.
func (u *usage) tool(name string) bool {
	return u == nil || slices.Contains(u.tools, name) || slices.ContainsFunc(u.agents, func(d *definition.Definition) bool { return d.MayUse(name) })
}

// server reports whether the tools of an MCP server may be used.
func (u *usage) server(name string) bool {
	if u == nil || slices.ContainsFunc(u.tools, func(t string) bool { return strings.HasPrefix(t, "mcp__"+name+"__") }) {
		return true
	}
	return slices.ContainsFunc(u.agents, func(d *definition.Definition) bool {
		return (d.MCPServers == nil || slices.Contains(d.MCPServers, name)) &&
			(d.Tools == nil || slices.ContainsFunc(d.Tools, func(t string) bool { return t == "*" || strings.HasPrefix(t, "mcp__") }))
	})
}

// file reports whether a file of tools is used. Which tools a module has is not known before it runs, but their names begin with
// that of the file.
func (u *usage) file(base string, names []string) bool {
	begins := func(t string) bool { return strings.HasPrefix(t, base+"_") }
	return u.tool(base) || slices.ContainsFunc(names, u.tool) || slices.ContainsFunc(u.tools, begins) ||
		slices.ContainsFunc(u.agents, func(d *definition.Definition) bool { return slices.ContainsFunc(d.Tools, begins) })
}
