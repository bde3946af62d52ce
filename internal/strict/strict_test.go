package strict_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
)

// What the validator alone finds is told in the same words as the rest: a JSON pointer into the value, and no place of
// the schema.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, value, want string }{
		{`{"properties":{"filePath":{"type":"string","minLength":2}}}`, `{"filePath":"a"}`, "/filePath: is 1 character, want at least 2"},
		{`{"properties":{"n":{"multipleOf":3}}}`, `{"n":4}`, "/n: "},
		{`{"properties":{"list":{"uniqueItems":true}}}`, `{"list":[1,1]}`, "/list: "},
		{`{"type":"array"}`, `{}`, "/: is an object, want array"},
		{`{"type":"array"}`, `[1`, `it is not JSON: it breaks off at the end: "[1"`},
		{`{"type":"array"}`, `null and more`, `it is not JSON: more data after the value at offset 5`},
		{`{"type":"array"}`, `not JSON`, `it is not JSON: unexpected 'o' at byte 2 of "not JSON"`},
		{`{"type":"array"}`, ` `, `it is not JSON: it is empty`},
		{`{"type":"array"}`, `[1, 2]`, ""},
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal([]byte(c.schema), &s); err != nil {
			t.Fatal(err)
		}
		r, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		err = strict.Check(r, json.RawMessage(c.value))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.value, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.value, err, c.want)
		case err != nil && (strings.Contains(err.Error(), "validating") || strings.Contains(err.Error(), "invalid character")):
			t.Errorf("%s: %v", c.value, err)
		}
	}
}

// An error of encoding/json is told without the types of Go.
func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[1]`:                `it is an array, want an object`,
		`{"todos": {"a":1}}`: `todos is an object, want an array`,
		`{"todos": [7]}`:     `todos is a number, want an object`,
		`{"name": true}`:     `name is a boolean, want a string`,
		`{"todos": [`:        `it breaks off at the end: "{\"todos\": ["`,
		`hello`:              `unexpected 'h' at byte 1 of "hello"`,
	} {
		var v struct {
			Name  string           `json:"name"`
			Todos []map[string]any `json:"todos"`
		}
		err := strict.Words([]byte(text), json.Unmarshal([]byte(text), &v))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
