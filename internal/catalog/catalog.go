// Package catalog finds the items that agents work with: definitions of agents, skills, recipes, tools in files and
// MCP servers. They come from a project, from its user or from this program.
//
// Each folder is read once, when an item of its kind is first requested. If several items have one name, the project's
// takes precedence over the user's, and the user's over the built-in one. Within each scope, the order of the folders
// decides. The package only reads: it runs nothing and starts no server. Untrusted items of a project are listed but
// must not be used, not even as text; see State.
package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
)

// These are the scopes of items, in order of precedence.
const (
	Project = "project"
	User    = "user"
	BuiltIn = "built-in"
)

// Options name the folders to search. If nil, only built-in items are found.
type Options struct {
	// Dir is the absolute path of the project's folder. If empty, there is no project. The folder that stores the
	// user's decisions on trust is never a project.
	Dir        string
	Home       string       // the user's home; "" for none
	ConfigHome string       // the user's folder of configurations; defaults to .config in Home
	StateDir   string       // the user's own folder, which is protected; "" for none
	Trust      *trust.Store // what the user trusted; defaults to nothing
	Servers    *mcp.Options // how servers are configured; defaults to those of the project
	// Settings are the project's settings as an item that the user can trust. If nil, the project
	// has no settings.
	Settings *trust.Item
	// Workflows are the names of workflows that are no recipes and that recipes may run. Taken are those of others. A
	// recipe can have neither.
	Workflows, Taken []string
	// ProjectFiles and UserFiles are other files that are read as settings, absolute, so that they are protected.
	ProjectFiles, UserFiles []string

	builtin fs.FS // recipes instead of those that come with this program
	bare    bool  // leave out the agents that come with this program
}

// A State describes whether an item may be used.
type State string

// The states of an item.
const (
	Usable      State = "usable"       // built in, the user's own, or trusted
	Untrusted   State = "not trusted"  // of the project, and nobody has trusted it
	Changed     State = "changed"      // it was trusted, and is another now
	Invalid     State = "invalid"      // it has mistakes
	Draft       State = "draft"        // a recipe that waits for approval
	Disabled    State = "disabled"     // a server that is switched off
	Off         State = "off"          // a tool that comes with this program and needs something to be used
	NotRunnable State = "not runnable" // a workflow that was written for another program
)

// An Item is an entry of the catalog, for display.
type Item struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`   // of a tool: built-in, module, command or mcp; of an agent its dialect; skill, recipe or atomic
	Source       string   `json:"source"` // Project, User or BuiltIn
	Path         string   `json:"path,omitempty"`
	State        State    `json:"state"`
	Description  string   `json:"description,omitempty"`
	Model        string   `json:"model,omitempty"`        // as the definition has it
	Tools        []string `json:"tools,omitempty"`        // what is known of them before it runs
	Capabilities []string `json:"capabilities,omitempty"` // of an agent
	Aliases      []string `json:"aliases,omitempty"`      // of a recipe or an agent, those that it is found by
	Overrides    []string `json:"overrides,omitempty"`
	Problems     []string `json:"problems,omitempty"` // why it is invalid
	Warnings     []string `json:"warnings,omitempty"`
	Digest       string   `json:"-"` // of all that would be used, "" if that is not known
}

// A Problem describes an item that cannot be used, or a warning.
type Problem struct {
	Kind      string // agents, tools, skills, workflows or settings
	File      string // "" if it is about no file
	Line, Col int    // from 1; 0 if it is about the file as a whole
	Text      string
	Warning   bool // it can be used all the same
}

// Where returns the place: a file, file:line or file:line:col.
func (p Problem) Where() string { return clean.Place(p.File, p.Line, p.Col) }

func (p Problem) String() string {
	if p.File == "" {
		return p.Text
	}
	return p.Where() + ": " + p.Text
}

// A NotFoundError reports that no item of a kind has the name.
type NotFoundError struct {
	Kind  string // agent, skill or recipe
	Name  string
	Known []string // those there are
	// Because explains why a file yields no item: it is turned off or broken.
	Because string
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Because != "":
		return fmt.Sprintf("there is no %s %s: %s", e.Kind, clean.Quote(e.Name), e.Because)
	case len(e.Known) == 0:
		return fmt.Sprintf("there is no %s %s, and no other", e.Kind, clean.Quote(e.Name))
	}
	return fmt.Sprintf("there is no %s %s%s", e.Kind, clean.Quote(e.Name), suggest.Hint(e.Name, e.Known))
}

// FailureCode returns the code of runs that fail with the error.
func (e *NotFoundError) FailureCode() string {
	if e.Kind == "recipe" {
		return "unknown_workflow"
	}
	return ""
}

// A Catalog holds the items that were found. It does not include later changes on disk. It is safe for use from several goroutines.
type Catalog struct {
	opt     Options
	folder  string // of the project, "" for none
	agents  func() *agents
	skills  func() *found[*skill.Skill]
	recipes func() *recipes
	scripts func() *scripts
	servers func() *servers
	foreign func() []Item // workflows of Atomic
	guarded func() []permit.Protected

	mu     sync.Mutex
	states map[trust.Kind][]trust.Status // of the kinds that were judged
	age    int                           // how often what was judged was forgotten
	walks  map[string]int                // how often a folder was read
}

// Open does not read any folder yet. It fails if the options are invalid or the user's decisions on trust
// cannot be read.
func Open(opt *Options) (*Catalog, error) {
	c := &Catalog{states: map[trust.Kind][]trust.Status{}, walks: map[string]int{}}
	if opt != nil {
		c.opt = *opt
	}
	o := &c.opt
	for _, dir := range []string{o.Dir, o.Home, o.ConfigHome} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("folder %q: must be an absolute path", dir)
		}
	}
	if o.ConfigHome == "" && o.Home != "" {
		o.ConfigHome = filepath.Join(o.Home, ".config")
	}
	if o.Trust == nil || !within(o.Dir, o.Trust.Path()) {
		c.folder = o.Dir
	}
	if o.Servers == nil {
		o.Servers = &mcp.Options{Project: c.folder}
	}
	c.agents, c.skills, c.recipes = sync.OnceValue(c.readAgents), sync.OnceValue(c.readSkills), sync.OnceValue(c.readRecipes)
	c.scripts, c.servers, c.foreign = sync.OnceValue(c.readScripts), sync.OnceValue(c.readServers), sync.OnceValue(c.readForeign)
	c.guarded = sync.OnceValue(c.protect)
	if o.Trust != nil && c.folder != "" {
		if _, err := o.Trust.Status(c.folder, nil); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Trusting returns the catalog with another trust record. It reads nothing again.
func (c *Catalog) Trusting(s *trust.Store) *Catalog {
	t := &Catalog{
		opt: c.opt, folder: c.folder, states: map[trust.Kind][]trust.Status{}, walks: map[string]int{},
		agents: c.agents, skills: c.skills, recipes: c.recipes, scripts: c.scripts, servers: c.servers, foreign: c.foreign, guarded: c.guarded,
	}
	t.opt.Trust = s
	return t
}

// Walks returns how often each folder was read.
func (c *Catalog) Walks() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.walks)
}

// Problems returns the errors and warnings about items, in this order: tools, agents, skills and
// workflows.
func (c *Catalog) Problems() []Problem {
	r := c.recipes()
	out := slices.Concat(c.ToolProblems(), c.agents().problems, c.skills().problems, c.RecipeFolders())
	for _, list := range [][]*RecipeFile{r.entries, r.drafts} {
		for _, e := range list {
			out = append(out, recipeProblems(e.Problems)...)
		}
	}
	return out
}

// ToolProblems returns the Problems of tools in files and of servers.
func (c *Catalog) ToolProblems() []Problem {
	return slices.Concat(c.scripts().problems, c.servers().problems)
}

// found holds the items of one kind in the order of precedence, the item in use for each name, and the problems.
type found[T any] struct {
	all      []T
	list     []T // by name, those that go before the others of their name
	problems []Problem
}

// precede returns, sorted by name, the items that take precedence over others of their name, and records
// in each the items that it overrides.
func (f *found[T]) precede(name func(T) string, overrides func(first, other T)) {
	byName := map[string]T{}
	for _, x := range f.all {
		first, there := byName[name(x)]
		if there {
			overrides(first, x)
			continue
		}
		byName[name(x)] = x
		f.list = append(f.list, x)
	}
	slices.SortFunc(f.list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
}

// A kind of folder, as the table of places has it.
type kind string

const (
	agentFolder   kind = "agents"
	skillFolder   kind = "skills"
	toolFolder    kind = "tools"
	recipeFolder  kind = "workflows"
	foreignFolder kind = "workflows of Atomic"
)

// table lists the folders to read, for each kind in order of precedence. A folder of the user is below the home, or
// below the configuration folder if config is set.
var table = []struct {
	kind    kind
	scope   string
	config  bool
	dirs    string
	dialect string
}{
	{agentFolder, Project, false, ".superstep/agents", definition.Superstep},
	{agentFolder, Project, false, ".claude/agents", definition.Claude},
	{agentFolder, Project, false, ".opencode/agents .opencode/agent", definition.OpenCode},
	{agentFolder, Project, false, ".github/agents", definition.Copilot},
	{agentFolder, User, true, "superstep/agents", definition.Superstep},
	{agentFolder, User, false, ".claude/agents", definition.Claude},
	{agentFolder, User, true, "opencode/agents opencode/agent", definition.OpenCode},
	{agentFolder, User, false, ".opencode/agents", definition.OpenCode},
	{agentFolder, User, true, ".copilot/agents", definition.Copilot},
	{agentFolder, User, false, ".copilot/agents", definition.Copilot},
	{skillFolder, Project, false, ".superstep/skills .claude/skills .agents/skills .opencode/skills .opencode/skill .github/skills skills", ""},
	{skillFolder, User, true, "superstep/skills", ""},
	{skillFolder, User, false, ".claude/skills .agents/skills", ""},
	{skillFolder, User, true, "opencode/skills opencode/skill", ""},
	{toolFolder, Project, false, ".superstep/tools .opencode/tools .opencode/tool .atomic/tools", ""},
	{toolFolder, User, true, "superstep/tools opencode/tools opencode/tool", ""},
	{toolFolder, User, false, ".opencode/tools .opencode/tool .atomic/tools", ""},
	{recipeFolder, Project, false, ".superstep/workflows", ""},
	{recipeFolder, User, true, "superstep/workflows", ""},
	{foreignFolder, Project, false, ".atomic/workflows", ""},
	{foreignFolder, User, false, ".atomic/workflows", ""},
}

// A place is a folder that is looked into.
type place struct {
	kind    kind
	base    string // the folder that links may not leave
	dir     string // in it, with slashes
	in      string // the first folder of the table's, with slashes and in base
	scope   string
	dialect string
}

// path returns the absolute path of the folder.
func (p place) path() string { return filepath.Join(p.base, filepath.FromSlash(p.dir)) }

// places returns the folders of a kind in order of precedence. If the kind is "", it returns all
// folders.
func places(of kind, project, home, configHome string) []place {
	config, below := configHome, ""
	if rel, err := filepath.Rel(home, config); home != "" && err == nil && filepath.IsLocal(rel) {
		config, below = home, filepath.ToSlash(rel) // people keep such files in a repository in their home and link to them
	}
	var out []place
	for _, t := range table {
		base, at := project, ""
		switch {
		case t.scope == User && t.config:
			base, at = config, below
		case t.scope == User:
			base = home
		}
		if base == "" || of != "" && of != t.kind {
			continue
		}
		for dir := range strings.FieldsSeq(t.dirs) {
			first, _, _ := strings.Cut(dir, "/")
			out = append(out, place{t.kind, base, path.Join(at, dir), path.Join(at, first), t.scope, t.dialect})
		}
	}
	return out
}

// walk reads the folders of a kind and their subfolders, each once.
func (c *Catalog) walk(of kind, problems *[]Problem, each func(f *frontmatter.Folder, p place)) {
	for _, p := range places(of, c.folder, c.opt.Home, c.opt.ConfigHome) {
		c.read(p, problems, each)
	}
}

// read opens the folder of a place to look into.
func (c *Catalog) read(p place, problems *[]Problem, each func(f *frontmatter.Folder, p place)) {
	c.count(p.path())
	f, err := frontmatter.OpenFolder(p.base)
	if err == nil {
		defer f.Close()
		each(f, p)
	} else if !errors.Is(err, fs.ErrNotExist) {
		*problems = append(*problems, Problem{Kind: string(p.kind), File: p.base, Text: "cannot be looked at: " + err.Error()})
	}
}

func (c *Catalog) count(dir string) {
	c.mu.Lock()
	c.walks[dir]++
	c.mu.Unlock()
}

// Shown returns a path for display: relative to the project, or to the home as ~.
func (c *Catalog) Shown(path string) string {
	if !filepath.IsAbs(path) {
		return "" // of what is built in
	}
	if rel, ok := strings.CutPrefix(path, c.opt.Dir+string(filepath.Separator)); ok && c.opt.Dir != "" {
		return rel
	}
	if rel, ok := strings.CutPrefix(path, c.opt.Home+string(filepath.Separator)); ok && c.opt.Home != "" {
		return "~/" + rel
	}
	return path
}
