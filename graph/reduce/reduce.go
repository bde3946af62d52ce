// Package reduce has the usual reducers. A reducer folds the updates of nodes into the state.
//
// Use the functions inside your own reducer:
//
//	func fold(s State, u Update) State {
//		s.Log = reduce.Append(s.Log, u.Log)
//		s.Best = reduce.Max(s.Best, u.Best)
//		return s
//	}
//
// [Tags] makes the reducer from the tags of the state's fields instead.
//
// No function modifies the content of its arguments, so a state never changes when further states
// are derived from it. The result may share memory with both arguments.
package reduce

import (
	"cmp"
	"maps"
	"slices"
)

// Replace returns the update.
func Replace[T any](_, b T) T { return b }

// IfSet returns what b points to, or a if it is nil.
func IfSet[T any](a T, b *T) T {
	if b == nil {
		return a
	}
	return *b
}

// Append returns the elements of a followed by the elements of b.
//
// Like the append of Go it writes into the capacity that a has to spare, so a list that grows by
// one element a step costs the same each step. That is safe for one line of states, each made from
// the one before: elements that an older state shows are never overwritten, and the capacity behind
// them belongs to the line. To continue a state a second time (a preview, a fork, another run from
// the same value), first clip it with a [Clipper] or slices.Clip; package graph does so. A Clipper
// does not reach slices that lie in maps or behind pointers and interfaces: use slices.Concat for
// those.
func Append[S ~[]E, E any](a, b S) S { return append(a, b...) }

// Union adds those elements of b that are neither in a nor earlier in b. It writes
// into spare capacity as Append does.
func Union[S ~[]E, E comparable](a, b S) S {
	if len(b) == 1 {
		if slices.Contains(a, b[0]) {
			return a
		}
		return append(a, b[0])
	}
	wanted := make(map[E]bool, len(b))
	for _, e := range b {
		wanted[e] = true
	}
	for _, e := range a {
		delete(wanted, e)
	}
	for _, e := range b {
		if wanted[e] {
			a = append(a, e)
			delete(wanted, e)
		}
	}
	return a
}

// MergeByID puts each element of b in the place of the first element of a with the
// same id, and adds those with a new id at the end. Of several in b with one id the
// last wins. It writes into spare capacity as Append does.
func MergeByID[S ~[]E, E any, K comparable](a, b S, id func(E) K) S {
	return MergeByIDFunc(a, b, id, Replace[E])
}

// MergeByIDFunc is like MergeByID, but merges elements: merge returns the replacement for an
// element old when e has the same id. It must not change what old points to.
func MergeByIDFunc[S ~[]E, E any, K comparable](a, b S, id func(E) K, merge func(old, e E) E) S {
	place := make(map[K]int, len(b)) // in the result; -1 for none yet
	for _, e := range b {
		place[id(e)] = -1
	}
	shared := false // some place is within a
	for i, e := range a {
		k := id(e)
		if p, ok := place[k]; ok && p < 0 {
			place[k], shared = i, true
		}
	}
	if shared {
		a = append(make(S, 0, len(a)+len(b)), a...)
	}
	for _, e := range b {
		k := id(e)
		if p := place[k]; p >= 0 {
			a[p] = merge(a[p], e)
			continue
		}
		place[k] = len(a)
		a = append(a, e)
	}
	return a
}

// Merge returns a map of all entries; where both have a key, b wins. It costs a copy of a.
func Merge[M ~map[K]V, K comparable, V any](a, b M) M {
	if len(b) == 0 {
		return a
	}
	out := make(M, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// DeepMerge is Merge for JSON objects: where both have an object under a key, the two
// are merged in the same way. Anything else, lists too, is replaced.
func DeepMerge(a, b map[string]any) map[string]any {
	out := Merge(a, b)
	for k, v := range b {
		inner, ok := v.(map[string]any)
		if !ok {
			continue
		}
		if old, ok := a[k].(map[string]any); ok {
			out[k] = DeepMerge(old, inner)
		}
	}
	return out
}

// Max returns the larger one.
func Max[T cmp.Ordered](a, b T) T { return max(a, b) }

// Min returns the smaller one.
func Min[T cmp.Ordered](a, b T) T { return min(a, b) }

// Number is the constraint of types that can be summed.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64
}

// Sum returns the sum of both. An integer that overflows wraps around, as in Go.
func Sum[T Number](a, b T) T { return a + b }

// Or reports whether a or b is true.
func Or[T ~bool](a, b T) T { return a || b }

// And reports whether both are true.
func And[T ~bool](a, b T) T { return a && b }
