package question

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A Field is one value of a form.
type Field struct {
	Name        string
	Type        string // of JSON Schema, "" for any
	Description string
	Default     json.RawMessage
	Enum        []json.RawMessage
	Required    bool
	Needed      bool // unless the form is declined

	decides bool // whether the others count
	schema  json.RawMessage
}

// A Form holds the fields of a question, in the order in which they are asked.
type Form []Field

// FormOf reads the form of a question from its schema, in the order of its text. It is nil if the
// question wants one value that is no object.
func FormOf(schema json.RawMessage) Form {
	var s struct {
		Type       any
		Properties json.RawMessage
		Required   []string
		If, Then   json.RawMessage
	}
	if json.Unmarshal(schema, &s) != nil || s.Type != "object" || len(s.Properties) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out Form
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil
		}
		var p struct {
			Type        any
			Description string
			Default     json.RawMessage
			Enum        []json.RawMessage
		}
		var schema json.RawMessage
		if dec.Decode(&schema) != nil || json.Unmarshal(schema, &p) != nil {
			return nil
		}
		kind, _ := p.Type.(string)
		key, _ := name.(string)
		out = append(out, Field{Name: key, Type: kind, Description: p.Description, Default: p.Default, Enum: p.Enum, Required: slices.Contains(s.Required, key),
			schema: schema})
	}
	var then struct{ Required []string }
	_ = json.Unmarshal(s.Then, &then) // there may be none
	for i := range out {
		x := &out[i]
		x.decides = i == 0 && x.Required && len(s.If) > 0 && len(x.Enum) == 2 && string(x.Enum[0]) == accepting && string(x.Enum[1]) == declining
		x.Needed = out[0].decides && slices.Contains(then.Required, x.Name)
	}
	return out
}

// The values of the first field of a form that can be declined, which is that of an MCP server.
const (
	accepting = `"accept"`
	declining = `"decline"`
)

// Declinable reports whether the first field of the form decides whether the rest of it counts.
func (f Form) Declinable() bool { return len(f) > 0 && f[0].decides }

// Decline returns the answer that declines the form, if that is what the value of its first field says.
func (f Form) Decline(first json.RawMessage) (answer string, ok bool) {
	if !f.Declinable() || string(first) != declining {
		return "", false
	}
	return f[:1].Object([]json.RawMessage{first}), true
}

// Rest returns the schema of a form that can be declined, for whoever has other means to decline it. Accept completes the answer.
func (f Form) Rest() json.RawMessage {
	properties, required := map[string]json.RawMessage{}, []string{}
	for _, x := range f[1:] {
		if properties[x.Name] = x.schema; x.Needed {
			required = append(required, x.Name)
		}
	}
	rest, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required}) // what was decoded encodes
	return rest
}

// Accept returns the answer to a form of which Rest was filled in.
func (f Form) Accept(rest map[string]json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{f[0].Name: json.RawMessage(accepting)}
	maps.Copy(out, rest)
	return out
}

// With sets the defaults of fields from the default of the whole form.
func (f Form) With(def json.RawMessage) Form {
	var values map[string]json.RawMessage
	if json.Unmarshal(def, &values) != nil {
		return f
	}
	out := slices.Clone(f)
	for i := range out {
		if v, ok := values[out[i].Name]; ok {
			out[i].Default = v
		}
	}
	return out
}

// Words describes the type of the field in words.
func (f *Field) Words() string {
	if len(f.Enum) > 0 {
		return "one of " + f.offered()
	}
	return KindOf(f.Type)
}

// KindOf returns a type of JSON Schema in words.
func KindOf(t string) string {
	return cmp.Or(map[string]string{
		"integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list", "object": "a JSON object", "null": "null",
		"string": "a text",
	}[t], "a value")
}

func (f *Field) offered() string {
	var out []string
	for _, v := range f.Enum {
		out = append(out, transcript.Line(transcript.Value(v)))
	}
	return strings.Join(out, ", ")
}

// About describes the field on one line.
func (f *Field) About() string {
	s := f.Words()
	switch {
	case len(f.Default) > 0:
		s += " (default " + transcript.Line(transcript.Value(f.Default)) + ")"
	case f.Required:
		s += " (required)"
	case f.Needed:
		s += " (needed)"
	}
	if f.Description != "" {
		s += ": " + transcript.Line(f.Description)
	}
	return s
}

// Lines describe the fields, one each.
func (f Form) Lines() []string {
	width := 0
	for i := range f {
		width = max(width, len(transcript.Line(f[i].Name)))
	}
	var out []string
	for i := range f {
		out = append(out, fmt.Sprintf("%-*s  %s", width, transcript.Line(f[i].Name), f[i].About()))
	}
	return out
}

// Example returns an example of an answer.
func (f Form) Example() string {
	values := make([]json.RawMessage, len(f))
	for i := range f {
		values[i] = f[i].Example()
	}
	return f.Object(values)
}

// Object returns the answer with these values of the fields; nil leaves one out.
func (f Form) Object(values []json.RawMessage) string {
	var out []string
	for i, v := range values {
		if v != nil {
			name, _ := json.Marshal(f[i].Name) // a string encodes
			out = append(out, string(name)+":"+string(v))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// Example returns a value that the schema of the field admits, as JSON.
func (f *Field) Example() []byte {
	var b bytes.Buffer
	switch {
	case len(f.Default) > 0 && json.Compact(&b, f.Default) == nil:
		return b.Bytes()
	case len(f.Enum) > 0 && json.Compact(&b, f.Enum[0]) == nil:
		return b.Bytes()
	}
	of := map[string]string{"integer": "1", "number": "1", "boolean": "true", "array": "[]", "object": "{}", "null": "null"}
	return []byte(cmp.Or(of[f.Type], `"TEXT"`))
}

// Wrong describes the mistake in an answer to a form, and returns "" if it finds none.
func (f Form) Wrong(answer string) string {
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(answer), &values); err != nil || values == nil {
		return fmt.Sprintf("want a JSON object such as %s, got %s", f.Example(), got(json.RawMessage(answer)))
	}
	var out, names []string
	_, declined := f.Decline(values[f[0].Name])
	for i := range f {
		x := &f[i]
		names = append(names, x.Name)
		v, ok := values[x.Name]
		delete(values, x.Name)
		switch {
		case !ok && (x.Required || x.Needed && !declined):
			out = append(out, x.Name+" is missing")
		case ok && !x.Takes(v):
			out = append(out, fmt.Sprintf("%s: want %s, got %s", x.Name, x.Words(), got(v)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, fmt.Sprintf("there is no field %q%s", name, strings.Replace(suggest.Hint(name, names), "; ", ", ", 1)))
	}
	return strings.Join(out, "; ")
}

// got returns a value as an error shows it.
func got(v json.RawMessage) string {
	s := string(v)
	if len(s) < 60 && json.Valid(v) && !strings.HasPrefix(s, `"`) {
		return transcript.Line(s)
	}
	_ = json.Unmarshal(v, &s) // of what is no text, its JSON
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return strconv.Quote(transcript.Line(s))
}

// Takes reports whether a value has the field's type and is one of the offered values.
func (f *Field) Takes(v json.RawMessage) bool {
	s := &jsonschema.Schema{Type: f.Type}
	for _, e := range f.Enum {
		var x any
		if json.Unmarshal(e, &x) == nil {
			s.Enum = append(s.Enum, x)
		}
	}
	return strict.CheckJSON(s, string(v)) == nil
}

// Label asks for the field on a line.
func (f *Field) Label() string {
	what := KindOf(f.Type)
	if n := len(f.Enum); n > 0 {
		what = fmt.Sprintf("1-%d", n)
	}
	switch {
	case len(f.Default) > 0:
		what += ", Enter for " + transcript.Line(transcript.Value(f.Default))
	case !f.Required && !f.Needed:
		what += ", Enter for none"
	}
	return transcript.Line(f.Name) + " (" + what + "): "
}

// Read returns the value that was typed for the field, nil to leave it out. Errors begin with the name of the field.
func (f *Field) Read(line string) (json.RawMessage, error) {
	line = strings.TrimSpace(line)
	name := transcript.Line(f.Name)
	switch {
	case line == "" && len(f.Default) > 0:
		return f.Default, nil
	case line == "" && (f.Required || f.Needed):
		return nil, errors.New(name + " is required")
	case line == "":
		return nil, nil
	}
	v, err := f.Parse(line)
	if err == nil && len(f.schema) > 0 { // which may want more than a type, such as a range
		if wrong := (&runlog.Question{Schema: f.schema}).Fits(v); wrong != nil && strings.Contains(wrong.Error(), " does not fit: ") {
			err = wrong
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// Parse parses the typed value of a field: the number of an offered value, or the value itself. Texts need no quotes, and lists may be words separated by
// commas.
func (f *Field) Parse(line string) (json.RawMessage, error) {
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(f.Enum) {
		if v := json.RawMessage(line); !f.Takes(v) {
			return f.Enum[n-1], nil
		}
	}
	word, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	tries := []json.RawMessage{json.RawMessage(line), word}
	switch f.Type {
	case "string", "":
		slices.Reverse(tries)
	case "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			tries = []json.RawMessage{json.RawMessage("true")}
		case "n", "no", "false":
			tries = []json.RawMessage{json.RawMessage("false")}
		}
	case "array":
		var words []string
		for w := range strings.SplitSeq(line, ",") {
			words = append(words, strings.TrimSpace(w))
		}
		list, err := json.Marshal(words)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(line, "[") {
			tries = append(tries, list)
		}
	}
	for _, v := range tries {
		if f.Takes(v) {
			return v, nil
		}
	}
	if f.Type == "array" || f.Type == "object" {
		return nil, errors.New("want " + f.Words() + " as JSON, got " + got(word))
	}
	return nil, errors.New("want " + f.Words() + ", got " + got(word))
}
