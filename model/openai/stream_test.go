package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

func newModel(t testing.TB, rt http.RoundTripper) *Model {
	t.Helper()
	m, err := New(&Options{Model: "m", APIKey: "sk-canary-1234567890", HTTPClient: &http.Client{Transport: rt}, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func chunks(deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		if strings.HasPrefix(d, "{") {
			fmt.Fprintf(&b, "data: {\"choices\":[{\"delta\":%s}]}\n\n", d)
		} else {
			b.WriteString(d)
		}
	}
	return b.String()
}

const (
	endCalls = `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	endStop  = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

// TestDialects checks streams as servers of all kinds send them.
func TestDialects(t *testing.T) {
	said := func(parts, stop string) string {
		return `{"message":{"role":"assistant","parts":` + parts + `},"usage":{"in":0,"out":0},"stop":"` + stop + `"}`
	}
	two := said(`[{"kind":"call","call":{"id":"a","name":"f","args":{"x":1}}},{"kind":"call","call":{"id":"b","name":"f","args":{"x":2}}}]`, "calls")
	one := said(`[{"kind":"call","call":{"id":"a","name":"f","args":{"x":1}}}]`, "calls")
	hi := said(`[{"kind":"text","text":"hi"}]`, "end")
	for _, c := range []struct{ name, body, want string }{
		{"index 0 for all", chunks(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}]}`) + endCalls, two},
		{"index 0 for all, fragments", chunks(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":2}"}}]}`) + endCalls, two},
		{"no index, whole calls", chunks(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}]}`) + endStop, two},
		{"no index, fragments", chunks(
			`{"tool_calls":[{"id":"a","function":{"name":"f"}}]}`, `{"tool_calls":[{"function":{"arguments":"{\"x\""}}]}`, `{"tool_calls":[{"function":{"arguments":":1}"}}]}`,
			`{"tool_calls":[{"id":"b","function":{"name":"f"}}]}`, `{"tool_calls":[{"function":{"arguments":"{\"x\":2}"}}]}`) + endCalls, two},
		{"interleaved", chunks(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}},{"index":1,"id":"b","function":{"name":"f","arguments":"{"}}]}`,
			`{"tool_calls":[{"index":1,"function":{"arguments":"\"x\":2}"}},{"index":0,"function":{"arguments":":1}"}}]}`) + endCalls, two},
		{"id and name in every delta", chunks(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`) + endCalls, one},
		{"arguments as an object", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]}`) + endStop, one},
		{"arguments null", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":null}}]}`) + endStop,
			said(`[{"kind":"call","call":{"id":"a","name":"f","args":{}}}]`, "calls")},
		{"one id twice", chunks(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}},{"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\":2}"}}]}`) + endCalls,
			strings.Replace(two, `"b"`, `"a_2"`, 1)},
		{"one id twice, no index", chunks(
			`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":2}"}}]}`) + endCalls,
			strings.Replace(two, `"b"`, `"a_2"`, 1)},
		{"no ids, same index", chunks(
			`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\":2}"}}]}`) + endCalls,
			""},
		{"reasoning of OpenRouter", chunks(`{"reasoning":"hm"}`, `{"reasoning":"!","content":"hi"}`) + endStop, said(`[{"kind":"reasoning","text":"hm!"},{"kind":"text","text":"hi"}]`, "end")},
		{"reasoning twice", chunks(`{"reasoning":"hm","reasoning_content":"hm"}`, `{"content":"hi","reasoning":null}`) + endStop, said(`[{"kind":"reasoning","text":"hm"},{"kind":"text","text":"hi"}]`, "end")},
		{"content in pieces", chunks(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"hi"}]}`) + endStop, said(`[{"kind":"reasoning","text":"hm"},{"kind":"text","text":"hi"}]`, "end")},
		{"refusal", chunks(`{"content":null,"refusal":"hi"}`) + endStop, hi},
		{"comments, events and line ends", ": OPENROUTER PROCESSING\r\n\r\nevent: message\r\nid: 7\r\n" + strings.ReplaceAll(chunks(`{"content":"hi"}`)+endStop, "\n", "\r\n"), hi},
		{"many comments", strings.Repeat(": waiting\n\n", 5000) + chunks(`{"content":"hi"}`) + endStop, hi},
		{"no blank lines, no spaces", strings.ReplaceAll(strings.ReplaceAll(chunks(`{"content":"hi"}`)+endStop, "\n\n", "\n"), "data: ", "data:"), hi},
		{"data over several lines", "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"hi\"}}]}\n\n" + endStop, hi},
		{"no [DONE]", strings.TrimSuffix(chunks(`{"content":"hi"}`)+endStop, "data: [DONE]\n\n"), hi},
		{"no last line end", strings.TrimSuffix(chunks(`{"content":"hi"}`)+endStop, "\n\n"), hi},
		{"more after [DONE]", chunks(`{"content":"hi"}`) + endStop + "data: nonsense\n\n", hi},
		{"other choices", `data: {"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"}]}` + "\n\n" + chunks(`{"content":"hi"}`) + endStop, hi},
		{"not streamed", "{\n  \"choices\": [{\"index\":0, \"message\": {\"role\":\"assistant\",\n\"content\":\"hi\"}, \"finish_reason\":\"stop\"}]\n}\n", hi},
		{"finish with the last text", `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":null}` + "\n\ndata: [DONE]\n\n", hi},
		{"cumulative usage", `data: {"choices":[{"delta":{"content":"h"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"i"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_cache_hit_tokens":4}}` + "\n\n",
			`{"message":{"role":"assistant","parts":[{"kind":"text","text":"hi"}]},"usage":{"in":5,"out":2,"cached":4},"stop":"end"}`},

		{"no finish_reason", chunks(`{"content":"hi"}`, "data: [DONE]\n\n"), hi},
		{"no finish_reason after calls", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, "data: [DONE]\n\n"), one},
		{"another word for the end", chunks(`{"content":"hi"}`) + strings.Replace(endStop, "stop", "COMPLETE", 1), hi},
		{"another word for the limit", chunks(`{"content":"hi"}`) + strings.Replace(endStop, "stop", "max_output_tokens", 1), said(`[{"kind":"text","text":"hi"}]`, "length")},
		{"counts with a point, in text, as lists", chunks(`{"content":"hi"}`) +
			`data: {"id":17,"error":{},"choices":[{"index":"0","delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5.0,"completion_tokens":"2","total_tokens":true,"prompt_tokens_details":[]}}` + "\n\n",
			strings.Replace(hi, `"in":0,"out":0`, `"in":5,"out":2`, 1)},
		{"usage that is none", chunks(`{"content":"hi"}`) + strings.Replace(endStop, `"choices"`, `"error":false,"usage":"free","choices"`, 1), hi},
		{"delta that is the text", `data: {"choices":[{"delta":"hi"}]}` + "\n\n" + endStop, hi},
		{"all again at the end", chunks(`{"content":"h"}`, `{"content":"i"}`) + strings.Replace(endStop, `"delta":{}`, `"delta":{},"message":{"role":"assistant","content":"hi"}`, 1), hi},
		{"calls again at the end", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`) +
			strings.Replace(endCalls, `"delta":{}`, `"delta":{},"message":{"content":"","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, 1), one},
		{"a call again in pieces", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`) + endCalls, one},
		{"the name behind the arguments", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`) + endCalls, one},
		{"pieces with another index", chunks(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"{\"x\":2}"}}]}`) + endCalls, two},
		{"index in text, id a number", chunks(`{"tool_calls":[{"index":"0","id":17,"function":{"name":"f","arguments":"{\"x\":1}"}}]}`) + endCalls, strings.Replace(one, `"a"`, `"17"`, 1)},
		{"arguments in text in text", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"\"{\\\"x\\\":1}\""}}]}`) + endCalls, one},
		{"arguments with a brace too many", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}}"}}]}`) + endCalls, one},
		{"arguments behind an empty object", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}{\"x\":1}"}}]}`) + endCalls, one},
		{"arguments with a line feed in a text", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"1\n2\"}"}}]}`) + endCalls,
			strings.Replace(one, `{"x":1}`, `{"x":"1\u000a2"}`, 1)},

		{"nothing", "", "error: openai/m: the stream ended before the model was done; try again"},
		{"no finish_reason and nothing said", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "error: openai/m: the stream ended before the model was done: it gave no finish_reason; try again"},
		{"no finish_reason within a call", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}`, "data: [DONE]\n\n"),
			`error: openai/m: the arguments of the call to "f" are not a JSON object: it breaks off at the end: "{\"x\""`},
		{"two objects in one call", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}{\"x\":2}"}}]}`) + endCalls,
			`error: openai/m: the arguments of the call to "f" are not a JSON object: unexpected '{' at byte 8 of "{\"x\":1}{\"x\":2}"`},
		{"calls that are not there", endCalls, `error: openai/m: the turn ended with "tool_calls" but has no tool calls`},
		{"strange finish", strings.Replace(endStop, "stop", "abort", 1), `error: openai/m: the server broke the turn off with finish_reason "abort"`},
		{"wrong types", `data: {"choices":"x"}` + "\n\n", `error: openai/m: the stream holds "{\"choices\":\"x\"}", which is not a chunk of a chat completion: choices is a string, want an array`},
		{"call without a name", chunks(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`) + endCalls, "error: openai/m: tool call 1 has no name"},
		{"error with spaces", "data: { \"error\" : {\"message\":\"no memory\",\"code\":503}}\n\n", "error: openai/m: service unavailable (503) from https://api.openai.com/v1: no memory; the server has a problem, try again later"},
		{"error beside choices", `data: {"id":"x","error":{"code":"server_error","message":"Provider died"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n", "error: openai/m: Provider died"},
		{"error event of SSE", "event: error\ndata: {\"message\":\"oops\"}\n\n", "error: openai/m: oops"},
		{"error event of text", "event: error\ndata: out of memory\n\n", "error: openai/m: out of memory"},
		{"error line of llama.cpp", "error: {\"code\":500,\"message\":\"kv cache full\"}\n\n", "error: openai/m: internal server error (500) from https://api.openai.com/v1: kv cache full; the server has a problem, try again later"},
		{"error instead of a stream", "{\"error\": \"model 'm' not found\"}", "error: openai/m: model 'm' not found"},
		{"error with the key", "data: {\"error\":{\"message\":\"bad key sk-canary-1234567890\"}}\n\n", "error: openai/m: bad key [API key]"},
		{"text", "data: hello\n\n", `error: openai/m: the stream holds "hello" where a JSON object belongs`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, modeltest.Answer(strings.NewReader(c.body)))
			got := modeltest.Show(model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil))
			if c.name == "no ids, same index" {
				if strings.Count(got, `"id":"call_`) != 2 || !strings.Contains(got, `{"x":1}`) || !strings.Contains(got, `{"x":2}`) {
					t.Errorf("got %s", got)
				}
				again := newModel(t, modeltest.Answer(strings.NewReader(c.body)))
				if same := modeltest.Show(model.Collect(again.Generate(t.Context(), modeltest.Ask()), nil)); same != got {
					t.Errorf("the same turn got other ids: %s", same)
				}
				return
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestIDsDifferFromHistory(t *testing.T) {
	body := chunks(`{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"f","arguments":"{}"}}]}`) + endCalls
	m := newModel(t, modeltest.Answer(strings.NewReader(body)))
	req := modeltest.Ask()
	req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{ID: "call_0", Name: "f"}}}},
		model.ToolResult(model.Call{ID: "call_0"}, "x", false))
	got, err := model.Collect(m.Generate(t.Context(), req), nil)
	if err != nil || got.Message.Calls()[0].ID != "call_0_2" {
		t.Errorf("got %s", modeltest.Show(got, err))
	}
}

func FuzzStream(f *testing.F) {
	wire := modeltest.OpenAI{}
	rich := modeltest.Reply{Fragment: 3, Parts: []model.Part{
		{Kind: model.Text, Text: "é"}, {Kind: model.Reasoning, Text: "r"},
		{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: json.RawMessage(`{"x":"\"}"}`)}},
		{Kind: model.ToolCall, Call: &model.Call{Name: "g", Args: json.RawMessage(`{}`)}},
		{Kind: model.UsagePart, Usage: &model.Usage{In: 1}},
	}}
	f.Add(bytes.Join(wire.Frames(nil, &rich), nil), uint16(3))
	f.Add([]byte(chunks(`{"content":"hi"}`)+endStop), uint16(1))
	f.Add([]byte(chunks(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1,"x":2}}}]}`)+endStop), uint16(1))
	f.Add([]byte("event: error\ndata: x\n\nerror: {\n\n{\"choices\":[{\"message\":{}}]}"), uint16(2))
	f.Add(wire.ErrorFrame("x", "y"), uint16(7))
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		modeltest.PlayCut(t, body, size, func(r io.Reader) string {
			said, _ := modeltest.Play(t, newModel(t, modeltest.Answer(r)), modeltest.Ask())
			return said
		})
	})
}

// TestChunking checks that turns of all kinds survive the wire, however it is cut.
func TestChunking(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := modeltest.Draw{Int: func(low, high int) int { return rapid.IntRange(low, high).Draw(r, "n") }, Text: func() string { return rapid.String().Draw(r, "text") }}
		reply := d.Reply(false)
		d.Arrives(r, &reply, modeltest.OpenAI{}, func(rt http.RoundTripper) model.Model { return newModel(t, rt) })
	})
}

// TestEncode compares requests with the files in testdata. Run with UPDATE=1 to write them.
func TestEncode(t *testing.T) {
	zero, warm := 0.0, 0.7
	args := func(s string) json.RawMessage { return json.RawMessage(s) }
	calls := model.Message{Role: model.Assistant, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "hm"}, {Kind: model.Text, Text: "Let me "}, {Kind: model.Text, Text: "see."},
		{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look", Args: args(`{"at": "<b>"}`)}}, {Kind: model.ToolCall, Call: &model.Call{ID: "2", Name: "now"}},
	}}
	thoughtful := model.Message{Role: model.Assistant, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "A\n\nB", Opaque: &model.Opaque{Provider: "openai", Data: args(`{"id":"rs_1","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"secret"}`)}},
		{Kind: model.Text, Text: "Let me see.", Opaque: &model.Opaque{Provider: "openai", Data: args(`{"phase":"commentary"}`)}}, {Kind: model.Text, Text: "Hm."},
		{Kind: model.Reasoning, Text: "theirs", Opaque: &model.Opaque{Provider: "anthropic", Data: args(`{"encrypted_content":"x"}`)}}, {Kind: model.Reasoning, Text: "nobody's"},
		{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look", Args: args(`{"at": "<b>"}`)}},
		{Kind: model.Reasoning, Opaque: &model.Opaque{Provider: "openai", Data: args(`{"id":"rs_2","summary":null,"encrypted_content":"more"}`)}},
		{Kind: model.ToolCall, Call: &model.Call{ID: "2", Name: "now"}},
	}}
	results := model.Message{Role: model.Tool, Parts: []model.Part{
		{Kind: model.Result, Call: &model.Call{ID: "1", Name: "look"}, Text: "no such file", Error: true}, {Kind: model.Result, Call: &model.Call{ID: "2", Name: "now"}},
	}}
	closed := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	tools := []model.ToolSpec{
		{Name: "look", Description: "Looks.", Input: &jsonschema.Schema{Type: "object", Required: []string{"at"}, Properties: map[string]*jsonschema.Schema{"at": {Type: "string"}}, AdditionalProperties: closed}},
		{Name: "now"}, {Name: "any", Input: &jsonschema.Schema{}}, {Name: "open", Input: &jsonschema.Schema{Type: "object"}},
	}
	for name, c := range map[string]struct {
		opts Options
		req  model.Request
	}{
		"plain":             {Options{Model: "gpt-4o"}, model.Request{Messages: []model.Message{model.UserText("hi")}}},
		"history":           {Options{Model: "gpt-4o"}, model.Request{System: "Be brief.", Messages: []model.Message{model.UserText("hi"), calls, results, {Role: model.Assistant}, {Role: model.User, Parts: []model.Part{{Kind: model.Text, Text: "a"}, {Kind: model.Text, Text: "b"}}}}, Tools: tools}},
		"reasoning":         {Options{Model: "deepseek", BaseURL: "http://localhost:1/v1/", ReplayReasoning: true, Effort: "low"}, model.Request{Messages: []model.Message{model.UserText(""), calls, results}, MaxTokens: 9, Temperature: &zero}},
		"required":          {Options{Model: "gpt-4o"}, model.Request{Messages: []model.Message{model.UserText("hi")}, Tools: tools[:1], Choice: "required", MaxTokens: 9, Temperature: &warm}},
		"responses-plain":   {Options{Model: "gpt-4o", Responses: true}, model.Request{Messages: []model.Message{model.UserText("hi")}, MaxTokens: 9}},
		"responses-history": {Options{Model: "gpt-5", Responses: true}, model.Request{System: "Be brief.", Messages: []model.Message{model.UserText("hi"), thoughtful, results, {Role: model.Assistant, Parts: thoughtful.Parts[:1]}, {Role: model.User, Parts: []model.Part{{Kind: model.Text, Text: "a"}, {Kind: model.Text, Text: "b"}}}}, Tools: tools, Choice: "required"}},
		"responses-named":   {Options{Model: "lab", BaseURL: "http://localhost:1/v1/responses", Responses: true, Effort: "low"}, model.Request{Messages: []model.Message{model.UserText("hi"), calls, results}, Tools: tools[:2], Choice: "now", MaxTokens: 99, Temperature: &zero, Schema: tools[0].Input}},
		"named":             {Options{Model: "o3", BaseURL: "http://localhost:1/v1/chat/completions"}, model.Request{Messages: []model.Message{model.UserText("hi")}, Tools: tools[:2], Choice: "now", MaxTokens: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent bytes.Buffer
			c.opts.HTTPClient = &http.Client{Transport: modeltest.Transport(func(r *http.Request) (*http.Response, error) {
				modeltest.Sent(t, &sent, r)
				end := endStop
				if c.opts.Responses {
					end = completed
				}
				return modeltest.Answer(strings.NewReader(end))(r)
			})}
			m, err := New(&c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := model.Collect(m.Generate(t.Context(), &c.req), nil); err != nil {
				t.Fatal(err)
			}
			modeltest.Golden(t, name, sent.Bytes())
		})
	}
}
