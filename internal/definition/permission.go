package definition

import (
	"path"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// tools reads the list of tools, or opencode's map of tools to true and false.
func (r *reader) tools(f *frontmatter.Field) {
	v := f.Value
	switch v.Kind {
	case frontmatter.Null:
		r.warn(f.Line, f.Col, "tools is empty, so the agent may use every tool; write [] for none")
		return
	case frontmatter.Map:
		r.toolMap(f)
		return
	}
	words, ok := v.Words(false)
	if !ok {
		r.refuse(v.Line, v.Col, "tools must be a list of at most 1000 names")
		return
	}
	w := &wish{}
	for _, x := range words {
		r.wish(w, x, false)
	}
	r.def.Allow = union(r.def.Allow, w.rules)
	for _, text := range w.rules {
		if name, _, ok := strings.Cut(text, "("); ok && !slices.Contains(w.whole, name) {
			r.def.Only = union(r.def.Only, []string{text})
		}
	}
	if w.agents != nil {
		r.def.Agents = w.agents
	}
	if !w.all {
		r.only(w.names)
	}
}

// only restricts the agent to some tools. A second such list, in another field, restricts it
// further.
func (r *reader) only(tools []string) {
	if !r.listed {
		r.listed = true
		r.def.Tools = slices.Clone(tools)
		if tools == nil {
			r.def.Tools = []string{}
		}
		return
	}
	r.def.Tools = slices.DeleteFunc(r.def.Tools, func(t string) bool { return !slices.Contains(tools, t) })
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

const (
	mostLines    = 500 // of a map of tools or permissions
	mostPatterns = 200 // of one tool
)

// toolMap reads opencode's map of tools: tools that it does not name are unchanged, and a later
// line beats an earlier one.
func (r *reader) toolMap(f *frontmatter.Field) {
	all := true
	var on, off []string
	if len(f.Value.Fields) > mostLines {
		r.refuse(f.Line, f.Col, "tools has over %d lines; put several into one with a *", mostLines)
		return
	}
	for _, t := range f.Value.Fields {
		use, ok := t.Value.Bool()
		if !ok {
			r.refuse(t.Value.Line, t.Value.Col, "the tool %s must be true or false", clean.Quote(t.Key))
			continue
		}
		if t.Key == "*" {
			all, on, off = use, nil, nil
			continue
		}
		names := r.editors(t.Key, t.Line, t.Col)
		if use {
			on = union(on, names)
			off = slices.DeleteFunc(off, func(n string) bool { return slices.Contains(names, n) })
		} else {
			off = union(off, names)
			on = slices.DeleteFunc(on, func(n string) bool { return slices.Contains(names, n) })
		}
	}
	r.def.Disallowed = union(r.def.Disallowed, off)
	if !all {
		r.only(on)
	}
}

// editors returns the tools for a name in opencode's map, where edit means every tool that writes.
func (r *reader) editors(name string, line, col int) []string {
	if strings.EqualFold(name, "edit") || strings.EqualFold(name, "patch") {
		return []string{"edit_file", "write_file"}
	}
	return r.ours(name, line, col)
}

// disallowed reads the tools that the agent may not use.
func (r *reader) disallowed(f *frontmatter.Field) {
	words, ok := f.Value.Words(false)
	if !ok {
		if f.Value.Kind != frontmatter.Null {
			r.refuse(f.Value.Line, f.Value.Col, "%s must be a list of names", f.Key)
		}
		return
	}
	w := &wish{}
	for _, x := range words {
		r.wish(w, x, true)
	}
	r.def.Disallowed = union(r.def.Disallowed, w.names)
	r.def.Deny = union(r.def.Deny, w.rules)
	r.def.NoAgents = union(r.def.NoAgents, w.agents)
	if w.all {
		r.only(nil)
	}
}

// rules reads a list of rules of our own.
func (r *reader) rules(f *frontmatter.Field, to *[]string) {
	words, ok := f.Value.Words(false)
	if !ok {
		if f.Value.Kind != frontmatter.Null {
			r.refuse(f.Value.Line, f.Value.Col, "%s must be a list of rules such as bash(git *)", f.Key)
		}
		return
	}
	for _, x := range words {
		w := &wish{}
		r.wish(w, x, true)
		switch {
		case w.all:
			*to = union(*to, []string{"*"})
		case len(w.names)+len(w.rules)+len(w.agents) == 0:
			r.refuse(x.Line, x.Col, "the rule %s is about no tool that there is", clean.Quote(x.Text))
		default:
			*to = union(*to, slices.Concat(w.names, w.rules))
			if to == &r.def.Deny {
				r.def.NoAgents = union(r.def.NoAgents, w.agents)
				continue
			}
			for _, a := range w.agents {
				*to = union(*to, []string{"task(" + a + ")"})
			}
		}
	}
}

// permissionMode is a field of Claude Code. A file cannot grant permissions to itself.
func (r *reader) permissionMode(f *frontmatter.Field) {
	s, _ := f.Value.String()
	r.extra(f)
	switch strings.ToLower(s) {
	case "", "default":
	case "plan":
		r.def.Disallowed = union(r.def.Disallowed, []string{"write_file", "edit_file"})
	case "acceptedits":
		r.def.Allow = union(r.def.Allow, []string{"edit_file", "write_file"})
	default:
		r.warn(f.Value.Line, f.Value.Col, "%s %s is not heeded; what an agent may do is for the user to say", f.Key, clean.Quote(s))
	}
}

// agents is a field of VS Code: the agents that may be started.
func (r *reader) agents(f *frontmatter.Field) {
	words, ok := f.Value.Words(false)
	if !ok {
		if f.Value.Kind != frontmatter.Null {
			r.refuse(f.Value.Line, f.Value.Col, "agents must be a list of names")
		}
		return
	}
	names := []string{}
	for _, w := range words {
		if w.Text == "*" {
			return
		}
		names = union(names, []string{agentName(w.Text)})
	}
	r.def.Agents = names
}

// An action is opencode's decision on a tool.
type action string

const (
	allow action = "allow"
	ask   action = "ask"
	deny  action = "deny"
)

// permitting holds the entries of a permission map for one tool. In opencode the last match wins;
// our rules have no order: deny beats ask beats allow.
type permitting struct {
	base     action // of what no pattern matches, "" if nothing was said
	patterns []patternAction
}

type patternAction struct {
	pattern string
	action  action
	field   *frontmatter.Field
}

// permission reads opencode's permissions: an action, or a map of tools to actions or to maps of
// patterns to actions.
func (r *reader) permission(f *frontmatter.Field) {
	said := map[string]*permitting{}
	universe := slices.Concat(toolnames.Builtin(), r.known)
	var order []string // the tools that something is said about
	about := func(t string) *permitting {
		if said[t] == nil {
			said[t] = &permitting{}
			order = append(order, t)
		}
		return said[t]
	}
	fields := f.Value.Fields
	switch f.Value.Kind {
	case frontmatter.Map:
	case frontmatter.Null:
		return
	default: // an action for everything
		fields = []frontmatter.Field{{Key: "*", Line: f.Line, Col: f.Col, Value: f.Value}}
	}
	if len(fields) > mostLines {
		r.refuse(f.Line, f.Col, "permission has over %d lines; put several into one with a *", mostLines)
		return
	}
	var all action
	for i := range fields {
		t := &fields[i]
		names := universe
		if t.Key != "*" {
			names = r.editors(t.Key, t.Line, t.Col)
		} else if a, ok := r.action(last(t)); ok {
			all = a
		}
		r.permit(t, names, about)
	}
	all = r.everything(all, said)
	for _, t := range order {
		r.permitted(t, said[t], all)
	}
}

// last returns the line that matches everything in a map of patterns, or the line of the map
// itself.
func last(t *frontmatter.Field) *frontmatter.Field {
	for i := range t.Value.Fields {
		if t.Value.Fields[i].Key == "*" {
			return &t.Value.Fields[i]
		}
	}
	return t
}

// permit notes the permissions that a line of the map sets for some tools.
func (r *reader) permit(t *frontmatter.Field, names []string, about func(string) *permitting) {
	if t.Value.Kind != frontmatter.Map {
		a, ok := r.action(t)
		if !ok {
			r.refuse(t.Value.Line, t.Value.Col, "the permission for %s must be allow, ask or deny", clean.Quote(t.Key))
			return
		}
		for _, n := range names {
			*about(n) = permitting{base: a}
		}
		return
	}
	if len(t.Value.Fields) > mostPatterns {
		r.refuse(t.Line, t.Col, "the permission for %s has over %d patterns; put several into one with a *", clean.Quote(t.Key), mostPatterns)
		return
	}
	for i := range t.Value.Fields {
		p := &t.Value.Fields[i]
		a, ok := r.action(p)
		if !ok {
			r.refuse(p.Value.Line, p.Value.Col, "the permission for %s must be allow, ask or deny", clean.Quote(p.Key))
			continue
		}
		for _, n := range names {
			s := about(n)
			if p.Key == "*" {
				*s = permitting{base: a}
				continue
			}
			s.patterns = slices.DeleteFunc(s.patterns, func(x patternAction) bool { return x.pattern == p.Key })
			s.patterns = append(s.patterns, patternAction{p.Key, a, p})
		}
	}
}

func (*reader) action(f *frontmatter.Field) (action, bool) {
	s, _ := f.Value.String()
	switch a := action(strings.ToLower(s)); a {
	case allow, ask, deny:
		return a, true
	}
	return "", false
}

// everything applies a permission for all tools, including those of servers and plugins. It returns
// the action that need not be repeated for each tool. If some tools are exempt from asking, there
// can be no rule for all.
func (r *reader) everything(all action, said map[string]*permitting) action {
	switch all {
	case allow:
		r.def.Allow = union(r.def.Allow, []string{"*"})
	case ask:
		for _, s := range said {
			if s.base == allow || slices.ContainsFunc(s.patterns, func(p patternAction) bool { return p.action == allow }) {
				r.def.Ask = union(r.def.Ask, []string{"mcp__*"})
				return ""
			}
		}
		r.def.Ask = union(r.def.Ask, []string{"*"})
	case deny:
		var left []string
		for _, t := range slices.Concat(toolnames.Builtin(), r.known) {
			if s := said[t]; s != nil && (s.base != deny || slices.ContainsFunc(s.patterns, func(p patternAction) bool { return p.action != deny })) {
				left = append(left, t)
			}
		}
		for t, s := range said {
			if strings.HasPrefix(t, "mcp__") && s.base != deny {
				left = union(left, []string{t})
			}
		}
		slices.Sort(left)
		r.only(left)
	}
	return all
}

// permitted turns the permissions of one tool into rules.
func (r *reader) permitted(name string, s *permitting, all action) {
	d := r.def
	lifted := slices.ContainsFunc(s.patterns, func(p patternAction) bool { return p.action != deny })
	if name == "task" || name == "task_batch" {
		r.starting(s, lifted)
	} else {
		for i, p := range s.patterns {
			text := name + "(" + p.pattern + ")"
			switch p.action {
			case allow:
				d.Allow = union(d.Allow, []string{text})
				r.bound(text, s, lifted)
				if before := overruled(s.patterns[:i], p.pattern); before != "" {
					r.warn(p.field.Line, p.field.Col, "%s allows what %s does not; here the stricter one holds", clean.Quote(p.pattern), clean.Quote(before))
				}
			case ask:
				d.Ask = union(d.Ask, []string{text})
				r.bound(text, s, lifted)
			case deny:
				d.Deny = union(d.Deny, []string{text})
			}
		}
	}
	switch {
	case s.base == deny && lifted: // see Only
	case s.base == deny && all == deny: // see everything
	case s.base == deny:
		d.Disallowed = union(d.Disallowed, []string{name})
	case s.base == ask && all != ask && !lifted:
		d.Ask = union(d.Ask, []string{name})
	case s.base == ask && name != "bash" && all != ask:
		r.warn(s.patterns[0].field.Line, s.patterns[0].field.Col, "of %s, what no pattern names goes by the rules of the user", name)
	case s.base == allow && all != allow:
		d.Allow = union(d.Allow, []string{name})
	}
}

// starting turns the permissions on starting agents into lists of agents.
func (r *reader) starting(s *permitting, lifted bool) {
	d := r.def
	if s.base == deny && lifted && d.Agents == nil {
		d.Agents = []string{}
	}
	for _, p := range s.patterns {
		name := agentName(p.pattern)
		if p.action == deny {
			d.NoAgents = union(d.NoAgents, []string{name})
			continue
		}
		if p.action == ask {
			d.Ask = union(d.Ask, []string{"task(" + name + ")"})
		}
		if s.base == deny {
			d.Agents = union(d.Agents, []string{name})
		}
	}
}

// settle makes sure that all rules can be applied. A rule that cannot be expressed here is dropped
// if it allows. If it asks or denies, it is extended to everything that the tool does.
func (r *reader) settle() {
	d := r.def
	bad := func(rules []string, decision tool.Decision, instead func(name string)) []string {
		rules = slices.DeleteFunc(rules, func(text string) bool {
			_, err := permit.Parse(decision, text, d.Source.Path)
			if err == nil {
				return false
			}
			name, _, _ := strings.Cut(text, "(")
			r.warn(r.at("permission"), 1, "the rule %s cannot be put that way here; %s", clean.Quote(text), map[tool.Decision]string{
				tool.Allow: "it is left out", tool.Ask: "all of " + name + " is asked about", tool.Deny: name + " is denied altogether",
			}[decision])
			instead(name)
			return true
		})
		if len(rules) == 0 {
			return nil
		}
		return rules
	}
	d.Allow = bad(d.Allow, tool.Allow, func(string) {})
	var asked, denied []string
	d.Ask = bad(d.Ask, tool.Ask, func(name string) { asked = union(asked, []string{name}) })
	d.Ask = union(d.Ask, asked)
	d.Deny = bad(d.Deny, tool.Deny, func(name string) { denied = union(denied, []string{name}) })
	bounds := slices.Clone(d.Only)
	d.Only = slices.DeleteFunc(d.Only, func(text string) bool { _, err := permit.Parse(tool.Allow, text, ""); return err != nil })
	for _, text := range bounds {
		name, _, _ := strings.Cut(text, "(")
		if !slices.ContainsFunc(d.Only, func(o string) bool { return strings.HasPrefix(o, name+"(") }) {
			denied = union(denied, []string{name}) // nothing is left of what it may do
		}
	}
	d.Disallowed = union(d.Disallowed, denied)
}

// bound notes that everything except the calls that patterns name is denied.
func (r *reader) bound(rule string, s *permitting, lifted bool) {
	if s.base == deny && lifted {
		r.def.Only = union(r.def.Only, []string{rule})
	}
}

// overruled returns an earlier, stricter pattern that covers what a later one allows.
func overruled(before []patternAction, pattern string) string {
	for _, b := range before {
		if ok, err := path.Match(b.pattern, pattern); err == nil && ok && b.action != allow {
			return b.pattern
		}
	}
	return ""
}
