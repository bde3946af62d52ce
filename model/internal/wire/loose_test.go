package wire

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/model"
)

// What servers say of a conversation that is too long, and what is like it and is something else.
func TestOverflow(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		text   string
		after  time.Duration
		want   bool
	}{
		{400, "", "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens", 0, true},
		{400, "exceed_context_size_error", "request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it", 0, true},
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", 0, true},
		{400, "", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 0, true},
		{400, "INVALID_ARGUMENT", "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).", 0, true},
		{400, "invalid_request_error", "context window exceeds limit (2013)", 0, true},
		{400, "", "tokens in request more than max tokens allowed", 0, true},
		{400, "", "Please reduce the length of the messages or completion.", 0, true},
		{400, "", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 0, true},
		{400, "", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 0, true},
		{422, "", "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000", 0, true},
		{400, "", "Range of input length should be [1, 30720]", 0, true},
		{400, "1261", "Prompt exceeds max length", 0, true},
		{400, "", "Your request exceeded model token limit: 262144 (requested: 280000)", 0, true},
		{400, "", "prompt token count of 135000 exceeds the limit of 128000", 0, true},
		{400, "", "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 0, true},
		{400, "", "Input is too long for requested model.", 0, true},
		{0, "", "the request exceeds the available context size, try increasing it", 0, true},
		{500, "", "the input length exceeds the context length", 0, true},

		{413, "rate_limit_exceeded", "Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 9000", 0, false},
		{429, "", "Request exceeds the context length of your tier", 0, false},
		{400, "", "You exceeded your current quota of tokens", 0, false},
		{503, "", "all context windows are in use", 3 * time.Second, false},
		{400, "", "max_tokens is too large: 32000. This model supports at most 16384 completion tokens", 0, false},
		{400, "", "max_tokens: 40000 > 8192, which is the maximum allowed number of output tokens", 0, false},
		{400, "", "max_tokens (32000) exceeds the 16384 output tokens of this model", 0, false},
		{400, "", "The tool descriptions exceed 4096 tokens", 0, false},
		{400, "", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 0, false},
		{400, "", "m does not support tools", 0, false},
		{401, "", "the token is too long", 0, false},
		{502, "", "bad gateway", 0, false},
	} {
		e := &model.Error{Status: c.status, Code: c.code, Err: errors.New(c.text), RetryAfter: c.after, Temporary: true}
		overflow(e)
		if got := e.Code == tooLong; got != c.want || got == e.Temporary {
			t.Errorf("%d %s: too long is %v (temporary %v), want %v", c.status, c.text, got, e.Temporary, c.want)
		}
	}
}

// Arguments that are an object stay as they are, whatever is in them; what is mended is an object that means one thing.
func TestMend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		whole := `{"a":` + quoted(text) + `,"b":[{}]}`
		if got := string(mend([]byte(whole))); got != whole {
			t.Errorf("%s became %s", whole, got)
		}
		for _, odd := range []string{whole + "}", "{}" + whole, " " + quoted(whole), quoted(quoted(whole)) + "\n"} {
			if got := string(mend([]byte(odd))); got != whole {
				t.Errorf("%s became %s, want %s", odd, got, whole)
			}
		}
		cut := whole[:rapid.IntRange(1, len(whole)-1).Draw(t, "cut")]
		if got := mend([]byte(cut)); checkObject(append(got, ' ')) == nil {
			t.Errorf("%s became %s", cut, got)
		}
	})
	for in, want := range map[string]string{
		"":                     "",
		"null":                 "null",
		`"text"`:               `"text"`,
		`{"a":1}{"a":2}`:       `{"a":1}{"a":2}`,
		`{"a":1} and more`:     `{"a":1} and more`,
		"{\"a\":\"x\ny\t\"}":   `{"a":"x\u000ay\u0009"}`,
		"{\"a\":\"x\\\ny\"}":   "{\"a\":\"x\\\ny\"}",
		`{}}`:                  `{}`,
		`{}{}`:                 `{}`,
		"{\"a\":\n1}":          "{\"a\":\n1}",
		`{"a":"x"}, {"a":"y"}`: `{"a":"x"}, {"a":"y"}`,
	} {
		if got := string(mend([]byte(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// Accounting costs no answer, whatever its form.
func FuzzAsides(f *testing.F) {
	for _, seed := range []string{`10`, `10.0`, `"10"`, `-1`, `null`, `[]`, `{}`, `{"V":"x"}`, `true`, `1e300`, `"x"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c Count
		var w Word
		var a Aside[struct{ V Count }]
		if err := errors.Join(c.UnmarshalJSON(raw), w.UnmarshalJSON(raw), a.UnmarshalJSON(raw)); err != nil || c < 0 {
			t.Errorf("%s: %v, %d", raw, err, c)
		}
	})
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a string, never
	}
	return string(b)
}
