package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
)

// A toolCheck checks the steps that call tools.
type toolCheck struct {
	*reading
	world  *World
	inputs map[string]*toolInputs // by tool, as far as they were needed
}

// A toolInputs is the schema of a tool's arguments, ready for use.
type toolInputs struct {
	*jsonschema.Schema
	names  []string
	closed bool                 // there are no arguments but these
	types  *jsonschema.Resolved // of single arguments, nil if they cannot be checked
}

func (c *toolCheck) tool(t *Tool) {
	why, off := c.world.ToolsOff[t.Name]
	switch {
	case off:
		text := fmt.Sprintf("tool `%s` is off", name(t.Name))
		if why != "" {
			text += ": " + why
		}
		problem := c.wordAt(t.Pos, t.Name, codeToolOff, text)
		problem.Warning = true
		c.report(problem)
	case c.world.Tools != nil && !c.world.hasTool(t.Name) && c.world.ToolsBad[t.Name] != "":
		c.over(t.Pos, t.Name, codeUnknownTool, "tool `%s` cannot be used: %s", name(t.Name), c.world.ToolsBad[t.Name])
		return
	case c.world.Tools != nil && !c.world.hasTool(t.Name):
		c.missing(t.Pos, codeUnknownTool, "tool", t.Name, c.world.tools(), c.world.ToolsFrom)
		return
	}
	if in := c.of(t.Name); in != nil {
		c.args(t, in)
	}
}

// of returns the arguments of a tool, nil if they are not known.
func (c *toolCheck) of(id string) *toolInputs {
	if in, ok := c.inputs[id]; ok {
		return in
	}
	c.inputs[id] = nil
	s := c.world.ToolInputs[id]
	if s == nil || s.Ref != "" || s.DynamicRef != "" {
		return nil
	}
	in := &toolInputs{Schema: s, names: slices.Sorted(maps.Keys(s.Properties))}
	if a := s.AdditionalProperties; a != nil && a.Not != nil && len(s.PatternProperties) == 0 {
		in.closed = string(compact(a.Not)) == "true"
	}
	types := &jsonschema.Schema{Schema: s.Schema, Defs: s.Defs, Definitions: s.Definitions, Properties: s.Properties}
	if types = types.CloneSchemas(); strict.CheckJSON(types, "{}") == nil { // a schema without an end is not checked: it is the tool's business
		in.types, _ = types.Resolve(nil)
	}
	c.inputs[id] = in
	return in
}

// args checks the literal arguments of a tool; the value of a template may have any type.
func (c *toolCheck) args(t *Tool, in *toolInputs) {
	has := map[string]bool{}
	var fields []valueField
	if t.Args != nil {
		fields = t.Args.node.fields
	}
	for i := range fields {
		has[fields[i].key] = true
	}
	for i := range fields {
		f := &fields[i]
		s, known := in.Properties[f.key]
		if !known {
			c.unknownArg(t, in, f, has)
			continue
		}
		raw, ok := f.node.literal()
		if !ok {
			continue
		}
		if why := misfit(in, s, f.key, raw); why != "" {
			c.add(f.node.pos, codeArgType, "argument `%s` of tool `%s` %s", name(f.key), t.Name, why)
		}
	}
	for _, need := range in.Required {
		if !has[need] {
			c.over(t.Pos, t.Name, codeMissingArg, "tool `%s` needs argument `%s`; give it under `args`", t.Name, name(need))
		}
	}
}

// unknownArg reports an argument that a tool does not have. If a tool accepts any argument, it
// warns of one that resembles a missing known one.
func (c *toolCheck) unknownArg(t *Tool, in *toolInputs, f *valueField, has map[string]bool) {
	hint := c.hint(f.key, in.names)
	text := fmt.Sprintf("tool `%s` has no argument `%s`", t.Name, name(f.key))
	switch {
	case in.closed && len(in.names) == 0:
		c.over(f.pos, f.key, codeUnknownArg, "%s; it has none", text)
	case in.closed:
		c.over(f.pos, f.key, codeUnknownArg, "%s%s", text, hint)
	case meant(hint) != "" && !slices.ContainsFunc(in.names, func(n string) bool { return has[n] && strings.Contains(hint, fmt.Sprintf("%q", n)) }):
		problem := c.wordAt(f.pos, f.key, codeUnknownArg, text+hint)
		problem.Warning = true
		c.report(problem)
	}
}

// misfit returns why a value does not fit an argument, or "" if it does.
func misfit(in *toolInputs, s *jsonschema.Schema, key string, raw json.RawMessage) string {
	v, err := decodePlain(raw)
	if err != nil || in.types == nil || s == nil || !strict.Affordable(in.types.Schema(), map[string]any{key: v}) {
		return ""
	}
	if err = in.types.Validate(map[string]any{key: v}); err == nil {
		return ""
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return isA(v, t) }) {
		words := make([]string, len(types))
		for i, t := range types {
			words[i] = schemaType(t)
		}
		got := typeOf(v)
		if _, number := v.(float64); number {
			got = "the number " + oneLine(string(raw), 60)
		}
		return fmt.Sprintf("must be %s, got %s", either(words), got)
	}
	if len(s.Enum) > 0 && len(s.Enum) <= 12 {
		words := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			words[i] = oneLine(string(compact(e)), 60)
		}
		return "must be " + either(words)
	}
	text := err.Error()
	for strings.HasPrefix(text, "validating ") {
		_, rest, ok := strings.Cut(text, ": ")
		if !ok {
			break
		}
		text = rest
	}
	return "does not fit its schema: " + oneLine(text, 300)
}

// isA reports whether a value is of a type of JSON Schema.
func isA(v any, t string) bool {
	switch x := v.(type) {
	case nil:
		return t == "null"
	case string:
		return t == "string"
	case bool:
		return t == "boolean"
	case float64:
		return t == "number" || t == "integer" && x == float64(int64(x))
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	}
	return false
}

// schemaType returns a type of JSON Schema in words.
func schemaType(t string) string {
	switch t {
	case "array":
		return typeWords("list")
	case "null":
		return "null"
	}
	return typeWords(t)
}
