package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

func closed() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// TestEncode compares requests with the files in testdata. Run with UPDATE=1 to write them.
func TestEncode(t *testing.T) {
	zero, warm := 0.0, 0.7
	signed := func(s string, tail int) *model.Opaque { return signature{Signature: s, Tail: tail}.opaque() }
	calls := model.Message{Role: model.Assistant, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "not signed"}, {Kind: model.Reasoning, Text: "signed", Opaque: signed("c2ln", 6)},
		{Kind: model.Text, Text: "Let me see.", Opaque: signed("dGV4", 4)},
		{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look", Args: json.RawMessage(`{"at": "<b>"}`)}, Opaque: signed("Y2Fs", 0)},
		{Kind: model.ToolCall, Call: &model.Call{ID: "2", Name: "look"}},
	}}
	results := []model.Message{
		{Role: model.Tool, Parts: []model.Part{{Kind: model.Result, Call: &model.Call{ID: "2"}}}},
		model.ToolResult(model.Call{ID: "1", Name: "look"}, "no such file", true),
	}
	plain := []model.Message{model.UserText("hi")}
	tools := []model.ToolSpec{
		{Name: "look", Description: "Looks.", Input: &jsonschema.Schema{Schema: "https://json-schema.org/draft/2020-12/schema", Type: "object", Required: []string{"at"}, Properties: map[string]*jsonschema.Schema{"at": {Type: "string"}}, AdditionalProperties: closed()}},
		{Name: "now"}, {Name: "open", Input: &jsonschema.Schema{Type: "object"}},
	}
	answer := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Types: []string{"string", "null"}}}, AdditionalProperties: closed()}
	for name, c := range map[string]struct {
		opts    Options
		without relaxation
		req     model.Request
	}{
		"plain":     {opts: Options{Model: "gemini-2.5-flash"}, req: model.Request{Messages: plain}},
		"history":   {opts: Options{Model: "models/gemini-3-pro"}, req: model.Request{System: "Be brief.", Messages: append(append([]model.Message{model.UserText("hi"), calls}, results...), model.Message{Role: model.Assistant}, model.UserText("")), Tools: tools}},
		"budget":    {opts: Options{Model: "m", Thinking: 1024}, req: model.Request{Messages: plain, MaxTokens: 9, Temperature: &zero}},
		"off":       {opts: Options{Model: "tunedModels/m", Thinking: -1}, req: model.Request{Messages: plain, Tools: tools[:1], Choice: "required"}},
		"effort":    {opts: Options{Model: "m", Effort: "low", BaseURL: "http://localhost:1/v1beta/models/"}, req: model.Request{Messages: plain, Tools: tools, Choice: "now", Temperature: &warm}},
		"schema":    {opts: Options{Model: "m"}, req: model.Request{Messages: plain, Schema: answer, Tools: tools[:1]}},
		"unthought": {opts: Options{Model: "m"}, without: thoughts | systemPlace, req: model.Request{System: "Be brief.", Messages: plain, Schema: answer, Tools: tools}},
		"prompted":  {opts: Options{Model: "m"}, without: answerType | thoughts, req: model.Request{System: "Be brief.", Messages: plain, Schema: answer, Tools: tools[:1]}},
		"strangers": {opts: Options{Model: "m"}, without: signatures | callIDs, req: model.Request{Messages: append([]model.Message{model.UserText("hi"), {Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: "x"}, {Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look"}}, {Kind: model.ToolCall, Call: &model.Call{ID: "2", Name: "look"}}}}}, results...)}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent bytes.Buffer
			rt := modeltest.Transport(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("x-goog-api-key") != canary || strings.Contains(r.URL.String(), canary) {
					t.Errorf("the headers are %v", r.Header)
				}
				modeltest.Sent(t, &sent, r)
				return modeltest.Answer(strings.NewReader(end("STOP")))(r)
			})
			m := newModel(t, rt, func(o *Options) {
				o.Model, o.BaseURL, o.Thinking, o.Effort = c.opts.Model, c.opts.BaseURL, c.opts.Thinking, c.opts.Effort
			})
			m.refused.Store(uint32(c.without))
			if _, err := model.Collect(m.Generate(t.Context(), &c.req), nil); err != nil {
				t.Fatal(err)
			}
			modeltest.Golden(t, name, sent.Bytes())
		})
	}
}

func TestRefusesRequests(t *testing.T) {
	open := func(rt http.RoundTripper) model.Model { return newModel(t, rt, nil) }
	modeltest.RefusesRequests(t, open)
	user := model.UserText("hi")
	for want, req := range map[string]*model.Request{
		"has no messages that say":      {Messages: []model.Message{{Role: model.Assistant}}},
		`message 2: a part of kind`:     {Messages: []model.Message{user, {Role: model.User, Parts: []model.Part{{Kind: model.ToolCall}}}}},
		`"x" names no tool`:             {Messages: []model.Message{{Role: model.Tool, Parts: []model.Part{{Kind: model.Result, Call: &model.Call{ID: "x"}}}}}},
		`call to "f" are not a JSON ob`: {Messages: []model.Message{{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: []byte(`{"a"`)}}}}}},
		`tool "f": its input schema`:    {Messages: []model.Message{user}, Tools: []model.ToolSpec{{Name: "f", Input: &jsonschema.Schema{Type: "object", Types: []string{"null"}}}}},
	} {
		modeltest.Refused(t, open, req, want)
	}
}

// TestRelax checks that what a server does not know is left out after it said so, in this turn
// and, if that helped, in the next ones.
func TestRelax(t *testing.T) {
	has := func(word string) func(string) bool {
		return func(body string) bool { return strings.Contains(body, word) }
	}
	for _, c := range []struct {
		refuses func(body string) bool
		says    string
		keeps   bool // leaves it out in later turns too
	}{
		{has("responseMimeType"), "Function calling with a response mime type: 'application/json' is unsupported", true},
		{has("thinkingConfig"), "Thinking is not enabled for models/m", true},
		{has(`"id"`), `Invalid JSON payload received. Unknown name "id" at 'contents[1].parts[0].function_call': Cannot find field.`, true},
		{has("systemInstruction"), "Developer instruction is not enabled for models/m", true},
		{func(body string) bool { return !has("thoughtSignature")(body) }, "Function call is missing a thought_signature in functionCall parts.", false},
	} {
		var asked []bool // whether each request was refused
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			asked = append(asked, c.refuses(string(body)))
			if asked[len(asked)-1] {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"error":{"code":400,"message":%q,"status":"INVALID_ARGUMENT"}}`, c.says)
				return
			}
			fmt.Fprint(w, end("STOP"))
		}))
		rt := http.DefaultTransport.(*http.Transport).Clone()
		m := newModel(t, rt, func(o *Options) { o.BaseURL, o.Retries = s.URL, 3 })
		req := modeltest.Ask()
		req.System, req.Schema = "Be brief.", &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "string"}}}
		req.Tools = []model.ToolSpec{{Name: "a", Input: req.Schema}}
		call := model.Call{ID: "1", Name: "a"}
		req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &call}}}, model.ToolResult(call, "x", false))
		for range 2 {
			if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil {
				t.Errorf("%s: %v", c.says, err)
			}
		}
		want := "[true false false]"
		if !c.keeps {
			want = "[true false true false]"
		}
		if got := fmt.Sprint(asked); got != want {
			t.Errorf("%s: refused were %s, want %s", c.says, got, want)
		}
		rt.CloseIdleConnections()
		s.Close()
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		opts *Options
		want string
	}{
		{nil, "gemini: no model name; set Options.Model"},
		{&Options{Model: "m", BaseURL: "localhost:1"}, "not an http or https address; write it like https://generativelanguage"},
		{&Options{Model: "m", BaseURL: "http://h?key=" + canary}, "must not have a query"},
		{&Options{Model: "m?key=x"}, "cannot be part of an address"},
		{&Options{Model: "../m"}, "cannot be part of an address"},
		{&Options{Model: "m", APIKey: "a\n" + canary}, "check GEMINI_API_KEY"},
		{&Options{Model: "m", Effort: "low", Thinking: 5}, "exclude each other"},
	} {
		_, err := New(c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v, want an error with %q and without the key", err, c.want)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	o := Options{Model: "m", APIKey: canary, Price: &model.Price{In: 1}, Window: 5}
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	modeltest.PrintsNoKey(t, canary, o, &o, m)
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
