package modeltest

import (
	"net/http"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

const canary = "sk-canary-1234567890"

// options are those of a model that talks to a server of its own; the other protocols take the same.
func options(t testing.TB, script Script, wire Wire) *openai.Options {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &openai.Options{
		Model: "gpt-test", APIKey: canary, BaseURL: NewServer(t, script.Handle, &Options{Wire: wire}).URL,
		HTTPClient: &http.Client{Transport: transport}, Retries: script.Attempts, IdleTimeout: script.Idle, Timeout: script.Timeout,
		Backoff: time.Millisecond, MaxWait: 2 * time.Second, Jitter: func() float64 { return 0.5 },
		Price: &model.Price{In: 1, Out: 2}, Window: 1000,
	}
}

func overOpenAI(t testing.TB, script Script) model.Model {
	m, err := openai.New(options(t, script, nil))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func overResponses(t testing.TB, script Script) model.Model {
	o := options(t, script, Responses{})
	o.Responses = true
	m, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func overAnthropic(t testing.TB, script Script) model.Model {
	o := options(t, script, Anthropic{})
	m, err := anthropic.New(&anthropic.Options{
		Model: "claude-test", APIKey: o.APIKey, BaseURL: o.BaseURL, HTTPClient: o.HTTPClient, Retries: o.Retries, IdleTimeout: o.IdleTimeout,
		Timeout: o.Timeout, Backoff: o.Backoff, MaxWait: o.MaxWait, Jitter: o.Jitter,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func overGemini(t testing.TB, script Script) model.Model {
	o := options(t, script, Gemini{})
	m, err := gemini.New(&gemini.Options{
		Model: "gemini-test", APIKey: o.APIKey, BaseURL: o.BaseURL, HTTPClient: o.HTTPClient, Retries: o.Retries, IdleTimeout: o.IdleTimeout,
		Timeout: o.Timeout, Backoff: o.Backoff, MaxWait: o.MaxWait, Jitter: o.Jitter,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenAI(t *testing.T)    { run(t, overOpenAI) }
func TestResponses(t *testing.T) { run(t, overResponses) }
func TestAnthropic(t *testing.T) { run(t, overAnthropic) }
func TestGemini(t *testing.T)    { run(t, overGemini) }
