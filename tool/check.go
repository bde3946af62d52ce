package tool

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
)

// A checker decides whether arguments fit a schema, or a result does. It may be used from
// several goroutines.
type checker struct{ resolved *jsonschema.Resolved }

// newChecker creates a checker from a schema; of none, one that anything passes. The error says what the schema is, as "input" or "output".
func newChecker(what string, s *jsonschema.Schema) (checker, error) {
	if s == nil {
		return checker{}, nil
	}
	// Without a loader, references to other documents are refused.
	err := strict.Terminates(s)
	var r *jsonschema.Resolved
	if err == nil {
		r, err = s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	}
	if err != nil {
		return checker{}, fmt.Errorf("has an invalid %s schema: %w", what, err)
	}
	return checker{r}, nil
}

// wrong lists where a text does not fit. The error says that it is no JSON.
func (c checker) wrong(text string) ([]string, error) {
	v, err := strict.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	if c.resolved == nil {
		return nil, nil
	}
	return strict.Faults(c.resolved, v), nil
}

func newArgsChecker(s *jsonschema.Schema) (checker, error) {
	if s == nil {
		return checker{}, fmt.Errorf(`has no input schema; use {"type": "object"} for a tool without arguments`)
	}
	if s.Type != "object" {
		return checker{}, fmt.Errorf(`has an input schema that is not of type "object"`)
	}
	return newChecker("input", s)
}

// check returns the arguments as JSON values, or an error that names all that is wrong.
// Empty arguments are those of a call that needs none.
func (c checker) check(args []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = []byte("{}")
	}
	v, err := strict.Decode(args)
	if err != nil {
		return nil, fmt.Errorf("arguments are not valid JSON: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("arguments must be a JSON object, not %s", strict.TypeName(v))
	}
	if list := strict.Faults(c.resolved, v); len(list) > 0 {
		return object, fmt.Errorf("arguments do not fit the tool's schema; correct them and call again:\n- %s", strings.Join(list, "\n- "))
	}
	return object, nil
}
