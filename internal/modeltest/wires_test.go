package modeltest

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// A Signer is a [Wire] on which parts can have what only the provider understands and wants
// back, such as the signature of its reasoning. In the parts of a [Reply] the Data of their
// Opaque is that signature, a JSON string. In a [ParsedRequest] the Opaque of the parts that
// came back is read the same way; who made it is not compared.
type Signer interface {
	Wire
	// Signs says whether parts of this kind can.
	Signs(kind model.PartKind) bool
}

// A Schemer is a [Wire] whose requests can say which schema the text of the answer must fit.
type Schemer interface {
	Wire
	// Schema returns that schema, or nil when the request asks for none.
	Schema(body []byte) (*jsonschema.Schema, error)
}

// A Lossy wire cannot carry all counts of a usage.
type Lossy interface {
	Wire
	// Keeps returns what a client can know of u.
	Keeps(u model.Usage) model.Usage
}

var (
	_ Signer  = Anthropic{}
	_ Schemer = Anthropic{}
)

// Signs implements [Signer].
func (Anthropic) Signs(kind model.PartKind) bool { return kind == model.Reasoning }

// Schema implements [Schemer].
func (Anthropic) Schema(body []byte) (*jsonschema.Schema, error) {
	var in anthropicRequest
	if err := json.Unmarshal(body, &in); err != nil || in.Output.Format == nil {
		return nil, err
	}
	if in.Output.Format.Type != "json_schema" {
		return nil, fmt.Errorf("output_config.format has the type %q", in.Output.Format.Type)
	}
	return in.Output.Format.Schema, nil
}

var (
	_ Signer  = Gemini{}
	_ Schemer = Gemini{}
	_ Lossy   = Gemini{}
)

// Signs implements [Signer]: every kind of part can have a signature.
func (Gemini) Signs(model.PartKind) bool { return true }

// Keeps implements [Lossy]: nobody is told what was written to the cache.
func (Gemini) Keeps(u model.Usage) model.Usage { u.Written = 0; return u }

// Schema implements [Schemer].
func (Gemini) Schema(body []byte) (*jsonschema.Schema, error) {
	var in geminiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.Config.Schema != nil && in.Config.MIMEType != "application/json" {
		return nil, fmt.Errorf("a schema with the type %q", in.Config.MIMEType)
	}
	return in.Config.Schema, nil
}

var (
	_ Schemer = OpenAI{}
	_ Lossy   = OpenAI{}
)

// Keeps implements [Lossy]: nobody is told what was written to the cache.
func (OpenAI) Keeps(u model.Usage) model.Usage { u.Written = 0; return u }

// Schema implements [Schemer].
func (OpenAI) Schema(body []byte) (*jsonschema.Schema, error) {
	var in struct {
		Format *struct {
			Type   string `json:"type"`
			Schema struct {
				Name   string             `json:"name"`
				Schema *jsonschema.Schema `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Format == nil {
		return nil, err
	}
	if in.Format.Type != "json_schema" || in.Format.Schema.Name == "" {
		return nil, fmt.Errorf("the response_format has the type %q and the name %q", in.Format.Type, in.Format.Schema.Name)
	}
	return in.Format.Schema.Schema, nil
}

var (
	_ Signer  = Responses{}
	_ Schemer = Responses{}
	_ Lossy   = Responses{}
)

// Signs implements [Signer]: reasoning comes with what is encrypted, messages come with their phase.
func (Responses) Signs(kind model.PartKind) bool { return kind != model.ToolCall }

// Keeps implements [Lossy]: nobody is told what was written to the cache.
func (Responses) Keeps(u model.Usage) model.Usage { u.Written = 0; return u }

// Schema implements [Schemer].
func (Responses) Schema(body []byte) (*jsonschema.Schema, error) {
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil || in.Text.Format == nil {
		return nil, err
	}
	if in.Text.Format.Type != "json_schema" || in.Text.Format.Name == "" {
		return nil, fmt.Errorf("text.format has the type %q and the name %q", in.Text.Format.Type, in.Text.Format.Name)
	}
	return in.Text.Format.Schema, nil
}
