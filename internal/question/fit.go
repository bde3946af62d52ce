package question

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/runlog"
)

// Fit converts a typed answer to JSON, or returns an error that describes the expected answer.
func Fit(q *runlog.Question, s string) (json.RawMessage, error) {
	if f := FormOf(q.Schema); f.Declinable() && strings.EqualFold(strings.TrimSpace(s), "decline") {
		s, _ = f.Decline(json.RawMessage(declining))
	}
	s = decision(q, s)
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if slices.Contains(q.Options, s) {
		if word, open := Opening(q, s); open {
			return nil, fmt.Errorf("want the text in place of the dots: %s: NEW TEXT", word)
		}
	}
	if q.Several() {
		return several(q, s)
	}
	kind := TypeOf(q.Schema)
	typed := kind != "" && kind != "string"
	if !typed {
		if err = q.Fits(text); err == nil {
			return text, nil
		}
	}
	if len(q.Schema) > 0 && json.Valid([]byte(s)) {
		if err = q.Fits(json.RawMessage(s)); err == nil {
			return json.RawMessage(s), nil
		}
	}
	switch f := FormOf(q.Schema); {
	case agent.Permission(q):
		return nil, fmt.Errorf("want one of %s, or deny: why", strings.Join(q.Options, ", "))
	case len(q.Options) > 0:
		return nil, fmt.Errorf("want one of %s", strings.Join(offered(q), ", "))
	case f != nil:
		if why := f.Wrong(s); why != "" {
			return nil, errors.New(why)
		}
		return nil, err // of several fields together
	case typed && !(&Field{Type: kind}).Takes(json.RawMessage(s)):
		return nil, fmt.Errorf("want %s, got %s", KindOf(kind), got(text))
	}
	return nil, fmt.Errorf("%s does not fit what the question wants", got(text))
}

// TypeOf returns the type that a schema wants, "" if it wants none or one of several.
func TypeOf(schema json.RawMessage) string {
	var s struct{ Type string }
	_ = json.Unmarshal(schema, &s)
	return s.Type
}

// offered returns the answers that a question offers, in the form to type them.
func offered(q *runlog.Question) []string {
	var out []string
	for _, o := range q.Options {
		out = append(out, Spellings(q, o)...)
	}
	if Others(q) {
		out = append(out, "or another answer that fits")
	}
	return out
}

// Others reports whether a question with options takes other answers, too.
func Others(q *runlog.Question) bool {
	var schema struct{ Enum []any }
	_ = json.Unmarshal(q.Schema, &schema)
	return len(q.Schema) > 0 && len(schema.Enum) == 0 && !Gated(q)
}

// Spellings returns the forms in which an option can be typed: with its required text, or with and without a reason.
func Spellings(q *runlog.Question, option string) []string {
	word, open := Opening(q, option)
	switch {
	case open:
		return []string{word + ": NEW TEXT"}
	case reasoned(q, option):
		return []string{option, option + ": WHY"}
	}
	return []string{option}
}

// Gated reports whether a text may follow an answer to the question.
func Gated(q *runlog.Question) bool {
	return slices.ContainsFunc(q.Options, func(o string) bool {
		_, open := Opening(q, o)
		return open || reasoned(q, o)
	})
}

// Opening returns the word of an option that requires a text, such as "edit: …".
func Opening(q *runlog.Question, option string) (word string, open bool) {
	word, open = strings.CutSuffix(option, ": …")
	return word, open && (accepts(q, word+": x") || accepts(q, word+": {}"))
}

// reasoned reports whether a reason may follow an option, but not just any text may be answered.
func reasoned(q *runlog.Question, option string) bool {
	return len(q.Schema) > 0 && !agent.Permission(q) && accepts(q, option+": x") && !accepts(q, "x")
}

func accepts(q *runlog.Question, s string) bool {
	text, err := json.Marshal(s)
	return err == nil && q.Fits(text) == nil
}

// decision parses a typed answer about a call or at a gate: in upper or lower case, and also as yes or no.
func decision(q *runlog.Question, s string) string {
	yes, no, all := agent.AnswerOnce, agent.AnswerDeny, false
	switch Kind(q) {
	case runlog.QuestionPermission:
		all = true
	case runlog.QuestionGate:
		yes, no = "approve", "reject"
	default:
		return s
	}
	word, why, more := strings.Cut(s, ":")
	switch word = strings.ToLower(strings.TrimSpace(word)); {
	case more && (word == no || word == "n" || word == "no"):
		return no + ":" + why
	case more:
		return s
	case word == "y" || word == "yes":
		return yes
	case word == "n" || word == "no":
		return no
	case all || word == yes || word == no:
		return word
	}
	return s
}
