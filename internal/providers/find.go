package providers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/model"
)

// ByDefault is the layer of the fallback choice, the offline model.
const ByDefault = "default"

// The other layers, in their order. The first one that names a model wins.
const (
	byFlag        = "flag"        // --model
	byEnvironment = "environment" // SUPERSTEP_MODEL
	byProject     = "project"     // one that the user trusts
	byUser        = "user"        // the user's configuration
	byKey         = "key"         // a provider whose key is in the environment
	byServer      = "server"      // a server that runs on this machine
)

// A Choice is the model to use when a workflow leaves that open.
type Choice struct {
	Name  string `json:"model"` // as [Providers.Open] takes it
	Layer string `json:"layer"` // where the choice comes from: flag, environment, project, user, key, server or default
	Why   string `json:"why"`   // such as "OPENAI_API_KEY is set"
}

// probeTime is how long servers on this machine have to answer.
const probeTime = 300 * time.Millisecond

const (
	maxListing = 1 << 20 // of the answer of a server that is probed
	maxListed  = 200     // models of it
)

// Choose returns the model to use when none is named: of the layers of [Options], else of the first
// provider whose key is there, else of the first server on this machine that answers with a model,
// else "offline". It looks for servers at most once, only on this machine, and for 300 ms at most.
// It always returns a model name, but does not guarantee that the model can be opened.
func (p *Providers) Choose(ctx context.Context) Choice {
	p.choose.Lock()
	defer p.choose.Unlock()
	if p.chosen == nil {
		c := p.decide(func() []server { return p.probe(ctx) })
		if c.Layer == ByDefault && ctx.Err() != nil {
			return c // who asked has gone, and the next one may wait
		}
		p.chosen = &c
	}
	return *p.chosen
}

// decide chooses, and looks for servers on this machine only if nothing comes before them.
func (p *Providers) decide(probe func() []server) Choice {
	if c, ok := p.named(); ok {
		return c
	}
	for i := range p.all {
		e := &p.all[i]
		if _, keyed := p.key(e); keyed == "" || e.own || p.ready(e) != nil {
			continue
		} else if name := p.standard(e); name != "" {
			return Choice{e.name + "/" + name, byKey, keyed + " is set"}
		}
	}
	for i := range p.all {
		e := &p.all[i]
		if name := p.standard(e); e.own && name != "" && p.configured(e) {
			return Choice{e.name + "/" + name, byKey, p.by(e)}
		}
	}
	for _, s := range probe() {
		if name := firstChat(s.endpoint, s.models); name != "" {
			base, _ := p.base(s.endpoint)
			return Choice{s.endpoint.name + "/" + name, byServer, s.endpoint.name + " runs at " + host(base)}
		}
	}
	return Choice{offline.Name, ByDefault, "no model is configured; only research uses it unasked"}
}

// named returns the choice that was configured.
func (p *Providers) named() (Choice, bool) {
	for _, c := range []Choice{
		{p.opt.Model, byFlag, "--model"},
		{p.opt.Env("SUPERSTEP_MODEL"), byEnvironment, "SUPERSTEP_MODEL"},
		{p.opt.ProjectModel, byProject, "the project"},
		{p.opt.UserModel, byUser, "your configuration"},
	} {
		if c.Name = strings.TrimSpace(c.Name); c.Name == "" {
			continue
		}
		if e, rest := p.find(c.Name); e != nil && rest != "" {
			c.Name = e.name + "/" + rest
		} else if name, _, err := p.Resolve(c.Name, ""); err == nil {
			if name == "" {
				continue // it says inherit
			}
			c.Name = name
		}
		return c, true
	}
	return Choice{}, false
}

// firstChat returns the first model that can talk and stays on this machine, "" for none.
func firstChat(e *endpoint, names []string) string {
	for _, n := range names {
		if !strings.Contains(strings.ToLower(n), "embed") && !remote(e, n) {
			return n
		}
	}
	return ""
}

// Found is a provider with what is known about it.
type Found struct {
	Name       string  `json:"name"`
	Configured bool    `json:"configured"`        // it can be asked; of a server on this machine, it runs
	By         string  `json:"by,omitempty"`      // what makes it so, such as "OPENAI_API_KEY"
	Missing    string  `json:"missing,omitempty"` // what it lacks otherwise, such as "set OPENAI_API_KEY"
	BaseURL    string  `json:"url,omitempty"`     // without what may be secret
	Local      bool    `json:"local,omitempty"`   // a server that usually runs on this machine
	Own        bool    `json:"-"`                 // of the user's configuration
	Standard   string  `json:"default,omitempty"` // the model that is used when none is named, as provider/model; "" for none
	Models     []Known `json:"models,omitempty"`
}

// Known is a model of a provider: one that a server says it has, or that the table of prices
// knows.
type Known struct {
	Name     string       `json:"name"`             // "provider/model"
	Price    *model.Price `json:"price,omitempty"`  // nil is not known
	Window   int          `json:"window,omitempty"` // 0 is not known
	Output   int          `json:"output,omitempty"` // 0 is not known
	Released string       `json:"released,omitempty"`
	Note     string       `json:"note,omitempty"` // of the table
}

// List returns all providers, those that need a key first. It opens connections to this machine
// only, in parallel, for 300 ms at most; what providers on the network have is what the table
// knows. A Choose that comes after it does not look for servers again.
func (p *Providers) List(ctx context.Context) []Found {
	servers := p.probe(ctx)
	p.choose.Lock()
	if p.chosen == nil && ctx.Err() == nil {
		c := p.decide(func() []server { return servers })
		p.chosen = &c
	}
	p.choose.Unlock()
	var out []Found
	for i := range p.all {
		e := &p.all[i]
		base, _ := p.base(e)
		f := Found{Name: e.name, Local: e.local, Own: e.own, Configured: p.configured(e), By: p.by(e)}
		if checkURL(base) == nil {
			f.BaseURL = base
		}
		if s := p.standard(e); s != "" {
			f.Standard = e.name + "/" + s
		}
		var names []string
		switch lacks := p.ready(e); {
		case f.BaseURL == "":
			f.Configured, f.Missing = false, "correct "+p.addressFrom(e)
		case lacks != nil:
			f.Missing = lacks.Message
			if len(lacks.Hints) > 0 && !p.opt.Offline {
				f.Missing = lacks.Hints[0]
			}
		case e.local:
			at := slices.IndexFunc(servers, func(s server) bool { return s.endpoint == e })
			if at < 0 {
				break // it is on another machine, which is not asked
			}
			if names = servers[at].models; servers[at].problem != "" {
				f.Configured, f.Missing = false, servers[at].problem
			}
		}
		if !f.Configured {
			f.By = ""
		}
		f.Models = p.models(e, names)
		out = append(out, f)
	}
	return out
}

// models returns those that a server named, else those of the table.
func (p *Providers) models(e *endpoint, names []string) []Known {
	if len(names) == 0 && !e.local {
		for _, n := range p.table().Names(e.name) {
			names = append(names, strings.TrimPrefix(n, e.name+"/"))
		}
	}
	var out []Known
	for _, n := range names {
		out = append(out, p.Known(e.name+"/"+n))
	}
	return out
}

// Known returns what the table has on a model: its price and how much it holds. For an unknown
// model it returns only the name. An effort in the name changes nothing else.
func (p *Providers) Known(name string) Known {
	k := Known{Name: name}
	name, _ = effort.Split(name)
	e, rest := p.find(name)
	if e == nil {
		if name == offline.Name {
			k.Price = &model.Price{}
		}
		return k
	}
	if m, ok := p.known(e, rest); ok {
		k.Window, k.Output, k.Released, k.Note = m.Window, m.Output, m.Released, m.Note
		if m.Priced {
			k.Price = &m.Price
		}
	}
	return k
}

// server is a server on this machine that was probed.
type server struct {
	endpoint *endpoint
	models   []string
	problem  string // "" if it answered
}

// probe asks the servers on this machine what models they have, all at once.
func (p *Providers) probe(ctx context.Context) []server {
	var out []server
	for i := range p.all {
		if e := &p.all[i]; e.local {
			if base, _ := p.base(e); checkURL(base) == nil && loopback(base) {
				out = append(out, server{endpoint: e})
			}
		}
	}
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	transport := localTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() {
			base, _ := p.base(out[i].endpoint)
			var err error
			if out[i].models, err = listing(ctx, client, out[i].endpoint.name, base); err != nil {
				out[i].problem = whyNot(err)
			}
		})
	}
	all.Wait()
	return out
}

func whyNot(err error) string {
	var said *saidError
	switch {
	case errors.As(err, &said):
		return said.text
	case errors.Is(err, syscall.ECONNREFUSED):
		return "not running"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + probeTime.String()
	}
	return "not reachable"
}

// saidError is an answer that is not a list of models.
type saidError struct{ text string }

func (e *saidError) Error() string { return e.text }

// listing asks a server for its models. It sends no key.
func listing(ctx context.Context, client *http.Client, name, base string) ([]string, error) {
	base = strings.TrimRight(base, "/")
	at := base + "/models"
	if name == "ollama" {
		at = strings.TrimSuffix(base, "/v1") + "/api/tags"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, &saidError{"it runs and wants a key, so its models are not known"}
	default:
		return nil, &saidError{"something else answers there"}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxListing+1))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"` // of Ollama
		Data []struct {
			ID string `json:"id"`
		} `json:"data"` // of the others
	}
	if len(b) > maxListing || json.Unmarshal(b, &answer) != nil || answer.Models == nil && answer.Data == nil {
		return nil, &saidError{"something else answers there"}
	}
	ids := make([]string, 0, len(answer.Data))
	for _, m := range answer.Data {
		ids = append(ids, m.ID)
	}
	if answer.Data == nil {
		for _, m := range answer.Models {
			ids = append(ids, m.Name)
		}
	}
	var names []string
	for _, n := range ids {
		if n != "" && n == shorten(n) && !strings.ContainsAny(n, " \"'`$\\") && !slices.Contains(names, n) && len(names) < maxListed {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return nil, &saidError{"it runs, and has no model"}
	}
	return names, nil
}
