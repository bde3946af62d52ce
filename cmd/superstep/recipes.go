package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/delegate"
	"github.com/superstep-dev/superstep/workflow/recipe/compile"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

// recipes gives recipes the agents and tools of the project that their runs work in.
type recipes struct{ *agents }

// makeRecipe makes a workflow of a recipe.
func makeRecipe(s *cli.Setup, b *library.Bundle) (*workflow.Workflow, error) {
	return compile.New(&compile.Bundle{Main: b.Main, Uses: b.Uses}, recipes{newAgents(s)}.options())
}

// restoreRecipe makes the workflow that a run of a recipe has pinned.
func restoreRecipe(s *cli.Setup, _ string, pinned json.RawMessage) (*workflow.Workflow, error) {
	return compile.Restore(pinned, recipes{newAgents(s)}.options())
}

func (r recipes) options() *compile.Options {
	s := r.setup
	setting := compile.Setting{Dir: s.Project.Dir, OnAsk: s.OnAsk}
	if s.Model != s.UserModel { // which goes before what recipes and agents say only where it is said with the run
		setting.Model = s.Model
	}
	return &compile.Options{Setting: setting, Prepare: r.prepare, Open: r.crew}
}

// project opens the project of a run.
func (r recipes) project(s *compile.Setting) (*project.Project, error) {
	return r.openWith(&delegate.Inputs{Dir: s.Dir, Rules: s.Rules, OnAsk: s.OnAsk}, r.anyModel)
}

func (r recipes) prepare(n *compile.Needs, s *compile.Setting) error {
	p, err := r.project(s)
	if err != nil {
		return err
	}
	if s.Parts, err = r.parts(p, n, s.Model); err != nil {
		return err
	}
	rules, err := r.rules(&delegate.Inputs{Rules: s.Rules})
	if err != nil {
		return err
	}
	s.Rules = nil
	for _, rule := range rules {
		s.Rules = append(s.Rules, string(rule.Decision)+" "+rule.String())
	}
	return nil
}

// parts are the digests of all that the steps work with. Every agent is looked for, with its model.
func (r recipes) parts(p *project.Project, n *compile.Needs, model string) (map[string]string, error) {
	parts := map[string]string{}
	var errs []error
	for _, a := range n.Agents {
		found, err := p.Prepare(a.Name, cmp.Or(model, a.Model))
		var none *cli.Error
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

func (r recipes) crew(ctx context.Context, n *compile.Needs, s *compile.Setting) (*compile.Crew, error) {
	p, err := r.project(s)
	if err != nil {
		return nil, err
	}
	parts, err := r.parts(p, n, s.Model)
	if err != nil {
		return nil, err
	}
	session, err := p.Start(ctx, s.Model)
	if err != nil {
		return nil, err
	}
	return &compile.Crew{
		Agent: func(name, model string) (*agent.Agent, error) { return session.Agent(name, cmp.Or(s.Model, model)) },
		Tools: session.Tools(), Unknown: session.Unknown, Gate: session.Gate(), OnAsk: session.OnAsk(), Remember: session.Remember(),
		Parts: parts, Close: session.Close,
	}, nil
}
