package recipe

import "go.yaml.in/yaml/v4"

func (p *reading) parallel(n *yaml.Node, s *step) *Parallel {
	c := &Parallel{}
	s.body = &block{Block: &c.Block, of: s}
	if n.Kind == yaml.SequenceNode {
		p.block(n, s.body)
		return c
	}
	keys := p.object(n, "`parallel`", []field{
		{"steps", func(v *yaml.Node) { p.block(v, s.body) }},
		{"width", func(v *yaml.Node) { c.Width = int(p.wholeIn(v, "`width`", 1, maxWidth)) }},
		{"output", func(v *yaml.Node) { c.Output = p.result(v, &s.body.sites) }},
	})
	p.need(n, keys, "`parallel`", "steps")
	return c
}

func (p *reading) foreach(n *yaml.Node, s *step) *Foreach {
	c := &Foreach{As: "item"}
	s.body = &block{Block: &c.Block, of: s}
	keys := p.object(n, "`foreach`", []field{
		{"in", func(v *yaml.Node) { c.In = p.listValue(v, s) }},
		{"as", func(v *yaml.Node) {
			s.as = v
			if as := p.named(v, "`as`", variable); as != "" {
				c.As = as
			}
		}},
		{"width", func(v *yaml.Node) { c.Width = int(p.wholeIn(v, "`width`", 1, maxWidth)) }},
		{"steps", func(v *yaml.Node) { p.block(v, s.body) }},
		{"output", func(v *yaml.Node) { c.Output = p.result(v, &s.body.sites) }},
	})
	p.need(n, keys, "`foreach`", "in", "steps")
	return c
}

// listValue reads the list of a foreach: one reference, or a literal list.
func (p *reading) listValue(n *yaml.Node, s *step) *Value {
	switch n.Kind {
	case yaml.SequenceNode:
		return p.value(n, &s.sites)
	case yaml.ScalarNode:
		before := len(p.problems)
		if _, ok := p.text(n, "`in`"); !ok {
			return nil
		}
		v := p.value(n, &s.sites)
		if v.node.text != nil && v.node.text.exact() == nil && len(p.problems) == before {
			p.mark(n, codeForeachIn, "`in` must be one reference that gives a list and nothing beside it, such as \"{{steps.find.output}}\", or a list written out")
		}
		return v
	}
	p.wrongType(n, "`in`", "a list, or a text with one reference")
	return nil
}

func (p *reading) loop(n *yaml.Node, s *step) *Loop {
	c := &Loop{}
	s.body = &block{Block: &c.Block, of: s}
	keys := p.object(n, "`loop`", []field{
		{"max", func(v *yaml.Node) { c.Max = int(p.wholeIn(v, "`max`", 1, maxRounds)) }},
		{"until", func(v *yaml.Node) { c.Until = p.condition(v, "`until`", &s.body.sites) }},
		{"steps", func(v *yaml.Node) { p.block(v, s.body) }},
		{"output", func(v *yaml.Node) { c.Output = p.result(v, &s.body.sites) }},
	})
	p.need(n, keys, "`loop`", "max", "steps")
	return c
}
