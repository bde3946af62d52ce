package providers

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// An Error explains why a model cannot be opened. It never contains a key.
type Error struct {
	Name    string   // of the model
	Model   string   // its whole name, if only a key or the like is missing
	Message string   // what is wrong
	Hints   []string // what to do about it, one thing each
	Usage   bool     // the name can be that of no model
	Err     error    // the cause, nil for none
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// unknown returns the error for an unknown name.
func (p *Providers) unknown(name string) *Error {
	shown := shorten(name)
	e := &Error{Name: name, Message: fmt.Sprintf("there is no model %q", shown)}
	if c := p.closest(name); c != "" {
		e.Message += fmt.Sprintf("; did you mean %q?", c)
	}
	e.Hints = append(e.Hints, "name it as provider/model: "+strings.Join(p.some(), ", "))
	if c := p.Configured(); len(c) > 0 {
		e.Hints = append(e.Hints, "configured here: "+strings.Join(c, ", "))
	}
	e.Hints = append(e.Hints, "or use the one that is built in: --model offline")
	return e
}

// shortText makes a text of others fit for an error: one line.
func shortText(s string) string { return strings.Join(strings.Fields(clean.Text(s)), " ") }

// shorten makes a name fit for an error: one line, and not long.
func shorten(name string) string {
	s := shortText(name)
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// closest returns what was probably meant by a name, "" if nothing is like it.
func (p *Providers) closest(name string) string {
	provider, rest, ok := strings.Cut(name, "/")
	if ok {
		var names []string
		for i := range p.all {
			names = append(names, p.all[i].name)
		}
		if c := suggest.Closest(provider, names); c != "" {
			return c + "/" + shorten(rest)
		}
		return ""
	}
	words := []string{offline.Name}
	for w := range tiers() {
		words = append(words, w)
	}
	for i := range p.all {
		words = append(words, p.all[i].name)
	}
	for _, f := range families() {
		if f[1] != "" {
			for _, n := range p.table().Names(f[1]) {
				words = append(words, strings.TrimPrefix(n, f[1]+"/"))
			}
		}
	}
	return suggest.Closest(name, words)
}

// some are examples of providers.
func (p *Providers) some() []string {
	var out []string
	for i := range p.all {
		out = append(out, p.all[i].name+"/…")
	}
	if len(out) > 14 {
		out = append(out[:14], "…")
	}
	return out
}

// Configured returns the providers that are ready to use, with what configures them, such as
// "openai (OPENAI_API_KEY)". Servers on this machine are left out, since it is unknown whether they
// run.
func (p *Providers) Configured() []string {
	var out []string
	for i := range p.all {
		if e := &p.all[i]; p.configured(e) && !(e.local && !e.own) {
			out = append(out, e.name+" ("+p.by(e)+")")
		}
	}
	return out
}

// configured reports whether somebody set a provider up: a key, an address or an entry.
func (p *Providers) configured(e *endpoint) bool {
	if p.ready(e) != nil {
		return false
	}
	_, moved := p.base(e)
	_, keyed := p.key(e)
	return keyed != "" || moved != "" || e.own || e.local
}

// by returns what configures a provider.
func (p *Providers) by(e *endpoint) string {
	_, moved := p.base(e)
	_, keyed := p.key(e)
	var by []string
	if e.own {
		by = append(by, "providers.yaml")
	}
	for _, s := range []string{keyed, moved} {
		if s != "" {
			by = append(by, s)
		}
	}
	if len(by) == 0 && e.local {
		return "it runs here"
	}
	return strings.Join(by, ", ")
}

// local are hints towards models that need no key and no network.
func (p *Providers) local() []string {
	return []string{"start Ollama and use --model ollama/NAME", "or use the one that is built in: --model offline"}
}

// incomplete returns the error for a provider without a model.
func (p *Providers) incomplete(e *endpoint) *Error {
	hint := "name it as " + e.name + "/NAME"
	if m := p.standard(e); m != "" {
		hint = "for instance " + e.name + "/" + m
	}
	return &Error{Name: e.name, Message: "which model of " + e.name + "?", Hints: []string{hint}}
}

// checkURL returns what is wrong with an address, without the parts of it that may be secret.
func checkURL(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return errors.New("the base URL cannot be read")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("the base URL must be like https://llm.example.org/v1")
	case u.User != nil:
		return errors.New("the base URL must not have a user or a password")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return errors.New("the base URL must not have a query or a fragment")
	}
	return nil
}

// host returns the part of an address that errors may show.
func host(base string) string {
	if u, err := url.Parse(base); err == nil && u.Host != "" {
		return u.Host
	}
	return "another machine"
}

// loopback reports whether an address is on this machine.
func loopback(base string) bool {
	u, err := url.Parse(base)
	return err == nil && loopbackHost(u.Hostname())
}

// ofOpenAI reports whether an address is OpenAI's own, of any region.
func ofOpenAI(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
