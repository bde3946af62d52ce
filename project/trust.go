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
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

// A State says whether something may be used.
type State string

// The states.
const (
	Usable    State = "usable"      // built in, the user's own, or trusted
	Untrusted State = "not trusted" // of the project, and nobody has agreed to it
	Changed   State = "changed"     // it was trusted, and is another now
	Invalid   State = "invalid"     // a recipe with mistakes
	Draft     State = "draft"       // a recipe that waits for approval
)

// Items are what of the project can be trusted, with what the user should see of each. The tools of
// MCP servers, also of the user's own, are among them where the last connection saw others than were
// agreed to; to trust such an item agrees to the list that was seen and to no other.
func (p *Project) Items() []trust.Status { return slices.Clone(p.items) }

// Trust agrees to items as they were found. Items of another project are refused.
func (p *Project) Trust(items []trust.Item) error {
	if p.folder == "" {
		return errors.New("there is no project here")
	}
	if err := p.forgetPins(items); err != nil {
		return err
	}
	if err := p.trust.Trust(p.folder, items); err != nil {
		return err
	}
	return p.judge()
}

// Revoke takes back what was agreed to, everything of the project if no names are given. The tools
// that the user's own MCP servers offered stay those that were agreed to: without them whatever such
// a server shows next would be.
func (p *Project) Revoke(names ...string) error {
	if p.folder == "" {
		return errors.New("there is no project here")
	}
	if len(names) == 0 {
		var err error
		if names, err = p.revocable(); err != nil {
			return err
		}
	}
	if len(names) > 0 {
		if _, err := p.trust.Revoke(p.folder, names); err != nil {
			return err
		}
	}
	return p.judge()
}

// revocable are the names of all that is of the project.
func (p *Project) revocable() ([]string, error) {
	own := map[string]bool{}
	for _, s := range p.servers.Servers {
		own[pinName(s.Name)] = s.Source.Scope != projectScope
	}
	known, err := p.trust.Projects()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range known {
		for _, i := range k.Items {
			if k.Path == p.folder && (i.Kind != trust.MCPTools || !own[i.Name]) {
				names = append(names, i.Name)
			}
		}
	}
	return names, nil
}

// judge finds out what of the project may be used.
func (p *Project) judge() error {
	items, contents := p.collect()
	p.items = nil
	clear(p.states)
	if p.folder == "" {
		return nil
	}
	var err error
	if p.items, err = p.trust.Status(p.folder, items); err != nil {
		return err
	}
	for i := range p.items {
		s := &p.items[i]
		p.states[itemKey{s.Item.Kind, s.Item.Name, s.Item.Path}] = s.State
		if s.State != trust.Trusted { // that of others is not shown
			s.Item.Content = trust.Content(contents[i]())
		}
	}
	lists, err := p.changedLists()
	p.items = append(p.items, lists...)
	return err
}

// collect lists what of the project can be trusted, and how to get the contents of each.
func (p *Project) collect() (items []trust.Item, contents []func() []trust.File) {
	if p.folder == "" {
		return nil, nil
	}
	add := func(i trust.Item, content func() []trust.File) {
		items, contents = append(items, i), append(contents, content)
	}
	if c := p.settings.project; c != nil {
		add(trust.Item{Kind: trust.Config, Name: "config", Path: p.rel(c.path), Digest: c.digest, Detail: c.detail()}, p.single(c.path, c.digest))
	}
	for i := range p.scripts {
		f := &p.scripts[i]
		if f.Scope.Name == projectScope {
			add(trust.Item{Kind: trust.Tool, Name: scriptName(f), Path: p.rel(f.Path), Digest: f.Digest, Detail: scriptDetail(f)}, func() []trust.File { return p.scriptFiles(f) })
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
		add(trust.Item{Kind: trust.MCP, Name: s.Name, Path: p.rel(s.Source.Path), Digest: digest, Detail: strings.TrimRight(s.Review(), "\n")}, func() []trust.File { return p.serverFiles(s) })
	}
	for _, d := range p.all.List() {
		if d.Source.Scope == definition.Project {
			add(trust.Item{Kind: trust.Agent, Name: d.Name, Path: p.rel(d.Source.Path), Digest: d.Digest, Detail: agentDetail(d)}, p.single(d.Source.Path, d.Digest))
		}
	}
	for _, s := range p.skills.List() {
		if s.Source.Scope == projectScope {
			add(trust.Item{Kind: trust.Skill, Name: s.Name, Path: p.rel(s.Source.Path), Digest: s.Digest, Detail: s.Description}, func() []trust.File { return p.skillFiles(s) })
		}
	}
	for _, e := range p.recipes.Entries() {
		if e.Scope == library.Project && e.Recipe != nil {
			add(trust.Item{Kind: trust.Workflow, Name: e.Name, Path: p.rel(e.Path), Digest: e.Digest, Detail: recipeDetail(e.Recipe)}, p.single(e.Path, e.Digest))
		}
	}
	return items, contents
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
	if n := len(f.Files); f.Kind == script.Command && n > 1 {
		fmt.Fprintf(&b, " (covers %d files)", n)
	}
	if len(f.Open) > 0 {
		b.WriteString("; also loads what it names only when it runs, which is not covered")
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
