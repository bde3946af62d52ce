package recipe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// meaning checks names: ids must be unique, steps that are depended on or referred to must exist
// and have ended, and no step may wait for itself.
func (p *reading) meaning(top *block) {
	all := map[string]*step{}
	for _, s := range p.steps {
		switch first := all[s.ID]; {
		case s.ID == "":
		case first != nil:
			p.mark(s.id, codeDuplicateID, "step id `%s` is at %d:%d and again at %d:%d; each step has its own, also within others", s.ID, first.Pos.Line,
				first.Pos.Col, s.Pos.Line, s.Pos.Col)
		default:
			all[s.ID] = s
			s.in.names[s.ID] = s
		}
	}
	m := &meaning{reading: p, all: all}
	m.block(top, scope{vars: map[string]bool{}})
	if p.after != nil {
		m.block(p.after, scope{vars: map[string]bool{"run": true}, names: []string{"run"}})
	}
	for _, s := range p.steps {
		s.settle()
	}
}

type meaning struct {
	*reading
	all map[string]*step
}

// A scope names the variables that containers define.
type scope struct {
	vars  map[string]bool // of foreach, by name
	names []string        // the same, in order, for messages
	index bool
	loop  bool
}

func (sc scope) with(as string) scope {
	vars := map[string]bool{as: true}
	for v := range sc.vars {
		vars[v] = true
	}
	return scope{vars, append(slices.Clip(sc.names), as), true, sc.loop}
}

// available returns what references can start with.
func (sc scope) available() string {
	words := []string{"inputs", "steps"}
	words = append(words, sc.names...)
	if sc.index {
		words = append(words, "index")
	}
	if sc.loop {
		words = append(words, "loop")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func (m *meaning) block(b *block, sc scope) {
	for _, s := range b.steps {
		m.edges(s)
	}
	order := m.cycles(b)
	closeOver(order, len(b.steps))
	for _, s := range b.steps {
		m.sites(s.sites, b, s, sc)
		if s.body == nil {
			continue
		}
		inner := sc
		switch {
		case s.Foreach != nil:
			m.as(s, sc)
			inner = sc.with(s.Foreach.As)
		case s.Loop != nil:
			inner.loop = true
		}
		m.block(s.body, inner)
		m.sites(s.body.sites, s.body, nil, inner)
	}
	if b.of == nil {
		m.sites(b.sites, b, nil, sc)
	}
}

// as checks the name of a foreach's items.
func (m *meaning) as(s *step, sc scope) {
	at := s.as
	if at == nil {
		at = s.node
	}
	switch as := s.Foreach.As; {
	case reserved(as):
		m.mark(at, codeReserved, "`as` is `%s`, a word of references and conditions; take another", as)
	case sc.vars[as]:
		m.add(posOf(at), codeShadow, "the items are called `%s`, as those of the foreach around it are; give them another name with `as`", as)
	}
}

// edges finds the steps that a step depends on: the steps in depends_on or, without it, the steps that it
// refers to.
func (m *meaning) edges(s *step) {
	if s.free {
		s.refers = map[*step]site{}
		m.infer(s, s)
		slices.SortFunc(s.waits, func(a, b *step) int { return a.index - b.index })
		for _, on := range s.waits {
			s.DependsOn = append(s.DependsOn, on.ID)
		}
		return
	}
	for _, d := range s.deps {
		id := d.Value
		if on := s.in.names[id]; on != nil {
			s.waits = append(s.waits, on)
			continue
		}
		if other := m.all[id]; other != nil {
			m.mark(d, codeOtherBlock, "step `%s` is not beside this one; depend on %s", name(id), beside(s, other))
			continue
		}
		m.mark(d, codeUnknownStep, "no step `%s`%s", name(id), m.hint(id, idsOf(s.in, s)))
	}
}

// infer finds the siblings of s that are referred to by the texts of s or of a step inside it.
func (m *meaning) infer(s, of *step) {
	note := func(sites []site) {
		for _, at := range sites {
			for _, ref := range at.refs {
				if on := s.in.names[ref.Step()]; on != nil && on != s && !slices.Contains(s.waits, on) {
					s.waits, s.refers[on] = append(s.waits, on), site{at.node, []placedRef{ref}, at.condition}
				}
			}
		}
	}
	note(of.sites)
	if of.body != nil {
		note(of.body.sites)
		for _, inner := range of.body.steps {
			m.infer(s, inner)
		}
	}
}

// beside returns the step of a block to name instead of a step in another block.
func beside(s, other *step) string {
	for o := other; o != nil; o = o.in.of {
		if o.in == s.in && o != s {
			return fmt.Sprintf("`%s`, which has it inside", o.ID)
		}
	}
	return "a step of its own block; what the steps around it depend on has ended anyway"
}

func idsOf(b *block, but *step) []string {
	var ids []string
	for _, s := range b.steps {
		if s != but && s.ID != "" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// cycles reports steps that wait for each other, one cycle for each strongly connected component.
// It returns the steps in dependency order; the steps of a cycle are adjacent. It is Tarjan's
// algorithm for strongly connected components (1972).
func (m *meaning) cycles(b *block) [][]*step {
	low, num := map[*step]int{}, map[*step]int{}
	var stack []*step
	onStack := map[*step]bool{}
	var order [][]*step
	var visit func(s *step)
	visit = func(s *step) {
		num[s] = len(num) + 1
		low[s] = num[s]
		stack, onStack[s] = append(stack, s), true
		for _, w := range s.waits {
			if num[w] == 0 {
				visit(w)
				low[s] = min(low[s], low[w])
			} else if onStack[w] {
				low[s] = min(low[s], num[w])
			}
		}
		if low[s] != num[s] {
			return
		}
		at := slices.Index(stack, s)
		knot := slices.Clone(stack[at:])
		for _, k := range knot {
			onStack[k] = false
		}
		stack = stack[:at]
		order = append(order, knot)
	}
	for _, s := range b.steps {
		if num[s] == 0 {
			visit(s)
		}
	}
	for _, knot := range order {
		if len(knot) > 1 || slices.Contains(knot[0].waits, knot[0]) {
			m.circle(knot)
		}
	}
	return order
}

// circle reports the shortest cycle through the first step of a component.
func (m *meaning) circle(knot []*step) {
	first := slices.MinFunc(knot, func(a, b *step) int { return a.index - b.index })
	from := map[*step]*step{}
	queue := []*step{first}
	for len(queue) > 0 && from[first] == nil {
		s := queue[0]
		queue = queue[1:]
		for _, w := range s.waits {
			if from[w] == nil && slices.Contains(knot, w) {
				from[w] = s
				queue = append(queue, w)
			}
		}
	}
	ids := []string{first.ID}
	for s := from[first]; s != first; s = from[s] {
		ids = append(ids, s.ID)
	}
	ids = append(ids, first.ID)
	slices.Reverse(ids)
	at := first.node
	for _, d := range first.deps {
		if d.Value == ids[1] {
			at = d
		}
	}
	second := ids[1]
	if len(ids) > 22 {
		ids = append(append(ids[:20:20], fmt.Sprintf("… %d more …", len(ids)-21)), ids[len(ids)-1])
	}
	text := fmt.Sprintf("cycle: %s; none of them could ever start", strings.Join(ids, " → "))
	for on, ref := range first.refers {
		if on.ID == second {
			m.within(ref.node, ref.refs[0].from, ref.refs[0].to, codeCycle, "%s", text)
			return
		}
	}
	m.mark(at, codeCycle, "%s", text)
}

// ancestors is a set of steps of a block, by index.
type ancestors []uint64

func newAncestors(n int) ancestors { return make(ancestors, (n+63)/64) }

func (a ancestors) has(i int) bool { return i/64 < len(a) && a[i/64]&(1<<(i%64)) != 0 }
func (a ancestors) add(i int)      { a[i/64] |= 1 << (i % 64) }

func (a ancestors) union(b ancestors) {
	for i := range b {
		a[i] |= b[i]
	}
}

// closeOver computes the steps that have ended when a step starts: its dependencies and,
// transitively, theirs. The steps of a cycle are ancestors of each other.
func closeOver(order [][]*step, n int) {
	for _, knot := range order {
		set := newAncestors(n)
		for _, s := range knot {
			for _, w := range s.waits {
				set.add(w.index)
				set.union(w.done)
			}
		}
		for _, s := range knot {
			s.done = set
		}
	}
}

// sites checks the references of texts. The step owns the references. For the output of a block it
// is nil, and the references may name all steps of the block.
func (m *meaning) sites(sites []site, b *block, s *step, sc scope) {
	for _, at := range sites {
		for _, ref := range at.refs {
			if m.full() {
				return
			}
			m.ref(at, ref, b, s, sc)
		}
	}
}

func (m *meaning) ref(at site, ref placedRef, b *block, s *step, sc scope) {
	path := ref.Path()
	say := func(code, format string, args ...any) {
		m.within(at.node, ref.from, ref.to, code, "%s", at.show(ref)+": "+fmt.Sprintf(format, args...))
	}
	switch root := path[0]; {
	case root == "inputs":
		m.inputRef(path, say)
	case root == "steps":
		m.stepRef(path, b, s, say)
	case sc.vars[root]:
		if reader := cmp.Or(s, b.of); reader != nil && root == "run" && (len(path) == 1 || path[1] == "error") {
			reader.OfError = true
		}
	case root == "index" && sc.index:
		if len(path) > 1 {
			say(codeUnknownRef, "index is a number and has nothing below")
		}
	case root == "loop" && sc.loop:
		if len(path) < 2 || path[1] != "round" && path[1] != "output" || path[1] == "round" && len(path) > 2 {
			say(codeUnknownRef, "there are loop.round and loop.output")
		}
	default:
		say(codeUnknownRef, "only %s are available here%s", sc.available(), meant(m.hint(root, append([]string{"inputs", "steps"}, sc.names...))))
	}
}

// show returns a reference in the spelling of its text.
func (at site) show(ref placedRef) string {
	if at.condition {
		return name(ref.path)
	}
	return "{{" + name(ref.path) + "}}"
}

func (m *meaning) inputRef(path []string, say func(code, format string, args ...any)) {
	if len(path) < 2 {
		say(codeUnknownRef, "name an input, as in inputs.topic")
		return
	}
	var known []string
	for _, in := range m.inputs {
		if in.Name == path[1] {
			return
		}
		if in.Name != "" {
			known = append(known, in.Name)
		}
	}
	if len(known) == 0 {
		say(codeUnknownInput, "input `%s` is not declared; there are no inputs: add it under `inputs`", name(path[1]))
		return
	}
	say(codeUnknownInput, "input `%s` is not declared%s", name(path[1]), m.hint(path[1], known))
}

func (m *meaning) stepRef(path []string, b *block, s *step, say func(code, format string, args ...any)) {
	if len(path) < 2 {
		say(codeUnknownRef, "name a step, as in steps.find.output")
		return
	}
	id := path[1]
	switch {
	case len(path) < 3:
		say(codeUnknownRef, "add .output (or .status or .error)")
	case path[2] != "output" && path[2] != "status" && path[2] != "error":
		say(codeUnknownRef, "a step has output, status and error%s", meant(m.hint(path[2], []string{"output", "status", "error"})))
	case path[2] != "output" && len(path) > 3:
		say(codeUnknownRef, "%s is a text and has nothing below", path[2])
	}
	holder := s
	for in := b; in != nil; {
		if target := in.names[id]; target != nil {
			m.ancestor(target, holder, s, say)
			return
		}
		holder = in.of
		if holder == nil {
			break
		}
		in = holder.in
	}
	switch target := m.all[id]; {
	case target == nil:
	case target.in.of == nil:
		say(codeNotAncestor, "a handler does not see the steps of the run, nor they it; it has inputs and run: run.status, run.error and run.failed")
		return
	default:
		say(codeNotAncestor, "`%s` is inside of `%s` and not seen from outside; refer to steps.%s.output", id, target.in.of.ID, target.in.of.ID)
		return
	}
	say(codeUnknownStep, "no step `%s`%s", name(id), m.hint(id, m.seen(b, s)))
}

// ancestor checks that a step has ended when the holder starts. The holder is the step that refers
// to it, or the sibling container that has the referring step inside.
func (m *meaning) ancestor(target, holder, s *step, say func(code, format string, args ...any)) {
	switch {
	case holder == nil: // what a block amounts to
	case holder == target && holder != s:
		say(codeNotAncestor, "`%s` is around this step and has not ended", target.ID)
	case holder == target:
		say(codeNotAncestor, "a step cannot refer to itself")
	case holder.done.has(target.index):
		if holder.reads == nil {
			holder.reads = map[*step]bool{}
		}
		holder.reads[target] = true
	case target.done.has(holder.index):
		say(codeNotAncestor, "`%s` waits for `%s` and has not ended when it starts", target.ID, holder.ID)
	case holder != s:
		say(codeNotAncestor, "`%s` may not have ended; add depends_on: [%s] to `%s`", target.ID, target.ID, holder.ID)
	default:
		say(codeNotAncestor, "`%s` may not have ended; add depends_on: [%s]", target.ID, target.ID)
	}
}

// seen returns the ids that a step could refer to.
func (m *meaning) seen(b *block, s *step) []string {
	var ids []string
	for in := b; in != nil; {
		ids = append(ids, idsOf(in, s)...)
		if s = in.of; s == nil {
			break
		}
		in = s.in
	}
	return ids
}

// settle fills in the steps that a step reads, in the order of the file.
func (s *step) settle() {
	reads := s.reads
	if reads == nil {
		reads = map[*step]bool{}
	}
	for _, w := range s.waits {
		reads[w] = true
	}
	all := slices.SortedFunc(maps.Keys(reads), func(a, b *step) int { return a.index - b.index })
	for _, r := range all {
		s.Reads = append(s.Reads, r.ID)
	}
}
