package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/model/providers"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/delegate"
)

// agents opens projects with models, and gives the workflow "agent" what it needs of them.
type agents struct {
	setup  *cli.Setup
	models *models
}

// shortWait is how long the model of an agent waits by itself for its provider. A longer wait is the
// agent's, which records it, so that it is not begun anew after a crash.
const shortWait = 3 * time.Second

func newAgents(s *cli.Setup) *agents {
	m := newModels(s)
	m.wait = shortWait
	return &agents{setup: s, models: m}
}

// open opens the project of a run, or with nil that of the current folder.
func (a *agents) open(in *delegate.Inputs) (*project.Project, error) { return a.openWith(in, a.model) }

// openWith is open with the models that agents may have.
func (a *agents) openWith(in *delegate.Inputs, models func(name string) (model.Model, error)) (*project.Project, error) {
	o := *a.setup.Project
	if in != nil {
		o.Dir = project.Root(in.Dir, o.Home)
		rules, err := a.rules(in)
		if err != nil {
			return nil, err
		}
		o.Rules = rules
		switch cmp.Or(a.setup.OnAsk, in.OnAsk) {
		case "wait":
			o.OnAsk = agent.AskWait
		case "deny", "fail":
			o.OnAsk = agent.AskDeny
		}
	}
	o.Models, o.Resolve = models, a.resolve
	var err error
	if o.Web, err = a.searcher(); err != nil {
		return nil, err
	}
	o.Clock = &agent.Clock{Now: time.Now, After: time.After}
	return project.Open(&o)
}

// rules are those that the run began with, and those of the flags of who goes on with it.
func (a *agents) rules(in *delegate.Inputs) ([]permit.Rule, error) {
	rules := slices.Clone(a.setup.Project.Rules)
	for _, text := range in.Rules {
		word, rule, _ := strings.Cut(text, " ")
		d, err := permit.ParseDecision(word)
		if err == nil && d == "" {
			err = errors.New("begin it with allow, ask or deny")
		}
		var r permit.Rule
		if err == nil {
			r, err = permit.Parse(d, rule, "the run")
		}
		if err != nil {
			return nil, &workflow.InputsError{Workflow: delegate.Name, Problems: []string{fmt.Sprintf("rules: %q: %v", text, err)}}
		}
		if !slices.ContainsFunc(rules, func(have permit.Rule) bool { return have.Decision == r.Decision && have.String() == r.String() }) {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// searcher is what agents search the web with, nil for nothing.
func (a *agents) searcher() (builtin.Searcher, error) {
	env := a.setup.Env
	switch {
	case env("TAVILY_API_KEY") != "":
		return builtin.Tavily(builtin.WebOptions{APIKey: env("TAVILY_API_KEY"), BaseURL: env("TAVILY_BASE_URL")})
	case env("BRAVE_API_KEY") != "":
		return builtin.Brave(builtin.WebOptions{APIKey: env("BRAVE_API_KEY")})
	case env("SEARXNG_URL") != "":
		return builtin.SearXNG(builtin.WebOptions{BaseURL: env("SEARXNG_URL")})
	}
	return nil, nil
}

// model opens the model of a name for an agent that people talk to. Such a one needs a model that can
// reason, so the offline model is none.
func (a *agents) model(name string) (model.Model, error) {
	refused := func() error {
		return cli.NoModel("an agent needs a model that can reason, and offline only quotes documents",
			"see what there is: superstep models list",
			"it answers questions about documents: superstep run research QUESTION --docs DIR")
	}
	if name == offline.Name {
		return nil, refused()
	}
	m, err := a.anyModel(name)
	if err == nil && m.Name() == offline.Name { // as the user configured
		return nil, refused()
	}
	var none *cli.Error
	if errors.As(err, &none) { // the offline model is of no use here
		none.Next = slices.DeleteFunc(none.Next, func(hint string) bool { return strings.Contains(hint, "offline") })
		if errors.Is(err, errNoModel) {
			none.Message += ", and an agent needs one"
			none.Next = append(none.Next, "without any, there is: superstep run research QUESTION --docs DIR")
		}
	}
	return m, err
}

// errNoModel says that nobody named or configured a model.
var errNoModel = errors.New("no model is configured")

// anyModel opens the model of a name for a step of a recipe, which may be the offline model. That one
// is taken only if it is named: without a model there is none.
func (a *agents) anyModel(name string) (model.Model, error) {
	if name == "" {
		p, err := a.models.load()
		if err != nil {
			return nil, err
		}
		if p.Choose(context.Background()).Layer == providers.ByDefault {
			none := cli.NoModel(errNoModel.Error(),
				"set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY",
				"start Ollama, LM Studio or llama.cpp on this machine",
				"see what there is: superstep models list",
				"or try it now: superstep run "+cmp.Or(a.setup.Workflow, "NAME")+" --model offline")
			none.Err = errNoModel
			return nil, none
		}
	}
	return a.models.open(name)
}

func (a *agents) resolve(name, fallback string) (resolved, note string, err error) {
	p, err := a.models.load()
	if err != nil {
		return "", "", err
	}
	resolved, note, err = p.Resolve(name, fallback)
	return resolved, note, explain(err)
}

// workflow is the workflow "agent", which may run the others.
func (a *agents) workflow(others []*workflow.Workflow) (*workflow.Workflow, error) {
	return delegate.New(&delegate.Options{Prepare: a.prepare, Open: a.crew, Workflows: others})
}

func (a *agents) prepare(in *delegate.Inputs) error {
	if info, err := os.Stat(in.Dir); err != nil || !info.IsDir() {
		return &workflow.InputsError{Workflow: delegate.Name, Problems: []string{"dir: there is no folder " + in.Dir}}
	}
	p, err := a.open(in)
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
	rules, err := a.rules(in)
	if err != nil {
		return err
	}
	in.Rules = nil
	for _, r := range rules {
		in.Rules = append(in.Rules, string(r.Decision)+" "+r.String())
	}
	in.OnAsk = cmp.Or(in.OnAsk, a.setup.OnAsk)
	in.Dir, in.Model, in.Definition = p.Dir(), found.Model, found.Parts
	return nil
}

// unknown makes of an agent that there is not a mistake of the inputs.
func unknown(err error) error {
	var none *definition.NotFoundError
	if errors.As(err, &none) {
		return &workflow.InputsError{Workflow: delegate.Name, Problems: []string{"agent: " + err.Error()}}
	}
	return err
}

func (a *agents) crew(ctx context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
	p, err := a.open(in)
	if err != nil {
		return nil, err
	}
	found, err := p.Prepare(in.Agent, in.Model)
	if err != nil {
		return nil, unknown(err)
	}
	session, err := p.Start(ctx, in.Model)
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
