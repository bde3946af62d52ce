package strict

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// errCircle refuses schemas that no value can be checked against in finite time.
var errCircle = errors.New("it refers to itself for the same value")

// loops finds out whether checking a value against a schema, which may be a stranger's,
// comes to an end. What applies to the same value must not refer back to itself, and must
// not be more than can be looked at.
type loops struct {
	root *jsonschema.Schema
	cost map[*jsonschema.Schema]int // of those that are known; 0 while one is being looked at
}

const mostSchemas = 10_000 // for one value

// Terminates reports whether checking a value against a schema, which may be a stranger's, comes to an end: nil if so.
func Terminates(root *jsonschema.Schema) error {
	l := &loops{root: root, cost: map[*jsonschema.Schema]int{}}
	var err error
	left := mostSchemas
	var walk func(s *jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if left--; s == nil || err != nil {
			return
		}
		if left < 0 {
			err = fmt.Errorf("it has more than %d parts", mostSchemas)
			return
		}
		if _, err = l.look(s); err != nil {
			return
		}
		same, inner := parts(s)
		for _, p := range append(same, inner...) {
			walk(p)
		}
	}
	walk(root)
	return err
}

// look counts the schemas that apply to a value to which s does.
func (l *loops) look(s *jsonschema.Schema) (int, error) {
	if n, known := l.cost[s]; known {
		if n == 0 {
			return 0, errCircle
		}
		return n, nil
	}
	l.cost[s] = 0
	n := 1
	same, _ := parts(s)
	if s.DynamicRef != "" {
		return 0, errors.New("$dynamicRef is not supported; use $ref")
	}
	if s.Ref != "" {
		to := l.find(s.Ref)
		if to == nil {
			return 0, fmt.Errorf("reference %q leads nowhere in it; use one as #/$defs/NAME", s.Ref)
		}
		same = append(same, to)
	}
	for _, p := range same {
		if p == nil {
			continue
		}
		m, err := l.look(p)
		if err != nil {
			return 0, err
		}
		if n += m; n > mostSchemas {
			return 0, fmt.Errorf("more than %d parts of it apply to one value", mostSchemas)
		}
	}
	l.cost[s] = n
	return n, nil
}

// parts are the schemas within one: those that apply to the same value, and those that
// apply to what is in it.
func parts(s *jsonschema.Schema) (same, inner []*jsonschema.Schema) {
	same = append(same, s.AllOf...)
	same = append(append(same, s.AnyOf...), s.OneOf...)
	same = append(same, s.Not, s.If, s.Then, s.Else)
	for _, m := range []map[string]*jsonschema.Schema{s.DependentSchemas, s.DependencySchemas} {
		for _, key := range sortedKeys(m) {
			same = append(same, m[key])
		}
	}
	for _, m := range []map[string]*jsonschema.Schema{s.Defs, s.Definitions, s.Properties, s.PatternProperties} {
		for _, key := range sortedKeys(m) {
			inner = append(inner, m[key])
		}
	}
	inner = append(append(append(inner, s.PrefixItems...), s.ItemsArray...), s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems)
	return same, append(inner, s.AdditionalProperties, s.PropertyNames, s.UnevaluatedProperties, s.ContentSchema)
}

// find is the schema that a reference within the document names, nil if there is none.
func (l *loops) find(ref string) *jsonschema.Schema { return lookup(l.root, ref) }

// lookup follows a reference, which is # and a JSON pointer.
func lookup(s *jsonschema.Schema, ref string) *jsonschema.Schema {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok || rest != "" && rest[0] != '/' {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	words := strings.Split(rest, "/")[1:]
	for i := 0; i < len(words) && s != nil; i++ {
		next := ""
		if i+1 < len(words) {
			next = unescape.Replace(words[i+1])
		}
		switch word := words[i]; word {
		case "$defs":
			s, i = s.Defs[next], i+1
		case "definitions":
			s, i = s.Definitions[next], i+1
		case "properties":
			s, i = s.Properties[next], i+1
		case "patternProperties":
			s, i = s.PatternProperties[next], i+1
		case "allOf":
			s, i = place(s.AllOf, next), i+1
		case "anyOf":
			s, i = place(s.AnyOf, next), i+1
		case "oneOf":
			s, i = place(s.OneOf, next), i+1
		case "prefixItems":
			s, i = place(s.PrefixItems, next), i+1
		case "items":
			if s.Items == nil && len(s.ItemsArray) > 0 {
				s, i = place(s.ItemsArray, next), i+1
				continue
			}
			s = s.Items
		case "additionalProperties":
			s = s.AdditionalProperties
		case "not":
			s = s.Not
		default:
			return nil
		}
	}
	return s
}

func place(list []*jsonschema.Schema, at string) *jsonschema.Schema {
	if i, err := strconv.Atoi(at); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	return nil
}
