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
	reason string // to finish
	id     string // of the response
}

// Post implements [wire.Turn].
func (t *turn) Post() (*wire.Post, error) {
	t.calls, t.usage, t.reason, t.id = calls{}, model.Usage{}, "", ""
	body, err := json.Marshal(t.request)
	return &wire.Post{Path: endpoint, Body: body}, err
}

type chunk struct {
	ID      string          `json:"id"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index   int    `json:"index"`
		Delta   delta  `json:"delta"`
		Message delta  `json:"message"` // of servers that do not stream
		Reason  string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

type delta struct {
	Content   content     `json:"content"`
	Refusal   string      `json:"refusal"`
	Thought   string      `json:"reasoning_content"` // DeepSeek, vLLM, llama.cpp
	Reasoning content     `json:"reasoning"`         // OpenRouter, Ollama
	Calls     []callDelta `json:"tool_calls"`
}

type usage struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	Total         int `json:"total_tokens"`
	PromptDetails struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"` // OpenRouter
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit int `json:"prompt_cache_hit_tokens"` // DeepSeek
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
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return wire.ReadProblem(c.Error)
	}
	t.id = cmp.Or(t.id, c.ID)
	if c.Usage != nil {
		if before := t.usage; t.count(c.Usage) != before { // some servers count as they go
			out.Progress()
		}
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue // only one was asked for
		}
		for _, d := range []*delta{&choice.Delta, &choice.Message} {
			if err := t.delta(d, out); err != nil {
				return err
			}
		}
		if choice.Reason != "" && choice.Reason != "null" {
			t.reason = choice.Reason
		}
	}
	return nil
}

func (t *turn) count(u *usage) model.Usage {
	in, out, reasoning := max(u.Prompt, 0), max(u.Completion, 0), max(u.CompletionDetails.Reasoning, 0)
	if reasoning > 0 && u.Total == in+out+reasoning { // xAI counts it apart
		out += reasoning
	}
	cached := min(max(u.PromptDetails.Cached, u.CacheHit, 0), in)
	t.usage = model.Usage{
		In: in, Out: out, Reasoning: min(reasoning, out),
		Cached: cached, Written: min(max(u.PromptDetails.Written, 0), in-cached),
	}
	return t.usage
}

func (t *turn) delta(d *delta, out *wire.Out) error {
	thought := d.Thought
	if thought == "" { // servers that send both send the same twice
		thought = d.Reasoning.text
	}
	if err := out.Say(model.Reasoning, thought+d.Content.reasoning); err != nil {
		return err
	}
	if err := out.Say(model.Text, d.Content.text+d.Refusal); err != nil {
		return err
	}
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

// End implements [wire.Turn]. A stream without [DONE] is whole if it gave a reason to
// finish and was closed in order.
func (t *turn) End(marked bool, out *wire.Out) error {
	switch {
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
	case "stop", "eos", "eos_token", "end_turn", "stop_sequence":
		return model.StopEnd, nil
	case "tool_calls", "tool_call", "tool_use", "function_call":
		return model.StopCalls, nil
	case "length", "max_tokens", "model_length", "model_context_window_exceeded":
		return model.StopLength, nil
	case "content_filter", "safety", "sensitive":
		return model.StopFilter, nil
	}
	return "", &wire.Problem{Code: reason, Text: fmt.Sprintf("the server broke the turn off with finish_reason %q", wire.Clip(reason, 40))}
}
