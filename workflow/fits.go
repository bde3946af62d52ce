package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
)

// parseValues parses the values given for an input, which may be given several times.
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

// wantedFor describes the values of a type for users. The example is made from the value that was
// given.
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

// fits lists what is wrong with the value of an input. A number must be one that its Go type can hold.
func fits(name string, p *jsonschema.Schema, raw json.RawMessage) []string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return []string{fmt.Sprintf("%s: want a finite number, got %s", name, raw)}
	}
	if _, number := v.(float64); number && schemaType(p) == "integer" {
		if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
			return []string{fmt.Sprintf("%s: is %s, want integer", name, raw)}
		}
	}
	r, err := p.Resolve(nil)
	if err == nil {
		v, err = strict.Decode(raw)
	}
	if err != nil {
		return []string{name + ": " + err.Error()}
	}
	faults := strict.Faults(r, v)
	for i, fault := range faults {
		if where, inside := strings.CutPrefix(fault, "/"); !inside || strings.HasPrefix(where, ": ") {
			faults[i] = name + ": " + strings.TrimPrefix(where, ": ")
		} else {
			faults[i] = name + fault
		}
	}
	return faults
}

// shortened returns the beginning of a text that may be long.
func shortened(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
