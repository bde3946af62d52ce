package question

import (
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/runlog"
)

// Elicit returns the schema of the form by which a client of another protocol puts a question to its user, and a function that makes the answer from what the
// user entered, or returns why that is none. The form is flat, as the protocols want it. A form that can be declined comes without the field that says so:
// clients have means of their own for that.
func Elicit(q *runlog.Question) (schema json.RawMessage, read func(entered map[string]json.RawMessage) (json.RawMessage, error)) {
	form := FormOf(q.Schema)
	switch {
	case form.Declinable():
		return form.Rest(), func(in map[string]json.RawMessage) (json.RawMessage, error) { return fitObject(q, form.Accept(in)) }
	case form != nil:
		return q.Schema, func(in map[string]json.RawMessage) (json.RawMessage, error) { return fitObject(q, in) }
	case Kind(q) == runlog.QuestionGate:
		return gateForm(q), func(in map[string]json.RawMessage) (json.RawMessage, error) {
			for name, v := range in {
				if string(v) == `""` || string(v) == "null" {
					delete(in, name)
				}
			}
			return fitObject(q, in)
		}
	}
	field := map[string]any{"type": "string", "title": "Answer"}
	switch kind := TypeOf(q.Schema); {
	case q.Several():
		field = map[string]any{"type": "array", "title": "Answers", "items": map[string]any{"type": "string", "enum": q.Options}}
	case len(q.Options) > 0 && !Others(q) && !Gated(q):
		field["enum"] = q.Options
	case kind == "number" || kind == "integer" || kind == "boolean":
		field["type"] = kind
	}
	if len(q.Default) > 0 {
		field["default"] = q.Default
	}
	schema, _ = json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"answer": field}, "required": []string{"answer"}}) // what was decoded encodes
	return schema, func(in map[string]json.RawMessage) (json.RawMessage, error) {
		said := string(in["answer"])
		_ = json.Unmarshal(in["answer"], &said) // of texts; what else there is stays JSON
		return Fit(q, said)
	}
}

// fitObject returns an object as the answer to a question.
func fitObject(q *runlog.Question, in map[string]json.RawMessage) (json.RawMessage, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return Fit(q, string(b))
}

// gateForm returns the form of a gate.
func gateForm(q *runlog.Question) json.RawMessage {
	decisions := []string{"approve", "reject"}
	fields := map[string]any{"reason": map[string]any{"type": "string", "title": "Reason", "description": "why it is rejected"}}
	if slices.Contains(q.Options, "edit: …") {
		decisions = []string{"approve", "edit", "reject"}
		fields["text"] = map[string]any{"type": "string", "title": "Text", "description": "with edit: what to go on with instead"}
	}
	fields["decision"] = map[string]any{"type": "string", "title": "Decision", "enum": decisions}
	schema, _ := json.Marshal(map[string]any{"type": "object", "properties": fields, "required": []string{"decision"}}) // texts encode
	return schema
}
