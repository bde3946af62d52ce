package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/suggest"
)

const (
	maxDepth  = 100 // of arguments
	maxFaults = 20  // named in one message
)

// A checker decides whether arguments fit a schema. It may be used from several
// goroutines.
type checker struct{ resolved *jsonschema.Resolved }

func newChecker(s *jsonschema.Schema) (checker, error) {
	if s == nil {
		return checker{}, fmt.Errorf(`has no input schema; use {"type": "object"} for a tool without arguments`)
	}
	if s.Type != "object" {
		return checker{}, fmt.Errorf(`has an input schema that is not of type "object"`)
	}
	// Without a loader, references to other documents are refused.
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return checker{}, fmt.Errorf("has an invalid input schema: %w", err)
	}
	return checker{r}, nil
}

// check returns the arguments as JSON values, or an error that names all that is wrong.
// Empty arguments are those of a call that needs none.
func (c checker) check(args []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	v, err := decode(args)
	if err != nil {
		return nil, fmt.Errorf("arguments are not valid JSON: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("arguments must be a JSON object, not %s", typeName(v))
	}
	var f faults
	f.object("", object, c.resolved.Schema())
	if len(f) == 0 {
		if err := c.resolved.Validate(plain(v)); err != nil {
			f.add("", "%v", err)
		}
	}
	return object, f.err()
}

// decode is strict JSON decoding: valid UTF-8, no key twice, nothing after the value,
// no number outside the range of float64.
func decode(b []byte) (any, error) {
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := decodeValue(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more data after the value at offset %d", d.InputOffset())
	}
	return v, nil
}

func decodeValue(d *json.Decoder, at string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: nested more than %d deep", at, maxDepth)
	}
	t, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("at offset %d: %w", d.InputOffset(), err)
	}
	switch t := t.(type) {
	case json.Number:
		return number(t, at)
	case json.Delim:
		if t == '{' {
			return decodeObject(d, at, depth)
		}
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, fmt.Sprintf("%s/%d", at, len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func decodeObject(d *json.Decoder, at string, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("at offset %d: %w", d.InputOffset(), err)
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%s: a key must be a string", at)
		}
		here := pointer(at, key)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("%s: given twice", here)
		}
		if object[key], err = decodeValue(d, here, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("at offset %d: %w", d.InputOffset(), err)
	}
	return object, nil
}

// plain is v with the numbers of Go, which is what the schema package understands.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	}
	return v
}

// number refuses numbers whose exact value would take unbounded memory, and writes
// whole numbers without fraction or exponent: 5.0 is the same JSON number as 5.
func number(n json.Number, at string) (any, error) {
	const longest, largest = 400, 310 // digits, power of ten
	s := n.String()
	i := strings.IndexAny(s, "eE")
	if i >= 0 {
		if exp, err := strconv.Atoi(s[i+1:]); err != nil || exp > largest || exp < -largest {
			return nil, fmt.Errorf("%s: number out of range", at)
		}
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil || len(s) > longest {
		return nil, fmt.Errorf("%s: number out of range", at)
	}
	if i >= 0 || strings.Contains(s, ".") {
		if r, ok := new(big.Rat).SetString(s); ok && r.IsInt() {
			return json.Number(r.Num().String()), nil
		}
	}
	return n, nil
}

func pointer(at, key string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

// faults are what is wrong with arguments. They cover what schemas commonly say, one
// message per place; the schema itself has the last word.
type faults []string

func (f *faults) add(at, format string, args ...any) {
	if at == "" {
		at = "/"
	}
	*f = append(*f, at+": "+fmt.Sprintf(format, args...))
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	list := f
	if len(list) > maxFaults {
		list = append(slices.Clone(list[:maxFaults]), fmt.Sprintf("and %d more", len(f)-maxFaults))
	}
	return fmt.Errorf("arguments do not fit the tool's schema; correct them and call again:\n- %s", strings.Join(list, "\n- "))
}

func (f *faults) object(at string, v map[string]any, s *jsonschema.Schema) {
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			f.add(pointer(at, key), "missing; it is required")
		}
	}
	known := sortedKeys(s.Properties)
	for _, key := range sortedKeys(v) {
		here := pointer(at, key)
		if p := s.Properties[key]; p != nil {
			f.value(here, v[key], p)
			continue
		}
		if s.AdditionalProperties == nil || len(s.PatternProperties) > 0 {
			continue
		}
		if isFalse(s.AdditionalProperties) {
			f.unknown(here, key, known)
			continue
		}
		f.value(here, v[key], s.AdditionalProperties)
	}
}

func (f *faults) unknown(at, key string, known []string) {
	switch near := suggest.Closest(key, known); {
	case near != "":
		f.add(at, "unknown; did you mean %q?", near)
	case len(known) == 0:
		f.add(at, "unknown; nothing is expected here")
	default:
		f.add(at, "unknown; known are: %s", strings.Join(known, ", "))
	}
}

// isFalse says whether s is the schema nothing fits: false, or {"not": {}}.
func isFalse(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

func (f *faults) value(at string, v any, s *jsonschema.Schema) {
	if s == nil || s.Ref != "" || s.DynamicRef != "" {
		return
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return isType(v, t) }) {
		want := strings.Join(types, " or ")
		f.add(at, "is %s, want %s", describe(v), want)
		return
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return jsonschema.Equal(e, plain(v)) }) {
		var all []string
		for _, e := range s.Enum {
			b, _ := json.Marshal(e)
			all = append(all, string(b))
		}
		f.add(at, "is %s, want one of %s", describe(v), strings.Join(all, ", "))
		return
	}
	switch v := v.(type) {
	case map[string]any:
		f.object(at, v, s)
	case []any:
		if s.Items != nil && len(s.PrefixItems) == 0 {
			for i, e := range v {
				f.value(fmt.Sprintf("%s/%d", at, i), e, s.Items)
			}
		}
		f.bounds(at, "items", float64(len(v)), ptr(s.MinItems), ptr(s.MaxItems))
	case string:
		f.bounds(at, "characters", float64(utf8.RuneCountInString(v)), ptr(s.MinLength), ptr(s.MaxLength))
	case json.Number:
		n, _ := v.Float64()
		f.bounds(at, "", n, s.Minimum, s.Maximum)
	}
}

func (f *faults) bounds(at, unit string, n float64, low, high *float64) {
	if unit != "" {
		unit = " " + unit
	}
	switch {
	case low != nil && n < *low:
		f.add(at, "is %v%s, want at least %v", n, unit, *low)
	case high != nil && n > *high:
		f.add(at, "is %v%s, want at most %v", n, unit, *high)
	}
}

func ptr(i *int) *float64 {
	if i == nil {
		return nil
	}
	v := float64(*i)
	return &v
}

func isType(v any, t string) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case json.Number:
		if t == "integer" {
			f, err := v.Float64()
			return err == nil && f == math.Trunc(f)
		}
		return t == "number"
	case string:
		return t == "string"
	case []any:
		return t == "array"
	}
	return t == "object"
}

// describe is a value as an error message shows it.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool, json.Number:
		return fmt.Sprint(v)
	case string:
		if utf8.RuneCountInString(v) > 40 {
			v = string([]rune(v)[:40]) + "…"
		}
		return "the string " + strconv.Quote(v)
	}
	return typeName(v)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
