package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

func TestQualifies(t *testing.T) {
	object := func(fields, required string) string {
		return `{"type":"object","properties":{` + fields + `},"required":[` + required + `],"additionalProperties":false}`
	}
	deep := `{"type":"string"}`
	for range strictDepth {
		deep = `{"type":"array","items":` + deep + `}`
	}
	var many, names []string
	for i := range strictProperties + 1 {
		many, names = append(many, fmt.Sprintf(`"p%d":{"type":"string"}`, i)), append(names, fmt.Sprintf(`"p%d"`, i))
	}
	for in, want := range map[string]bool{
		object(`"a":{"type":"string"}`, `"a"`): true,
		object(``, ``):                         true,
		object(`"a":{"type":["string","null"],"description":"x","enum":["a",null]},"b":{"type":"array","items":`+object(`"c":{"const":1,"type":"integer"}`, `"c"`)+`}`, `"a","b"`): true,
		object(`"a":{"anyOf":[{"type":"null"},`+object(`"c":{"type":"string"}`, `"c"`)+`]}`, `"a"`):                                                                                true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"type":"string"}}}`:                                  true,

		object(`"a":{"type":"string"}`, ``):                                       false, // optional
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`: false, // open
		object(`"a":{"type":"object"}`, `"a"`):                                    false, // open inside
		object(`"a":{"type":"string","minLength":1}`, `"a"`):                      false, // not known to be supported
		object(`"a":{"description":"x"}`, `"a"`):                                  false, // of no type
		object(`"a":{"type":[]}`, `"a"`):                                          false,
		object(`"a":true`, `"a"`):                                                 false,
		object(`"a":{"$ref":"http://x"}`, `"a"`):                                  false,
		object(`"a":{"anyOf":[{"type":"object"}]}`, `"a"`):                        false,
		object(`"a":{"type":"array","items":true}`, `"a"`):                        false,
		object(`"a":`+deep, `"a"`):                                                false,
		object(strings.Join(many, ","), strings.Join(names, ",")):                 false,
		`{"type":"string"}`:                                                       false,
		`true`:                                                                    false,
		`{"type":"object","anyOf":[{"type":"string"}],"properties":{},"additionalProperties":false}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(in), &v); err != nil {
			t.Fatal(in, err)
		}
		if got := qualifies(v); got != want {
			t.Errorf("%.300s: got %v", in, got)
		}
	}
}

// TestSchema checks that a server is asked for an answer that fits, and asked in the
// prompt if it does not know how to make it fit.
func TestSchema(t *testing.T) {
	closed := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	strict := &jsonschema.Schema{Type: "object", Required: []string{"a"}, Properties: map[string]*jsonschema.Schema{"a": {Type: "string"}}, AdditionalProperties: closed}
	loose := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "string"}}}
	for _, c := range []struct {
		name, system, refuse string
		schema               *jsonschema.Schema
		want, never          string
		asks                 int
	}{
		{"strict", "", "", strict, `"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{`, `"strict":false`, 1},
		{"not strict", "", "", loose, `"strict":false`, `"strict":true`, 1},
		{"none", "", "", nil, `"hi"`, "response_format", 1},
		{"refused", "", "This response_format type is unavailable now", strict, `"role":"system","content":"Your answer must be one JSON object that fits`, "response_format", 2},
		{"refused, beside a system prompt", "Be brief.", "'json_schema' is not supported", loose, `"content":"Be brief.\n\nYour answer must be one JSON object`, "response_format", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			asks, last := 0, ""
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asks++
				var sent json.RawMessage
				if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
					t.Error(err)
				}
				if last = string(sent); c.refuse != "" && strings.Contains(last, "response_format") {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, `{"error":{"message":%q}}`, c.refuse)
					return
				}
				fmt.Fprint(w, endStop)
			}))
			defer s.Close()
			req := modeltest.Ask()
			req.System, req.Schema = c.system, c.schema
			if _, err := model.Collect(against(t, s.URL, nil).Generate(t.Context(), req), nil); err != nil {
				t.Fatal(err)
			}
			if asks != c.asks || !strings.Contains(last, c.want) || strings.Contains(last, c.never) {
				t.Errorf("asked %d times, last\n%s", asks, last)
			}
			if c.asks > 1 && strings.Count(last, `"role":"system"`) != 1 {
				t.Errorf("there are several system prompts in\n%s", last)
			}
		})
	}
}

// TestUsageDialects checks what servers count apart, or too much.
func TestUsageDialects(t *testing.T) {
	for in, want := range map[string]model.Usage{
		`{"prompt_tokens":100,"completion_tokens":9,"total_tokens":109,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":5}}`: {In: 100, Out: 9, Cached: 60, Written: 30, Reasoning: 5},
		`{"prompt_tokens":100,"completion_tokens":9,"total_tokens":114,"completion_tokens_details":{"reasoning_tokens":5}}`:                                                                      {In: 100, Out: 14, Reasoning: 5},
		`{"prompt_tokens":10,"completion_tokens":-9,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"completion_tokens_details":{"reasoning_tokens":5}}`:                    {In: 10, Cached: 10},
		`{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8}`:                                                                                                                 {In: 10, Out: 2, Cached: 8},
	} {
		body := `data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":` + in + "}\n\n"
		got, err := model.Collect(newModel(t, modeltest.Answer(strings.NewReader(body))).Generate(t.Context(), modeltest.Ask()), nil)
		if err != nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestPriceAndWindow(t *testing.T) {
	modeltest.Known(t, func(price *model.Price, window int) model.Model {
		m, err := New(&Options{Model: "m", Price: price, Window: window})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// TestResetIsHeard checks that a limit that says when it is reset is waited for.
func TestResetIsHeard(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-RateLimit-Remaining-Tokens", "0")
		w.Header().Set("X-RateLimit-Reset-Tokens", "6m0s")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	if e := fails(t, against(t, s.URL, nil), "retry after 6m0s"); e.RetryAfter != 6*time.Minute {
		t.Errorf("got %#v", e)
	}
}
