package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/tool"
)

func schema(t *testing.T, s string) *jsonschema.Schema {
	t.Helper()
	var out jsonschema.Schema
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestOutput(t *testing.T) {
	big := `{"n":1,"s":"` + strings.Repeat("x", 2*clean.MaxBytes) + `"}`
	for _, tc := range []struct {
		name, gives string
		whole       bool
		want        []string // of a failure
	}{
		{"fits", `{"n": 1}`, false, nil},
		{"another type", `{"n": "one"}`, false, []string{"the result of counter", `/n: is the string "one", want integer`}},
		{"two places", `{"n": 0, "list": [{"id": 7}]}`, false, []string{"/n: is 0, want at least 1", "/list/0/id: is 7, want string"}},
		{"missing", `{}`, false, []string{"/n: missing"}},
		{"no JSON", `one`, false, []string{"not valid JSON"}},
		{"not even UTF-8", "\xff", false, []string{"not valid UTF-8"}},
		{"cut", big, false, nil},
		{"whole", big, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set, err := tool.NewSet(&tool.Tool{
				Name: "counter", Input: &jsonschema.Schema{Type: "object"}, Whole: tc.whole,
				Output: schema(t, `{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1},"list":{"type":"array","items":{"$ref":"#/$defs/item"}}},"$defs":{"item":{"properties":{"id":{"type":"string"}}}}}`),
				Run:    func(context.Context, *tool.Call) (string, error) { return tc.gives, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			r := set.Call(t.Context(), "counter", nil)
			if r.Error != (tc.want != nil) {
				t.Fatalf("%+v", r)
			}
			for _, w := range tc.want {
				if !strings.Contains(r.Text, w) {
					t.Errorf("%q does not say %q", r.Text, w)
				}
			}
			if tc.want == nil && (r.Text == tc.gives) != (tc.whole || tc.gives != big) {
				t.Errorf("%d of %d bytes", len(r.Text), len(tc.gives))
			}
			if whole := set.CallWhole(t.Context(), "counter", nil); tc.want == nil && whole.Text != tc.gives {
				t.Errorf("CallWhole gives %d of %d bytes", len(whole.Text), len(tc.gives))
			}
		})
	}
}

// What is given whole is cleaned all the same.
func TestWholeIsClean(t *testing.T) {
	set, err := tool.NewSet(&tool.Tool{Name: "a", Input: &jsonschema.Schema{Type: "object"}, Whole: true,
		Run: func(context.Context, *tool.Call) (string, error) { return "\x1b[31mred\x1b[0m\r\n", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if r := set.Call(t.Context(), "a", nil); r.Text != "red\n" {
		t.Errorf("%q", r.Text)
	}
}

// Wherever arguments do not fit, the message names the place by a JSON pointer.
func TestPointers(t *testing.T) {
	const s = `{"type":"object","properties":{
		"a":{"$ref":"#/$defs/item"},
		"b":{"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]},
		"c":{"allOf":[{"minimum":3},{"exclusiveMaximum":9}]},
		"d":{"type":"string","pattern":"^[a-z]+$"},
		"e":{"const":"yes"},
		"f/g":{"type":"array","items":{"$ref":"#/properties/d"}}},
		"$defs":{"item":{"type":"object","properties":{"next":{"$ref":"#/$defs/item"},"n":{"type":"integer"}}}}}`
	set, err := tool.NewSet(&tool.Tool{Name: "a", Input: schema(t, s), Run: func(context.Context, *tool.Call) (string, error) { return "ok", nil }})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"a":{"next":{"next":{"n":"x"}}}}`: `/a/next/next/n: is the string "x", want integer`,
		`{"b":7}`:                           `/b: is none of the 2 things it may be; of the nearest: /b: is 7, want string`,
		`{"b":{}}`:                          `/b: is none of the 2`,
		`{"c":1}`:                           `/c: is 1, want at least 3`,
		`{"c":9}`:                           `/c: is 9, want less than 9`,
		`{"d":"A"}`:                         `/d: is the string "A", want a match of the pattern ^[a-z]+$`,
		`{"e":"no"}`:                        `/e: is the string "no", want "yes"`,
		`{"f/g":["a","B"]}`:                 `/f~1g/1: is the string "B"`,
		`{"a":{"next":{}},"b":{"x":1},"c":5,"d":"x","e":"yes","f/g":[]}`: "",
	} {
		why, refuses := set.Refuses("a", []byte(args))
		if r := set.Call(t.Context(), "a", &tool.Call{Args: []byte(args)}); r.Error != (want != "") || refuses != r.Error || r.Error && r.Text != why.Text || !strings.Contains(why.Text, want) {
			t.Errorf("%s: %q, want %q; refused: %v %q", args, r.Text, want, refuses, why.Text)
		}
	}
	if why, refuses := set.Refuses("b", nil); !refuses || !strings.Contains(why.Text, "no tool") {
		t.Errorf("%+v", why)
	}
}

// A schema that a stranger made so that checking a value never ends is refused: an endless
// recursion would be the end of the process.
func TestEndlessSchemas(t *testing.T) {
	wide := `{"type":"object","$defs":{"a":{}`
	for i := range 30 {
		next := strings.Repeat("a", i+1)
		wide += `,"` + next + `a":{"anyOf":[{"$ref":"#/$defs/` + next + `"},{"$ref":"#/$defs/` + next + `"}]}`
	}
	for s, want := range map[string]string{
		`{"type":"object","$ref":"#"}`:                             "refers to itself",
		`{"type":"object","default":{},"$ref":"#"}`:                "refers to itself",
		`{"type":"object","allOf":[{"not":{"$ref":"#/allOf/0"}}]}`: "refers to itself",
		`{"type":"object","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`:                         "refers to itself",
		`{"type":"object","properties":{"a":{"oneOf":[{"$ref":"#/properties/a"}]}}}`:                                                       "refers to itself",
		`{"type":"object","dependentSchemas":{"a":{"$ref":"#"}}}`:                                                                          "refers to itself",
		wide + `},"$ref":"#/$defs/` + strings.Repeat("a", 31) + `"}`:                                                                       "apply to one value",
		`{"type":"object","$defs":{"a":{"$anchor":"x","$ref":"#x"}}}`:                                                                      "leads nowhere",
		`{"type":"object","$dynamicRef":"#x"}`:                                                                                             "$dynamicRef",
		`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"items":{"anyOf":[{"$ref":"#"},{"type":"string"}]}}}}`:                       "",
		`{"type":"object","definitions":{"tree~/":{"items":{"$ref":"#/definitions/tree~0~1"}}},"items":{"$ref":"#/definitions/tree~0~1"}}`: "",
	} {
		_, err := tool.NewSet(&tool.Tool{Name: "a", Input: schema(t, s), Run: func(context.Context, *tool.Call) (string, error) { return "", nil }})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", s, err, want)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{}}}`)
	f.Add(`{"anyOf":[{"type":"string","pattern":"("},{"const":1}]}`, `1`)
	f.Add(`{"$ref":"#/allOf/0","allOf":[{"items":[{}]}]}`, `[[]]`)
	f.Add(`{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, `1e400`)
	f.Fuzz(func(t *testing.T, s, text string) {
		var schema jsonschema.Schema
		if json.Unmarshal([]byte(s), &schema) != nil {
			return
		}
		if err := strict.CheckJSON(&schema, text); err == nil && !json.Valid([]byte(text)) {
			t.Errorf("%q fits", text)
		}
	})
}
