// Package strict reads JSON and validates it against schemas. Its errors tell the author, a user or a model, each position of a mistake and what is
// expected there.
package strict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"reflect"
	"regexp"
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

// Faults lists the mistakes of a decoded value against a schema, each with its JSON pointer.
func Faults(schema *jsonschema.Resolved, v any) []string {
	f := faults{root: schema.Schema(), work: new(int)}
	f.value("", v, f.root)
	if len(f.list) == 0 && !Affordable(f.root, v) {
		f.add("", "could fit its schema in too many ways to be checked")
	}
	if len(f.list) == 0 {
		if err := schema.Validate(plain(v)); err != nil {
			f.add(plainly(err))
		}
	}
	return f.short()
}

// Check reports where a value does not fit a schema, in words for the author of the value.
func Check(schema *jsonschema.Resolved, value json.RawMessage) error {
	v, err := Decode(value)
	if err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	switch list := Faults(schema, v); len(list) {
	case 0:
		return nil
	case 1:
		return errors.New(list[0])
	default:
		return errors.New("\n- " + strings.Join(list, "\n- "))
	}
}

// property finds the names of properties in the validator's description of a position.
var property = regexp.MustCompile(`/(?:properties|items|prefixItems|additionalProperties)(?:/|$)`)

// plainly extracts the position and the reason from an error of the validator, whose text begins with the path through the schema.
func plainly(err error) (at, format string, text string) {
	text = err.Error()
	for {
		rest, ok := strings.CutPrefix(text, "validating ")
		where, after, more := strings.Cut(rest, ": ")
		if !ok || !more {
			return at, "%s", text
		}
		if text = after; where != "root" {
			at += strings.TrimRight(property.ReplaceAllString(where, "/"), "/")
		}
	}
}

// Words rewrites an error of encoding/json for the author of a text: what was found, what was expected, and where.
func Words(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		at := kind.Field
		if at == "" {
			at = "it"
		}
		return fmt.Errorf("%s is %s, want %s", at, article(kind.Value), kindName(kind.Type))
	case errors.As(err, &syntax) && syntax.Offset <= int64(len(text)) && syntax.Offset > 0 && !strings.Contains(syntax.Error(), "unexpected end"):
		return fmt.Errorf("unexpected %q at byte %d of %s", text[syntax.Offset-1], syntax.Offset, excerpt(text))
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &syntax):
		if len(bytes.TrimSpace(text)) == 0 {
			return errors.New("it is empty")
		}
		return fmt.Errorf("it breaks off at the end: %s", excerpt(text))
	}
	return err
}

// excerpt returns the beginning of a text as it may stand in a message.
func excerpt(text []byte) string {
	const longest = 120
	r := []rune(strings.ToValidUTF8(string(text[:min(len(text), 8*longest)]), "�"))
	if len(r) > longest || len(text) > 8*longest {
		return strconv.Quote(string(r[:min(len(r), longest)])) + "…"
	}
	return strconv.Quote(string(r))
}

func article(kind string) string {
	kind, _, _ = strings.Cut(kind, " ")
	switch kind {
	case "array", "object":
		return "an " + kind
	case "bool":
		return "a boolean"
	}
	return "a " + kind
}

func kindName(t reflect.Type) string {
	return cmp.Or(map[reflect.Kind]string{
		reflect.Struct: "an object", reflect.Map: "an object", reflect.Slice: "an array", reflect.Array: "an array", reflect.String: "a string",
		reflect.Bool: "true or false",
	}[t.Kind()], "a number")
}

// Decode is strict JSON decoding: numbers are json.Number, and the text has to be valid UTF-8, no key twice, nothing after the value,
// no number outside the range of float64.
func Decode(b []byte) (any, error) {
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := decodeValue(d, "", 0)
	if err != nil {
		return nil, Words(b, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more data after the value at offset %d", d.InputOffset())
	}
	return v, nil
}

func decodeValue(d *json.Decoder, at string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	t, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
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
			v, err := decodeValue(d, below(at, strconv.Itoa(len(list))), depth+1)
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
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%s: a key must be a string", at)
		}
		here := below(at, key)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("%s: given twice", here)
		}
		if object[key], err = decodeValue(d, here, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	return object, nil
}

// plain converts the numbers in v to Go numbers, which the schema package requires.
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

// below returns the pointer to what is in something, as far as a message needs it. Names may be as
// long as a file, and each of a million items has a pointer.
func below(at, key string) string {
	if len(at)+len(key) > 1000 {
		return at
	}
	return pointer(at, key)
}

func pointer(at, key string) string {
	return at + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// TypeName returns the type of a decoded value, with its article.
func TypeName(v any) string {
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

// faults lists the mistakes of a value. It covers the common keywords, with one message per position; the schema's own validation is final.
type faults struct {
	list []string
	root *jsonschema.Schema // what references are looked up in
	deep int                // schemas within schemas, for the same value
	work *int               // schemas looked at, so that none made to take for ever does
}

func (f *faults) add(at, format string, args ...any) {
	if at == "" {
		at = "/"
	}
	f.list = append(f.list, at+": "+fmt.Sprintf(format, args...))
}

// short cuts the list to the length of one message.
func (f *faults) short() []string {
	if len(f.list) > maxFaults {
		return append(slices.Clone(f.list[:maxFaults]), fmt.Sprintf("and %d more", len(f.list)-maxFaults))
	}
	return f.list
}

func (f *faults) object(at string, v map[string]any, s *jsonschema.Schema) {
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			f.add(below(at, key), "missing; it is required")
		}
	}
	known := slices.Sorted(maps.Keys(s.Properties))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		here := below(at, key)
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

// isFalse reports whether s is the schema nothing fits: false, or {"not": {}}.
func isFalse(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

func (f *faults) value(at string, v any, s *jsonschema.Schema) {
	const deepest, most = 32, 100_000
	if *f.work++; s == nil || s.DynamicRef != "" || f.deep > deepest || *f.work > most {
		return
	}
	if s.Ref != "" {
		f.deep++
		f.value(at, v, named(f.root, s.Ref))
		f.deep--
	}
	f.combined(at, v, s)
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
		var all, texts []string
		for _, e := range s.Enum {
			b, _ := json.Marshal(e)
			all = append(all, string(b))
			if text, ok := e.(string); ok {
				texts = append(texts, text)
			}
		}
		text, _ := v.(string)
		hint := suggest.Closest(text, texts)
		if hint != "" {
			hint = fmt.Sprintf("; did you mean %q?", hint)
		}
		f.add(at, "is %s, want one of %s%s", describe(v), strings.Join(all, ", "), hint)
		return
	}
	if s.Const != nil && !jsonschema.Equal(*s.Const, plain(v)) {
		b, _ := json.Marshal(*s.Const)
		f.add(at, "is %s, want %s", describe(v), b)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		f.object(at, v, s)
	case []any:
		if s.Items != nil && len(s.PrefixItems) == 0 {
			for i, e := range v {
				f.value(below(at, strconv.Itoa(i)), e, s.Items)
			}
		}
		f.bounds(at, "items", float64(len(v)), ptr(s.MinItems), ptr(s.MaxItems))
	case string:
		f.bounds(at, "characters", float64(utf8.RuneCountInString(v)), ptr(s.MinLength), ptr(s.MaxLength))
		f.pattern(at, v, s.Pattern)
	case json.Number:
		n, _ := v.Float64()
		f.bounds(at, "", n, s.Minimum, s.Maximum)
		if s.ExclusiveMinimum != nil && n <= *s.ExclusiveMinimum {
			f.add(at, "is %v, want more than %v", n, *s.ExclusiveMinimum)
		}
		if s.ExclusiveMaximum != nil && n >= *s.ExclusiveMaximum {
			f.add(at, "is %v, want less than %v", n, *s.ExclusiveMaximum)
		}
		if s.MultipleOf != nil {
			if _, rest := math.Modf(n / *s.MultipleOf); rest != 0 { // as the library has it: 0.15 is a multiple of 0.01
				f.add(at, "is %v, want a multiple of %v", n, *s.MultipleOf)
			}
		}
	}
}

// combined returns the results of the subschemas of a combined schema.
func (f *faults) combined(at string, v any, s *jsonschema.Schema) {
	for _, part := range s.AllOf {
		f.deep++
		f.value(at, v, part)
		f.deep--
	}
	for _, parts := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		var nearest []string
		for _, part := range parts {
			one := faults{root: f.root, deep: f.deep + 1, work: f.work}
			if one.value(at, v, part); len(one.list) == 0 {
				nearest = nil
				break
			}
			if nearest == nil || len(one.list) < len(nearest) {
				nearest = one.list
			}
		}
		if len(nearest) > 0 {
			f.add(at, "is none of the %d things it may be; of the nearest: %s", len(parts), nearest[0])
		}
	}
}

func (f *faults) pattern(at, v, pattern string) {
	if pattern == "" {
		return
	}
	if re, err := regexp.Compile(pattern); err == nil && !re.MatchString(v) {
		f.add(at, "is %s, want a match of the pattern %s", describe(v), pattern)
	}
}

func (f *faults) bounds(at, unit string, n float64, low, high *float64) {
	if unit != "" {
		unit = " " + unit
	}
	if n == 1 {
		unit = strings.TrimSuffix(unit, "s")
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

// describe returns a value as an error message shows it.
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
	return TypeName(v)
}
