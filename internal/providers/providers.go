// Package providers opens models by name, "provider/model". It knows the addresses of the
// providers, where their keys are, the prices of their models, and which model to use if none is
// named.
//
// An API key goes to the endpoint it belongs to and nowhere else. Endpoints are those built in,
// those of the user's configuration, and those of variables such as OPENAI_BASE_URL; never those of
// a project. A key is read from the environment, so it goes to an address of the same
// environment too; a provider of the user's configuration gets the key that its own entry names,
// or none. No request of a model leaves its endpoint's host, by redirect or otherwise.
package providers

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/prices"
	"github.com/superstep-dev/superstep/model"
)

// Options say what there is to choose from. A nil pointer means that nothing is configured.
type Options struct {
	Env        func(string) string // keys, addresses and SUPERSTEP_MODEL; defaults to one without variables
	HTTPClient *http.Client        // copied for every model; defaults to one with http.DefaultTransport
	Offline    bool                // open no connection but to this machine
	Config     []Provider          // of the user; they hide built-in ones of the same name. See [ParseConfig]
	Prices     *prices.Table       // defaults to the embedded table
	// MaxWait is the longest that a model waits by itself when its provider asks for a pause. For a
	// longer pause the caller gets an error with the duration. The default is that of the
	// providers, one minute.
	MaxWait time.Duration
	// TurnTimeout is the longest that a turn of a model may take, and half of it the longest without
	// progress. The default is that of the models: 10 minutes.
	TurnTimeout time.Duration

	// The models that are named, the first one that is not "" is used. SUPERSTEP_MODEL comes
	// second.
	Model        string // by --model
	ProjectModel string // by a project the user trusts
	UserModel    string // by the user's configuration
}

// Providers opens models. Its methods may be called from several goroutines.
type Providers struct {
	opt   Options
	all   []endpoint
	table func() *prices.Table

	choose sync.Mutex
	chosen *Choice // once somebody has asked
}

// New returns the providers of the options. It opens no connection.
func New(o *Options) *Providers {
	p := &Providers{}
	if o != nil {
		p.opt = *o
	}
	if p.opt.Env == nil {
		p.opt.Env = func(string) string { return "" }
	}
	p.table = sync.OnceValue(func() *prices.Table {
		if p.opt.Prices != nil {
			return p.opt.Prices
		}
		return prices.Embedded()
	})
	for i := range p.opt.Config {
		p.all = append(p.all, p.opt.Config[i].endpoint())
	}
	for _, e := range builtin() {
		if !slices.ContainsFunc(p.all, func(own endpoint) bool { return own.name == e.name }) {
			p.all = append(p.all, e)
		}
	}
	return p
}

// Prices returns the table that prices come from.
func (p *Providers) Prices() *prices.Table { return p.table() }

// Open returns the model of a name, or of an alias as [Providers.Resolve] knows them, with the effort that follows the name; with "" the
// one that [Providers.Choose] gives. It sends nothing, but for the search of Choose. Its errors are of
// type [*Error].
func (p *Providers) Open(name string) (model.Model, error) {
	if name == "" {
		name = p.Choose(context.Background()).Name
	}
	_, word := effort.Split(name)
	if e, rest := p.find(name); e == nil || rest == "" {
		resolved, _, err := p.Resolve(name, "")
		if err != nil {
			return nil, err
		}
		if name = resolved; name == "" { // it says inherit
			name = effort.Instead(p.Choose(context.Background()).Name, word)
		}
	}
	if err := checkEffort(name); err != nil {
		return nil, err
	}
	if name == offline.Name {
		return offline.New(), nil
	}
	base, word := effort.Split(name)
	e, rest := p.find(base)
	if e == nil {
		return nil, p.unknown(name)
	}
	c, err := p.connection(e, rest)
	if err != nil {
		return nil, err
	}
	c.effort = word
	m, err := c.open()
	switch {
	case err != nil:
		return nil, &Error{Name: name, Message: err.Error(), Err: err}
	case word != "":
		return strained{m, effort.With(m.Name(), word)}, nil
	}
	return m, nil
}

// checkEffort returns an error if the effort in a model's name is none.
func checkEffort(name string) error {
	if err := effort.Check(name); err != nil {
		return &Error{Name: name, Message: shortText(err.Error()), Usage: true}
	}
	return nil
}

// find returns the provider of a name and the provider's own name of the model, nil if there is
// none.
func (p *Providers) find(name string) (*endpoint, string) {
	provider, rest, ok := strings.Cut(strings.TrimSpace(name), "/")
	if !ok {
		return nil, ""
	}
	return p.provider(provider), rest
}

// provider finds a provider by its name, whatever the case, nil if there is none. One of the
// user comes before another name of a built-in one.
func (p *Providers) provider(name string) *endpoint {
	for i := range p.all {
		if strings.EqualFold(p.all[i].name, name) {
			return &p.all[i]
		}
	}
	for i := range p.all {
		if also := p.all[i].also; also != "" && strings.EqualFold(also, name) {
			return &p.all[i]
		}
	}
	return nil
}

// connection is what it takes to ask one model.
type connection struct {
	protocol, provider, model string
	base, key, keyFrom        string
	replay                    bool
	client                    *http.Client
	price                     *model.Price
	window, output            int
	effort                    string
	wait, turn                time.Duration
}

// connection returns how a model is reached. Its errors are of type [*Error].
func (p *Providers) connection(e *endpoint, name string) (*connection, error) {
	full := e.name + "/" + name
	if name == "" {
		return nil, p.incomplete(e)
	}
	base, _ := p.base(e)
	key, keyFrom := p.key(e)
	if err := checkURL(base); err != nil {
		return nil, &Error{Name: full, Message: "model " + full + ": " + err.Error(), Hints: []string{"correct " + p.addressFrom(e)}, Err: err}
	}
	if err := p.ready(e); err != nil {
		err.Name = full
		err.Message = "model " + full + " " + err.Message
		return nil, err
	}
	if p.opt.Offline && remote(e, name) {
		return nil, &Error{Name: full, Message: "model " + full + " runs in the cloud, which --offline forbids", Hints: p.local()}
	}
	headers, missing := p.headers(e)
	if missing != "" {
		return nil, &Error{Name: full, Message: "model " + full + " needs the variable " + missing, Hints: []string{"set " + missing}}
	}
	c := &connection{
		wait: p.opt.MaxWait, turn: p.opt.TurnTimeout,
		protocol: e.protocol, provider: e.name, model: name, base: base, key: key, keyFrom: cmp.Or(keyFrom, e.keyName()), replay: e.replay,
		client: p.client(base, headers),
	}
	if e.name == nameOpenAI && !e.own && ofOpenAI(base) {
		c.protocol = nameResponses // which newer models need for tools; servers behind another address may not know it
	}
	if m, ok := p.known(e, name); ok {
		c.window, c.output = m.Window, m.Output
		if m.Priced {
			c.price = &m.Price
		}
	}
	return c, nil
}

// known returns what the table has on a model. Servers on this machine are free.
func (p *Providers) known(e *endpoint, name string) (prices.Model, bool) {
	m, ok := p.table().Find(e.name + "/" + name)
	if base, _ := p.base(e); e.local && loopback(base) && !remote(e, name) && !m.Priced {
		m.Name, m.Price, m.Priced, ok = e.name+"/"+name, model.Price{}, true, true
	}
	return m, ok
}

// base returns the address of a provider, and the variable it comes from, "" for none.
func (p *Providers) base(e *endpoint) (base, from string) {
	if e.baseEnv != "" {
		if v := strings.TrimSpace(p.opt.Env(e.baseEnv)); v != "" {
			return v, e.baseEnv
		}
	}
	return e.base, ""
}

// addressFrom returns where the address of a provider can be corrected.
func (p *Providers) addressFrom(e *endpoint) string {
	if _, from := p.base(e); from != "" {
		return from
	}
	return "base_url of " + e.name + " in your providers.yaml"
}

// key returns the API key of a provider and the variable it comes from, "" for none.
func (p *Providers) key(e *endpoint) (key, from string) {
	for _, name := range e.keys {
		if v := strings.TrimSpace(p.opt.Env(name)); v != "" {
			return v, name
		}
	}
	return "", ""
}

// headers returns the further ones of a provider. Missing is the variable that one of them needs.
func (p *Providers) headers(e *endpoint) (h http.Header, missing string) {
	for _, header := range e.headerNames() {
		name := e.headers[header]
		v := strings.TrimSpace(p.opt.Env(name))
		if v == "" {
			return nil, name
		}
		if h == nil {
			h = http.Header{}
		}
		h.Set(header, v)
	}
	return h, ""
}

// ready returns an error for what a provider lacks, or nil. It does not check whether a server
// answers.
func (p *Providers) ready(e *endpoint) *Error {
	base, _ := p.base(e)
	here := loopback(base)
	key, _ := p.key(e)
	switch {
	case p.opt.Offline && !here:
		return &Error{Message: "is at " + host(base) + ", which --offline forbids", Hints: p.local()}
	case key == "" && len(e.keys) > 0 && !e.keyOptional && !here:
		return &Error{Message: "needs an API key", Hints: append([]string{"set " + e.keyName()}, p.local()...)}
	}
	return nil
}

// remote reports whether a local server forwards requests for a model to another server, as Ollama
// does for names with the tag cloud.
func remote(e *endpoint, name string) bool {
	return e.local && (strings.HasSuffix(name, ":cloud") || strings.HasSuffix(name, "-cloud"))
}
