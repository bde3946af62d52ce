package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// Words for places where servers refuse to see nothing.
const (
	noOutput    = "(no output)"
	noText      = "(empty)"
	errorPrefix = "Error: "
)

// A request is what is sent, in the library's types.
type request struct {
	api.ChatCompletionRequest
	zeroTemperature bool   // the library leaves a zero out
	schema          string // what the answer must fit, as JSON
}

// body is the request as JSON.
func (w *request) body() ([]byte, error) {
	raw, err := json.Marshal(w.ChatCompletionRequest)
	if err != nil || !w.zeroTemperature {
		return raw, err
	}
	return append([]byte(`{"temperature":0,`), bytes.TrimPrefix(raw, []byte("{"))...), nil
}

// encode writes a request as the protocol wants it. It does not change req.
func (m *Model) encode(req *model.Request) (*request, error) {
	w := &request{ChatCompletionRequest: api.ChatCompletionRequest{
		Model:           m.opts.Model,
		Stream:          true,
		StreamOptions:   &api.StreamOptions{IncludeUsage: true},
		ReasoningEffort: m.opts.Effort,
	}}
	if req.System != "" {
		w.Messages = append(w.Messages, api.ChatCompletionMessage{Role: api.ChatMessageRoleSystem, Content: req.System})
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
	for _, spec := range req.Tools {
		tool, err := encodeTool(spec)
		if err != nil {
			return nil, err
		}
		w.Tools = append(w.Tools, tool)
	}
	if err := w.choose(req.Choice); err != nil {
		return nil, err
	}
	if err := w.shape(req.Schema); err != nil {
		return nil, err
	}
	if req.Temperature != nil {
		w.Temperature = float32(*req.Temperature)
		w.zeroTemperature = w.Temperature == 0
	}
	return w, w.limit(req.MaxTokens, m.opts.BaseURL == defaultBaseURL)
}

func (w *request) choose(choice string) error {
	switch choice {
	case "":
		return nil
	case "required":
		if len(w.Tools) == 0 {
			return errors.New("a tool call is required but the request has no tools")
		}
		w.ToolChoice = "required"
		return nil
	}
	for _, t := range w.Tools {
		if t.Function.Name == choice {
			w.ToolChoice = api.ToolChoice{Type: api.ToolTypeFunction, Function: api.ToolFunction{Name: choice}}
			return nil
		}
	}
	return fmt.Errorf("the tool %q is to be called but the request does not have it", choice)
}

// limit sets the output limit. OpenAI renamed the field for its reasoning models;
// most other servers know the old name only. The library knows which models are which,
// and what else they refuse.
func (w *request) limit(tokens int, official bool) error {
	w.MaxTokens = tokens //nolint:staticcheck // the only name most compatible servers know
	err := api.NewReasoningValidator().Validate(w.ChatCompletionRequest)
	if official || errors.Is(err, api.ErrReasoningModelMaxTokensDeprecated) {
		w.MaxTokens, w.MaxCompletionTokens = 0, tokens //nolint:staticcheck // as above
		err = api.NewReasoningValidator().Validate(w.ChatCompletionRequest)
	}
	return err
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
		w.ResponseFormat = nil
		w.instruct()
	case w.StreamOptions != nil && strings.Contains(text, "stream_options"):
		w.StreamOptions = nil
	case w.ToolChoice != nil && strings.Contains(text, "tool_choice"):
		if only, ok := w.ToolChoice.(api.ToolChoice); ok {
			for _, t := range w.Tools {
				if t.Function.Name == only.Function.Name {
					w.Tools = []api.Tool{t}
					break
				}
			}
		}
		w.ToolChoice = nil
	case w.MaxTokens > 0 && strings.Contains(text, "max_completion_tokens"): //nolint:staticcheck // as above
		w.MaxTokens, w.MaxCompletionTokens = 0, w.MaxTokens //nolint:staticcheck // as above
	default:
		return false
	}
	return true
}

func (m *Model) encodeMessage(msg model.Message) ([]api.ChatCompletionMessage, error) {
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

func encodeUser(msg model.Message) ([]api.ChatCompletionMessage, error) {
	var texts []string
	for _, p := range msg.Parts {
		if p.Kind != model.Text {
			return nil, wire.Misplaced(msg.Role, p.Kind)
		}
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	if len(texts) == 0 {
		texts = []string{noText}
	}
	return []api.ChatCompletionMessage{{Role: api.ChatMessageRoleUser, Content: strings.Join(texts, "\n\n")}}, nil
}

// encodeAssistant leaves a turn out that said nothing: servers refuse it.
func (m *Model) encodeAssistant(msg model.Message) ([]api.ChatCompletionMessage, error) {
	out := api.ChatCompletionMessage{Role: api.ChatMessageRoleAssistant}
	for _, p := range msg.Parts {
		switch {
		case p.Kind == model.Text:
			out.Content += p.Text
		case p.Kind == model.Reasoning:
			if m.opts.ReplayReasoning {
				out.ReasoningContent += p.Text
			}
		case p.Kind == model.ToolCall && p.Call != nil:
			args := strings.TrimSpace(string(p.Call.Args))
			if args == "" {
				args = "{}"
			}
			out.ToolCalls = append(out.ToolCalls, api.ToolCall{
				ID: p.Call.ID, Type: api.ToolTypeFunction,
				Function: api.FunctionCall{Name: p.Call.Name, Arguments: args},
			})
		default:
			return nil, wire.Misplaced(msg.Role, p.Kind)
		}
	}
	if out.Content == "" && len(out.ToolCalls) == 0 {
		return nil, nil
	}
	return []api.ChatCompletionMessage{out}, nil
}

func encodeResults(msg model.Message) ([]api.ChatCompletionMessage, error) {
	if len(msg.Parts) == 0 {
		return nil, errors.New("a tool message without results")
	}
	var out []api.ChatCompletionMessage
	for _, p := range msg.Parts {
		if p.Kind != model.Result || p.Call == nil {
			return nil, wire.Misplaced(msg.Role, p.Kind)
		}
		text := p.Text
		if strings.TrimSpace(text) == "" {
			text = noOutput
		}
		if p.Error {
			text = errorPrefix + text
		}
		out = append(out, api.ChatCompletionMessage{Role: api.ChatMessageRoleTool, ToolCallID: p.Call.ID, Content: text})
	}
	return out, nil
}

func encodeTool(spec model.ToolSpec) (api.Tool, error) {
	if spec.Name == "" {
		return api.Tool{}, errors.New("a tool has no name")
	}
	params, err := wire.ObjectSchema(spec.Input)
	if err != nil {
		return api.Tool{}, fmt.Errorf("tool %q: its input schema: %w", spec.Name, err)
	}
	return api.Tool{Type: api.ToolTypeFunction, Function: &api.FunctionDefinition{
		Name: spec.Name, Description: spec.Description, Parameters: params,
	}}, nil
}
