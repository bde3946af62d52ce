package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/prices"
	"github.com/superstep-dev/superstep/internal/providers"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// Offline is the name of the model that is a part of the program and only quotes documents.
const Offline string = offline.Name

// shortWait is how long the model of an agent waits by itself for its provider. A longer wait is the
// agent's, which records it, so that it is not begun anew after a crash.
const shortWait = 3 * time.Second

// loaded holds the user's configuration of models.
type loaded struct {
	own   []providers.Provider
	table *prices.Table
	path  string // of the user's prices, "" for none
	err   error
}

// load reads the user's providers and prices, once.
func (h *Host) load() *loaded {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.all.loaded != nil {
		return h.all.loaded
	}
	l := &loaded{}
	h.all.loaded = l
	if l.own, l.err = providers.Load(h.ConfigDir()); l.err != nil {
		l.err = mistaken(l.err)
		return l
	}
	if l.table, l.path, l.err = prices.Load(h.ConfigDir()); l.err != nil {
		l.err = mistaken(l.err, "take prices from another file: superstep models update FILE", "or remove it, and those that are built in hold")
	}
	return l
}

// providers returns the providers in the settings. Wait is the longest that a model waits by
// itself, 0 for the default.
func (h *Host) providers(wait time.Duration) (*providers.Providers, error) {
	l := h.load()
	if l.err != nil {
		return nil, l.err
	}
	project := ""
	if _, err := os.Stat(filepath.Join(h.Dir(), ".superstep", "config.yaml")); err == nil { // most have none, and need not be looked at
		if p, err := h.project(); err == nil { // else it is told where the project is used
			project = p.projectModel()
		}
	}
	h.own.mu.Lock()
	defer h.own.mu.Unlock()
	if p := h.own.providers[wait]; p != nil {
		return p, nil
	}
	named := h.cfg.Model
	if named == h.cfg.UserModel {
		named = "" // it comes from there
	}
	p := providers.New(&providers.Options{
		Env: h.cfg.Env, Offline: h.cfg.Offline, Config: l.own, Prices: l.table, Model: named, UserModel: h.cfg.UserModel, ProjectModel: project,
		MaxWait: wait, TurnTimeout: h.cfg.TurnTimeout,
	})
	if h.own.providers == nil {
		h.own.providers = map[time.Duration]*providers.Providers{}
	}
	h.own.providers[wait] = p
	return p, nil
}

// Model returns the model of a name, and the one to use for "".
func (h *Host) Model(name string) (model.Model, error) { return h.model(name, 0) }

func (h *Host) model(name string, wait time.Duration) (model.Model, error) {
	if h.cfg.Replay {
		return model.Named(name), nil
	}
	for _, m := range h.cfg.Models {
		if m.Name() == name {
			return m, nil
		}
	}
	if name == "" && isExternal(h.cfg.Model) {
		name = h.cfg.Model
	}
	if isExternal(name) {
		return h.external(name, h.Dir())
	}
	if name == offline.Name {
		return offline.New(), nil // whatever is wrong with what the user configured
	}
	p, err := h.providers(wait)
	if err != nil {
		return nil, err
	}
	m, err := p.Open(name)
	return m, explain(err)
}

// errNoModel reports that no model was named or configured.
var errNoModel = errors.New("no model is configured")

// agentModel returns the model with a name for an agent that talks to users. Such an agent needs a language model, so resolve refuses the offline
// model.
func (h *Host) agentModel(name string) (model.Model, error) {
	m, err := h.stepModel(name)
	if err == nil && m.Name() == offline.Name {
		return nil, NoModel("an agent needs a model that can reason, and offline only quotes documents")
	}
	var none *Error
	if errors.Is(err, errNoModel) && errors.As(err, &none) {
		none.Message += ", and an agent needs one"
	}
	return m, err
}

// stepModel returns the model of a name for a step of a recipe, which may be the offline model. The
// offline model is used only if it is named.
func (h *Host) stepModel(name string) (model.Model, error) {
	if h.cfg.NoModels {
		return nil, NoModel("this program has no models")
	}
	if name == "" {
		p, err := h.providers(shortWait)
		if err != nil {
			return nil, err
		}
		if p.Choose(context.Background()).Layer == providers.ByDefault {
			none := NoModel(errNoModel.Error()) // a face knows the ways out
			none.Err = errNoModel
			return nil, none
		}
	}
	return h.model(name, shortWait)
}

// limits returns the rate limits that the processes of the store have met, nil if the store is not open.
func (h *Host) limits() *unlisted.Limits {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	return h.all.limits
}

// resolve returns the model for a name in a definition, a fallback model, and a note for the user.
func (h *Host) resolve(name, fallback string) (resolved, note string, err error) {
	if isExternal(name) {
		return name, "", nil
	}
	p, err := h.providers(shortWait)
	if err != nil {
		return "", "", err
	}
	resolved, note, err = p.Resolve(name, fallback)
	return resolved, note, explain(err)
}

// note returns a notice that names the model used by default. It looks for servers on this machine
// if no other model is configured.
func (h *Host) note() string {
	if h.cfg.Model != "" {
		return ""
	}
	p, err := h.providers(0)
	if err != nil {
		return "" // Model tells it
	}
	c := p.Choose(context.Background())
	if c.Layer == providers.ByDefault {
		return "model offline (" + c.Why + "): it quotes the documents and writes no prose; set OPENAI_API_KEY or --model for a better brief"
	}
	return "model " + c.Name + " (" + c.Why + ")"
}

// embedder returns a function that embeds texts with the model that SUPERSTEP_EMBEDDINGS names. It returns nil if the variable is not set.
func (h *Host) embedder() providers.Embed {
	if h.cfg.Env(providers.EmbeddingsVariable) == "" {
		return nil
	}
	return func(ctx context.Context, texts []string) ([][]float32, error) {
		p, err := h.providers(0)
		if err != nil {
			return nil, err
		}
		embed, err := p.Embedder()
		if err != nil {
			return nil, err
		}
		return embed(ctx, texts)
	}
}

// searcher returns the configured web search service, or nil if none is configured.
func (h *Host) searcher() (builtin.Searcher, error) {
	env := h.cfg.Env
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

// ModelList lists the available models.
type ModelList struct {
	Use       providers.Choice  `json:"use"` // the model used by runs that do not name one
	Providers []providers.Found `json:"providers"`
	Agents    []ModelAgent      `json:"agents,omitempty"` // of other programs
	Prices    ModelPrices       `json:"prices"`
}

// ModelInfo describes a model.
type ModelInfo struct {
	Name     string       `json:"name"`             // "provider/model"
	Price    *model.Price `json:"price,omitempty"`  // nil is not known
	Window   int          `json:"window,omitempty"` // 0 is not known
	Output   int          `json:"output,omitempty"` // 0 is not known
	Released string       `json:"released,omitempty"`
	Note     string       `json:"note,omitempty"` // of the table of prices
}

// ModelPrices names which prices hold.
type ModelPrices struct {
	Date    string   `json:"date"`
	Models  int      `json:"models"`
	Path    string   `json:"path,omitempty"` // of the user's, "" for those that are built in
	Sources []string `json:"sources,omitempty"`
	Warning string   `json:"warning,omitempty"`
}

// OpenModel returns the model with a name, or for "" the default model, and its description. It sends no requests. If only the key or another setting
// is missing, it returns both the description and the error.
func (h *Host) OpenModel(name string) (model.Model, *ModelInfo, error) {
	p, err := h.providers(0)
	if err != nil {
		return nil, nil, err
	}
	opened, err := h.model(name, 0)
	if lacks := (*providers.Error)(nil); errors.As(err, &lacks) && lacks.Model != "" {
		_, word := effort.Split(name)
		info := p.Known(effort.With(lacks.Model, word))
		return nil, (*ModelInfo)(&info), err
	}
	if err != nil {
		return nil, nil, err
	}
	known := p.Known(opened.Name())
	if priced, ok := opened.(model.Priced); ok {
		known.Price = nil
		if price, told := priced.Price(); told {
			known.Price = &price
		}
	}
	return opened, (*ModelInfo)(&known), nil
}

// ListModels returns all providers and which model would be used. It contacts only servers on this machine.
func (h *Host) ListModels(ctx context.Context) (*ModelList, error) {
	p, err := h.providers(0)
	if err != nil {
		return nil, err
	}
	list := &ModelList{Providers: p.List(ctx), Prices: pricesInfo(p.Prices(), h.load().path)}
	list.Use = p.Choose(ctx) // from what was found
	list.Agents, err = h.modelAgents()
	if err != nil {
		return nil, err
	}
	return list, nil
}

// HasModel reports whether a language model is available. A program without models does not need
// any.
func (h *Host) HasModel(ctx context.Context) bool {
	if h.cfg.NoModels {
		return true
	}
	list, err := h.ListModels(ctx)
	return err == nil && list.Use.Name != offline.Name
}

func pricesInfo(t *prices.Table, path string) ModelPrices {
	out := ModelPrices{Date: t.Date(), Models: len(t.Models()), Path: path, Sources: t.Sources()}
	if b := prices.Embedded(); path != "" && t.Date() < b.Date() {
		out.Warning = path + " is of " + t.Date() + " and older than the prices that are built in, which are of " + b.Date() + "; what it says holds all the same"
	}
	return out
}

// UpdatePrices installs the prices in a file as the user's. Force accepts prices that are older than the current ones.
func (h *Host) UpdatePrices(file string, force bool) (*ModelPrices, error) {
	t, path, err := prices.Install(h.ConfigDir(), h.Abs(file), force)
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
