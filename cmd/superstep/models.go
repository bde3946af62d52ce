package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/model/prices"
	"github.com/superstep-dev/superstep/model/providers"
	"github.com/superstep-dev/superstep/project"
)

// models opens models by the names that users give them. What the user configured is read when
// it is first needed.
type models struct {
	setup *cli.Setup
	wait  time.Duration // the longest that a model waits by itself; 0 for the default

	once      sync.Once
	providers *providers.Providers
	path      string // of the user's prices, "" for none
	err       error
}

func newModels(s *cli.Setup) *models { return &models{setup: s} }

// load reads the user's providers and prices.
func (m *models) load() (*providers.Providers, error) {
	m.once.Do(func() {
		s := m.setup
		own, err := providers.Load(s.ConfigDir)
		if err != nil {
			m.err = mistaken(err)
			return
		}
		table, path, err := prices.Load(s.ConfigDir)
		if err != nil {
			m.err = mistaken(err, "take prices from another file: superstep models update FILE", "or remove it, and those that are built in hold")
			return
		}
		named := s.Model
		if named == s.UserModel {
			named = "" // it comes from there
		}
		m.path = path
		m.providers = providers.New(&providers.Options{
			Env: s.Env, Offline: s.Offline, Config: own, Prices: table, Model: named, UserModel: s.UserModel, ProjectModel: m.ofProject(), MaxWait: m.wait,
		})
	})
	return m.providers, m.err
}

// ofProject is the model that the project names, if its user trusts that; "" for none.
func (m *models) ofProject() string {
	o := *m.setup.Project
	if _, err := os.Stat(filepath.Join(o.Dir, ".superstep", "config.yaml")); err != nil {
		return "" // most have none, and need not be looked at
	}
	o.Notice = func(string) {}
	p, err := project.Open(&o)
	if err != nil {
		return "" // it is told where the project is used
	}
	return p.Model()
}

// mistaken is the error of a file that the user has to mend.
func mistaken(err error, next ...string) error {
	return &cli.Error{Exit: cli.ExitUsage, Code: "usage", Message: err.Error(), Next: next, Err: err}
}

// explain makes the errors of providers those of the command.
func explain(err error) error {
	var e *providers.Error
	if !errors.As(err, &e) {
		return err
	}
	out := cli.NoModel(e.Message, e.Hints...)
	out.Err = err
	return out
}

// note says which model is used when none is named. It looks for servers on this machine if no
// other model is configured.
func (m *models) note() string {
	if m.setup.Workflow == "" || m.setup.Model != "" {
		return ""
	}
	p, err := m.load()
	if err != nil {
		return "" // open tells it
	}
	c := p.Choose(context.Background())
	if c.Layer == providers.ByDefault {
		return "model offline (" + c.Why + "): it quotes the documents and writes no prose; set OPENAI_API_KEY or --model for a better brief"
	}
	return "model " + c.Name + " (" + c.Why + ")"
}

// open gives the model of a name, and the one to use for "".
func (m *models) open(name string) (model.Model, error) {
	if name == offline.Name {
		return offline.New(), nil // whatever is wrong with what the user configured
	}
	p, err := m.load()
	if err != nil {
		return nil, err
	}
	opened, err := p.Open(name)
	if err != nil {
		return nil, explain(err)
	}
	return opened, nil
}

// Open implements [cli.Models].
func (m *models) Open(name string) (model.Model, *cli.ModelInfo, error) {
	p, err := m.load()
	if err != nil {
		return nil, nil, err
	}
	opened, err := m.open(name)
	if err != nil {
		return nil, nil, err
	}
	known := p.Known(opened.Name())
	if priced, ok := opened.(model.Priced); ok {
		known.Price, known.Priced = priced.Price()
	}
	info := modelInfo(known)
	return opened, &info, nil
}

// List implements [cli.Models].
func (m *models) List(ctx context.Context) (*cli.ModelList, error) {
	p, err := m.load()
	if err != nil {
		return nil, err
	}
	found := p.List(ctx)
	c := p.Choose(ctx) // from what was found
	list := &cli.ModelList{
		Use:    cli.ModelChoice{Model: c.Name, Layer: string(c.Layer), Why: c.Why},
		Prices: pricesInfo(p.Prices(), m.path),
	}
	for _, f := range found {
		out := cli.ModelProvider{
			Name: f.Name, Configured: f.Configured, By: f.By, Missing: f.Missing, URL: f.BaseURL, Local: f.Local, Default: f.Standard,
		}
		for _, k := range f.Models {
			out.Models = append(out.Models, modelInfo(k))
		}
		list.Providers = append(list.Providers, out)
	}
	return list, nil
}

func modelInfo(k providers.Known) cli.ModelInfo {
	out := cli.ModelInfo{Name: k.Name, Window: k.Window, Output: k.Output, Released: k.Released, Note: k.Note}
	if k.Priced {
		out.Price = &cli.ModelPrice{In: k.Price.In, Out: k.Price.Out, Cached: k.Price.Cached, Written: k.Price.Written}
	}
	return out
}

func pricesInfo(t *prices.Table, path string) cli.ModelPrices {
	out := cli.ModelPrices{Date: t.Date(), Models: len(t.Models()), Path: path, Sources: t.Sources()}
	if b := prices.Embedded(); path != "" && t.Date() < b.Date() {
		out.Warning = path + " is of " + t.Date() + " and older than the prices that are built in, which are of " + b.Date() + "; what it says holds all the same"
	}
	return out
}

// Update implements [cli.Models].
func (m *models) Update(file string, force bool) (*cli.ModelPrices, error) {
	t, path, err := prices.Install(m.setup.ConfigDir, file, force)
	var wrong *prices.Error
	var older *prices.OlderError
	switch {
	case errors.As(err, &wrong):
		return nil, mistaken(err, "nothing was changed")
	case errors.As(err, &older):
		return nil, mistaken(err, "nothing was changed; --force takes it all the same")
	case err != nil:
		return nil, err
	}
	out := pricesInfo(t, path)
	return &out, nil
}
