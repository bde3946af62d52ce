package reduce

import (
	"reflect"
	"unsafe"
)

// A shape is how a part of a value lies in memory, as far as copying it goes. Values
// of one shape may be copied as values of the type that stands for it: the garbage
// collector sees pointers where there are pointers, and nowhere else. Going by shapes
// and not by package reflect keeps states and updates off the heap.
type shape uint8

const (
	other   shape = iota // several parts
	bits8                // uint8
	bits16               // uint16
	bits32               // uint32
	bits64               // uint64
	text                 // string
	list                 // []struct{}
	pointer              // unsafe.Pointer: pointers, maps, channels, functions
	iface                // [2]unsafe.Pointer: interfaces
)

func shapeOf(t reflect.Type) shape {
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Slice:
		return list
	case reflect.Interface:
		return iface
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return pointer
	case reflect.Struct, reflect.Array, reflect.Complex64, reflect.Complex128:
		return other
	}
	switch t.Size() {
	case 1:
		return bits8
	case 2:
		return bits16
	case 4:
		return bits32
	default:
		return bits64
	}
}

// An atom is a part of a value that has a shape.
type atom struct {
	offset uintptr
	shape  shape
}

// atomsOf adds the parts of a value of type t at an offset.
func atomsOf(t reflect.Type, offset uintptr, to []atom) []atom {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			to = atomsOf(f.Type, offset+f.Offset, to)
		}
		return to
	case reflect.Array:
		for i := range t.Len() {
			to = atomsOf(t.Elem(), offset+uintptr(i)*t.Elem().Size(), to)
		}
		return to
	case reflect.Complex64:
		return append(to, atom{offset, bits32}, atom{offset + 4, bits32})
	case reflect.Complex128:
		return append(to, atom{offset, bits64}, atom{offset + 8, bits64})
	}
	return append(to, atom{offset, shapeOf(t)})
}

// put copies the parts of a value.
func put(to, from unsafe.Pointer, atoms []atom) {
	for _, a := range atoms {
		to, from := unsafe.Add(to, a.offset), unsafe.Add(from, a.offset)
		switch a.shape {
		case bits8:
			*(*uint8)(to) = *(*uint8)(from)
		case bits16:
			*(*uint16)(to) = *(*uint16)(from)
		case bits32:
			*(*uint32)(to) = *(*uint32)(from)
		case bits64:
			*(*uint64)(to) = *(*uint64)(from)
		case text:
			*(*string)(to) = *(*string)(from)
		case list:
			*(*[]struct{})(to) = *(*[]struct{})(from)
		case pointer:
			*(*unsafe.Pointer)(to) = *(*unsafe.Pointer)(from)
		case iface:
			*(*[2]unsafe.Pointer)(to) = *(*[2]unsafe.Pointer)(from)
		}
	}
}

// isZero is whether all parts of a value are zero; of slices and maps only nil is.
func isZero(v unsafe.Pointer, atoms []atom) bool {
	for _, a := range atoms {
		v := unsafe.Add(v, a.offset)
		zero := true
		switch a.shape {
		case bits8:
			zero = *(*uint8)(v) == 0
		case bits16:
			zero = *(*uint16)(v) == 0
		case bits32:
			zero = *(*uint32)(v) == 0
		case bits64:
			zero = *(*uint64)(v) == 0
		case text:
			zero = *(*string)(v) == ""
		case list:
			zero = *(*[]struct{})(v) == nil
		case pointer, iface: // the first word of an interface is its type
			zero = *(*unsafe.Pointer)(v) == nil
		}
		if !zero {
			return false
		}
	}
	return true
}

// extend appends to a slice whose elements have a shape: those of another slice, or
// one. It is false if they have none.
func extend(s, u unsafe.Pointer, elem shape, one bool) bool {
	switch elem {
	case bits8:
		extendAs[uint8](s, u, one)
	case bits16:
		extendAs[uint16](s, u, one)
	case bits32:
		extendAs[uint32](s, u, one)
	case bits64:
		extendAs[uint64](s, u, one)
	case text:
		extendAs[string](s, u, one)
	case list:
		extendAs[[]struct{}](s, u, one)
	case pointer:
		extendAs[unsafe.Pointer](s, u, one)
	case iface:
		extendAs[[2]unsafe.Pointer](s, u, one)
	default:
		return false
	}
	return true
}

func extendAs[E any](s, u unsafe.Pointer, one bool) {
	to := (*[]E)(s)
	if one {
		*to = append(*to, *(*E)(u))
		return
	}
	*to = append(*to, *(*[]E)(u)...)
}

// calculate folds a number, or a text, of a kind.
func calculate(op op, kind reflect.Kind, s, u unsafe.Pointer) {
	switch kind {
	case reflect.Int:
		number[int](op, s, u)
	case reflect.Int8:
		number[int8](op, s, u)
	case reflect.Int16:
		number[int16](op, s, u)
	case reflect.Int32:
		number[int32](op, s, u)
	case reflect.Int64:
		number[int64](op, s, u)
	case reflect.Uint:
		number[uint](op, s, u)
	case reflect.Uint8:
		number[uint8](op, s, u)
	case reflect.Uint16:
		number[uint16](op, s, u)
	case reflect.Uint32:
		number[uint32](op, s, u)
	case reflect.Uint64:
		number[uint64](op, s, u)
	case reflect.Uintptr:
		number[uintptr](op, s, u)
	case reflect.Float32:
		number[float32](op, s, u)
	case reflect.Float64:
		number[float64](op, s, u)
	case reflect.String:
		a, b := (*string)(s), *(*string)(u)
		if op == opMax {
			*a = max(*a, b)
		} else {
			*a = min(*a, b)
		}
	}
}

func number[T Number](op op, s, u unsafe.Pointer) {
	a, b := (*T)(s), *(*T)(u)
	switch op {
	case opMax:
		*a = max(*a, b)
	case opMin:
		*a = min(*a, b)
	default:
		*a += b
	}
}
