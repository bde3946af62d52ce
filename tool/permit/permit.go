// Package permit decides which calls of tools may happen unasked, which are asked about and
// which never happen.
//
// A rule is one line, "TOOL" or "TOOL(pattern)", the same in configuration, on the command line and
// in definitions of agents:
//
//	bash(git log *)   edit_file(docs/**)   web_fetch(domain:*.example.com)   mcp__github__*
//
// Of all rules that match a call, one that denies wins over one that asks, and that over one that
// allows, whichever layer they come from. What no rule matches is up to the defaults: reading
// inside the folder, searching and planning are allowed, all else asks.
//
// A shell command is allowed when every simple command in it is, after parsing; what cannot be
// understood before it runs is never allowed by a pattern. This keeps a model from doing by accident or by a
// trick what nobody allowed. Options by which programs known to this package run others or write files, such as
// git grep -O and sort -o, are never allowed by a pattern either, and no rule, not even "bash" alone, allows
// unasked a command that is given a protected path and is not known to only read. It is no sandbox: a program that is
// allowed does what it does, as make and a test suite run whatever they are told to, and paths in programs'
// own languages or in variables are not seen.
package permit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

// A Layer is where a rule comes from.
type Layer string

// The layers.
const (
	User    Layer = "user"    // the user's own configuration
	Project Layer = "project" // the project's: it may deny and ask, and allow only if the user lets it
	Agent   Layer = "agent"   // the definition of the agent that calls
	Run     Layer = "run"     // given with this run, as by --allow
	// Granted is what a person answered, for this run or for always. An allow of this layer
	// is the answer to a question, so it also lifts a rule that asks, unless that rule is more specific
	// than the answer. It never lifts one that denies.
	Granted Layer = "granted"
	BuiltIn Layer = "built-in" // the defaults, looked at when no other rule matches
)

// origin is the name of a layer in a verdict.
func (l Layer) origin() string {
	if l == Granted {
		return string(Run)
	}
	return string(l)
}

// Options of New. Nil means the defaults.
type Options struct {
	// Rules by the layer they come from. Those of BuiltIn are added to Defaults.
	Rules map[Layer][]Rule
	// TrustProject says that the user trusts the project. Defaults to false: its rules are ignored.
	TrustProject bool
	// ProjectMayAllow says that rules of a trusted project may also allow. Defaults to false.
	ProjectMayAllow bool
	// Root is the absolute folder that relative paths are relative to. Defaults to "", where every
	// absolute path is outside.
	Root string
	// Home is what "~" stands for. Defaults to "", where a rule with "~" is a mistake.
	Home string
	// Resolve, if set, gives the absolute path without symbolic links, as far as it exists. A rule that allows then has
	// to match what a path names and not only how it is written; one that denies may match either.
	Resolve func(path string) string
	// Protected are absolute paths besides the usual ones that no tool may write, such as the
	// user's configuration and the file of what is trusted. What is below them is protected, too.
	Protected []string
	// Unprotect are patterns of paths that may be written although they are protected. They come
	// from the user and from nobody else.
	Unprotect []string
	// Headless says that nobody can be asked, so that what would be asked about is denied.
	Headless bool
	// Shell is what runs the commands of bash: "bash", which is the default, or "sh".
	Shell string
	// Tools are the names that rules may use, for finding those that are misspelled. Defaults to nil:
	// any name goes.
	Tools []string
}

// A Policy is rules that decide. It is a value: With makes a new one. It is safe for use
// from several goroutines, does no I/O of its own and decides the same call the same way every time.
type Policy struct {
	opt       Options
	rules     []*compiled
	unprotect []*compiled
}

// compiled is a rule ready for matching.
type compiled struct {
	Rule
	match  matcher
	group  int // of the rules given together
	weight int // how specific it is
}

// New makes a policy, or returns an error that names every rule that is wrong.
func New(opts *Options) (*Policy, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Shell != "" && o.Shell != "bash" && o.Shell != "sh" {
		return nil, fmt.Errorf("permissions: shell %q: want bash or sh", o.Shell)
	}
	for _, dir := range []string{o.Root, o.Home} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("permissions: folder %q: must be an absolute path", dir)
		}
	}
	p := &Policy{opt: o}
	var errs []error
	for layer := range o.Rules {
		if !slices.Contains(layers(), layer) {
			errs = append(errs, fmt.Errorf("permissions: no layer %q", layer))
		}
	}
	for _, layer := range layers() {
		rules := o.Rules[layer]
		if layer == BuiltIn { // by themselves, since exceptions are from rules given together
			errs = append(errs, p.add(layer, usual()), p.add(layer, keyFiles()))
		}
		if err := p.add(layer, rules); err != nil {
			errs = append(errs, err)
		}
	}
	for _, text := range o.Unprotect {
		m, err := compilePath(text, o.Home)
		if err != nil {
			errs = append(errs, fmt.Errorf("permissions: unprotect %q: %w", text, err))
			continue
		}
		p.unprotect = append(p.unprotect, &compiled{match: m})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

func layers() []Layer { return []Layer{User, Project, Agent, Run, Granted, BuiltIn} }

// With returns a policy with more rules, for an agent or for what a person allows while a run goes
// on. The rules of p stay, so an agent that another one starts is bound by what binds that one.
func (p *Policy) With(layer Layer, rules ...Rule) (*Policy, error) {
	if !slices.Contains(layers(), layer) {
		return nil, fmt.Errorf("permissions: no layer %q", layer)
	}
	out := &Policy{opt: p.opt, rules: slices.Clip(p.rules), unprotect: p.unprotect}
	if err := out.add(layer, rules); err != nil {
		return nil, err
	}
	return out, nil
}

func (p *Policy) add(layer Layer, rules []Rule) error {
	var errs []error
	group := 0
	if n := len(p.rules); n > 0 {
		group = p.rules[n-1].group + 1
	}
	for _, r := range rules {
		r.Layer, r.Ignored = layer, ""
		if layer == Project && !p.opt.TrustProject {
			r.Ignored = "the project is not trusted"
		} else if layer == Project && r.Decision == tool.Allow && !p.opt.ProjectMayAllow {
			r.Ignored = "a project may not allow, unless the user lets it"
		}
		m, err := r.compile(&p.opt)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.rules = append(p.rules, &compiled{Rule: r, match: m, group: group, weight: r.specific()})
	}
	return errors.Join(errs...)
}

// List returns the rules in the order of their layers, with those that are ignored.
func (p *Policy) List() []Rule {
	var out []Rule
	for _, layer := range layers() {
		for _, r := range p.rules {
			if r.Layer == layer {
				out = append(out, r.Rule)
			}
		}
	}
	return out
}

// Defaults are the rules that hold where no other matches: files inside the folder may be read, the
// web may be searched, and an agent may think, plan, ask, read skills and hand work to
// other agents, which are held by the same rules. Everything else asks: writing, commands,
// fetching from the web, tools of MCP servers and scripts.
//
// Reading files that usually hold keys asks, too, such as .env and *.pem. Whether a search of a whole
// folder finds them cannot be told, so grep asks only when its path names one; "ask read_file(**/.env)" as a rule
// of the user's own makes every search that may meet one ask.
func Defaults() []Rule { return slices.Concat(usual(), keyFiles()) }

func usual() []Rule {
	var out []Rule
	for _, text := range []string{
		"read_file(**)", "ls(**)", "glob(**)", "grep(**)", "search_docs", "web_search",
		"think", "todo", "ask_user", "skill", "task", "task_batch",
	} {
		name, pattern, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
		out = append(out, Rule{Decision: tool.Allow, Tool: name, Pattern: pattern, Layer: BuiltIn})
	}
	return out
}

// keyFiles ask about files that usually hold keys. A rule on read_file binds grep, too.
func keyFiles() []Rule {
	var out []Rule
	for _, pattern := range []string{
		"**/.env", "**/.env.*", "**/.aws/**", "**/.ssh/**", "**/.gnupg/**", "**/.netrc", "**/.npmrc", "**/.pypirc", "**/*.pem", "**/*.key",
		"**/id_rsa*", "**/id_ed25519*", "**/credentials.json", "**/.config/gcloud/**", "**/.kube/config",
	} {
		out = append(out, Rule{Decision: tool.Ask, Tool: "read_file", Pattern: pattern, Layer: BuiltIn, Otherwise: pattern == "**/.env.*"})
	}
	for _, name := range []string{"read_file", "grep"} {
		for _, end := range []string{"example", "sample", "template"} {
			out = append(out, Rule{Decision: tool.Allow, Tool: name, Pattern: "**/.env." + end, Layer: BuiltIn})
		}
	}
	return out
}

// Check decides on a call. It implements tool.Gate.
func (p *Policy) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	if t == nil || c == nil {
		return p.headless(tool.Verdict{Decision: tool.Ask, Reason: "there is no call to decide on"})
	}
	f := p.facts(t.Name, c.Args)
	v := p.decide(f)
	v.Subject = clean.Text(f.subject)
	if v.Decision == tool.Ask && f.why == "" {
		v.Always = p.always(f)
	}
	return p.headless(v)
}

// Grants says whether a rule, as a person's answer, would allow a call. It lifts neither what is denied
// nor what has to be asked about each time. It implements tool.Granter.
func (p *Policy) Grants(rule string, t *tool.Tool, c *tool.Call) bool {
	r, err := Parse(tool.Allow, rule, "")
	if err != nil {
		return false
	}
	with, err := p.With(Granted, r)
	return err == nil && with.Check(t, c).Decision == tool.Allow
}

func (p *Policy) headless(v tool.Verdict) tool.Verdict {
	if p.opt.Headless && v.Decision == tool.Ask {
		v.Decision, v.Always = tool.Deny, ""
		v.Reason += "; nobody can be asked here, so it is denied. Allow it beforehand with a rule, or run it where somebody can answer"
	}
	return v
}

// decide combines the units of a call: all of them must be allowed, and one denied is enough.
func (p *Policy) decide(f *facts) tool.Verdict {
	var worst, allowed *finding
	for i := range f.units {
		got := p.unit(f, &f.units[i])
		switch {
		case got.decision == tool.Allow:
			if allowed == nil || got.weight() > allowed.weight() {
				allowed = &got
			}
		case worst == nil || worst.decision != tool.Deny && got.decision == tool.Deny ||
			worst.decision == got.decision && got.weight() > worst.weight():
			worst = &got
		}
	}
	switch {
	case worst != nil && worst.decision == tool.Deny:
		return worst.verdict()
	case f.firm != "":
		return tool.Verdict{Decision: tool.Ask, Origin: string(BuiltIn), Reason: "it has to be asked about whatever is allowed: " + f.firm}
	case f.late && !p.bare(f) && worst != nil && worst.unit != nil && worst.unit.words != nil:
		return worst.verdict()
	case f.why != "" && !p.bare(f):
		return tool.Verdict{Decision: tool.Ask, Origin: string(BuiltIn), Reason: "it has to be asked about: " + f.why}
	case worst != nil:
		return worst.verdict()
	case allowed != nil && allowed.rule != nil:
		return allowed.verdict()
	}
	return tool.Verdict{Decision: tool.Ask, Origin: string(BuiltIn), Reason: "no rule allows it"}
}

// bare says whether a rule without a pattern allows the tool whatever is done with it.
func (p *Policy) bare(f *facts) bool {
	if f.malformed {
		return false
	}
	for _, r := range p.rules {
		if r.Ignored == "" && r.Decision == tool.Allow && r.Pattern == "" && globName(r.Tool, f.tool) {
			return true
		}
	}
	return false
}

// A finding is what the rules say of one unit.
type finding struct {
	decision tool.Decision
	rule     *compiled // nil if none decided
	reason   string
	unit     *unit // if nothing decided
}

func (f finding) weight() int {
	if f.rule == nil {
		return -1
	}
	return f.rule.weight
}

func (f finding) verdict() tool.Verdict {
	v := tool.Verdict{Decision: f.decision, Origin: string(BuiltIn), Reason: f.reason}
	if f.rule == nil {
		switch u := f.unit; {
		case u == nil:
		case u.what != "":
			v.Reason = "no rule allows " + u.what
		case u.words != nil:
			v.Reason = "no rule allows the command " + shown(u.words)
		default:
			v.Reason = "no rule allows it"
		}
		return v
	}
	v.Origin = f.rule.Layer.origin()
	if f.rule.Layer != BuiltIn {
		v.Rule = f.rule.String()
	}
	if v.Reason == "" {
		v.Reason = fmt.Sprintf("%s %s", f.decision, f.rule.where())
	}
	return v
}

// unit decides on one part of a call.
func (p *Policy) unit(f *facts, u *unit) finding {
	if u.protected != "" {
		return finding{decision: tool.Deny, reason: u.protected}
	}
	var deny, ask, allow, maybe *compiled
	take := func(r *compiled) {
		best := &allow
		switch r.Decision {
		case tool.Deny:
			best = &deny
		case tool.Ask:
			best = &ask
		}
		if *best == nil || r.weight > (*best).weight {
			*best = r
		}
	}
	for _, layer := range []bool{false, true} {
		if layer && (deny != nil || ask != nil || allow != nil) {
			break
		}
		for _, r := range p.rules {
			if r.Ignored != "" || (r.Layer == BuiltIn) != layer {
				continue
			}
			switch m := u.match(f, r); {
			case m != no && r.Otherwise && r.Decision != tool.Allow && p.excepted(f, u, r):
			case m == yes:
				take(r)
			case m == perhaps && layer && u.walk && r.Decision == tool.Ask: // else every search would ask
			case m == perhaps && r.Decision == tool.Ask:
				take(r)
			case m == perhaps && r.Decision == tool.Deny && (maybe == nil || r.weight > maybe.weight):
				maybe = r
			}
		}
	}
	switch {
	case deny != nil:
		return finding{decision: tool.Deny, rule: deny}
	case maybe != nil:
		return finding{decision: tool.Ask, rule: maybe, reason: fmt.Sprintf("it cannot be ruled out that it does what is denied %s", maybe.where())}
	case ask != nil && !p.lifted(f, u, ask):
		return finding{decision: tool.Ask, rule: ask}
	case allow != nil:
		return finding{decision: tool.Allow, rule: allow}
	case u.around:
		return finding{decision: tool.Allow}
	}
	return finding{decision: tool.Ask, unit: u}
}

// excepted says whether a rule for all else leaves a unit to another rule.
func (p *Policy) excepted(f *facts, u *unit, r *compiled) bool {
	return slices.ContainsFunc(p.rules, func(o *compiled) bool {
		return o.group == r.group && !o.Otherwise && o.Ignored == "" && u.match(f, o) == yes
	})
}

// lifted says whether a person has answered what a rule asks.
func (p *Policy) lifted(f *facts, u *unit, ask *compiled) bool {
	if ask.Layer == BuiltIn {
		return false
	}
	for _, r := range p.rules {
		if r.Layer == Granted && r.Decision == tool.Allow && r.weight >= ask.weight && u.match(f, r) == yes {
			return true
		}
	}
	return false
}
