package node

import (
	"errors"
	"fmt"
	"maps"
)

// A Result is how one of several pieces of work ended. What was recorded and what has
// just happened look the same, so that what is made of results can be repeated.
type Result[T any] struct {
	Name  string `json:"name"`
	Value T      `json:"value,omitzero"`
	Error string `json:"error,omitempty"` // why it failed; "" if it did not
}

// errNoResults says that there is nothing to choose from.
var errNoResults = errors.New("there are no results")

// Values are those of the results that did not fail.
func Values[T any](results []Result[T]) []T {
	out := make([]T, 0, len(results))
	for _, r := range results {
		if r.Error == "" {
			out = append(out, r.Value)
		}
	}
	return out
}

// First is the first result, or its failure.
func First[T any](results []Result[T]) (T, error) {
	if len(results) == 0 {
		var none T
		return none, errNoResults
	}
	return results[0].get()
}

// Last is the last result, or its failure.
func Last[T any](results []Result[T]) (T, error) {
	if len(results) == 0 {
		var none T
		return none, errNoResults
	}
	return results[len(results)-1].get()
}

// FirstSuccess is the first result that did not fail, or all failures.
func FirstSuccess[T any](results []Result[T]) (v T, err error) {
	if len(results) == 0 {
		return v, errNoResults
	}
	var errs []error
	for _, r := range results {
		v, err := r.get()
		if err == nil {
			return v, nil
		}
		errs = append(errs, err)
	}
	return v, errors.Join(errs...)
}

func (r *Result[T]) get() (T, error) {
	if r.Error != "" {
		return r.Value, fmt.Errorf("%s: %s", r.Name, r.Error)
	}
	return r.Value, nil
}

// Concat is one list of the lists that did not fail, in their order.
func Concat[L ~[]E, E any](results []Result[L]) L {
	var out L
	for _, r := range results {
		if r.Error == "" {
			out = append(out, r.Value...)
		}
	}
	return out
}

// DeepMerge is one object of those that did not fail. Objects within them are merged too;
// of anything else the last one stays. It shares nothing that it changes with them.
func DeepMerge[M ~map[string]any](results []Result[M]) M {
	out := map[string]any{}
	for _, r := range results {
		if r.Error == "" {
			out = merged(out, r.Value)
		}
	}
	return out
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		old, isObject := out[k].(map[string]any)
		if object, ok := v.(map[string]any); ok && isObject {
			v = merged(old, object)
		}
		out[k] = v
	}
	return out
}
