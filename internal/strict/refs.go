package strict

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// A keyword is one of JSON Schema that the library reads into a field.
type keyword struct {
	name  string
	field []int
	holds reflect.Type
}

var keywords = sync.OnceValue(func() (out []keyword) {
	apart := map[string]string{
		"Type": "type", "Types": "type", "Items": "items", "ItemsArray": "items", "DependencySchemas": "dependencies", "DependencyStrings": "dependencies",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[jsonschema.Schema]()) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name := cmp.Or(apart[f.Name], tag); name != "-" {
			out = append(out, keyword{name, f.Index, f.Type})
		}
	}
	return out
})

// A part is a schema within another: the keyword that holds it, and where it is, as a JSON pointer.
type part struct{ keyword, at string }

// parts are the schemas right within one.
func parts(s *jsonschema.Schema) iter.Seq2[part, *jsonschema.Schema] {
	return func(yield func(part, *jsonschema.Schema) bool) {
		v := reflect.ValueOf(s).Elem()
		for _, k := range keywords() {
			here := map[string]*jsonschema.Schema{}
			switch held := v.FieldByIndex(k.field).Interface().(type) {
			case *jsonschema.Schema:
				here["/"+k.name] = held
			case []*jsonschema.Schema:
				for i, p := range held {
					here[fmt.Sprintf("/%s/%d", k.name, i)] = p
				}
			case map[string]*jsonschema.Schema:
				for name, p := range held {
					here[pointer("/"+k.name, name)] = p
				}
			}
			for _, at := range slices.Sorted(maps.Keys(here)) {
				if p := here[at]; p != nil && !yield(part{k.name, at}, p) {
					return
				}
			}
		}
	}
}

const mostSchemas = 10_000 // in a document, and for one value

// index returns the schemas of a document by their JSON pointers, and whether these are all.
func index(root *jsonschema.Schema) (all map[string]*jsonschema.Schema, whole bool) {
	all = map[string]*jsonschema.Schema{}
	var walk func(at string, s *jsonschema.Schema) bool
	walk = func(at string, s *jsonschema.Schema) bool {
		if len(all) == mostSchemas {
			return false
		}
		all[at] = s
		for p, inner := range parts(s) {
			if !walk(at+p.at, inner) {
				return false
			}
		}
		return true
	}
	return all, walk("", root)
}

// named returns the schema of a document that a reference names, nil if there is none.
func named(all map[string]*jsonschema.Schema, ref string) *jsonschema.Schema {
	at, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	return all[at]
}

// loops finds out whether checking a value against a schema comes to an end. What applies to the same value must not refer
// back to itself, and must not be more than can be looked at.
type loops struct {
	all  map[string]*jsonschema.Schema
	cost map[*jsonschema.Schema]int // of those that are known; 0 while one is being looked at
}

// Terminates reports whether checking a value against a schema, which may be a stranger's, comes to an end: nil if so.
func Terminates(root *jsonschema.Schema) error {
	all, whole := index(root)
	if !whole {
		return fmt.Errorf("it has more than %d parts", mostSchemas)
	}
	l := &loops{all: all, cost: map[*jsonschema.Schema]int{}}
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if _, err := l.look(all[at]); err != nil {
			return err
		}
	}
	return nil
}

// look counts the schemas that apply to a value to which s does.
func (l *loops) look(s *jsonschema.Schema) (int, error) {
	if n, known := l.cost[s]; known {
		if n == 0 {
			return 0, errors.New("it refers to itself for the same value")
		}
		return n, nil
	}
	l.cost[s] = 0
	var same []*jsonschema.Schema
	for p, inner := range parts(s) {
		switch p.keyword {
		case "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies":
			same = append(same, inner)
		}
	}
	if s.DynamicRef != "" {
		return 0, errors.New("$dynamicRef is not supported; use $ref")
	}
	if s.Ref != "" {
		to := named(l.all, s.Ref)
		if to == nil {
			return 0, fmt.Errorf("reference %q leads nowhere in it; use one as #/$defs/NAME", s.Ref)
		}
		same = append(same, to)
	}
	n := 1
	for _, p := range same {
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
