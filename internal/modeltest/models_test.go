package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/cassette"
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

// TestRecorder checks that a model that is recorded is still a model.
func TestRecorder(t *testing.T) {
	run(t, func(t testing.TB, script Script) model.Model {
		return cassette.Record(overOpenAI(t, script), io.Discard)
	})
}

// TestPlayer runs what the suite knows of streams against recordings of real providers.
func TestPlayer(t *testing.T) {
	for name, over := range map[string]func(testing.TB, Script) model.Model{"openai": overOpenAI, "responses": overResponses, "gemini": overGemini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams(t, func(t testing.TB, script Script) model.Model { return twice{over(t, script), t} })
		})
	}
}

// A twice is a model that asks another one, records it, and answers from the recording. It
// compares both.
type twice struct {
	model.Model
	t testing.TB
}

func (m twice) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	var tape bytes.Buffer
	want := drain(cassette.Record(m.Model, &tape).Generate(ctx, req))
	if strings.Contains(tape.String(), canary) || req != nil && req.Key != "" && strings.Contains(tape.String(), req.Key) {
		m.t.Errorf("a key is in the cassette %s", &tape)
	}
	player, err := cassette.Open(&tape, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	if player.Name() != m.Name() {
		m.t.Errorf("the cassette is of %q, want %q", player.Name(), m.Name())
	}
	got := drain(player.Generate(ctx, req))
	if !reflect.DeepEqual(got.parts, want.parts) || fmt.Sprint(got.err) != fmt.Sprint(want.err) {
		m.t.Errorf("played   %s\nrecorded %s", got, want)
	}
	var e *model.Error
	if errors.As(want.err, &e) {
		f, ok := got.err.(*model.Error)
		if !ok || f.Code != e.Code || f.Status != e.Status || f.Temporary != e.Temporary || f.RetryAfter != e.RetryAfter.Truncate(time.Millisecond) || f.FailureCode() != e.FailureCode() {
			m.t.Errorf("played %#v, recorded %#v", got.err, e)
		}
	}
	return func(yield func(model.Part, error) bool) {
		for _, p := range got.parts {
			if !yield(p, nil) {
				return
			}
		}
		if got.err != nil {
			yield(model.Part{}, got.err)
		}
	}
}

// heard is what a stream said, and how it ended.
type heard struct {
	parts []model.Part
	err   error
}

func (h heard) String() string {
	raw, err := json.Marshal(h.parts)
	return fmt.Sprintf("%s %v %v", raw, h.err, err)
}

func drain(seq iter.Seq2[model.Part, error]) (out heard) {
	for p, err := range seq {
		if err != nil {
			out.err = err
			break
		}
		out.parts = append(out.parts, p)
	}
	return out
}
