package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// OpenAI is the chat completions protocol.
type OpenAI struct{}

// Path implements [Wire].
func (OpenAI) Path() string { return "/v1" }

type openaiRequest struct {
	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	Messages []openaiMessage `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string             `json:"name"`
			Description string             `json:"description"`
			Parameters  *jsonschema.Schema `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Choice        json.RawMessage `json:"tool_choice"`
	MaxTokens     int             `json:"max_tokens"`
	MaxCompletion int             `json:"max_completion_tokens"`
	Temperature   *float64        `json:"temperature"`
}

type openaiMessage struct {
	Role      string       `json:"role"`
	Content   string       `json:"content"`
	Reasoning string       `json:"reasoning_content"`
	Calls     []openaiCall `json:"tool_calls"`
	CallID    string       `json:"tool_call_id"`
}

type openaiCall struct {
	Index    *int           `json:"index,omitempty"`
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function openaiFunction `json:"function"`
}

type openaiFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// Parse implements [Wire]. It is as strict as OpenAI about the order of messages: tool
// results answer the calls of the message before them, and all of them.
func (OpenAI) Parse(r *http.Request, body []byte) (*ParsedRequest, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		return nil, fmt.Errorf("unknown endpoint %s %s", r.Method, r.URL.Path)
	}
	var in openaiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if !in.Stream || in.Model == "" || len(in.Messages) == 0 {
		return nil, errors.New("model, messages and stream are required")
	}
	req := &ParsedRequest{Model: in.Model}
	req.MaxTokens, req.Temperature = max(in.MaxTokens, in.MaxCompletion), in.Temperature
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, model.ToolSpec{Name: t.Function.Name, Description: t.Function.Description, Input: t.Function.Parameters})
	}
	var named struct{ Function openaiFunction }
	if len(in.Choice) > 0 && json.Unmarshal(in.Choice, &req.Choice) != nil {
		if err := json.Unmarshal(in.Choice, &named); err != nil {
			return nil, err
		}
		req.Choice = named.Function.Name
	}
	return req, openaiHistory(&req.Request, in.Messages)
}

func openaiHistory(req *model.Request, messages []openaiMessage) error {
	open := map[string]string{} // calls without a result, by id
	for i, m := range messages {
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("messages[%d]: %d tool calls have no result", i, len(open))
		}
		if m.Content == "" && len(m.Calls) == 0 {
			return fmt.Errorf("messages[%d]: content is required", i)
		}
		switch m.Role {
		case "system", "developer":
			req.System = m.Content
		case "user":
			req.Messages = append(req.Messages, model.UserText(m.Content))
		case "assistant":
			msg := model.Message{Role: model.Assistant}
			if m.Reasoning != "" {
				msg.Parts = append(msg.Parts, model.Part{Kind: model.Reasoning, Text: m.Reasoning})
			}
			if m.Content != "" {
				msg.Parts = append(msg.Parts, model.Part{Kind: model.Text, Text: m.Content})
			}
			for _, c := range m.Calls {
				if _, twice := open[c.ID]; twice || c.ID == "" {
					return fmt.Errorf("messages[%d]: the id %q of a tool call is empty or used twice", i, c.ID)
				}
				open[c.ID] = c.Function.Name
				msg.Parts = append(msg.Parts, model.Part{Kind: model.ToolCall, Call: &model.Call{
					ID: c.ID, Name: c.Function.Name, Args: json.RawMessage(c.Function.Arguments),
				}})
			}
			req.Messages = append(req.Messages, msg)
		case "tool":
			name, ok := open[m.CallID]
			if !ok {
				return fmt.Errorf("messages[%d]: the result answers no call: %q", i, m.CallID)
			}
			delete(open, m.CallID)
			text, failed := strings.CutPrefix(m.Content, "Error: ")
			req.Messages = append(req.Messages, model.ToolResult(model.Call{ID: m.CallID, Name: name}, text, failed))
		default:
			return fmt.Errorf("messages[%d]: unknown role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d tool calls have no result", len(open))
	}
	return nil
}

// Frames implements [Wire].
func (OpenAI) Frames(_ *ParsedRequest, reply *Reply) [][]byte {
	var frames [][]byte
	delta := func(d any) {
		frames = append(frames, openaiFrame(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": d, "finish_reason": nil}}}))
	}
	stop, usage, calls := reply.Stop, (*model.Usage)(nil), 0
	for _, p := range reply.Parts {
		switch p.Kind {
		case model.Text:
			delta(map[string]any{"content": p.Text})
		case model.Reasoning:
			delta(map[string]any{"reasoning_content": p.Text})
		case model.UsagePart:
			usage = p.Usage
		case model.ToolCall:
			for _, c := range openaiFragments(p.Call, calls, reply.Fragment) {
				delta(map[string]any{"tool_calls": []openaiCall{c}})
			}
			calls++
		}
	}
	if stop == "" {
		stop = model.StopEnd
		if calls > 0 {
			stop = model.StopCalls
		}
	}
	reason := map[model.StopCode]string{
		model.StopEnd: "stop", model.StopCalls: "tool_calls", model.StopLength: "length", model.StopFilter: "content_filter",
	}[stop]
	frames = append(frames, openaiFrame(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": struct{}{}, "finish_reason": reason}}}))
	if usage != nil {
		frames = append(frames, openaiFrame(map[string]any{"choices": []any{}, "usage": map[string]any{
			"prompt_tokens": usage.In, "completion_tokens": usage.Out, "total_tokens": usage.In + usage.Out,
			"prompt_tokens_details":     map[string]int{"cached_tokens": usage.Cached},
			"completion_tokens_details": map[string]int{"reasoning_tokens": usage.Reasoning},
		}}))
	}
	return append(frames, []byte("data: [DONE]\n\n"))
}

func openaiFragments(call *model.Call, n, size int) []openaiCall {
	id := call.ID
	if id == "" {
		id = fmt.Sprintf("call_%d", n+1)
	}
	first := openaiCall{Index: &n, ID: id, Type: "function", Function: openaiFunction{Name: call.Name, Arguments: string(call.Args)}}
	if size <= 0 {
		return []openaiCall{first}
	}
	first.Function.Arguments = ""
	out := []openaiCall{first}
	for rest := []rune(string(call.Args)); len(rest) > 0; {
		k := min(size, len(rest))
		out = append(out, openaiCall{Index: &n, Function: openaiFunction{Arguments: string(rest[:k])}})
		rest = rest[k:]
	}
	return out
}

// ErrorFrame implements [Wire].
func (OpenAI) ErrorFrame(code, message string) []byte {
	return openaiFrame(map[string]any{"error": map[string]any{"message": message, "type": code, "code": nil}})
}

// ErrorBody implements [Wire].
func (OpenAI) ErrorBody(_ int, code, message string) []byte {
	return openaiJSON(map[string]any{"error": map[string]any{"message": message, "type": code, "code": code}})
}

func openaiFrame(v any) []byte {
	return append(append([]byte("data: "), openaiJSON(v)...), "\n\n"...)
}

func openaiJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // of the maps and strings above, never
	}
	return raw
}
