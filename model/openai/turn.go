package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// A turn sends one request and turns the chunks of one attempt into parts. It
// implements [wire.Turn].
type turn struct {
	*request

	calls  calls
	usage  model.Usage
	reason string  // to finish
	id     string  // of the response
	said   [2]bool // text, reasoning
}

// Post implements [wire.Turn].
func (t *turn) Post() (*wire.Post, error) {
	*t = turn{request: t.request}
	body, err := json.Marshal(t.request)
	return &wire.Post{Path: endpoint, Body: body}, err
}

type chunk struct {
	ID      wire.Word       `json:"id"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index   wire.Count `json:"index"`
		Delta   delta      `json:"delta"`
		Message delta      `json:"message"` // of servers that do not stream, or that repeat all at the end
		Reason  wire.Word  `json:"finish_reason"`
	} `json:"choices"`
	Usage *wire.Aside[usage] `json:"usage"`
}

type delta struct {
	Content   content     `json:"content"`
	Refusal   string      `json:"refusal"`
	Thought   string      `json:"reasoning_content"` // DeepSeek, vLLM, llama.cpp
	Reasoning content     `json:"reasoning"`         // OpenRouter, Ollama
	Calls     []callDelta `json:"tool_calls"`
}

// UnmarshalJSON implements json.Unmarshaler. Some servers send the text itself.
func (d *delta) UnmarshalJSON(raw []byte) error {
	type plain delta
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &d.Content)
	}
	return json.Unmarshal(raw, (*plain)(d))
}

type usage struct {
	Prompt        wire.Count `json:"prompt_tokens"`
	Completion    wire.Count `json:"completion_tokens"`
	Total         wire.Count `json:"total_tokens"`
	PromptDetails wire.Aside[struct {
		Cached  wire.Count `json:"cached_tokens"`
		Written wire.Count `json:"cache_write_tokens"` // OpenRouter
	}] `json:"prompt_tokens_details"`
	CompletionDetails wire.Aside[struct {
		Reasoning wire.Count `json:"reasoning_tokens"`
	}] `json:"completion_tokens_details"`
	CacheHit wire.Count `json:"prompt_cache_hit_tokens"` // DeepSeek
}

// content is text that some servers send as a list of typed pieces.
type content struct{ text, reasoning string }

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '[' {
		return json.Unmarshal(raw, &c.text)
	}
	var pieces []struct {
		Type     string  `json:"type"`
		Text     string  `json:"text"`
		Thinking content `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return err
	}
	for _, p := range pieces {
		if p.Type == "thinking" {
			c.reasoning += p.Thinking.text + p.Text
		} else {
			c.text += p.Text
		}
	}
	return nil
}

// Event implements [wire.Turn].
func (t *turn) Event(ev *wire.Event, out *wire.Out) error {
	if ev.Name == "error" {
		return wire.ReadProblem(ev.Data)
	}
	var c chunk
	if err := json.Unmarshal(ev.Data, &c); err != nil {
		return wire.Malformed(fmt.Sprintf("the stream holds %q, which is not a chunk of a chat completion: %v", wire.Clip(string(ev.Data), 60),
			strict.Words(ev.Data, err)))
	}
	if wire.Failed(c.Error) {
		return wire.ReadProblem(c.Error)
	}
	t.id = cmp.Or(t.id, string(c.ID))
	if c.Usage != nil {
		if before := t.usage; t.count(&c.Usage.V) != before { // some servers count as they go
			out.Progress()
		}
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue // only one was asked for
		}
		if err := t.delta(&choice.Delta, out); err != nil {
			return err
		}
		if err := t.message(&choice.Message, out); err != nil {
			return err
		}
		if choice.Reason != "" && choice.Reason != "null" {
			t.reason = string(choice.Reason)
		}
	}
	return nil
}

func (t *turn) count(u *usage) model.Usage {
	in, out, reasoning := int(u.Prompt), int(u.Completion), int(u.CompletionDetails.V.Reasoning)
	if reasoning > 0 && int(u.Total) == in+out+reasoning { // xAI counts it apart
		out += reasoning
	}
	cached := min(int(max(u.PromptDetails.V.Cached, u.CacheHit)), in)
	t.usage = model.Usage{
		In: in, Out: out, Reasoning: min(reasoning, out),
		Cached: cached, Written: min(int(u.PromptDetails.V.Written), in-cached),
	}
	return t.usage
}

// message takes a whole message. Of what was said in pieces it says nothing again.
func (t *turn) message(d *delta, out *wire.Out) error {
	if t.said[0] {
		d.Content.text, d.Refusal = "", ""
	}
	if t.said[1] {
		d.Content.reasoning, d.Thought, d.Reasoning = "", "", content{}
	}
	if len(t.calls.list) > 0 {
		d.Calls = nil
	}
	return t.delta(d, out)
}

func (t *turn) delta(d *delta, out *wire.Out) error {
	thought := d.Thought
	if thought == "" { // servers that send both send the same twice
		thought = d.Reasoning.text
	}
	thought += d.Content.reasoning
	if err := out.Say(model.Reasoning, thought); err != nil {
		return err
	}
	text := d.Content.text + d.Refusal
	if err := out.Say(model.Text, text); err != nil {
		return err
	}
	t.said[0], t.said[1] = t.said[0] || text != "", t.said[1] || thought != ""
	for i := range d.Calls {
		c := &d.Calls[i]
		if err := out.Grow(len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)); err != nil {
			return err
		}
		if err := t.calls.add(c, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// End implements [wire.Turn]. A stream without [DONE] is whole if it gave a reason to finish and was closed in order. One with [DONE] that gave no reason
// is whole if it has text or calls: a call that was cut is found by its arguments.
func (t *turn) End(marked bool, out *wire.Out) error {
	switch {
	case t.reason == "" && marked && (t.said[0] || len(t.calls.list) > 0):
		t.reason = "stop"
	case t.reason == "" && marked:
		return fmt.Errorf("%w: it gave no finish_reason", wire.ErrUnfinished)
	case t.reason == "":
		return wire.ErrUnfinished
	}
	stop, err := stopCode(t.reason)
	if err != nil {
		return err
	}
	return out.Finish(wire.Ending{Reason: t.reason, Stop: stop, Held: t.calls.parts(), Usage: t.usage, ID: t.id})
}

// stopCode reads a finish_reason. Reasons it does not know are errors: servers use them
// for turns they broke off.
func stopCode(reason string) (model.StopCode, error) {
	switch strings.ToLower(reason) {
	case "stop", "eos", "eos_token", "end_turn", "stop_sequence", "end", "done", "finish", "finished", "complete", "completed":
		return model.StopEnd, nil
	case "tool_calls", "tool_call", "tool_use", "function_call":
		return model.StopCalls, nil
	case "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded":
		return model.StopLength, nil
	case "content_filter", "safety", "sensitive":
		return model.StopFilter, nil
	}
	return "", &wire.Problem{Code: reason, Text: fmt.Sprintf("the server broke the turn off with finish_reason %q", wire.Clip(reason, 40))}
}
