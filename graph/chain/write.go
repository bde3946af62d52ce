package chain

import (
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/graph"
)

// writer writes a chain into its graph.
type writer[S, U any] struct {
	g        *graph.Graph[S, U]
	later    []func() // its edges, fans and catches: without a mistake only, or they would lead to more
	within   string   // the blocks around, for mistakes
	mistakes []string
	routes   []choosing[S]
	ifs      int // how many are open, in all blocks
}

// choosing is a branch whose targets are not known yet.
type choosing[S any] struct {
	from string
	root *slot[S]
}

// slot is the target of a choice: a node, another choice made at once, several of these, or nothing
// yet.
type slot[S any] struct {
	to   string
	test *test[S]
	all  []*slot[S]
}

type test[S any] struct {
	cond    func(S) bool
	most    int // visits of the node that chooses, after which it is as if cond held; 0 for any number
	yes, no *slot[S]
}

// end is a point where the chain continues: after a node, or at the target of its choice.
type end[S any] struct {
	from string
	slot *slot[S] // nil for after the node
}

// block is a part of a chain that is being written.
type block[S, U any] struct {
	after  string     // what came last, for mistakes
	ends   []end[S]   // one of them is taken; all of them, if they are open
	open   string     // the Parallel whose branches are yet to be joined, "" for none
	join   graph.Join // of it
	size   int        // how many nodes it has
	loose  []string   // the nodes that nobody takes care of
	ifs    []*choice[S]
	begins int // in loose: what belongs to the innermost If
}

// choice is an If that has not ended.
type choice[S any] struct {
	at     string
	test   *test[S]
	turned bool     // its Else has come
	ends   []end[S] // of its first way, then
	begins int      // of what is around
}

func (c *Chain[S, U]) write() []string {
	l := &writer[S, U]{g: c.g}
	b := &block[S, U]{ends: []end[S]{{from: graph.Start}}}
	c.run(l, b)
	if b.open != "" && b.join != graph.All {
		l.report(b.open, "nothing follows that could join its branches; use graph.All, or put a node after it")
	}
	l.lead(b.ends, graph.End)
	if len(l.mistakes) > 0 {
		return l.mistakes
	}
	for _, add := range l.later {
		add()
	}
	for _, r := range l.routes {
		for k := range r.root.width() { // a branch leads to one node at a time
			choose := func(s S, visit int) string { return r.root.choose(s, visit, k) }
			c.g.BranchVisit(r.from, choose, r.root.targets(k, nil)...)
		}
	}
	return nil
}

// run writes the chain at the position of a block.
func (c *Chain[S, U]) run(l *writer[S, U], b *block[S, U]) {
	for _, op := range c.ops {
		op(l, b)
	}
	for _, f := range b.ifs {
		l.report(f.at, "it has no EndIf")
	}
	l.ifs -= len(b.ifs)
}

func (n Node[S, U]) chain(l *writer[S, U], b *block[S, U], what string) { l.node(b, what, &n.Node) }

func (c *Chain[S, U]) chain(l *writer[S, U], b *block[S, U], what string) {
	if c == nil || !c.seq {
		l.report(b.place(what), "a block is neither a node nor made by chain.Seq")
		return
	}
	if c.ended {
		l.report(b.place(what), "a Seq is within itself")
		return
	}
	in := &block[S, U]{after: b.after, ends: b.ends, open: b.open, join: b.join}
	c.ended = true // until it is written
	c.run(l, in)
	c.ended = false
	b.after, b.ends, b.open, b.join = in.after, in.ends, in.open, in.join
	b.size += in.size
	b.loose = append(b.loose, in.loose...)
}

func (b *block[S, U]) place(what string) string {
	if b.after == "" {
		return what + " at the beginning"
	}
	return what + " after " + b.after
}

func (l *writer[S, U]) report(at, format string, args ...any) {
	l.mistakes = append(l.mistakes, l.within+at+": "+fmt.Sprintf(format, args...))
}

// inside writes the blocks of a part that has its own beginning.
func (l *writer[S, U]) inside(at string, ends []end[S], blocks []Block[S, U]) *block[S, U] {
	around := l.within
	l.within += at + ": "
	b := &block[S, U]{ends: ends}
	l.blocks(b, "node", blocks)
	l.within = around
	return b
}

func (l *writer[S, U]) blocks(b *block[S, U], what string, blocks []Block[S, U]) {
	for _, in := range blocks {
		if in == nil {
			l.report(b.place(what), "a block is nil")
			continue
		}
		in.chain(l, b, what)
	}
}

// lead connects some ends to a node, or to End.
func (l *writer[S, U]) lead(ends []end[S], to string) {
	for _, e := range ends {
		if e.slot != nil {
			e.slot.to = to
		} else {
			l.later = append(l.later, func() { l.g.Edge(e.from, to) })
		}
	}
}

// decide creates a choice at some ends.
func (l *writer[S, U]) decide(ends []end[S], t *test[S]) {
	for _, e := range ends {
		if e.slot != nil {
			e.slot.test = t
		} else {
			l.routes = append(l.routes, choosing[S]{e.from, &slot[S]{test: t}})
		}
	}
}

// joined reports whether the branches of the last Parallel have been joined. If not, it records the
// mistake.
func (l *writer[S, U]) joined(b *block[S, U], at string) bool {
	if b.open == "" {
		return true
	}
	l.report(at, "the branches of the Parallel before it are not joined yet; put a node between")
	b.open = ""
	return false
}

// add adds a node, unless a node of that name exists.
func (l *writer[S, U]) add(b *block[S, U], at string, n *graph.Node[S, U]) {
	if l.g.Has(n.Name) {
		l.report(at, "there is a node %q already", n.Name)
	} else {
		l.g.AddNode(*n)
	}
	b.size++
	b.after = fmt.Sprintf("node %q", n.Name)
}

func (l *writer[S, U]) node(b *block[S, U], what string, n *graph.Node[S, U]) {
	at := b.place(what)
	joins := *n
	if b.open != "" {
		if n.Join != graph.Any && n.Join != b.join {
			l.report(at, "node %q has the join %s, but the Parallel before it has %s", n.Name, n.Join, b.join)
		}
		joins.Join = b.join
	}
	l.add(b, at, &joins)
	l.lead(b.ends, n.Name)
	b.ends, b.open = []end[S]{{from: n.Name}}, ""
	b.loose = append(b.loose, n.Name)
}

func (l *writer[S, U]) begin(b *block[S, U], cond func(S) bool) {
	at := b.place("If")
	if cond == nil {
		l.report(at, "its condition is nil")
	}
	l.joined(b, at)
	t := &test[S]{cond: cond, yes: &slot[S]{}, no: &slot[S]{}}
	l.decide(b.ends, t)
	l.ifs++
	b.ifs = append(b.ifs, &choice[S]{at: at, test: t, begins: b.begins})
	b.ends, b.begins = []end[S]{{slot: t.yes}}, len(b.loose)
}

// innermost returns the last open If. If none exists, it records the mistake and returns nil.
func (l *writer[S, U]) innermost(b *block[S, U], what string) *choice[S] {
	at := b.place(what)
	if len(b.ifs) == 0 {
		l.report(at, "there is no If before it")
		return nil
	}
	l.joined(b, at)
	return b.ifs[len(b.ifs)-1]
}

func (l *writer[S, U]) other(b *block[S, U]) {
	f := l.innermost(b, "Else")
	if f == nil {
		return
	}
	if f.turned {
		l.report(b.place("Else"), "the %s has an Else already", f.at)
		return
	}
	f.turned, f.ends = true, b.ends
	b.ends, b.begins = []end[S]{{slot: f.test.no}}, len(b.loose)
}

func (l *writer[S, U]) endIf(b *block[S, U]) {
	f := l.innermost(b, "EndIf")
	if f == nil {
		return
	}
	if !f.turned {
		b.ends = append(b.ends, end[S]{slot: f.test.no})
	}
	b.ends = slices.Concat(f.ends, b.ends)
	b.ifs, b.begins = b.ifs[:len(b.ifs)-1], f.begins
	l.ifs--
	if f.test.yes.empty() && f.test.no.empty() {
		l.report(f.at, "there is nothing in it")
	}
}

func (l *writer[S, U]) loop(b *block[S, U], most int, until func(S) bool, body []Block[S, U]) {
	at := b.place("Loop")
	if until == nil {
		l.report(at, "its condition is nil")
	}
	l.joined(b, at)
	back, out := &slot[S]{}, &slot[S]{}
	in := l.inside(at, append(slices.Clone(b.ends), end[S]{slot: back}), body)
	switch {
	case in.size == 0:
		l.report(at, "its body is empty")
	case most > 0 && (len(in.ends) != 1 || in.ends[0].slot != nil):
		l.report(at, "its body ends in several ways, so that its rounds cannot be counted; put a node at the end of it")
	case in.open != "":
		l.report(at, "its body ends in a Parallel, whose branches are not joined; put a node at the end of it")
	case slices.ContainsFunc(in.ends, func(e end[S]) bool { return e.slot != nil && back.reaches(e.slot) }):
		l.report(at, "a round of it may run nothing, and so for ever; put a node in its body that no If passes by")
	default:
		l.decide(in.ends, &test[S]{cond: until, most: most, yes: out, no: back})
		b.after = in.after
	}
	b.ends = []end[S]{{slot: out}}
	b.size += in.size
	b.loose = append(b.loose, in.loose...)
}

func (l *writer[S, U]) parallel(b *block[S, U], join graph.Join, branches []Block[S, U]) {
	at := b.place("Parallel")
	l.joined(b, at)
	if len(branches) == 0 {
		l.report(at, "it has no branches")
	}
	if join < 0 && l.ifs > 0 && (len(b.ends) != 1 || b.ends[0].slot != nil) {
		// One choice would be a branch for each, and Compile cannot tell that they agree.
		l.report(at, "between an If and its EndIf it has to follow a node; put one before it")
	}
	var ends []end[S]
	for i, branch := range branches {
		in := l.inside(fmt.Sprintf("%s: branch %d", at, i+1), fork(b.ends), []Block[S, U]{branch})
		b.size += in.size
		switch {
		case in.size == 0:
			l.report(at, "branch %d of it is empty", i+1)
		case len(in.ends) != 1 || in.ends[0].slot != nil || in.open != "":
			l.report(at, "branch %d of it ends in several ways; put a node at the end of it, to be joined with the others", i+1)
		default:
			ends = append(ends, in.ends...)
		}
	}
	b.ends, b.open, b.join = ends, at, join
	b.after = "the " + at
}

func (l *writer[S, U]) fan(b *block[S, U], join graph.Join, split func(S) []graph.Send, worker *graph.Node[S, U]) {
	at := b.place("Fan")
	l.joined(b, at)
	if split == nil {
		l.report(at, "its function is nil")
	}
	if len(b.ends) != 1 || b.ends[0].slot != nil {
		l.report(at, "it has to follow a node, which it splits the work of; put one before it")
		return
	}
	from := b.ends[0].from
	l.add(b, at, worker)
	l.later = append(l.later, func() { l.g.Fan(from, split, worker.Name) })
	b.ends, b.open, b.join = []end[S]{{from: worker.Name}}, at, join
	b.after = "the " + at
}

// fork returns the same ends for one more branch.
func fork[S any](ends []end[S]) []end[S] {
	out := slices.Clone(ends)
	for i, e := range ends {
		if e.slot != nil {
			out[i].slot = &slot[S]{}
			e.slot.all = append(e.slot.all, out[i].slot)
		}
	}
	return out
}

func (l *writer[S, U]) catch(b *block[S, U], n *graph.Node[S, U]) {
	at := b.place("Catch")
	l.joined(b, at)
	caught := b.loose[b.begins:]
	if len(caught) == 0 {
		l.report(at, "there is no node before it to take care of")
	}
	for _, from := range caught {
		l.later = append(l.later, func() { l.g.Catch(from, n.Name) })
	}
	l.add(b, at, n)
	b.loose = append(b.loose[:b.begins:b.begins], n.Name)
	b.ends = append(slices.Clone(b.ends), end[S]{from: n.Name})
}

func (s *slot[S]) empty() bool { return s.to == "" && s.test == nil && s.all == nil }

// width returns how many nodes choices lead to at most.
func (s *slot[S]) width() int {
	if s.test != nil {
		return max(s.test.yes.width(), s.test.no.width())
	}
	n := 0
	for _, in := range s.all {
		n += in.width()
	}
	return max(1, n)
}

// one finds the slot that the kth node belongs to, and the node's index within it. If there are
// fewer slots, the last slot is used for the rest.
func (s *slot[S]) one(k int) (*slot[S], int) {
	k = min(k, s.width()-1)
	for _, in := range s.all {
		n := in.width()
		if k < n {
			return in.one(k)
		}
		k -= n
	}
	return s, k
}

// choose follows the choices to the kth node.
func (s *slot[S]) choose(state S, visit, k int) string {
	for s, k = s.one(k); s.test != nil; s, k = s.one(k) {
		if most := s.test.most; most > 0 && visit+1 >= most || s.test.cond(state) {
			s = s.test.yes
		} else {
			s = s.test.no
		}
	}
	return s.to
}

// targets returns the possible kth nodes, in order.
func (s *slot[S]) targets(k int, to []string) []string {
	s, k = s.one(k)
	if s.test != nil {
		return s.test.no.targets(k, s.test.yes.targets(k, to))
	}
	if slices.Contains(to, s.to) {
		return to
	}
	return append(to, s.to)
}

// reaches reports whether choices may lead to a slot without a node between.
func (s *slot[S]) reaches(other *slot[S]) bool {
	return s == other || s.test != nil && (s.test.yes.reaches(other) || s.test.no.reaches(other)) ||
		slices.ContainsFunc(s.all, func(in *slot[S]) bool { return in.reaches(other) })
}
