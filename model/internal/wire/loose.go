package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

// Types for what a server tells beside an answer. What does not fit them is left out: accounting never costs an answer.

// A Count is a number of tokens, or an index: 10, 10.0 or "10".
type Count int

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if *c = 0; err == nil && n > 0 && n < 1<<52 {
		*c = Count(n)
	}
	return nil
}

// A Word is a name or an ID: text, or a number that is one.
type Word string

// UnmarshalJSON implements json.Unmarshaler.
func (w *Word) UnmarshalJSON(raw []byte) error {
	var n json.Number
	if *w = ""; json.Unmarshal(raw, (*string)(w)) != nil && json.Unmarshal(raw, &n) == nil {
		*w = Word(n)
	}
	return nil
}

// An Aside is an object, in place of which some servers send a list, a text or nothing.
type Aside[T any] struct{ V T }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Aside[T]) UnmarshalJSON(raw []byte) error {
	var v T
	if a.V = v; json.Unmarshal(raw, &v) == nil {
		a.V = v
	}
	return nil
}

// Failed reports whether the error field of an event says something. Servers also send null, false, "" and {} with every event.
func Failed(raw json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", `""`, "{}", "[]", "0"}, string(bytes.TrimSpace(raw)))
}

const tooLong = "context_length_exceeded" // the code of a conversation that is too long for the model

// overflow gives an error the code of a conversation that is too long, if a server says so in its own words. Limits for a time, and of what is paid for,
// are none of that: a shorter conversation does not help.
func overflow(e *model.Error) {
	text := strings.ToLower(e.Code + " " + e.Err.Error())
	has := func(words ...string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	}
	switch other := e.Status > http.StatusBadRequest && e.Status < http.StatusInternalServerError &&
		e.Status != http.StatusRequestEntityTooLarge && e.Status != http.StatusUnprocessableEntity; {
	case other, e.RetryAfter > 0, has("per minute"), has("per hour"), has("per day"), has("(tpm)"), has("rate limit"), has("quota"), has("billing"):
	case has("context length"), has("context_length"), has("context window"), has("context_window"), has("context size"), has("context_size"), has("context limit"),
		has("prompt", "too long"), has("input", "too long"), has("input length"), has("prompt length"), has("prompt", "max length"), has("maximum model length"),
		has("input token", "exceed"), has("prompt", "token", "exceed"), has("token limit", "exceed"), has("token", "more than max"),
		has("too many tokens"), has("too many input tokens"), has("tokens", "must be <="), has("reduce the length"):
		e.Code, e.Temporary = tooLong, false
	}
}

// mend returns arguments of a call as a JSON object where models and servers write it in a way that has one meaning: as text in text, with line feeds as
// they are within a text, behind an empty object, or with a brace too many.
func mend(args []byte) []byte {
	args = bytes.TrimSpace(args)
	for inner, n := args, 0; n < 2; n++ {
		var text string
		if json.Unmarshal(inner, &text) != nil {
			break
		}
		if inner = bytes.TrimSpace([]byte(text)); bytes.HasPrefix(inner, []byte("{")) {
			args = inner
		}
	}
	if len(args) == 0 || args[0] != '{' || json.Valid(args) {
		return args
	}
	if rest, ok := bytes.CutPrefix(args, []byte("{}")); ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte("{")) {
		args = bytes.TrimSpace(rest)
	}
	var whole []byte
	var b Balance
	for i, c := range args {
		if b.text && !b.escape && c < ' ' {
			whole = fmt.Appendf(whole, `\u%04x`, c)
			continue
		}
		whole = append(whole, c)
		if b.Feed(args[i : i+1]); b.Closed() {
			if len(bytes.Trim(args[i+1:], " \r\n\t}")) == 0 && json.Valid(whole) {
				return whole
			}
			break
		}
	}
	return args
}
