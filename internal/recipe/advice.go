package recipe

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"go.yaml.in/yaml/v4"
)

// advise warns of constructs that are allowed but probably mistakes: invisible characters, unused inputs, steps without
// effect, and texts in place of lists.
func (p *reading) advise(root *yaml.Node, r *Recipe, top *block) {
	p.hidden(root)
	if p.problems.Err() != nil { // some references may not have been understood
		return
	}
	inputs, steps := map[string]bool{}, map[string]bool{}
	note := func(sites []site) {
		for _, at := range sites {
			for _, ref := range at.refs {
				inputs[ref.Input()], steps[ref.Step()] = true, true
			}
		}
	}
	note(top.sites)
	byID := map[string]*step{}
	for _, s := range p.steps {
		byID[s.ID] = s
		note(s.sites)
		if s.body != nil {
			note(s.body.sites)
		}
	}
	for _, in := range r.Inputs {
		if !inputs[in.Name] {
			p.report(&Problem{Pos: in.Pos, Code: codeUnused, Text: "nothing refers to the input `" + in.Name + "`", Warning: true})
		}
	}
	for _, s := range p.steps {
		last := s.in.Block.Output == nil && (s.index == len(s.in.steps)-1 || s.in.of != nil && s.in.of.Parallel != nil)
		switch {
		case s.When != nil && never(s.When):
			p.warn(s.id, codeUnused, "step `%s` never runs: its `when` is always false", s.ID)
		case s.Value != nil && !steps[s.ID] && !last:
			p.warn(s.id, codeUnused, "nothing refers to the value `%s`", s.ID)
		case s.Foreach != nil:
			p.overText(s, r, byID)
		}
	}
}

func never(c *Condition) bool {
	b, ok := c.node.(*ast.BoolNode)
	return ok && !b.Value
}

// overText warns of a foreach over a text.
func (p *reading) overText(s *step, r *Recipe, steps map[string]*step) {
	if s.Foreach.In == nil || s.Foreach.In.node.text == nil {
		return
	}
	ref := s.Foreach.In.node.text.exact()
	if ref == nil {
		return
	}
	for _, in := range r.Inputs {
		if ref.String() == "inputs."+in.Name && in.Type == "string" {
			p.warn(s.id, codeForeachIn, "`%s` goes through the input `%s`, which is a text; give that `type: list`", s.ID, in.Name)
		}
	}
	from := steps[ref.Step()]
	if from == nil || ref.String() != "steps."+from.ID+".output" {
		return
	}
	if from.Agent != nil && from.Output == nil || from.Output != nil && from.Output.Type == "string" {
		p.warn(s.id, codeForeachIn, "`%s` goes through the output of `%s`, which is a text; give that an `output` schema of type array", s.ID, from.ID)
	}
}

// hidden warns of characters that change the direction of a text or take no room.
func (p *reading) hidden(n *yaml.Node) {
	for _, c := range n.Content {
		p.hidden(c)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	i := strings.IndexFunc(n.Value, func(r rune) bool {
		return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200b || r == 0x2060 || r == 0xfeff || r >= 0xe0000 && r <= 0xe007f
	})
	if i >= 0 && !slices.ContainsFunc(p.problems, func(x *Problem) bool { return x.Pos == posOf(n) }) {
		r := []rune(n.Value[i:])[0]
		p.warn(n, codeHidden, "it has a hidden character, %U, which readers do not see and models do; take it out", r)
	}
}
