package openai

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

const completed = `data: {"type":"response.completed","response":{"status":"completed","output":[]}}` + "\n\n"

// events returns a stream of events.
func events(list ...string) string { return "data: " + strings.Join(list, "\n\ndata: ") + "\n\n" }

// itemDone returns the event of an item that is done, and deltaOf a delta.
func itemDone(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func deltaOf(index int, kind, text string) string {
	return fmt.Sprintf(`{"type":"response.%s.delta","output_index":%d,"delta":%q}`, kind, index, text)
}

func responder(t testing.TB, rt http.RoundTripper) *Model {
	t.Helper()
	m, err := New(&Options{Model: "m", APIKey: canary, HTTPClient: &http.Client{Transport: rt}, Retries: -1, Responses: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestResponseStreams checks what servers send, and what else they may.
func TestResponseStreams(t *testing.T) {
	said := func(parts, stop string) string {
		return `{"message":{"role":"assistant","parts":[` + parts + `]},"usage":{"in":0,"out":0},"stop":"` + stop + `"}`
	}
	end := func(status, more string) string {
		return `{"type":"response.` + status + `","response":{"status":"` + status + `"` + more + `}}`
	}
	done := end("completed", "")
	hi := said(`{"kind":"text","text":"hi"}`, "end")
	const (
		message = `{"type":"message","content":[{"type":"output_text","text":"hi"}]}`
		f1      = `{"type":"function_call","call_id":"a","name":"f","arguments":"{\"x\":1}"}`
		called  = `{"kind":"call","call":{"id":"a","name":"f","args":{"x":1}}}`
	)
	for _, c := range []struct{ name, body, want string }{
		{"deltas", events(deltaOf(0, "output_text", "h"), deltaOf(0, "output_text", "i"), itemDone(0, message), done), hi},
		{"no deltas", events(itemDone(0, message), done), hi},
		{"no items", events(deltaOf(0, "output_text", "hi"), done), hi},
		{"items at the end only", events(deltaOf(0, "output_text", "hi"), end("completed", `,"output":[`+message+`,`+f1+`]`)), said(`{"kind":"text","text":"hi"},`+called, "calls")},
		{"items twice", events(itemDone(0, f1), end("completed", `,"output":[`+f1+`]`)), said(called, "calls")},
		{"[DONE]", events(itemDone(0, message), done, "[DONE]"), hi},
		{"not streamed", `{"object":"response","status":"completed","error":null,"output":[` + message + `]}`, hi},
		{"arguments without a string", events(itemDone(0, strings.Replace(f1, `"{\"x\":1}"`, `{"x":1}`, 1)), done), said(called, "calls")},
		{"refusal", events(deltaOf(0, "refusal", "hi"), itemDone(0, `{"type":"message","content":[{"type":"refusal","refusal":"hi"}]}`), done), hi},
		{"refusal at once", events(itemDone(0, `{"type":"message","content":[{"type":"refusal","refusal":"hi"}]}`), done), hi},
		{"raw reasoning", events(deltaOf(0, "reasoning_text", "hm"), itemDone(0, `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null}`), itemDone(1, message), done),
			said(`{"kind":"reasoning","text":"hm"},{"kind":"text","text":"hi"}`, "end")},
		{"two summaries", events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}`, `{"type":"response.reasoning_summary_part.added","output_index":0}`,
			deltaOf(0, "reasoning_summary_text", "A"), `{"type":"response.reasoning_summary_part.added","output_index":0}`, deltaOf(0, "reasoning_summary_text", "B"),
			itemDone(0, `{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"x"}`), done),
			said(`{"kind":"reasoning","text":"A\n\nB","opaque":{"provider":"openai","data":{"id":"rs","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"x"}}}`, "end")},
		{"what follows a call stays behind it", events(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call"}}`, deltaOf(1, "output_text", "hi"), itemDone(0, f1), itemDone(1, message), done),
			said(called+`,{"kind":"text","text":"hi"}`, "calls")},
		{"what was not asked for", events(`{"type":"response.web_search_call.searching","delta":{}}`, itemDone(0, `{"type":"web_search_call"}`), itemDone(1, message), done), hi},
		{"usage", events(itemDone(0, message), end("completed", `,"usage":{"input_tokens":9,"output_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens_details":{"reasoning_tokens":3}}`)),
			strings.Replace(hi, `"in":0,"out":0`, `"in":9,"out":5,"cached":4,"reasoning":3`, 1)},
		{"length", events(deltaOf(0, "output_text", "hi"), end("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)), strings.Replace(hi, `"end"`, `"length"`, 1)},
		{"filter", events(deltaOf(0, "output_text", "hi"), end("incomplete", `,"incomplete_details":{"reason":"content_filter"}`)), strings.Replace(hi, `"end"`, `"filter"`, 1)},

		{"nothing", "", "error: openai/m: the stream ended before the model was done; try again"},
		{"no end", events(itemDone(0, message), "[DONE]"), "error: openai/m: the stream ended before the model was done: it gave no response.completed; try again"},
		{"strange end", events(itemDone(0, message), end("incomplete", `,"incomplete_details":{"reason":"bored"}`)), `error: openai/m: the server broke the turn off: "bored"`},
		{"a call that is not done", events(`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"f"}}`, deltaOf(0, "function_call_arguments", "{}"), done), "error: openai/m: tool call 1 has no name"},
		{"a call that was cut", events(`{"type":"response.output_item.added","item":{"type":"function_call"}}`, end("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)),
			`error: openai/m: the turn ended with "max_output_tokens" among its tool calls, so none of them is used; raise the output limit or ask for less at once`},
		{"failed", events(end("failed", `,"error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 11.5s."},"output":[`+message+`]`)),
			"error: openai/m: too many requests (429) from https://api.openai.com/v1: Rate limit reached. Please try again in 11.5s.; retry after 11.5s"},
		{"failed without a reason", events(end("failed", `,"error":null`)), "error: openai/m: the server gave no reason"},
		{"error event", events(`{"type":"error","sequence_number":2,"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your quota"}}`), "error: openai/m: You exceeded your quota; check the plan and the billing of the account"},
		{"flat error event", events(`{"type":"error","code":null,"message":"oops","param":null}`), "error: openai/m: oops"},
		{"error instead of a stream", `{"error":{"message":"bad key ` + canary + `"}}`, "error: openai/m: bad key [API key]"},
		{"chat completions", `data: {"choices":[]}` + "\n\n", `error: openai/m: the stream holds "{\"choices\":[]}", which is not an event of a response: it has no type`},
		{"a delta that is no text", events(`{"type":"response.output_text.delta","delta":{}}`), `error: openai/m: the delta of a response.output_text.delta is not text: "{}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := modeltest.Show(model.Collect(responder(t, modeltest.Answer(strings.NewReader(c.body))).Generate(t.Context(), modeltest.Ask()), nil)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestResponsesRelax checks that what a server refuses is left out, and what it refused for good is
// not sent again.
func TestResponsesRelax(t *testing.T) {
	keep := json.RawMessage(`{"id":"rs_1","summary":[],"encrypted_content":"gAAA"}`)
	for _, c := range []struct {
		says   string
		has    string // in the body that is refused
		twice  bool   // the next turn is refused too
		status int
	}{
		{"Encrypted content is not supported with this model.", `"include"`, false, 400},
		{"Your organization must be verified to generate reasoning summaries.", `"summary":"auto"`, false, 400},
		{"The encrypted content gAAA could not be verified.", `"encrypted_content":"gAAA"`, true, 400},
		{"Item 'rs_1' of type 'reasoning' was provided without its required following item.", `"encrypted_content":"gAAA"`, true, 400},
		{"unknown field text.format", `"json_schema"`, true, 422},
		{"extra field tool_choice", `"tool_choice"`, true, 422},
	} {
		t.Run(c.says, func(t *testing.T) {
			refused, last := 0, ""
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				if last = string(body); strings.Contains(last, c.has) {
					refused++
					w.WriteHeader(c.status)
					fmt.Fprintf(w, `{"error":{"message":%q}}`, c.says)
					return
				}
				fmt.Fprint(w, completed)
			}))
			defer s.Close()
			m := against(t, s.URL, func(o *Options) { o.Responses = true })
			req := modeltest.Ask()
			req.System, req.Schema = "Be brief.", &jsonschema.Schema{Type: "object"}
			req.Tools, req.Choice = []model.ToolSpec{{Name: "a"}, {Name: "b"}}, "b"
			req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{
				{Kind: model.Reasoning, Opaque: &model.Opaque{Provider: "openai", Data: keep}}, {Kind: model.Text, Text: "Hm."},
			}}, model.UserText("Go on."))
			for turn, want := range []int{1, 1} {
				if c.twice {
					want += turn
				}
				if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil || refused != want {
					t.Fatalf("turn %d: refused %d times, want %d: %v", turn+1, refused, want, err)
				}
			}
			if strings.Contains(c.has, "json_schema") && !strings.Contains(last, `Be brief.\n\nYour answer must be one JSON object`) {
				t.Errorf("the schema is not in %s", last)
			}
			if strings.Contains(c.has, "tool_choice") && (strings.Contains(last, `"name":"a"`) || !strings.Contains(last, `"name":"b"`)) {
				t.Errorf("not only the tool b is in %s", last)
			}
		})
	}
}

// The turns of a conversation have a cache key in common, and another conversation has another. A server that may not know the field gets none.
func TestCacheKey(t *testing.T) {
	sent := func(base string, req *model.Request) string {
		var body struct {
			Key string `json:"prompt_cache_key"`
		}
		m, err := New(&Options{Model: "m", BaseURL: base, Responses: true, Retries: -1, HTTPClient: &http.Client{Transport: modeltest.Transport(func(r *http.Request) (*http.Response, error) {
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			return modeltest.Answer(strings.NewReader(completed))(r)
		})}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil {
			t.Fatal(err)
		}
		return body.Key
	}
	first, later, other := modeltest.Ask(), modeltest.Ask(), modeltest.Ask()
	later.Messages = append(later.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: "hi"}}}, model.UserText("Go on."))
	other.Messages = []model.Message{model.UserText("Something else.")}
	if k := sent("", first); len(k) != 32 || k != sent("", later) || k == sent("", other) {
		t.Errorf("keys %q, %q, %q", k, sent("", later), sent("", other))
	}
	if k := sent("http://127.0.0.1:1/v1", first); k != "" {
		t.Errorf("another server gets %q", k)
	}
}

func FuzzResponses(f *testing.F) {
	wire := modeltest.Responses{}
	rich := modeltest.Reply{Fragment: 3, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "r", Opaque: &model.Opaque{Data: json.RawMessage(`"x"`)}}, {Kind: model.Text, Text: "é", Opaque: &model.Opaque{Data: json.RawMessage(`"commentary"`)}},
		{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: json.RawMessage(`{"x":"\"}"}`)}},
		{Kind: model.UsagePart, Usage: &model.Usage{In: 1}},
	}}
	f.Add(bytes.Join(wire.Frames(nil, &rich), nil), uint16(3))
	f.Add([]byte(events(deltaOf(0, "output_text", "h"), itemDone(0, `{"type":"message","content":[{"text":"hi"}]}`))+completed), uint16(1))
	f.Add([]byte(`{"object":"response","status":"completed","output":[{"type":"function_call","name":"f","arguments":{"x":1,"x":2}}]}`), uint16(2))
	f.Add(wire.ErrorFrame("x", "y"), uint16(7))
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		modeltest.PlayCut(t, body, size, func(r io.Reader) string {
			said, _ := modeltest.Play(t, responder(t, modeltest.Answer(r)), modeltest.Ask())
			return said
		})
	})
}
