package reduce

import (
	"reflect"
	"unsafe"
)

// Clipper creates a function that returns a state without spare capacity: in every slice that S
// holds by value (in its fields, exported or not, nested structs and arrays) the capacity becomes
// the length, so that whoever appends to it copies it. Slices in other slices, in maps and behind
// pointers and interfaces are not changed. Clipper returns nil if S holds no slice.
//
// Building it reads S by reflection; calling it allocates nothing. It may be called from any
// goroutine.
func Clipper[S any]() func(S) S {
	slices := slicesIn(reflect.TypeFor[S](), 0, nil)
	if len(slices) == 0 {
		return nil
	}
	return func(s S) S {
		p := unsafe.Pointer(&s)
		for _, offset := range slices {
			// The header of a slice is the same for all element types.
			h := (*[]struct{})(unsafe.Add(p, offset))
			*h = (*h)[:len(*h):len(*h)]
		}
		return s
	}
}

// slicesIn adds the offsets of the slices in a value of type t at an offset.
func slicesIn(t reflect.Type, offset uintptr, to []uintptr) []uintptr {
	switch t.Kind() {
	case reflect.Slice:
		return append(to, offset)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			to = slicesIn(f.Type, offset+f.Offset, to)
		}
	case reflect.Array:
		one := slicesIn(t.Elem(), 0, nil)
		if len(one) == 0 {
			return to
		}
		for i := range t.Len() {
			for _, o := range one {
				to = append(to, offset+uintptr(i)*t.Elem().Size()+o)
			}
		}
	}
	return to
}
