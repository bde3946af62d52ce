package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A Session holds the running tools and servers that agents of a project need. Close it.
type Session struct {
	p       *project // nil for a run that is replayed
	root    *builtin.Root
	mu      sync.Mutex
	own     map[string]*builtin.Root // of agents that have a folder of their own, by that
	said    map[string]bool          // what was noticed already
	tools   *tool.Set
	policy  *permit.Policy
	sandbox *sandbox.Sandbox // nil if nothing starts programs, or as the user wants it
	team    *team.Team
	servers *mcp.Group
	broken  []script.Problem // why tools of files cannot be used
	docs    docs
	model   string // of agents that name none
}

// replaying returns a session for a run that is replayed. The run's log defines its agents, so nothing of a project is
// read or started.
func replaying() (s *Session, err error) {
	s = &Session{}
	s.team, err = team.New(&team.Options{
		Agents: func(name string) (*agent.Agent, error) { return s.Agent(name, "") },
		List:   func() []team.Info { return nil },
	})
	return s, err
}

// start loads the usable scripts and connects the usable MCP servers that are needed. If one fails, start notifies the user
// and omits it. The model is used by agents that do not name one. If empty, they use the configured model. If n is nil,
// everything is needed.
func (p *project) start(ctx context.Context, model string, n *needs) (s *Session, err error) {
	if err := p.settingsError(); err != nil {
		return nil, err
	}
	if p.of == "" { // else it was said at the start
		p.tellPassed()
		if text := p.broken(); text != "" {
			p.h.cfg.Notice(text)
		}
	}
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
	if p.startsCommands() {
		if s.sandbox, err = p.openSandbox(s.policy, nil); err != nil {
			return s, err
		}
		set := p.sandboxed()
		s.policy = s.policy.Bounded(confinement(s.sandbox, set), set.auto)
	}
	if p.dir != "" {
		if s.root, err = builtin.OpenRoot(p.dir, &builtin.RootOptions{Protected: s.policy.Protected, Reads: s.reads, Writes: s.sandbox.Keep}); err != nil {
			return s, err
		}
	}
	own, err := p.builtins(s)
	if err != nil {
		return s, err
	}
	list = append(list, own...)
	open := s.policy.Open()
	for _, t := range list {
		t.Network = t.Name == "bash" && (open || len(s.policy.Network()) > 0)
	}
	use := p.usage(n)
	for _, t := range s.scriptTools(ctx, use) {
		t.Network = t.Network || open
		list = append(list, t)
	}
	list = append(list, s.connect(ctx, use)...)
	set, err := tool.NewSet(list...)
	if err != nil {
		return s, err
	}
	s.tools = set.Guarded(tool.Guard{Gate: tainted(s.policy), Headless: p.headless, Strict: p.h.strict(), Remember: p.remember})
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
	err := errors.Join(s.docs.close(), s.sandbox.Close())
	for _, root := range s.own {
		err = errors.Join(err, root.Close())
	}
	if s.root != nil {
		err = errors.Join(err, s.root.Close())
	}
	return err
}

// Tools returns all tools except task, task_batch and ask_user, which only agents have. The rules of the user and the
// project apply to every call of these tools; see tool.Guard.
func (s *Session) Tools() *tool.Set { return s.tools }

// Session starts the tools for agents in the host's folder: it loads scripts and connects MCP servers. The caller closes it.
func (h *Host) Session(ctx context.Context) (*Session, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	return p.start(ctx, "", nil)
}

// Find returns the tool of a name, or all that begin with a name that ends with "*". The result includes the tools that
// only agents have. If it finds none, the error states the reason.
func (s *Session) Find(name string) ([]*tool.Tool, error) {
	prefix, group := strings.CutSuffix(name, "*")
	list := append(s.tools.Tools(), askUser().Tool)
	for _, a := range s.team.Actions() {
		list = append(list, a.Tool)
	}
	out := slices.DeleteFunc(list, func(t *tool.Tool) bool { return t.Name != name && !(group && strings.HasPrefix(t.Name, prefix)) })
	if len(out) > 0 {
		return out, nil
	}
	for _, e := range s.p.builtinEntries() {
		if e.Name == name && e.State == catalog.Usable { // it is made for each run
			return []*tool.Tool{{Name: name, Description: e.Description}}, nil
		}
	}
	return nil, s.missing(name)
}

// Call calls a tool as an agent would. By typing the call, the user approves it if it needs approval; a denied call is an error.
func (s *Session) Call(ctx context.Context, name string, args json.RawMessage) (*tool.Result, error) {
	t, ok := s.tools.Get(name)
	if !ok {
		return nil, s.missing(name)
	}
	call := &tool.Call{ID: "call", Key: "call-" + rand.Text(), Args: args, Permitted: true}
	gate := s.tools.Guard().Gate
	if gate, ok := gate.(tool.Reader); ok {
		call.Reads = func(name, from string) func(string) tool.Verdict { return gate.Reads(name, from, nil) }
	}
	if v := gate.Check(t, call); v.Decision == tool.Deny {
		return nil, &Error{Code: superstep.CodeDenied, Message: fmt.Sprintf("%s %s is denied: %s", name, v.Subject, v.Reason)}
	}
	res := s.tools.Call(ctx, name, call)
	return &res, nil
}

// missing returns the error for a tool that does not exist, cannot be used, or works only for
// agents.
func (s *Session) missing(name string) error {
	for _, e := range s.p.tools() {
		prefix, group := strings.CutSuffix(e.Name, "*")
		if e.Name != name && !slices.Contains(e.Tools, name) && !(group && strings.HasPrefix(name, prefix)) {
			continue
		}
		switch e.State {
		case catalog.Usable:
			if e.Source == catalog.BuiltIn {
				return mistake(fmt.Sprintf("tool %s works within a run only: %s", e.Name, e.Description))
			}
		case catalog.Untrusted, catalog.Changed:
			hidden := &catalog.UntrustedError{Kind: "tool", Name: name, Path: e.Path, State: e.State}
			return &Error{Code: "untrusted", Message: hidden.Error(), Err: hidden}
		case catalog.Off:
			return mistake(fmt.Sprintf("the tool %s is off: %s", e.Name, e.Description))
		case catalog.Disabled:
			return mistake(fmt.Sprintf("tool %s is disabled", e.Name))
		}
	}
	for _, x := range s.broken {
		if base, _, _ := strings.Cut(filepath.Base(x.File), "."); name == base || strings.HasPrefix(name, base+"_") {
			return &Error{Code: "unusable", Message: fmt.Sprintf("tool %s cannot be used: %v", name, x)}
		}
	}
	for _, x := range s.p.ToolProblems() {
		if !x.Warning && strings.HasPrefix(filepath.Base(x.File), name+".") {
			return &Error{Code: "unusable", Message: fmt.Sprintf("tool %s cannot be used: %v", name, x)}
		}
	}
	return mistake(fmt.Sprintf("there is no tool %q%s", name, toolnames.Hint(name, s.tools.Names())))
}

// unknown returns why no tool has this name.
func (s *Session) unknown(name string) string {
	err := s.missing(name)
	if errors.As(err, new(*catalog.UntrustedError)) {
		return err.Error() + "; look at it and decide: superstep trust"
	}
	return err.Error()
}

// scriptTools loads the usable tools in files. A request for any other tool returns the reason why it cannot be used.
func (s *Session) scriptTools(ctx context.Context, use *usage) []*tool.Tool {
	tools, problems := s.p.load(ctx, s.sandbox, use)
	for _, x := range problems {
		if !x.Warning {
			s.broken = append(s.broken, x)
		}
	}
	return tools
}

// scriptOptions returns the options for loading tools in files.
func (p *project) scriptOptions(in *sandbox.Sandbox) *script.Options {
	return &script.Options{Environ: p.h.cfg.Environ, Temp: p.h.Temp(), Directory: p.dir, Worktree: p.dir, Reserved: toolnames.Builtin(), Sandbox: in}
}

// load loads the tools in files that may be used, and that are used.
func (p *project) load(ctx context.Context, in *sandbox.Sandbox, use *usage) ([]*tool.Tool, []script.Problem) {
	found := slices.DeleteFunc(p.Scripts(), func(f script.Found) bool { return !use.file(catalog.ScriptName(&f), f.Names) })
	if len(found) == 0 {
		return nil, nil
	}
	return script.LoadAll(ctx, found, p.scriptOptions(in))
}

// Broken returns one line about files of tools and MCP servers that cannot be used, such as a .mcp.json that is no JSON, or "" if all can.
func (h *Host) Broken() string {
	p, err := h.project()
	if err != nil {
		return "" // which is said where the project is used
	}
	return p.broken()
}

func (p *project) broken() string {
	wrong := slices.DeleteFunc(p.ToolProblems(), func(x catalog.Problem) bool { return x.Warning })
	if len(wrong) == 0 {
		return ""
	}
	more := ""
	if n := len(wrong) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	wrong[0].File = p.Shown(wrong[0].File)
	return fmt.Sprintf("some tools cannot be used: %v%s; superstep tools list shows what is wrong", wrong[0], more)
}

// tellPassed reports the unused definitions of the project.
func (p *project) tellPassed() {
	var items []trust.Status
	for _, s := range p.Items(trust.Config, trust.Tool, trust.MCP, trust.Agent, trust.Skill, trust.MCPTools) {
		if s.State != trust.Trusted { // recipes are wanted by name, and refused then
			items = append(items, s)
		}
	}
	if len(items) > 0 {
		p.h.cfg.Passed(unusedItems(items))
	}
}

// unusedItems returns one line about the unused items of a project.
func unusedItems(items []trust.Status) string {
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

// connect connects to the usable MCP servers in parallel.
func (s *Session) connect(ctx context.Context, uses *usage) []*tool.Tool {
	p := s.p
	var use []*mcp.Server
	for _, server := range p.Servers() {
		if !uses.server(server.Name) {
			continue
		}
		if p.h.cfg.Offline && server.Transport != mcp.Stdio {
			p.h.cfg.Notice("MCP server " + server.Name + " is on the network and is not used")
			continue
		}
		use = append(use, server)
	}
	opt := p.mcpOptions()
	opt.Trust, opt.Sandbox = p.TrustServer, s.sandbox
	if p.h.cfg.TrustProject {
		opt.Trust = func(*mcp.Server, string) error { return nil } // whatever a run before this one changed
	}
	if p.folder != "" {
		opt.Pin = p.pin
	}
	s.servers = mcp.ConnectAll(ctx, use, opt)
	tools, err := s.servers.Tools(ctx)
	for _, err := range append(s.servers.Errors(), err) {
		if err != nil {
			p.h.cfg.Notice("not used: " + err.Error())
		}
	}
	return tools
}

// policy returns the permission rules of the user and the project.
func (p *project) policy() (*permit.Policy, error) {
	rules := map[permit.Layer][]permit.Rule{permit.Run: p.rules}
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
	if p.of != "" {
		rules[permit.BuiltIn] = append(rules[permit.BuiltIn], permit.Rule{Decision: tool.Allow, Tool: "write_file", Pattern: "**"},
			permit.Rule{Decision: tool.Allow, Tool: "edit_file", Pattern: "**"})
	}
	trusted := false
	if c := p.settings.project; c != nil && p.SettingsState() == catalog.Usable {
		rules[permit.Project], trusted = c.rules, true
	}
	return permit.New(&permit.Options{
		Rules: rules, TrustProject: trusted, Root: p.dir, Home: p.h.Home(), Resolve: trust.Resolved, Linked: linked, Protected: append(p.Protected(), vendorFolders()...),
		Unprotect: unprotect, Shell: builtin.ShellKind(&builtin.BashOptions{Environ: p.h.cfg.Environ}),
	})
}

// misspelled finds rules about tools that do not exist. Such a rule is always a mistake if it was
// given with the run. In the user's file it may be meant for another project, unless it resembles the
// name of a built-in tool.
func (p *project) misspelled() error {
	known := append(toolnames.Builtin(), "net", "unsandboxed") // these two are about commands
	known = append(known, p.ToolNames()...)
	check := func(rules []permit.Rule, strict bool) error {
		for _, r := range rules {
			if strings.ContainsAny(r.Tool, "*?") || strings.HasPrefix(r.Tool, "mcp__") || slices.Contains(known, r.Tool) {
				continue
			}
			if near := suggest.Closest(r.Tool, known); strict || near != "" && slices.Contains(toolnames.Builtin(), near) {
				return &settingsError{[]catalog.Problem{{Kind: "settings", File: r.Source,
					Text: fmt.Sprintf("the rule %s is about a tool %q, and there is none%s", r, r.Tool, toolnames.Hint(r.Tool, known))}}}
			}
		}
		return nil
	}
	if p.settings.user != nil {
		if err := check(p.settings.user.rules, false); err != nil {
			return err
		}
	}
	return check(p.rules, true)
}

// settingsError returns the mistake in the project's settings if the user trusted an earlier version of them. Without
// the error, actions that this version denied would now be allowed. If the settings were never trusted, the mistake is
// only listed in Problems.
func (p *project) settingsError() error {
	b := p.settings.broken
	if b == nil || p.folder == "" {
		return nil
	}
	list, err := p.trust.Status(p.folder, []trust.Item{{Kind: trust.Config, Name: "config", Path: ".superstep/config.yaml", Digest: b.digest}})
	if err != nil {
		return err
	}
	if list[0].State == trust.New {
		return nil
	}
	return &settingsError{slices.Concat(p.settings.problems,
		[]catalog.Problem{{Text: "you trusted this file, and what it denied would be allowed: mend it, or remove it"}})}
}

// modelOf returns the model of an agent. The first one set applies: the requested one, the one in
// its definition, the session's default, the project's, or the configured one. The effort of the
// definition goes before that of a default, but not before one that was requested, or that follows the name of the model in the definition.
func (p *project) modelOf(d *definition.Definition, asked, usual string) (string, error) {
	if asked == "" && isExternal(d.Model) {
		return d.Model, nil // it needs no model of ours
	}
	fallback := cmp.Or(asked, usual, p.projectModel())
	if fallback == "" {
		m, err := p.models("")
		if err != nil {
			return "", err
		}
		fallback = m.Name()
	}
	if asked != "" {
		return p.h.withEffort(asked, d.Effort, effort.With), nil
	} else if d.Model == "" {
		return p.h.withEffort(fallback, d.Effort, effort.Instead), nil
	}
	name, note, err := p.h.resolve(d.Model, fallback)
	if err != nil {
		return "", fmt.Errorf("agent %s: %w", d.Name, err)
	}
	if note != "" {
		p.h.cfg.Notice("agent " + d.Name + ": " + note)
	}
	if _, said := effort.Split(d.Model); said != "" {
		return name, nil
	}
	return p.h.withEffort(name, d.Effort, effort.Instead), nil
}

// withEffort adds the effort of a definition to the name of a model, unless the program brought the model along.
func (h *Host) withEffort(name, word string, add func(name, word string) string) string {
	if slices.ContainsFunc(h.cfg.Models, func(m model.Model) bool { return m.Name() == name }) {
		return name
	}
	return add(name, word)
}

// subAgents returns the sub-agents that a lead may start.
func (s *Session) subAgents() []team.Info {
	var out []team.Info
	for _, d := range s.p.UsableAgents() {
		if d.Mode != definition.Primary && !d.Hidden {
			out = append(out, team.Info{Name: d.Name, Description: d.Description})
		}
	}
	return out
}

// subAgent creates the named agent for a lead that delegates to it.
func (s *Session) subAgent(name string) (*agent.Agent, error) {
	d, err := s.p.Agent(name)
	if err != nil {
		return nil, err
	}
	if d.Mode == definition.Primary {
		return nil, fmt.Errorf("agent %s works for people only", name)
	}
	return s.make(d, "")
}

// Agent creates the agent of a name, with its tools, and with sub-agents to give work to. The model
// is the requested one. If empty, the agent's own model is used.
func (s *Session) Agent(name, asked string) (*agent.Agent, error) {
	if s.p == nil { // its log says which actions it has
		return &agent.Agent{Name: name, Model: model.Named(""), Actions: append(s.team.Actions(), askUser())}, nil
	}
	d, err := s.p.Agent(name)
	if err != nil {
		return nil, err
	}
	return s.make(d, asked)
}

// make creates an agent.
func (s *Session) make(d *definition.Definition, asked string) (*agent.Agent, error) {
	p := s.p
	name, err := p.modelOf(d, asked, s.model)
	if err != nil {
		return nil, err
	}
	m, err := p.models(name)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	if isExternal(m.Name()) {
		if m, err = p.h.external(m.Name(), p.dir); err != nil {
			return nil, fmt.Errorf("agent %s: %w", d.Name, err)
		}
	}
	a := &agent.Agent{
		Name: d.Name, Model: m, Headless: p.headless, Strict: p.h.strict(), Clock: &agent.Clock{Now: time.Now, After: time.After}, Remember: p.remember,
		Limits: agent.Limits{Turns: cmp.Or(d.MaxTurns, defaultTurns), Single: d.Kind == definition.Simple},
	}
	if !p.h.Sealed() {
		a.Spill = p.spill
	}
	if limits := p.h.limits(); limits != nil {
		a.RateLimits = limits
	}
	if a.Gate, err = s.gate(d); err != nil {
		return nil, err
	}
	if isExternal(m.Name()) && p.h.keepsTools(m.Name(), d) {
		a.Prompt = strings.TrimSpace(d.Prompt)
		return a, nil
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

// defaultTurns is the turn limit of agents whose definition sets none. It stops an agent that
// repeats itself; budgets limit the cost.
const defaultTurns = 50

// toolsOf returns the tools of an agent.
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
		if !strings.Contains(want, "*") && !slices.Contains(names, want) && !slices.Contains(toolnames.Builtin(), want) {
			s.once(fmt.Sprintf("agent %s wants a tool %s: %s", d.Name, want, s.unknown(want)))
		}
	}
	if d.Tools == nil { // it would have those
		for _, x := range s.broken {
			s.once("not used: " + x.Error())
		}
	}
	return s.tools.Select(names...)
}

// once shows a notice only once per session, because an agent is created anew each time it is requested.
func (s *Session) once(text string) {
	s.mu.Lock()
	said := s.said[text]
	if s.said == nil {
		s.said = map[string]bool{}
	}
	s.said[text] = true
	s.mu.Unlock()
	if !said {
		s.p.h.cfg.Notice(text)
	}
}

const workingFolder = "You work in the folder of the project. Paths are relative to it."

// prompt returns the system prompt of an agent: its own text, its folder, and the available skills.
func (s *Session) prompt(d *definition.Definition, tools *tool.Set) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(d.Prompt))
	if _, reads := tools.Get("read_file"); reads && s.p.dir != "" {
		b.WriteString("\n\n" + workingFolder) // not its path, which is another where the run was imported
	}
	if _, ok := tools.Get("skill"); ok {
		if text := s.p.UsableSkills(d.Skills...).Prompt(); text != "" {
			b.WriteString("\n\n" + text)
		}
	}
	for server, text := range s.servers.Instructions() {
		if slices.ContainsFunc(tools.Names(), func(n string) bool { return strings.HasPrefix(n, "mcp__"+server+"__") }) {
			fmt.Fprintf(&b, "\n\nThe MCP server %s says of its tools:\n%s", server, text)
		}
	}
	return strings.TrimSpace(b.String())
}

// Prompt returns the text of the named prompt of an MCP server, with arguments in order or as name=value. If name is "", it lists the prompts of all usable
// servers, a line each. It starts the servers that it asks, and ends them. The text begins with the name: an agent that is sent such a message knows by it
// that a server wrote the rest, as in the result of a call.
func (h *Host) Prompt(ctx context.Context, name string, args ...string) (text string, err error) {
	p, err := h.project()
	if err != nil {
		return "", err
	}
	need := &needs{}
	for _, s := range p.Servers() {
		if prefix := "mcp__" + s.Name + "__"; strings.HasPrefix(name, prefix) || name == "" {
			need.tools = append(need.tools, prefix)
		}
	}
	s, err := p.start(ctx, "", need)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list, err := s.servers.Prompts(ctx)
	var names, lines []string
	for i := range list {
		if list[i].Name == name {
			if text, err = list[i].Text(ctx, args...); err == nil {
				text = toolnames.Prompt(name, text) // so it cannot begin with what means something there, and taints the conversation
			}
			return text, err
		}
		names = append(names, list[i].Name)
		lines = append(lines, strings.TrimRight("/"+list[i].Usage()+"  "+list[i].Description, " "))
	}
	switch {
	case err != nil:
		return "", err
	case name != "":
		return "", mistake(fmt.Sprintf("no usable MCP server has a prompt %s%s; /prompts lists them", name, suggest.Hint(name, names)))
	case len(lines) == 0:
		return "no usable MCP server has prompts", nil
	}
	return strings.Join(lines, "\n"), nil
}
