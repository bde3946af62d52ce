package permit

import (
	"net/url"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superstep-dev/superstep/tool"
)

// untrusted reports whether the result of a tool comes from untrusted sources: pages and search
// results of the web, answers of MCP servers, the reports of other agents, who may have read such,
// notes of earlier runs, and the file that an imported run was made of.
func untrusted(name string) bool {
	switch name {
	case "web_fetch", "web_search", "task", "task_batch", "run_workflow", "collect_workflow", "recall", tool.ImportedFile:
		return true
	}
	return strings.HasPrefix(name, "mcp__")
}

// Taint returns a gate that asks before something is sent out of a conversation that has read what
// strangers wrote, since that may have told the model what to send and where. Used gives the names
// of the tools whose results are in the conversation of a call; it is taken from the conversation
// itself, so that a run that is resumed or replayed decides as it did. What the inner gate asks
// about or denies stays so.
//
// Sends are addresses with a query or a long path for web_fetch, commands of bash that use the
// network or cannot be understood, and tools of MCP servers that are not pure.
func Taint(inner tool.Gate, used func(c *tool.Call) []string) tool.Reader {
	return taint{inner, used}
}

type taint struct {
	inner tool.Gate
	used  func(c *tool.Call) []string
}

// Check decides on a call. It implements tool.Gate.
func (g taint) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	v := g.inner.Check(t, c)
	if v.Decision != tool.Allow || t == nil || c == nil {
		return v
	}
	why := g.asks(t, c)
	if why == "" {
		return v
	}
	v.Decision, v.Always, v.Missing, v.Reason = tool.Ask, "", nil, why
	if p, ok := g.inner.(*Policy); ok {
		return p.headless(v)
	}
	return v
}

// Reads implements tool.Reader through the inner gate: a taint does not affect reading.
func (g taint) Reads(name, from string, answers []string) func(file string) tool.Verdict {
	if r, ok := g.inner.(tool.Reader); ok {
		return r.Reads(name, from, answers)
	}
	return func(string) tool.Verdict { return tool.Verdict{Decision: tool.Deny, Reason: "no rule is about files"} }
}

// Grants reports whether a rule would allow a call, which it never does where the gate itself asks. It
// implements tool.Granter.
func (g taint) Grants(rule string, t *tool.Tool, c *tool.Call) bool {
	inner, ok := g.inner.(tool.Granter)
	return ok && t != nil && c != nil && inner.Grants(rule, t, c) && g.asks(t, c) == ""
}

// asks returns why a call requires approval, or "" if it does not.
func (g taint) asks(t *tool.Tool, c *tool.Call) string {
	p, _ := g.inner.(*Policy)
	what := p.sends(t, c)
	if what == "" {
		return ""
	}
	used := g.used(c)
	i := slices.IndexFunc(used, untrusted)
	if i < 0 {
		return ""
	}
	return "the conversation holds what " + used[i] + " gave, which strangers may have written, and this " + what
}

// longPath is the length in bytes from which the path of a URL may carry data.
const longPath = 200

// sends returns how a call can send data out, or "" if it cannot.
func (p *Policy) sends(t *tool.Tool, c *tool.Call) string {
	object, err := decode(c.Args)
	if err != nil {
		return "has arguments that cannot be read"
	}
	switch {
	case t.Name == "web_fetch":
		raw, _ := str(object, "url")
		u, err := url.Parse(raw)
		if err != nil || u.RawQuery != "" || len(u.EscapedPath()) > longPath || u.User != nil {
			return "sends what is in its address"
		}
	case t.Name == "bash":
		return p.sendsCommand(object)
	case strings.HasPrefix(t.Name, "mcp__") && t.Effect != tool.Pure:
		return "sends its arguments to a server"
	}
	return ""
}

// sendsCommand returns how a command can send data out. It cannot if it has no network.
func (p *Policy) sendsCommand(object map[string]any) string {
	if p != nil && p.opt.Sandbox == Confined && len(p.Network()) == 0 && !is(object, "unsandboxed") {
		return ""
	}
	command, _ := str(object, "command")
	a := &analysis{policy: &Policy{}}
	a.text(command, syntax.LangBash)
	if a.why != "" || !a.reads() {
		return "runs a command that can use the network"
	}
	return ""
}
