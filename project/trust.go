package project

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool/script"
	"github.com/superstep-dev/superstep/trust"
)

// A State says whether something may be used.
type State string

// The states.
const (
	Usable    State = "usable"      // built in, the user's own, or trusted
	Untrusted State = "not trusted" // of the project, and nobody has agreed to it
	Changed   State = "changed"     // it was trusted, and is another now
)

// Items are what of the project can be trusted, with what the user should see of each.
func (p *Project) Items() []trust.Status { return slices.Clone(p.items) }

// Trust agrees to items as they were found. Items of another project are refused.
func (p *Project) Trust(items []trust.Item) error {
	if p.folder == "" {
		return errors.New("there is no project here")
	}
	if err := p.trust.Trust(p.folder, items); err != nil {
		return err
	}
	for _, i := range items {
		if i.Kind == trust.MCP { // its tools are looked at anew
			if err := p.forgetPin(i.Name); err != nil {
				return err
			}
		}
	}
	return p.judge()
}

// Revoke takes back what was agreed to, everything of the project if no names are given.
func (p *Project) Revoke(names ...string) error {
	if p.folder == "" {
		return errors.New("there is no project here")
	}
	if _, err := p.trust.Revoke(p.folder, names); err != nil {
		return err
	}
	return p.judge()
}

// judge finds out what of the project may be used.
func (p *Project) judge() error {
	items := p.collect()
	p.items = nil
	clear(p.states)
	if len(items) == 0 {
		return nil
	}
	var err error
	if p.items, err = p.trust.Status(p.folder, items); err != nil {
		return err
	}
	for _, s := range p.items {
		p.states[itemKey{s.Item.Kind, s.Item.Name, s.Item.Path}] = s.State
	}
	return nil
}

// collect lists what of the project can be trusted.
func (p *Project) collect() []trust.Item {
	if p.folder == "" {
		return nil
	}
	var items []trust.Item
	if c := p.settings.project; c != nil {
		items = append(items, trust.Item{Kind: trust.Config, Name: "config", Path: p.rel(c.path), Digest: c.digest, Detail: c.detail()})
	}
	for i := range p.scripts {
		f := &p.scripts[i]
		if f.Scope.Name == projectScope {
			items = append(items, trust.Item{Kind: trust.Tool, Name: scriptName(f), Path: p.rel(f.Path), Digest: f.Digest, Detail: scriptDetail(f)})
		}
	}
	for _, s := range p.servers.Servers {
		if s.Source.Scope != projectScope || s.Disabled {
			continue
		}
		digest, err := s.Digest(p.mcpOptions())
		if err != nil {
			p.problems = append(p.problems, Problem{Kind: "tools", Where: place(s.Source.Path, s.Source.Line, 0), Text: err.Error()})
			continue
		}
		p.digests[s.Name] = digest
		items = append(items, trust.Item{Kind: trust.MCP, Name: s.Name, Path: p.rel(s.Source.Path), Digest: digest, Detail: strings.TrimRight(s.Review(), "\n")})
	}
	for _, d := range p.all.List() {
		if d.Source.Scope == definition.Project {
			items = append(items, trust.Item{Kind: trust.Agent, Name: d.Name, Path: p.rel(d.Source.Path), Digest: d.Digest, Detail: agentDetail(d)})
		}
	}
	for _, s := range p.skills.List() {
		if s.Source.Scope == projectScope {
			items = append(items, trust.Item{Kind: trust.Skill, Name: s.Name, Path: p.rel(s.Source.Path), Digest: s.Digest, Detail: s.Description})
		}
	}
	return items
}

// rel is a path in the project as it is recorded and shown.
func (p *Project) rel(path string) string {
	if rel, err := filepath.Rel(p.folder, path); err == nil {
		path = filepath.ToSlash(rel)
	}
	return clean.Text(path)
}

func scriptName(f *script.Found) string {
	name, _, _ := strings.Cut(filepath.Base(f.Path), ".")
	return name
}

func scriptDetail(f *script.Found) string {
	var b strings.Builder
	switch f.Kind {
	case script.Command:
		fmt.Fprintf(&b, "runs %s", strings.Join(f.Command, " "))
	default:
		fmt.Fprintf(&b, "runs %s", filepath.Base(f.Path))
		if n := len(f.Files) - 1; n > 0 {
			fmt.Fprintf(&b, " and %d files that it imports", n)
		}
	}
	if len(f.Names) > 0 {
		fmt.Fprintf(&b, "; tools: %s", strings.Join(f.Names, ", "))
	}
	if len(f.Env) > 0 {
		fmt.Fprintf(&b, "; sees the variables %s", strings.Join(f.Env, ", "))
	}
	return b.String()
}

func agentDetail(d *definition.Definition) string {
	tools := "all tools"
	if d.Tools != nil {
		tools = "tools: " + strings.Join(d.Tools, ", ")
	}
	if len(d.Allow) > 0 {
		tools += "; wants leave for " + strings.Join(d.Allow, ", ")
	}
	if d.Description == "" {
		return tools
	}
	return d.Description + " (" + tools + ")"
}

// state is that of an item of a scope.
func (p *Project) state(scope string, kind trust.Kind, name, path string) State {
	if scope != projectScope {
		return Usable
	}
	switch p.states[itemKey{kind, name, p.rel(path)}] {
	case trust.Trusted:
		return Usable
	case trust.Changed:
		return Changed
	}
	return Untrusted
}

func (p *Project) agentState(d *definition.Definition) State {
	return p.state(string(d.Source.Scope), trust.Agent, d.Name, d.Source.Path)
}
