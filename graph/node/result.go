package node

// A Result is the result of one of several parallel tasks. A recorded result and a new one look the
// same, so a function of results can be repeated.
type Result[T any] struct {
	Name  string `json:"name"`
	Value T      `json:"value,omitzero"`
	Error string `json:"error,omitempty"` // why it failed; "" if it did not
}

// Values returns the values of the results that did not fail.
func Values[T any](results []Result[T]) []T {
	out := make([]T, 0, len(results))
	for _, r := range results {
		if r.Error == "" {
			out = append(out, r.Value)
		}
	}
	return out
}
