package recipe

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v4"
)

// A Value is a value with templates in its texts. A text that consists of one reference is replaced
// by the referenced value.
type Value struct{ node valueNode }

// A valueNode is a node of a value's tree.
type valueNode struct {
	pos    Pos
	plain  any       // of what is no text, list or map: nil, bool, int or float64
	text   *Template // of a text
	list   []valueNode
	fields []valueField // of a map
	isList bool
	isMap  bool
}

type valueField struct {
	key  string
	pos  Pos
	node valueNode
}

// Refs returns the references in the value, in the order of the file and with duplicates.
func (v *Value) Refs() []Ref {
	var refs []Ref
	v.node.walk(func(t *Template) { refs = append(refs, t.Refs()...) })
	return refs
}

func (n *valueNode) walk(visit func(*Template)) {
	if n.text != nil {
		visit(n.text)
	}
	for i := range n.list {
		n.list[i].walk(visit)
	}
	for i := range n.fields {
		n.fields[i].node.walk(visit)
	}
}

// String returns the value as JSON, with unexpanded templates.
func (v *Value) String() string { return string(compact(v.node.written())) }

func (n *valueNode) written() any {
	switch {
	case n.text != nil:
		return n.text.text
	case n.isList:
		l := make([]any, len(n.list))
		for i := range n.list {
			l[i] = n.list[i].written()
		}
		return l
	case n.isMap:
		m := make(map[string]any, len(n.fields))
		for i := range n.fields {
			m[n.fields[i].key] = n.fields[i].node.written()
		}
		return m
	}
	return n.plain
}

// Resolve fills in the values. The result encodes as JSON and shares no memory. It fails like
// Render.
func (v *Value) Resolve(s *Scope) (any, error) {
	return v.node.resolve(s, &room{maxValue, maxValue})
}

func (n *valueNode) resolve(s *Scope, free *room) (any, error) {
	if !free.take(1) {
		return nil, free.over("", 0)
	}
	switch {
	case n.text != nil:
		if ref := n.text.exact(); ref != nil {
			v, err := s.value(*ref, true)
			if err != nil {
				return nil, err
			}
			before := free.left
			if v, err = clone(v, free); err != nil {
				return nil, free.over(ref.path, before-free.left)
			}
			return v, nil
		}
		return n.text.render(s, free)
	case n.isList:
		l := make([]any, len(n.list))
		for i := range n.list {
			var err error
			if l[i], err = n.list[i].resolve(s, free); err != nil {
				return nil, err
			}
		}
		return l, nil
	case n.isMap:
		m := make(map[string]any, len(n.fields))
		for i := range n.fields {
			var err error
			if m[n.fields[i].key], err = n.fields[i].node.resolve(s, free); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return n.plain, nil
}

// clone copies a value if it fits.
func clone(v any, free *room) (any, error) {
	size := 1
	if s, ok := v.(string); ok {
		size += len(s)
	}
	if !free.take(size) {
		return nil, free.over("", 0)
	}
	var err error
	switch x := v.(type) {
	case []any:
		l := make([]any, len(x))
		for i := range x {
			if l[i], err = clone(x[i], free); err != nil {
				return nil, err
			}
		}
		return l, nil
	case map[string]any:
		m := make(map[string]any, len(x))
		for k := range x {
			if m[k], err = clone(x[k], free); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return v, nil
}

// value reads a value with templates. The sites are where its references are.
func (p *reading) value(n *yaml.Node, at *[]site) *Value {
	return &Value{p.valueNode(n, at)}
}

// mapping reads a map of values.
func (p *reading) mapping(n *yaml.Node, what string, at *[]site) *Value {
	if n.Kind != yaml.MappingNode {
		p.wrongType(n, what, "a map")
		return nil
	}
	return p.value(n, at)
}

// result reads the output of a block: a text, a list or a map.
func (p *reading) result(n *yaml.Node, at *[]site) *Value {
	if n.Kind == yaml.ScalarNode {
		if _, ok := p.text(n, "`output`"); !ok {
			return nil
		}
	}
	return p.value(n, at)
}

func (p *reading) valueNode(n *yaml.Node, at *[]site) valueNode {
	v := valueNode{pos: posOf(n)}
	switch n.Kind {
	case yaml.SequenceNode:
		v.isList = true
		for _, c := range n.Content {
			v.list = append(v.list, p.valueNode(c, at))
		}
	case yaml.MappingNode:
		v.isMap = true
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := n.Content[i]; k.Kind == yaml.ScalarNode {
				v.fields = append(v.fields, valueField{k.Value, posOf(k), p.valueNode(n.Content[i+1], at)})
			}
		}
	case yaml.ScalarNode:
		s := scalarOf(n)
		if s.odd != "" {
			p.oddScalar(n, s)
		}
		if s.kind == isText {
			v.text = p.template(n, n.Value, at)
			break
		}
		plain, err := Decode(s.json)
		if err != nil {
			p.mark(n, codeNumber, "%v", err)
		}
		v.plain = plain
	}
	return v
}

// template reads a template.
func (p *reading) template(n *yaml.Node, text string, at *[]site) *Template {
	t, faults := parseTemplate(text)
	for _, f := range faults {
		if f.code == codeUnclosed {
			where := ""
			if pos, _ := p.src.at(n, f.from); !p.full() {
				where = fmt.Sprintf(" at %d:%d", pos.Line, pos.Col)
			}
			p.within(n, f.from, f.to, f.code, "unclosed {{%s; write }} after the reference, or \\{{ for literal braces", where)
			continue
		}
		p.within(n, f.from, f.to, f.code, "%s", f.text)
	}
	s := site{node: n}
	for _, part := range t.parts {
		if part.ref != nil {
			s.refs = append(s.refs, placedRef{*part.ref, part.from, part.to})
		}
	}
	if len(s.refs) > 0 {
		*at = append(*at, s)
	}
	return t
}

// textTemplate reads a text that is a template.
func (p *reading) textTemplate(n *yaml.Node, what string, at *[]site) *Template {
	text, ok := p.text(n, what)
	if !ok {
		return nil
	}
	return p.template(n, text, at)
}

// A site is a text of the file that has references.
type site struct {
	node      *yaml.Node
	refs      []placedRef
	condition bool
}

// A placedRef is a reference, and the bytes of the text where it is.
type placedRef struct {
	Ref
	from, to int
}

// literal returns the value of a field if it contains no template.
func (n *valueNode) literal() (json.RawMessage, bool) {
	plain := true
	n.walk(func(t *Template) { plain = plain && len(t.Refs()) == 0 })
	if !plain {
		return nil, false
	}
	v, err := n.resolve(&Scope{}, &room{maxValue, maxValue})
	if err != nil {
		return nil, false
	}
	return compact(v), true
}
