package gemini

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// plainSchema returns a schema for the fields that take JSON Schema.
func plainSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	if s.Schema != "" { // which dialect it is, is not a question there
		copied := *s
		copied.Schema = ""
		s = &copied
	}
	return json.Marshal(s)
}
