package reduce

import "reflect"

// An op is the operation that a field's tag names.
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

// A field describes how one field of an update is folded into the state.
type field struct {
	name   string
	op     op
	single bool         // one writer a superstep
	ptr    bool         // the update has a pointer to it
	one    bool         // the update has one element of the list
	patch  bool         // of opMergeID: zero fields of an element keep what was there
	state  int          // its place in the state
	update int          // its place in the update
	typ    reflect.Type // in the state
	id     []int        // the index of the elements' id
}

// written returns the value of the field in an update, and reports whether it is set. A slice or
// map is unset only if nil.
func (f *field) written(update reflect.Value) (reflect.Value, bool) {
	u := update.Field(f.update)
	if f.ptr {
		if u.IsNil() {
			return u, false
		}
		switch u = u.Elem(); u.Kind() {
		case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		default:
			return u, true
		}
	}
	return u, !u.IsZero()
}

// apply folds the field of an update into a state, which must be settable.
func (f *field) apply(state, update reflect.Value) {
	u, written := f.written(update)
	if !written {
		return
	}
	s := state.Field(f.state)
	switch f.op {
	case opReplace:
		s.Set(u)
	case opKeepFirst:
		if s.IsZero() {
			s.Set(u)
		}
	case opMax, opMin, opSum:
		calculate(f.op, s, u)
	case opOr:
		s.SetBool(s.Bool() || u.Bool())
	case opAnd:
		s.SetBool(s.Bool() && u.Bool())
	case opMerge:
		s.Set(merged(s, u))
	case opDeepMerge:
		s.Set(reflect.ValueOf(DeepMerge(object(s), object(u))).Convert(f.typ))
	case opAppend, opUnion, opMergeID:
		if f.one {
			u = reflect.Append(reflect.Zero(f.typ), u)
		}
		switch f.op {
		case opAppend:
			s.Set(reflect.AppendSlice(s, u))
		case opUnion:
			union(s, u)
		default:
			f.mergeID(s, u)
		}
	}
}

// calculate folds a number or a string.
func calculate(op op, s, u reflect.Value) {
	switch {
	case s.CanInt():
		s.SetInt(number(op, s.Int(), u.Int()))
	case s.CanUint():
		s.SetUint(number(op, s.Uint(), u.Uint()))
	case s.CanFloat():
		s.SetFloat(number(op, s.Float(), u.Float()))
	case op == opMax:
		s.SetString(max(s.String(), u.String()))
	default:
		s.SetString(min(s.String(), u.String()))
	}
}

func number[T int64 | uint64 | float64](op op, a, b T) T {
	switch op {
	case opMax:
		return max(a, b)
	case opMin:
		return min(a, b)
	}
	return a + b
}

func object(v reflect.Value) map[string]any {
	m, _ := v.Convert(reflect.TypeFor[map[string]any]()).Interface().(map[string]any)
	return m
}

// union is Union.
func union(s, u reflect.Value) {
	wanted := make(map[any]bool, u.Len())
	for i := range u.Len() {
		wanted[u.Index(i).Interface()] = true
	}
	for i := range s.Len() {
		delete(wanted, s.Index(i).Interface())
	}
	for i := range u.Len() {
		e := u.Index(i)
		if k := e.Interface(); wanted[k] {
			s.Set(reflect.Append(s, e))
			delete(wanted, k)
		}
	}
}

// mergeID is MergeByID, or MergeByIDFunc with patch.
func (f *field) mergeID(s, u reflect.Value) {
	place := make(map[any]int, u.Len())
	for i := range u.Len() {
		place[f.key(u.Index(i))] = -1
	}
	n, shared := s.Len(), false
	for i := range n {
		k := f.key(s.Index(i))
		if p, ok := place[k]; ok && p < 0 {
			place[k], shared = i, true
		}
	}
	if shared {
		own := reflect.MakeSlice(f.typ, n, n+u.Len())
		reflect.Copy(own, s)
		s.Set(own)
	}
	for i := range u.Len() {
		e := u.Index(i)
		k := f.key(e)
		if p := place[k]; p >= 0 {
			f.merge(s.Index(p), e)
			continue
		}
		place[k] = s.Len()
		s.Set(reflect.Append(s, e))
	}
}

// merge puts an element in the place of another, or its fields that are not zero.
func (f *field) merge(old, e reflect.Value) {
	switch pointer := e.Kind() == reflect.Pointer; {
	case !f.patch || pointer && (e.IsNil() || old.IsNil()):
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

// patch copies the exported fields of one struct that are not zero into another.
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

// key returns the id of an element, nil for a nil pointer.
func (f *field) key(e reflect.Value) any {
	if e.Kind() == reflect.Pointer {
		if e.IsNil() {
			return nil
		}
		e = e.Elem()
	}
	return e.FieldByIndex(f.id).Interface()
}

// merged is Merge.
func merged(s, u reflect.Value) reflect.Value {
	if u.Len() == 0 {
		return s
	}
	out := reflect.MakeMapWithSize(s.Type(), s.Len()+u.Len())
	for _, m := range [2]reflect.Value{s, u} {
		for it := m.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), it.Value())
		}
	}
	return out
}
