package encodable_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/encodable"
)

type nested struct {
	Name   string
	Any    any
	Scores []float64
	By     map[string]float32
	Next   *nested
	When   time.Time
	Left   chan int `json:"-"`
	hidden func()
}

// Value must find what json.Marshal refuses, and nothing else.
func TestValue(t *testing.T) {
	circle := &nested{}
	circle.Next = circle
	for _, tc := range []struct {
		v    any
		want string // "" for what is encoded
	}{
		{nil, ""},
		{nested{Name: "x", Any: []any{1, "a", nil, 1.5}, Left: make(chan int), hidden: func() {}}, ""},
		{nested{Scores: []float64{1, 2, math.NaN()}}, "V.Scores[2]: NaN cannot be encoded"},
		{nested{By: map[string]float32{"b": float32(math.Inf(1)), "a": float32(math.Inf(-1)), "c": 1}}, "V.By[a]: -Inf cannot be encoded"},
		{nested{Any: map[string]any{"done": make(chan bool)}}, "V.Any[done]: chan bool cannot be encoded"},
		{&nested{Next: &nested{Any: func() {}}}, "V.Next.Any: func() cannot be encoded"},
		{nested{Any: map[[1]int]string{{1}: "x"}}, "V.Any: [1]int cannot be the key of a map; use a string, an integer, or a type with MarshalText and UnmarshalText"},
		{nested{Any: json.RawMessage("{")}, "V.Any: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"},
		{nested{Any: json.Number("x")}, `V.Any: json: invalid number literal "x"`},
		{nested{When: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}, "V.When: json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year outside of range [0,9999]"},
		{[]chan int{nil}, "V[0]: chan int cannot be encoded"},
	} {
		got := ""
		if err := encodable.Value(tc.v, "V"); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%#v: %q, want %q", tc.v, got, tc.want)
		}
		if _, err := json.Marshal(tc.v); (err != nil) != (tc.want != "") {
			t.Errorf("%#v: json.Marshal gives %v", tc.v, err)
		}
		if tc.want != "" && tc.v != nil && reflect.TypeOf(tc.v).Kind() == reflect.Struct && !encodable.Varies(reflect.TypeOf(tc.v)) {
			t.Errorf("%T is taken for one whose values always encode", tc.v)
		}
	}
	if err := encodable.Value(circle, "V"); err == nil || len(err.Error()) > 200 {
		t.Errorf("the error of a cycle is %v", err)
	}
	if encodable.Varies(reflect.TypeFor[struct {
		A []byte
		B map[int]int
		C *bool
		D chan int `json:"-"`
	}]()) {
		t.Error("values that always encode are looked at")
	}
}

// What JSON changes is found by what it looks like there, and told with its field; what only looks like it is not.
func TestSuspect(t *testing.T) {
	for _, tc := range []struct {
		v       any
		suspect bool
		want    string
	}{
		{map[string]any{"a": int64(1 << 53), "b": "\uFFFD"}, true, ""},
		{[]any{int64(1<<53 + 1)}, true, "V[0]: 9007199254740993 would be another number after a resume"},
		{[]any{uint64(1<<53 + 1)}, true, "V[0]: 9007199254740993 would"},
		{[]int64{1<<53 + 1}, true, ""},
		{"12345678901234567890", true, ""},
		{"123456789012345 1234567890", false, ""},
		{"a\xffb", true, `V: "a\xffb" is not UTF-8`},
		{map[string]int{"\xff": 1}, true, `V: "\xff" is not UTF-8`},
		{[]byte("\xff"), false, ""},
		{"\uFFFD", false, ""},
	} {
		b, err := json.Marshal(tc.v)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := encodable.Value(tc.v, "V"); err != nil {
			got = err.Error()
		}
		if encodable.Suspect(b) != tc.suspect || !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: suspect %t, got %q", b, encodable.Suspect(b), got)
		}
	}
}
