package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// A schemaError is what is wrong with a schema, and the JSON pointer of where.
type schemaError struct{ at, text string }

func (e *schemaError) Error() string { return clean.Text("at " + clip(e.at) + ": " + e.text) }

func wrongAt(at, format string, args ...any) error {
	return &schemaError{at, fmt.Sprintf(format, args...)}
}

// A schemaReader makes a schema of what somebody wrote as one, or says what is wrong and where.
type schemaReader struct {
	lenient bool         // the tool checks for itself: what Go cannot express is left out
	warn    func(string) // told of what was changed
}

// read returns the schema of some JSON. Args says that it is of arguments, which are an object.
func (r schemaReader) read(b []byte, args bool) (*jsonschema.Schema, error) {
	if len(b) > maxSchema {
		return nil, fmt.Errorf("is %d KiB large, more than %d", len(b)>>10, maxSchema>>10)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is not an object")
	}
	delete(object, "$schema")
	if err := r.walk(object, "", 0); err != nil {
		return nil, err
	}
	if args {
		if t, _ := object["type"].(string); t != "object" {
			return nil, wrongAt("/type", `the arguments of a tool are an object; say type "object"`)
		}
	}
	tidy, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(tidy, s); err != nil {
		return nil, fmt.Errorf("is not valid: %s", clean.Text(strings.TrimPrefix(err.Error(), "json: ")))
	}
	if _, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
		return nil, fmt.Errorf("is not valid: %s", clean.Text(err.Error()))
	}
	return s, nil
}

// walk goes through a schema and what lies in it. At is the JSON pointer of where it is.
func (r schemaReader) walk(s map[string]any, at string, depth int) error {
	if depth > maxDepth {
		return wrongAt(at, "nested more than %d deep", maxDepth)
	}
	for _, key := range sortedKeys(s) {
		here := at + "/" + escapePointer(key)
		if key == "type" {
			if err := checkType(s[key], here); err != nil {
				return err
			}
		}
		switch v := s[key].(type) {
		case string:
			if err := r.text(s, key, v, here); err != nil {
				return err
			}
		case json.Number:
			if noise(key, v.String()) {
				delete(s, key)
			}
		case map[string]any:
			if err := r.inner(s, key, v, here, depth); err != nil {
				return err
			}
		case []any:
			if slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}, key) {
				for i, e := range v {
					if m, ok := e.(map[string]any); ok {
						if err := r.walk(m, here+"/"+strconv.Itoa(i), depth+1); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// checkType checks a type, or a list of them.
func checkType(v any, at string) error {
	types := []string{"array", "boolean", "integer", "null", "number", "object", "string"}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, t := range list {
		if s, ok := t.(string); !ok || !slices.Contains(types, s) {
			return wrongAt(at, "%q is no type%s", clip(fmt.Sprint(t)), suggest.Hint(s, types))
		}
	}
	return nil
}

func (r schemaReader) inner(s map[string]any, key string, v map[string]any, at string, depth int) error {
	switch key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		for _, name := range sortedKeys(v) {
			here := at + "/" + escapePointer(name)
			if clean.Text(name) != name {
				return wrongAt(here, "the name holds characters that cannot be shown")
			}
			if key == "patternProperties" {
				if _, err := regexp.Compile(name); err != nil {
					if !r.lenient {
						return wrongAt(here, "not a pattern that can be checked here: %v", err)
					}
					delete(v, name)
					continue
				}
			}
			if m, ok := v[name].(map[string]any); ok {
				if err := r.walk(m, here, depth+1); err != nil {
					return err
				}
			}
		}
		if key == "patternProperties" && len(v) == 0 {
			delete(s, key)
		}
		return nil
	case "default", "const", "examples", "enum":
		return nil
	}
	return r.walk(v, at, depth+1)
}

func (r schemaReader) text(s map[string]any, key, v, at string) error {
	switch key {
	case "description", "title", "$comment":
		if c := clean.Text(v); c != v {
			s[key] = c
			r.warn("the schema at " + clip(at) + " held characters that could deceive a reader; they were taken out")
		}
	case "$ref", "$dynamicRef":
		if !strings.HasPrefix(v, "#") {
			return wrongAt(at, "refers to %q; remote refs are refused, put the schema into $defs and write #/$defs/name", clip(v))
		}
	case "$id", "$anchor", "$dynamicAnchor":
		if key == "$id" {
			delete(s, key) // it only says where the schema comes from, and changes what refs mean
		}
	case "pattern":
		if _, err := regexp.Compile(v); err != nil {
			if !r.lenient {
				return wrongAt(at, "not a pattern that can be checked here: %v", err)
			}
			delete(s, key)
		}
	}
	return nil
}

// noise says whether a bound is only that of JavaScript's exact integers, which tells a model nothing.
func noise(key, v string) bool {
	return key == "minimum" && v == "-9007199254740991" || key == "maximum" && v == "9007199254740991"
}

func escapePointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// checkOutput says how a text fails to be JSON that fits a schema.
func checkOutput(s *jsonschema.Resolved, text string) error {
	if err := strict.Check(s, json.RawMessage(text)); err != nil {
		return fmt.Errorf("its result does not fit its output schema: %w", err)
	}
	return nil
}
