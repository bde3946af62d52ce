package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/definition"
)

// prepared is an agent that could work, before anything was started for it.
type prepared struct {
	model string // "provider/model"
	// parts are the digests of what makes the agent what it is: itself, the agents it may give work
	// to, and the tools and servers they may use, by what people call them. What comes with this
	// program is told by its version, and skills are read when they are wanted.
	parts map[string]string
}

// prepare finds the agent of a name and its model, the one asked for or its own, and starts nothing.
func (p *project) prepare(name, asked string) (*prepared, error) {
	d, err := p.Agent(name)
	if err != nil {
		return nil, err
	}
	model, err := p.modelOf(d, asked, "")
	if err != nil {
		return nil, err
	}
	m, err := p.models(model)
	if err != nil {
		return nil, err
	}
	parts, err := p.parts(d)
	return &prepared{m.Name(), parts}, err
}

// parts returns those of an agent.
func (p *project) parts(d *definition.Definition) (map[string]string, error) {
	u := &usage{agents: p.withSubagents(d)}
	parts := map[string]string{}
	for _, a := range u.agents {
		if a.Source.Scope != catalog.BuiltIn {
			parts["agent "+a.Name] = a.Digest
		}
	}
	return parts, p.toolParts(parts, u)
}

// toolParts adds the parts of the tools and servers that are used.
func (p *project) toolParts(parts map[string]string, u *usage) error {
	for _, f := range p.Scripts() {
		if slices.ContainsFunc(f.Names, u.tool) {
			parts["tool "+catalog.ScriptName(&f)] = f.Digest
		}
	}
	for _, s := range p.Servers() {
		if !u.server(s.Name) {
			continue
		}
		digest, err := s.Digest(p.mcpOptions())
		if err != nil {
			return err
		}
		parts["MCP server "+s.Name] = digest
	}
	return nil
}

// fingerprint returns a digest over texts.
func fingerprint(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// needs names the agents and tools of the steps for which a session is started.
type needs struct{ agents, tools []string }

// usage is what needs come to: the agents with those that they may start, and tools.
type usage struct {
	agents []*definition.Definition
	tools  []string
}

// usage returns the agents that needs name, with those that they give work to, and the tools. Nil needs everything: then it
// returns nil.
func (p *project) usage(n *needs) *usage {
	if n == nil {
		return nil
	}
	u := &usage{tools: n.tools}
	for _, name := range n.agents {
		if d, err := p.Agent(name); err == nil { // else whoever makes the agent says so
			u.agents = append(u.agents, p.withSubagents(d)...)
		}
	}
	return u
}

// withSubagents returns an agent and the sub-agents that it may start.
func (p *project) withSubagents(d *definition.Definition) []*definition.Definition {
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
