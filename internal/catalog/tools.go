package catalog

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// scripts are the tools in files.
type scripts struct {
	list     []script.Found
	problems []Problem
}

func (c *Catalog) readScripts() *scripts {
	s := &scripts{}
	for _, p := range places(toolFolder, c.folder, c.opt.Home, c.opt.ConfigHome) {
		c.count(p.path())
		root := c.folder
		if p.scope == User {
			root = filepath.Join(p.base, filepath.FromSlash(p.in))
		}
		list, problems := script.Discover(p.path(), script.Scope{Name: p.scope, Root: root})
		s.list = append(s.list, list...)
		for _, x := range problems {
			s.problems = append(s.problems, Problem{Kind: string(toolFolder), File: x.File, Line: x.Line, Col: x.Column, Text: x.Text, Warning: x.Warning})
		}
	}
	return s
}

// servers are the MCP servers that are configured.
type servers struct {
	list     []*mcp.Server // by name, those that go before others of their name
	own      []*mcp.Server // the same without those of the project
	problems []Problem
	digests  map[string]string // of those of the project, by name
}

func (c *Catalog) readServers() *servers {
	for _, file := range mcp.Places(c.opt.Servers) {
		c.count(filepath.FromSlash(file))
	}
	found := mcp.Find(c.opt.Servers)
	s := &servers{list: found.Servers, own: found.Own, digests: map[string]string{}}
	for _, text := range found.Warnings {
		s.problems = append(s.problems, Problem{Kind: string(toolFolder), Text: text, Warning: true})
	}
	for _, err := range found.Problems {
		x := Problem{Kind: string(toolFolder), Text: err.Error()}
		if at, ok := errors.AsType[*mcp.ConfigError](err); ok {
			x.File, x.Line, x.Col, x.Text = at.File, at.Line, at.Col, at.Text
		}
		s.problems = append(s.problems, x)
	}
	for _, server := range s.list {
		if server.Source.Scope != Project || server.Disabled {
			continue
		}
		digest, err := server.Digest(c.opt.Servers)
		if err != nil {
			s.problems = append(s.problems, Problem{Kind: string(toolFolder), File: server.Source.Path, Line: server.Source.Line, Text: err.Error()})
			continue
		}
		s.digests[server.Name] = digest
	}
	return s
}

// ToolNames returns the names of servers and of tools in files, as far as they are known before
// anything runs.
func (c *Catalog) ToolNames() []string {
	var names []string
	for _, f := range c.scripts().list {
		names = append(names, f.Names...)
	}
	for _, s := range c.servers().list {
		names = append(names, "mcp__"+s.Name+"__*")
	}
	return names
}

// Scripts returns the tools in files that may be used.
func (c *Catalog) Scripts() []script.Found {
	var out []script.Found
	for _, f := range c.scripts().list {
		if c.scriptState(&f) == Usable {
			out = append(out, f)
		}
	}
	return out
}

// Servers returns the usable MCP servers. An untrusted server of the project does not hide one of
// the user's.
func (c *Catalog) Servers() []*mcp.Server {
	var out []*mcp.Server
	for _, s := range slices.Concat(c.servers().list, c.servers().own) {
		have := slices.ContainsFunc(out, func(o *mcp.Server) bool { return o.Name == s.Name })
		if !have && !s.Disabled && c.serverTrust(s) == Usable {
			out = append(out, s)
		}
	}
	return out
}

// ScriptName returns the name of a file of tools for users.
func ScriptName(f *script.Found) string {
	name, _, _ := strings.Cut(filepath.Base(f.Path), ".")
	return name
}

func (c *Catalog) scriptState(f *script.Found) State {
	return c.state(f.Scope.Name, trust.Tool, ScriptName(f), f.Path)
}

// serverState returns the state of a server. It is Changed also if the server offers other tools
// than were trusted; unchanged tools still work then.
func (c *Catalog) serverState(s *mcp.Server) State {
	state := c.serverTrust(s)
	name := ListName(s.Name)
	changed := func(st trust.Status) bool { return st.Item.Name == name && st.State == trust.Changed }
	switch {
	case s.Disabled:
		return Disabled
	case state == Usable && slices.ContainsFunc(c.judge(trust.MCPTools), changed):
		return Changed
	}
	return state
}

// Tools lists the tools in files and the servers. The user's come first. A module is one item, and
// so is an MCP server. Check returns the problems of a file that may be used.
func (c *Catalog) Tools(check func(script.Found) []script.Problem) []Item {
	var out []Item
	byName := map[string]int{}
	for i := range c.scripts().list {
		f := &c.scripts().list[i]
		e := Item{
			Name: ScriptName(f), Kind: string(f.Kind), Source: f.Scope.Name, Path: c.Shown(f.Path), Description: f.Description, Tools: f.Names,
			State: c.scriptState(f), Digest: f.Digest,
		}
		if e.State == Usable {
			for _, x := range check(*f) {
				e.State, e.Problems = Invalid, append(e.Problems, x.Text)
			}
		}
		switch {
		case e.Description != "":
		case f.Kind == script.Command:
			e.Description = "runs " + strings.Join(f.Command, " ")
		default:
			e.Description = offers(f)
		}
		if at, twice := byName[e.Name]; twice {
			out[at].Overrides = append(out[at].Overrides, e.Source+" "+e.Path)
			continue
		}
		byName[e.Name] = len(out)
		out = append(out, e)
	}
	for _, s := range c.servers().list {
		e := Item{
			Name: "mcp__" + s.Name + "__*", Kind: "mcp", Source: s.Source.Scope, Path: c.Shown(s.Source.Path), Description: s.CommandLine(),
			State: c.serverState(s), Digest: c.servers().digests[s.Name],
		}
		for _, o := range s.Overrides {
			e.Overrides = append(e.Overrides, o.Scope+" "+c.Shown(o.Path))
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Item) int { // the project's last
		return strings.Compare(b.Source, a.Source)
	})
	return out
}
