package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/tool/script"
	"github.com/superstep-dev/superstep/trust"
)

// A Session has everything running that agents of a project need. Close it.
type Session struct {
	p       *Project
	root    *builtin.Root
	mu      sync.Mutex
	own     map[string]*builtin.Root // of agents that have a folder of their own, by that
	said    map[string]bool          // what was noticed already
	tools   *tool.Set
	policy  *permit.Policy
	team    *team.Team
	servers *mcp.Group
	docs    docs
	model   string // of agents that name none
}

// Start runs what may be used: scripts are loaded and MCP servers connected. One that fails
// is noticed and left out. The model is that of agents that name none, "" for the one that is
// configured.
func (p *Project) Start(ctx context.Context, model string) (s *Session, err error) {
	if err := p.brokenSettings(); err != nil {
		return nil, err
	}
	p.passed()
	s = &Session{p: p, model: model}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var list []*tool.Tool
	if s.policy, err = p.policy(); err != nil {
		return s, err
	}
	if p.opt.Dir != "" {
		if s.root, err = builtin.OpenRootWith(p.opt.Dir, &builtin.RootOptions{Protected: s.policy.Protected}); err != nil {
			return s, err
		}
	}
	own, err := p.builtins(s)
	if err != nil {
		return s, err
	}
	list = append(list, own...)
	list = append(list, p.scriptTools(ctx)...)
	list = append(list, s.connect(ctx)...)
	if s.tools, err = tool.NewSet(list...); err != nil {
		return s, err
	}
	s.team, err = team.New(&team.Options{Agents: s.subAgent, List: s.subAgents, Isolate: s.isolate})
	return s, err
}

// Close ends what Start has started.
func (s *Session) Close() error {
	if s.team != nil {
		s.team.Close()
	}
	if s.servers != nil {
		s.servers.Close()
	}
	err := s.docs.close()
	for _, root := range s.own {
		err = errors.Join(err, root.Close())
	}
	if s.root != nil {
		err = errors.Join(err, s.root.Close())
	}
	return err
}

// Tools are the tools there are, but for those that only agents have: task, task_batch and ask_user.
func (s *Session) Tools() *tool.Set { return s.tools }

// scriptTools loads those that may be used.
func (p *Project) scriptTools(ctx context.Context) []*tool.Tool {
	var found []script.Found
	for i := range p.scripts {
		f := &p.scripts[i]
		if state := p.state(f.Scope.Name, trust.Tool, scriptName(f), f.Path); state == Usable {
			found = append(found, *f)
		}
	}
	if len(found) == 0 {
		return nil
	}
	tools, problems := script.LoadAll(ctx, found, &script.Options{
		Environ: p.opt.Environ, Runtimes: p.opt.Runtimes, Directory: p.opt.Dir, Worktree: p.opt.Dir, Reserved: reserved(),
	})
	for _, x := range problems {
		p.opt.Notice(x.Error())
	}
	return tools
}

// passed tells what of the project is not used.
func (p *Project) passed() {
	var items []trust.Status
	for _, s := range p.items {
		if s.State != trust.Trusted && s.Item.Kind != trust.Workflow { // those are wanted by name, and refused then
			items = append(items, s)
		}
	}
	if len(items) > 0 {
		p.opt.Passed(items)
	}
}

// Summary says in a line what of a project is not used.
func Summary(items []trust.Status) string {
	var names []string
	changed := 0
	for i, s := range items {
		if s.State == trust.Changed {
			changed++
		}
		if i < 6 {
			names = append(names, string(s.Item.Kind)+" "+s.Item.Name)
		}
	}
	if n := len(items) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	text := "1 item of the project is not trusted and is not used"
	if len(items) > 1 {
		text = fmt.Sprintf("%d items of the project are not trusted and are not used", len(items))
	}
	if changed > 0 {
		text += fmt.Sprintf(" (%d changed since)", changed)
	}
	return text + ": " + strings.Join(names, ", ")
}

// connect reaches the MCP servers that may be used, side by side.
func (s *Session) connect(ctx context.Context) []*tool.Tool {
	p := s.p
	var use []*mcp.Server
	for _, server := range p.usableServers() {
		if p.opt.Offline && server.Transport != mcp.Stdio {
			p.opt.Notice("MCP server " + server.Name + " is on the network and is not used")
			continue
		}
		use = append(use, server)
	}
	opt := p.mcpOptions()
	opt.Trust = p.trustServer
	if p.folder != "" {
		opt.Pin = p.pin
	}
	s.servers = mcp.ConnectAll(ctx, use, opt)
	tools, err := s.servers.Tools(ctx)
	for _, err := range append(s.servers.Errors(), err) {
		if err != nil {
			p.opt.Notice("not used: " + err.Error())
		}
	}
	return tools
}

// usableServers are those that may be used: one of the project that nobody agreed to does not
// hide one of the user's.
func (p *Project) usableServers() []*mcp.Server {
	var out []*mcp.Server
	for _, list := range [][]*mcp.Server{p.servers.Servers, p.ownServers.Servers} {
		for _, s := range list {
			have := slices.ContainsFunc(out, func(o *mcp.Server) bool { return o.Name == s.Name })
			if !have && !s.Disabled && p.state(s.Source.Scope, trust.MCP, s.Name, s.Source.Path) == Usable {
				out = append(out, s)
			}
		}
	}
	return out
}

// policy is what may happen unasked, and what never.
func (p *Project) policy() (*permit.Policy, error) {
	o := &p.opt
	rules := map[permit.Layer][]permit.Rule{permit.Run: o.Rules}
	var unprotect []string
	if p.settings.user != nil {
		rules[permit.User], unprotect = p.settings.user.rules, p.settings.user.unprotect
	}
	if err := p.misspelled(); err != nil {
		return nil, err
	}
	granted, err := p.granted()
	if err != nil {
		return nil, err
	}
	rules[permit.Granted] = granted
	if rules[permit.BuiltIn], err = p.defaultRules(); err != nil {
		return nil, err
	}
	trusted := false
	if c := p.settings.project; c != nil && p.state(projectScope, trust.Config, "config", c.path) == Usable {
		rules[permit.Project], trusted = c.rules, true
	}
	return permit.New(&permit.Options{
		Rules: rules, TrustProject: trusted, Root: o.Dir, Home: o.Home, Resolve: resolved, Protected: []string{o.StateDir}, Unprotect: unprotect,
		Shell: builtin.ShellKind(&builtin.BashOptions{Environ: o.Environ}),
	})
}

// misspelled finds rules about tools that there are not. One given with a run is always a mistake;
// one of the user's file may be for another project, unless it is nearly the name of a tool that comes
// with this program.
func (p *Project) misspelled() error {
	known := append(reserved(), p.toolNames()...)
	check := func(rules []permit.Rule, strict bool) error {
		for _, r := range rules {
			if strings.ContainsAny(r.Tool, "*?") || strings.HasPrefix(r.Tool, "mcp__") || slices.Contains(known, r.Tool) {
				continue
			}
			if near := suggest.Closest(r.Tool, known); strict || near != "" && slices.Contains(reserved(), near) {
				return &SettingsError{[]Problem{{Kind: "settings", Where: r.Source, Text: fmt.Sprintf("the rule %s is about a tool %q, and there is none%s", r, r.Tool, suggest.Hint(r.Tool, known))}}}
			}
		}
		return nil
	}
	if p.settings.user != nil {
		if err := check(p.settings.user.rules, false); err != nil {
			return err
		}
	}
	return check(p.opt.Rules, true)
}

// brokenSettings refuses to go on with settings that the user agreed to once and that cannot be
// read now: what they deny would be let happen. Others are only told of.
func (p *Project) brokenSettings() error {
	b := p.settings.broken
	if b == nil || p.folder == "" {
		return nil
	}
	list, err := p.trust.Status(p.folder, []trust.Item{{Kind: trust.Config, Name: "config", Path: p.rel(b.path), Digest: b.digest}})
	if err != nil {
		return err
	}
	wrong := &SettingsError{p.settings.problems}
	if list[0].State != trust.New {
		return wrong
	}
	p.opt.Notice("the settings of the project are not used: " + wrong.Error())
	return nil
}

// projectModel is the model that a trusted project names.
func (p *Project) projectModel() string {
	if c := p.settings.project; c != nil && p.state(projectScope, trust.Config, "config", c.path) == Usable {
		return c.model
	}
	return ""
}

// Model is the model that the project names, if the user trusts it; "" for none.
func (p *Project) Model() string { return p.projectModel() }

// Find gives the agent of a name that may be used: one of the project that is not trusted
// does not hide another of that name.
func (p *Project) Find(name string) (*definition.Definition, error) {
	wary := p.Hidden(name)
	if wary == nil {
		return p.all.Find(name)
	}
	own, err := p.own.Find(name)
	if err != nil {
		return nil, wary
	}
	return own, nil
}

// Hidden is the agent of that name that the project has and that is not used, since nobody agreed
// to it as it is; nil for none.
func (p *Project) Hidden(name string) *UntrustedError {
	d, err := p.all.Find(name)
	if err != nil {
		return nil
	}
	if state := p.agentState(d); state != Usable {
		return &UntrustedError{Kind: "agent", Name: d.Name, Path: p.rel(d.Source.Path), State: state}
	}
	return nil
}

// An UntrustedError says that something of the project is wanted that the user has not agreed to.
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

// FailureCode is the word for runs that fail with the error.
func (e *UntrustedError) FailureCode() string { return "untrusted" }

// usable are the agents that may be used, by name.
func (p *Project) usable() []*definition.Definition {
	byName := map[string]*definition.Definition{}
	for _, d := range p.own.List() {
		byName[d.Name] = d
	}
	for _, d := range p.all.List() {
		if p.agentState(d) == Usable {
			byName[d.Name] = d
		}
	}
	out := make([]*definition.Definition, 0, len(byName))
	for _, d := range byName {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *definition.Definition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// modelOf is the model of an agent: the one asked for, the one its definition names, the usual one
// where it runs, the project's, or the one that is configured.
func (p *Project) modelOf(d *definition.Definition, asked, usual string) (string, error) {
	fallback := cmp.Or(asked, usual, p.projectModel())
	if fallback == "" {
		m, err := p.open("")
		if err != nil {
			return "", err
		}
		fallback = m.Name()
	}
	if asked != "" || d.Model == "" {
		return fallback, nil
	}
	name, note, err := p.opt.Resolve(d.Model, fallback)
	if err != nil {
		return "", fmt.Errorf("agent %s: %w", d.Name, err)
	}
	if note != "" {
		p.opt.Notice("agent " + d.Name + ": " + note)
	}
	return name, nil
}

func (p *Project) open(name string) (model.Model, error) {
	if p.opt.Models == nil {
		return nil, errors.New("there is no way to get models")
	}
	return p.opt.Models(name)
}

// subAgents are those that a lead may give work to.
func (s *Session) subAgents() []team.Info {
	var out []team.Info
	for _, d := range s.p.usable() {
		if d.Mode != definition.Primary && !d.Hidden {
			out = append(out, team.Info{Name: d.Name, Description: d.Description})
		}
	}
	return out
}

// subAgent makes the agent of a name for somebody who delegates to it.
func (s *Session) subAgent(name string) (*agent.Agent, error) {
	d, err := s.p.Find(name)
	if err != nil {
		return nil, err
	}
	if d.Mode == definition.Primary {
		return nil, fmt.Errorf("agent %s works for people only", name)
	}
	return s.make(d, "")
}

// Agent makes the agent of a name, with its tools, and with sub-agents to give work to. The
// model is the one asked for, "" for that of the agent.
func (s *Session) Agent(name, model string) (*agent.Agent, error) {
	d, err := s.p.Find(name)
	if err != nil {
		return nil, err
	}
	return s.make(d, model)
}

// make makes an agent.
func (s *Session) make(d *definition.Definition, asked string) (*agent.Agent, error) {
	p := s.p
	name, err := p.modelOf(d, asked, s.model)
	if err != nil {
		return nil, err
	}
	m, err := p.open(name)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	a := &agent.Agent{
		Name: d.Name, Model: m, OnAsk: p.opt.OnAsk, Clock: p.opt.Clock, Remember: p.remember,
		Limits: agent.Limits{Turns: cmp.Or(d.MaxTurns, defaultTurns), Single: d.Kind == definition.Simple},
	}
	if p.opt.ResultsDir("run") != "" {
		a.Spill = p.spill
	}
	if a.Gate, err = s.gate(d); err != nil {
		return nil, err
	}
	if d.Kind != definition.Simple {
		if a.Tools, err = s.toolsOf(d); err != nil {
			return nil, err
		}
		if d.MayUse("ask_user") {
			a.Actions = append(a.Actions, askUser())
		}
		for _, action := range s.team.Actions() {
			if d.MayUse(action.Tool.Name) {
				a.Actions = append(a.Actions, s.p.delegating(d, action))
			}
		}
	}
	a.Prompt = s.prompt(d, a.Tools)
	return a, nil
}

// defaultTurns bounds agents whose definition does not: it is there to stop one that goes round
// in circles, and budgets are what bounds cost.
const defaultTurns = 50

// toolsOf are the tools of an agent.
func (s *Session) toolsOf(d *definition.Definition) (*tool.Set, error) {
	var names []string
	for _, name := range s.tools.Names() {
		server, _, of := strings.Cut(strings.TrimPrefix(name, "mcp__"), "__")
		if of && strings.HasPrefix(name, "mcp__") && d.MCPServers != nil && !slices.Contains(d.MCPServers, server) {
			continue
		}
		if d.MayUse(name) {
			names = append(names, name)
		}
	}
	for _, want := range d.Tools {
		if want == "bash" && !slices.Contains(names, want) {
			s.once(fmt.Sprintf("agent %s has no shell: it has one where a rule of yours is about bash (--ask bash)", d.Name))
		}
		if !strings.Contains(want, "*") && !slices.Contains(names, want) && !slices.Contains(reserved(), want) {
			s.once(fmt.Sprintf("agent %s wants a tool %s, and there is none%s", d.Name, want, suggest.Hint(want, s.tools.Names())))
		}
	}
	return s.tools.Select(names...)
}

// once gives a notice, unless the session has given it before: an agent is made each time that it is wanted.
func (s *Session) once(text string) {
	s.mu.Lock()
	said := s.said[text]
	if s.said == nil {
		s.said = map[string]bool{}
	}
	s.said[text] = true
	s.mu.Unlock()
	if !said {
		s.p.opt.Notice(text)
	}
}

// prompt is the system prompt of an agent: its own, where it works, and the skills there are.
func (s *Session) prompt(d *definition.Definition, tools *tool.Set) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(d.Prompt))
	if _, reads := tools.Get("read_file"); reads && s.p.opt.Dir != "" {
		fmt.Fprintf(&b, "\n\nYou work in the folder %s. Paths are relative to it.", s.p.opt.Dir)
	}
	if _, ok := tools.Get("skill"); ok {
		if text := s.p.usableSkills(d).Prompt(); text != "" {
			b.WriteString("\n\n" + text)
		}
	}
	for _, c := range s.servers.Conns() {
		text := c.Instructions()
		uses := slices.ContainsFunc(tools.Names(), func(n string) bool { return strings.HasPrefix(n, "mcp__"+c.Server().Name+"__") })
		if text != "" && uses {
			fmt.Fprintf(&b, "\n\nThe MCP server %s says of its tools:\n%s", c.Server().Name, text)
		}
	}
	return strings.TrimSpace(b.String())
}

// OnAsk is what becomes of calls that a person is to decide on.
func (s *Session) OnAsk() agent.OnAsk { return s.p.opt.OnAsk }

// Remember is what keeps a rule that a person has always allowed, see agent.Agent.
func (s *Session) Remember() func(rule string) error { return s.p.remember }

// Gate decides on calls by the rules of the user and the project, for callers that are no agents.
func (s *Session) Gate() tool.Gate { return s.policy }

// Unknown says that there is no tool of a name, and which there are.
func (s *Session) Unknown(name string) string {
	for _, e := range s.p.builtinEntries() {
		if e.Name == name && e.State == Off {
			return fmt.Sprintf("the tool %s is off: %s", name, e.Description)
		}
	}
	return fmt.Sprintf("there is no tool %q%s", name, suggest.Hint(name, s.tools.Names()))
}
