package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// noSignature is the documented placeholder for a required signature, for calls that the service's
// own models did not make.
const noSignature = "skip_thought_signature_validator"

type wireRequest struct {
	System     *content          `json:"systemInstruction,omitempty"`
	Contents   []content         `json:"contents"`
	Tools      []tools           `json:"tools,omitempty"`
	ToolConfig *toolConfig       `json:"toolConfig,omitempty"`
	Config     *generationConfig `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      *string           `json:"text,omitempty"`
	Thought   bool              `json:"thought,omitempty"`
	Call      *functionCall     `json:"functionCall,omitempty"`
	Response  *functionResponse `json:"functionResponse,omitempty"`
	Signature string            `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type tools struct {
	Functions []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	JSONSchema  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	Calling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitempty"`
	} `json:"functionCallingConfig"`
}

type generationConfig struct {
	MaxTokens   int             `json:"maxOutputTokens,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	Thinking    *thinking       `json:"thinkingConfig,omitempty"`
	MIMEType    string          `json:"responseMimeType,omitempty"`
	JSONSchema  json.RawMessage `json:"responseJsonSchema,omitempty"`
}

type thinking struct {
	Include bool   `json:"includeThoughts,omitempty"`
	Budget  *int   `json:"thinkingBudget,omitempty"`
	Level   string `json:"thinkingLevel,omitempty"`
}

// encode writes the request as the protocol wants it, without what the server refused. It
// does not change the request.
func (t *turn) encode() ([]byte, error) {
	req := t.request
	w := &wireRequest{}
	history := history{turn: t, names: map[string]string{}}
	for i, msg := range req.Messages {
		if err := history.add(msg); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	if w.Contents = history.contents; len(w.Contents) == 0 {
		return nil, errors.New("the request has no messages that say anything")
	}
	system := req.System
	if err := w.declare(req); err != nil {
		return nil, err
	}
	prompted, err := w.configure(t)
	if err != nil {
		return nil, err
	}
	if system = strings.TrimSpace(system + "\n\n" + prompted); system != "" {
		w.instruct(system, t.without)
	}
	return json.Marshal(w)
}

// instruct sets the system prompt. If the request has no field for it, it precedes all other
// content.
func (w *wireRequest) instruct(system string, without relaxation) {
	if without&systemPlace == 0 {
		w.System = &content{Parts: []part{{Text: &system}}}
		return
	}
	w.Contents = slices.Insert(w.Contents, 0, content{Role: "user", Parts: []part{{Text: &system}}})
}

// declare writes the tools, and which of them must be called.
func (w *wireRequest) declare(req *model.Request) error {
	if err := wire.CheckTools(req); err != nil {
		return err
	}
	var list []function
	for _, spec := range req.Tools {
		f := function{Name: spec.Name, Description: spec.Description}
		if spec.Input != nil {
			var err error
			if f.JSONSchema, err = plainSchema(spec.Input); err != nil {
				return wire.SchemaError(&spec, err)
			}
		}
		list = append(list, f)
	}
	if len(list) > 0 {
		w.Tools = []tools{{Functions: list}}
	}
	if req.Choice == "" {
		return nil
	}
	w.ToolConfig = &toolConfig{}
	w.ToolConfig.Calling.Mode = "ANY"
	if req.Choice != "required" {
		w.ToolConfig.Calling.Allowed = []string{req.Choice}
	}
	return nil
}

// configure writes the other settings. It returns instructions for settings that the service does
// not support.
func (w *wireRequest) configure(t *turn) (prompted string, err error) {
	req, opts := t.request, &t.model.opts
	c := &generationConfig{MaxTokens: req.MaxTokens, Temperature: req.Temperature}
	switch zero := 0; {
	case opts.Thinking > 0:
		c.Thinking = &thinking{Include: true, Budget: &opts.Thinking}
	case opts.Thinking < 0:
		c.Thinking = &thinking{Budget: &zero}
	case opts.Effort != "":
		c.Thinking = &thinking{Include: true, Level: opts.Effort}
	case t.without&thoughts == 0:
		c.Thinking = &thinking{Include: true}
	}
	if req.Schema != nil {
		plain, err := plainSchema(req.Schema)
		if err != nil {
			return "", fmt.Errorf("the schema of the answer: %w", err)
		}
		if t.without&answerType != 0 && len(req.Tools) > 0 {
			prompted = "Unless you call a tool, answer with JSON that fits this JSON Schema, and with nothing else:\n" + string(plain)
		} else {
			c.MIMEType, c.JSONSchema = "application/json", plain
		}
	}
	if c.MaxTokens != 0 || c.Temperature != nil || c.Thinking != nil || c.MIMEType != "" {
		w.Config = c
	}
	return prompted, nil
}

// A history writes messages as contents. The service wants the results of all calls of a turn in
// the one content that follows it, each with the name of its call.
type history struct {
	turn     *turn
	contents []content
	names    map[string]string // of all calls, by id
	order    []string          // ids of the calls of the last turn
	answers  bool              // the last content is of results
}

func (h *history) add(msg model.Message) error {
	switch msg.Role {
	case model.User:
		return h.user(msg)
	case model.Assistant:
		return h.assistant(msg)
	case model.Tool:
		return h.results(msg)
	default:
		return fmt.Errorf("unknown role %q", msg.Role)
	}
}

func (h *history) user(msg model.Message) error {
	texts, err := wire.Texts(msg)
	c := content{Role: "user"}
	for _, text := range texts {
		c.Parts = append(c.Parts, part{Text: &text})
	}
	h.contents, h.answers = append(h.contents, c), false
	return err
}

// assistant leaves out reasoning that has no signature, and a turn that said nothing.
func (h *history) assistant(msg model.Message) error {
	c, signed := content{Role: "model"}, false
	h.order = nil
	for _, p := range msg.Parts {
		sign := readSignature(p.Opaque)
		switch {
		case p.Kind == model.Text && (p.Text != "" || sign != nil), p.Kind == model.Reasoning && sign != nil:
			c.Parts = append(c.Parts, sign.split(p.Text, p.Kind == model.Reasoning)...)
		case p.Kind == model.Text, p.Kind == model.Reasoning:
		case p.Kind == model.ToolCall && p.Call != nil:
			out := part{Call: &functionCall{ID: p.Call.ID, Name: p.Call.Name, Args: bytes.TrimSpace(p.Call.Args)}}
			if len(out.Call.Args) == 0 {
				out.Call.Args = json.RawMessage("{}")
			}
			if out.Call.Args[0] != '{' || !json.Valid(out.Call.Args) {
				return fmt.Errorf("the arguments of the call to %q are not a JSON object", p.Call.Name)
			}
			if sign != nil {
				out.Signature = sign.Signature
			} else if h.turn.without&signatures != 0 && !signed {
				out.Signature = noSignature // only the first of parallel calls must have one
			}
			if h.turn.without&callIDs != 0 {
				out.Call.ID = ""
			}
			signed = true
			h.names[p.Call.ID] = p.Call.Name
			h.order = append(h.order, p.Call.ID)
			c.Parts = append(c.Parts, out)
		default:
			return wire.Misplaced(msg.Role, p.Kind)
		}
	}
	if len(c.Parts) > 0 {
		h.contents, h.answers = append(h.contents, c), false
	}
	return nil
}

// results sorts the answers by their calls: without ids, only the order distinguishes two calls of
// one tool.
func (h *history) results(msg model.Message) error {
	results, err := wire.Results(msg)
	if err != nil {
		return err
	}
	var out []part
	for _, p := range results {
		r := &functionResponse{ID: p.Call.ID, Name: p.Call.Name}
		if r.Name == "" {
			r.Name = h.names[p.Call.ID]
		}
		if r.Name == "" {
			return fmt.Errorf("the result of the call %q names no tool, and no message before has that call", p.Call.ID)
		}
		key := "output"
		if p.Error {
			key = "error"
		}
		r.Response = map[string]string{key: p.Text}
		out = append(out, part{Response: r})
	}
	if !h.answers {
		h.contents, h.answers = append(h.contents, content{Role: "user"}), true
	}
	last := &h.contents[len(h.contents)-1]
	last.Parts = append(last.Parts, out...)
	slices.SortStableFunc(last.Parts, func(a, b part) int { return h.place(a) - h.place(b) })
	if h.turn.without&callIDs != 0 && len(last.Parts) == len(h.order) {
		for i := range last.Parts {
			last.Parts[i].Response.ID = ""
		}
	}
	return nil
}

// place returns the number of the call a response answers.
func (h *history) place(p part) int {
	if i := slices.Index(h.order, p.Response.ID); i >= 0 {
		return i
	}
	return len(h.order)
}

// A signature is what the service wants back, and what is kept of a part that had one.
type signature struct {
	Signature string `json:"signature"`
	// Tail is the number of bytes at the end of the text that belong to the signed part. The text
	// before came in separate parts, and is sent back that way.
	Tail int `json:"tail,omitempty"`
}

// opaque returns the form in which a signature travels with a part.
func (s signature) opaque() *model.Opaque {
	data, _ := json.Marshal(s) // a string and a number always can
	return &model.Opaque{Provider: protocol, Data: data}
}

// readSignature returns nil if there is no signature, or if it belongs to another provider.
func readSignature(o *model.Opaque) *signature {
	var s signature
	if o == nil || o.Provider != protocol || json.Unmarshal(o.Data, &s) != nil || s.Signature == "" {
		return nil
	}
	return &s
}

// split cuts text into its original parts, as far as that matters.
func (s *signature) split(text string, thought bool) []part {
	if s == nil {
		return []part{{Text: &text, Thought: thought}}
	}
	cut := len(text) - min(max(s.Tail, 0), len(text))
	head, tail := text[:cut], text[cut:]
	var out []part
	if head != "" {
		out = append(out, part{Text: &head, Thought: thought})
	}
	return append(out, part{Text: &tail, Thought: thought, Signature: s.Signature})
}
