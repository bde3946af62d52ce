package project

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/skill"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/script"
	"github.com/superstep-dev/superstep/trust"
)

// An Entry is something there is, for people.
type Entry struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`   // of a tool: built-in, module, command or mcp; of an agent its dialect; or recipe
	Source       string   `json:"source"` // project, user or built-in
	Path         string   `json:"path,omitempty"`
	State        State    `json:"state"`
	Description  string   `json:"description,omitempty"`
	Model        string   `json:"model,omitempty"`        // as the definition has it
	Tools        []string `json:"tools,omitempty"`        // what is known of them before it runs
	Capabilities []string `json:"capabilities,omitempty"` // of an agent
	Aliases      []string `json:"aliases,omitempty"`      // of a recipe, those that it is found by
	Overrides    []string `json:"overrides,omitempty"`
	Problems     []string `json:"problems,omitempty"` // why it is invalid
	Warnings     []string `json:"warnings,omitempty"`
}

// Agents lists all agents that have all of the capabilities, those that may not be used too.
func (p *Project) Agents(capabilities ...definition.Capability) []Entry {
	var out []Entry
	for _, d := range p.all.ByCapability(capabilities...) {
		out = append(out, p.agentEntry(d))
	}
	return out
}

func (p *Project) agentEntry(d *definition.Definition) Entry {
	e := Entry{
		Name: d.Name, Kind: string(d.Source.Dialect), Source: scopeName(string(d.Source.Scope)), Path: p.shown(d.Source.Path),
		State: p.agentState(d), Description: d.Description, Model: d.Model, Tools: d.Tools,
	}
	for _, c := range d.Capabilities {
		e.Capabilities = append(e.Capabilities, string(c))
	}
	for _, o := range d.Overrides {
		e.Overrides = append(e.Overrides, strings.TrimSpace(scopeName(string(o.Scope))+" "+p.shown(o.Path)))
	}
	for _, w := range d.Warnings {
		e.Warnings = append(e.Warnings, place(p.shown(d.Source.Path), w.Line, w.Col)+": "+w.Text)
	}
	return e
}

// Definition is the agent of a name as its file has it, trusted or not, and how it is listed.
func (p *Project) Definition(name string) (*definition.Definition, Entry, error) {
	d, err := p.all.Find(name)
	if err != nil {
		return nil, Entry{}, err
	}
	return d, p.agentEntry(d), nil
}

// Skills lists all skills, those that may not be used too.
func (p *Project) Skills() []Entry {
	var out []Entry
	for _, s := range p.skills.List() {
		out = append(out, p.skillEntry(s))
	}
	return out
}

func (p *Project) skillEntry(s *skill.Skill) Entry {
	e := Entry{
		Name: s.Name, Kind: "skill", Source: scopeName(string(s.Source.Scope)), Path: p.shown(s.Source.Path),
		State: p.state(string(s.Source.Scope), trust.Skill, s.Name, s.Source.Path), Description: s.Description,
	}
	for _, o := range s.Overrides {
		e.Overrides = append(e.Overrides, scopeName(string(o.Scope))+" "+p.shown(o.Path))
	}
	for _, w := range s.Warnings {
		e.Warnings = append(e.Warnings, w.String())
	}
	return e
}

// Skill is the skill of a name with its instructions, trusted or not, and how it is listed.
func (p *Project) Skill(name string) (*skill.Content, Entry, error) {
	s, err := p.skills.Find(name)
	if err != nil {
		return nil, Entry{}, err
	}
	c, err := p.skills.Load(name)
	return c, p.skillEntry(s), err
}

// Tools lists the tools there are, as far as they are known before anything runs: a module is
// one entry, and so is an MCP server.
func (p *Project) Tools() []Entry {
	var out []Entry
	out = append(out, p.builtinEntries()...)
	byName := map[string]int{}
	for i := range p.scripts {
		f := &p.scripts[i]
		e := Entry{
			Name: scriptName(f), Kind: string(f.Kind), Source: f.Scope.Name, Path: p.shown(f.Path), Description: f.Description, Tools: f.Names,
			State: p.state(f.Scope.Name, trust.Tool, scriptName(f), f.Path),
		}
		switch {
		case e.Description != "":
		case f.Kind == script.Command:
			e.Description = "runs " + strings.Join(f.Command, " ")
		default:
			e.Description = "tools: " + strings.Join(f.Names, ", ")
		}
		if at, twice := byName[e.Name]; twice {
			out[at].Overrides = append(out[at].Overrides, e.Source+" "+e.Path)
			continue
		}
		byName[e.Name] = len(out)
		out = append(out, e)
	}
	for _, s := range p.servers.Servers {
		e := Entry{
			Name: "mcp__" + s.Name + "__*", Kind: "mcp", Source: s.Source.Scope, Path: p.shown(s.Source.Path), Description: s.CommandLine(),
			State: p.serverState(s),
		}
		if s.Disabled {
			e.State = "disabled"
		}
		for _, o := range s.Overrides {
			e.Overrides = append(e.Overrides, o.Scope+" "+p.shown(o.Path))
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

func rank(e Entry) int {
	return slices.Index([]string{builtinScope, userScope, projectScope}, e.Source)
}

func scopeName(s string) string {
	if s == string(definition.Builtin) {
		return builtinScope
	}
	return s
}

// shown is a path as it is shown: relative to the project, or below the home.
func (p *Project) shown(path string) string {
	if !filepath.IsAbs(path) {
		return "" // of what is built in
	}
	if p.opt.Dir != "" {
		if rel, ok := strings.CutPrefix(path, p.opt.Dir+string(filepath.Separator)); ok {
			return rel
		}
	}
	if p.opt.Home != "" {
		if rel, ok := strings.CutPrefix(path, p.opt.Home+string(filepath.Separator)); ok {
			return "~/" + rel
		}
	}
	return path
}

// Off is the state of a tool that comes with this program and needs something to be used.
const Off State = "off"

// builtinEntries are the tools that come with this program, those that are off too.
func (p *Project) builtinEntries() []Entry {
	described := map[string]string{
		"task":             "Has another agent do something, and gives its result",
		"task_batch":       "Has several agents work side by side, and gives their results in order",
		"ask_user":         askUser().Tool.Description,
		"run_workflow":     "Runs a workflow to its end, or in the background; for the agent that leads",
		"collect_workflow": "Gives the results of workflows in the background",
		"save_workflow":    "Proposes a recipe, which waits for approval",
	}
	does := map[string]string{"bash": "a shell", "web_search": "searches the web", "web_fetch": "fetches from the web", "skill": "reads skills"}
	tools, off := p.toolsHere()
	for _, t := range tools {
		described[t.Name] = t.Description
	}
	var out []Entry
	for _, name := range reserved() {
		e := Entry{Name: name, Kind: builtinScope, Source: builtinScope, State: Usable, Description: described[name]}
		if why := off[name]; why != "" {
			e.State, e.Description = Off, why
			if what := does[name]; what != "" {
				e.Description = what + "; " + why
			}
		}
		out = append(out, e)
	}
	return out
}

// toolsHere are the tools that come with this program and can be used here, to look at, and why the others
// of them cannot. Those that only agents have are in neither.
func (p *Project) toolsHere() (tools []*tool.Tool, off map[string]string) {
	why := map[string]string{
		"bash":       "turn it on with a rule of yours, such as --ask bash or --allow 'bash(go test *)'",
		"web_search": "set TAVILY_API_KEY, BRAVE_API_KEY or SEARXNG_URL",
		"web_fetch":  "it is off with --offline",
		"skill":      "there are none that may be used",
	}
	s := &Session{p: p}
	if p.opt.Dir != "" {
		if root, err := builtin.OpenRoot(p.opt.Dir); err == nil {
			s.root = root
			defer root.Close()
		}
	}
	tools, err := p.builtins(s)
	if err != nil {
		tools = nil
	}
	off = map[string]string{}
	for _, name := range reserved() {
		if !slices.Contains(agentOnly(), name) && !slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Name == name }) {
			off[name] = cmp.Or(why[name], "needs a folder to work in")
		}
	}
	return tools, off
}
