package workflow

import (
	"encoding/json"
	"fmt"
)

// MaxInputs is how many bytes the inputs of a run may have in all, as JSON. They are kept in the
// run's log, and in memory as often as they are used.
const MaxInputs = 4 << 20

// tooLarge returns what is wrong with inputs of so many bytes by name, "" if they are not over the limit.
func tooLarge(sizes map[string]int) string {
	all, most, name := 0, -1, ""
	for key, size := range sizes {
		all += size
		if size > most || size == most && key < name {
			most, name = size, key
		}
	}
	if all <= MaxInputs {
		return ""
	}
	return fmt.Sprintf("input %s is %.1f MiB; the inputs of a run may have %d MiB in all: pass a file's path instead", name, float64(most)/(1<<20), MaxInputs>>20)
}

// length is how long a JSON value is, found without a copy of it.
type length int

// UnmarshalJSON implements json.Unmarshaler.
func (l *length) UnmarshalJSON(raw []byte) error {
	*l = length(len(raw))
	return nil
}

// largeInputs returns what is wrong with inputs over the limit, a JSON object.
func largeInputs(inputs json.RawMessage) string {
	if len(inputs) <= MaxInputs {
		return ""
	}
	var lengths map[string]length
	if err := json.Unmarshal(inputs, &lengths); err != nil {
		return "want a JSON object with finite numbers: " + err.Error()
	}
	sizes := map[string]int{}
	for key, l := range lengths {
		sizes[key] = int(l)
	}
	return tooLarge(sizes) // or all that is large is the space between them
}
