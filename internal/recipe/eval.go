package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Status describes how a step ended.
type Status string

// How steps end.
const (
	Done     Status = "done"
	Skipped  Status = "skipped"  // its condition did not hold, or what it depends on failed and skips it
	Failed   Status = "failed"   // its output is the text of the error
	Degraded Status = "degraded" // it ran out of time or rounds; its output says what is missing, or is the last there was
)

// A Result is how a step ended, as its dependents see it.
type Result struct {
	Status Status          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"` // a JSON value; nothing is null
	Error  string          `json:"error,omitempty"`
	// Skips is set for a failed step if its dependents are skipped, and for a step that was skipped
	// because of such a failure.
	Skips bool `json:"skips,omitempty"`
	// Bad lists the failed or degraded steps whose results the step has read, in the order of the
	// file.
	Bad []string `json:"bad,omitempty"`
}

// A Scope has the values that templates and conditions refer to. It is read only.
type Scope struct {
	Inputs map[string]any                  // by name, as Decode gives them; every declared one is there
	Step   func(id string) (*Result, bool) // of those that have ended
	Vars   map[string]any                  // of containers: items under their names, "index", and "loop" as a map of round and output
	// Clean, if non-nil, is applied to values of steps and items that are inserted into a text;
	// inputs and the author's text stay as they are.
	Clean func(string) string
}

// Decode reads a JSON value: whole numbers that fit are int, other numbers float64. Empty input is
// null.
func Decode(raw json.RawMessage) (any, error) {
	v, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return numbers(v)
}

// decode decodes a JSON value and keeps the spelling of its numbers.
func decode(raw json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: there is more after the value")
	}
	return v, nil
}

// numbers converts the number texts left by decode to numbers, in place.
func numbers(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case json.Number:
		if i, err := strconv.Atoi(string(x)); err == nil {
			return i, nil
		}
		f, err := x.Float64()
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("the number %s is too large", name(string(x)))
		}
		return f, nil
	case []any:
		for i := range x {
			if x[i], err = numbers(x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range x {
			if x[k], err = numbers(x[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// compact returns a value as JSON on one line, without escapes for HTML.
func compact(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null") // values come from JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// text returns the value of a reference as a text.
func (s *Scope) text(r Ref) (string, error) {
	v, err := s.value(r, false)
	if err != nil {
		return "", err
	}
	text := ""
	switch x := v.(type) {
	case nil:
	case string:
		text = x
	default:
		text = string(compact(v))
	}
	if s.Clean != nil && r.Input() == "" {
		text = s.Clean(text)
	}
	return text, nil
}

// value looks a reference up. The value may share memory with the scope.
func (s *Scope) value(r Ref, typed bool) (any, error) {
	path := r.Path()
	fail := func(format string, args ...any) (any, error) {
		return nil, &LookupError{r.path, fmt.Sprintf(format, args...)}
	}
	if path[0] == "steps" {
		return s.step(r, path, typed)
	}
	from, ok := s.Vars[path[0]]
	at := 1
	if path[0] == "inputs" && len(path) > 1 {
		if from, ok = s.Inputs[path[1]]; !ok {
			return fail("there is no input %s", path[1])
		}
		at = 2
	}
	if !ok {
		return fail("there is no %s here", path[0])
	}
	v, err := descend(from, path[at:], strings.Join(path[:at], "."))
	if err != nil {
		return fail("%v", err)
	}
	return v, nil
}

func (s *Scope) step(r Ref, path []string, typed bool) (any, error) {
	fail := func(format string, args ...any) (any, error) {
		return nil, &LookupError{r.path, fmt.Sprintf(format, args...)}
	}
	if len(path) < 3 || s.Step == nil {
		return fail("there is no such step")
	}
	res, ok := s.Step(path[1])
	if !ok || res == nil {
		return fail("step %s has not ended", path[1])
	}
	switch path[2] {
	case "status":
		return string(res.Status), nil
	case "error":
		return res.Error, nil
	case "output":
	default:
		return fail("a step has output, status and error")
	}
	read := decode
	if typed {
		read = Decode
	}
	out, err := read(res.Output)
	if err != nil {
		return fail("the output of %s is %v", path[1], err)
	}
	v, err := descend(out, path[3:], strings.Join(path[:3], "."))
	switch {
	case err == nil:
		return v, nil
	case res.Status == Failed || res.Status == Degraded:
		return out, nil // its text stands for what would be below
	}
	return fail("%v", err)
}

// descend follows a path into a value. A path below null yields null.
func descend(v any, path []string, at string) (any, error) {
	for _, key := range path {
		switch x := v.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			below, ok := x[key]
			if !ok {
				return nil, fmt.Errorf("%s has no %s; there is %s", at, key, fieldsOf(x))
			}
			v = below
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return nil, fmt.Errorf("%s has no %s; it is a list of %d", at, key, len(x))
			}
			v = x[i]
		default:
			return nil, fmt.Errorf("%s has no %s; it is %s", at, key, typeOf(v))
		}
		at += "." + key
	}
	return v, nil
}

func fieldsOf(m map[string]any) string {
	if len(m) == 0 {
		return "nothing in it"
	}
	keys := slices.Sorted(maps.Keys(m))
	if len(keys) > 12 {
		return strings.Join(keys[:12], ", ") + " and more"
	}
	return strings.Join(keys, ", ")
}

// typeOf returns the type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case int, float64, json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return fmt.Sprintf("%T", v)
}
