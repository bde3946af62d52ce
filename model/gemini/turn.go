package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// A turn turns the events of one attempt into parts.
type turn struct {
	model   *Model
	request *model.Request
	without relaxation // what is left out of the request
	body    []byte     // of the request; nil when it must be written again

	held   []model.Part // the calls, and what was said after the first
	usage  model.Usage
	reason string // to finish
	detail string // of the reason
	block  string // why the prompt was refused
	id     string // of the response
}

// Post implements [wire.Turn].
func (t *turn) Post() (*wire.Post, error) {
	t.held, t.usage, t.reason, t.detail, t.block, t.id = nil, model.Usage{}, "", "", "", ""
	if t.body == nil {
		if err := t.check(); err != nil {
			return nil, err
		}
	}
	name := t.model.opts.Model
	if !strings.Contains(name, "/") { // others name their kind, such as tunedModels/x
		name = "models/" + name
	}
	path := (&url.URL{Path: "/" + name}).EscapedPath()
	return &wire.Post{Path: path + ":streamGenerateContent?alt=sse", Body: t.body}, nil
}

type chunk struct {
	ID         wire.Word       `json:"responseId"`
	Error      json.RawMessage `json:"error"`
	Candidates []struct {
		Index   wire.Count `json:"index"`
		Content struct {
			Parts []partDelta `json:"parts"`
		} `json:"content"`
		Reason  string `json:"finishReason"`
		Message string `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *wire.Aside[usage] `json:"usageMetadata"`
}

type partDelta struct {
	Text      string `json:"text"`
	Thought   bool   `json:"thought"`
	Signature string `json:"thoughtSignature"`
	Call      *struct {
		ID           string          `json:"id"`
		Name         string          `json:"name"`
		Args         json.RawMessage `json:"args"`
		WillContinue bool            `json:"willContinue"`
	} `json:"functionCall"`
	// Parts that were not requested.
	Inline json.RawMessage `json:"inlineData"`
	File   json.RawMessage `json:"fileData"`
	Code   json.RawMessage `json:"executableCode"`
	Result json.RawMessage `json:"codeExecutionResult"`
}

type usage struct {
	Prompt     wire.Count `json:"promptTokenCount"`
	ToolUse    wire.Count `json:"toolUsePromptTokenCount"`
	Cached     wire.Count `json:"cachedContentTokenCount"`
	Candidates wire.Count `json:"candidatesTokenCount"`
	Thoughts   wire.Count `json:"thoughtsTokenCount"`
}

// Event implements [wire.Turn].
func (t *turn) Event(ev *wire.Event, out *wire.Out) error {
	if ev.Name == "error" {
		return problem(ev.Data)
	}
	var c chunk
	if err := json.Unmarshal(ev.Data, &c); err != nil {
		return wire.Malformed(fmt.Sprintf("the stream holds %q, which is not a chunk of an answer: %v", wire.Clip(string(ev.Data), 60), strict.Words(ev.Data, err)))
	}
	if wire.Failed(c.Error) {
		return problem(ev.Data)
	}
	if c.Feedback.Block != "" {
		t.block = c.Feedback.Block
	}
	t.id = cmp.Or(t.id, string(c.ID))
	if c.Usage != nil { // each counts everything so far
		if u := c.Usage.V.read(); u != t.usage { // also while it thinks and shows nothing of it
			t.usage = u
			out.Progress()
		}
	}
	for i := range c.Candidates {
		candidate := &c.Candidates[i]
		if candidate.Index != 0 {
			continue // only one was asked for
		}
		for j := range candidate.Content.Parts {
			if err := t.part(&candidate.Content.Parts[j], out); err != nil {
				return err
			}
		}
		if candidate.Reason != "" && candidate.Reason != "FINISH_REASON_UNSPECIFIED" {
			t.reason, t.detail = candidate.Reason, candidate.Message
		}
	}
	return nil
}

func (u *usage) read() model.Usage {
	return model.Usage{In: int(u.Prompt + u.ToolUse), Out: int(u.Candidates + u.Thoughts), Cached: int(u.Cached), Reasoning: int(u.Thoughts)}
}

// part takes a part. Calls come whole.
func (t *turn) part(d *partDelta, out *wire.Out) error {
	if d.Inline != nil || d.File != nil || d.Code != nil || d.Result != nil {
		return &wire.Problem{Code: "unsupported", Text: "the answer holds a part that is neither text nor a call; choose a model that answers with text"}
	}
	p := model.Part{Kind: model.Text, Text: d.Text}
	if d.Thought {
		p.Kind = model.Reasoning
	}
	size := len(d.Text)
	if d.Call != nil {
		if d.Call.WillContinue {
			return wire.Malformed("the answer holds pieces of a call, which were not asked for")
		}
		size += len(d.Call.ID) + len(d.Call.Name) + len(d.Call.Args)
		p = model.Part{Kind: model.ToolCall, Call: &model.Call{ID: d.Call.ID, Name: d.Call.Name, Args: bytes.Clone(d.Call.Args)}}
	}
	if d.Signature != "" {
		size += len(d.Signature)
		p.Opaque = signature{Signature: d.Signature, Tail: len(p.Text)}.opaque()
	}
	if size == 0 && d.Call == nil {
		return nil
	}
	if err := out.Grow(size); err != nil {
		return err
	}
	if d.Call == nil && len(t.held) == 0 {
		return out.Emit(p)
	}
	if t.held = append(t.held, p); len(t.held) > 16*wire.MaxCalls {
		return wire.TooManyCalls()
	}
	return nil
}

// End implements [wire.Turn]. The stream of a whole turn gives a reason to finish and is closed
// in order; it has no mark of its own.
func (t *turn) End(_ bool, out *wire.Out) error {
	switch {
	case t.reason == "" && t.block != "":
		return t.blocked()
	case t.reason == "":
		return fmt.Errorf("%w: it gave no finishReason", wire.ErrUnfinished)
	}
	stop, err := t.stop()
	if err != nil {
		return err
	}
	t.model.refused.Or(uint32(t.without &^ signatures)) // which is a matter of the conversation
	return out.Finish(wire.Ending{Reason: t.reason, Stop: stop, Held: t.held, Usage: t.usage, ID: t.id})
}

// stop reads the finishReason. Unknown reasons are errors: the service uses them for interrupted
// turns.
func (t *turn) stop() (model.StopCode, error) {
	text := fmt.Sprintf("the server broke the turn off with finishReason %q", wire.Clip(t.reason, 40))
	if t.detail != "" {
		text += ": " + t.detail
	}
	switch t.reason {
	case "STOP":
		return model.StopEnd, nil
	case "FUNCTION_CALL", "TOOL_CALL": // not of the service, but of servers that speak like it
		return model.StopCalls, nil
	case "MAX_TOKENS":
		return model.StopLength, nil
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER":
		return model.StopFilter, nil
	case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL":
		return "", wire.BadCall(text)
	case "TOO_MANY_TOOL_CALLS":
		return "", wire.TooManyCalls()
	case "MISSING_THOUGHT_SIGNATURE":
		return "", &wire.Problem{Code: t.reason, Status: http.StatusBadRequest, Text: text}
	}
	return "", &wire.Problem{Code: t.reason, Text: text}
}

// blocked returns the error of a prompt that the provider refused to answer. It is not temporary.
func (t *turn) blocked() error {
	o := &t.model.opts
	why := strings.Map(func(r rune) rune { // it is a word of theirs
		if r == '_' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, wire.Clip(t.block, 60))
	return &model.Error{
		Provider: o.Provider, Model: o.Model, URL: o.BaseURL, KeyFrom: o.KeyFrom, Code: "prompt_blocked",
		Err: errors.New("the provider refused the prompt with blockReason " + why + "; ask for something else, or choose another model"),
	}
}

// A relaxation is a set of features that are left out of a request or expressed differently because
// the server does not support them.
type relaxation uint32

const (
	thoughts    relaxation = 1 << iota // the wish to see what the model thinks
	callIDs                            // the ids of calls and results
	signatures                         // the lack of signatures: a word is put where they are missing
	answerType                         // the schema of the answer beside tools, in favour of words
	systemPlace                        // the place of its own of the system prompt
)

// Relax implements [wire.Turn], based on the server's error about a request that it refuses.
func (t *turn) Relax(fail *model.Error) bool {
	if fail.Status != http.StatusBadRequest || fail.Err == nil {
		return false
	}
	text := strings.ToLower(fail.Err.Error())
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	asked := t.model.opts.Thinking != 0 || t.model.opts.Effort != ""
	var drop relaxation
	switch {
	case says("thought_signature", "thought signature", "thoughtsignature"):
		drop = signatures
	case !asked && says("thinking", "include_thoughts", "includethoughts"):
		drop = thoughts
	case t.request.Schema != nil && len(t.request.Tools) > 0 && says("response mime type", "response_mime_type", "responsemimetype"):
		drop = answerType
	case says(`unknown name "id"`):
		drop = callIDs
	case t.request.System != "" && says("developer instruction", "system_instruction", "systeminstruction", "system instruction"):
		drop = systemPlace
	}
	if drop == 0 || t.without&drop != 0 {
		return false
	}
	t.without |= drop
	t.body = nil
	return true
}
