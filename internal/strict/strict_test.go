package strict_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

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
		{`{"properties":{"price":{"multipleOf":0.01}}}`, `{"price":0.15}`, ""},
		{`{"properties":{"price":{"multipleOf":0.01}}}`, `{"price":5}`, ""},
		{`{"properties":{"price":{"multipleOf":0.01}}}`, `{"price":0.155}`, "/price: is 0.155, want a multiple of 0.01"},
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

// A schema that a check would never end with ends the process: it overflows the stack. It is refused however it writes its
// references.
func TestTerminates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"$ref":"#"}`: "it refers to itself for the same value",
		`{"$ref":"#/$defs/a%2Fnot","$defs":{"a%2Fnot":{},"a":{"not":{"$ref":"#/$defs/a%2Fnot"}}}}`:          "it refers to itself for the same value",
		`{"$ref":"#/%24defs/a","$defs":{"a":{"allOf":[{"$ref":"#/%24defs/a"}]}}}`:                           "it refers to itself for the same value",
		`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"$id":"https://example.org/a","$ref":"#"}}}`:           "a schema within it has an $id",
		`{"$id":"https://a.org/","items":{"$ref":"#"},"not":{"$id":"https://a.org/","items":{"$ref":"#"}}}`: "a schema within it has an $id",
		`{"$ref":"#a","$anchor":"a"}`:                                   "leads nowhere",
		`{"$dynamicRef":"#a","$dynamicAnchor":"a"}`:                     "$dynamicRef is not supported",
		`{"$id":"https://a.org/","items":{"$ref":"#"}}`:                 "",
		`{"items":{"$id":"https://a.org/","type":"string"}}`:            "",
		`{"items":{"$ref":"#/$defs/a%20b"},"$defs":{"a b":{}}}`:         "",
		`{"items":{"$ref":"#/$defs/~1x~0y"},"$defs":{"/x~y":{}}}`:       "",
		`{"items":{"$ref":"#/allOf/1"},"allOf":[{},{"type":"string"}]}`: "",
		`{"items":{"$ref":"#/allOf/2"},"allOf":[{},{"type":"string"}]}`: "leads nowhere",
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		err := strict.Terminates(&s)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A schema that holds itself twice doubles what it costs with each level of a value. That is refused, for defaults when the schema
// is read, and what only refers to itself is not.
func TestAffordable(t *testing.T) {
	t.Parallel()
	const twice = `{"$ref":"#/$defs/x","$defs":{"x":{"anyOf":[{"items":{"$ref":"#/$defs/x"}},{"items":{"$ref":"#/$defs/x"},"minItems":5}]}}`
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	var chain strings.Builder // of references, each to one that is known already
	for i := range 300 {
		fmt.Fprintf(&chain, `,"a%03d":{"$ref":"#/$defs/a%03d"}`, i+1, i)
	}
	long := `{"v":1,"next":` + strings.Repeat(`[{"v":2},`, 50) + `{"v":3}` + strings.Repeat("]", 50) + `}`
	for _, c := range []struct{ schema, value, want string }{
		{twice + `}`, deep, "/: could fit its schema in too many ways to be checked"},
		{twice + `}`, `[[[1],[2]],[3]]`, ""},
		{`{"properties":{"v":{"type":"integer"},"next":{"type":"array","items":{"anyOf":[{"$ref":"#"},{"$ref":"#/properties/next"}]}}}}`, long, ""},
		{`{"items":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"integer"}}}`, `[1` + strings.Repeat(",1", 100_000) + `]`, ""},
		{twice + `,"default":` + deep + `}`, "", "its default could fit in too many ways to be checked"},
		{twice + `,"default":[[1]]}`, "[]", ""},
		{`{"default":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "[]", "its default: nested more than 100 deep"},
		{`{"$defs":{"a000":{}` + chain.String() + `}}`, "[]", "more than 200 parts of it apply to one value, each because of the one before"},
		{strings.Repeat(`{"allOf":[`, 300) + "{}" + strings.Repeat("]}", 300), "[]", "more than 200 parts of it apply to one value, each because of the one before"},
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal([]byte(c.schema), &s); err != nil {
			t.Fatal(err)
		}
		err := strict.Terminates(&s)
		if err == nil {
			r, bad := s.Resolve(nil)
			if bad != nil {
				t.Fatal(bad)
			}
			err = strict.Check(r, json.RawMessage(c.value))
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%.200s: %v, want %q", c.schema, err, c.want)
		}
	}
}

// What a stranger's schema costs goes with its size, also if its names are long.
func TestLongNamesCostNoMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	text := `{"type":"object","properties":{"` + strings.Repeat("a", 100<<10) + `":{"allOf":[{}` + strings.Repeat(",{}", 9000) + `]}}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := (strict.SchemaReader{Foreign: true, Lenient: true}).Read([]byte(text), true); err == nil {
		t.Error("it is read")
	}
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; cost > 400<<20 {
		t.Errorf("%d MiB for a schema of %d KiB", cost>>20, len(text)>>10)
	}
}

// A server may send a name of a megabyte and below it three hundred thousand items.
func TestDecodeTakesNoTime(t *testing.T) {
	t.Parallel()
	text := `{"` + strings.Repeat("a", 1<<20) + `":[0` + strings.Repeat(",0", 300_000) + `]}`
	done := make(chan error, 1)
	go func() {
		_, err := strict.Decode([]byte(text))
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it takes longer than a minute")
	}
	if _, err := strict.Decode([]byte(`{"a/b":[{},{"c":1,"c":2}]}`)); err == nil || err.Error() != "/a~1b/1/c: given twice" {
		t.Error(err)
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
