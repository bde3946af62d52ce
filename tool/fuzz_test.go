package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
)

// FuzzArgs compares strict decoding with what encoding/json and the schema package say:
// accepted exactly if both accept, no key is given twice and none is misspelled.
func FuzzArgs(f *testing.F) {
	type inner struct {
		N int `json:"n"`
	}
	type args struct {
		S string         `json:"s"`
		I int            `json:"i,omitempty"`
		F float64        `json:"f,omitempty"`
		B bool           `json:"b,omitempty"`
		L []inner        `json:"l,omitempty"`
		M map[string]int `json:"m,omitempty"`
	}
	for _, s := range []string{
		`{"s":"x"}`, `{"s":"x","i":1,"f":1.5,"b":true,"l":[{"n":1}],"m":{"a":1}}`, `{"S":"x"}`, `{"s":"x","s":"y"}`, `{"s":null}`,
		`{"s":"x","i":1.0}`, `{"s":"x","i":1e3}`, `{"s":"x","i":1e99}`, `{"s":"x","m":{"a":1,"a":2}}`, `[]`, `{"s":"x"} {}`, ``, `{"s":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	var got *args
	w, err := New("f", "", func(_ context.Context, in args) (string, error) { got = &in; return "ok", nil }, nil)
	if err != nil {
		f.Fatal(err)
	}
	set, err := NewSet(w)
	if err != nil {
		f.Fatal(err)
	}
	check, err := newArgsChecker(w.Input)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got = nil
		r := set.Call(context.Background(), "f", &Call{Args: b})
		if r.Error != (got == nil) {
			t.Fatalf("error %v, called %v", r.Error, got != nil)
		}
		if got == nil {
			return
		}
		if len(bytes.TrimSpace(b)) == 0 {
			t.Fatal("called without its required argument")
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		if err := check.resolved.Validate(v); err != nil {
			t.Fatalf("accepted what does not fit: %v", err)
		}
		if twice(b) {
			t.Fatalf("accepted a key given twice: %s", b)
		}
	})
}

// twice says whether an object in b has a key more than once.
func twice(b []byte) bool {
	d := json.NewDecoder(bytes.NewReader(b))
	type frame struct {
		keys   map[string]bool
		expect bool
	}
	var stack []*frame
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return false
		}
		if err != nil {
			return true
		}
		top := func() *frame {
			if len(stack) == 0 || stack[len(stack)-1].keys == nil {
				return nil
			}
			return stack[len(stack)-1]
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if f := top(); f != nil {
				f.expect = true
			}
			f := &frame{expect: true}
			if tok == json.Delim('{') {
				f.keys = map[string]bool{}
			}
			stack = append(stack, f)
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
			continue
		}
		f := top()
		if f == nil {
			continue
		}
		if !f.expect {
			f.expect = true
			continue
		}
		key := tok.(string)
		if f.keys[key] {
			return true
		}
		f.keys[key] = true
		f.expect = false
	}
}
