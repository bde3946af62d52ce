package main

import (
	"context"
	"errors"
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
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/delegate"
)

// agents opens projects with models, and gives the workflow "agent" what it needs of them.
type agents struct {
	setup  *cli.Setup
	models *models
}

// open opens the project that a folder belongs to, or with "" that of the current folder.
func (a *agents) open(dir string) (*project.Project, error) {
	o := *a.setup.Project
	if dir != "" {
		o.Dir = project.Root(dir, o.Home)
	}
	o.Models, o.Resolve = a.model, a.resolve
	var err error
	if o.Web, err = a.searcher(); err != nil {
		return nil, err
	}
	o.Clock = &agent.Clock{Now: time.Now, After: time.After}
	return project.Open(&o)
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

// model opens the model of a name. Agents need one that can reason, so the offline model is
// used only if it is named.
func (a *agents) model(name string) (model.Model, error) {
	if name == offline.Name {
		return nil, cli.NoModel("an agent needs a model that can reason, and offline only quotes documents",
			"see what there is: superstep models list",
			"it answers questions about documents: superstep run research QUESTION --docs DIR")
	}
	if name == "" {
		p, err := a.models.load()
		if err != nil {
			return nil, err
		}
		if p.Choose(context.Background()).Layer == providers.ByDefault {
			return nil, cli.NoModel("no model is configured, and an agent needs one",
				"set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY",
				"start Ollama, LM Studio or llama.cpp on this machine",
				"see what there is: superstep models list",
				"without any, there is: superstep run research QUESTION --docs DIR")
		}
	}
	m, err := a.models.open(name)
	var none *cli.Error
	if errors.As(err, &none) { // the offline model is of no use here
		none.Next = slices.DeleteFunc(none.Next, func(hint string) bool { return strings.Contains(hint, "offline") })
	}
	return m, err
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
	p, err := a.open(in.Dir)
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
	in.Dir, in.Model = p.Dir(), found.Model
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
	p, err := a.open(in.Dir)
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
	return &delegate.Crew{Agent: lead, Definition: found.Digest, Close: session.Close}, nil
}
