package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// parseValues reads an input as it was given, perhaps several times.
func parseValues(p *jsonschema.Schema, texts []string) (any, error) {
	kind := schemaType(p)
	switch {
	case len(texts) == 1:
		return parseValue(kind, texts[0])
	case kind != "array":
		return nil, errors.New("is given twice")
	}
	item := "string"
	if p.Items != nil {
		item = schemaType(p.Items)
	}
	list := make([]any, 0, len(texts))
	for _, s := range texts {
		if text := strings.TrimSpace(s); strings.HasPrefix(text, "[") && json.Valid([]byte(text)) && item != "array" {
			return nil, fmt.Errorf("is given %d times; give one list such as %s, or each of its items by itself", len(texts), shortened(text))
		}
		v, err := parseValue(item, s)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func parseValue(kind, s string) (any, error) {
	switch kind {
	case "integer":
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("want a whole number, got %q", s)
		}
		return n, nil
	case "number":
		if f, err := strconv.ParseFloat(s, 64); err == nil && json.Valid([]byte(s)) {
			return f, nil
		}
		return nil, fmt.Errorf("want a finite number, got %q", s)
	case "boolean":
		switch s {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("want true or false, got %q", s)
	case "string":
		return s, nil
	}
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return nil, fmt.Errorf("want %s, got %q", wantedFor(kind, s), s)
	}
	if _, list := v.([]any); kind == "array" && !list {
		return nil, fmt.Errorf("want %s, got %s", wantedFor(kind, s), shortened(s))
	}
	return v, nil
}

// wantedFor is what a value of a type is, as people read it. What was given instead makes
// the example.
func wantedFor(kind, got string) string {
	switch kind {
	case "array":
		items := []string{"one", "two"}
		if words := strings.TrimSpace(got); words != "" && !strings.ContainsAny(words, "[]{}\"\n") && len(words) <= 80 {
			items = nil
			for word := range strings.SplitSeq(words, ",") {
				items = append(items, strings.TrimSpace(word))
			}
		}
		b, _ := json.Marshal(items) // texts can be encoded
		return "a list such as " + string(b)
	case "object":
		return `an object such as {"key":"value"}`
	case "any":
		return "JSON"
	}
	return kind
}

// fits reports what is wrong with a value. A number must be one that its Go type can hold.
func fits(p *jsonschema.Schema, raw json.RawMessage) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("want a finite number, got %s", raw)
	}
	if _, number := v.(float64); number && schemaType(p) == "integer" {
		if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
			return fmt.Errorf("want integer, got %s", raw)
		}
	}
	err := valid(p, v)
	if err == nil {
		return nil
	}
	if path, why := misfit(p, v, 0); why != "" {
		if path != "" {
			why = strings.TrimPrefix(path, ".") + ": " + why
		}
		return errors.New(why)
	}
	if r, err := p.Resolve(nil); err == nil {
		return strict.Check(r, raw)
	}
	return err
}

func valid(s *jsonschema.Schema, v any) error {
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	return r.Validate(v)
}

// deepest is how far into a value what is wrong with it is told in plain words.
const deepest = 16

// misfit says in plain words where a value does not fit its schema, and what it must be. It knows
// the usual keywords; "" if it finds nothing.
func misfit(s *jsonschema.Schema, v any, depth int) (path, why string) {
	if s == nil || depth > deepest {
		return "", ""
	}
	bare := jsonschema.Schema{Type: s.Type, Types: s.Types}
	if valid(&bare, v) != nil {
		return "", fmt.Sprintf("want %s, got %s", wantedFor(schemaType(s), ""), encoded(v))
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return encoded(e) == encoded(v) }) {
		return "", fmt.Sprintf("must be %s, got %s%s", choices(s.Enum), encoded(v), closest(s.Enum, v))
	}
	if s.Const != nil && encoded(*s.Const) != encoded(v) {
		return "", fmt.Sprintf("must be %s, got %s", encoded(*s.Const), encoded(v))
	}
	switch v := v.(type) {
	case float64:
		return "", misfitNumber(s, v)
	case string:
		return "", misfitText(s, v)
	case []any:
		return misfitList(s, v, depth)
	case map[string]any:
		return misfitObject(s, v, depth)
	}
	return "", ""
}

func misfitNumber(s *jsonschema.Schema, v float64) string {
	switch got := encoded(v); {
	case s.Minimum != nil && v < *s.Minimum:
		return fmt.Sprintf("must be at least %s, got %s", encoded(*s.Minimum), got)
	case s.Maximum != nil && v > *s.Maximum:
		return fmt.Sprintf("must be at most %s, got %s", encoded(*s.Maximum), got)
	case s.ExclusiveMinimum != nil && v <= *s.ExclusiveMinimum:
		return fmt.Sprintf("must be more than %s, got %s", encoded(*s.ExclusiveMinimum), got)
	case s.ExclusiveMaximum != nil && v >= *s.ExclusiveMaximum:
		return fmt.Sprintf("must be less than %s, got %s", encoded(*s.ExclusiveMaximum), got)
	case s.MultipleOf != nil && math.Mod(v, *s.MultipleOf) != 0:
		return fmt.Sprintf("must be a multiple of %s, got %s", encoded(*s.MultipleOf), got)
	}
	return ""
}

func misfitText(s *jsonschema.Schema, v string) string {
	n := utf8.RuneCountInString(v)
	switch {
	case s.MinLength != nil && n < *s.MinLength && n == 0:
		return "must not be empty"
	case s.MinLength != nil && n < *s.MinLength:
		return fmt.Sprintf("must have at least %d characters, got %d", *s.MinLength, n)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Sprintf("must have at most %d characters, got %d", *s.MaxLength, n)
	case s.Pattern != "":
		if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(v) {
			return fmt.Sprintf("must match %s, got %s", s.Pattern, encoded(v))
		}
	}
	return ""
}

func misfitList(s *jsonschema.Schema, v []any, depth int) (path, why string) {
	switch {
	case s.MinItems != nil && len(v) < *s.MinItems:
		return "", fmt.Sprintf("must have at least %d items, got %d", *s.MinItems, len(v))
	case s.MaxItems != nil && len(v) > *s.MaxItems:
		return "", fmt.Sprintf("must have at most %d items, got %d", *s.MaxItems, len(v))
	}
	for i, item := range v {
		if path, why := misfit(s.Items, item, depth+1); why != "" {
			return fmt.Sprintf(".%d%s", i, path), why
		}
	}
	return "", ""
}

func misfitObject(s *jsonschema.Schema, v map[string]any, depth int) (path, why string) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return "", fmt.Sprintf("%q is missing", name)
		}
	}
	closed := s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil && len(s.PatternProperties) == 0
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p := s.Properties[name]
		if p == nil && closed {
			return "", fmt.Sprintf("there is no %q%s", name, suggest.Hint(name, slices.Sorted(maps.Keys(s.Properties))))
		}
		if p == nil {
			p = s.AdditionalProperties
		}
		if path, why := misfit(p, v[name], depth+1); why != "" {
			return "." + name + path, why
		}
	}
	return "", ""
}

// choices are the values of an enum in a sentence.
func choices(enum []any) string {
	const most = 12
	words := make([]string, 0, most)
	for _, v := range enum[:min(len(enum), most)] {
		words = append(words, encoded(v))
	}
	switch n := len(enum) - most; {
	case n > 0:
		return fmt.Sprintf("%s or one of %d more", strings.Join(words, ", "), n)
	case len(words) == 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// closest is the text of an enum that was meant.
func closest(enum []any, v any) string {
	text, ok := v.(string)
	if !ok {
		return ""
	}
	var texts []string
	for _, e := range enum {
		if s, ok := e.(string); ok {
			texts = append(texts, s)
		}
	}
	if meant := suggest.Closest(text, texts); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	return ""
}

// encoded is a value as JSON in a message.
func encoded(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return shortened(strings.TrimRight(b.String(), "\n"))
}

// shortened is the beginning of a text that may be long.
func shortened(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
