package recipe

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v4"
)

// declared reads inputs, or the fields of a form: a list of maps or names, or a map from name to the rest.
func (p *reading) declared(n *yaml.Node, what string) []Input {
	var all []Input
	switch n.Kind {
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if c.Kind == yaml.ScalarNode {
				all = append(all, Input{Name: p.named(c, "the name of "+article(what), plainName), Type: "string", Pos: posOf(c)})
				continue
			}
			all = append(all, p.input(c, what, nil))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if k.Kind != yaml.ScalarNode {
				continue // reported already
			}
			if v.Kind == yaml.ScalarNode && scalarOf(v).kind == isNull {
				v = &yaml.Node{Kind: yaml.MappingNode, Line: k.Line, Column: k.Column}
			}
			all = append(all, p.input(v, what, k))
		}
		return all // a name that is there twice is reported as a key
	default:
		p.wrongType(n, "`"+what+"s`", "a list, or a map from names")
		return nil
	}
	first := map[string]Pos{}
	for _, in := range all {
		at, twice := first[in.Name]
		switch {
		case in.Name == "":
		case twice:
			p.add(in.Pos, codeDuplicateInput, "%s `%s` is declared twice, first at %d:%d", what, in.Name, at.Line, at.Col)
		default:
			first[in.Name] = in.Pos
		}
	}
	return all
}

// input reads one input. The key is the name of the input if inputs are a map, or nil if they are a
// list.
func (p *reading) input(n *yaml.Node, what string, key *yaml.Node) Input {
	in := Input{Type: "string", Pos: posOf(n)}
	var typ, def, enum *yaml.Node
	fields := []field{
		{"name", func(v *yaml.Node) { in.Name, in.Pos = p.named(v, "the name of "+article(what), plainName), posOf(v) }},
		{"description", func(v *yaml.Node) { in.Description, _ = p.text(v, "`description`") }},
		{"type", func(v *yaml.Node) { typ = v }},
		{"required", func(v *yaml.Node) { in.Required = p.boolean(v, "`required`") }},
		{"default", func(v *yaml.Node) { def = v }},
		{"enum", func(v *yaml.Node) { enum = v }},
	}
	if key != nil {
		fields = fields[1:]
		in.Pos = posOf(key)
		if in.Name = key.Value; !plainName.match(key.Value) {
			p.mark(key, codeForm, "the name of %s is %s; %s", article(what), quoted(key.Value), plainName.says)
			in.Name = ""
		}
	}
	keys := p.object(n, article(what), fields)
	if key == nil {
		p.need(n, keys, article(what), "name")
	}
	if typ != nil {
		if in.Type = p.choice(typ, "`type`", "string", "integer", "number", "boolean", "list", "object"); in.Type == "" {
			return in // what is of it cannot be told
		}
	}
	if in.Required && def != nil {
		p.mark(keys["default"], codeConflict, "`%s` is required and has a default; take one away", name(in.Name))
	}
	if enum != nil {
		in.Enum = p.enum(enum, &in, typ != nil)
	}
	if def == nil {
		return in
	}
	if in.Default = p.typed(def, "`default`", in.Type, typ != nil); in.Default != nil && len(in.Enum) > 0 && !oneOf(in.Default, in.Enum) {
		p.mark(def, codeEnum, "the default of `%s` is not in its enum", name(in.Name))
	}
	return in
}

func article(what string) string {
	if what == "input" {
		return "an input"
	}
	return "a " + what
}

const maxEnum = 1000

func (p *reading) enum(n *yaml.Node, in *Input, said bool) []json.RawMessage {
	items, ok := p.sequence(n, "`enum`")
	if !ok {
		return nil
	}
	if len(items) == 0 || len(items) > maxEnum {
		p.add(posOf(n), codeRange, "`enum` has %d values; it must have from 1 to %d", len(items), maxEnum)
	}
	var all []json.RawMessage
	for _, c := range items {
		if v := p.typed(c, "a value of `enum`", in.Type, said); v != nil {
			all = append(all, v)
		}
	}
	return all
}

func oneOf(v json.RawMessage, all []json.RawMessage) bool {
	for _, a := range all {
		if bytes.Equal(v, a) {
			return true
		}
	}
	return false
}

// typed parses a value of a type. If the value does not have this type, it returns nil.
func (p *reading) typed(n *yaml.Node, what, t string, said bool) json.RawMessage {
	if n.Kind == yaml.AliasNode {
		return nil
	}
	if v := p.ofType(n, t); v != nil {
		return v
	}
	got := kindOf(n)
	if t != "string" || n.Kind != yaml.ScalarNode || got == string(isNull) {
		p.mark(n, codeDefault, "%s must be %s, got %s", what, typeWords(t), got)
		return nil
	}
	or := ""
	if !said {
		switch scalarOf(n).kind {
		case isBoolean:
			or = ", or say type: boolean"
		case isInteger:
			or = ", or say type: integer"
		case isNumber:
			or = ", or say type: number"
		}
	}
	p.mark(n, codeDefault, "%s must be a text, got %s; quote it: %s%s", what, got, quoted(n.Value), or)
	return nil
}

// typeWords returns the words for a value of a type in messages.
func typeWords(t string) string {
	switch t {
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "boolean":
		return "true or false"
	case "list":
		return "a list"
	case "object":
		return "a map"
	}
	return "a text"
}

func (p *reading) ofType(n *yaml.Node, t string) json.RawMessage {
	switch {
	case t == "list" && n.Kind == yaml.SequenceNode, t == "object" && n.Kind == yaml.MappingNode:
		return p.json(n)
	case n.Kind != yaml.ScalarNode:
		return nil
	}
	s := scalarOf(n)
	fits := t == "string" && s.kind == isText || t == "boolean" && s.kind == isBoolean || t == "number" && (s.kind == isInteger || s.kind == isNumber)
	if t == "integer" {
		if v, ok := whole(s); ok {
			s.json, fits = json.RawMessage(v), true
		}
	}
	if !fits {
		return nil
	}
	if s.odd != "" {
		p.oddScalar(n, s)
	}
	if s.kind == isText {
		return compact(n.Value)
	}
	return s.json
}
