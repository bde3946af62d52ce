package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// A turn sends one request and turns the events of one attempt into parts. It
// implements [wire.Turn].
type turn struct {
	*request

	blocks  []*said
	holding bool // what is said now waits for the end, to stay in order
	reason  string
	id      string // of the response
	usage   usage
}

// said is a content block of the answer.
type said struct {
	index  wire.Count
	kind   string // its type
	closed bool
	held   bool
	text   strings.Builder // of a held text or reasoning, or the arguments of a call
	call   model.Call
	opaque opaque
}

// Post implements [wire.Turn].
func (t *turn) Post() (*wire.Post, error) {
	*t = turn{request: t.request}
	body, err := json.Marshal(t.request)
	post := &wire.Post{Path: endpoint, Body: body, Header: map[string]string{"Anthropic-Version": version}}
	if t.beta != "" {
		post.Header["Anthropic-Beta"] = t.beta
	}
	return post, err
}

// An event is any event of the stream; which fields it has depends on its type.
type event struct {
	Type    string     `json:"type"`
	Index   wire.Count `json:"index"`
	Message struct {
		ID    wire.Word          `json:"id"`
		Usage *wire.Aside[usage] `json:"usage"`
	} `json:"message"`
	ID    wire.Word `json:"id"` // of a whole message that is sent instead of a stream
	Block content   `json:"content_block"`
	Delta struct {
		Type       string  `json:"type"`
		Text       string  `json:"text"`
		Thinking   string  `json:"thinking"`
		Signature  string  `json:"signature"`
		JSON       string  `json:"partial_json"`
		StopReason *string `json:"stop_reason"`
	} `json:"delta"`
	Usage *wire.Aside[usage] `json:"usage"`
	Error json.RawMessage    `json:"error"`

	// The fields of a whole message that is sent instead of a stream.
	Content    []content `json:"content"`
	StopReason string    `json:"stop_reason"`
}

type content struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// usage counts are the latest ones: they are cumulative, and later events leave out what did not
// change.
type usage struct {
	Input   *wire.Count `json:"input_tokens"`
	Output  *wire.Count `json:"output_tokens"`
	Read    *wire.Count `json:"cache_read_input_tokens"`
	Written *wire.Count `json:"cache_creation_input_tokens"`
	Details *wire.Aside[struct {
		Thinking wire.Count `json:"thinking_tokens"`
	}] `json:"output_tokens_details"`
}

// Event implements [wire.Turn]. Events of types it does not know are left out, as the
// protocol asks.
func (t *turn) Event(ev *wire.Event, out *wire.Out) error {
	var e event
	err := json.Unmarshal(ev.Data, &e)
	if ev.Name == "error" || err == nil && (e.Type == "error" || wire.Failed(e.Error)) {
		return problem(ev.Data)
	}
	if err != nil {
		return wire.Malformed(fmt.Sprintf("the stream holds %q, which is not an event of a message: %v", wire.Clip(string(ev.Data), 60), strict.Words(ev.Data, err)))
	}
	switch e.Type {
	case "message_start":
		t.id = string(e.Message.ID)
		t.usage.update(e.Message.Usage)
	case "content_block_start":
		return t.start(&e, out)
	case "content_block_delta":
		return t.delta(&e, out)
	case "content_block_stop":
		return t.stop(&e, out)
	case "message_delta":
		if e.Delta.StopReason != nil {
			t.reason = *e.Delta.StopReason
		}
		t.usage.update(e.Usage)
	case "message_stop":
		return wire.ErrDone
	case "message":
		return t.whole(&e, out)
	}
	return nil
}

// whole takes a message of a server that does not stream, or that repeats all at the end.
func (t *turn) whole(e *event, out *wire.Out) error {
	for i, c := range e.Content {
		if len(t.blocks) > i {
			continue // it was streamed
		}
		block := &event{Index: wire.Count(i), Block: c}
		if err := t.start(block, out); err != nil {
			return err
		}
		if err := t.stop(block, out); err != nil {
			return err
		}
	}
	t.reason, t.id = cmp.Or(e.StopReason, t.reason), cmp.Or(string(e.ID), t.id)
	t.usage.update(e.Usage)
	return wire.ErrDone
}

// open returns the block that an event continues with.
func (t *turn) open(index wire.Count) (*said, error) {
	for i := len(t.blocks) - 1; i >= 0; i-- {
		if b := t.blocks[i]; b.index == index && !b.closed {
			return b, nil
		}
	}
	return nil, wire.Malformed(fmt.Sprintf("the stream continues with content block %d, which has not begun", index))
}

func (t *turn) start(e *event, out *wire.Out) error {
	if b, err := t.open(e.Index); err == nil {
		return wire.Malformed(fmt.Sprintf("content block %d begins twice, the first time as %q", e.Index, wire.Clip(b.kind, 40)))
	}
	if len(t.blocks) >= 4*wire.MaxCalls {
		return wire.TooManyCalls()
	}
	if e.Block.Type == "tool_use" || e.Block.Type == "text" && t.answer.called() {
		t.holding = true
	}
	out.Progress()
	b := &said{index: e.Index, kind: e.Block.Type, held: t.holding}
	t.blocks = append(t.blocks, b)
	switch b.kind {
	case "text":
		return b.say(out, model.Text, e.Block.Text)
	case "thinking":
		b.opaque.Signature = e.Block.Signature
		return b.say(out, model.Reasoning, e.Block.Thinking)
	case "redacted_thinking":
		b.opaque.Redacted = e.Block.Data
		return out.Grow(len(e.Block.Data))
	case "tool_use":
		b.call = model.Call{ID: e.Block.ID, Name: e.Block.Name, Args: e.Block.Input}
		return out.Grow(len(e.Block.ID) + len(e.Block.Name) + len(e.Block.Input))
	}
	return nil
}

func (t *turn) delta(e *event, out *wire.Out) error {
	b, err := t.open(e.Index)
	if err != nil {
		return err
	}
	d := &e.Delta
	switch {
	case d.Type == "text_delta" && b.kind == "text":
		return b.say(out, model.Text, d.Text)
	case d.Type == "thinking_delta" && b.kind == "thinking":
		return b.say(out, model.Reasoning, d.Thinking)
	case d.Type == "signature_delta" && b.kind == "thinking":
		b.opaque.Signature += d.Signature
		return out.Grow(len(d.Signature))
	case d.Type == "input_json_delta" && b.kind == "tool_use":
		b.text.WriteString(d.JSON)
		return out.Grow(len(d.JSON))
	}
	switch d.Type {
	case "text_delta", "thinking_delta", "signature_delta", "input_json_delta":
		switch b.kind {
		case "text", "thinking", "redacted_thinking", "tool_use":
			return wire.Malformed(fmt.Sprintf("a %s in a content block of type %q", d.Type, b.kind))
		}
	}
	return nil
}

func (b *said) say(out *wire.Out, kind model.PartKind, text string) error {
	if !b.held {
		return out.Say(kind, text)
	}
	b.text.WriteString(text)
	return out.Grow(len(text))
}

// stop ends a block. A reasoning block ends with the data that the server wants back.
func (t *turn) stop(e *event, out *wire.Out) error {
	b, err := t.open(e.Index)
	if err != nil {
		return err
	}
	b.closed = true
	if p, ok := b.signed(); ok && !b.held {
		return out.Emit(p)
	}
	return nil
}

// signed returns the part of a block that has something for the server in it.
func (b *said) signed() (model.Part, bool) {
	if b.opaque == (opaque{}) {
		return model.Part{}, false
	}
	raw, err := json.Marshal(b.opaque)
	if err != nil { // of strings, never
		return model.Part{}, false
	}
	return model.Part{Kind: model.Reasoning, Text: b.text.String(), Opaque: &model.Opaque{Provider: protocol, Data: raw}}, true
}

// End implements [wire.Turn]. A stream without message_stop is whole if it gave a reason
// to stop and was closed in order.
func (t *turn) End(marked bool, out *wire.Out) error {
	switch {
	case t.reason == "" && marked && len(t.blocks) > 0 && t.blocks[len(t.blocks)-1].closed:
		t.reason = "end_turn"
	case t.reason == "" && marked:
		return fmt.Errorf("%w: it gave no stop_reason", wire.ErrUnfinished)
	case t.reason == "":
		return wire.ErrUnfinished
	}
	stop, err := stopCode(t.reason)
	if err != nil {
		return err
	}
	held := t.held()
	if t.answer.called() {
		held, stop = t.answer.replace(held, stop)
	}
	return out.Finish(wire.Ending{Reason: t.reason, Stop: stop, Held: held, Usage: t.usage.sum(), ID: t.id})
}

// held returns the parts that waited for the end of the turn, in order.
func (t *turn) held() []model.Part {
	var parts []model.Part
	for _, b := range t.blocks {
		if !b.held {
			continue
		}
		text := b.text.String()
		switch b.kind {
		case "text":
			if text != "" {
				parts = append(parts, model.Part{Kind: model.Text, Text: text})
			}
		case "thinking", "redacted_thinking":
			if p, ok := b.signed(); ok {
				parts = append(parts, p)
			} else if text != "" {
				parts = append(parts, model.Part{Kind: model.Reasoning, Text: text})
			}
		case "tool_use":
			call := b.call
			if text != "" {
				call.Args = json.RawMessage(text)
			}
			parts = append(parts, model.Part{Kind: model.ToolCall, Call: &call})
		}
	}
	return parts
}

// stopCode reads a stop_reason. Unknown reasons are errors, since the turn may be incomplete.
func stopCode(reason string) (model.StopCode, error) {
	switch reason {
	case "end_turn", "stop_sequence":
		return model.StopEnd, nil
	case "tool_use":
		return model.StopCalls, nil
	case "max_tokens", "model_context_window_exceeded", "pause_turn": // of a pause there is more to come too
		return model.StopLength, nil
	case "refusal":
		return model.StopFilter, nil
	}
	return "", &wire.Problem{Code: reason, Text: fmt.Sprintf("the server broke the turn off with stop_reason %q", wire.Clip(reason, 40))}
}

func (u *usage) update(latest *wire.Aside[usage]) {
	if latest == nil {
		return
	}
	v := &latest.V
	for _, f := range []struct{ to, from **wire.Count }{{&u.Input, &v.Input}, {&u.Output, &v.Output}, {&u.Read, &v.Read}, {&u.Written, &v.Written}} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if v.Details != nil {
		u.Details = v.Details
	}
}

// sum returns the usage as we count it: tokens read from and written to the cache are part of the
// input; the protocol counts them separately.
func (u *usage) sum() model.Usage {
	count := func(n *wire.Count) int {
		if n == nil {
			return 0
		}
		return int(*n)
	}
	s := model.Usage{Out: count(u.Output), Cached: count(u.Read), Written: count(u.Written)}
	s.In = count(u.Input) + s.Cached + s.Written
	if u.Details != nil {
		s.Reasoning = min(int(u.Details.V.Thinking), s.Out)
	}
	return s
}

// problem reads an error event. It has a type in place of a status.
func problem(data []byte) error {
	p := wire.ReadProblem(data)
	if p.Status == 0 {
		p.Status = statusOf(p.Code)
	}
	return p
}

// statusOf returns the status that goes with a type of error:
// https://platform.claude.com/docs/en/api/errors
func statusOf(code string) int {
	switch code {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "api_error":
		return http.StatusInternalServerError
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return 529
	}
	return 0
}
