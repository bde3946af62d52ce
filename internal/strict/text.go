package strict

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// CheckJSON checks that a text is JSON that fits a schema as strictly as arguments of tools are checked, and returns an
// error that names every place, as a JSON pointer, where it does not. If the schema is nil, any JSON fits.
func CheckJSON(schema *jsonschema.Schema, text string) error {
	var resolved *jsonschema.Resolved
	if schema != nil {
		err := Terminates(schema)
		if err == nil { // without a loader, references to other documents are refused
			resolved, err = schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
		}
		if err != nil {
			return fmt.Errorf("the result has an invalid output schema: %w", err)
		}
	}
	v, err := Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("it is not valid JSON: %w", err)
	}
	if resolved == nil {
		return nil
	}
	if list := Faults(resolved, v); list != nil {
		return errors.New("it does not fit the schema:\n- " + strings.Join(list, "\n- "))
	}
	return nil
}
