package permit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/tool"
)

// kind is the kind of pattern that a tool has.
type kind int

const (
	kindOther kind = iota
	kindShell
	kindPath
	kindURL
	kindText
	kindHost  // of the network that commands may reach
	kindExact // a whole text
	kindDocs
)

func kindOf(name string) kind {
	switch name {
	case "bash":
		return kindShell
	case "read_file", "write_file", "edit_file", "ls", "glob", "grep":
		return kindPath
	case "web_fetch":
		return kindURL
	case "web_search", "skill", "task", "run_workflow":
		return kindText
	case netTool:
		return kindHost
	case outsideTool:
		return kindExact
	case "search_docs":
		return kindDocs
	}
	return kindOther
}

// builtIns returns the names of the tools of this module.
func builtIns() []string { return append(toolnames.Builtin(), netTool, outsideTool) }

// facts holds the subject of a call.
type facts struct {
	tool      string
	subject   string // for people
	units     []unit // at least one, unless why is set
	why       string // why no pattern may allow the call, "" if one may
	firm      bool   // why holds for rules without a pattern as well
	outside   bool   // it leaves the sandbox
	malformed bool   // the arguments cannot be read
}

// A unit is a part of a call that is decided on separately: a simple command, a file that a command
// writes, or the whole of any other call.
type unit struct {
	tool      string // whose rules apply, "" for that of the call
	what      string // for people, "" if it is a command or the call
	protected string // why it is denied whatever the rules say
	ask       string // why it is asked about whatever the rules allow
	unknown   bool   // what it does cannot be told: any pattern may match
	around    bool   // the command around another: patterns that deny or ask bind it, it needs no leave of its own
	reads     bool   // what read_file may do with the path decides, whatever the tool is
	named     bool   // only the path is revealed: rules without a pattern do not count, and no rule has to allow it
	linked    bool   // the path is a hard link: defaults do not allow it

	words []string   // of a simple command
	forms [][]string // other ways to read the command, for rules that deny or ask
	paths []location // a path as written, and as resolved
	host  string
	text  string
}

// answer is the result of matching.
type answer int

const (
	no answer = iota
	perhaps
	yes
)

// A matcher is a compiled pattern.
type matcher interface {
	// match decides for rules that allow, if strict, or for those that deny or ask.
	match(u *unit, strict bool) answer
}

// match reports whether a rule is about a unit.
func (u *unit) match(f *facts, r *compiled) answer {
	strict := r.Decision == tool.Allow
	if u.around && (strict || r.Pattern == "") || u.named && r.Pattern == "" || u.linked && strict && r.Layer == BuiltIn {
		return no
	}
	name := f.tool
	if u.reads {
		name = "read_file"
		if strict && r.Layer == Granted && glob(r.Tool, f.tool) { // the answer to such a call
			name = f.tool
		}
	} else if u.tool != "" {
		name = u.tool
		if u.tool == outsideTool && (r.Tool != outsideTool || strict && r.Layer != User && r.Layer != Run) {
			if r.Tool != outsideTool && r.Decision == tool.Deny && r.Pattern == "" && glob(r.Tool, f.tool) {
				return yes // who may run no command may run none outside of the sandbox
			}
			return no // it is allowed by its own name alone, and by what the user has written down
		}
		// A command without limits may write files, but rules on files still bind it.
		if r.Pattern == "" && glob(r.Tool, f.tool) {
			return yes
		}
	}
	if !glob(r.Tool, name) && (strict || !binds(r.Tool, name)) {
		return no
	}
	switch {
	case r.match == nil:
		return yes
	case u.unknown && strict:
		return no
	case u.unknown:
		return perhaps
	}
	return r.match.match(u, strict)
}

// binds reports whether a rule that denies or asks for one tool also applies to another tool with
// the same effect: files that must not be edited must not be replaced.
func binds(rule, name string) bool {
	return rule == "edit_file" && name == "write_file" || rule == "write_file" && name == "edit_file"
}

// facts reads a call.
func (p *Policy) facts(name string, args []byte) *facts {
	f := &facts{tool: name}
	object, err := decode(args)
	if err != nil {
		f.malformed = true
		f.subject = name
		f.why = "its arguments cannot be read: " + err.Error()
		f.units = []unit{{unknown: true}}
		return f
	}
	switch kindOf(name) {
	case kindShell:
		p.shell(f, object)
	case kindPath:
		p.path(f, object)
	case kindURL:
		webFacts(f, object)
	case kindText:
		textFacts(f, object)
	case kindDocs:
		p.docs(f, object)
	default:
		f.subject = name
		if s := strings.TrimSpace(string(args)); s != "" && s != "{}" {
			f.subject += " " + clean.Clip(s, 2000)
		}
		f.units = []unit{{}}
	}
	return f
}

// decode reads an object whose keys are exact and given once, as tools do, so that a tool never
// sees another value than the one that was decided on.
func decode(args []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		return nil, nil
	}
	v, err := strict.Decode(args)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	switch {
	case !ok:
		return nil, errors.New("not a JSON object")
	case len(object) > 100:
		return nil, errors.New("over 100 arguments")
	}
	var keys []string
	for key := range object {
		if slices.ContainsFunc(keys, func(other string) bool { return strings.EqualFold(other, key) }) {
			return nil, fmt.Errorf("%q is given twice", key)
		}
		keys = append(keys, key)
	}
	return object, nil
}

// str returns a string argument, and reports whether it is a string or absent.
func str(object map[string]any, key string) (string, bool) {
	v, given := object[key]
	s, ok := v.(string)
	return s, ok || !given
}

// is reports whether a boolean argument is present and not false.
func is(object map[string]any, key string) bool {
	v, given := object[key]
	yes, truth := v.(bool)
	return given && (yes || !truth)
}

// cannot makes a call require approval.
func (f *facts) cannot(why string) {
	f.why = why
	f.units = append(f.units, unit{unknown: true})
	if f.subject == "" {
		f.subject = f.tool
	}
}

const longestPath = 4096 // bytes, as on Linux

// path reads the call of a tool on files.
func (p *Policy) path(f *facts, object map[string]any) {
	name, ok := str(object, "path")
	write := f.tool == "write_file" || f.tool == "edit_file"
	if f.tool == "glob" {
		pattern, isText := str(object, "pattern")
		ok = ok && isText
		base, _ := doublestar.SplitPattern(pattern)
		if path.IsAbs(pattern) {
			name = base
		} else {
			name = path.Join(cmp.Or(name, "."), base)
		}
	}
	if !ok || strings.ContainsRune(name, 0) || len(name) > longestPath {
		f.cannot("its path cannot be read")
		return
	}
	if name == "" && (write || f.tool == "read_file") {
		f.cannot("it names no path")
		return
	}
	paths := p.locations(cmp.Or(name, "."))
	f.subject = paths[0].shown()
	if !write {
		f.units = p.readings(f.tool, paths)
		return
	}
	u := unit{paths: paths}
	p.guardWrite(&u)
	f.units = []unit{u}
}

// docs reads the call of search_docs, which reads files of the whole folder.
func (p *Policy) docs(f *facts, object map[string]any) {
	f.subject = "."
	u := unit{}
	if is(object, "large") {
		f.subject, u.text = "index a folder of any size", "large"
	}
	f.units = []unit{u, {paths: p.locations("."), reads: true}}
}

// webFacts reads the call of web_fetch.
func webFacts(f *facts, object map[string]any) {
	raw, ok := str(object, "url")
	f.subject = raw
	u, err := url.Parse(raw)
	if !ok || err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		f.cannot("its address cannot be read")
		return
	}
	f.units = []unit{{host: cleanHost(u.Hostname())}}
}

// cleanHost returns a host name for comparison.
func cleanHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// textFacts reads the call of a tool whose patterns are about a name or a query.
func textFacts(f *facts, object map[string]any) {
	for _, key := range map[string][]string{
		"web_search": {"query"}, "skill": {"name", "skill"}, "task": {"agent", "subagent", "name"}, "run_workflow": {"workflow", "name"},
	}[f.tool] {
		s, ok := str(object, key)
		if !ok || s == "" {
			continue
		}
		f.subject, f.units = s, []unit{{text: s}}
		return
	}
	f.subject, f.units = f.tool, []unit{{unknown: true}}
}

// textPattern is a glob over a text.
type textPattern string

func (t textPattern) match(u *unit, strict bool) answer {
	if glob(string(t), u.text) || !strict && glob(strings.ToLower(string(t)), strings.ToLower(u.text)) {
		return yes
	}
	return no
}

// A domain is a host, or all hosts below one.
type domain struct {
	host string
	sub  bool
}

func compileDomain(pattern string) (matcher, int, error) {
	key, host, ok := strings.Cut(pattern, ":")
	if !ok || key != "domain" {
		return nil, 0, fmt.Errorf("want domain:HOST, such as web_fetch(domain:example.com) or web_fetch(domain:*.example.com)")
	}
	d := domain{host: cleanHost(host)}
	if rest, ok := strings.CutPrefix(d.host, "*."); ok {
		d.host, d.sub = rest, true
	}
	bad := strings.IndexFunc(d.host, func(c rune) bool { return strings.ContainsRune("*?/@:()[]{}\\ ", c) })
	if net.ParseIP(strings.Trim(host, "[]")) != nil {
		bad, d.host = -1, strings.Trim(d.host, "[]")
	}
	if d.host == "" || bad >= 0 || d.sub && !strings.Contains(d.host, ".") {
		return nil, len("domain:"), fmt.Errorf("%q is not a host; write one such as example.com, or *.example.com for all below it", host)
	}
	return d, 0, nil
}

func (d domain) match(u *unit, _ bool) answer {
	if d.sub && strings.HasSuffix(u.host, "."+d.host) || !d.sub && u.host == d.host {
		return yes
	}
	return no
}

// always returns the rule that would allow a call and its like, "" if there is none that is
// both narrow and enough.
func (p *Policy) always(f *facts) string {
	r, bare := Rule{Decision: tool.Allow, Tool: f.tool}, false // bare: a rule without a pattern will do
	switch kindOf(f.tool) {
	case kindShell:
		if f.outside {
			return "" // each time is a question of its own
		}
		r.Pattern = f.likeCommand()
	case kindPath:
		r.Pattern = f.units[0].paths[0].like(f.tool == "grep" || f.tool == "glob")
	case kindURL:
		r.Pattern = "domain:" + f.units[0].host
	case kindText:
		if s := f.units[0].text; f.tool == "web_search" {
			bare = true
		} else if !strings.ContainsAny(s, "*?()") {
			r.Pattern = s
		}
	case kindDocs:
		r.Pattern, bare = f.units[0].text, true
	case kindOther:
		bare = true
	}
	if r.Pattern == "" && !bare {
		return ""
	}
	return p.tried(f, r)
}

// missing returns the rules that allow a command together with what it reads and writes by redirections, nil if there are none.
func (p *Policy) missing(f *facts) []string {
	if kindOf(f.tool) != kindShell || f.outside {
		return nil
	}
	var out []string
	for i := range f.units {
		u := &f.units[i]
		r := Rule{Decision: tool.Allow, Tool: cmp.Or(u.tool, f.tool)}
		switch {
		case p.unit(f, u).decision == tool.Allow:
			continue
		case len(u.paths) > 0:
			r.Pattern = u.paths[0].like(false)
		case u.words != nil:
			r.Pattern = (&facts{units: f.units[i : i+1]}).likeCommand()
		}
		if r.Pattern == "" {
			return nil
		}
		if text := r.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if !p.allowing(f, out) {
		return nil
	}
	return out
}

// tried returns a rule as text, provided it allows the call.
func (p *Policy) tried(f *facts, r Rule) string {
	if text := r.String(); p.allowing(f, []string{text}) {
		return text
	}
	return ""
}

// allowing reports whether rules would allow a call.
func (p *Policy) allowing(f *facts, rules []string) bool {
	parsed := make([]Rule, len(rules))
	for i, text := range rules {
		var err error
		if parsed[i], err = Parse(tool.Allow, text, ""); err != nil {
			return false
		}
	}
	with, err := p.With(Granted, parsed...)
	return err == nil && with.decide(f).Decision == tool.Allow
}

// literalPath returns a path as a pattern that matches it and nothing else, "" if it cannot be one.
func literalPath(s string) string {
	if strings.ContainsAny(s, "*?[]{}\\") || slices.Contains(strings.Split(s, "/"), "..") {
		return ""
	}
	return s
}
