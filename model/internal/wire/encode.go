package wire

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// Misplaced is the error of a message with a part that its role cannot have.
func Misplaced(role model.Role, kind model.PartKind) error {
	switch kind {
	case model.ToolCall, model.Result:
		return fmt.Errorf("a part of kind %q in a message of role %q, or one that names no call", kind, role)
	}
	return fmt.Errorf("a part of kind %q does not belong in a message of role %q", kind, role)
}

// ObjectSchema is the schema of a tool's arguments as providers want it: of an object, with
// its properties listed even if there are none.
func ObjectSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	if s == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
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
