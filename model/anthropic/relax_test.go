package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// refusing answers what refuse finds fault with by a status and what it said, and all else
// with the end of a turn. It returns the model and what it sent last.
func refusing(t *testing.T, o Options, refuse func(sent map[string]any, raw string) (status int, text string)) (*Model, func() string) {
	t.Helper()
	var last string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		sent := map[string]any{}
		if err != nil || json.Unmarshal(raw, &sent) != nil {
			t.Errorf("cannot read the request: %v", err)
		}
		last = string(raw)
		if status, text := refuse(sent, last); status != 0 {
			w.Header().Set("Request-Id", "req_7")
			w.WriteHeader(status)
			fmt.Fprint(w, string(modeltest.Anthropic{}.ErrorBody(status, "invalid_request_error", text)))
			return
		}
		fmt.Fprint(w, endTurn)
	}))
	t.Cleanup(s.Close)
	rt := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(rt.CloseIdleConnections)
	o.Model, o.APIKey, o.BaseURL, o.HTTPClient, o.Backoff = "m", canary, s.URL, &http.Client{Transport: rt}, time.Millisecond
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return m, func() string { return last }
}

// TestRelax checks that a turn goes on without what its model does not know.
func TestRelax(t *testing.T) {
	warm := 0.7
	shape := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "string"}}}
	plain := func() *model.Request { return modeltest.Ask() }
	thought := func() *model.Request {
		r := modeltest.Ask()
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{
			{Kind: model.Reasoning, Text: "hm", Opaque: &model.Opaque{Provider: "anthropic", Data: json.RawMessage(`{"signature":"x"}`)}}, {Kind: model.Text, Text: "hi"},
		}}, model.UserText("go on"))
		return r
	}
	tools := func(choice string) *model.Request {
		r := modeltest.Ask()
		r.Tools, r.Choice = []model.ToolSpec{{Name: "a"}, {Name: "b"}}, choice
		return r
	}
	shaped := func() *model.Request { r := modeltest.Ask(); r.Schema = shape; return r }
	for _, c := range []struct {
		name        string
		opts        Options
		req         *model.Request
		bad, says   string // what is refused, with which words
		then, never string // what the next request holds, and what not
	}{
		{"temperature", Options{}, func() *model.Request { r := modeltest.Ask(); r.Temperature = &warm; return r }(), `"temperature"`, "`temperature` is deprecated for this model.", `"max_tokens"`, "temperature"},
		{"budget", Options{Thinking: 2000}, plain(), `"enabled"`, `"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`, `"thinking":{"type":"adaptive","display":"summarized"}`, "budget"},
		{"adaptive", Options{Thinking: Adaptive, MaxTokens: 8000}, plain(), `"adaptive"`, "adaptive thinking is not supported on this model", `"thinking":{"type":"enabled","budget_tokens":4000}`, "adaptive"},
		{"display", Options{Thinking: Adaptive}, plain(), `"display"`, "thinking.adaptive.display: Extra inputs are not permitted", `"thinking":{"type":"adaptive"}`, "display"},
		{"effort", Options{Effort: "high"}, plain(), `"effort"`, "This model does not support the effort parameter.", `"max_tokens"`, "output_config"},
		{"max_tokens", Options{Thinking: 2000}, plain(), `34000`, "max_tokens: 34000 > 2200, which is the maximum allowed number of output tokens for m", `"max_tokens":2200`, "34000"},
		{"signature", Options{Thinking: Adaptive}, thought(), `"signature"`, "messages.1.content.0: Invalid `signature` in `thinking` block", `"go on"`, `thinking`},
		{"a tool loop without thoughts", Options{Thinking: 2000}, plain(), `"thinking"`, "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", `"hi"`, "thinking"},
		{"tool_choice", Options{}, tools("b"), `"tool_choice"`, "Thinking may not be enabled when tool_choice forces tool use.", `"name":"b"`, `"name":"a"`},
		{"format", Options{Effort: "low"}, shaped(), `"format"`, "output_config.format: this model does not support structured outputs", `"tool_choice":{"type":"any"}`, `"format"`},
		{"config", Options{Effort: "low"}, plain(), `"output_config"`, "output_config: Extra inputs are not permitted", `"hi"`, "output_config"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			m, last := refusing(t, c.opts, func(_ map[string]any, raw string) (int, string) {
				asked++
				if strings.Contains(raw, c.bad) {
					return http.StatusBadRequest, c.says
				}
				return 0, ""
			})
			if _, err := model.Collect(m.Generate(t.Context(), c.req), nil); err != nil {
				t.Fatalf("%v after %s", err, last())
			}
			if asked != 2 || !strings.Contains(last(), c.then) || strings.Contains(last(), c.never) || strings.Count(last(), "cache_control") < 1 {
				t.Errorf("asked %d times, last\n%s\nwant %s and not %s", asked, last(), c.then, c.never)
			}
		})
	}
	t.Run("what cannot be left out", func(t *testing.T) {
		asked := 0
		m, _ := refusing(t, Options{}, func(map[string]any, string) (int, string) { asked++; return 400, "temperature, effort and thinking" })
		if _, err := model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil); err == nil || asked != 1 {
			t.Errorf("got %v after %d requests", err, asked)
		}
	})
}

// TestErrors checks what users are told.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status     int
		says, want string
		code       string
	}{
		{400, "prompt is too long: 210000 tokens > 200000 maximum", "(request req_7); shorten the conversation or choose a model with a larger context", "context_length_exceeded"},
		{400, "Your credit balance is too low to access the API", "check the plan and the billing of the account", "insufficient_quota"},
		{400, "no " + canary, "no [API key] (request req_7)", "invalid_request_error"},
		{401, "invalid x-api-key", "check the API key in ANTHROPIC_API_KEY", "invalid_request_error"},
		{413, "too large", "shorten the conversation", "invalid_request_error"},
	} {
		m, _ := refusing(t, Options{}, func(map[string]any, string) (int, string) { return c.status, c.says })
		_, err := model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil)
		e, ok := err.(*model.Error)
		if !ok || e.Status != c.status || e.Code != c.code || !strings.HasSuffix(e.Error(), c.want) && !strings.Contains(e.Error(), c.want) || e.Temporary {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if all := fmt.Sprintf("%v %+v %#v %q", err, e, e, e.Err); strings.Contains(all, canary) {
			t.Errorf("the key is in %s", all)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		opts *Options
		want string
	}{
		{nil, "anthropic: no model name; set Options.Model"},
		{&Options{Model: "m", BaseURL: "localhost:11434"}, "write it like https://api.anthropic.com"},
		{&Options{Model: "m", BaseURL: "http://u:" + canary + "@h"}, "holds a user or password"},
		{&Options{Model: "m", APIKey: "sk\n" + canary}, "check ANTHROPIC_API_KEY"},
		{&Options{Model: "m", AuthToken: "sk " + canary}, "check ANTHROPIC_API_KEY"},
		{&Options{Model: "m", Thinking: 1023}, "a thinking budget of 1023 tokens; set at least 1024, or Adaptive"},
		{&Options{Model: "m", Thinking: -2}, "a thinking budget of -2 tokens"},
	} {
		_, err := New(c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v, want an error with %q and without the key", err, c.want)
		}
	}
}

func TestKeysAreSentAndNotPrinted(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "from-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://from-the-environment")
	var got http.Header
	o := Options{Model: "m", APIKey: canary, AuthToken: canary + "2", HTTPClient: &http.Client{Transport: modeltest.Transport(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		if r.URL.String() != "https://api.anthropic.com/v1/messages" {
			t.Errorf("sent to %s", r.URL)
		}
		return modeltest.Answer(strings.NewReader(endTurn))(r)
	})}}
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil); err != nil {
		t.Fatal(err)
	}
	if got.Get("X-Api-Key") != canary || got.Get("Authorization") != "Bearer "+canary+"2" {
		t.Errorf("sent %v", got)
	}
	modeltest.PrintsNoKey(t, canary, o, &o, m, *m)
	unkeyed, err := New(&Options{Model: "m", HTTPClient: o.HTTPClient})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Collect(unkeyed.Generate(t.Context(), modeltest.Ask()), nil); err != nil || got.Get("X-Api-Key")+got.Get("Authorization") != "" {
		t.Errorf("without a key %v was sent (%v)", got, err)
	}
}

func TestPriceAndWindow(t *testing.T) {
	modeltest.Known(t, func(price *model.Price, window int) model.Model {
		m, err := New(&Options{Model: "m", Price: price, Window: window})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// TestLimits checks the bounds on what is kept of an answer.
func TestLimits(t *testing.T) {
	blocks := func(n int, block string) string {
		var b strings.Builder
		b.WriteString(stream(begin))
		for i := range n {
			b.WriteString(stream(blockStart(i, block), blockStop(i)))
		}
		return b.String() + stream(reason("tool_use"), halt)
	}
	long := strings.Repeat("x", 1<<20)
	for want, body := range map[string]string{
		"more than 256 tool calls":     blocks(257, `{"type":"tool_use","id":"a","name":"f"}`),
		"more than 256 tool calls ":    blocks(5000, `{"type":"server_tool_use"}`),
		"says more than 2 MiB":         blocks(9, `{"type":"tool_use","id":"a","name":"f","input":{"x":"`+long+`"}}`),
		"says more than 2 MiB ":        blocks(9, `{"type":"redacted_thinking","data":"`+long+`"}`),
		"a line of the stream is long": "data: {\"x\":\"" + strings.Repeat(long, 5),
	} {
		m := newModel(t, modeltest.Answer(strings.NewReader(body)))
		_, err := model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil)
		e, ok := err.(*model.Error)
		if !ok || e.Code != model.CodeTooLarge || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
