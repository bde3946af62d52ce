package recipe

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

func (p *reading) ask(n *yaml.Node, s *step) *Ask {
	a := &Ask{}
	if n.Kind == yaml.ScalarNode {
		a.Question = p.textTemplate(n, "`ask`", &s.sites)
		return a
	}
	var def *yaml.Node
	keys := p.object(n, "`ask`", []field{
		{"question", func(v *yaml.Node) { a.Question = p.textTemplate(v, "`question`", &s.sites) }},
		{"options", func(v *yaml.Node) { a.Options = p.options(v) }},
		{"form", func(v *yaml.Node) {
			if a.Form = p.declared(v, "field"); len(v.Content) == 0 && v.Kind != yaml.ScalarNode {
				p.add(posOf(v), codeRange, "`form` is empty; it needs at least one field")
			}
		}},
		{"default", func(v *yaml.Node) { def = v }},
	})
	p.need(n, keys, "`ask`", "question")
	if keys["options"] != nil && keys["form"] != nil {
		p.mark(keys["form"], codeConflict, "`ask` has options or a form, not both")
		return a
	}
	if def != nil {
		a.Default = p.json(def)
		if why := badAnswer(a, def); why != "" {
			p.mark(def, codeAnswer, "%s", why)
		}
	}
	return a
}

func (p *reading) options(n *yaml.Node) []string {
	items, ok := p.sequence(n, "`options`")
	if ok && (len(items) == 0 || len(items) > 100) {
		p.add(posOf(n), codeRange, "`options` has %d options; it must have from 1 to 100", len(items))
	}
	var all []string
	for _, c := range items {
		switch o, ok := p.text(c, "an option"); {
		case !ok:
		case slices.Contains(all, o):
			p.mark(c, codeRepeated, "option %s is there twice", quoted(o))
		default:
			all = append(all, o)
		}
	}
	return all
}

// badAnswer says why a default is no answer to a question, "" if it is one.
func badAnswer(a *Ask, n *yaml.Node) string {
	if a.Form == nil {
		if n.Kind != yaml.ScalarNode || scalarOf(n).kind != isText {
			return "the default of `ask` must be a text"
		}
		if len(a.Options) > 0 && !slices.Contains(a.Options, n.Value) {
			return fmt.Sprintf("the default of `ask`, %s, is none of its options", quoted(n.Value))
		}
		return ""
	}
	if n.Kind != yaml.MappingNode {
		return "the default of `ask` must be a map of the fields of its form"
	}
	rs, err := InputSchema(a.Form).Resolve(nil)
	if err != nil {
		return ""
	}
	v, err := decodePlain(a.Default)
	if err != nil {
		return ""
	}
	if err := rs.Validate(v); err != nil {
		return fmt.Sprintf("the default of `ask` does not fit its form: %v", err)
	}
	return ""
}

// decodePlain reads JSON as encoding/json does, which the validator of schemas expects.
func decodePlain(raw json.RawMessage) (any, error) {
	var v any
	err := json.Unmarshal(raw, &v)
	return v, err
}
