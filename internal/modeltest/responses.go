package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// Responses is OpenAI's Responses API.
type Responses struct{}

// Path implements [Wire].
func (Responses) Path() string { return "/v1" }

type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Store        *bool           `json:"store"`
	Instructions string          `json:"instructions"`
	Input        []responsesItem `json:"input"`
	Tools        []struct {
		Type        string             `json:"type"`
		Name        string             `json:"name"`
		Description string             `json:"description"`
		Parameters  *jsonschema.Schema `json:"parameters"`
		Strict      *bool              `json:"strict"`
	} `json:"tools"`
	Choice    json.RawMessage `json:"tool_choice"`
	MaxTokens *int            `json:"max_output_tokens"`
	Text      struct {
		Format *struct {
			Type   string             `json:"type"`
			Name   string             `json:"name"`
			Schema *jsonschema.Schema `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	Temperature *float64 `json:"temperature"`
}

type responsesItem struct {
	Type      string `json:"type"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	Phase     string `json:"phase"`
	ID        string `json:"id"`
	Encrypted string `json:"encrypted_content"`
	Summary   []struct {
		Text string `json:"text"`
	} `json:"summary"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Output    string `json:"output"`
}

// Parse implements [Wire]. It is as strict as OpenAI about calls and their outputs, and about
// reasoning, which something of the model follows. It is stricter about what has surprising defaults:
// that nothing is stored, and that tools are not strict.
func (Responses) Parse(r *http.Request, body []byte) (*ParsedRequest, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/responses" {
		return nil, fmt.Errorf("unknown endpoint %s %s", r.Method, r.URL.Path)
	}
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if !in.Stream || in.Model == "" || len(in.Input) == 0 || in.Store == nil || *in.Store {
		return nil, errors.New("model, input, stream and store: false are required")
	}
	req := &ParsedRequest{Model: in.Model}
	req.System, req.Temperature = in.Instructions, in.Temperature
	if in.MaxTokens != nil {
		if req.MaxTokens = *in.MaxTokens; req.MaxTokens < 16 {
			return nil, fmt.Errorf("invalid 'max_output_tokens': expected a value >= 16, but got %d", req.MaxTokens)
		}
	}
	for _, t := range in.Tools {
		if t.Type != "function" || t.Name == "" || t.Parameters == nil || t.Strict == nil || *t.Strict {
			return nil, fmt.Errorf("the tool %q: type, name, parameters and strict: false are required", t.Name)
		}
		req.Tools = append(req.Tools, model.ToolSpec{Name: t.Name, Description: t.Description, Input: t.Parameters})
	}
	var named struct{ Type, Name string }
	if len(in.Choice) > 0 && json.Unmarshal(in.Choice, &req.Choice) != nil {
		if err := json.Unmarshal(in.Choice, &named); err != nil || named.Type != "function" {
			return nil, fmt.Errorf("invalid 'tool_choice': %s", in.Choice)
		}
		req.Choice = named.Name
	}
	return req, responsesHistory(&req.Request, in.Input)
}

func responsesHistory(req *model.Request, items []responsesItem) error {
	open := map[string]string{} // calls without an output, by id
	pending := ""               // reasoning that nothing follows yet
	said := func(p model.Part) {
		if n := len(req.Messages); n == 0 || req.Messages[n-1].Role != model.Assistant {
			req.Messages = append(req.Messages, model.Message{Role: model.Assistant})
		}
		last := &req.Messages[len(req.Messages)-1]
		last.Parts = append(last.Parts, p)
	}
	for i, it := range items {
		mine := it.Type == "reasoning" || it.Type == "function_call" || it.Type == "message" && it.Role == "assistant"
		if pending != "" && !mine {
			return fmt.Errorf("item '%s' of type 'reasoning' was provided without its required following item", pending)
		}
		if it.Type != "reasoning" {
			pending = ""
		}
		if it.Type == "message" && len(open) > 0 {
			return fmt.Errorf("input[%d]: no tool output found for %d function calls", i, len(open))
		}
		switch {
		case it.Type == "message" && it.Content == "":
			return fmt.Errorf("input[%d]: content is required", i)
		case it.Type == "message" && it.Role == "user":
			req.Messages = append(req.Messages, model.UserText(it.Content))
		case it.Type == "message" && mine:
			p := model.Part{Kind: model.Text, Text: it.Content}
			if it.Phase != "" {
				p.Opaque = &model.Opaque{Provider: "openai", Data: openaiJSON(it.Phase)}
			}
			said(p)
		case it.Type == "reasoning":
			if it.Encrypted == "" || it.Summary == nil {
				return fmt.Errorf("input[%d]: item with id '%s' not found; items are not persisted when store is false", i, it.ID)
			}
			p := model.Part{Kind: model.Reasoning, Opaque: &model.Opaque{Provider: "openai", Data: openaiJSON(it.Encrypted)}}
			for _, s := range it.Summary {
				p.Text += s.Text
			}
			pending = it.ID
			said(p)
		case it.Type == "function_call":
			if _, twice := open[it.CallID]; twice || it.CallID == "" {
				return fmt.Errorf("input[%d]: the call_id %q is empty or used twice", i, it.CallID)
			}
			open[it.CallID] = it.Name
			said(model.Part{Kind: model.ToolCall, Call: &model.Call{ID: it.CallID, Name: it.Name, Args: json.RawMessage(it.Arguments)}})
		case it.Type == "function_call_output":
			name, ok := open[it.CallID]
			if !ok {
				return fmt.Errorf("input[%d]: no tool call found for function call output with call_id %s", i, it.CallID)
			}
			delete(open, it.CallID)
			text, failed := strings.CutPrefix(it.Output, "Error: ")
			req.Messages = append(req.Messages, model.ToolResult(model.Call{ID: it.CallID, Name: name}, text, failed))
		default:
			return fmt.Errorf("input[%d]: invalid value %q, role %q", i, it.Type, it.Role)
		}
	}
	if len(open) > 0 || pending != "" {
		return fmt.Errorf("no tool output found for %d function calls, or nothing after the reasoning %q", len(open), pending)
	}
	return nil
}

// Frames implements [Wire].
func (Responses) Frames(req *ParsedRequest, reply *Reply) [][]byte {
	s := &responsesStream{answer: map[string]any{"id": "resp_1", "object": "response", "status": "in_progress", "error": nil, "incomplete_details": nil}}
	if req != nil {
		s.answer["model"] = req.Model
	}
	s.event("response.created", map[string]any{"response": s.answer})
	s.event("response.in_progress", map[string]any{"response": s.answer})
	calls := 0
	for _, p := range reply.Parts {
		switch p.Kind {
		case model.Text:
			s.message(p)
		case model.Reasoning:
			s.reason(p)
		case model.ToolCall:
			calls++
			s.call(p.Call, calls, reply.Fragment)
		case model.UsagePart:
			s.answer["usage"] = map[string]any{
				"input_tokens": p.Usage.In, "output_tokens": p.Usage.Out, "total_tokens": p.Usage.In + p.Usage.Out,
				"input_tokens_details":  map[string]int{"cached_tokens": p.Usage.Cached},
				"output_tokens_details": map[string]int{"reasoning_tokens": p.Usage.Reasoning},
			}
		}
	}
	s.end(nil)
	s.answer["status"], s.answer["output"] = "completed", s.items
	if why := map[model.StopCode]string{model.StopLength: "max_output_tokens", model.StopFilter: "content_filter"}[reply.Stop]; why != "" {
		s.answer["status"], s.answer["incomplete_details"] = "incomplete", map[string]any{"reason": why}
	}
	if len(s.pending) > 0 {
		s.cut()
	}
	s.event("response."+s.answer["status"].(string), map[string]any{"response": s.answer})
	s.cut()
	return s.frames
}

// A responsesStream writes the events of a stream, and cuts it into frames.
type responsesStream struct {
	frames  [][]byte
	pending []byte // of the next frame
	answer  map[string]any
	items   []map[string]any
	kind    string // of the item that is open
	text    string // of it
	number  int    // of events
}

func (s *responsesStream) event(name string, fields map[string]any) {
	fields["type"], fields["sequence_number"] = name, s.number
	s.number++
	s.pending = append(s.pending, anthropicFrame(name, fields)...)
}

func (s *responsesStream) cut() {
	s.frames = append(s.frames, slices.Clone(s.pending))
	s.pending = s.pending[:0]
}

// at returns the fields that events of the open item have.
func (s *responsesStream) at(fields map[string]any) map[string]any {
	index := max(len(s.items)-1, 0)
	fields["item_id"], fields["output_index"] = fmt.Sprintf("item_%d", index), index
	return fields
}

// begin opens an item, unless one of that kind is open.
func (s *responsesStream) begin(kind string, item map[string]any) bool {
	if s.kind == kind {
		return false
	}
	s.end(nil)
	s.kind, s.text = kind, ""
	item["type"], item["id"], item["status"] = kind, fmt.Sprintf("item_%d", len(s.items)), "in_progress"
	s.items = append(s.items, item)
	s.event("response.output_item.added", s.at(map[string]any{"item": item}))
	return true
}

// end closes the item that is open, with what it has besides.
func (s *responsesStream) end(fields map[string]any) {
	if s.kind == "" {
		return
	}
	item := s.items[len(s.items)-1]
	item["status"] = "completed"
	switch s.kind {
	case "message":
		part := map[string]any{"type": "output_text", "text": s.text, "annotations": []any{}}
		item["content"] = []any{part}
		s.event("response.output_text.done", s.at(map[string]any{"content_index": 0, "text": s.text}))
		s.event("response.content_part.done", s.at(map[string]any{"content_index": 0, "part": part}))
	case "reasoning":
		part := map[string]any{"type": "summary_text", "text": s.text}
		item["summary"] = []any{part}
		s.event("response.reasoning_summary_text.done", s.at(map[string]any{"summary_index": 0, "text": s.text}))
		s.event("response.reasoning_summary_part.done", s.at(map[string]any{"summary_index": 0, "part": part}))
	case "function_call":
		item["arguments"] = s.text
		s.event("response.function_call_arguments.done", s.at(map[string]any{"arguments": s.text}))
	}
	for name, v := range fields {
		item[name] = v
	}
	s.kind = ""
	s.event("response.output_item.done", s.at(map[string]any{"item": item}))
}

func (s *responsesStream) delta(name, text string, fields map[string]any) {
	s.text += text
	fields["delta"] = text
	s.event(name, s.at(fields))
	s.cut()
}

// message says a text; a phase ends its item.
func (s *responsesStream) message(p model.Part) {
	if s.begin("message", map[string]any{"role": "assistant", "content": []any{}}) {
		s.event("response.content_part.added", s.at(map[string]any{"content_index": 0, "part": map[string]any{"type": "output_text", "text": ""}}))
	}
	s.delta("response.output_text.delta", p.Text, map[string]any{"content_index": 0})
	if p.Opaque != nil {
		s.end(map[string]any{"phase": p.Opaque.Data})
	}
}

// reason says a reasoning; what is encrypted ends its item.
func (s *responsesStream) reason(p model.Part) {
	if s.begin("reasoning", map[string]any{"summary": []any{}}) {
		s.event("response.reasoning_summary_part.added", s.at(map[string]any{"summary_index": 0, "part": map[string]any{"type": "summary_text", "text": ""}}))
	}
	s.delta("response.reasoning_summary_text.delta", p.Text, map[string]any{"summary_index": 0})
	if p.Opaque != nil {
		s.end(map[string]any{"encrypted_content": p.Opaque.Data})
	}
}

func (s *responsesStream) call(call *model.Call, n, size int) {
	id := call.ID
	if id == "" {
		id = fmt.Sprintf("call_%d", n)
	}
	s.end(nil)
	s.begin("function_call", map[string]any{"call_id": id, "name": call.Name, "arguments": ""})
	if size <= 0 {
		size = len(call.Args)
	}
	for rest := []rune(string(call.Args)); len(rest) > 0; {
		k := min(size, len(rest))
		s.delta("response.function_call_arguments.delta", string(rest[:k]), map[string]any{})
		rest = rest[k:]
	}
	s.end(nil)
}

// ErrorFrame implements [Wire].
func (Responses) ErrorFrame(code, message string) []byte {
	return anthropicFrame("error", map[string]any{"type": "error", "code": code, "message": message, "param": nil, "sequence_number": 99})
}

// ErrorBody implements [Wire].
func (Responses) ErrorBody(status int, code, message string) []byte {
	return OpenAI{}.ErrorBody(status, code, message)
}
