package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

const endTurn = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n"

// TestEncode compares requests with the files in testdata. Run with UPDATE=1 to write them.
func TestEncode(t *testing.T) {
	warm := 0.7
	opaque := func(data string) *model.Opaque {
		return &model.Opaque{Provider: "anthropic", Data: json.RawMessage(data)}
	}
	calls := model.Message{Role: model.Assistant, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "hm", Opaque: opaque(`{"signature":"c2ln"}`)}, {Kind: model.Reasoning, Opaque: opaque(`{"redacted":"ZGF0YQ=="}`)},
		{Kind: model.Reasoning, Text: "unsigned"}, {Kind: model.Reasoning, Text: "theirs", Opaque: &model.Opaque{Provider: "gemini", Data: json.RawMessage(`{"signature":"x"}`)}},
		{Kind: model.Text, Text: "Let me see."}, {Kind: model.Text, Text: " \n"},
		{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look", Args: json.RawMessage(`{"at": "<b>"}`)}}, {Kind: model.ToolCall, Call: &model.Call{ID: "functions.now:2", Name: "now"}},
	}}
	result := func(id, text string, bad bool) model.Message {
		return model.ToolResult(model.Call{ID: id}, text, bad)
	}
	history := []model.Message{
		model.UserText("hi"), calls, result("1", "no such file", true), result("functions.now:2", "", false),
		{Role: model.Assistant}, {Role: model.Assistant, Parts: []model.Part{{Kind: model.Reasoning, Text: "only", Opaque: opaque(`{"signature":"c2ln"}`)}}},
		{Role: model.User, Parts: []model.Part{{Kind: model.Text, Text: "a"}, {Kind: model.Text}, {Kind: model.Text, Text: "b"}}},
	}
	closed := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	tools := []model.ToolSpec{
		{Name: "look", Description: "Looks.", Input: &jsonschema.Schema{Type: "object", Required: []string{"at"}, Properties: map[string]*jsonschema.Schema{"at": {Type: "string"}}, AdditionalProperties: closed}},
		{Name: "now"}, {Name: "any", Input: &jsonschema.Schema{}},
	}
	low, two := 0.0, 2
	schema := &jsonschema.Schema{Type: "object", Description: "An answer.", Properties: map[string]*jsonschema.Schema{
		"score": {Type: "number", Minimum: &low, Description: "How good."}, "who": {Types: []string{"null", "string"}},
		"list": {Type: "array", MaxItems: &two, Items: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"x": {Enum: []any{"a", 1}}}}},
	}}
	free := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}}
	user := []model.Message{model.UserText("hi")}
	for name, c := range map[string]struct {
		opts Options
		req  model.Request
	}{
		"plain":        {Options{Model: "claude"}, model.Request{Messages: []model.Message{model.UserText(" ")}, Temperature: &warm}},
		"history":      {Options{Model: "claude", Thinking: Adaptive, Effort: "high", Beta: []string{"b1", "b2"}}, model.Request{System: "Be brief.", Messages: history, Tools: tools, Temperature: &warm}},
		"called":       {Options{Model: "claude", NoCache: true}, model.Request{Messages: history, MaxTokens: 9}},
		"budget":       {Options{Model: "claude", BaseURL: "http://localhost:1/v1/", Thinking: 4000}, model.Request{Messages: user, Tools: tools[:1]}},
		"small":        {Options{Model: "claude", BaseURL: "http://localhost:1/v1/messages", Thinking: 4000}, model.Request{Messages: user, MaxTokens: 3000}},
		"tiny":         {Options{Model: "claude", Thinking: 4000}, model.Request{Messages: user, MaxTokens: 1500}},
		"required":     {Options{Model: "claude", Thinking: 4000, MaxTokens: 100}, model.Request{Messages: user, Tools: tools[:1], Choice: "required", Temperature: &warm}},
		"named":        {Options{Model: "claude"}, model.Request{System: "Be brief.", Messages: user, Tools: tools[:2], Choice: "look"}},
		"schema":       {Options{Model: "claude", Effort: "low"}, model.Request{System: "Be brief.", Messages: user, Tools: tools[:1], Schema: schema}},
		"answer":       {Options{Model: "claude"}, model.Request{Messages: user, Tools: []model.ToolSpec{{Name: "answer"}}, Schema: free}},
		"answer-think": {Options{Model: "claude", Thinking: Adaptive}, model.Request{Messages: user, Schema: free}},
		"answer-after": {Options{Model: "claude"}, model.Request{Messages: history, Schema: free}},
		"answer-never": {Options{Model: "claude"}, model.Request{Messages: user, Tools: tools[:1], Choice: "look", Schema: free}},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", c.req)
			var sent bytes.Buffer
			c.opts.HTTPClient = &http.Client{Transport: modeltest.Transport(func(r *http.Request) (*http.Response, error) {
				body := modeltest.Sent(t, &sent, r, r.Header.Get("Anthropic-Version"), r.Header.Get("Anthropic-Beta"))
				if n := bytes.Count(body, []byte("cache_control")); n > 4 {
					t.Errorf("%d marks for the cache", n)
				}
				return modeltest.Answer(strings.NewReader(endTurn))(r)
			})}
			m, err := New(&c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := model.Collect(m.Generate(t.Context(), &c.req), nil); err != nil {
				t.Fatal(err)
			}
			if after := fmt.Sprintf("%+v", c.req); after != before {
				t.Errorf("the model changed the request to %s", after)
			}
			modeltest.Golden(t, name, sent.Bytes())
		})
	}
}

// TestMarksFollowTheConversation checks that what a turn marked last is marked in the
// next one too: only so is it found in the cache.
func TestMarksFollowTheConversation(t *testing.T) {
	m := newModel(t, nil)
	req := modeltest.Ask()
	req.System, req.Tools = "Be brief.", []model.ToolSpec{{Name: "f"}}
	prefix := func() (last, before string) {
		r, err := m.encode(req)
		if err != nil {
			t.Fatal(err)
		}
		if r.Tools[0].Cache == nil || r.System[0].Cache == nil {
			t.Error("tools and system are not marked")
		}
		var marked []string
		for i, msg := range r.Messages {
			for j, b := range msg.Content {
				if b.Cache != nil {
					marked = append(marked, fmt.Sprint(i, ".", j))
				}
			}
		}
		if len(marked) == 1 {
			return marked[0], ""
		}
		return marked[1], marked[0]
	}
	last, _ := prefix()
	for i := range 4 {
		id := fmt.Sprint(i)
		req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{
			{Kind: model.ToolCall, Call: &model.Call{ID: id, Name: "f"}}, {Kind: model.ToolCall, Call: &model.Call{ID: id + "b", Name: "f"}},
		}}, model.ToolResult(model.Call{ID: id}, "x", false), model.ToolResult(model.Call{ID: id + "b"}, "x", false))
		now, before := prefix()
		if before != last {
			t.Errorf("turn %d marks %s and %s, the one before marked %s", i+2, before, now, last)
		}
		last = now
	}
}

func TestBadRequests(t *testing.T) {
	open := func(rt http.RoundTripper) model.Model { return newModel(t, rt) }
	modeltest.RefusesRequests(t, open)
	modeltest.Refused(t, open, &model.Request{Messages: []model.Message{{Role: model.Assistant}}}, "has no messages")
	modeltest.Refused(t, open, &model.Request{Messages: []model.Message{{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: []byte("{")}}}}}}, `"f" are not valid JSON`)
}

func TestEnforceable(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string"}}}`:                                            `{"additionalProperties":false,"properties":{"a":{"type":"string"}},"type":"object"}`,
		`{"$schema":"x","type":"object","properties":{"a":{"type":"string","pattern":"^x","minLength":2}}}`: `{"additionalProperties":false,"properties":{"a":{"description":"(minLength: 2, pattern: \"^x\")","type":"string"}},"type":"object"}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"const":1}]}},"required":["a"]}`:     `{"additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"null"},{"const":1}]}},"required":["a"],"type":"object"}`,
		`{"type":"object"}`:                       "",
		`{"type":"object","properties":{}}`:       "",
		`{"type":"string"}`:                       "",
		`true`:                                    "",
		`{"properties":{"a":{"type":"string"}}}`:  "",
		`{"type":"object","properties":true}`:     "",
		`{"type":"object","properties":{"a":{}}}`: "",
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}`:                       "",
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}}}`:                                       "",
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}}}`:                                                    "",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                                                     "",
		`{"type":"object","properties":{"a":{"type":["object","null"]}}}`:                                                       "",
		`{"type":"object","properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 20) + `{}` + strings.Repeat("}", 22): "",
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(in, err)
		}
		got, ok := enforceable(v)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", in, got, ok, want)
		}
	}
}
