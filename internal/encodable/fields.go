package encodable

import (
	"reflect"
	"strings"
	"unicode"
)

// A field is a field of a struct, or of one embedded in it, as encoding/json sees it.
type field struct {
	name   string // in JSON
	path   string
	typ    reflect.Type
	depth  int // of embedding
	tagged bool
	addr   bool
}

// fields checks a struct that encoding/json encodes by its fields.
func (c *checker) fields(t reflect.Type, path string, addressable bool) {
	fields := c.collect(nil, t, path, 0, addressable, map[reflect.Type]bool{})
	winner := make(map[string]int, len(fields))
	for i, f := range fields {
		w, ok := winner[f.name]
		if !ok || f.beats(&fields[w]) {
			winner[f.name] = i
		}
	}
	for i, f := range fields {
		if w := winner[f.name]; w != i {
			c.report(f.path, "%s has the same name in JSON, %q, and one of the two would be lost; rename one", fields[w].path, f.name)
			continue
		}
		c.check(f.typ, f.path, f.addr)
	}
}

// beats reports whether encoding/json prefers a field over another of the same name.
func (f *field) beats(other *field) bool {
	if f.depth != other.depth {
		return f.depth < other.depth
	}
	return f.tagged && !other.tagged
}

// collect adds the fields of a struct, and reports those that encoding/json ignores.
func (c *checker) collect(to []field, t reflect.Type, path string, depth int, addressable bool, within map[reflect.Type]bool) []field {
	if within[t] {
		return to
	}
	within[t] = true
	defer delete(within, t)
	for i := range t.NumField() {
		sf := t.Field(i)
		at := path + "." + sf.Name
		target, addr := sf.Type, addressable
		if target.Kind() == reflect.Pointer {
			target, addr = target.Elem(), true
		}
		tag := sf.Tag.Get("json")
		embedded := sf.Anonymous && target.Kind() == reflect.Struct
		switch {
		case tag == "-":
			continue
		case !sf.IsExported() && !embedded:
			if sf.Name != "_" && sf.Type.Size() > 0 {
				c.report(at, "it is not exported and would be lost; export it, or tag it json:\"-\" if it may be")
			}
			continue
		case !sf.IsExported() && sf.Type.Kind() == reflect.Pointer:
			c.report(at, "an embedded pointer to a struct that is not exported cannot be decoded; embed the struct")
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		if !validName(name) {
			name = ""
		}
		if embedded && name == "" {
			to = c.collect(to, target, at, depth+1, addr, within)
			continue
		}
		f := field{name: name, path: at, typ: sf.Type, depth: depth, tagged: name != "", addr: addressable}
		if name == "" {
			f.name = sf.Name
		}
		to = append(to, f)
	}
	return to
}

// validName reports whether encoding/json takes a name from a tag.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}
