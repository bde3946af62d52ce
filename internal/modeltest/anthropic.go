package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// Anthropic is the Messages API.
type Anthropic struct{}

// Path implements [Wire].
func (Anthropic) Path() string { return "" }

type anthropicRequest struct {
	Model    string             `json:"model"`
	Stream   bool               `json:"stream"`
	System   []anthropicBlock   `json:"system"`
	Messages []anthropicMessage `json:"messages"`
	Tools    []struct {
		Name        string             `json:"name"`
		Description string             `json:"description"`
		Input       *jsonschema.Schema `json:"input_schema"`
		Cache       json.RawMessage    `json:"cache_control"`
	} `json:"tools"`
	Choice struct {
		Type string `json:"type"`
		Name string `json:"name"`
	} `json:"tool_choice"`
	Thinking struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
	Output struct {
		Format *struct {
			Type   string             `json:"type"`
			Schema *jsonschema.Schema `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	MaxTokens   int      `json:"max_tokens"`
	Temperature *float64 `json:"temperature"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	CallID    string          `json:"tool_use_id"`
	Content   string          `json:"content"`
	IsError   bool            `json:"is_error"`
	Cache     json.RawMessage `json:"cache_control"`
}

// Parse implements [Wire]. It is as strict as Anthropic: roles alternate, tool results
// come first in the message after their calls and answer all of them, no text is empty,
// and the fields of a request go together.
func (Anthropic) Parse(r *http.Request, body []byte) (*ParsedRequest, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		return nil, fmt.Errorf("unknown endpoint %s %s", r.Method, r.URL.Path)
	}
	if r.Header.Get("Anthropic-Version") == "" {
		return nil, errors.New("anthropic-version: header is required")
	}
	var in anthropicRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	req := &ParsedRequest{Model: in.Model}
	req.MaxTokens, req.Temperature = in.MaxTokens, in.Temperature
	for i, b := range in.System {
		if i > 0 {
			req.System += "\n\n"
		}
		req.System += b.Text
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, model.ToolSpec{Name: t.Name, Description: t.Description, Input: t.Input})
	}
	switch in.Choice.Type {
	case "any":
		req.Choice = "required"
	case "tool":
		req.Choice = in.Choice.Name
	}
	return req, anthropicHistory(&req.Request, in.Messages)
}

func (in *anthropicRequest) check() error {
	marks := strings.Count(fmt.Sprint(in.marks()), "true")
	forced := in.Choice.Type == "any" || in.Choice.Type == "tool"
	switch {
	case !in.Stream || in.Model == "" || len(in.Messages) == 0 || in.MaxTokens <= 0:
		return errors.New("model, messages, max_tokens and stream are required")
	case marks > 4:
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", marks)
	case in.Thinking.Type == "enabled" && (in.Thinking.Budget < 1024 || in.Thinking.Budget >= in.MaxTokens):
		return errors.New("max_tokens must be greater than thinking.budget_tokens, which must be at least 1024")
	case in.Thinking.Type != "" && in.Temperature != nil && *in.Temperature != 1:
		return errors.New("temperature may only be set to 1 when thinking is enabled")
	case in.Thinking.Type != "" && forced:
		return errors.New("thinking may not be enabled when tool_choice forces tool use")
	case in.Choice.Type != "" && len(in.Tools) == 0:
		return errors.New("tool_choice may only be specified while providing tools")
	case in.Messages[0].Role != "user":
		return errors.New("messages: first message must use the \"user\" role")
	}
	for _, t := range in.Tools {
		if t.Name == "" || t.Input == nil || t.Input.Type != "object" {
			return errors.New("tools: name and an input_schema of type object are required")
		}
	}
	return nil
}

// marks reports for everything that can be cached whether it is marked.
func (in *anthropicRequest) marks() []bool {
	var marks []bool
	for _, b := range in.System {
		marks = append(marks, b.Cache != nil)
	}
	for _, t := range in.Tools {
		marks = append(marks, t.Cache != nil)
	}
	for _, m := range in.Messages {
		for _, b := range m.Content {
			marks = append(marks, b.Cache != nil)
		}
	}
	return marks
}

func anthropicHistory(req *model.Request, messages []anthropicMessage) error {
	open := map[string]string{} // calls without a result, by id
	for i, m := range messages {
		if i > 0 && m.Role == messages[i-1].Role {
			return fmt.Errorf("messages.%d: roles must alternate", i)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("messages.%d: content is required", i)
		}
		var err error
		switch m.Role {
		case "user":
			err = anthropicUser(req, m.Content, open)
		case "assistant":
			err = anthropicAssistant(req, m.Content, open)
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d tool_use blocks have no result", len(open))
	}
	return nil
}

func anthropicUser(req *model.Request, content []anthropicBlock, open map[string]string) error {
	user := model.Message{Role: model.User}
	for _, b := range content {
		switch {
		case b.Type == "tool_result" && len(user.Parts) > 0:
			return errors.New("tool_result blocks must come first")
		case b.Type == "tool_result":
			name, ok := open[b.CallID]
			if !ok {
				return fmt.Errorf("unexpected tool_use_id found in tool_result blocks: %s", b.CallID)
			}
			delete(open, b.CallID)
			req.Messages = append(req.Messages, model.ToolResult(model.Call{ID: b.CallID, Name: name}, b.Content, b.IsError))
		case b.Type != "text" || strings.TrimSpace(b.Text) == "":
			return fmt.Errorf("a block of type %q that says %q", b.Type, b.Text)
		default:
			user.Parts = append(user.Parts, model.Part{Kind: model.Text, Text: b.Text})
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d tool_use ids were found without tool_result blocks immediately after", len(open))
	}
	if len(user.Parts) > 0 {
		req.Messages = append(req.Messages, user)
	}
	return nil
}

func anthropicAssistant(req *model.Request, content []anthropicBlock, open map[string]string) error {
	msg := model.Message{Role: model.Assistant}
	for _, b := range content {
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return errors.New("text content blocks must contain non-whitespace text")
			}
			msg.Parts = append(msg.Parts, model.Part{Kind: model.Text, Text: b.Text})
		case "thinking", "redacted_thinking":
			if b.Signature+b.Data == "" {
				return errors.New("invalid `signature` in `thinking` block")
			}
			raw, err := json.Marshal(b.Signature + b.Data)
			if err != nil {
				return err
			}
			msg.Parts = append(msg.Parts, model.Part{Kind: model.Reasoning, Text: b.Thinking, Opaque: &model.Opaque{Provider: "anthropic", Data: raw}})
		case "tool_use":
			bad := strings.Trim(b.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
			if _, twice := open[b.ID]; twice || b.ID == "" || bad != "" || !bytes.HasPrefix(b.Input, []byte("{")) {
				return fmt.Errorf("the tool_use %q has a bad id, or one used twice, or no object as its input", b.ID)
			}
			open[b.ID] = b.Name
			msg.Parts = append(msg.Parts, model.Part{Kind: model.ToolCall, Call: &model.Call{ID: b.ID, Name: b.Name, Args: b.Input}})
		default:
			return fmt.Errorf("an assistant's block of type %q", b.Type)
		}
	}
	req.Messages = append(req.Messages, msg)
	return nil
}

// Frames implements [Wire].
func (Anthropic) Frames(req *ParsedRequest, reply *Reply) [][]byte {
	a := &anthropicStream{}
	var usage *model.Usage
	calls := 0
	for _, p := range reply.Parts {
		if p.Kind == model.UsagePart {
			usage = p.Usage
		}
	}
	start := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{}, "stop_reason": nil, "stop_sequence": nil}
	if req != nil {
		start["model"] = req.Model
	}
	if usage != nil {
		start["usage"] = map[string]any{"input_tokens": usage.In - usage.Cached - usage.Written, "cache_read_input_tokens": usage.Cached,
			"cache_creation_input_tokens": usage.Written, "output_tokens": 1}
	}
	a.event("message_start", map[string]any{"message": start})
	for _, p := range reply.Parts {
		switch p.Kind {
		case model.Text:
			a.begin("text", map[string]any{"type": "text", "text": ""})
			a.delta(map[string]any{"type": "text_delta", "text": p.Text})
		case model.Reasoning:
			a.reason(p)
		case model.ToolCall:
			calls++
			a.call(p.Call, calls, reply.Fragment)
		}
	}
	a.end()
	stop := reply.Stop
	if stop == "" {
		stop = model.StopEnd
		if calls > 0 {
			stop = model.StopCalls
		}
	}
	reason := map[model.StopCode]string{
		model.StopEnd: "end_turn", model.StopCalls: "tool_use", model.StopLength: "max_tokens", model.StopFilter: "refusal",
	}[stop]
	last := map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}}
	if usage != nil {
		last["usage"] = map[string]any{"output_tokens": usage.Out, "output_tokens_details": map[string]int{"thinking_tokens": usage.Reasoning}}
	}
	a.event("message_delta", last)
	a.cut()
	a.event("message_stop", map[string]any{})
	a.cut()
	return a.frames
}

// An anthropicStream writes the events of a stream, and cuts it into frames.
type anthropicStream struct {
	frames  [][]byte
	pending []byte // of the next frame
	index   int
	kind    string // of the block that is open
}

func (a *anthropicStream) event(name string, fields map[string]any) {
	fields["type"] = name
	a.pending = append(a.pending, anthropicFrame(name, fields)...)
}

func (a *anthropicStream) cut() {
	a.frames = append(a.frames, slices.Clone(a.pending))
	a.pending = a.pending[:0]
}

// begin opens a block, unless one of that kind is open.
func (a *anthropicStream) begin(kind string, block map[string]any) {
	if a.kind == kind {
		return
	}
	a.end()
	a.kind = kind
	a.event("content_block_start", map[string]any{"index": a.index, "content_block": block})
}

func (a *anthropicStream) delta(d map[string]any) {
	a.event("content_block_delta", map[string]any{"index": a.index, "delta": d})
	a.cut()
}

func (a *anthropicStream) end() {
	if a.kind != "" {
		a.event("content_block_stop", map[string]any{"index": a.index})
		a.index++
		a.kind = ""
	}
}

// reason says a reasoning; a signature ends its block.
func (a *anthropicStream) reason(p model.Part) {
	a.begin("thinking", map[string]any{"type": "thinking", "thinking": "", "signature": ""})
	a.delta(map[string]any{"type": "thinking_delta", "thinking": p.Text})
	if p.Opaque != nil {
		a.delta(map[string]any{"type": "signature_delta", "signature": p.Opaque.Data})
		a.end()
	}
}

func (a *anthropicStream) call(call *model.Call, n, size int) {
	id := call.ID
	if id == "" {
		id = fmt.Sprintf("call_%d", n)
	}
	a.end()
	a.begin("call", map[string]any{"type": "tool_use", "id": id, "name": call.Name, "input": struct{}{}})
	if size <= 0 {
		size = len(call.Args)
	}
	for rest := []rune(string(call.Args)); len(rest) > 0; {
		k := min(size, len(rest))
		a.delta(map[string]any{"type": "input_json_delta", "partial_json": string(rest[:k])})
		rest = rest[k:]
	}
	a.end()
}

// ErrorFrame implements [Wire].
func (Anthropic) ErrorFrame(code, message string) []byte {
	if code == "server_error" {
		code = "api_error"
	}
	return anthropicFrame("error", map[string]any{"type": "error", "error": map[string]any{"type": code, "message": message}})
}

// ErrorBody implements [Wire].
func (Anthropic) ErrorBody(_ int, code, message string) []byte {
	return openaiJSON(map[string]any{"type": "error", "error": map[string]any{"type": code, "message": message}, "request_id": "req_1"})
}

func anthropicFrame(name string, v any) []byte {
	return slices.Concat([]byte("event: "+name+"\ndata: "), openaiJSON(v), []byte("\n\n"))
}
