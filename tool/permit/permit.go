// Package permit decides which tool calls are allowed, which ones require approval and which are
// denied.
//
// A rule is one line, "TOOL" or "TOOL(pattern)", the same in configuration, on the command line and
// in definitions of agents:
//
//	bash(git log *)   edit_file(docs/**)   web_fetch(domain:*.example.com)   mcp__github__*
//
// Of all rules that match a call, one that denies wins over one that asks, and that over one that
// allows, whichever layer they come from. If no rule matches, the defaults decide: reading inside
// the folder, searching and planning are allowed, all else asks.
//
// A shell command is allowed when every simple command in it is, after parsing; what cannot be
// understood before it runs is never allowed by a pattern. Rules are about the words of a command, not about what
// the program then does: that is bounded by the sandbox that runs it (package sandbox), or by nothing where there is none, and so
// Unconfined has everything asked about that does more than read.
//
// Two names are about the sandbox: net(HOST) lets commands reach a host, and unsandboxed(COMMAND), which must be the whole
// command, lets that one leave it.
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

// origin returns the name of a layer in a verdict.
func (l Layer) origin() string {
	if l == Granted {
		return string(Run)
	}
	return string(l)
}

// A Confinement is the kind of sandbox for commands.
type Confinement int

// The kinds of confinement.
const (
	Confined   Confinement = iota // a sandbox does
	Unconfined                    // nothing does although it should: a command that does more than read is asked about
	Exempt                        // nothing does, as the user wants it: rules alone decide
)

// Options of New. Nil means the defaults.
type Options struct {
	// Rules by the layer they come from. Those of BuiltIn are added to the defaults.
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
	// Resolve, if set, gives the absolute path without symbolic links, as far as it exists. An
	// allow rule must then match the real path and not only the written one; a deny rule may match
	// either.
	Resolve func(path string) string
	// Linked, if set, reports whether an absolute path is that of a file with other names (hard
	// links), which may be outside of the folder or those of secret files. By default they may not
	// be read unasked: a rule has to allow it. It is called once for each file to be read, so it
	// must be cheap.
	Linked func(path string) bool
	// Protected lists paths that no tool may write, besides AlwaysProtected: the files and folders
	// that the caller loads as code or as rules.
	Protected []Protected
	// Unprotect lists patterns of paths that may be written although they are protected. Only the
	// user may set it.
	Unprotect []string
	// NoDefaults leaves out the default rules: every call that no rule allows is asked about.
	NoDefaults bool
	// Headless is set if no user can be asked: calls that would be asked about are denied.
	Headless bool
	// Sandbox confines commands. Defaults to Confined.
	Sandbox Confinement
	// Auto allows commands that stay in the sandbox, unless a rule asks about or denies them. It
	// has no effect unless commands are Confined.
	Auto bool
	// Shell is the program that runs the commands of bash: "bash", which is the default, or "sh".
	Shell string
	// Tools are the names that rules may use, to find misspelled ones. If nil, any name is
	// accepted.
	Tools []string
}

// A Policy is rules that decide. It is a value: With makes a new one. It is safe for use
// from several goroutines, does no I/O of its own and decides the same call the same way every time.
type Policy struct {
	opt       Options
	outer     string // the root of the policy that In was called on
	rules     []*compiled
	guards    []guard
	unprotect []*compiled
}

// compiled is a rule ready for matching.
type compiled struct {
	Rule
	match  matcher
	group  int // of the rules given together
	weight int // how specific it is
}

// New creates a policy, or returns an error that names every rule that is wrong.
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
	var err error
	if p.guards, err = guards(slices.Concat(alwaysProtected(), o.Protected)); err != nil {
		errs = append(errs, err)
	}
	for layer := range o.Rules {
		if !slices.Contains(layers(), layer) {
			errs = append(errs, fmt.Errorf("permissions: no layer %q", layer))
		}
	}
	for _, layer := range layers() {
		rules := o.Rules[layer]
		if layer == BuiltIn && !o.NoDefaults { // by themselves, since exceptions are from rules given together
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
// on. The rules of p stay, so a sub-agent is bound by the rules of its parent.
func (p *Policy) With(layer Layer, rules ...Rule) (*Policy, error) {
	if !slices.Contains(layers(), layer) {
		return nil, fmt.Errorf("permissions: no layer %q", layer)
	}
	out := *p
	out.rules = slices.Clip(p.rules)
	if err := out.add(layer, rules); err != nil {
		return nil, err
	}
	return &out, nil
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

// Bounded returns the policy with another confinement of commands; see Options.Sandbox and
// Options.Auto.
func (p *Policy) Bounded(c Confinement, auto bool) *Policy {
	out := *p
	out.opt.Sandbox, out.opt.Auto, out.rules = c, auto, slices.Clip(p.rules)
	return &out
}

// Open reports whether nothing keeps commands from the network.
func (p *Policy) Open() bool { return p.opt.Sandbox != Confined }

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

// usual returns the rules that hold where no other matches: files inside the folder may be read,
// the web may be searched, and an agent may think, plan, ask, read skills, recall notes and delegate
// work to other agents, which are bound by the same rules. Everything else asks: writing, commands,
// fetching from the web, tools of MCP servers and scripts.
//
// Reading files that usually hold secrets asks, too, such as .env and *.pem; see keyFiles. Tools that list or search a folder
// leave them out: see Reads.
func usual() []Rule {
	var out []Rule
	for _, text := range []string{
		"read_file(**)", "ls(**)", "glob(**)", "grep(**)", "search_docs", "web_search",
		"think", "todo", "ask_user", "skill", "task", "task_batch", "recall",
	} {
		name, pattern, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
		out = append(out, Rule{Decision: tool.Allow, Tool: name, Pattern: pattern, Layer: BuiltIn})
	}
	return out
}

// keyFiles ask about files that usually hold secrets.
func keyFiles() []Rule {
	var out []Rule
	for _, pattern := range []string{
		"**/.env*", "**/?*.env", "**/.aws/**", "**/.ssh/**", "**/.gnupg/**", "**/.netrc", "**/.npmrc", "**/.pypirc", "**/.pgpass", "**/.git-credentials",
		"**/.git/config", "**/.git/config.worktree", "**/.git/modules/**/config",
		"**/.htpasswd",
		"**/*.pem", "**/*.key", "**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore", "**/*.kdbx", "**/id_rsa*", "**/id_dsa*", "**/id_ecdsa*", "**/id_ed25519*",
		"**/credentials", "**/credentials.{json,yml,yaml,toml,ini,xml,csv,txt}", "**/.config/gcloud/**", "**/.kube/config", "**/.docker/config.json",
	} {
		out = append(out, Rule{Decision: tool.Ask, Tool: "read_file", Pattern: pattern, Layer: BuiltIn, Otherwise: strings.HasPrefix(pattern, "**/.env")})
	}
	for _, end := range []string{"example", "sample", "template"} {
		out = append(out, Rule{Decision: tool.Allow, Tool: "read_file", Pattern: "**/.env*." + end, Layer: BuiltIn})
	}
	return append(out, Rule{Decision: tool.Ask, Tool: "search_docs", Pattern: "large", Layer: BuiltIn})
}

// Check decides on a call. It implements tool.Gate.
func (p *Policy) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	if t == nil || c == nil {
		return p.headless(tool.Verdict{Decision: tool.Ask, Reason: "there is no call to decide on"})
	}
	f := p.facts(t.Name, c.Args)
	v := p.decide(f)
	v.Subject = clean.Text(f.subject)
	if v.Decision == tool.Ask {
		v.Parts = p.parts(f)
	}
	if v.Decision == tool.Ask && f.why == "" {
		if v.Always = p.always(f); v.Always == "" {
			v.Missing = p.missing(f)
		}
	}
	return p.headless(v)
}

// Grants reports whether a rule, as a user's answer, would allow a call. It lifts neither a denial
// nor a rule that must ask each time. It implements tool.Granter.
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
		v.Decision, v.Always, v.Missing = tool.Deny, "", nil
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
			if allowed == nil || !f.units[i].reads && got.weight() > allowed.weight() {
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
	case p.opt.Auto && p.opt.Sandbox == Confined && f.tool == "bash" && !f.outside && !f.malformed && (worst == nil || worst.rule == nil):
		return tool.Verdict{Decision: tool.Allow, Bounded: true, Origin: string(User), Reason: "it stays in the sandbox"}
	case f.why != "" && !p.bare(f):
		return tool.Verdict{Decision: tool.Ask, Origin: string(BuiltIn), Reason: "it has to be asked about: " + f.why}
	case worst != nil:
		return worst.verdict()
	case allowed != nil && allowed.rule != nil:
		return allowed.verdict()
	}
	return tool.Verdict{Decision: tool.Ask, Origin: string(BuiltIn), Reason: "no rule allows it"}
}

// bare reports whether a rule without a pattern allows every call of the tool.
func (p *Policy) bare(f *facts) bool {
	if f.malformed || f.firm {
		return false
	}
	for _, r := range p.rules {
		if r.Ignored == "" && r.Decision == tool.Allow && r.Pattern == "" && glob(r.Tool, f.tool) {
			return true
		}
	}
	return false
}

// A finding is the decision of the rules on one unit.
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
	case u.ask != "":
		return finding{decision: tool.Ask, reason: u.ask}
	case ask != nil && !p.lifted(f, u, ask):
		return finding{decision: tool.Ask, rule: ask}
	case allow != nil:
		return finding{decision: tool.Allow, rule: allow}
	case u.around || u.named:
		return finding{decision: tool.Allow}
	}
	return finding{decision: tool.Ask, unit: u}
}

// excepted reports whether a catch-all rule yields to another rule for a unit.
func (p *Policy) excepted(f *facts, u *unit, r *compiled) bool {
	return slices.ContainsFunc(p.rules, func(o *compiled) bool {
		return o.group == r.group && !o.Otherwise && o.Ignored == "" && u.match(f, o) == yes
	})
}

// lifted reports whether a user's answer lifts a rule that asks.
func (p *Policy) lifted(f *facts, u *unit, ask *compiled) bool {
	if ask.Layer == BuiltIn {
		return false
	}
	for _, r := range p.rules {
		if r.Layer == Granted && r.Decision == tool.Allow && (r.weight >= ask.weight || u.reads && r.weight/100 >= ask.weight/100) && u.match(f, r) == yes {
			return true
		}
	}
	return false
}

// parts returns the decisions on each simple command of a call, and on each file that a command
// writes. It returns nil for a call with one part.
func (p *Policy) parts(f *facts) []tool.Part {
	var out []tool.Part
	for i := range f.units {
		u := &f.units[i]
		text := u.what
		if u.words != nil {
			text = clean.Text(readable(u.words))
		}
		if text == "" {
			continue
		}
		v := p.unit(f, u).verdict()
		out = append(out, tool.Part{Text: text, Decision: v.Decision, Rule: v.Rule, Origin: v.Origin, Reason: v.Reason})
	}
	if len(out) < 2 {
		return nil
	}
	return out
}
