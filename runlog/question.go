package runlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
)

// The answers to the question about an effect of unknown outcome.
const (
	UnknownAgain    = "do it again"
	UnknownHappened = "it happened" // with Answer.Output what it gave, where that is known
)

const unknownPrefix = "unknown:"

// UnknownKey returns the key of the question about the outcome of the nth intent of an effect.
func UnknownKey(effect string, n int) string { return fmt.Sprintf("%s%s:%d", unknownPrefix, effect, n) }

// Unknown reports whether the question is about an effect that must not happen twice and whose
// outcome was lost in a crash. It returns the name of the effect.
func (q *Question) Unknown() (effect string, ok bool) {
	rest, ok := strings.CutPrefix(q.Key, unknownPrefix)
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 || !slices.Equal(q.Options, []string{UnknownAgain, UnknownHappened}) {
		return "", false
	}
	return rest[:i], true
}

// Several reports whether the answer is a list of the options.
func (q *Question) Several() bool {
	var schema struct{ Type string }
	return len(q.Options) > 0 && json.Unmarshal(q.Schema, &schema) == nil && schema.Type == "array"
}

// Fits returns why the question does not accept an answer, or nil if it does. The message continues
// the words "the answer".
func (q *Question) Fits(answer json.RawMessage) error {
	switch {
	case len(q.Schema) == 0 && len(q.Options) == 0:
		return nil
	case len(q.Schema) == 0:
		var choice string
		if err := json.Unmarshal(answer, &choice); err != nil || !slices.Contains(q.Options, choice) {
			return fmt.Errorf("must be one of %q, not %s", q.Options, answer)
		}
		return nil
	}
	err := fits(q.Schema, answer)
	if err != nil && len(q.Options) > 0 { // which say more to people than a schema
		return fmt.Errorf("must be one of %q, or fit the schema of the question; %s does not", q.Options, answer)
	} else if err != nil {
		return fmt.Errorf("%s does not fit: %w", answer, err)
	}
	return nil
}

// fits checks a value against a JSON Schema.
func fits(schema, value json.RawMessage) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the schema of the question: %w", err)
	}
	err := strict.Terminates(&s) // of an imported run it is a stranger's
	var r *jsonschema.Resolved
	if err == nil {
		r, err = s.Resolve(nil)
	}
	if err != nil {
		return fmt.Errorf("the schema of the question: %w", err)
	}
	return strict.Check(r, value)
}
