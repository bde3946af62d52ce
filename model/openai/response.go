package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// A responseTurn sends one request to the Responses API and turns the events of one attempt into
// parts. It implements [wire.Turn].
//
// Text and reasoning are said as their deltas arrive. All else is taken from the items when they are
// done: calls, and what the server wants back.
type responseTurn struct {
	*responsesRequest
	refused *atomic.Uint32 // of the model

	open     map[wire.Count]begun // items that are not done, by their index
	holding  bool                 // there was a call: what comes waits for the end, to stay in order
	held     []model.Part
	itemized bool // an event had an item that was done
	answer   *response
}

// begun is what has arrived of an item.
type begun struct {
	bytes int
	live  bool // they were said
	call  bool
}

// Post implements [wire.Turn].
func (t *responseTurn) Post() (*wire.Post, error) {
	*t = responseTurn{responsesRequest: t.responsesRequest, refused: t.refused, open: map[wire.Count]begun{}}
	body, err := json.Marshal(t.responsesRequest)
	return &wire.Post{Path: responsesEndpoint, Body: body}, err
}

// A responseEvent is any event of the stream; which fields it has depends on its type. Some servers
// send a whole response instead.
type responseEvent struct {
	Type     string          `json:"type"`
	Index    wire.Count      `json:"output_index"`
	Delta    json.RawMessage `json:"delta"`
	Item     outputItem      `json:"item"`
	Response *response       `json:"response"`
	Error    json.RawMessage `json:"error"`
	Object   string          `json:"object"` // response, of a whole one
}

type response struct {
	ID         wire.Word `json:"id"`
	Status     string    `json:"status"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error  json.RawMessage `json:"error"`
	Output []outputItem    `json:"output"`
	Usage  wire.Aside[struct {
		Input        wire.Count `json:"input_tokens"`
		Output       wire.Count `json:"output_tokens"`
		InputDetails wire.Aside[struct {
			Cached wire.Count `json:"cached_tokens"`
		}] `json:"input_tokens_details"`
		OutputDetails wire.Aside[struct {
			Reasoning wire.Count `json:"reasoning_tokens"`
		}] `json:"output_tokens_details"`
	}] `json:"usage"`
}

type outputItem struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Phase   string `json:"phase"`
	Content []struct {
		Text    string `json:"text"` // of output_text and reasoning_text
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary   []summary `json:"summary"`
	Encrypted string    `json:"encrypted_content"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// Event implements [wire.Turn]. Events of other types are left out: they repeat what these say.
func (t *responseTurn) Event(ev *wire.Event, out *wire.Out) error {
	var e responseEvent
	err := json.Unmarshal(ev.Data, &e)
	switch {
	case ev.Name == "error" || err == nil && (e.Type == "error" || e.Object == "" && wire.Failed(e.Error)):
		return responseProblem(ev.Data)
	case err == nil && e.Object == "response":
		t.answer = &response{}
		err = json.Unmarshal(ev.Data, t.answer)
	case err == nil && e.Type == "":
		err = errors.New("it has no type")
	}
	if err != nil {
		return wire.Malformed(fmt.Sprintf("the stream holds %q, which is not an event of a response: %v", wire.Clip(string(ev.Data), 60),
			strict.Words(ev.Data, err)))
	}
	switch e.Type {
	case "response.output_item.added":
		out.Progress()
		return t.begin(e.Index, &e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		return t.delta(&e, model.Text, out)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return t.delta(&e, model.Reasoning, out)
	case "response.reasoning_summary_part.added":
		if t.open[e.Index].bytes > 0 {
			e.Delta = json.RawMessage(`"\n\n"`)
			return t.delta(&e, model.Reasoning, out)
		}
	case "response.function_call_arguments.delta":
		return t.delta(&e, model.ToolCall, out)
	case "response.output_item.done":
		t.itemized = true
		return t.take(e.Index, &e.Item, out)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		t.answer = e.Response
	}
	if t.answer == nil {
		return nil
	}
	for i := 0; !t.itemized && t.answer.Status != "failed" && i < len(t.answer.Output); i++ {
		if err := t.take(wire.Count(i), &t.answer.Output[i], out); err != nil {
			return err
		}
	}
	return wire.ErrDone
}

func (t *responseTurn) begin(index wire.Count, it *outputItem) error {
	if len(t.open) >= 4*wire.MaxCalls {
		return wire.TooManyCalls()
	}
	call := it.Type == "function_call"
	t.holding = t.holding || call
	t.open[index] = begun{live: !t.holding, call: call}
	return nil
}

// delta says a delta, unless it waits.
func (t *responseTurn) delta(e *responseEvent, kind model.PartKind, out *wire.Out) error {
	var text string
	if err := json.Unmarshal(e.Delta, &text); err != nil {
		return wire.Malformed(fmt.Sprintf("the delta of a %s is not text: %q", wire.Clip(e.Type, 60), wire.Clip(string(e.Delta), 60)))
	}
	if _, ok := t.open[e.Index]; !ok {
		if err := t.begin(e.Index, &outputItem{}); err != nil {
			return err
		}
	}
	got := t.open[e.Index]
	got.bytes += len(text)
	t.open[e.Index] = got
	if !got.live || kind == model.ToolCall {
		return out.Grow(len(text))
	}
	return out.Say(kind, text)
}

// take takes an item that is done. Of what was said already it yields only what the server wants
// back.
func (t *responseTurn) take(index wire.Count, it *outputItem, out *wire.Out) error {
	got, ok := t.open[index]
	if !ok {
		got.live = !t.holding
	}
	delete(t.open, index)
	var p model.Part
	size := -got.bytes
	switch it.Type {
	case "message":
		p.Kind = model.Text
		for _, c := range it.Content {
			p.Text += c.Text + c.Refusal
		}
		if it.Phase != "" && p.Text != "" {
			p.Opaque = kept{Phase: it.Phase}.opaque()
		}
	case "reasoning":
		p.Kind = model.Reasoning
		p.Text = it.thoughts()
		if it.Encrypted != "" {
			p.Opaque = kept{thought: &thought{ID: it.ID, Summary: it.Summary, Encrypted: it.Encrypted}}.opaque()
		}
	case "function_call":
		t.holding, got.live = true, false
		p.Kind, p.Call = model.ToolCall, &model.Call{ID: it.CallID, Name: it.Name, Args: json.RawMessage(it.Arguments)}
		size += len(it.CallID) + len(it.Name) + len(it.Arguments)
	default:
		return nil // of tools that were not asked for
	}
	if p.Opaque != nil {
		size += len(p.Opaque.Data)
	}
	if size += len(p.Text); size > 0 {
		if err := out.Grow(size); err != nil {
			return err
		}
	}
	if got.live && got.bytes > 0 {
		p.Text = ""
	}
	switch {
	case p.Text == "" && p.Opaque == nil && p.Call == nil:
		return nil
	case got.live:
		return out.Emit(p)
	case len(t.held) >= 4*wire.MaxCalls:
		return wire.TooManyCalls()
	}
	t.held = append(t.held, p)
	return nil
}

// thoughts returns the text of a reasoning: its summary, or all of it, of models that show it.
func (it *outputItem) thoughts() string {
	var texts []string
	for _, s := range it.Summary {
		texts = append(texts, s.Text)
	}
	for _, c := range it.Content {
		if len(it.Summary) == 0 {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// End implements [wire.Turn].
func (t *responseTurn) End(marked bool, out *wire.Out) error {
	switch {
	case t.answer == nil && marked:
		return fmt.Errorf("%w: it gave no response.completed", wire.ErrUnfinished)
	case t.answer == nil:
		return wire.ErrUnfinished
	}
	reason, stop := t.answer.Status, model.StopEnd
	if reason == "incomplete" {
		reason = t.answer.Incomplete.Reason
	}
	switch reason {
	case "completed":
	case "max_output_tokens":
		stop = model.StopLength
	case "content_filter":
		stop = model.StopFilter
	case "failed":
		return responseProblem(t.answer.Error)
	default:
		return &wire.Problem{Code: reason, Text: fmt.Sprintf("the server broke the turn off: %q", wire.Clip(reason, 40))}
	}
	for _, got := range t.open {
		if got.call { // one that is not whole
			t.held = append(t.held, model.Part{Kind: model.ToolCall, Call: &model.Call{}})
		}
	}
	t.refused.Or(uint32(t.without))
	u := &t.answer.Usage.V
	in, produced := int(u.Input), int(u.Output)
	return out.Finish(wire.Ending{Reason: reason, Stop: stop, Held: t.held, Usage: model.Usage{
		In: in, Out: produced, Cached: min(int(u.InputDetails.V.Cached), in), Reasoning: min(int(u.OutputDetails.V.Reasoning), produced),
	}, ID: string(t.answer.ID)})
}

var againIn = regexp.MustCompile(`try again in (\d+(?:\.\d+)?(?:ms|s|m))\b`)

// responseProblem reads an error of the stream. A rate limit says in words when to try again.
func responseProblem(data []byte) error {
	if string(data) == "null" {
		data = nil
	}
	p := wire.ReadProblem(data)
	if p.Code == "rate_limit_exceeded" {
		p.Status = http.StatusTooManyRequests
		if m := againIn.FindStringSubmatch(p.Text); m != nil {
			p.RetryAfter, _ = time.ParseDuration(m[1])
		}
	}
	return p
}
