package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// A responsesRequest is the body of a request to the Responses API, as far as it is used, with what
// is kept beside it.
type responsesRequest struct {
	Model           string             `json:"model"`
	Instructions    string             `json:"instructions,omitempty"`
	Input           []item             `json:"input"`
	MaxOutputTokens int                `json:"max_output_tokens,omitempty"`
	Temperature     *float64           `json:"temperature,omitempty"`
	Stream          bool               `json:"stream"`
	Store           bool               `json:"store"` // false is not the default
	Include         []string           `json:"include,omitempty"`
	Reasoning       *reasoning         `json:"reasoning,omitempty"`
	Text            *textOptions       `json:"text,omitempty"`
	Tools           []responseFunction `json:"tools,omitempty"`
	ToolChoice      any                `json:"tool_choice,omitempty"`      // "required", or a namedFunction
	CacheKey        string             `json:"prompt_cache_key,omitempty"` // the same for all turns of a conversation

	without relaxation
}

// An item is a piece of a conversation.
type item struct {
	Type      string `json:"type"` // message, reasoning, function_call or function_call_output
	Role      string `json:"role,omitempty"`
	Content   string `json:"content,omitempty"`
	Phase     string `json:"phase,omitempty"` // of a message of the assistant
	CallID    string `json:"call_id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	Output    string `json:"output,omitempty"`
	*thought         // of a reasoning
}

// A thought is the reasoning of a model: what people may read of it, and what only OpenAI can.
type thought struct {
	ID        string    `json:"id,omitempty"`
	Summary   []summary `json:"summary"`
	Encrypted string    `json:"encrypted_content"`
}

type summary struct {
	Type string `json:"type"` // summary_text
	Text string `json:"text"`
}

// kept is the data of an opaque: that of a reasoning is its thought, that of a text the phase of the
// message that ends there. A model that does not get these back ends turns early.
type kept struct {
	*thought
	Phase string `json:"phase,omitempty"`
}

func (k kept) opaque() *model.Opaque {
	data, _ := json.Marshal(k) // strings always can
	return &model.Opaque{Provider: protocol, Data: data}
}

// readKept returns the zero value if there is nothing, or if it belongs to another provider.
func readKept(o *model.Opaque) kept {
	var k struct {
		thought
		Phase string `json:"phase"`
	}
	if o == nil || o.Provider != protocol || json.Unmarshal(o.Data, &k) != nil {
		return kept{}
	}
	if k.Encrypted == "" {
		return kept{Phase: k.Phase}
	}
	if k.Summary == nil {
		k.Summary = []summary{} // which is required
	}
	return kept{thought: &k.thought}
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type textOptions struct {
	Format struct {
		Type string `json:"type"` // json_schema
		jsonSchema
	} `json:"format"`
}

// A responseFunction is a tool. Strict is the default, and would change the schema.
type responseFunction struct {
	Type string `json:"type"` // function
	function
	Strict bool `json:"strict"`
}

type namedFunction struct {
	Type string `json:"type"` // function
	Name string `json:"name"`
}

// A relaxation is a set of features that are left out of a request because the server does not
// support them.
type relaxation uint32

const (
	encrypted relaxation = 1 << iota // reasoning that comes back
	summaries                        // of reasoning
)

// The least that the server accepts: https://platform.openai.com/docs/api-reference/responses/create
const minOutputTokens = 16

// encodeResponses writes a request as the Responses API wants it. It does not change req.
func (m *Model) encodeResponses(req *model.Request) (*responsesRequest, error) {
	w := &responsesRequest{
		Model: m.opts.Model, Instructions: req.System, Temperature: req.Temperature, Stream: true, without: relaxation(m.refused.Load()),
	}
	if req.MaxTokens > 0 {
		w.MaxOutputTokens = max(req.MaxTokens, minOutputTokens)
	}
	for i, msg := range req.Messages {
		if err := w.add(msg); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	if len(w.Input) == 0 {
		return nil, errors.New("the request has no messages")
	}
	if m.opts.BaseURL == defaultBaseURL { // others may not know it; agents that have their instructions in common would push each other out of the cache
		sum := sha256.Sum256([]byte(req.System + "\x00" + req.Messages[0].Text()))
		w.CacheKey = hex.EncodeToString(sum[:16])
	}
	// OpenAI refuses these for models that do not reason. Which models of others do is not known.
	think := reasoning{Effort: m.opts.Effort}
	if m.opts.BaseURL != defaultBaseURL || reasons(m.opts.Model) {
		if w.without&encrypted == 0 {
			w.Include = []string{"reasoning.encrypted_content"}
		}
		if w.without&summaries == 0 {
			think.Summary = "auto"
		}
	}
	if think != (reasoning{}) {
		w.Reasoning = &think
	}
	tools, err := functions(req)
	if err != nil {
		return nil, err
	}
	for _, f := range tools {
		w.Tools = append(w.Tools, responseFunction{Type: "function", function: f})
	}
	switch req.Choice {
	case "":
	case "required":
		w.ToolChoice = "required"
	default:
		w.ToolChoice = namedFunction{Type: "function", Name: req.Choice}
	}
	if req.Schema != nil {
		schema, err := answerSchema(req.Schema)
		if err != nil {
			return nil, err
		}
		w.Text = &textOptions{}
		w.Text.Format.Type, w.Text.Format.jsonSchema = "json_schema", *schema
	}
	return w, nil
}

// add adds a message.
func (w *responsesRequest) add(msg model.Message) error {
	switch msg.Role {
	case model.User:
		texts, err := wire.Texts(msg)
		w.Input = append(w.Input, item{Type: "message", Role: "user", Content: strings.Join(texts, "\n\n")})
		return err
	case model.Assistant:
		return w.addAssistant(msg)
	case model.Tool:
		results, err := wire.Results(msg)
		for _, p := range results {
			w.Input = append(w.Input, item{Type: "function_call_output", CallID: p.Call.ID, Output: sentResult(&p)})
		}
		return err
	}
	return fmt.Errorf("unknown role %q", msg.Role)
}

// addAssistant adds a turn of the model. Reasoning that nothing follows is left out, since the
// server refuses it.
func (w *responsesRequest) addAssistant(msg model.Message) error {
	said := item{Type: "message", Role: "assistant"}
	end := func() { // of a message
		if said.Content != "" {
			w.Input = append(w.Input, said)
		}
		said.Content, said.Phase = "", ""
	}
	for _, p := range msg.Parts {
		data := readKept(p.Opaque)
		switch {
		case p.Kind == model.Text:
			said.Content += p.Text
			if said.Phase = data.Phase; data.Phase != "" {
				end()
			}
		case p.Kind == model.Reasoning:
			if data.thought != nil {
				end()
				w.Input = append(w.Input, item{Type: "reasoning", thought: data.thought})
			}
		case p.Kind == model.ToolCall && p.Call != nil:
			end()
			w.Input = append(w.Input, item{Type: "function_call", CallID: p.Call.ID, Name: p.Call.Name, Arguments: sentArguments(p.Call)})
		default:
			return wire.Misplaced(msg.Role, p.Kind)
		}
	}
	end()
	for len(w.Input) > 0 && w.Input[len(w.Input)-1].thought != nil {
		w.Input = w.Input[:len(w.Input)-1]
	}
	return nil
}

// Relax implements [wire.Turn]: it drops what the server said it does not know, or cannot read, and
// reports whether it did. A tool that had to be called becomes the only tool there is.
func (w *responsesRequest) Relax(fail *model.Error) bool {
	if fail.Status != http.StatusBadRequest && fail.Status != http.StatusUnprocessableEntity || fail.Err == nil {
		return false
	}
	text := fail.Err.Error()
	says := func(s string) bool { return strings.Contains(text, s) }
	foreign := func(i item) bool { return i.thought != nil }
	switch {
	case w.Text != nil && (says("text.format") || says("json_schema")):
		w.Instructions = strings.TrimPrefix(w.Instructions+"\n\n"+w.Text.Format.instruction(), "\n\n")
		w.Text = nil
	case w.Include != nil && (says("include") || says("ncrypted content is not supported")):
		w.Include, w.without = nil, w.without|encrypted
	// Another organization, or a server that is gone, has encrypted it; or what followed it is missing.
	case (says("ncrypted") || says("'reasoning'")) && slices.ContainsFunc(w.Input, foreign):
		w.Input = slices.DeleteFunc(w.Input, foreign)
	case w.Reasoning != nil && w.Reasoning.Summary != "" && says("reasoning"): // of an organization that is not verified, too
		w.Reasoning.Summary, w.without = "", w.without|summaries
		if w.Reasoning.Effort == "" {
			w.Reasoning = nil
		}
	case w.ToolChoice != nil && says("tool_choice"):
		if only, ok := w.ToolChoice.(namedFunction); ok {
			w.Tools = slices.DeleteFunc(w.Tools, func(f responseFunction) bool { return f.Name != only.Name })
		}
		w.ToolChoice = nil
	default:
		return false
	}
	return true
}
