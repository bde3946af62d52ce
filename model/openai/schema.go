package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// answerSchema returns the schema of an answer as the protocols want it.
func answerSchema(schema *jsonschema.Schema) (*jsonSchema, error) {
	var v any
	raw, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		return nil, fmt.Errorf("the schema of the answer: %w", err)
	}
	return &jsonSchema{Name: "answer", Schema: raw, Strict: qualifies(v)}, nil
}

// instruction returns the schema as a part of the prompt, for a server that does not support schemas.
func (s *jsonSchema) instruction() string {
	return "Your answer must be one JSON object that fits this JSON Schema, and nothing else: no other text, no code fence.\n" + string(s.Schema)
}

func (w *request) instruct(schema *jsonSchema) {
	if len(w.Messages) > 0 && w.Messages[0].Role == "system" {
		w.Messages[0].Content += "\n\n" + schema.instruction()
		return
	}
	w.Messages = append([]message{{Role: "system", Content: schema.instruction()}}, w.Messages...)
}

// Limits of strict schemas, below those of OpenAI:
// https://platform.openai.com/docs/guides/structured-outputs
const (
	strictDepth      = 5
	strictProperties = 100
)

// qualifies reports whether a schema is one the server can enforce: of an object, with
// every property required and no others, and without keywords that are not known to be
// supported. A server that is told to be strict refuses all others.
func qualifies(root any) bool {
	top, ok := root.(map[string]any)
	if !ok || top["type"] != "object" || top["anyOf"] != nil {
		return false
	}
	count := 0
	return strictly(top, 1, &count) && count <= strictProperties
}

func strictly(schema any, depth int, count *int) bool {
	s, ok := schema.(map[string]any)
	if !ok || depth > strictDepth {
		return false
	}
	for keyword, value := range s {
		switch keyword {
		case "description", "title", "enum", "const", "required", "additionalProperties":
		case "type":
			if kinds, many := value.([]any); many && len(kinds) == 0 {
				return false
			}
		case "properties", "$defs":
			for _, p := range asMap(value) {
				if *count++; !strictly(p, depth+1, count) {
					return false
				}
			}
		case "items":
			if !strictly(value, depth+1, count) {
				return false
			}
		case "anyOf":
			list, _ := value.([]any)
			for _, p := range list {
				if !strictly(p, depth, count) {
					return false
				}
			}
		case "$ref":
			if ref, ok := value.(string); !ok || !strings.HasPrefix(ref, "#") {
				return false
			}
		default:
			return false
		}
	}
	typed := s["type"] != nil || s["anyOf"] != nil || s["$ref"] != nil
	return typed && (!isObject(s) || closed(s))
}

// closed reports whether an object has all of its properties and no others.
func closed(s map[string]any) bool {
	if open, ok := s["additionalProperties"].(bool); !ok || open {
		return false
	}
	required := map[any]bool{}
	names, _ := s["required"].([]any)
	for _, name := range names {
		required[name] = true
	}
	for name := range asMap(s["properties"]) {
		if !required[name] {
			return false
		}
	}
	return true
}

func isObject(s map[string]any) bool {
	if kinds, ok := s["type"].([]any); ok {
		for _, k := range kinds {
			if k == "object" {
				return true
			}
		}
	}
	return s["type"] == "object" || s["properties"] != nil || s["additionalProperties"] != nil
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
