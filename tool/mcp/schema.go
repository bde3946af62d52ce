package mcp

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

func noRun(context.Context, *tool.Call) (string, error) { return "", nil }

// What the keywords of a schema hold.
const (
	leaf = iota
	one  // a schema
	list // of schemas
	many // schemas by name
	ref
	words // for people and models
)

func keyword(key string) (kind int, known bool) {
	switch key {
	case "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema", "items":
		return one, true
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return list, true
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return many, true
	case "$ref", "$dynamicRef":
		return ref, true
	case "title", "description", "$comment":
		return words, true
	}
	return leaf, slices.Contains(leaves(), key)
}

func leaves() []string {
	return []string{
		"$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "type", "enum", "const", "default", "examples", "deprecated", "readOnly",
		"writeOnly", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern", "minItems",
		"maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties", "required", "dependentRequired", "format",
		"contentEncoding", "contentMediaType",
	}
}

func allKeywords() []string {
	return append(leaves(), "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems", "contains", "propertyNames",
		"not", "if", "then", "else", "contentSchema", "items", "allOf", "anyOf", "oneOf", "prefixItems", "properties", "patternProperties", "$defs",
		"definitions", "dependentSchemas", "dependencies", "$ref", "$dynamicRef", "title", "description", "$comment")
}

// A schemaCheck walks over a schema as JSON. The library reads keywords in any case, and refuses
// what other libraries allow.
type schemaCheck struct {
	err   error
	notes []string
	depth int
	known map[string]string // keywords by their lower case
	bare  bool              // without defaults
}

func (v *schemaCheck) fail(at, format string, args ...any) {
	if v.err == nil {
		if at == "" {
			at = "/"
		}
		v.err = fmt.Errorf("at %s: "+format, append([]any{oneLine(at, 100)}, args...)...)
	}
}

func (v *schemaCheck) note(text string) {
	if !slices.Contains(v.notes, text) {
		v.notes = append(v.notes, text)
	}
}

func (v *schemaCheck) schema(in any, at string) {
	s, ok := in.(map[string]any)
	if !ok || v.err != nil {
		return // true and false are schemas too; the library refuses the rest
	}
	if v.known == nil {
		v.known = map[string]string{}
		for _, k := range allKeywords() {
			v.known[strings.ToLower(k)] = k
		}
	}
	if v.depth++; v.depth > maxConfigDepth {
		v.fail(at, "nested more than %d deep", maxConfigDepth)
		return
	}
	defer func() { v.depth-- }()
	for _, key := range slices.Sorted(maps.Keys(s)) {
		here := at + "/" + key
		kind, known := keyword(key)
		if real := v.known[strings.ToLower(key)]; !known && real != "" {
			v.fail(here, "%s is spelled in another case than %q", quoted(key), real)
			return
		}
		v.keyword(s, key, kind, here)
	}
	if v.err == nil {
		v.adjust(s)
	}
}

func (v *schemaCheck) keyword(s map[string]any, key string, kind int, at string) {
	value := s[key]
	switch kind {
	case one:
		if items, ok := value.([]any); ok {
			value, kind = items, list
		} else {
			v.schema(value, at)
		}
	case ref:
		if to, ok := value.(string); !ok || !strings.HasPrefix(to, "#") {
			v.fail(at, "remote refs are refused")
		}
	case words:
		if text, ok := value.(string); ok {
			if plain := clean.Text(text); plain != text {
				v.note("control characters were stripped from its schema")
				s[key] = plain
			}
		}
	case leaf:
		v.plain(value, at)
	}
	switch kind {
	case list:
		items, _ := value.([]any)
		for i, item := range items {
			v.schema(item, fmt.Sprintf("%s/%d", at, i))
		}
	case many:
		named, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			v.plain(name, at)
			v.schema(named[name], at+"/"+name)
		}
	}
}

// plain refuses texts that cannot be cleaned without a change of what they mean.
func (v *schemaCheck) plain(in any, at string) {
	switch in := in.(type) {
	case string:
		if clean.Text(in) != in {
			v.fail(at, "holds control characters")
		}
	case []any:
		for _, e := range in {
			v.plain(e, at)
		}
	case map[string]any:
		for k, e := range in {
			v.plain(k, at)
			v.plain(e, at+"/"+k)
		}
	}
}

// adjust takes out what other libraries understand and ours does not: the server checks it anyway.
func (v *schemaCheck) adjust(s map[string]any) {
	if p, ok := s["pattern"].(string); ok {
		if _, err := regexp.Compile(p); err != nil {
			delete(s, "pattern")
		}
	}
	if named, ok := s["patternProperties"].(map[string]any); ok {
		for p := range named {
			if _, err := regexp.Compile(p); err != nil {
				delete(s, "patternProperties")
				delete(s, "additionalProperties")
				break
			}
		}
	}
	if v.bare {
		delete(s, "default")
	}
	for _, key := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		if _, draft4 := s[key].(bool); draft4 {
			delete(s, key)
		}
	}
	delete(s, "$id")
}
