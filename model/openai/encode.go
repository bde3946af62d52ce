package openai

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// encode writes a request as the protocol wants it. It does not change req.
func (m *Model) encode(req *model.Request) (*request, error) {
	w := &request{
		Model:           m.opts.Model,
		Temperature:     req.Temperature,
		Stream:          true,
		StreamOptions:   &streamOptions{IncludeUsage: true},
		ReasoningEffort: m.opts.Effort,
	}
	// OpenAI renamed the limit for its reasoning models; most other servers know the old name only.
	if m.opts.BaseURL == defaultBaseURL || reasons(m.opts.Model) {
		w.MaxCompletionTokens = req.MaxTokens
	} else {
		w.MaxTokens = req.MaxTokens
	}
	if req.System != "" {
		w.Messages = append(w.Messages, message{Role: "system", Content: req.System})
	}
	for i, msg := range req.Messages {
		out, err := m.encodeMessage(msg)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		w.Messages = append(w.Messages, out...)
	}
	if len(w.Messages) == 0 {
		return nil, errors.New("the request has no messages")
	}
	tools, err := functions(req)
	if err != nil {
		return nil, err
	}
	for _, f := range tools {
		w.Tools = append(w.Tools, tool{Type: "function", Function: f})
	}
	switch req.Choice {
	case "":
	case "required":
		w.ToolChoice = "required"
	default:
		only := toolChoice{Type: "function"}
		only.Function.Name = req.Choice
		w.ToolChoice = only
	}
	if req.Schema != nil {
		schema, err := answerSchema(req.Schema)
		if err != nil {
			return nil, err
		}
		w.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: *schema}
	}
	return w, nil
}

// functions returns the tools of a request, or what is wrong with them.
func functions(req *model.Request) ([]function, error) {
	if err := wire.CheckTools(req); err != nil {
		return nil, err
	}
	var out []function
	for _, spec := range req.Tools {
		params, err := wire.ObjectSchema(spec.Input)
		if err != nil {
			return nil, wire.SchemaError(&spec, err)
		}
		out = append(out, function{Name: spec.Name, Description: spec.Description, Parameters: params})
	}
	return out, nil
}

// Relax implements [wire.Turn]: it drops an optional field the server said it does not know, and reports whether
// it did. A tool that had to be called becomes the only tool there is.
func (w *request) Relax(fail *model.Error) bool {
	if fail.Status != http.StatusBadRequest && fail.Status != http.StatusUnprocessableEntity || fail.Err == nil {
		return false
	}
	text := fail.Err.Error()
	switch {
	case w.ResponseFormat != nil && (strings.Contains(text, "response_format") || strings.Contains(text, "json_schema")):
		w.instruct(&w.ResponseFormat.JSONSchema)
		w.ResponseFormat = nil
	case w.StreamOptions != nil && strings.Contains(text, "stream_options"):
		w.StreamOptions = nil
	case w.ToolChoice != nil && strings.Contains(text, "tool_choice"):
		if only, ok := w.ToolChoice.(toolChoice); ok {
			for _, t := range w.Tools {
				if t.Function.Name == only.Function.Name {
					w.Tools = []tool{t}
					break
				}
			}
		}
		w.ToolChoice = nil
	case w.MaxTokens > 0 && strings.Contains(text, "max_completion_tokens"):
		w.MaxTokens, w.MaxCompletionTokens = 0, w.MaxTokens
	default:
		return false
	}
	return true
}

func (m *Model) encodeMessage(msg model.Message) ([]message, error) {
	switch msg.Role {
	case model.User:
		return encodeUser(msg)
	case model.Assistant:
		return m.encodeAssistant(msg)
	case model.Tool:
		return encodeResults(msg)
	default:
		return nil, fmt.Errorf("unknown role %q", msg.Role)
	}
}

func encodeUser(msg model.Message) ([]message, error) {
	texts, err := wire.Texts(msg)
	return []message{{Role: "user", Content: strings.Join(texts, "\n\n")}}, err
}

// encodeAssistant leaves a turn out that said nothing: servers refuse it.
func (m *Model) encodeAssistant(msg model.Message) ([]message, error) {
	out := message{Role: "assistant"}
	for _, p := range msg.Parts {
		switch {
		case p.Kind == model.Text:
			out.Content += p.Text
		case p.Kind == model.Reasoning:
			if m.opts.ReplayReasoning {
				out.Reasoning += p.Text
			}
		case p.Kind == model.ToolCall && p.Call != nil:
			call := toolCall{ID: p.Call.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = p.Call.Name, sentArguments(p.Call)
			out.ToolCalls = append(out.ToolCalls, call)
		default:
			return nil, wire.Misplaced(msg.Role, p.Kind)
		}
	}
	if out.Content == "" && len(out.ToolCalls) == 0 {
		return nil, nil
	}
	return []message{out}, nil
}

func encodeResults(msg model.Message) ([]message, error) {
	results, err := wire.Results(msg)
	out := make([]message, len(results))
	for i, p := range results {
		out[i] = message{Role: "tool", ToolCallID: p.Call.ID, Content: sentResult(&p)}
	}
	return out, err
}

// sentArguments returns the arguments of a call, an object also if there are none.
func sentArguments(c *model.Call) string {
	if args := strings.TrimSpace(string(c.Args)); args != "" {
		return args
	}
	return "{}"
}

// sentResult returns the text of a result. The protocols have no field for a failure.
func sentResult(p *model.Part) string {
	if p.Error {
		return "Error: " + p.Text
	}
	return p.Text
}
