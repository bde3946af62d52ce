package encodable

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// deepest is the depth to which values are examined. Below that encoding/json decides, which
// detects cycles.
const deepest = 200

// Varies reports whether Value may refuse some values of a type that passes Check: numbers such as NaN, texts,
// values in interfaces, values that encode themselves, and cycles.
func Varies(t reflect.Type) bool { return varies(t, map[reflect.Type]bool{}) }

func varies(t reflect.Type, within map[reflect.Type]bool) bool {
	if encodesItself(t) || within[t] {
		return true
	}
	within[t] = true
	defer delete(within, t)
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.String, reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return varies(t.Elem(), within)
	case reflect.Map:
		return varies(t.Key(), within) || varies(t.Elem(), within)
	case reflect.Struct:
		for f := range t.Fields() {
			if written(&f) && varies(f.Type, within) {
				return true
			}
		}
	}
	return false
}

// written reports whether encoding/json looks at a field.
func written(f *reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-"
}

func encodesItself(t reflect.Type) bool {
	if t == reflect.TypeFor[json.Number]() {
		return true
	}
	for _, i := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(i) || t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// Suspect reports whether the JSON of a value may hold what it would not decode to: it has the mark of bytes that are no text, or a number of more digits
// than a float64 has. Then Value tells.
func Suspect(data []byte) bool {
	if bytes.Contains(data, []byte(`\ufffd`)) { // as json.Marshal writes such bytes, and U+FFFD itself as it is
		return true
	}
	const most = 15 // digits, which are always exact
	digit := func(i int) bool { return i >= 0 && i < len(data) && data[i] >= '0' && data[i] <= '9' }
	for i := most; i < len(data); i += most + 1 { // one of them is in any longer row
		if !digit(i) {
			continue
		}
		n := 1
		for k := i - 1; digit(k); k-- {
			n++
		}
		for k := i + 1; digit(k); k++ {
			n++
		}
		if n > most {
			return true
		}
	}
	return false
}

// Value returns why json.Marshal refuses or changes a value, with the path of what it refuses from root: "State.Scores[2]: NaN cannot
// be encoded". It returns nil if it finds nothing.
func Value(v any, root string) error { return value(reflect.ValueOf(v), root, 0) }

// text returns an error for a string that is not UTF-8.
func text(s, path string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return fmt.Errorf("%s: %.40q is not UTF-8, and would be another text after a resume; use a []byte, or convert it", path, s)
}

// inexact returns an error for an integer in an interface, which decodes as a float64.
func inexact(v reflect.Value, path string) error {
	const most = 1 << 53
	big := false
	switch {
	case v.CanInt():
		big = v.Int() > most || v.Int() < -most
	case v.CanUint():
		big = v.Uint() > most
	}
	if big && !encodesItself(v.Type()) {
		return fmt.Errorf("%s: %v would be another number after a resume, since an any holds numbers up to 2^53; use a field of type %v, or a string", path, v, v.Type())
	}
	return nil
}

func value(v reflect.Value, path string, depth int) error {
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer && encodesItself(t) || depth > deepest {
		if !v.CanInterface() {
			return nil
		}
		if _, err := json.Marshal(v.Interface()); err != nil {
			if depth > deepest { // a cycle, of which the way in is enough
				path = fmt.Sprintf("%.60s…", path)
			}
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return text(v.String(), path)
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%s: %v cannot be encoded", path, f)
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%s: %v cannot be encoded", path, t)
	case reflect.Interface:
		if err := inexact(v.Elem(), path); err != nil {
			return err
		}
		return value(v.Elem(), path, depth+1)
	case reflect.Pointer:
		return value(v.Elem(), path, depth+1)
	case reflect.Slice, reflect.Array:
		if k := t.Elem().Kind(); k <= reflect.Uintptr && !encodesItself(t.Elem()) {
			return nil
		}
		texts := t.Elem().Kind() == reflect.String && !encodesItself(t.Elem())
		for i := range v.Len() {
			if texts && utf8.ValidString(v.Index(i).String()) {
				continue // without a path for each
			}
			if err := value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		return entries(v, path, depth)
	case reflect.Struct:
		i := -1
		for f := range t.Fields() {
			if i++; !written(&f) {
				continue
			}
			if err := value(v.Field(i), path+"."+f.Name, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries checks the entries of a map, and returns the error whose text sorts first.
func entries(v reflect.Value, path string, depth int) (first error) {
	c := &checker{seen: map[place]bool{}}
	if c.key(v.Type().Key(), path); len(c.problems) > 0 {
		return fmt.Errorf("%s", c.problems[0])
	}
	for key, elem := range v.Seq2() {
		err := error(nil)
		if key.Kind() == reflect.String && !encodesItself(key.Type()) {
			err = text(key.String(), path)
		}
		if err == nil {
			err = value(elem, fmt.Sprintf("%s[%v]", path, key), depth+1)
		}
		if err != nil && (first == nil || err.Error() < first.Error()) {
			first = err
		}
	}
	return first
}
