package permit

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/superstep-dev/superstep/tool"
)

// Taint returns a gate that asks before something is sent by whoever has read what strangers wrote (see tool.Stranger), since that may have told the model
// what to send and where. Used gives what the values of a call come from. That is in the record of the run, so that a run that is resumed or replayed
// decides as it did. What the inner gate asks about or denies stays so.
//
// Sends are addresses that stand nowhere word for word for web_fetch, commands of bash that use the network or cannot be understood, and tools of MCP
// servers and others with a network. A rule of the user allows them if it names where to: with a host, a command, or the name of the tool or its server.
func Taint(inner tool.Gate, used func(c *tool.Call) []string) tool.Reader {
	policy, _ := inner.(*Policy)
	return taint{inner, policy, used}
}

type taint struct {
	inner  tool.Gate
	policy *Policy // the inner gate, if it is one
	used   func(c *tool.Call) []string
}

// Check decides on a call. It implements tool.Gate.
func (g taint) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	v := g.inner.Check(t, c)
	if v.Decision != tool.Allow || t == nil || c == nil {
		return v
	}
	own := v.Origin == string(User) || v.Origin == string(Run) || v.Origin == string(Granted)
	why := g.asks(t, c)
	if why == "" || own && g.policy.names(&v, t, c) {
		return v
	}
	v.Decision, v.Always, v.Missing, v.Reason = tool.Ask, "", nil, why
	if g.policy != nil {
		return g.policy.headless(v)
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

// Grants reports whether a rule would allow a call, which where the gate itself asks only one does that names where to. It implements
// tool.Granter.
func (g taint) Grants(rule string, t *tool.Tool, c *tool.Call) bool {
	inner, ok := g.inner.(tool.Granter)
	return ok && t != nil && c != nil && inner.Grants(rule, t, c) && (names(rule, t) || g.asks(t, c) == "")
}

// asks returns why a call requires approval, or "" if it does not.
func (g taint) asks(t *tool.Tool, c *tool.Call) string {
	used := g.used(c)
	i := slices.IndexFunc(used, tool.Stranger)
	if i < 0 {
		return ""
	}
	what := g.policy.sends(t, c)
	if what == "" {
		return ""
	}
	if used[i] == tool.WrittenFile {
		return "whoever wrote a file in this run had read what strangers may have written, and this " + what
	}
	return "the conversation holds what " + used[i] + " gave, which strangers may have written, and this " + what
}

// names reports whether the rules that allow a call name where it sends something. Each command of a line needs one that does, unless
// the sandbox alone allows it: the net rules name where to then.
func (p *Policy) names(v *tool.Verdict, t *tool.Tool, c *tool.Call) bool {
	if t.Name != "bash" || p == nil {
		return names(v.Rule, t)
	}
	if slices.Contains(p.Network(), "*") {
		return false
	}
	if v.Bounded {
		return true
	}
	f := p.facts(t.Name, c.Args)
	for i := range f.units {
		u := &f.units[i]
		if len(u.words) == 0 || u.around || onlyReads(u.words[0]) {
			continue
		}
		if r := p.unit(f, u).rule; r == nil || r.Layer == Project || r.Layer == Agent || r.Layer == BuiltIn || !names(r.String(), t) {
			return false
		}
	}
	return names(v.Rule, t)
}

// names reports whether a rule names a host, a command, a server or the very tool.
func names(rule string, t *tool.Tool) bool {
	if name, pattern, ok := strings.Cut(rule, "("); ok {
		return !strings.ContainsAny(name, "*?") && !strings.HasPrefix(pattern, "*")
	}
	literal, _, _ := strings.Cut(rule, "*")
	if server, _, ok := strings.Cut(strings.TrimPrefix(t.Name, "mcp__"), "__"); ok && strings.HasPrefix(t.Name, "mcp__") {
		return strings.HasPrefix(literal, "mcp__"+server+"__")
	}
	return t.Network && rule == t.Name && t.Name != "bash"
}

// sends returns how a call can send data out, or "" if it cannot.
func (p *Policy) sends(t *tool.Tool, c *tool.Call) string {
	object, err := decode(c.Args)
	if err != nil {
		return "has arguments that cannot be read"
	}
	switch {
	case t.Name == "web_fetch":
		if raw, _ := str(object, "url"); c.Stands == nil || !c.Stands(raw) {
			return "fetches an address that stands word for word in no page, search result or document that was read"
		}
	case t.Name == "bash":
		return p.sendsCommand(object)
	case strings.HasPrefix(t.Name, "mcp__"), t.Network && t.Name != "web_search":
		return "sends its arguments out"
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
