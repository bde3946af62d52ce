package strict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/suggest"
)

const (
	maxSchema      = 256 << 10 // bytes
	maxSchemaDepth = 64
)

// A SchemaError describes a mistake in a schema, with a JSON pointer to it.
type SchemaError struct{ At, Text string }

func (e *SchemaError) Error() string {
	return clean.Text("at " + clean.Clip(e.At, 200) + ": " + e.Text)
}

func wrongAt(at, format string, args ...any) error {
	return &SchemaError{at, fmt.Sprintf(format, args...)}
}

// A SchemaReader reads a schema written by a user or a program, or reports its mistakes and their positions.
type SchemaReader struct {
	// Lenient omits keywords that Go cannot check, such as patterns with a lookahead, because the author of the schema checks values too.
	Lenient bool
	// Foreign marks the schema as untrusted: values that cannot be cleaned without changing their meaning are refused.
	Foreign bool
	// Note is called with a description of each change.
	Note func(text string)
}

// Read reads b, a schema as JSON. If object is set, it must be the schema of an object, as for a tool's arguments. The returned schema refers to no
// other document, and validating a value against it terminates.
func (r SchemaReader) Read(b []byte, object bool) (*jsonschema.Schema, error) {
	out, err := r.read(b, object, false)
	if err != nil && r.Lenient { // a default that does not fit is no reason to do without the schema
		if bare, err := r.read(b, object, true); err == nil {
			return bare, nil
		}
	}
	return out, err
}

func (r SchemaReader) read(b []byte, object, bare bool) (*jsonschema.Schema, error) {
	if len(b) > maxSchema {
		return nil, fmt.Errorf("is %d KiB large, more than %d", len(b)>>10, maxSchema>>10)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", Words(b, err))
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is not an object")
	}
	delete(root, "$schema") // the dialects differ in what does not matter here
	if err := r.schema(root, "", 0, bare); err != nil {
		return nil, err
	}
	if root["type"] == nil && object && r.Foreign {
		root["type"] = "object"
	}
	if object && root["type"] != "object" {
		return nil, wrongAt("/type", `the arguments of a tool are an object; say type "object"`)
	}
	tidy, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err = json.Unmarshal(tidy, s); err == nil {
		err = Terminates(s)
	}
	if err == nil {
		_, err = s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	}
	if err != nil {
		return nil, fmt.Errorf("is not valid: %s", clean.Text(strings.TrimPrefix(err.Error(), "json: ")))
	}
	return s, nil
}

// holds returns the kind of content of a keyword, or nil if the keyword is unknown.
func holds(name string) reflect.Type {
	i := slices.IndexFunc(keywords(), func(k keyword) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return keywords()[i].holds
}

// schema checks and repairs a schema and its subschemas.
func (r SchemaReader) schema(in any, at string, depth int, bare bool) error {
	s, ok := in.(map[string]any)
	if !ok {
		return nil // true and false are schemas too; the library refuses the rest
	}
	if depth > maxSchemaDepth {
		return wrongAt(at, "nested more than %d deep", maxSchemaDepth)
	}
	if bare {
		delete(s, "default")
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		value, here := s[key], below(at, key)
		for _, k := range keywords() { // the library reads them in any case
			if k.name != key && strings.EqualFold(k.name, key) {
				return wrongAt(here, "%s is spelled in another case than %q", clean.Quote(key), k.name)
			}
		}
		list, _ := value.([]any)
		byName, _ := value.(map[string]any)
		type inner struct {
			at string
			in any
		}
		var parts []inner
		switch holds(key) {
		case reflect.TypeFor[*jsonschema.Schema](), reflect.TypeFor[[]*jsonschema.Schema]():
			parts = append(parts, inner{here, value})
			for i, item := range list {
				parts = append(parts, inner{below(here, strconv.Itoa(i)), item})
			}
		case reflect.TypeFor[map[string]*jsonschema.Schema]():
			for _, name := range slices.Sorted(maps.Keys(byName)) {
				if clean.Text(name) != name {
					return wrongAt(below(here, name), "the name holds characters that cannot be shown")
				}
				parts = append(parts, inner{below(here, name), byName[name]})
			}
		default:
			if err := r.value(s, key, here); err != nil {
				return err
			}
		}
		if key == "patternProperties" {
			if err := r.patterns(s, here, slices.Sorted(maps.Keys(byName)), key, "additionalProperties"); err != nil {
				return err
			}
		}
		for _, p := range parts {
			if err := r.schema(p.in, p.at, depth+1, bare); err != nil {
				return err
			}
		}
	}
	return nil
}

// value checks and repairs the value of a keyword that holds no schema.
func (r SchemaReader) value(s map[string]any, key, at string) error {
	text, isText := s[key].(string)
	switch key {
	case "type":
		return checkType(s[key], at)
	case "title", "description", "$comment":
		if c := clean.Text(text); c != text {
			s[key] = c
			r.Note("the schema at " + clean.Text(clean.Clip(at, 200)) + " held characters that could deceive a reader; they were taken out")
		}
		return nil
	case "$ref", "$dynamicRef":
		if !isText || !strings.HasPrefix(text, "#") {
			return wrongAt(at, "refers to %q; remote refs are refused, put the schema into $defs and write #/$defs/name", clean.Clip(text, 200))
		}
	case "$id":
		delete(s, key) // it only says where the schema comes from, and changes what refs mean
	case "pattern":
		if err := r.patterns(s, at, []string{text}, key); err != nil {
			return err
		}
	case "minimum", "maximum": // the bounds of JavaScript's exact integers tell a model nothing
		if n, _ := s[key].(json.Number); !r.Foreign && strings.TrimPrefix(n.String(), "-") == "9007199254740991" {
			delete(s, key)
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		if _, draft4 := s[key].(bool); draft4 && r.Lenient {
			delete(s, key)
		}
	}
	if r.Foreign {
		return harmless(s[key], at)
	}
	return nil
}

// patterns reports the first that cannot be checked here, or if the reader is lenient, leaves out the keywords.
func (r SchemaReader) patterns(s map[string]any, at string, patterns []string, keys ...string) error {
	for _, p := range patterns {
		_, err := regexp.Compile(p)
		switch {
		case err != nil && !r.Lenient:
			return wrongAt(at, "not a pattern that can be checked here: %v", err)
		case err != nil:
			for _, key := range keys {
				delete(s, key)
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
			return wrongAt(at, "%q is no type%s", clean.Clip(fmt.Sprint(t), 200), suggest.Hint(s, types))
		}
	}
	return nil
}

// harmless refuses texts that cannot be cleaned without changing their meaning.
func harmless(in any, at string) error {
	switch in := in.(type) {
	case string:
		if clean.Text(in) != in {
			return wrongAt(at, "holds control characters")
		}
	case []any:
		for _, e := range in {
			if err := harmless(e, at); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range in {
			if err := cmp.Or(harmless(k, at), harmless(e, below(at, k))); err != nil {
				return err
			}
		}
	}
	return nil
}
