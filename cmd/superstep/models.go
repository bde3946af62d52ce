package main

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/model/openai"
)

// models opens models by the names that users give them: "offline", or provider/name.
type models struct {
	env     func(string) string
	offline bool // nothing but this machine may be reached
}

// provider is a server that speaks OpenAI's protocol.
type provider struct {
	name string
	base string // its address
	from string // the variable that names another address
	key  string // the variable with its API key, "" if it needs none
}

func providers() []provider {
	return []provider{
		{"openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"},
		{"openrouter", "https://openrouter.ai/api/v1", "", "OPENROUTER_API_KEY"},
		{"ollama", "http://127.0.0.1:11434/v1", "OLLAMA_BASE_URL", ""},
	}
}

// preferred is the model for those who have a key and name none.
const preferred = "openai/gpt-5-mini"

// choose gives the model to use when none is named, and why.
func (m *models) choose() (name, why string) {
	if m.env("OPENAI_API_KEY") != "" && !m.offline {
		return preferred, "from OPENAI_API_KEY"
	}
	return "offline", "no model is configured"
}

// note says which model is used when none is named.
func (m *models) note(named string) string {
	if named != "" {
		return ""
	}
	name, why := m.choose()
	if name == "offline" {
		return "model offline (" + why + "): it quotes the documents and writes no prose; set OPENAI_API_KEY or --model for a better brief"
	}
	return "model " + name + " " + why
}

// open gives the model of a name, and the one to use for "".
func (m *models) open(name string) (model.Model, error) {
	if name == "" {
		name, _ = m.choose()
	}
	if name == "offline" {
		return offline.New(), nil
	}
	kind, rest, ok := strings.Cut(name, "/")
	for _, p := range providers() {
		if ok && p.name == kind && rest != "" {
			return m.connect(&p, rest)
		}
	}
	return nil, cli.NoModel(fmt.Sprintf("there is no model %q", name),
		"name it as provider/name: openai/…, openrouter/…, ollama/…",
		"or use the one that is built in: --model offline")
}

func (m *models) connect(p *provider, name string) (model.Model, error) {
	base := p.base
	if v := m.env(p.from); p.from != "" && v != "" {
		base = v
	}
	key := ""
	if p.key != "" {
		key = m.env(p.key)
	}
	if p.key != "" && key == "" && !loopback(base) {
		return nil, cli.NoModel(fmt.Sprintf("model %s/%s needs an API key", p.name, name),
			"set "+p.key,
			"start Ollama and use --model ollama/NAME",
			"or try it now: --model offline")
	}
	if m.offline && !loopback(base) {
		return nil, cli.NoModel(fmt.Sprintf("model %s/%s is at %s, which --offline forbids", p.name, name, base),
			"use a model on this machine: --model ollama/NAME",
			"or the one that is built in: --model offline")
	}
	return openai.New(&openai.Options{Model: name, BaseURL: base, APIKey: key, KeyFrom: p.key, Provider: p.name})
}

// loopback reports whether an address is on this machine.
func loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
