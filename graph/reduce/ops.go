package reduce

import (
	"reflect"
	"unsafe"
)

// op is what a field's tag asks for.
type op uint8

const (
	opReplace op = iota
	opKeepFirst
	opMax
	opMin
	opSum
	opOr
	opAnd
	opAppend
	opUnion
	opMerge
	opMergeID
	opDeepMerge
)

// A field is what is to be done for one field of an update.
type field struct {
	name   string
	op     op
	single bool         // one writer a superstep
	ptr    bool         // the update has a pointer to it
	one    bool         // the update has one element of the list
	patch  bool         // of opMergeID: zero fields of an element keep what was there
	state  uintptr      // offset in the state
	update uintptr      // offset in the update
	typ    reflect.Type // in the state
	atoms  []atom       // of what the update holds or points to
	elem   shape        // of the list's elements
	id     []int        // the index of the elements' id
}

// written finds what an update holds for the field, nil if that is nothing.
func (f *field) written(update unsafe.Pointer) unsafe.Pointer {
	u := unsafe.Add(update, f.update)
	if f.ptr {
		u = *(*unsafe.Pointer)(u)
		if u == nil || !nilable(f.typ.Kind()) {
			return u
		}
	}
	if isZero(u, f.atoms) {
		return nil
	}
	return u
}

func nilable(k reflect.Kind) bool {
	return k == reflect.Slice || k == reflect.Map || k == reflect.Pointer || k == reflect.Interface
}

// apply folds the field of an update into a state. It must not let the two pointers
// escape, which is why it goes by constants and not by function values.
func (f *field) apply(state, update unsafe.Pointer) {
	u := f.written(update)
	if u == nil {
		return
	}
	s := unsafe.Add(state, f.state)
	switch f.op {
	case opReplace:
		put(s, u, f.atoms)
	case opKeepFirst:
		if isZero(s, f.atoms) {
			put(s, u, f.atoms)
		}
	case opMax, opMin, opSum:
		calculate(f.op, f.typ.Kind(), s, u)
	case opOr:
		*(*bool)(s) = *(*bool)(s) || *(*bool)(u)
	case opAnd:
		*(*bool)(s) = *(*bool)(s) && *(*bool)(u)
	case opAppend:
		if !extend(s, u, f.elem, f.one) {
			f.fold(s, u, (*lists).append)
		}
	case opUnion:
		f.fold(s, u, (*lists).union)
	case opMergeID:
		f.fold(s, u, (*lists).mergeID)
	case opMerge:
		*(*unsafe.Pointer)(s) = merged(f.typ, *(*unsafe.Pointer)(s), *(*unsafe.Pointer)(u))
	case opDeepMerge:
		m := (*map[string]any)(s)
		*m = DeepMerge(*m, *(*map[string]any)(u))
	}
}

// lists are the two lists to be folded, on the heap, for package reflect.
type lists struct {
	state, update reflect.Value
	id            []int
	patch         bool
}

// fold lets a function make a list from those of the state and the update.
func (f *field) fold(s, u unsafe.Pointer, fn func(*lists)) {
	l := lists{state: reflect.New(f.typ).Elem(), update: reflect.New(f.typ).Elem(), id: f.id, patch: f.patch}
	state, update := (*[]struct{})(l.state.Addr().UnsafePointer()), l.update.Addr().UnsafePointer()
	*state = *(*[]struct{})(s)
	if f.one {
		l.update.Set(reflect.MakeSlice(f.typ, 1, 1))
		put(l.update.Index(0).Addr().UnsafePointer(), u, f.atoms)
	} else {
		*(*[]struct{})(update) = *(*[]struct{})(u)
	}
	fn(&l)
	*(*[]struct{})(s) = *state
}

func (l *lists) append() {
	n, more := l.state.Len(), l.update.Len()
	l.state.Grow(more)
	l.state.SetLen(n + more)
	for i := range more {
		l.state.Index(n + i).Set(l.update.Index(i))
	}
}

func (l *lists) add(e reflect.Value) {
	n := l.state.Len()
	l.state.Grow(1)
	l.state.SetLen(n + 1)
	l.state.Index(n).Set(e)
}

func (l *lists) union() {
	wanted := make(map[any]bool, l.update.Len())
	for i := range l.update.Len() {
		wanted[l.update.Index(i).Interface()] = true
	}
	for i := range l.state.Len() {
		delete(wanted, l.state.Index(i).Interface())
	}
	for i := range l.update.Len() {
		e := l.update.Index(i)
		if k := e.Interface(); wanted[k] {
			l.add(e)
			delete(wanted, k)
		}
	}
}

// mergeID is MergeByID, or MergeByIDFunc with patch.
func (l *lists) mergeID() {
	place := make(map[key]int, l.update.Len())
	for i := range l.update.Len() {
		place[l.key(l.update.Index(i))] = -1
	}
	n, shared := l.state.Len(), false
	for i := range n {
		k := l.key(l.state.Index(i))
		if p, ok := place[k]; ok && p < 0 {
			place[k], shared = i, true
		}
	}
	if shared {
		own := reflect.MakeSlice(l.state.Type(), n, n+l.update.Len())
		reflect.Copy(own, l.state)
		l.state.Set(own)
	}
	for i := range l.update.Len() {
		e := l.update.Index(i)
		k := l.key(e)
		if p := place[k]; p >= 0 {
			l.merge(l.state.Index(p), e)
			continue
		}
		place[k] = l.state.Len()
		l.add(e)
	}
}

// merge puts an element in the place of another, or its fields that are not zero.
func (l *lists) merge(old, e reflect.Value) {
	switch pointer := e.Kind() == reflect.Pointer; {
	case !l.patch || pointer && (e.IsNil() || old.IsNil()):
		old.Set(e)
	case pointer:
		own := reflect.New(e.Type().Elem()) // an older state shows what old points to
		own.Elem().Set(old.Elem())
		patch(own.Elem(), e.Elem())
		old.Set(own)
	default:
		patch(old, e)
	}
}

// patch sets the exported fields of a struct that are not zero in another.
func patch(old, e reflect.Value) {
	for i := range e.NumField() {
		f, v := e.Type().Field(i), e.Field(i)
		switch {
		case f.Anonymous && v.Kind() == reflect.Struct:
			patch(old.Field(i), v)
		case f.IsExported() && !v.IsZero():
			old.Field(i).Set(v)
		}
	}
}

// key is an id of any of the kinds that may be one.
type key struct {
	text   string
	number uint64
	none   bool // of a nil pointer
}

func (l *lists) key(e reflect.Value) key {
	if e.Kind() == reflect.Pointer {
		if e.IsNil() {
			return key{none: true}
		}
		e = e.Elem()
	}
	switch v := e.FieldByIndex(l.id); {
	case v.Kind() == reflect.String:
		return key{text: v.String()}
	case v.CanInt():
		return key{number: uint64(v.Int())}
	default:
		return key{number: v.Uint()}
	}
}

// merged is Merge of two maps of a type, given as the pointers that maps are.
func merged(t reflect.Type, a, b unsafe.Pointer) unsafe.Pointer {
	old, more := reflect.NewAt(t, unsafe.Pointer(&a)).Elem(), reflect.NewAt(t, unsafe.Pointer(&b)).Elem()
	if more.Len() == 0 {
		return a
	}
	out := reflect.MakeMapWithSize(t, old.Len()+more.Len())
	k, v := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	for _, m := range [2]reflect.Value{old, more} {
		for it := m.MapRange(); it.Next(); {
			k.SetIterKey(it)
			v.SetIterValue(it)
			out.SetMapIndex(k, v)
		}
	}
	return out.UnsafePointer()
}
