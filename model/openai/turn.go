package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

var errNoFinish = errors.New("the stream ended before the model was done")

// A cutCallError says that a turn ended among its tool calls.
type cutCallError string

func (e cutCallError) Error() string { return string(e) }

// A turn turns the chunks of one attempt into parts.
type turn struct {
	request *model.Request
	yield   func(model.Part, error) bool
	parts   int // yielded, in all attempts

	calls  calls
	usage  model.Usage
	reason string // to finish
	size   int    // of what was said
}

func (t *turn) reset() {
	t.calls, t.usage, t.reason, t.size = calls{}, model.Usage{}, "", 0
}

type chunk struct {
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
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
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

// chunk takes one event of the stream.
func (t *turn) chunk(raw []byte) error {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return malformedError(fmt.Sprintf("the stream holds %q, which is not a chunk of a chat completion: %v", clip(string(raw), 60), err))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return eventError(readProblem(c.Error))
	}
	if c.Usage != nil {
		t.count(c.Usage)
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue // only one was asked for
		}
		for _, d := range []*delta{&choice.Delta, &choice.Message} {
			if err := t.delta(d); err != nil {
				return err
			}
		}
		if choice.Reason != "" && choice.Reason != "null" {
			t.reason = choice.Reason
		}
	}
	return nil
}

func (t *turn) count(u *usage) {
	t.usage = model.Usage{
		In: max(u.Prompt, 0), Out: max(u.Completion, 0),
		Cached:    max(u.PromptDetails.Cached, u.CacheHit, 0),
		Reasoning: max(u.CompletionDetails.Reasoning, 0),
	}
}

func (t *turn) delta(d *delta) error {
	thought := d.Thought
	if thought == "" { // servers that send both send the same twice
		thought = d.Reasoning.text
	}
	if err := t.say(model.Reasoning, thought+d.Content.reasoning); err != nil {
		return err
	}
	if err := t.say(model.Text, d.Content.text+d.Refusal); err != nil {
		return err
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		if err := t.grow(len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)); err != nil {
			return err
		}
		if err := t.calls.add(c, i == 0); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) say(kind model.PartKind, text string) error {
	if text == "" {
		return nil
	}
	if err := t.grow(len(text)); err != nil {
		return err
	}
	return t.emit(model.Part{Kind: kind, Text: text})
}

func (t *turn) grow(n int) error {
	if t.size += n; t.size > maxContent {
		return fmt.Errorf("%w: the turn says more than %d MiB; lower the output limit", errTooLarge, maxContent>>20)
	}
	return nil
}

func (t *turn) emit(p model.Part) error {
	t.parts++
	if !t.yield(p, nil) {
		return errStopped
	}
	return nil
}

// finish yields what waits for the end of the stream: calls, usage and stop. A stream
// without [DONE] is whole if it gave a reason to finish and was closed in order.
func (t *turn) finish(done bool) error {
	if t.reason == "" {
		if done {
			return fmt.Errorf("%w: it gave no finish_reason", errNoFinish)
		}
		return errNoFinish
	}
	stop, err := stopCode(t.reason)
	if err != nil {
		return err
	}
	if len(t.calls.list) > 0 {
		if stop == model.StopLength || stop == model.StopFilter {
			return cutCallError(fmt.Sprintf("the turn ended with %q among its tool calls, so none of them is used; raise the output limit or ask for less at once", clip(t.reason, 40)))
		}
		stop = model.StopCalls // some servers say "stop"
	} else if stop == model.StopCalls {
		return malformedError(fmt.Sprintf("the turn ended with %q but has no tool calls", clip(t.reason, 40)))
	}
	parts, err := t.calls.finish(t.request)
	if err != nil {
		return err
	}
	if t.usage != (model.Usage{}) {
		u := t.usage
		parts = append(parts, model.Part{Kind: model.UsagePart, Usage: &u})
	}
	for _, p := range append(parts, model.Part{Kind: model.Stop, Stop: stop}) {
		if err := t.emit(p); err != nil {
			return err
		}
	}
	return nil
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
	return "", eventError{code: reason, text: fmt.Sprintf("the server broke the turn off with finish_reason %q", clip(reason, 40))}
}
