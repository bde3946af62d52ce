package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// An answer is how the model is made to answer with JSON: by the format of the output
// where the server can enforce the schema, else by a tool whose input is the answer.
// A nil answer is any text.
type answer struct {
	schema *jsonschema.Schema
	tool   string // the name of the tool; "" for the format
}

// called reports whether the answer comes as the input of a tool.
func (a *answer) called() bool { return a != nil && a.tool != "" }

// shape asks for an answer that fits the request's schema.
func (r *request) shape(req *model.Request) error {
	if req.Schema == nil {
		return nil
	}
	raw, err := json.Marshal(req.Schema)
	if err != nil {
		return fmt.Errorf("the schema of the answer: %w", err)
	}
	r.answer = &answer{schema: req.Schema}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("the schema of the answer: %w", err)
	}
	native, ok := enforceable(v)
	if !ok {
		return r.answerByTool()
	}
	if r.OutputConfig == nil {
		r.OutputConfig = &outputConfig{}
	}
	r.OutputConfig.Format = &format{Type: "json_schema", Schema: native}
	return nil
}

// answerByTool adds a tool that takes the answer, and makes the model call it or another one.
// Where a tool must be called anyway the turn has no answer.
func (r *request) answerByTool() error {
	if r.forced() {
		r.answer = nil
		return nil
	}
	t, err := encodeTool(&model.ToolSpec{Name: "answer", Input: r.answer.schema})
	if err != nil {
		return err
	}
	for n := 2; slices.ContainsFunc(r.Tools, func(other tool) bool { return other.Name == t.Name }); n++ {
		t.Name = fmt.Sprintf("answer_%d", n)
	}
	t.Description = "Takes your final answer. When you are done, call it once, in place of answering with text."
	r.answer.tool = t.Name
	r.Tools = append(r.Tools, t)
	switch {
	case r.Thinking != nil: // a turn that thinks cannot be made to call a tool, only asked to
		r.ToolChoice = nil
		r.System = append(r.System, block{Type: "text", Text: "Give your final answer by calling the tool " + t.Name + ", not as text."})
	case r.ToolChoice != nil: // the other tools are only there for the history
		r.ToolChoice = &toolChoice{Type: "tool", Name: t.Name}
	default:
		r.ToolChoice = &toolChoice{Type: "any"}
	}
	return nil
}

// replace turns the call that holds the answer into text, which replaces all other text. If the
// turn calls other tools too, it is not finished and the answer is premature. It also returns the
// stop code without that call.
func (a *answer) replace(held []model.Part, stop model.StopCode) ([]model.Part, model.StopCode) {
	isAnswer := func(p model.Part) bool { return p.Kind == model.ToolCall && p.Call.Name == a.tool }
	i := slices.IndexFunc(held, isAnswer)
	if i < 0 {
		return held, stop
	}
	text := model.Part{Kind: model.Text, Text: string(held[i].Call.Args)}
	held = slices.DeleteFunc(held, isAnswer)
	if slices.ContainsFunc(held, func(p model.Part) bool { return p.Kind == model.ToolCall }) {
		return held, stop
	}
	held = slices.DeleteFunc(held, func(p model.Part) bool { return p.Kind == model.Text })
	if stop == model.StopCalls {
		stop = model.StopEnd
	}
	return append(held, text), stop
}

// enforceable returns an equivalent or weaker schema that the server can enforce. Constraints
// without a supported keyword are moved to the description. It fails for objects with arbitrary
// property names, for recursion, and for combinations of schemas.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs
func enforceable(root any) (json.RawMessage, bool) {
	top, ok := root.(map[string]any)
	if !ok {
		return nil, false
	}
	out, ok := enforce(top, 0)
	if !ok || out["type"] != "object" {
		return nil, false
	}
	raw, err := json.Marshal(out)
	return raw, err == nil
}

const maxSchemaDepth = 12

func enforce(in any, depth int) (map[string]any, bool) {
	s, ok := in.(map[string]any)
	if !ok || depth > maxSchemaDepth {
		return nil, false
	}
	out, told := map[string]any{}, []string(nil)
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		value := s[keyword]
		switch keyword {
		case "type", "description", "title", "enum", "const", "required":
			out[keyword] = value
		case "additionalProperties":
			if open, ok := value.(bool); !ok || open {
				return nil, false
			}
		case "properties":
			fields, ok := value.(map[string]any)
			sub := map[string]any{}
			for name, field := range fields {
				if sub[name], ok = enforce(field, depth+1); !ok {
					return nil, false
				}
			}
			if !ok {
				return nil, false
			}
			out[keyword] = sub
		case "items":
			item, ok := enforce(value, depth+1)
			if !ok {
				return nil, false
			}
			out[keyword] = item
		case "anyOf":
			list, ok := value.([]any)
			var subs []any
			for _, choice := range list {
				sub, fine := enforce(choice, depth+1)
				ok = ok && fine
				subs = append(subs, sub)
			}
			if !ok {
				return nil, false
			}
			out[keyword] = subs
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
			"format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default", "examples":
			raw, err := json.Marshal(value)
			if err != nil {
				return nil, false
			}
			told = append(told, keyword+": "+string(raw))
		case "$schema", "$id", "$comment":
		default:
			return nil, false
		}
	}
	return finishObject(out, told)
}

// finishObject closes an object, and describes constraints that have no keyword.
func finishObject(out map[string]any, told []string) (map[string]any, bool) {
	if out["type"] == nil && out["anyOf"] == nil && out["enum"] == nil && out["const"] == nil {
		return nil, false
	}
	object := out["type"] == "object"
	if kinds, ok := out["type"].([]any); ok {
		object = slices.Contains(kinds, any("object"))
	}
	if object {
		if fields, ok := out["properties"].(map[string]any); !ok || len(fields) == 0 {
			return nil, false // an object of anything
		}
		out["additionalProperties"] = false
	}
	if len(told) > 0 {
		description, _ := out["description"].(string)
		out["description"] = strings.TrimSpace(description + " (" + strings.Join(told, ", ") + ")")
	}
	return out, true
}
