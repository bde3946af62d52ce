package frontmatter

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// String returns the text of a single value, trimmed, and whether it is one. A number or truth
// value is returned as it is written.
func (v *Value) String() (string, bool) {
	switch v.Kind {
	case Text, Number, Bool:
		return strings.TrimSpace(v.Text), true
	}
	return "", false
}

// Bool returns a truth value, and whether it is one. It may be in quotes.
func (v *Value) Bool() (value, ok bool) {
	s, _ := v.String()
	switch strings.ToLower(s) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// Int returns a whole number, and whether it is one. It may be in quotes.
func (v *Value) Int() (int, bool) {
	s, _ := v.String()
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	return n, err == nil
}

// Float returns a finite number, and whether it is one. It may be in quotes.
func (v *Value) Float() (float64, bool) {
	s, _ := v.String()
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

const maxWords = 1000

// Words returns the values of a list of single values, or of a text that is one: separated by
// commas, and by spaces too if there is no comma and spaced is set. Text in parentheses stays
// together, as in Task(a, b). Ok is false if the value is something else or has more than 1,000
// elements. Each element has its position.
func (v *Value) Words(spaced bool) (words []*Value, ok bool) {
	if v.Kind == List {
		if len(v.Items) > maxWords {
			return nil, false
		}
		for _, x := range v.Items {
			s, ok := x.String()
			if !ok {
				return nil, false
			}
			if s != "" {
				words = append(words, &Value{Kind: Text, Line: x.Line, Col: x.Col, Text: s})
			}
		}
		return words, true
	}
	s, ok := v.String()
	if !ok {
		return nil, false
	}
	parts := cut(s, spaced)
	if len(parts) > maxWords {
		return nil, false
	}
	for _, part := range parts {
		words = append(words, &Value{Kind: Text, Line: v.Line, Col: v.Col, Text: part})
	}
	return words, true
}

// cut splits a list that is on one line.
func cut(s string, spaced bool) []string {
	parts := split(s, ",\n")
	if spaced && len(parts) == 1 {
		parts = split(s, " \t\n")
	}
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// split cuts a text at the separators outside of all parentheses.
func split(s, separators string) []string {
	var out []string
	depth, start := 0, 0
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth = max(0, depth-1)
		case depth == 0 && strings.ContainsRune(separators, r):
			out, start = append(out, s[start:i]), i+1
		}
	}
	return append(out, s[start:])
}

// Any returns the value as encoding/json would decode it, except that a whole number that fits is
// an int.
func (v *Value) Any() any {
	switch v.Kind {
	case Bool:
		b, _ := v.Bool()
		return b
	case Number:
		if n, ok := v.Int(); ok {
			return n
		}
		if f, ok := v.Float(); ok {
			return f
		}
		return v.Text
	case Text:
		return v.Text
	case List:
		out := make([]any, len(v.Items))
		for i, x := range v.Items {
			out[i] = x.Any()
		}
		return out
	case Map:
		out := make(map[string]any, len(v.Fields))
		for _, f := range v.Fields {
			out[f.Key] = f.Value.Any()
		}
		return out
	}
	return nil
}
