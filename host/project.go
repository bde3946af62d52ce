package host

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// A project holds the definitions that a folder and its user provide to one run: agents, tools in files, MCP servers,
// skills, recipes, and permission rules. It does not change when the files change on disk. Untrusted items of a folder
// are listed but never used, not even as text.
type project struct {
	*catalog.Catalog
	h         *Host
	dir       string // with symbolic links resolved; "" for none
	of        string // the project if dir is a worktree of it, in which agents may write and run commands; "" else
	folder    string // where agents, tools and skills of the project are looked for, "" for nowhere
	settings  *settings
	trust     *trust.Store
	workflows workflow.Set // that recipes may run besides each other

	rules    []permit.Rule // of the run
	headless bool
	models   func(name string) (model.Model, error)
}

// project returns the project of the folder that the host works in, as the settings have it. It is read once.
func (h *Host) project() (*project, error) { return h.projectIn(h.Dir()) }

func (h *Host) projectIn(dir string) (*project, error) {
	rules, err := h.rules(nil)
	if err != nil {
		return nil, err
	}
	return h.projectAt(dir, rules, h.headless(h.cfg.OnAsk), h.agentModel)
}

// projectAt returns the project of a folder for a run with these rules and models. It reads the folder on the first call.
func (h *Host) projectAt(dir string, rules []permit.Rule, headless bool, models func(string) (model.Model, error)) (*project, error) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	found := h.all.projects[dir]
	if found == nil {
		var err error
		if found, err = h.readProject(dir); err != nil {
			return nil, err
		}
		h.all.opened.Add(1)
		h.all.projects[dir] = found
	}
	p := *found
	p.h, p.rules, p.headless, p.models = h, rules, headless, models
	if h.cfg.TrustProject {
		p.trust = p.trust.TrustAll()
		p.Catalog = p.Catalog.Trusting(p.trust)
	}
	return &p, nil
}

// readProject reads the rules of a folder and its user, and opens the catalog of their items. Mistakes in the
// project's files are added to its problems.
func (h *Host) readProject(dir string) (*project, error) {
	p := &project{h: h, dir: dir, workflows: h.base()}
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("the project's folder cannot be read: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("the project's folder %s is a file", dir)
		}
		var err error
		if p.dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, err
		}
	}
	var err error
	if p.trust, err = h.trustStore(); err != nil {
		return nil, err
	}
	if !within(p.dir, p.trust.Path()) { // a folder that holds the user's own things is no project
		p.folder = p.dir
	}
	if p.settings, err = readSettings(p.folder, h.ConfigDir()); err != nil {
		return nil, err
	}
	c := &catalog.Options{
		Dir: p.dir, Home: h.Home(), ConfigHome: filepath.Dir(h.ConfigDir()), StateDir: h.ConfigDir(), Trust: p.trust, Servers: p.mcpOptions(),
		UserFiles: []string{userSettings(h.ConfigDir())},
	}
	if p.dir != "" {
		c.ProjectFiles = []string{projectSettings(p.dir)}
	}
	if f := p.settings.project; f != nil {
		c.Settings = &trust.Item{Name: "config", Path: f.path, Digest: f.digest, Detail: f.detail()}
	}
	for _, w := range p.workflows {
		c.Workflows = append(c.Workflows, w.Name)
	}
	if !h.cfg.NoModels {
		c.Taken = []string{delegate.Name}
	}
	p.Catalog, err = catalog.Open(c)
	return p, err
}

// headless reports whether the options of a run exclude asking a user.
func (h *Host) headless(said string) bool {
	return said != "wait" && (h.cfg.Headless || said == "deny" || said == "fail")
}

// within reports whether a path lies in a folder, symbolic links resolved as far as they exist.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, trust.Resolved(path))
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

func (p *project) mcpOptions() *mcp.Options {
	h := p.h
	return &mcp.Options{
		Project: p.folder, Environ: h.cfg.Environ,
		Env:  func(name string) (string, bool) { v := h.cfg.Env(name); return v, v != "" },
		Warn: func(server, text string) { h.cfg.Notice("MCP server " + server + ": " + text) },
	}
}

// problems returns the errors and warnings in the order in which they were found.
func (p *project) problems() []catalog.Problem {
	return slices.Concat(p.settings.problems, p.Problems())
}

// projectModel returns the model that the configuration of the project names, and where, as path:line. It returns "" if no
// model is named or the user does not trust the project's configuration.
func (h *Host) projectModel() (name, where string) {
	p, err := h.project()
	if err != nil || p.projectModel() == "" {
		return "", ""
	}
	c := p.settings.project
	return c.model, clean.Place(c.path, c.modelLine, 0)
}

// projectModel returns the model that the project names. If it names none, or the user does not
// trust it, projectModel returns "".
func (p *project) projectModel() string {
	if c := p.settings.project; c != nil && p.SettingsState() == catalog.Usable {
		return c.model
	}
	return ""
}

// origin returns the folder that the user knows the project by.
func (p *project) origin() string { return cmp.Or(p.of, p.dir) }
