package recipe

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/strict"
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
		{"header", func(v *yaml.Node) { a.Header, _ = p.text(v, "`header`") }},
		{"options", func(v *yaml.Node) { a.Options, a.About = p.options(v) }},
		{"several", func(v *yaml.Node) { a.Several = p.boolean(v, "`several`") }},
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
	if keys["several"] != nil && keys["options"] == nil {
		p.mark(keys["several"], codeConflict, "`several` is about `options`, which `ask` does not have")
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

// options reads the options of a question, and what they mean.
func (p *reading) options(n *yaml.Node) (all []string, about map[string]string) {
	items, ok := p.sequence(n, "`options`")
	if ok && (len(items) == 0 || len(items) > 100) {
		p.add(posOf(n), codeRange, "`options` has %d options; it must have from 1 to 100", len(items))
	}
	for _, c := range items {
		what := ""
		if c.Kind == yaml.MappingNode {
			label := c
			keys := p.object(c, "an option", []field{
				{"label", func(v *yaml.Node) { label = v }},
				{"description", func(v *yaml.Node) { what, _ = p.text(v, "`description`") }},
			})
			if p.need(c, keys, "an option", "label"); label == c {
				continue
			}
			c = label
		}
		switch o, ok := p.text(c, "an option"); {
		case !ok:
		case slices.Contains(all, o):
			p.mark(c, codeRepeated, "option %s is there twice", quoted(o))
		default:
			if all = append(all, o); what == "" {
				continue
			}
			if about == nil {
				about = map[string]string{}
			}
			about[o] = what
		}
	}
	return all, about
}

// Schema returns what fits as an answer.
func (a *Ask) Schema() *jsonschema.Schema {
	if a.Form != nil {
		return InputSchema(a.Form)
	}
	one := &jsonschema.Schema{Type: "string"}
	for _, o := range a.Options {
		one.Enum = append(one.Enum, o)
	}
	if a.Several {
		return &jsonschema.Schema{Type: "array", Items: one, UniqueItems: true}
	}
	return one
}

// badAnswer returns why a default is not a valid answer to a question, or "" if it is valid.
func badAnswer(a *Ask, n *yaml.Node) string {
	what := "form"
	switch {
	case a.Several:
		what = "options, of which it must be a list"
	case a.Form == nil:
		if n.Kind != yaml.ScalarNode || scalarOf(n).kind != isText {
			return "the default of `ask` must be a text"
		}
		if len(a.Options) > 0 && !slices.Contains(a.Options, n.Value) {
			return fmt.Sprintf("the default of `ask`, %s, is none of its options", quoted(n.Value))
		}
		return ""
	case n.Kind != yaml.MappingNode:
		return "the default of `ask` must be a map of the fields of its form"
	}
	rs, err := a.Schema().Resolve(nil)
	if err != nil {
		return ""
	}
	if err := strict.Check(rs, a.Default); err != nil {
		return fmt.Sprintf("the default of `ask` does not fit its %s: %v", what, err)
	}
	return ""
}

// decodePlain reads JSON as encoding/json does, which the validator of schemas expects.
func decodePlain(raw json.RawMessage) (any, error) {
	var v any
	err := json.Unmarshal(raw, &v)
	return v, err
}
