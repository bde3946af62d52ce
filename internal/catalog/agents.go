package catalog

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

const (
	maxAgents  = 2000   // files of agents, in all folders
	maxEntries = 20_000 // of one folder, to look at
	maxFolders = 16     // in each other
)

//go:embed agents/*.md
var shippedAgents embed.FS

// agents lists the agents that take precedence over others of their name, including agents that are
// turned off in their files.
type agents struct {
	found[*definition.Definition]
	files int
	known []string // tools besides those of this program
}

// readAgents reads nested folders too, but follows no symbolic link out of the project or the home
// folder. A broken file is a problem and does not keep other files from being used.
func (c *Catalog) readAgents() *agents {
	a := &agents{known: c.ToolNames()}
	c.walk(agentFolder, &a.problems, a.place)
	if entries, err := shippedAgents.ReadDir("agents"); err == nil && !c.opt.bare {
		for _, e := range entries {
			if b, err := shippedAgents.ReadFile("agents/" + e.Name()); err == nil {
				a.add(b, definition.Source{Scope: BuiltIn, Dialect: definition.Superstep, Path: e.Name()})
			}
		}
	}
	a.precede(func(d *definition.Definition) string { return d.Name }, func(first, d *definition.Definition) {
		first.Overrides = append(first.Overrides, d.Source)
		if first.Source.Scope == d.Source.Scope && first.Source.Dialect == d.Source.Dialect {
			first.Warnings = append(first.Warnings, definition.Warning{Line: first.Source.Line, Col: 1,
				Text: fmt.Sprintf("%s is called %s too and is not used; rename one", clean.Text(d.Source.Path), d.Name)})
		}
	})
	return a
}

func (a *agents) problem(file, format string, args ...any) {
	a.problems = append(a.problems, Problem{Kind: string(agentFolder), File: file, Text: fmt.Sprintf(format, args...)})
}

// place reads the agents of one folder.
func (a *agents) place(f *frontmatter.Folder, p place) {
	var skills []string
	list, cut := f.Entries(p.dir, &frontmatter.Walk{Entries: maxEntries, Depth: maxFolders, Enter: func(dir string, names []string) bool {
		if slices.Contains(names, "SKILL.md") {
			skills = append(skills, dir)
			return false
		}
		base := path.Base(dir)
		return base != "node_modules" && base != ".git"
	}})
	for _, dir := range skills {
		a.problem(f.Path(dir), "this folder is a skill and no agent; move it to a folder of skills, such as .superstep/skills")
	}
	if cut {
		a.problem(f.Path(p.dir), "the folder has over %d files, or folders over %d deep; some are left out", maxEntries, maxFolders)
	}
	for _, e := range list {
		if !strings.EqualFold(path.Ext(e.Path), ".md") && e.Err == nil {
			continue
		}
		at := f.Path(e.Path)
		if a.files++; a.files > maxAgents {
			if a.files == maxAgents+1 {
				a.problem(at, "there are over %d files of agents; this one and the rest are left out", maxAgents)
			}
			return
		}
		err := e.Err
		var b []byte
		if err == nil {
			b, err = f.Read(e.Path, frontmatter.MaxFile)
		}
		if err != nil {
			a.problem(at, "cannot be read: %v", err)
			continue
		}
		a.add(b, definition.Source{Scope: p.scope, Dialect: p.dialect, Path: at})
	}
}

func (a *agents) add(b []byte, src definition.Source) {
	d, problems := definition.Parse(b, src, a.known)
	for _, x := range problems {
		a.problems = append(a.problems, Problem{Kind: string(agentFolder), File: src.Path, Line: x.Line, Col: x.Col, Text: x.Text})
	}
	if d != nil {
		a.all = append(a.all, d)
	}
}

// find returns the agent of a name among the usable ones, or a *NotFoundError. It also accepts a
// name in the spelling of its file, such as "API Architect", and the names explore, task and
// code-review, which other programs use.
func (a *agents) find(name string, may func(*definition.Definition) bool) (*definition.Definition, error) {
	want := definition.Normal(name)
	e := &NotFoundError{Kind: "agent", Name: name}
	list := a.first(may)
	for _, d := range list {
		switch {
		case d.Disabled && d.Name == want:
			e.Because = d.Source.String() + " switches it off"
		case d.Name == want:
			return d, nil
		case !d.Disabled:
			e.Known = append(e.Known, d.Name)
		}
	}
	for _, p := range a.problems {
		if e.Because == "" && want != "" && definition.NameOfFile(p.File) == want {
			e.Because = p.String()
		}
	}
	for _, d := range list {
		others := otherNames(d, list)
		if e.Because == "" && slices.Contains(others, want) {
			return d, nil
		}
		e.Known = append(e.Known, others...)
	}
	return nil, e
}

// first returns, among the usable agents, those that take precedence over others of their name.
func (a *agents) first(may func(*definition.Definition) bool) []*definition.Definition {
	var out []*definition.Definition
	for _, d := range a.all {
		if may(d) && !slices.ContainsFunc(out, func(o *definition.Definition) bool { return o.Name == d.Name }) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *definition.Definition) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// otherNames returns the other names by which an agent of a list is found.
func otherNames(d *definition.Definition, list []*definition.Definition) []string {
	if d.Disabled {
		return nil
	}
	return slices.DeleteFunc(definition.OtherNames(d.Name), func(name string) bool {
		return slices.ContainsFunc(list, func(o *definition.Definition) bool { return o.Name == name })
	})
}

func everyone(*definition.Definition) bool { return true }

// mayUse returns the agents that may be used: all except the project's untrusted agents. A file
// that switches an agent off only restricts, so it is always obeyed.
func (c *Catalog) mayUse(d *definition.Definition) bool {
	return d.Disabled || c.agentState(d) == Usable
}

// Agent returns the usable agent of a name. An untrusted agent of the project does not hide another
// agent of that name. If only an untrusted agent has the name, the error is an *UntrustedError.
func (c *Catalog) Agent(name string) (*definition.Definition, error) {
	d, err := c.agents().find(name, c.mayUse)
	if hidden := c.Hidden(name); err != nil && hidden != nil {
		return nil, hidden
	}
	return d, err
}

// Hidden returns the project's agent of a name if it is not used because it is not trusted in its
// current form, or else nil.
func (c *Catalog) Hidden(name string) *UntrustedError {
	d, err := c.agents().find(name, everyone)
	if err != nil || c.mayUse(d) {
		return nil
	}
	return &UntrustedError{Kind: "agent", Name: d.Name, Path: c.rel(d.Source.Path), State: c.agentState(d)}
}

// UsableAgents returns the agents that may be used, by name.
func (c *Catalog) UsableAgents() []*definition.Definition {
	return slices.DeleteFunc(c.agents().first(c.mayUse), func(d *definition.Definition) bool { return d.Disabled })
}

// Agents lists all agents with all of the capabilities, including unusable agents.
func (c *Catalog) Agents(capabilities ...string) []Item {
	var out []Item
	for _, d := range c.agents().list {
		if !d.Disabled && d.Has(capabilities...) {
			out = append(out, c.agentItem(d))
		}
	}
	return out
}

func (c *Catalog) agentItem(d *definition.Definition) Item {
	i := Item{
		Name: d.Name, Kind: d.Source.Dialect, Source: d.Source.Scope, Path: c.Shown(d.Source.Path), Digest: d.Digest,
		State: c.agentState(d), Description: d.Description, Model: d.Model, Tools: d.Tools, Aliases: otherNames(d, c.agents().list),
	}
	i.Capabilities = slices.Clone(d.Capabilities)
	for _, o := range d.Overrides {
		i.Overrides = append(i.Overrides, strings.TrimSpace(o.Scope+" "+c.Shown(o.Path)))
	}
	for _, w := range d.Warnings {
		i.Warnings = append(i.Warnings, clean.Place(i.Path, w.Line, w.Col)+": "+w.Text)
	}
	return i
}

// Definition returns the agent of a name as its file has it, trusted or not, and how it is listed.
func (c *Catalog) Definition(name string) (*definition.Definition, Item, error) {
	d, err := c.agents().find(name, everyone)
	if err != nil {
		return nil, Item{}, err
	}
	return d, c.agentItem(d), nil
}

func (c *Catalog) agentState(d *definition.Definition) State {
	return c.state(d.Source.Scope, trust.Agent, d.Name, d.Source.Path)
}
