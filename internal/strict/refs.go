package strict

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
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

// holders returns the keywords that hold subschemas.
var holders = sync.OnceValue(func() []keyword {
	return slices.DeleteFunc(slices.Clone(keywords()), func(k keyword) bool {
		return k.holds != reflect.TypeFor[*jsonschema.Schema]() && k.holds != reflect.TypeFor[[]*jsonschema.Schema]() &&
			k.holds != reflect.TypeFor[map[string]*jsonschema.Schema]()
	})
})

// A part is a subschema: the keyword that holds it, and its name there, "" if it has none.
type part struct{ keyword, name string }

// parts returns the schemas right within one.
func parts(s *jsonschema.Schema) iter.Seq2[part, *jsonschema.Schema] {
	return func(yield func(part, *jsonschema.Schema) bool) {
		v := reflect.ValueOf(s).Elem()
		for _, k := range holders() {
			field := v.FieldByIndex(k.field)
			if field.IsNil() { // as most are
				continue
			}
			switch held := field.Interface().(type) {
			case *jsonschema.Schema:
				if !yield(part{keyword: k.name}, held) {
					return
				}
			case []*jsonschema.Schema:
				for _, inner := range held {
					if inner != nil && !yield(part{keyword: k.name}, inner) {
						return
					}
				}
			case map[string]*jsonschema.Schema:
				for _, name := range slices.Sorted(maps.Keys(held)) {
					if inner := held[name]; inner != nil && !yield(part{k.name, name}, inner) {
						return
					}
				}
			}
		}
	}
}

// forSame returns the keywords of schemas that apply to the same value.
func forSame() []string {
	return []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
}

const (
	mostSchemas  = 10_000   // in a document, and for one value
	mostNested   = 200      // for one value, since a value is nested, too, and a stack is not endless
	mostPointers = 16 << 20 // bytes of the pointers to all schemas of a document, which the library keeps
)

// named returns the schema that a reference names, or nil if there is none. It parses the reference like the library, which treats %2F as a slash, so
// that both find the same schema.
func named(s *jsonschema.Schema, ref string) *jsonschema.Schema {
	u, err := url.Parse(ref)
	if err != nil || !strings.HasPrefix(ref, "#") || u.Fragment != "" && u.Fragment[0] != '/' {
		return nil
	}
	words := strings.Split(u.Fragment, "/")[1:]
	for i := range words {
		words[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(words[i])
	}
	for len(words) > 0 && s != nil {
		s, words = within(s, words)
	}
	return s
}

// within returns the schema right within another that the first words of a pointer name, and the words that are left.
func within(s *jsonschema.Schema, words []string) (*jsonschema.Schema, []string) {
	v := reflect.ValueOf(s).Elem()
	for _, k := range keywords() {
		if k.name != words[0] {
			continue
		}
		switch held := v.FieldByIndex(k.field).Interface().(type) {
		case *jsonschema.Schema:
			if held != nil {
				return held, words[1:]
			}
		case []*jsonschema.Schema:
			if len(words) < 2 {
				continue
			}
			if i, err := strconv.Atoi(words[1]); err == nil && i >= 0 && i < len(held) && strconv.Itoa(i) == words[1] {
				return held[i], words[2:]
			}
		case map[string]*jsonschema.Schema:
			if len(words) >= 2 && held[words[1]] != nil {
				return held[words[1]], words[2:]
			}
		}
	}
	return nil, nil
}

// loops checks whether validating a value against a schema terminates. The schemas that apply to the same value must not refer back to themselves, and
// must not be too many to check.
type loops struct {
	root *jsonschema.Schema
	left int                        // schemas that may be looked at
	size int                        // of the pointers to those that were
	refs bool                       // there are references
	base bool                       // a schema within changes what they mean
	cost map[*jsonschema.Schema]int // of those that are known; 0 while one is being looked at
	tall map[*jsonschema.Schema]int // how many of these apply because of the one before

	defaults []*jsonschema.Schema // that have one, which is checked when the schema is read
}

// Terminates returns an error if validating a value against a schema, which may be untrusted, might not terminate.
func Terminates(root *jsonschema.Schema) error {
	l := &loops{root: root, left: mostSchemas, cost: map[*jsonschema.Schema]int{}, tall: map[*jsonschema.Schema]int{}}
	if err := l.walk(root, 0); err != nil {
		return err
	}
	if l.refs && l.base {
		return errors.New("a schema within it has an $id, which changes what $ref means; leave that $id out")
	}
	for _, s := range l.defaults {
		v, err := Decode(s.Default)
		switch {
		case err != nil:
			return fmt.Errorf("its default: %w", err)
		case l.refs && !affordable(root, s, v):
			return errors.New("its default could fit in too many ways to be checked")
		}
	}
	return nil
}

// walk checks a schema and all of its subschemas. The pointer to the schema has the given number of bytes.
func (l *loops) walk(s *jsonschema.Schema, pointer int) error {
	if l.left--; l.left < 0 {
		return fmt.Errorf("it has more than %d parts", mostSchemas)
	}
	if l.size += pointer; l.size > mostPointers {
		return errors.New("its names are too long for what it holds; shorten them")
	}
	l.refs, l.base = l.refs || s.Ref != "", l.base || s.ID != "" && s != l.root
	if len(s.Default) > 0 {
		l.defaults = append(l.defaults, s)
	}
	if _, err := l.look(s); err != nil {
		return err
	}
	for p, inner := range parts(s) {
		if err := l.walk(inner, pointer+len(p.keyword)+len(p.name)+2); err != nil {
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
		if slices.Contains(forSame(), p.keyword) {
			same = append(same, inner)
		}
	}
	if s.DynamicRef != "" {
		return 0, errors.New("$dynamicRef is not supported; use $ref")
	}
	if s.Ref != "" {
		to := named(l.root, s.Ref)
		if to == nil {
			return 0, fmt.Errorf("reference %q leads nowhere in it; use one as #/$defs/NAME", s.Ref)
		}
		same = append(same, to)
	}
	n, tall := 1, 1
	for _, p := range same {
		m, err := l.look(p)
		if err != nil {
			return 0, err
		}
		if n += m; n > mostSchemas {
			return 0, fmt.Errorf("more than %d parts of it apply to one value", mostSchemas)
		}
		tall = max(tall, l.tall[p]+1)
	}
	if l.cost[s], l.tall[s] = n, tall; tall > mostNested {
		return 0, fmt.Errorf("more than %d parts of it apply to one value, each because of the one before", mostNested)
	}
	return n, nil
}
