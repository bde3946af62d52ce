package gemini

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Of what the older fields are sent, references followed: a schema may refer to itself.
const (
	maxSchemaDepth = 32
	maxSchemas     = 5000
)

// plainSchema returns a schema for the fields that take JSON Schema.
func plainSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	if s.Schema != "" { // which dialect it is, is not a question there
		copied := *s
		copied.Schema = ""
		s = &copied
	}
	return json.Marshal(s)
}

// olderSchema returns a schema for the older fields, which know a part of OpenAPI's: what they
// would refuse is left out, so it may allow more. It is nil for an object without properties, which
// they refuse too.
func olderSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	root, _ := v.(map[string]any)
	out := (&subset{root: root}).convert(root, 0)
	if properties, _ := out["properties"].(map[string]any); out["type"] == "object" && len(properties) == 0 {
		return nil, nil
	}
	return json.Marshal(out)
}

// A subset converts schemas.
type subset struct {
	root map[string]any
	made int
}

func (s *subset) convert(in map[string]any, depth int) map[string]any {
	out := map[string]any{}
	if s.made++; depth > maxSchemaDepth || s.made > maxSchemas {
		return out
	}
	if target := s.resolve(in); target != nil {
		out = s.convert(target, depth+1)
		if text, ok := in["description"]; ok {
			out["description"] = text
		}
		return out
	}
	for _, name := range []string{"title", "description", "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties",
		"minimum", "maximum", "pattern", "default"} {
		if v, ok := in[name]; ok {
			out[name] = v
		}
	}
	if format, _ := in["format"].(string); slices.Contains([]string{"int32", "int64", "float", "double", "date-time"}, format) {
		out["format"] = format
	}
	s.kind(in, out)
	s.choices(in, out, depth)
	if items, ok := in["items"].(map[string]any); ok {
		out["items"] = s.convert(items, depth+1)
	} else if out["type"] == "array" {
		out["items"] = map[string]any{"type": "string"} // which it wants to be told
	}
	s.object(in, out, depth)
	return out
}

// resolve follows a reference within the schema.
func (s *subset) resolve(in map[string]any) map[string]any {
	ref, _ := in["$ref"].(string)
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := s.root
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		next, _ := at[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)].(map[string]any)
		if next == nil {
			return nil
		}
		at = next
	}
	return at
}

// kind writes the type: one, and null beside it.
func (s *subset) kind(in, out map[string]any) {
	switch t := in["type"].(type) {
	case string:
		out["type"] = t
	case []any:
		var others []map[string]any
		for _, name := range t {
			if name == "null" {
				out["nullable"] = true
			} else {
				others = append(others, map[string]any{"type": name})
			}
		}
		if len(others) == 1 {
			out["type"] = others[0]["type"]
		} else if len(others) > 1 {
			out["anyOf"] = others
		}
	}
	if out["type"] == nil && out["anyOf"] == nil && in["properties"] != nil {
		out["type"] = "object"
	}
}

// choices writes enumerations, which are of strings there, and alternatives.
func (s *subset) choices(in, out map[string]any, depth int) {
	values, _ := in["enum"].([]any)
	if v, ok := in["const"]; ok {
		values = []any{v}
	}
	texts := []any{}
	for _, v := range values {
		if v == nil {
			out["nullable"] = true
		} else if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	if len(texts) > 0 && (out["type"] == nil || out["type"] == "string") {
		out["type"], out["enum"] = "string", texts
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		list, _ := in[name].([]any)
		var options []map[string]any
		for _, option := range list {
			if option, ok := option.(map[string]any); ok && option["type"] == "null" {
				out["nullable"] = true
			} else if ok {
				options = append(options, s.convert(option, depth+1))
			}
		}
		if len(options) == 1 {
			for k, v := range options[0] {
				out[k] = v
			}
		} else if len(options) > 1 {
			out["anyOf"] = options
		}
	}
	all, _ := in["allOf"].([]any)
	for _, option := range all {
		if option, ok := option.(map[string]any); ok {
			for k, v := range s.convert(option, depth+1) {
				if out[k] == nil {
					out[k] = v
				}
			}
		}
	}
}

// object writes the properties, and those of them that are required.
func (s *subset) object(in, out map[string]any, depth int) {
	properties, _ := in["properties"].(map[string]any)
	converted := map[string]any{}
	for name, property := range properties {
		if p, ok := property.(map[string]any); ok {
			converted[name] = s.convert(p, depth+1)
		} else if anything, _ := property.(bool); anything {
			converted[name] = map[string]any{}
		}
	}
	if len(converted) > 0 {
		out["properties"] = converted
	}
	required, _ := in["required"].([]any)
	required = slices.DeleteFunc(slices.Clone(required), func(name any) bool {
		text, _ := name.(string)
		return converted[text] == nil
	})
	if len(required) > 0 {
		out["required"] = required
	}
}
