package anthropic

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

const canary = "sk-ant-canary-1234567890"

func newModel(t testing.TB, rt http.RoundTripper) *Model {
	t.Helper()
	m, err := New(&Options{Model: "m", APIKey: canary, HTTPClient: &http.Client{Transport: rt}, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stream is the events of the protocol, each in one line: its data, with its type first.
func stream(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		var e struct{ Type string }
		if json.Unmarshal([]byte(l), &e) == nil && e.Type != "" {
			fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Type, l)
		} else {
			b.WriteString(l)
		}
	}
	return b.String()
}

const (
	begin = `{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1}}}`
	ping  = `{"type":"ping"}`
	halt  = `{"type":"message_stop"}`
)

func blockStart(i int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block)
}

func blockDelta(i int, delta string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, delta)
}

func blockStop(i int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i) }

func reason(r string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + r + `","stop_sequence":null},"usage":{"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}`
}

func textBlock(i int, s string) string {
	return stream(blockStart(i, `{"type":"text","text":""}`), blockDelta(i, `{"type":"text_delta","text":"`+s+`"}`), blockStop(i))
}

func callBlock(i int, id, args string) string {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // of a string, never
	}
	return stream(blockStart(i, `{"type":"tool_use","id":"`+id+`","name":"f","input":{}}`), blockDelta(i, `{"type":"input_json_delta","partial_json":""}`),
		blockDelta(i, `{"type":"input_json_delta","partial_json":`+string(raw)+`}`), blockStop(i))
}

// TestStreams checks streams as Anthropic and the servers that speak its protocol send them.
func TestStreams(t *testing.T) {
	const counted = `"usage":{"in":130,"out":7,"cached":100,"written":20,"reasoning":3}`
	said := func(parts, stop string) string {
		return `{"message":{"role":"assistant","parts":` + parts + `},` + counted + `,"stop":"` + stop + `"}`
	}
	hi := `[{"kind":"text","text":"hi"}]`
	one := `{"kind":"call","call":{"id":"a","name":"f","args":{"x":1}}}`
	thought := stream(blockStart(0, `{"type":"thinking","thinking":"","signature":""}`), blockDelta(0, `{"type":"thinking_delta","thinking":"hm"}`),
		blockDelta(0, `{"type":"signature_delta","signature":"ab"}`), blockDelta(0, `{"type":"signature_delta","signature":"cd"}`), blockStop(0))
	for _, c := range []struct{ name, body, want string }{
		{"text", stream(begin, ping, textBlock(0, "hi"), reason("end_turn"), halt), said(hi, "end")},
		{"thinking", stream(begin, thought, textBlock(1, "hi"), reason("end_turn"), halt),
			said(`[{"kind":"reasoning","text":"hm","opaque":{"provider":"anthropic","data":{"signature":"abcd"}}},{"kind":"text","text":"hi"}]`, "end")},
		{"thinking that is not shown", stream(begin, blockStart(0, `{"type":"thinking","thinking":"","signature":"abc"}`), blockStop(0), textBlock(1, "hi"), reason("end_turn"), halt),
			said(`[{"kind":"reasoning","opaque":{"provider":"anthropic","data":{"signature":"abc"}}},{"kind":"text","text":"hi"}]`, "end")},
		{"redacted thinking", stream(begin, thought, blockStart(1, `{"type":"redacted_thinking","data":"xyz"}`), blockStop(1), textBlock(2, "hi"), reason("end_turn"), halt),
			said(`[{"kind":"reasoning","text":"hm","opaque":{"provider":"anthropic","data":{"signature":"abcd"}}},{"kind":"reasoning","opaque":{"provider":"anthropic","data":{"redacted":"xyz"}}},{"kind":"text","text":"hi"}]`, "end")},
		{"parallel calls, and what is said among them", stream(begin, callBlock(0, "a", `{"x":1}`), textBlock(1, "and"), callBlock(2, "b", ` {"x":1} `), reason("tool_use"), halt),
			said(`[`+one+`,{"kind":"text","text":"and"},`+strings.Replace(one, `"a"`, `"b"`, 1)+`]`, "calls")},
		{"thinking between calls stays there", stream(begin, callBlock(1, "a", `{"x":1}`), thought, callBlock(2, "b", `{"x":1}`), reason("tool_use"), halt),
			said(`[`+one+`,{"kind":"reasoning","text":"hm","opaque":{"provider":"anthropic","data":{"signature":"abcd"}}},`+strings.Replace(one, `"a"`, `"b"`, 1)+`]`, "calls")},
		{"interleaved blocks", stream(begin, blockStart(0, `{"type":"tool_use","id":"a","name":"f","input":{}}`), blockStart(1, `{"type":"tool_use","id":"b","name":"f","input":{}}`),
			blockDelta(1, `{"type":"input_json_delta","partial_json":"{\"x\""}`), blockDelta(0, `{"type":"input_json_delta","partial_json":"{\"x\":1}"}`), blockDelta(1, `{"type":"input_json_delta","partial_json":":1}"}`),
			blockStop(0), blockStop(1), reason("tool_use"), halt), said(`[`+one+`,`+strings.Replace(one, `"a"`, `"b"`, 1)+`]`, "calls")},
		{"input at once", stream(begin, blockStart(0, `{"type":"tool_use","id":"a","name":"f","input":{"x":1}}`), blockStop(0), reason("tool_use"), halt), said(`[`+one+`]`, "calls")},
		{"no input", stream(begin, blockStart(0, `{"type":"tool_use","id":"a","name":"f"}`), blockStop(0), reason("tool_use"), halt), said(`[`+strings.Replace(one, `{"x":1}`, `{}`, 1)+`]`, "calls")},
		{"calls that end like text", stream(begin, callBlock(0, "a", `{"x":1}`), reason("end_turn"), halt), said(`[`+one+`]`, "calls")},
		{"index 0 for all blocks", stream(begin, textBlock(0, "hi"), callBlock(0, "a", `{"x":1}`), reason("tool_use"), halt), said(`[{"kind":"text","text":"hi"},`+one+`]`, "calls")},
		{"text at the start of a block", stream(begin, blockStart(0, `{"type":"text","text":"h"}`), blockDelta(0, `{"type":"text_delta","text":"i"}`), blockStop(0), reason("end_turn"), halt), said(hi, "end")},
		{"what is not known", stream(begin, `{"type":"novelty","index":9}`, blockStart(0, `{"type":"server_tool_use","id":"s","name":"web","input":{}}`), blockDelta(0, `{"type":"input_json_delta","partial_json":"{"}`), blockStop(0),
			blockStart(1, `{"type":"text","text":"","citations":[]}`), blockDelta(1, `{"type":"citations_delta","citation":{}}`), blockDelta(1, `{"type":"text_delta","text":"hi"}`), blockStop(1), reason("end_turn"), halt), said(hi, "end")},
		{"no names, no blank lines", strings.ReplaceAll(strings.ReplaceAll(stream(begin, textBlock(0, "hi"), reason("end_turn"), halt), "event: ", ": "), "\n\n", "\n"), said(hi, "end")},
		{"no message_stop", stream(begin, textBlock(0, "hi"), reason("end_turn")), said(hi, "end")},
		{"more after message_stop", stream(begin, textBlock(0, "hi"), reason("end_turn"), halt, "data: nonsense\n\n"), said(hi, "end")},
		{"counts of the end", stream(begin, textBlock(0, "hi"), strings.Replace(reason("end_turn"), `"output_tokens":7`, `"output_tokens":7,"input_tokens":11,"cache_read_input_tokens":null`, 1), halt),
			strings.Replace(said(hi, "end"), "130", "131", 1)},
		{"max_tokens", stream(begin, textBlock(0, "hi"), reason("max_tokens"), halt), said(hi, "length")},
		{"full", stream(begin, textBlock(0, "hi"), reason("model_context_window_exceeded"), halt), said(hi, "length")},
		{"pause", stream(begin, textBlock(0, "hi"), reason("pause_turn"), halt), said(hi, "length")},
		{"stop_sequence", stream(begin, textBlock(0, "hi"), reason("stop_sequence"), halt), said(hi, "end")},
		{"no reason", stream(begin, textBlock(0, "hi"), strings.Replace(reason(""), `"output_tokens":7`, `"output_tokens":"7"`, 1), halt), said(hi, "end")},
		{"all again at the end", stream(begin, textBlock(0, "hi"), `{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`),
			strings.Replace(said(hi, "end"), `"out":7,"cached":100,"written":20,"reasoning":3`, `"out":1,"cached":100,"written":20`, 1)},
		{"refusal", stream(begin, reason("refusal"), halt), strings.Replace(said("[]", "filter"), `[]`, `null`, 1)},

		{"not streamed", "{\"type\":\"message\",\n\"content\":[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"x\":1}}],\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":130,\"output_tokens\":7}}\n",
			`{"message":{"role":"assistant","parts":[{"kind":"text","text":"hi"},` + one + `]},"usage":{"in":130,"out":7},"stop":"calls"}`},

		{"nothing", "", "error: anthropic/m: the stream ended before the model was done; try again"},
		{"no reason and nothing said", stream(begin, halt), "error: anthropic/m: the stream ended before the model was done: it gave no stop_reason; try again"},
		{"no reason within a block", stream(begin, blockStart(0, `{"type":"text"}`), blockDelta(0, `{"type":"text_delta","text":"hi"}`), halt), "error: anthropic/m: the stream ended before the model was done: it gave no stop_reason; try again"},
		{"calls that are not there", stream(begin, reason("tool_use"), halt), `error: anthropic/m: the turn ended with "tool_use" but has no tool calls`},
		{"cut among calls", stream(begin, callBlock(0, "a", `{"x":`), reason("max_tokens"), halt), `error: anthropic/m: the turn ended with "max_tokens" among its tool calls`},
		{"refused among calls", stream(begin, callBlock(0, "a", `{"x":1}`), reason("refusal"), halt), `error: anthropic/m: the turn ended with "refusal" among its tool calls`},
		{"strange reason", stream(begin, textBlock(0, "hi"), reason("abort"), halt), `error: anthropic/m: the server broke the turn off with stop_reason "abort"`},
		{"overloaded", stream(begin, textBlock(0, "hi"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`),
			"error: anthropic/m: overloaded (529) from https://api.anthropic.com: Overloaded; the server has a problem, try again later"},
		{"rate limit", `data: {"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, "error: anthropic/m: too many requests (429) from https://api.anthropic.com: slow; retry later"},
		{"invalid", stream(`{"type":"error","error":{"type":"invalid_request_error","message":"no ` + canary + `"}}`), "error: anthropic/m: bad request (400) from https://api.anthropic.com: no [API key]"},
		{"an error of somebody else", "event: error\ndata: upstream died\n\n", "error: anthropic/m: upstream died"},
		{"a delta without a block", stream(begin, blockDelta(0, `{"type":"text_delta","text":"x"}`)), "error: anthropic/m: the stream continues with content block 0, which has not begun"},
		{"a delta after its block", stream(begin, textBlock(0, "x"), blockDelta(0, `{"type":"text_delta","text":"x"}`)), "error: anthropic/m: the stream continues with content block 0, which has not begun"},
		{"a block in a block", stream(begin, blockStart(0, `{"type":"text"}`), blockStart(0, `{"type":"text"}`)), `error: anthropic/m: content block 0 begins twice, the first time as "text"`},
		{"a delta of another kind", stream(begin, blockStart(0, `{"type":"tool_use","id":"a","name":"f"}`), blockDelta(0, `{"type":"text_delta","text":"x"}`)), `error: anthropic/m: a text_delta in a content block of type "tool_use"`},
		{"broken event", stream(begin, "data: {\"type\":\n\n"), `error: anthropic/m: the stream holds "{\"type\":", which is not an event of a message: it breaks off at the end`},
		{"wrong types", stream(`{"type":"message_start","message":"x"}`), `error: anthropic/m: the stream holds "{\"type\":\"message_start\",\"message\":\"x\"}", which is not an event of a message: message is a string, want an object`},
		{"another protocol", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "error: anthropic/m: the stream ended before the model was done: it gave no stop_reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, modeltest.Answer(strings.NewReader(c.body)))
			got := modeltest.Show(model.Collect(m.Generate(t.Context(), modeltest.Ask()), nil))
			if got != c.want && !(strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAnswers checks answers that come as the input of a tool.
func TestAnswers(t *testing.T) {
	anything := &jsonschema.Schema{Type: "object"} // which the server cannot enforce
	answer := func(i int, args string) string {
		return strings.Replace(callBlock(i, "x", args), `"name":"f"`, `"name":"answer"`, 1)
	}
	for _, c := range []struct{ name, body, want string }{
		{"answer", stream(textBlock(0, "Sure:"), answer(1, `{"a":1}`), reason("tool_use")), `[{"kind":"text","text":"{\"a\":1}"}] end`},
		{"twice", stream(answer(0, `{"a":1}`), answer(1, `{"a":2}`), reason("tool_use")), `[{"kind":"text","text":"{\"a\":1}"}] end`},
		{"with another call", stream(textBlock(0, "Sure"), callBlock(1, "a", `{}`), answer(2, `{"a":1}`), reason("tool_use")), `[{"kind":"text","text":"Sure"},{"kind":"call","call":{"id":"a","name":"f","args":{}}}] calls`},
		{"as text after all", stream(textBlock(0, "{}"), reason("end_turn")), `[{"kind":"text","text":"{}"}] end`},
		{"cut", stream(answer(0, `{"a":`), reason("max_tokens")), `[{"kind":"text","text":"{\"a\":"}] length`},
	} {
		req := modeltest.Ask()
		req.Schema = anything
		m := newModel(t, modeltest.Answer(strings.NewReader(c.body)))
		got, err := model.Collect(m.Generate(t.Context(), req), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		raw, err := json.Marshal(got.Message.Parts)
		if all := string(raw) + " " + string(got.Stop); err != nil || all != c.want {
			t.Errorf("%s: got %s, want %s", c.name, all, c.want)
		}
	}
}

func FuzzStream(f *testing.F) {
	wire := modeltest.Anthropic{}
	rich := modeltest.Reply{Fragment: 3, Parts: []model.Part{
		{Kind: model.Reasoning, Text: "r", Opaque: &model.Opaque{Data: json.RawMessage(`"sig"`)}}, {Kind: model.Text, Text: "é"},
		{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: json.RawMessage(`{"x":"\"}"}`)}}, {Kind: model.Text, Text: "t"},
		{Kind: model.ToolCall, Call: &model.Call{Name: "answer", Args: json.RawMessage(`{}`)}},
		{Kind: model.UsagePart, Usage: &model.Usage{In: 1}},
	}}
	f.Add(bytes.Join(wire.Frames(nil, &rich), nil), uint16(3), true)
	f.Add([]byte(stream(begin, ping, textBlock(0, "hi"), reason("end_turn"), halt)), uint16(1), false)
	f.Add([]byte(stream(begin, callBlock(0, "a", `{"x":1,"x":2}`), reason("tool_use"), halt)), uint16(1), false)
	f.Add([]byte(stream(begin, callBlock(0, "a", `{"x":1}`), callBlock(0, "a", `{}`), reason("tool_use"))), uint16(9), true)
	f.Add([]byte("event: error\ndata: x\n\nerror: {\n\n"), uint16(2), false)
	f.Add(wire.ErrorFrame("overloaded_error", "y"), uint16(7), false)
	f.Fuzz(func(t *testing.T, body []byte, size uint16, schema bool) {
		req := modeltest.Ask()
		if schema {
			req.Schema = &jsonschema.Schema{Type: "object"}
		}
		modeltest.PlayCut(t, body, size, func(r io.Reader) string {
			said, _ := modeltest.Play(t, newModel(t, modeltest.Answer(r)), req)
			return said
		})
	})
}

// TestChunking checks that turns of all kinds survive the wire, however it is cut.
func TestChunking(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := modeltest.Draw{Int: func(low, high int) int { return rapid.IntRange(low, high).Draw(r, "n") }, Text: func() string { return rapid.String().Draw(r, "text") }}
		reply := d.Reply(false)
		d.Arrives(r, &reply, modeltest.Anthropic{}, func(rt http.RoundTripper) model.Model { return newModel(t, rt) })
	})
}
