// Package project puts together what a folder and its user have for agents to work with:
// definitions of agents, tools in files, MCP servers, skills, recipes, and rules about what they may do.
//
// Open only reads. What of a project the user has not agreed to is listed and not used, not
// even as text. Start runs what is needed, and a Session makes agents that can work.
package project

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/catalog/trust"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// Options say where to look and what to work with. Nothing of them is read from the process.
type Options struct {
	Dir        string // the project's folder, absolute; "" for none
	Home       string // the user's home; "" for none
	ConfigHome string // the user's folder of configurations, such as ~/.config; defaults to .config in Home
	// StateDir is the folder for what the user agreed to, outside of every project. Defaults to
	// the folder superstep in ConfigHome.
	StateDir string

	Environ []string            // "NAME=value", as os.Environ gives it; tools see little of it
	Env     func(string) string // defaults to looking in Environ

	// TrustProject uses everything of the project, for callers that nobody can ask, such as CI.
	TrustProject bool
	// Models opens a model, "" being the one that is configured. It is required for agents.
	Models func(name string) (model.Model, error)
	// Resolve gives the model that a name in a definition stands for, with the model to fall
	// back to, and what to say about it. Defaults to the name itself, or the fallback for "".
	Resolve func(name, fallback string) (resolved, note string, err error)

	Rules []permit.Rule // given with this run; see permit.Run
	OnAsk agent.OnAsk   // what becomes of calls that a person is to decide on; defaults to agent.AskWait
	// Web is what searches the web. Nil if it cannot be searched.
	Web builtin.Searcher
	// Private are files and folders that no command of a run sees, such as those of the store. StateDir is one of them.
	Private []string
	// Offline keeps tools of this program from opening connections.
	Offline    bool
	HTTPClient *http.Client // for MCP servers
	// ResultsDir is the folder for results of a run that are too large for a conversation, "" for
	// none, so that they are truncated. Defaults to none.
	ResultsDir func(run string) string
	// Redact takes secrets out of what is written there. Defaults to nothing.
	Redact   func(string) string
	CacheDir string // for the index of search_docs; "" for no such tool
	// Runtimes of script tools; see script.Options.
	Runtimes []string
	Clock    *agent.Clock
	// Workflows are those that recipes may run besides each other. Taken are the names of others, which
	// no recipe may have.
	Workflows []*workflow.Workflow
	Taken     []string
	Notice    func(string) // what people should know; from any goroutine; defaults to nobody
	// Passed is told at Start what of the project is not used, since nobody agreed to it as it is.
	// Defaults to a Notice.
	Passed func([]trust.Status)
}

// A Project is what was found. It is a value: what changes on disk afterwards is not in it.
// It is safe for use from several goroutines.
type Project struct {
	*catalog.Catalog
	opt      Options
	folder   string // where agents, tools and skills of the project are looked for, "" for nowhere
	settings *settings
	trust    *trust.Store
}

// Open reads what there is. The error is about the options, or about the record of what the
// user agreed to; what is wrong with files is among the Problems.
func Open(opt *Options) (*Project, error) {
	p := &Project{}
	if opt != nil {
		p.opt = *opt
	}
	if err := p.defaults(); err != nil {
		return nil, err
	}
	store, err := trust.Open(filepath.Join(p.opt.StateDir, "trust.json"))
	if err != nil {
		return nil, err
	}
	p.trust = store
	if !within(p.opt.Dir, store.Path()) { // a folder that holds the user's own things is no project
		p.folder = p.opt.Dir
	}
	if p.opt.TrustProject {
		p.trust = store.TrustAll()
	}
	if err := p.find(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Project) defaults() error {
	o := &p.opt
	if o.Dir != "" && !filepath.IsAbs(o.Dir) {
		return fmt.Errorf("the project's folder %q is not absolute", o.Dir)
	}
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil {
			return fmt.Errorf("the project's folder cannot be read: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("the project's folder %s is a file", o.Dir)
		}
		dir, err := filepath.EvalSymlinks(o.Dir)
		if err != nil {
			return err
		}
		o.Dir = dir
	}
	if o.ConfigHome == "" && o.Home != "" {
		o.ConfigHome = filepath.Join(o.Home, ".config")
	}
	if o.StateDir == "" {
		if o.ConfigHome == "" {
			return errors.New("there is no folder for what the user agrees to; set the home or the folder of configurations")
		}
		o.StateDir = filepath.Join(o.ConfigHome, "superstep")
	}
	return o.fill()
}

// fill sets the defaults of options that are not about folders.
func (o *Options) fill() error {
	if o.Env == nil {
		environ := o.Environ
		o.Env = func(name string) string {
			for _, v := range slices.Backward(environ) {
				if k, value, _ := strings.Cut(v, "="); k == name {
					return value
				}
			}
			return ""
		}
	}
	if o.Resolve == nil {
		o.Resolve = func(name, fallback string) (string, string, error) { return cmp.Or(name, fallback), "", nil }
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.ResultsDir == nil {
		o.ResultsDir = func(string) string { return "" }
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Passed == nil {
		o.Passed = func(items []trust.Status) { o.Notice(Summary(items)) }
	}
	if o.OnAsk != "" && o.OnAsk != agent.AskWait && o.OnAsk != agent.AskDeny {
		return fmt.Errorf("OnAsk is %q; want %q or %q", o.OnAsk, agent.AskWait, agent.AskDeny)
	}
	return nil
}

// within reports whether a path lies in a folder, symbolic links resolved as far as they exist.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, trust.Resolved(path))
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

// find reads the settings of the project and of the user, and opens the catalog of what there is.
func (p *Project) find() (err error) {
	o := &p.opt
	if p.settings, err = readSettings(p.folder, o.ConfigHome); err != nil {
		return err
	}
	c := &catalog.Options{
		Dir: o.Dir, Home: o.Home, ConfigHome: o.ConfigHome, StateDir: o.StateDir, Trust: p.trust, Servers: p.mcpOptions(), Taken: o.Taken,
	}
	if o.ConfigHome != "" {
		c.UserFiles = []string{userSettings(o.ConfigHome)}
	}
	if o.Dir != "" {
		c.ProjectFiles = []string{projectSettings(o.Dir)}
	}
	if f := p.settings.project; f != nil {
		c.Settings = &trust.Item{Name: "config", Path: f.path, Digest: f.digest, Detail: f.detail()}
	}
	for _, w := range o.Workflows {
		c.Workflows = append(c.Workflows, w.Name)
	}
	p.Catalog, err = catalog.Open(c)
	return err
}

func (p *Project) mcpOptions() *mcp.Options {
	o := &p.opt
	return &mcp.Options{
		Project: p.folder, Environ: o.Environ, HTTP: o.HTTPClient,
		Env:  func(name string) (string, bool) { v := o.Env(name); return v, v != "" },
		Warn: func(server, text string) { o.Notice("MCP server " + server + ": " + text) },
	}
}

// Problems are what cannot be used and what is odd, in the order in which it was found.
func (p *Project) Problems() []catalog.Problem {
	return slices.Concat(p.settings.problems, p.Catalog.Problems())
}

// Dir is the project's folder, with symbolic links resolved; "" for none.
func (p *Project) Dir() string { return p.opt.Dir }
