// Package definition parses agents that users have written as Markdown files, for this program and
// for others, into one form.
//
// A file is a YAML header and a text, which is the agent's system prompt. The dialects of Claude
// Code, opencode, GitHub Copilot and Superstep differ in where the files are, what the fields and
// the tools are called, and little else. Nothing here runs anything: if a file asks for more than
// text, such as hooks, the command of a server or permission to use a tool, that is reported, and
// the host must ask the user.
package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// A Definition is an agent as described by a file. It is a value: never change one that a catalog
// returned.
type Definition struct {
	Name        string // [a-z0-9_-]{1,64}
	Title       string // the name as it is written, if that is another
	Description string // when to use it, for people and for models; may be empty
	Prompt      string // the system prompt; may be empty
	// Model is as it is written: a model, a provider/model, an alias such as sonnet, or inherit.
	// "" is the model of whoever starts it.
	Model string
	// Tools are what it may use, by our names: nil is every tool there is, an empty list is none. A
	// name may end in *, as in mcp__github__*. It may contain unknown names.
	Tools []string
	// Disallowed are tools that it may not use, in the same form. Tools does not hold them.
	Disallowed []string
	// Allow, Ask and Deny are rules such as bash(git *), or the name of a tool for all it does.
	// Allow is only a wish: a host applies it if the user trusts the file. Deny and Ask restrict,
	// so a host always applies them. Deny beats Ask beats Allow.
	Allow, Ask, Deny []string
	// Only are rules that bound the tools they are about: of those tools, a call that none of the
	// rules matches is denied. It distinguishes "bash only for git" from "bash, with git allowed".
	Only         []string
	Agents       []string // those that it may start; nil is every one; a name may end in *
	NoAgents     []string // those that it may not start, in the same form
	MaxTurns     int      // 0 for the default
	Skills       []string
	MCPServers   []string // by name
	Kind         string   // how it works
	Mode         string   // who may start it; empty is people and agents
	Capabilities []string
	Temperature  *float64 // from 0 to 2; nil for the default
	TopP         *float64 // from 0 to 1; nil for the default
	Effort       string   // low, medium, high, xhigh, max; "" for the default
	Hidden       bool     // not to be offered to people
	Disabled     bool     // the file switches it off
	// Extra has the fields that have no place above, by the names in the file, as encoding/json would
	// give them. It has neither hooks nor the settings of servers and providers, which may hold secrets.
	Extra map[string]any

	Source   Source
	Digest   string // of the file: sha256:hex
	Warnings []Warning
	// Overrides are the other definitions of that name, over which this one takes precedence, in
	// their order of precedence.
	Overrides []Source
}

// What some agents are. Kind is Simple or "compiled", Mode is Primary, "subagent" or empty.
const (
	Simple  = "simple"  // the model is called once, without tools; a compiled agent works in turns until it is done
	Primary = "primary" // only people may start it; a subagent is started by agents and workflows only

	compiled = "compiled"
	subagent = "subagent"
)

var capabilities = []string{"research", "explore", "synthesize", "write", "search", "read-only", "code-review", "data-analysis"}

// The programs that files are written for. Within a scope, this is the order of precedence among
// files of the same name.
const (
	Superstep = "superstep"
	Claude    = "claude"
	OpenCode  = "opencode"
	Copilot   = "copilot"
)

// A Source is where a definition comes from.
type Source struct {
	Scope   string // project, user or built-in
	Dialect string // Superstep, Claude, OpenCode or Copilot
	Path    string // absolute; of one that is built in, its file name
	Line    int    // of the name, or where the file begins
}

func (s Source) String() string {
	if s.Scope == "built-in" {
		return "built in: " + s.Path
	}
	return fmt.Sprintf("%s:%d (%s)", clean.Text(s.Path), s.Line, s.Scope)
}

// A Warning is a tolerated mistake in a file, or the reason why it cannot be used. Line and Col are
// 0 if it is about the whole file.
type Warning struct {
	Line, Col int
	Text      string
}

// Has reports whether a definition has every one of those capabilities.
func (d *Definition) Has(capabilities ...string) bool {
	return !slices.ContainsFunc(capabilities, func(c string) bool { return !slices.Contains(d.Capabilities, c) })
}

// MayUse reports whether a tool of that name is among those of the agent. Rules may still deny its
// calls.
func (d *Definition) MayUse(tool string) bool {
	if matches(d.Disallowed, tool) {
		return false
	}
	return d.Tools == nil || matches(d.Tools, tool)
}

// MayStart reports whether this agent may start an agent of that name, provided it may start any.
// Rules may still deny it.
func (d *Definition) MayStart(agent string) bool {
	listed := func(list []string) bool {
		return matches(list, agent) || slices.ContainsFunc(list, func(name string) bool { return slices.Contains(OtherNames(agent), name) })
	}
	return !listed(d.NoAgents) && (d.Agents == nil || listed(d.Agents))
}

// OtherNames returns the names that other programs use for a built-in agent. An agent whose own
// name is one of these takes precedence.
func OtherNames(name string) []string {
	switch name {
	case "explorer":
		return []string{"explore"}
	case "worker":
		return []string{"task"}
	case "reviewer":
		return []string{"code-review"}
	}
	return nil
}

// matches reports whether a name matches one of a list, in which names may end in *.
func matches(list []string, name string) bool {
	for _, p := range list {
		if prefix, ok := strings.CutSuffix(p, "*"); p == name || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// agentName returns a name of agents in a list, which may end in *.
func agentName(s string) string {
	if p, ok := strings.CutSuffix(strings.TrimSpace(s), "*"); ok {
		if strings.HasSuffix(p, "-") {
			return Normal(p) + "-*"
		}
		return Normal(p) + "*"
	}
	return Normal(s)
}

const longestName = 64

// Normal returns a name in normal form: lower case, with hyphens for characters that are not
// allowed.
func Normal(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
			continue
		}
		gap = true
	}
	s := b.String()
	if len(s) > longestName {
		s = strings.TrimRight(s[:longestName], "-")
	}
	return s
}
