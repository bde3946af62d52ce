package superstep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Change is a place where two JSON values differ.
type Change struct {
	Path   string          `json:"path"`             // a JSON Pointer, "" for the whole
	Before json.RawMessage `json:"before,omitempty"` // absent if it is new
	After  json.RawMessage `json:"after,omitempty"`  // absent if it is gone
}

// Diff returns the places where two JSON values differ. It compares objects by field, sorted by name, and arrays by index. Numbers are compared as they
// are written.
func Diff(before, after json.RawMessage) ([]Change, error) {
	a, err := decode(before)
	if err != nil {
		return nil, err
	}
	b, err := decode(after)
	if err != nil {
		return nil, err
	}
	return compare(nil, "", a, b)
}

func decode(v json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	return out, nil
}

// gone stands for a missing value.
type gone struct{}

func compare(out []Change, path string, a, b any) ([]Change, error) {
	var err error
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			var v, w any = gone{}, gone{}
			if f, ok := x[k]; ok {
				v = f
			}
			if f, ok := y[k]; ok {
				w = f
			}
			if out, err = compare(out, path+"/"+escape(k), v, w); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(x), len(y)) {
			var v, w any = gone{}, gone{}
			if i < len(x) {
				v = x[i]
			}
			if i < len(y) {
				w = y[i]
			}
			if out, err = compare(out, path+"/"+strconv.Itoa(i), v, w); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		if _, object := b.(map[string]any); object {
			break
		}
		if _, array := b.([]any); !array && a == b {
			return out, nil
		}
	}
	c := Change{Path: path}
	if c.Before, err = encode(a); err != nil {
		return nil, err
	}
	if c.After, err = encode(b); err != nil {
		return nil, err
	}
	return append(out, c), nil
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func encode(v any) (json.RawMessage, error) {
	if _, none := v.(gone); none {
		return nil, nil
	}
	return json.Marshal(v)
}
