package distil

import (
	"fmt"
	"slices"
	"strings"
)

// examine finds the steps whose texts paraphrase results. For agents it replaces the prompt by the
// task and the available results.
func (p *plan) examine() {
	known := []*said{saying(p.prompt), saying(textOf(p.rec.started.Inputs))}
	for _, f := range p.rec.files() { // what a recipe says by itself
		known = append(known, saying(string(f.Source)))
	}
	for _, s := range p.steps {
		if s.final {
			continue
		}
		var own strings.Builder
		for _, t := range s.texts() {
			own.WriteString(t.literal() + "\n")
		}
		text := saying(own.String())
		p.programmed(s, own.String(), text, known)
		var from []*step
		uses := s.uses()
		for _, o := range p.steps {
			if o == s || o.final || slices.Contains(uses, o) || o.ended() >= s.asked() {
				continue
			}
			for _, u := range o.units() {
				if why := evidence(text, p.saying(u), append(known, p.asked(u))...); why != "" {
					from = append(from, o)
					if s.why == "" {
						s.why = fmt.Sprintf("what it was asked was made of what %s gave: %s", what(u), why)
					}
					break
				}
			}
		}
		if len(from) > 0 {
			p.loosen(s, from)
		}
	}
}

// programmed reports whether a text contains a value that a Go function has computed.
func (p *plan) programmed(s *step, own string, text *said, known []*said) {
	for _, u := range p.rec.units {
		if u.kind != funcUnit || u.ended >= s.asked() {
			continue
		}
		whole := build(own, outputs(u.value, u.ended, func(sub string) *source { return &source{item: "function", sub: sub} }))
		if len(whole.sources()) > 0 || evidence(text, p.saying(u), append(known, p.asked(u))...) != "" {
			s.why = fmt.Sprintf("what it was asked has something from %s, which a program does and no recipe can", what(u))
			return
		}
	}
}

// loosen restores a step as it was before a user edited it.
func (p *plan) loosen(s *step, from []*step) {
	if p.task == nil || s.unit.kind != agentUnit || s.rows != nil {
		s.after = append(s.after, from...)
		s.why += "; its text is as it was then"
		return
	}
	for _, o := range s.uses() {
		if !slices.Contains(from, o) {
			from = append(from, o)
		}
	}
	slices.SortFunc(from, func(a, b *step) int { return slices.Index(p.steps, a) - slices.Index(p.steps, b) })
	part := "Do your part of the task with that: you are " + s.unit.name + "."
	if about := strings.TrimSpace(s.unit.about); about != "" {
		part = "Your part of the task: " + about
	}
	s.text = p.promptOf(from, "What came of it so far:", part)
}

// prune removes the unneeded steps.
func (p *plan) prune() {
	needed := map[*step]bool{}
	var need func(s *step)
	need = func(s *step) {
		if needed[s] {
			return
		}
		needed[s] = true
		for _, o := range s.uses() {
			need(o)
		}
	}
	for _, s := range p.concluding() {
		need(s)
	}
	for _, s := range p.steps {
		if s.rows == nil && s.unit.changes {
			need(s)
		}
	}
	for _, s := range p.steps {
		if needed[s] {
			continue
		}
		why := "its output went nowhere: neither into a later prompt nor into the result"
		if p.again(s) {
			why = "it was asked the same again later, and that was used"
		}
		for _, u := range s.units() {
			p.cut = append(p.cut, Cut{what(u), u.path, why})
		}
	}
	p.steps = slices.DeleteFunc(p.steps, func(s *step) bool { return !needed[s] })
}

// proper names the steps, drops unused inputs, and refuses unproven steps.
func (p *plan) proper() error {
	if len(p.steps) == 0 {
		return unfit("nothing that agents or tools did in it came to anything")
	}
	taken := map[string]bool{}
	var use func(steps []*step)
	use = func(steps []*step) {
		for _, s := range steps {
			base := p.idOf(s)
			s.id = base
			for n := 2; taken[s.id]; n++ {
				s.id = fmt.Sprintf("%s-%d", base, n)
			}
			taken[s.id] = true
			use(s.inner)
		}
	}
	use(p.steps)
	used := map[string]bool{}
	for _, t := range append((&step{args: p.result}).texts(), textsOf(p.steps)...) {
		for _, src := range t.sources() {
			used[src.input] = true
		}
	}
	p.inputs = slices.DeleteFunc(p.inputs, func(in *input) bool {
		if !used[in.Name] && p.prompt == "" && in.given == "" {
			p.notes = append(p.notes, fmt.Sprintf("input %s is left out: no prompt has it", in.Name))
		}
		return !used[in.Name]
	})
	var reasons []Reason
	for _, s := range p.steps {
		if s.why != "" {
			reasons = append(reasons, Reason{s.id, s.unit.path, s.why})
		}
	}
	if len(reasons) > 0 && !p.opt.Loose {
		return &RewrittenError{reasons}
	}
	return nil
}

func textsOf(steps []*step) []*tmpl {
	var out []*tmpl
	for _, s := range steps {
		out = append(out, s.texts()...)
	}
	return out
}

// idOf returns an ID for a step.
func (p *plan) idOf(s *step) string {
	base := s.unit.label
	switch {
	case s.rows != nil:
		base = "each"
	case base == "" && s.unit.about != "":
		base = s.unit.about
	case base == "":
		base = s.unit.name
	}
	if id := Slug(base, 40); id != "" {
		return id
	}
	return "step"
}

// Slug creates a name from a text: lower-case letters, digits and single hyphens, up to a maximum
// length. If the text has none of these, it is empty.
func Slug(text string, most int) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(text) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			gap = b.Len() > 0
			continue
		}
		if gap {
			if b.Len()+2 > most {
				break
			}
			b.WriteByte('-')
			gap = false
		}
		if b.Len()+1 > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
