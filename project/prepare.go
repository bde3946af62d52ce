package project

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/tool/script"
	"github.com/superstep-dev/superstep/trust"
)

// Prepared is an agent that could work, before anything was started for it.
type Prepared struct {
	Agent  *definition.Definition
	Model  string // "provider/model"
	Digest string // of everything that makes the agent what it is
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
	return &Prepared{Agent: d, Model: m.Name(), Digest: p.fingerprint(d)}, nil
}

// fingerprint is a digest over an agent, those it may give work to, and the tools and skills of
// files. What comes with this program is told by its version.
func (p *Project) fingerprint(d *definition.Definition) string {
	texts := []string{d.Name, d.Digest}
	for _, other := range p.usable() {
		if other.Source.Scope != definition.Builtin {
			texts = append(texts, "agent", other.Name, other.Digest)
		}
	}
	var rest []string
	for i := range p.scripts {
		f := &p.scripts[i]
		if p.state(f.Scope.Name, trust.Tool, scriptName(f), f.Path) == Usable {
			rest = append(rest, strings.Join(slices.Concat([]string{"tool"}, f.Names, []string{f.Digest}), " "))
		}
	}
	for _, s := range p.skills.List() {
		if p.state(string(s.Source.Scope), trust.Skill, s.Name, s.Source.Path) == Usable {
			rest = append(rest, "skill "+s.Name+" "+s.Digest)
		}
	}
	for _, s := range p.servers.Servers {
		if !s.Disabled && p.state(s.Source.Scope, trust.MCP, s.Name, s.Source.Path) == Usable {
			rest = append(rest, "mcp "+s.Name+" "+s.CommandLine())
		}
	}
	slices.Sort(rest)
	return fingerprint(append(texts, rest...)...)
}

var _ = script.Module
