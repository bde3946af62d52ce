package project

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/catalog"
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
	d, err := p.Agent(name)
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
	u := &usage{agents: p.withSubagents(d)}
	parts := map[string]string{}
	for _, a := range u.agents {
		if a.Source.Scope != catalog.BuiltIn {
			parts["agent "+a.Name] = a.Digest
		}
	}
	return parts, p.toolParts(parts, u)
}

// ToolParts are the digests of the tools of these names, and of the servers they are of, as those of
// Prepared.
func (p *Project) ToolParts(names []string) (map[string]string, error) {
	parts := map[string]string{}
	return parts, p.toolParts(parts, &usage{tools: names})
}

// toolParts adds the parts of the tools and servers that are used.
func (p *Project) toolParts(parts map[string]string, u *usage) error {
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

// fingerprint is a digest over texts.
func fingerprint(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
