package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// Misplaced returns the error of a message with a part that its role cannot have.
func Misplaced(role model.Role, kind model.PartKind) error {
	switch kind {
	case model.ToolCall, model.Result:
		return fmt.Errorf("a part of kind %q in a message of role %q, or one that names no call", kind, role)
	}
	return fmt.Errorf("a part of kind %q does not belong in a message of role %q", kind, role)
}

// Texts returns what a user says in a message: one text at least, and none that is empty, which
// providers refuse.
func Texts(msg model.Message) ([]string, error) {
	var texts []string
	for _, p := range msg.Parts {
		if p.Kind != model.Text {
			return nil, Misplaced(msg.Role, p.Kind)
		}
		if strings.TrimSpace(p.Text) != "" {
			texts = append(texts, p.Text)
		}
	}
	if len(texts) == 0 {
		return []string{"(empty)"}, nil
	}
	return texts, nil
}

// Results returns the parts of a message of a tool: results with a call each, of which none is
// empty.
func Results(msg model.Message) ([]model.Part, error) {
	if len(msg.Parts) == 0 {
		return nil, errors.New("a tool message without results")
	}
	parts := slices.Clone(msg.Parts)
	for i, p := range parts {
		if p.Kind != model.Result || p.Call == nil {
			return nil, Misplaced(msg.Role, p.Kind)
		}
		if strings.TrimSpace(p.Text) == "" {
			parts[i].Text = "(no output)"
		}
	}
	return parts, nil
}

// CheckTools returns what is wrong with the tools of a request and its choice of one.
func CheckTools(req *model.Request) error {
	known := req.Choice == "" || req.Choice == "required"
	for _, spec := range req.Tools {
		if spec.Name == "" {
			return errors.New("a tool has no name")
		}
		known = known || spec.Name == req.Choice
	}
	switch {
	case req.Choice == "required" && len(req.Tools) == 0:
		return errors.New("a tool call is required but the request has no tools")
	case !known:
		return fmt.Errorf("the tool %q is to be called but the request does not have it", req.Choice)
	}
	return nil
}

// SchemaError returns the error of a tool whose input schema cannot be sent.
func SchemaError(spec *model.ToolSpec, err error) error {
	return fmt.Errorf("tool %q: its input schema: %w", spec.Name, err)
}

// ObjectSchema returns the schema of a tool's arguments as providers want it: of an object, with
// its properties listed even if there are none.
func ObjectSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	if s == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if s.Type == "object" && len(s.Properties) > 0 {
		return raw, nil
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) == nil && fields["type"] != nil && fields["properties"] != nil {
		return raw, nil
	}
	if fields == nil { // true and false are schemas too, null is none
		fields = map[string]json.RawMessage{}
	}
	for name, value := range map[string]string{"type": `"object"`, "properties": `{}`} {
		if fields[name] == nil {
			fields[name] = json.RawMessage(value)
		}
	}
	return json.Marshal(fields)
}
