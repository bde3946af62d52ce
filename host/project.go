package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
	delegate "github.com/superstep-dev/superstep/workflow/builtin/agent"
	"github.com/superstep-dev/superstep/workflow/recipe/compile"
)

// Project returns the project of the folder that the host works in, as the settings have it. It is read once.
func (h *Host) Project() (*project.Project, error) { return h.ProjectIn(h.Dir()) }

// ProjectIn is Project for another folder.
func (h *Host) ProjectIn(dir string) (*project.Project, error) {
	return h.projectAt(dir, h.options(h.cfg.Rules, h.cfg.OnAsk, h.agentModel))
}

// projectAt returns the project of a folder with the options of a run. The folder is read if it was not.
func (h *Host) projectAt(dir string, o *project.Options) (*project.Project, error) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	p := h.all.projects[dir]
	if p == nil {
		where := *o
		where.Dir, where.TrustProject = dir, false
		where.Taken = []string{delegate.Name}
		if h.cfg.NoModels {
			where.Taken = nil
		}
		where.Workflows = h.base()
		var err error
		if p, err = project.Open(&where); err != nil {
			return nil, err
		}
		h.all.opened.Add(1)
		h.all.projects[dir] = p
	}
	return p.With(o)
}

// options are those of a project for a run with these rules.
func (h *Host) options(rules []permit.Rule, onAsk string, models func(name string) (model.Model, error)) *project.Options {
	o := &project.Options{
		Home: h.Home(), ConfigHome: filepath.Dir(h.ConfigDir()), StateDir: h.ConfigDir(), Environ: h.cfg.Environ, Env: h.cfg.Env,
		TrustProject: h.cfg.TrustProject, Rules: rules, Offline: h.cfg.Offline, CacheDir: h.CacheDir(), Clock: h.cfg.Clock,
		ResultsDir: func(run string) string {
			if h.Sealed() { // what lies there would not be encrypted
				return ""
			}
			return filepath.Join(h.RunDir(run), "results")
		},
		Redact: func(s string) string { return h.Redactor().Text(s) },
		Models: models, Resolve: h.resolve, Notice: h.cfg.Notice, Passed: h.cfg.Passed,
		Private: []string{h.DataDir()},
	}
	o.Web, _ = h.searcher() // what is wrong with it is told by research
	if p, err := h.Place(); err == nil && p.Path != "" {
		for _, end := range []string{"", "-wal", "-shm", "-journal", ".owners"} { // a database has files beside it
			o.Private = append(o.Private, p.Path+end)
		}
	}
	switch {
	case onAsk == "wait":
		o.OnAsk = agent.AskWait
	case h.cfg.Headless || onAsk == "deny" || onAsk == "fail":
		o.OnAsk = agent.AskDeny
	}
	return o
}

// projectOf returns the project of a run in a folder, with the rules that it began with. Recipes may have models that agents
// which people talk to may not.
func (h *Host) projectOf(in *delegate.Inputs, models func(name string) (model.Model, error)) (*project.Project, error) {
	rules, err := h.rules(in)
	if err != nil {
		return nil, err
	}
	if h.cfg.Fresh {
		h.Refresh()
	}
	return h.projectAt(project.Root(in.Dir, h.Home()), h.options(rules, cmp.Or(h.cfg.OnAsk, in.OnAsk), models))
}

// rules are those that the run began with, and those of who goes on with it.
func (h *Host) rules(in *delegate.Inputs) ([]permit.Rule, error) {
	rules := slices.Clone(h.cfg.Rules)
	for _, text := range in.Rules {
		r, err := ParseRule(text)
		if err != nil {
			return nil, &workflow.InputsError{Workflow: delegate.Name, Problems: []string{fmt.Sprintf("rules: %q: %v", text, err)}}
		}
		if !slices.ContainsFunc(rules, func(have permit.Rule) bool { return have.Decision == r.Decision && have.String() == r.String() }) {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// ParseRule reads a rule with its decision before it, such as "deny read_file(secret/**)".
func ParseRule(text string) (permit.Rule, error) {
	word, rule, _ := strings.Cut(text, " ")
	d, err := permit.ParseDecision(word)
	switch {
	case err != nil:
		return permit.Rule{}, err
	case d == "":
		return permit.Rule{}, errors.New("begin it with allow, ask or deny")
	}
	return permit.Parse(d, rule, "the run")
}

// texts are rules as ParseRule reads them.
func texts(rules []permit.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, string(r.Decision)+" "+r.String())
	}
	return out
}

// errReplay says that a replay does nothing.
var errReplay = errors.New("a replay does nothing")

// leads gives the workflow "agent" what it needs of a host.
type leads struct{ *Host }

func (h leads) prepare(in *delegate.Inputs) error {
	if info, err := os.Stat(in.Dir); err != nil || !info.IsDir() {
		return &workflow.InputsError{Workflow: delegate.Name, Problems: []string{"dir: there is no folder " + in.Dir}}
	}
	p, err := h.projectOf(in, h.agentModel)
	if err != nil {
		return err
	}
	if wary := p.Hidden(in.Agent); wary != nil && in.Agent != delegate.Lead {
		return wary // somebody asked for this one by its name
	}
	found, err := p.Prepare(in.Agent, in.Model)
	if err != nil {
		return unknown(err)
	}
	rules, err := h.rules(in)
	if err != nil {
		return err
	}
	in.Rules, in.OnAsk = texts(rules), cmp.Or(in.OnAsk, h.cfg.OnAsk)
	in.Dir, in.Model, in.Definition = p.Dir(), found.Model, found.Parts
	return nil
}

// unknown makes of an agent that there is not a mistake of the inputs.
func unknown(err error) error {
	var none *catalog.NotFoundError
	if errors.As(err, &none) {
		return &workflow.InputsError{Workflow: delegate.Name, Problems: []string{"agent: " + err.Error()}}
	}
	return err
}

func (h leads) crew(ctx context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
	if h.cfg.Replay {
		r, err := project.NewReplay()
		if err != nil {
			return nil, err
		}
		lead, err := r.Agent(in.Agent, in.Model)
		return &delegate.Crew{Agent: lead, Close: r.Close, SaveDraft: func(context.Context, string, []byte) (string, error) { return "", errReplay }}, err
	}
	p, err := h.projectOf(in, h.agentModel)
	if err != nil {
		return nil, err
	}
	found, err := p.Prepare(in.Agent, in.Model)
	if err != nil {
		return nil, unknown(err)
	}
	session, err := p.StartFor(ctx, in.Model, &project.Needs{Agents: []string{in.Agent}})
	if err != nil {
		return nil, err
	}
	lead, err := session.Agent(in.Agent, in.Model)
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return &delegate.Crew{
		Agent: lead, Definition: found.Parts, Close: session.Close, Check: p.Check,
		SaveDraft: func(_ context.Context, name string, text []byte) (string, error) {
			return p.SaveDraft(name, string(text), "agent "+in.Agent)
		},
	}, nil
}

// steps gives recipes the agents and tools of the project that their runs work in.
type steps struct{ *Host }

// options are those that recipes are compiled with.
func (h steps) options(lazy bool) *compile.Options {
	setting := compile.Setting{Dir: h.Dir(), OnAsk: h.cfg.OnAsk}
	if h.cfg.Model != h.cfg.UserModel { // which goes before what recipes and agents say only where it is said with the run
		setting.Model = h.cfg.Model
	}
	return &compile.Options{
		Setting: setting, Concurrency: h.cfg.Concurrency, Lazy: lazy, Compiled: &h.all.compiled, Prepare: h.prepare, Open: h.crew,
	}
}

// project opens the project of a run.
func (h steps) project(s *compile.Setting) (*project.Project, error) {
	return h.projectOf(&delegate.Inputs{Dir: s.Dir, Rules: s.Rules, OnAsk: s.OnAsk}, h.stepModel)
}

func (h steps) prepare(n *compile.Needs, s *compile.Setting) error {
	p, err := h.project(s)
	if err != nil {
		return err
	}
	if s.Parts, err = h.parts(p, n, s.Model); err != nil {
		return err
	}
	rules, err := h.rules(&delegate.Inputs{Rules: s.Rules})
	s.Rules = texts(rules)
	return err
}

// parts are the digests of all that the steps work with. Every agent is looked for, with its model.
func (h steps) parts(p *project.Project, n *compile.Needs, model string) (map[string]string, error) {
	parts := map[string]string{}
	var errs []error
	for _, a := range n.Agents {
		found, err := p.Prepare(a.Name, cmp.Or(model, a.Model))
		var none *Error
		switch {
		case errors.As(err, &none): // every agent lacks the model
			return nil, err
		case err != nil:
			errs = append(errs, fmt.Errorf("sub-agent %s: %w", a.Name, err))
		default:
			maps.Copy(parts, found.Parts)
		}
	}
	of, err := p.ToolParts(n.Tools)
	maps.Copy(parts, of)
	return parts, errors.Join(append(errs, err)...)
}

func (h steps) crew(ctx context.Context, n *compile.Needs, s *compile.Setting) (*compile.Crew, error) {
	if h.cfg.Replay {
		p, err := project.NewReplay()
		if err != nil {
			return nil, err
		}
		return &compile.Crew{Agent: p.Agent, Close: p.Close}, nil
	}
	p, err := h.project(s)
	if err != nil {
		return nil, err
	}
	parts, err := h.parts(p, n, s.Model)
	if err != nil {
		return nil, err
	}
	needs := &project.Needs{Tools: n.Tools}
	for _, a := range n.Agents {
		needs.Agents = append(needs.Agents, a.Name)
	}
	session, err := p.StartFor(ctx, s.Model, needs)
	if err != nil {
		return nil, err
	}
	return &compile.Crew{
		Agent: func(name, model string) (*agent.Agent, error) { return session.Agent(name, cmp.Or(s.Model, model)) },
		Tools: session.Tools(), Unknown: session.Unknown, Parts: parts, Close: session.Close,
	}, nil
}
