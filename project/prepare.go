package project

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/trust"
)

// Prepared is an agent that could work, before anything was started for it.
type Prepared struct {
	Agent *definition.Definition
	Model string // "provider/model"
	// Parts are the digests of what makes the agent what it is: itself, the agents it may give work
	// to, and the tools and servers they may use, by what people call them. What comes with this
	// program is told by its version, and skills are read when they are wanted.
	Parts map[string]string
}

// Prepare finds the agent of a name and its model, the one asked for or its own, and starts nothing.
func (p *Project) Prepare(name, asked string) (*Prepared, error) {
	d, err := p.Find(name)
	if err != nil {
		return nil, err
	}
	model, err := p.modelOf(d, asked, "")
	if err != nil {
		return nil, err
	}
	m, err := p.open(model)
	if err != nil {
		return nil, err
	}
	parts, err := p.parts(d)
	return &Prepared{Agent: d, Model: m.Name(), Parts: parts}, err
}

// parts are those of an agent.
func (p *Project) parts(d *definition.Definition) (map[string]string, error) {
	parts := map[string]string{}
	agents := []*definition.Definition{d}
	if d.Kind != definition.Simple && (d.MayUse("task") || d.MayUse("task_batch")) {
		for _, other := range p.usable() {
			if d.MayStart(other.Name) {
				agents = append(agents, other)
			}
		}
	}
	for _, a := range agents {
		if a.Source.Scope != definition.Builtin {
			parts["agent "+a.Name] = a.Digest
		}
	}
	may := func(tool string) bool {
		return slices.ContainsFunc(agents, func(a *definition.Definition) bool { return a.MayUse(tool) })
	}
	return parts, p.toolParts(parts, may, func(server string) bool {
		return slices.ContainsFunc(agents, func(a *definition.Definition) bool {
			return (a.MCPServers == nil || slices.Contains(a.MCPServers, server)) &&
				(a.Tools == nil || slices.ContainsFunc(a.Tools, func(t string) bool { return t == "*" || strings.HasPrefix(t, "mcp__") }))
		})
	})
}

// ToolParts are the digests of the tools of these names, and of the servers they are of, as those of
// Prepared.
func (p *Project) ToolParts(names []string) (map[string]string, error) {
	parts := map[string]string{}
	return parts, p.toolParts(parts, func(tool string) bool { return slices.Contains(names, tool) }, func(server string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "mcp__"+server+"__") })
	})
}

// toolParts adds the parts of the tools and servers that are used.
func (p *Project) toolParts(parts map[string]string, tool, server func(name string) bool) error {
	for i := range p.scripts {
		f := &p.scripts[i]
		if p.state(f.Scope.Name, trust.Tool, scriptName(f), f.Path) == Usable && slices.ContainsFunc(f.Names, tool) {
			parts["tool "+scriptName(f)] = f.Digest
		}
	}
	for _, s := range p.usableServers() {
		if !server(s.Name) {
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

// fingerprint is a digest over texts.
func fingerprint(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
