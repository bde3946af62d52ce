package encodable

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
)

// deepest is the depth to which values are examined. Below that encoding/json decides, which
// detects cycles.
const deepest = 200

// Varies reports whether json.Marshal may refuse some values of a type that passes Check: numbers
// such as NaN, values in interfaces, values that encode themselves, and cycles.
func Varies(t reflect.Type) bool { return varies(t, map[reflect.Type]bool{}) }

func varies(t reflect.Type, within map[reflect.Type]bool) bool {
	if encodesItself(t) || within[t] {
		return true
	}
	within[t] = true
	defer delete(within, t)
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Interface:
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

// Value returns why json.Marshal refuses a value, with the path of what it refuses from root: "State.Scores[2]: NaN cannot
// be encoded". It returns nil if it finds nothing.
func Value(v any, root string) error { return value(reflect.ValueOf(v), root, 0) }

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
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%s: %v cannot be encoded", path, f)
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%s: %v cannot be encoded", path, t)
	case reflect.Interface, reflect.Pointer:
		return value(v.Elem(), path, depth+1)
	case reflect.Slice, reflect.Array:
		if k := t.Elem().Kind(); (k <= reflect.Uintptr || k == reflect.String) && !encodesItself(t.Elem()) {
			return nil
		}
		for i := range v.Len() {
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
		err := value(elem, fmt.Sprintf("%s[%v]", path, key), depth+1)
		if err != nil && (first == nil || err.Error() < first.Error()) {
			first = err
		}
	}
	return first
}
