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

// prepared is an agent with its model, before its tools and servers are started.
type prepared struct {
	model string // "provider/model"
	// parts maps the names of everything that defines the agent to digests: its own definition, its
	// sub-agents, and the tools and servers that they may use. Built-in parts are identified by the
	// program's version, and skills are read on use.
	parts map[string]string
}

// prepare finds an agent by name and its model: the requested model, or else the agent's own. It
// starts nothing.
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

// parts returns the parts of an agent.
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

// usage holds the agents of a needs value, the sub-agents that they may start, and the tools.
type usage struct {
	agents []*definition.Definition
	tools  []string
}

// usage returns the agents named by the needs, their sub-agents, and the tools. A nil needs value means everything, and
// usage returns nil.
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

// file reports whether a file of tools is used. The tools of a module are unknown until it runs, but their names begin with the
// name of its file.
func (u *usage) file(base string, names []string) bool {
	begins := func(t string) bool { return strings.HasPrefix(t, base+"_") }
	return u.tool(base) || slices.ContainsFunc(names, u.tool) || slices.ContainsFunc(u.tools, begins) ||
		slices.ContainsFunc(u.agents, func(d *definition.Definition) bool { return slices.ContainsFunc(d.Tools, begins) })
}
