package recipe

import (
	"cmp"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// InputSchema returns the JSON Schema of inputs, or of the fields of a form: an object in their
// order that has no others.
func InputSchema(inputs []Input) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           make(map[string]*jsonschema.Schema, len(inputs)),
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, in := range inputs {
		p := &jsonschema.Schema{Type: cmp.Or(in.Type, "string"), Description: in.Description, Default: in.Default}
		if p.Type == "list" {
			p.Type = "array"
		}
		for _, raw := range in.Enum {
			var v any
			if json.Unmarshal(raw, &v) == nil {
				p.Enum = append(p.Enum, v)
			}
		}
		s.Properties[in.Name] = p
		s.PropertyOrder = append(s.PropertyOrder, in.Name)
		if in.Required {
			s.Required = append(s.Required, in.Name)
		}
	}
	return s
}
