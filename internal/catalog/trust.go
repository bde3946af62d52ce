package catalog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// judged lists the kinds of items that can be trusted, in the order of listings.
var judged = []trust.Kind{trust.Config, trust.Tool, trust.MCP, trust.Agent, trust.Skill, trust.Workflow, trust.MCPTools}

// Items returns the items of the project that can be trusted, of all or of some kinds, each with
// the details that the user should review. They include the tool lists of MCP servers, even of the
// user's own, if the last connection saw another list than the trusted one. Trusting such an item
// accepts exactly the last list that the server offered.
func (c *Catalog) Items(kinds ...trust.Kind) []trust.Status {
	var out []trust.Status
	for _, k := range judged {
		if len(kinds) == 0 || slices.Contains(kinds, k) {
			out = append(out, c.judge(k)...)
		}
	}
	return out
}

// Trust marks items as trusted, with the content that was found. Items of another project are
// refused.
func (c *Catalog) Trust(items []trust.Item) error {
	if c.folder == "" || c.opt.Trust == nil {
		return errors.New("there is no project here")
	}
	if err := c.forgetLists(items); err != nil {
		return err
	}
	defer c.forget()
	return c.opt.Trust.Trust(c.folder, items)
}

// Revoke revokes the trust in the named items, or without names in the whole project. The trusted
// tool lists of the user's own MCP servers are kept: otherwise the next list of such a server would
// be trusted unseen.
func (c *Catalog) Revoke(names ...string) error {
	if c.folder == "" || c.opt.Trust == nil {
		return errors.New("there is no project here")
	}
	if len(names) == 0 {
		var err error
		if names, err = c.revocable(); err != nil || len(names) == 0 {
			return err
		}
	}
	defer c.forget()
	_, err := c.opt.Trust.Revoke(c.folder, names)
	return err
}

// revocable returns the names of everything that belongs to the project.
func (c *Catalog) revocable() ([]string, error) {
	own := map[string]bool{}
	for _, s := range c.servers().list {
		own[ListName(s.Name)] = s.Source.Scope != Project
	}
	known, err := c.opt.Trust.Projects()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range known {
		for _, i := range k.Items {
			if k.Path == c.folder && (i.Kind != trust.MCPTools || !own[i.Name]) {
				names = append(names, i.Name)
			}
		}
	}
	return names, nil
}

// forget drops all decisions, so that they are made again when they are next needed.
func (c *Catalog) forget() {
	c.mu.Lock()
	clear(c.states)
	c.age++
	c.mu.Unlock()
}

// judge reports for each item of a kind whether it may be used. If this cannot be determined, no
// item may be used.
func (c *Catalog) judge(kind trust.Kind) []trust.Status {
	if c.folder == "" || c.opt.Trust == nil {
		return nil
	}
	c.mu.Lock()
	list, done := c.states[kind]
	age := c.age
	c.mu.Unlock()
	if done {
		return list
	}
	var items []trust.Item
	var files []func() []trust.File
	c.collect(kind, func(i trust.Item, content func() []trust.File) {
		items, files = append(items, i), append(files, content)
	})
	list, err := c.opt.Trust.Status(c.folder, items)
	for i := 0; err != nil && i < len(items); { // one that cannot be recorded is not there
		if _, wrong := c.opt.Trust.Status(c.folder, items[i:i+1]); wrong != nil {
			items, files = slices.Delete(items, i, i+1), slices.Delete(files, i, i+1)
			continue
		}
		if i++; i == len(items) {
			list, err = c.opt.Trust.Status(c.folder, items)
		}
	}
	for i := range list {
		if s := &list[i]; s.State != trust.Trusted && files[i] != nil { // the content of others is not shown
			s.Item.Content = trust.Content(files[i](), 0)
		}
	}
	if kind == trust.MCPTools {
		list = slices.DeleteFunc(list, func(s trust.Status) bool { return s.State != trust.Changed })
	}
	c.mu.Lock()
	if c.age == age {
		c.states[kind] = list
	}
	c.mu.Unlock()
	return list
}

// collect lists the project's items of a kind that can be trusted, and how to read the content of
// each.
func (c *Catalog) collect(kind trust.Kind, add func(i trust.Item, content func() []trust.File)) {
	item := func(name, path, digest, detail string) trust.Item {
		return trust.Item{Kind: kind, Name: name, Path: c.rel(path), Digest: digest, Detail: detail}
	}
	switch kind {
	case trust.Config:
		if s := c.opt.Settings; s != nil {
			add(item(s.Name, s.Path, s.Digest, s.Detail), c.single(s.Path, s.Digest))
		}
	case trust.Tool:
		for _, f := range c.scripts().list {
			if f.Scope.Name == Project {
				add(item(ScriptName(&f), f.Path, f.Digest, c.scriptDetail(&f)), func() []trust.File { return c.scriptFiles(&f) })
			}
		}
	case trust.MCP:
		for _, s := range c.servers().list {
			if digest := c.servers().digests[s.Name]; digest != "" {
				add(item(s.Name, s.Source.Path, digest, strings.TrimRight(c.review(s), "\n")), func() []trust.File { return c.serverFiles(s) })
			}
		}
	case trust.Agent:
		for _, d := range c.agents().list {
			if d.Source.Scope == Project && !d.Disabled {
				add(item(d.Name, d.Source.Path, d.Digest, agentDetail(d)), c.single(d.Source.Path, d.Digest))
			}
		}
	case trust.Skill:
		for _, s := range c.skills().list {
			if s.Source.Scope == Project {
				add(item(s.Name, s.Source.Path, s.Digest, s.Description), func() []trust.File { return c.skillFiles(s) })
			}
		}
	case trust.Workflow:
		for _, e := range c.recipes().entries {
			if e.Scope == Project && e.Recipe != nil {
				add(item(e.Name, e.Path, e.Digest, recipeDetail(e.Recipe)), c.single(e.Path, e.Digest))
			}
		}
	case trust.MCPTools: // as they were seen
		seen, err := c.opt.Trust.Seen(c.folder)
		for _, s := range c.servers().list {
			if err != nil || s.Disabled || c.serverTrust(s) != Usable {
				continue
			}
			for _, i := range seen {
				if i.Kind == trust.MCPTools && i.Name == ListName(s.Name) {
					add(i, nil)
				}
			}
		}
	}
}

// TrustRecipe trusts a recipe that was just written into the project.
func (c *Catalog) TrustRecipe(r *recipe.Recipe, file string, text []byte) error {
	item := trust.Item{Kind: trust.Workflow, Name: r.Name, Path: c.rel(file), Digest: recipeDigest(text), Detail: recipeDetail(r)}
	item.Content = trust.Content(c.single(file, item.Digest)(), 0)
	return c.opt.Trust.Trust(c.folder, []trust.Item{item})
}

// SettingsState returns the state of the project's settings.
func (c *Catalog) SettingsState() State {
	if s := c.opt.Settings; s != nil {
		return c.state(Project, trust.Config, s.Name, s.Path)
	}
	return Untrusted
}

// ListName returns the name under which the tool list of a server is recorded.
func ListName(server string) string { return server + " tools" }

// forgetLists drops the recorded tool lists of servers that are about to be trusted, unless such a
// list is trusted at the same time.
func (c *Catalog) forgetLists(items []trust.Item) error {
	var lists, names []string
	for _, i := range items {
		if i.Kind == trust.MCPTools {
			lists = append(lists, i.Name)
		}
	}
	for _, i := range items {
		if i.Kind == trust.MCP && !slices.Contains(lists, ListName(i.Name)) && c.stateOf(i.Kind, i.Name, i.Path) != Usable {
			names = append(names, ListName(i.Name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, err := c.opt.Trust.Revoke(c.folder, names)
	return err
}

// TrustServer trusts a server, provided its files have not changed since it was found.
func (c *Catalog) TrustServer(s *mcp.Server, digest string) error {
	if s.Source.Scope == Project && (c.servers().digests[s.Name] != digest || c.serverTrust(s) != Usable) {
		return &UntrustedError{Kind: "MCP server", Name: s.Name, Path: c.rel(s.Source.Path), State: Changed}
	}
	return nil
}

func (c *Catalog) serverTrust(s *mcp.Server) State {
	return c.state(s.Source.Scope, trust.MCP, s.Name, s.Source.Path)
}

// An UntrustedError reports that an item of the project is needed that the user has not trusted.
type UntrustedError struct {
	Kind, Name, Path string
	State            State
}

func (e *UntrustedError) Error() string {
	why := "is not trusted"
	if e.State == Changed {
		why = "changed since it was trusted"
	}
	return fmt.Sprintf("%s %s (%s) %s", e.Kind, e.Name, e.Path, why)
}

// FailureCode returns the code of runs that fail with the error.
func (e *UntrustedError) FailureCode() string { return "untrusted" }

// rel returns a path in the project, in the form that is recorded and shown.
func (c *Catalog) rel(path string) string {
	if rel, err := filepath.Rel(c.folder, path); err == nil {
		path = filepath.ToSlash(rel)
	}
	return clean.Text(path)
}

func (c *Catalog) scriptDetail(f *script.Found) string {
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
		b.WriteString("; " + offers(f))
	}
	if len(f.Env) > 0 {
		fmt.Fprintf(&b, "; sees the variables %s", strings.Join(f.Env, ", "))
	}
	if from := sandbox.Fetches(f.Command); from != "" {
		fmt.Fprintf(&b, "; network: the registry that it fetches what it runs from (%s)", from)
	}
	for _, line := range append(f.Needs.Lines(), named(sandbox.Named(f.Command, c.folder, c.opt.Home))...) {
		b.WriteString("; " + line)
	}
	return b.String()
}

// offers names the tools of a file. What a module exports need be no tool, which is known once it runs.
func offers(f *script.Found) string {
	if f.Kind == script.Module && len(f.Names) > 1 {
		return "tools, at most: " + strings.Join(f.Names, ", ")
	}
	return "tools: " + strings.Join(f.Names, ", ")
}

// named returns the additional files that a command may read because it names them.
func named(paths []string) []string {
	var out []string
	for _, name := range paths {
		out = append(out, "read: "+clean.Text(name)+" (named in its command)")
	}
	return out
}

// review returns everything about a server that a user should see before trusting it.
func (c *Catalog) review(s *mcp.Server) string {
	text := s.Review()
	for _, line := range named(s.Reads(c.opt.Servers, c.opt.Home)) {
		text += "  " + line + "\n"
	}
	return text
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

// recipeDetail returns what users see of a recipe before they trust it.
func recipeDetail(r *recipe.Recipe) string {
	var b strings.Builder
	if r.Description != "" {
		b.WriteString(strings.Join(strings.Fields(clean.Text(r.Description)), " ") + "\n")
	}
	n := 0
	r.Walk(func(s *recipe.Step, depth int) bool {
		if n++; n <= 40 {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), stepLine(s))
		}
		return true
	})
	if n > 40 {
		fmt.Fprintf(&b, "and %d more steps\n", n-40)
	}
	return strings.TrimRight(b.String(), "\n")
}

func stepLine(s *recipe.Step) string {
	line := s.ID + ": " + s.Kind()
	switch {
	case s.Agent != nil:
		line += " " + s.Agent.Name
	case s.Tool != nil:
		line += " " + s.Tool.Name
	case s.Workflow != nil:
		line += " " + s.Workflow.Name
	}
	if s.Gate != nil {
		line += " (a person lets it go on)"
	}
	return clean.Text(line)
}

// state returns the state of an item of a scope. Only this function decides what may be used.
func (c *Catalog) state(scope string, kind trust.Kind, name, path string) State {
	if scope != Project {
		return Usable
	}
	return c.stateOf(kind, name, c.rel(path))
}

func (c *Catalog) stateOf(kind trust.Kind, name, path string) State {
	for _, s := range c.judge(kind) {
		switch {
		case s.Item.Name != name || s.Item.Path != path:
		case s.State == trust.Trusted:
			return Usable
		case s.State == trust.Changed:
			return Changed
		}
	}
	return Untrusted
}
