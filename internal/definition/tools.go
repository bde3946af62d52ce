package definition

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/toolnames"
)

// families are the first words of tools such as edit/createFile.
var families = []string{"read", "edit", "search", "execute", "web", "agent", "todo", "vscode"}

var (
	callLike   = regexp.MustCompile(`(?s)^([^()\s]+)\s*\((.*)\)$`)
	serverTool = regexp.MustCompile(`^([A-Za-z0-9_.-]+)/([A-Za-z0-9_.*-]+)$`)
	mcpTool    = regexp.MustCompile(`^mcp__[A-Za-z0-9_-]+\*?$`)
	toolName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}\*?$`)
	notName    = regexp.MustCompile(`[^A-Za-z0-9_*-]`)
)

// wish is the parsed form of a list of tools in a file.
type wish struct {
	all    bool     // every tool, as the list has a *
	names  []string // by our names, in the order of the list, each once
	whole  []string // those that are named without a pattern
	rules  []string // of those with a pattern, such as bash(git *)
	agents []string // that Task or Agent names; nil if neither names any
}

// wish parses one entry of a list of tools. Deny is set for a list of denied tools.
func (r *reader) wish(w *wish, v *frontmatter.Value, deny bool) {
	name, pattern := v.Text, ""
	if m := callLike.FindStringSubmatch(name); m != nil {
		name, pattern = m[1], strings.TrimSpace(m[2])
	}
	if name == "*" {
		w.all = true
		return
	}
	names := r.ours(name, v.Line, v.Col)
	if pattern == "" || pattern == "*" {
		w.names = union(w.names, names)
		w.whole = append(w.whole, names...)
		if pattern == "*" && !deny {
			w.rules = union(w.rules, names)
		}
		return
	}
	if slices.Contains(names, "task") {
		if w.agents == nil {
			w.agents = []string{}
		}
		for a := range strings.SplitSeq(pattern, ",") {
			if a = agentName(a); a != "" && !slices.Contains(w.agents, a) {
				w.agents = append(w.agents, a)
			}
		}
		if !deny {
			w.names = union(w.names, names)
		}
		return
	}
	if !deny {
		w.names = union(w.names, names)
	}
	if strings.EqualFold(name, "edit") { // a rule about edits is one about everything that writes
		names = []string{"edit_file", "write_file"}
	}
	for _, n := range names {
		w.rules = union(w.rules, []string{rule(n, pattern)})
	}
}

// rule returns a rule in our syntax. Claude Code writes git:* for a command that begins with git.
func rule(tool, pattern string) string {
	if p, ok := strings.CutSuffix(pattern, ":*"); ok && tool == "bash" {
		pattern = p + " *"
	}
	return tool + "(" + pattern + ")"
}

// ours returns our tools that a name stands for.
func (r *reader) ours(name string, line, col int) []string {
	low := strings.ToLower(name)
	if r.dialect == Copilot {
		if names, ok := toolnames.Group(low); ok {
			return names
		}
	}
	names, theirs := toolnames.Ours(low)
	if !theirs || r.dialect == Superstep { // to others, task is every way to start an agent
		if slices.Contains(toolnames.Builtin(), name) || slices.Contains(r.known, name) {
			return []string{name}
		}
	}
	if theirs {
		if names == nil {
			r.warn(line, col, "the tool %s has no counterpart here and is left out", clean.Quote(name))
		}
		return names
	}
	if mcpTool.MatchString(name) {
		if strings.Count(name, "__") == 1 && !strings.HasSuffix(name, "*") {
			name += "__*" // all of a server
		}
		return []string{name}
	}
	if m := serverTool.FindStringSubmatch(name); m != nil {
		return r.qualified(m[1], m[2], line, col)
	}
	if strings.Contains(name, "*") {
		return r.glob(low, line, col)
	}
	r.warn(line, col, "there is no tool %s%s", clean.Quote(name), suggest.Hint(name, r.toolNames()))
	if !toolName.MatchString(name) {
		return nil
	}
	return []string{name} // there may be one later
}

// qualified returns the tools of a name such as server/tool or edit/createFile.
func (r *reader) qualified(first, second string, line, col int) []string {
	family := strings.ToLower(first)
	if !slices.Contains(families, family) {
		return []string{"mcp__" + notName.ReplaceAllString(first, "_") + "__" + notName.ReplaceAllString(second, "_")}
	}
	if second == "*" {
		return r.ours(family, line, col)
	}
	names, ok := toolnames.Ours(second)
	if !ok || names == nil {
		r.warn(line, col, "the tool %s has no counterpart here and is left out", clean.Quote(first+"/"+second))
		return nil
	}
	return names
}

// glob returns the tools that match a pattern of opencode: its own tools, or those of a server.
func (r *reader) glob(pattern string, line, col int) []string {
	var out []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	for _, n := range slices.Concat(toolnames.Builtin(), r.known) {
		if ok, err := path.Match(pattern, n); err == nil && ok {
			add(n)
		}
	}
	for _, n := range toolnames.Theirs() {
		if ok, err := path.Match(pattern, n); err == nil && ok {
			names, _ := toolnames.Ours(n)
			add(names...)
		}
	}
	if server, ok := strings.CutSuffix(pattern, "_*"); ok && len(out) == 0 && toolName.MatchString(server) {
		return []string{"mcp__" + server + "__*"}
	}
	if len(out) == 0 {
		r.warn(line, col, "no tool is called %s", clean.Quote(pattern))
		if toolName.MatchString(pattern) {
			return []string{pattern}
		}
	}
	return out
}

// toolNames returns the names to suggest for an unknown one.
func (r *reader) toolNames() []string {
	names := slices.Concat(toolnames.Builtin(), r.known)
	if r.dialect != Superstep {
		names = append(names, toolnames.Common()...)
	}
	return names
}
