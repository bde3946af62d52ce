package gemini

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

const canary = "AIza-canary-1234567890"

func answer(status int, body io.Reader) modeltest.Transport {
	return func(r *http.Request) (*http.Response, error) {
		res, err := modeltest.Answer(body)(r)
		res.StatusCode, res.Header = status, http.Header{}
		return res, err
	}
}

func newModel(t testing.TB, rt http.RoundTripper, edit func(*Options)) *Model {
	t.Helper()
	o := &Options{Model: "m", APIKey: canary, HTTPClient: &http.Client{Transport: rt}, Retries: -1, Backoff: time.Millisecond}
	if edit != nil {
		edit(o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// said is a chunk with the parts.
func said(parts string) string {
	return `data: {"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"index":0}]}` + "\r\n\r\n"
}

func end(reason string) string {
	return `data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"` + reason + `","index":0}]}` + "\r\n\r\n"
}

// TestDialects checks streams as the service sends them, and some that it should not.
func TestDialects(t *testing.T) {
	turn := func(parts, stop string) string {
		return `{"message":{"role":"assistant","parts":` + parts + `},"usage":{"in":0,"out":0},"stop":"` + stop + `"}`
	}
	hi := turn(`[{"kind":"text","text":"hi"}]`, "end")
	for _, c := range []struct{ name, body, want string }{
		{"text", said(`{"text":"h"}`) + said(`{"text":"i"}`) + end("STOP"), hi},
		{"thoughts", said(`{"text":"hm","thought":true}`) + said(`{"text":"hi"}`) + end("STOP"), turn(`[{"kind":"reasoning","text":"hm"},{"kind":"text","text":"hi"}]`, "end")},
		{"end with the last text", `data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}` + "\n\n", hi},
		{"end without content", said(`{"text":"hi"}`) + `data: {"candidates":[{"finishReason":"STOP"}]}` + "\n\n", hi},
		{"usage after the end", said(`{"text":"hi"}`) + end("STOP") + `data: {"usageMetadata":{"promptTokenCount":5}}` + "\n\n", strings.Replace(hi, `"in":0`, `"in":5`, 1)},
		{"usage so far", `data: {"candidates":[{"content":{"parts":[{"text":"h"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1}}` + "\n\n" +
			`data: {"candidates":[{"content":{"parts":[{"text":"i"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"toolUsePromptTokenCount":2,"candidatesTokenCount":2,"thoughtsTokenCount":3,"cachedContentTokenCount":4,"totalTokenCount":12}}` + "\n\n",
			strings.Replace(hi, `{"in":0,"out":0}`, `{"in":7,"out":5,"cached":4,"reasoning":3}`, 1)},
		{"calls in one chunk", said(`{"functionCall":{"name":"f","args":{"x":1},"id":"a"},"thoughtSignature":"c2ln"},{"functionCall":{"name":"f","id":"b"}}`) + end("STOP"),
			turn(`[{"kind":"call","call":{"id":"a","name":"f","args":{"x":1}},"opaque":{"provider":"gemini","data":{"signature":"c2ln"}}},{"kind":"call","call":{"id":"b","name":"f","args":{}}}]`, "calls")},
		{"one id twice", said(`{"functionCall":{"name":"f","id":"a"}}`) + said(`{"functionCall":{"name":"f","args":null,"id":"a"}}`) + end("STOP"),
			turn(`[{"kind":"call","call":{"id":"a","name":"f","args":{}}},{"kind":"call","call":{"id":"a_2","name":"f","args":{}}}]`, "calls")},
		{"text among calls", said(`{"text":"a"}`) + said(`{"functionCall":{"name":"f","id":"a"}}`) + said(`{"text":"b"}`) + said(`{"text":"c","thought":true}`) + end("STOP"),
			turn(`[{"kind":"text","text":"a"},{"kind":"call","call":{"id":"a","name":"f","args":{}}},{"kind":"text","text":"b"},{"kind":"reasoning","text":"c"}]`, "calls")},
		{"signature of a delta", said(`{"text":"h"}`) + said(`{"text":"i","thoughtSignature":"c2ln"}`) + end("STOP"),
			turn(`[{"kind":"text","text":"hi","opaque":{"provider":"gemini","data":{"signature":"c2ln","tail":1}}}]`, "end")},
		{"signature of nothing", said(`{"text":"hi"}`) + said(`{"text":"","thoughtSignature":"c2ln"}`) + end("STOP"),
			turn(`[{"kind":"text","text":"hi","opaque":{"provider":"gemini","data":{"signature":"c2ln"}}}]`, "end")},
		{"end of other servers", said(`{"functionCall":{"name":"f","id":"a"}}`) + end("FUNCTION_CALL"), turn(`[{"kind":"call","call":{"id":"a","name":"f","args":{}}}]`, "calls")},
		{"other candidates", `data: {"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]},"finishReason":"OTHER"}]}` + "\n\n" + said(`{"text":"hi"}`) + end("STOP"), hi},
		{"length", said(`{"text":"hi"}`) + end("MAX_TOKENS"), strings.Replace(hi, `"end"`, `"length"`, 1)},
		{"not streamed", "{\n \"candidates\": [{\"content\": {\"parts\": [\n{\"text\":\"hi\"}]}, \"finishReason\": \"STOP\"}]\n}\n", hi},

		{"nothing", "", "error: gemini/m: the stream ended before the model was done: it gave no finishReason; try again"},
		{"no reason", said(`{"text":"hi"}`), "error: gemini/m: the stream ended before the model was done: it gave no finishReason; try again"},
		{"unspecified reason", end("FINISH_REASON_UNSPECIFIED"), "error: gemini/m: the stream ended before the model was done: it gave no finishReason; try again"},
		{"blocked", `data: {"promptFeedback":{"blockReason":"PROHIBITED_CONTENT\u001b[31m"},"usageMetadata":{"promptTokenCount":5}}` + "\n\n",
			"error: gemini/m: the provider refused the prompt with blockReason PROHIBITED_CONTENT; ask for something else, or choose another model"},
		{"malformed call", `data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"call:\nf{x"}]}` + "\n\n", `error: gemini/m: the server broke the turn off with finishReason "MALFORMED_FUNCTION_CALL": call: f{x`},
		{"strange reason", end("OTHER"), `error: gemini/m: the server broke the turn off with finishReason "OTHER"`},
		{"calls that are not there", end("FUNCTION_CALL"), `error: gemini/m: the turn ended with "FUNCTION_CALL" but has no tool calls`},
		{"filter among calls", said(`{"functionCall":{"name":"f"}}`) + end("SAFETY"), `error: gemini/m: the turn ended with "SAFETY" among its tool calls, so none of them is used; raise the output limit or ask for less at once`},
		{"call without a name", said(`{"functionCall":{"args":{}}}`) + end("STOP"), "error: gemini/m: tool call 1 has no name"},
		{"pieces of a call", said(`{"functionCall":{"name":"f","willContinue":true}}`) + end("STOP"), "error: gemini/m: the answer holds pieces of a call, which were not asked for"},
		{"picture", said(`{"inlineData":{"mimeType":"image/png","data":""}}`) + end("STOP"), "error: gemini/m: the answer holds a part that is neither text nor a call; choose a model that answers with text"},
		{"error", `data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}` + "\n\n", "error: gemini/m: service unavailable (503) from https://generativelanguage.googleapis.com/v1beta: The model is overloaded.; the server has a problem, try again later"},
		{"error after the end", said(`{"text":"hi"}`) + end("STOP") + `data: {"error":{"code":400,"message":"no"}}` + "\n\n", "error: gemini/m: bad request (400) from https://generativelanguage.googleapis.com/v1beta: no"},
		{"error as a document", "{\n  \"error\": {\n    \"code\": 500,\n    \"message\": \"oops\"\n  }\n}\n", "error: gemini/m: internal server error (500) from https://generativelanguage.googleapis.com/v1beta: oops; the server has a problem, try again later"},
		{"error event", "event: error\ndata: [{\"error\":{\"message\":\"oops\"}}]\n\n", "error: gemini/m: oops"},
		{"error with the key", `data: {"error":{"message":"bad key ` + canary + `"}}` + "\n\n", "error: gemini/m: bad key [API key]"},
		{"wrong types", `data: {"candidates":"x"}` + "\n\n", `error: gemini/m: the stream holds "{\"candidates\":\"x\"}", which is not a chunk of an answer: candidates is a string, want an array`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, answer(200, strings.NewReader(c.body)), nil)
			got := modeltest.Show(model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil))
			if got != c.want && !(c.name == "wrong types" && strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	limited := `{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}`
	for _, c := range []struct {
		name, body string
		status     int // of the response; 0 is an event of a stream
		want       model.Error
		says       string
	}{
		{"rate limit", limited, 429, model.Error{Status: 429, Code: "RESOURCE_EXHAUSTED", RetryAfter: 34074824224, Temporary: true}, "retry after 34.1s"},
		{"rate limit, list", "[" + limited + "\n]", 429, model.Error{Status: 429, Code: "RESOURCE_EXHAUSTED", RetryAfter: 34074824224, Temporary: true}, "retry after 34.1s"},
		{"rate limit, event", limited, 0, model.Error{Status: 429, Code: "RESOURCE_EXHAUSTED", RetryAfter: 34074824224, Temporary: true}, "retry after 34.1s"},
		{"strange delay", `{"error":{"code":429,"status":"X","details":[{"retryDelay":"soon"},{"retryDelay":"-3s"}]}}`, 429, model.Error{Status: 429, Code: "X", Temporary: true}, "retry later"},
		{"details of another shape", `{"error":{"code":429,"status":"X","details":{"retryDelay":5}}}`, 429, model.Error{Status: 429, Code: "X", Temporary: true}, "retry later"},
		{"wrong key", `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, 400,
			model.Error{Status: 401, Code: "INVALID_ARGUMENT"}, "check the API key in GEMINI_API_KEY"},
		{"too long", `{"error":{"code":400,"message":"The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, 400,
			model.Error{Status: 400, Code: "context_length_exceeded"}, "shorten the conversation"},
		{"no such model", `{"error":{"code":404,"message":"models/m is not found for API version v1beta","status":"NOT_FOUND"}}`, 404, model.Error{Status: 404, Code: "NOT_FOUND"}, `check the model name "m"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := c.status, c.body
			if status == 0 {
				status, body = 200, "data: "+body+"\n\n"
			}
			_, err := model.Collect(newModel(t, answer(status, strings.NewReader(body)), nil).Generate(t.Context(), modeltest.Ask()), nil)
			e, ok := err.(*model.Error)
			if !ok || e.Status != c.want.Status || e.Code != c.want.Code || e.RetryAfter != c.want.RetryAfter || e.Temporary != c.want.Temporary || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %#v\n%v", e, err)
			}
		})
	}
}

// A call that the model has got wrong is the model's to do again, and not the request's.
func TestMalformedCallIsNotRepeated(t *testing.T) {
	s := modeltest.NewServer(t, modeltest.Sequence(modeltest.Reply{Raw: []byte(end("MALFORMED_FUNCTION_CALL"))}, modeltest.Text("ok")), &modeltest.Options{Wire: modeltest.Gemini{}})
	rt := http.DefaultTransport.(*http.Transport).Clone()
	defer rt.CloseIdleConnections()
	m := newModel(t, rt, func(o *Options) { o.BaseURL, o.Retries = s.URL, 2 })
	_, err := model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil)
	if e, ok := err.(*model.Error); !ok || e.Code != model.CodeBadCall || e.Temporary {
		t.Error(err)
	}
}

func FuzzStream(f *testing.F) {
	w := modeltest.Gemini{}
	rich := modeltest.Reply{Parts: []model.Part{
		{Kind: model.Text, Text: "é"}, {Kind: model.Reasoning, Text: "r", Opaque: &model.Opaque{Data: json.RawMessage(`"c2ln"`)}},
		{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: json.RawMessage(`{"x":"\"}"}`)}},
		{Kind: model.ToolCall, Call: &model.Call{ID: "b", Name: "g", Args: json.RawMessage(`{}`)}},
		{Kind: model.UsagePart, Usage: &model.Usage{In: 1}},
	}}
	f.Add(bytes.Join(w.Frames(nil, &rich), nil), uint16(3))
	f.Add([]byte(said(`{"text":"hi"}`)+end("STOP")), uint16(1))
	f.Add([]byte(said(`{"functionCall":{"name":"f","args":{"x":1,"x":2}}}`)+end("STOP")), uint16(1))
	f.Add([]byte(said(`{"functionCall":{"name":"f","args":[1]}},null,{"thoughtSignature":"x"}`)+end("OTHER")), uint16(1))
	f.Add([]byte("event: error\ndata: x\n\nerror: {\n\n{\"candidates\":[null]}"), uint16(2))
	f.Add([]byte(`data: {"promptFeedback":{"blockReason":"X"}}`), uint16(2))
	f.Add(w.ErrorFrame("x", "y"), uint16(7))
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		modeltest.PlayCut(t, body, size, func(r io.Reader) string { return play(t, r) })
	})
}

// play runs a stream and checks what must hold for all, and that the turn can be sent back.
func play(t *testing.T, body io.Reader) string {
	m := newModel(t, answer(200, body), nil)
	said, got := modeltest.Play(t, m, modeltest.Ask())
	if got == nil {
		return said
	}
	req := modeltest.Ask()
	req.Messages = append(req.Messages, got.Message)
	for _, c := range got.Message.Calls() {
		req.Messages = append(req.Messages, model.ToolResult(c, "x", false))
	}
	if err := (&turn{model: m, request: req}).check(); err != nil {
		t.Errorf("the turn %s cannot be sent back: %v", said, err)
	}
	return said
}

// TestChunking checks that turns of all kinds survive the wire, however it is cut, and that
// every signature goes back with the text it came with.
func TestChunking(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := modeltest.Draw{Int: func(low, high int) int { return rapid.IntRange(low, high).Draw(r, "n") }, Text: func() string { return rapid.String().Draw(r, "text") }}
		reply := d.Reply(true)
		whole := d.Arrives(r, &reply, modeltest.Gemini{}, func(rt http.RoundTripper) model.Model { return newModel(t, rt, nil) })
		h := history{turn: &turn{model: newModel(t, nil, nil), request: modeltest.Ask()}, names: map[string]string{}}
		if err := h.add(whole.Message); err != nil {
			r.Fatal(err)
		}
		sent := map[string]string{}
		for _, c := range h.contents {
			for _, p := range c.Parts {
				if p.Signature != "" {
					sent[p.Signature] = ""
					if p.Text != nil {
						sent[p.Signature] = *p.Text
					}
				}
			}
		}
		for _, p := range reply.Parts {
			var name string
			if p.Opaque != nil && json.Unmarshal(p.Opaque.Data, &name) == nil {
				if text, ok := sent[name]; !ok || text != p.Text {
					r.Errorf("the signature %s came with %q and went back with %q (%v)", name, p.Text, text, ok)
				}
			}
		}
	})
}
