package cassette

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// A request is a recorded request, as the ids of its pieces.
type request struct {
	System      string   `json:"system,omitempty"`
	Messages    []string `json:"messages,omitempty"`
	Tools       []string `json:"tools,omitempty"`
	Choice      string   `json:"choice,omitempty"`
	Schema      string   `json:"schema,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
}

// digest tells requests apart.
func (r *request) digest() string {
	raw, err := json.Marshal(r)
	if err != nil { // a temperature that is no number
		raw = fmt.Appendf(nil, "%+v %v", r, *r.Temperature)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// A piece is a part of requests. Exactly one of its fields beside ID is set.
type piece struct {
	ID      string          `json:"id"`
	System  string          `json:"system,omitempty"`
	Message *message        `json:"message,omitempty"`
	Tool    *tool           `json:"tool,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

type message struct {
	Role  model.Role    `json:"role"`
	Parts []messagePart `json:"parts,omitempty"`
}

type messagePart struct {
	Kind  model.PartKind `json:"kind"`
	Text  string         `json:"text,omitempty"`
	Call  *call          `json:"call,omitempty"`
	Error bool           `json:"error,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
}

// describe splits a request into pieces and redacts them. Equal requests have equal ids.
func describe(req *model.Request, r Redactor) (request, []piece, error) {
	out := request{Choice: r.Text(req.Choice), MaxTokens: req.MaxTokens, Temperature: req.Temperature}
	var pieces []piece
	add := func(p piece) string {
		p.ID = p.digest()
		pieces = append(pieces, p)
		return p.ID
	}
	if req.System != "" {
		out.System = add(piece{System: r.Text(req.System)})
	}
	for _, m := range req.Messages {
		out.Messages = append(out.Messages, add(piece{Message: describeMessage(m, r)}))
	}
	for _, t := range req.Tools {
		input, err := describeSchema(t.Input, r)
		if err != nil {
			return out, nil, fmt.Errorf("tool %q: its input schema: %w", t.Name, err)
		}
		out.Tools = append(out.Tools, add(piece{Tool: &tool{Name: r.Text(t.Name), Description: r.Text(t.Description), Input: input}}))
	}
	if req.Schema != nil {
		schema, err := describeSchema(req.Schema, r)
		if err != nil {
			return out, nil, fmt.Errorf("the schema of the answer: %w", err)
		}
		out.Schema = add(piece{Schema: schema})
	}
	return out, pieces, nil
}

func describeMessage(m model.Message, r Redactor) *message {
	out := &message{Role: m.Role}
	for _, p := range m.Parts {
		described := messagePart{Kind: p.Kind, Text: r.Text(p.Text), Error: p.Error}
		if p.Call != nil {
			described.Call = redactCall(r, &call{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args})
			if args, err := canonical(described.Call.Args); err == nil {
				described.Call.Args = args
			} else {
				described.Call.Raw, described.Call.Args = string(described.Call.Args), nil
			}
		}
		out.Parts = append(out.Parts, described)
	}
	return out
}

func describeSchema(s *jsonschema.Schema, r Redactor) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return canonical(r.JSON(raw))
}

// canonical writes JSON in canonical form: object names are sorted, and numbers are unchanged.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%q is not JSON", clip(string(raw), 40))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return encode(v)
}

// encode is json.Marshal without the escapes for web pages.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func compact(raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.Bytes(), err
}

// digest returns the id of a piece.
func (p piece) digest() string {
	p.ID = ""
	raw, err := encode(p)
	if err != nil {
		raw = fmt.Appendf(nil, "%+v", p) // of texts and valid JSON, never
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// preview returns the piece with its long texts cut short.
func (p piece) preview() piece {
	p.System = clip(p.System, maxPreview)
	if len(p.Schema) > maxPreview {
		p.Schema = quoted(p.Schema)
	}
	if p.Tool != nil {
		t := *p.Tool
		t.Description = clip(t.Description, maxPreview)
		if len(t.Input) > maxPreview {
			t.Input = quoted(t.Input)
		}
		p.Tool = &t
	}
	if p.Message != nil {
		m := message{Role: p.Message.Role}
		for _, part := range p.Message.Parts {
			part.Text = clip(part.Text, maxPreview)
			if part.Call != nil && len(part.Call.Args)+len(part.Call.Raw) > maxPreview {
				c := *part.Call
				c.Raw, c.Args = clip(string(c.Args)+c.Raw, maxPreview), nil
				part.Call = &c
			}
			m.Parts = append(m.Parts, part)
		}
		p.Message = &m
	}
	return p
}

// quoted returns the beginning of long JSON, as a string.
func quoted(raw json.RawMessage) json.RawMessage {
	out, _ := encode(clip(string(raw), maxPreview)) // a string always can
	return out
}

// clip cuts a long text and says how long it was.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:cut], len(s))
}

// text returns the piece for people.
func (p *piece) text() string {
	switch {
	case p.Message != nil:
		var said []string
		for _, part := range p.Message.Parts {
			switch {
			case part.Call != nil && part.Kind == model.ToolCall:
				said = append(said, part.Call.Name+" "+string(part.Call.Args)+part.Call.Raw)
			case part.Kind == model.Reasoning:
				said = append(said, "(reasoning) "+part.Text)
			default:
				said = append(said, part.Text)
			}
		}
		return strings.Join(said, "\n")
	case p.Tool != nil:
		return p.Tool.Name + ": " + p.Tool.Description + " " + string(p.Tool.Input)
	case len(p.Schema) > 0:
		return string(p.Schema)
	}
	return p.System
}
