package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// protocol names the provider of the data that a part keeps in Opaque.
const protocol = "anthropic"

// A request is what is sent.
type request struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	System       []block       `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
	Tools        []tool        `json:"tools,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	Thinking     *thinking     `json:"thinking,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
	Temperature  *float64      `json:"temperature,omitempty"`
	Stream       bool          `json:"stream"`

	beta   string
	cached bool    // has marks for the cache
	answer *answer // what the answer must fit; nil for anything
}

type message struct {
	Role    model.Role `json:"role"`
	Content []block    `json:"content"`
}

// A block is a piece of a message. Which of its fields are sent depends on its type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Data      string          `json:"data,omitempty"` // of redacted_thinking
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	CallID    string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Cache     *cache          `json:"cache_control,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input_schema"`
	Cache       *cache          `json:"cache_control,omitempty"`
}

type cache struct {
	Type string `json:"type"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type thinking struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitempty"`
	Format *format `json:"format,omitempty"`
}

type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// opaque is what we keep of a thinking block beside its text.
type opaque struct {
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
}

// encode writes a request as the protocol wants it. It does not change req.
func (m *Model) encode(req *model.Request) (*request, error) {
	r := &request{Model: m.opts.Model, Stream: true, beta: strings.Join(m.opts.Beta, ","), cached: !m.opts.NoCache}
	if strings.TrimSpace(req.System) != "" {
		r.System = []block{{Type: "text", Text: req.System}}
	}
	for i, msg := range req.Messages {
		role, blocks, err := encodeMessage(msg)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		r.add(role, blocks)
	}
	if len(r.Messages) == 0 {
		return nil, errors.New("the request has no messages")
	}
	if err := wire.CheckTools(req); err != nil {
		return nil, err
	}
	for _, spec := range req.Tools {
		t, err := encodeTool(&spec)
		if err != nil {
			return nil, err
		}
		r.Tools = append(r.Tools, t)
	}
	r.choose(req.Choice)
	r.think(&m.opts, req)
	if err := r.shape(req); err != nil {
		return nil, err
	}
	r.mark()
	return r, nil
}

// add appends blocks to the conversation. Messages of one role in a row become one: the
// results of parallel calls must be in one message, and roles alternate.
func (r *request) add(role model.Role, blocks []block) {
	if len(blocks) == 0 {
		return
	}
	if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == role {
		r.Messages[last].Content = append(r.Messages[last].Content, blocks...)
		return
	}
	r.Messages = append(r.Messages, message{Role: role, Content: blocks})
}

func (r *request) choose(choice string) {
	switch {
	case choice == "" && len(r.Tools) == 0:
		r.declareCalled()
	case choice == "":
	case choice == "required":
		r.ToolChoice = &toolChoice{Type: "any"}
	default:
		r.ToolChoice = &toolChoice{Type: "tool", Name: choice}
	}
}

// declareCalled names the tools that were called in a conversation that has no tools
// any more: the server refuses calls of tools it does not know.
func (r *request) declareCalled() {
	for _, msg := range r.Messages {
		for _, b := range msg.Content {
			if b.Type == "tool_use" && !slices.ContainsFunc(r.Tools, func(t tool) bool { return t.Name == b.Name }) {
				r.Tools = append(r.Tools, tool{Name: b.Name, Input: json.RawMessage(`{"type":"object"}`)})
			}
		}
	}
	if len(r.Tools) > 0 {
		r.ToolChoice = &toolChoice{Type: "none"}
	}
}

// think sets the limits on thinking and output, and the temperature. Thinking is part of what
// max_tokens limits, and excludes a temperature and a tool that must be called.
func (r *request) think(o *Options, req *model.Request) {
	r.MaxTokens, r.Temperature = req.MaxTokens, req.Temperature
	if r.MaxTokens <= 0 {
		r.MaxTokens = o.MaxTokens + max(o.Thinking, 0)
	}
	if o.Effort != "" {
		r.OutputConfig = &outputConfig{Effort: o.Effort}
	}
	if o.Thinking == 0 || r.forced() {
		return
	}
	if o.Thinking == Adaptive {
		r.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
	} else {
		r.fixedThinking(o.Thinking)
	}
	if r.Thinking != nil {
		r.Temperature = nil
	}
}

// fixedThinking sets a budget that leaves room to answer, or none if there is no room.
func (r *request) fixedThinking(budget int) {
	r.Thinking = nil
	if budget >= r.MaxTokens {
		budget = r.MaxTokens / 2
	}
	if budget >= minThinking {
		r.Thinking = &thinking{Type: "enabled", Budget: budget}
	}
}

func (r *request) forced() bool {
	return r.ToolChoice != nil && (r.ToolChoice.Type == "any" || r.ToolChoice.Type == "tool")
}

// mark sets the marks up to which the server keeps a request in its cache, four at most:
// the tools, the system prompt, and the last two messages of the user. The last one
// makes the next turn find this one, the one before it finds the last turn.
func (r *request) mark() {
	if !r.cached {
		return
	}
	kept := &cache{Type: "ephemeral"}
	for i := range r.Tools {
		r.Tools[i].Cache = nil
	}
	if n := len(r.Tools); n > 0 {
		r.Tools[n-1].Cache = kept
	}
	for i := range r.System {
		r.System[i].Cache = nil
	}
	if n := len(r.System); n > 0 {
		r.System[n-1].Cache = kept
	}
	left := 2
	for i := len(r.Messages) - 1; i >= 0 && left > 0; i-- {
		if msg := &r.Messages[i]; msg.Role == model.User {
			msg.Content[len(msg.Content)-1].Cache = kept
			left--
		}
	}
}

func encodeMessage(msg model.Message) (model.Role, []block, error) {
	var blocks []block
	var err error
	switch msg.Role {
	case model.User:
		blocks, err = encodeUser(msg)
	case model.Assistant:
		blocks, err = encodeAssistant(msg)
		return model.Assistant, blocks, err
	case model.Tool:
		blocks, err = encodeResults(msg)
	default:
		return "", nil, fmt.Errorf("unknown role %q", msg.Role)
	}
	return model.User, blocks, err
}

func encodeUser(msg model.Message) ([]block, error) {
	texts, err := wire.Texts(msg)
	blocks := make([]block, len(texts))
	for i, text := range texts {
		blocks[i] = block{Type: "text", Text: text}
	}
	return blocks, err
}

// encodeAssistant returns nothing for a turn that said nothing, or that only thought: the server
// refuses both.
func encodeAssistant(msg model.Message) ([]block, error) {
	var blocks []block
	said := false
	for _, p := range msg.Parts {
		switch {
		case p.Kind == model.Text:
			if strings.TrimSpace(p.Text) == "" {
				continue
			}
			said = true
			blocks = append(blocks, block{Type: "text", Text: p.Text})
		case p.Kind == model.Reasoning:
			if b, ok := encodeThinking(p); ok {
				blocks = append(blocks, b)
			}
		case p.Kind == model.ToolCall && p.Call != nil:
			said = true
			args := p.Call.Args
			if s := strings.TrimSpace(string(args)); s == "" || s == "null" {
				args = json.RawMessage("{}")
			}
			if !json.Valid(args) {
				return nil, fmt.Errorf("the arguments of the call to %q are not valid JSON", p.Call.Name)
			}
			blocks = append(blocks, block{Type: "tool_use", ID: callID(p.Call.ID), Name: p.Call.Name, Input: args})
		default:
			return nil, wire.Misplaced(msg.Role, p.Kind)
		}
	}
	if !said {
		return nil, nil
	}
	return blocks, nil
}

// encodeThinking returns the original thinking block of a part, with its signature. The reasoning
// of other models cannot be sent: the server checks the signature.
func encodeThinking(p model.Part) (block, bool) {
	if p.Opaque == nil || p.Opaque.Provider != protocol {
		return block{}, false
	}
	var kept opaque
	switch err := json.Unmarshal(p.Opaque.Data, &kept); {
	case err != nil:
		return block{}, false
	case kept.Redacted != "":
		return block{Type: "redacted_thinking", Data: kept.Redacted}, true
	case kept.Signature != "":
		return block{Type: "thinking", Thinking: &p.Text, Signature: kept.Signature}, true
	}
	return block{}, false
}

func encodeResults(msg model.Message) ([]block, error) {
	results, err := wire.Results(msg)
	blocks := make([]block, len(results))
	for i, p := range results {
		blocks[i] = block{Type: "tool_result", CallID: callID(p.Call.ID), Content: p.Text, IsError: p.Error}
	}
	return blocks, err
}

// callID returns an id in the form that the server accepts. Those of other providers in the same
// conversation may have other characters.
func callID(id string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if id != "" && !strings.ContainsFunc(id, func(r rune) bool { return !plain(r) }) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// encodeTool ensures that the schema is of an object: the server refuses all others.
func encodeTool(spec *model.ToolSpec) (tool, error) {
	input, err := wire.ObjectSchema(spec.Input)
	if err != nil {
		return tool{}, wire.SchemaError(spec, err)
	}
	return tool{Name: spec.Name, Description: spec.Description, Input: input}, nil
}
