package vertex

import (
	"cmp"
	"fmt"
	"slices"
)

// A change of the topology, asked for by a vertex. Changes take effect between two supersteps, in
// the order of Malewicz et al. §3.4: edges are removed first, then vertices (with the edges out of
// them), then vertices are added, then edges; requests of the same kind take effect in the order of
// the requesting vertices. Messages along edges use the edges of the superstep in which they are
// sent, and reach the vertices that exist after it.
type change[V, E any] struct {
	by    int32
	kind  changeKind
	v, to int32
	value V
	edge  E
}

type changeKind uint8

const ( // in the order in which they take effect
	removeEdge changeKind = iota
	removeVertex
	addVertex
	addEdge
)

// AddEdge adds an edge after this superstep, with the value given or the zero value. It is
// ignored if an end does not exist then.
func (c *Context[V, E, M]) AddEdge(from, to int32, value ...E) {
	x := change[V, E]{by: c.v, kind: addEdge, v: from, to: to}
	if len(value) > 0 {
		x.edge = value[0]
	}
	c.changes = append(c.changes, x)
}

// RemoveEdge removes all edges from one vertex to another after this superstep.
func (c *Context[V, E, M]) RemoveEdge(from, to int32) {
	c.changes = append(c.changes, change[V, E]{by: c.v, kind: removeEdge, v: from, to: to})
}

// AddVertex adds a vertex after this superstep. It is active, and has no edges out. Indexes are
// dense: a new one is [Context.NumVertices] or a little more, or that of a vertex that was
// removed; the run ends with a *Error if it is beyond twice the number of vertices plus
// 1,024. Indexes that are left out are vertices that do not exist. If the vertex exists,
// Program.Conflict decides what its value is and nothing else changes.
func (c *Context[V, E, M]) AddVertex(v int32, value V) {
	c.changes = append(c.changes, change[V, E]{by: c.v, kind: addVertex, v: v, value: value})
}

// RemoveVertex removes a vertex and the edges out of it after this superstep. Edges to it stay, and
// messages along them are dropped.
func (c *Context[V, E, M]) RemoveVertex(v int32) {
	c.changes = append(c.changes, change[V, E]{by: c.v, kind: removeVertex, v: v})
}

func unknownVertex(v int32, n int) error {
	return fmt.Errorf("a message to vertex %d: %w, of %d; add it in the same superstep", v, errNoVertex, n)
}

// requests returns the changes and late messages of the superstep, in the order in which they take
// effect.
func (r *Run[V, E, M]) requests() (changes []change[V, E], late []lateSend[M]) {
	for _, c := range r.crew.at {
		changes = append(changes, c.changes...)
		late = append(late, c.late...)
	}
	slices.SortStableFunc(changes, func(a, b change[V, E]) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.by, b.by))
	})
	slices.SortStableFunc(late, func(a, b lateSend[M]) int { return cmp.Compare(a.from, b.from) })
	return changes, late
}

// change applies the changes.
func (r *Run[V, E, M]) change(changes []change[V, E], stats *Stats) error {
	if len(changes) == 0 {
		return nil
	}
	if r.patch == nil {
		r.patch = map[int32]*patch[E]{}
	}
	limit := 2*r.n + 1024
	removals := map[int32]*removal{}
	for i := range changes {
		x := &changes[i]
		if x.kind != removeEdge {
			break
		}
		if removals[x.v] == nil {
			removals[x.v] = &removal{had: map[int32]bool{}}
		}
		removals[x.v].had[x.to] = false
	}
	for i := range changes {
		x := &changes[i]
		did := false
		switch x.kind {
		case removeEdge:
			did = r.removeEdge(x.v, x.to, removals[x.v])
		case removeVertex:
			did = r.removeVertex(x.v)
		case addVertex:
			if x.v < 0 || int(x.v) >= limit {
				return r.vertexError(x.by, fmt.Errorf("cannot add vertex %d: indexes are dense, and have to be below %d in this superstep", x.v, limit))
			}
			did = r.addVertex(x.v, x.value)
		case addEdge:
			if did = r.Exists(x.v) && r.Exists(x.to); did {
				r.patchOf(x.v).add(x.to, x.edge)
				r.edgeN++
				r.patched++
			}
		}
		if did {
			r.noteChange(x)
			stats.Changes++
		} else {
			stats.Ignored++
		}
	}
	if r.patched > (r.n+r.edgeN)/2+1024 {
		r.rebuild()
	}
	return nil
}

// noteChange notes that a change took effect.
func (r *Run[V, E, M]) noteChange(x *change[V, E]) {
	r.changed = true
	if r.since == nil {
		return
	}
	r.since.edges = true
	if x.kind == removeVertex || x.kind == addVertex {
		r.since.set.add(int(x.v>>6), 1<<(uint(x.v)&63))
	}
}

// removal is all that one superstep removes from the edges of a vertex.
type removal struct {
	had  map[int32]bool // by target: whether there was such an edge
	done bool
}

// removeEdge performs all removals for a source at the first request for it, and reports whether
// the requested edge existed.
func (r *Run[V, E, M]) removeEdge(v, to int32, x *removal) bool {
	if !r.Exists(v) {
		return false
	}
	if x.done {
		return x.had[to]
	}
	x.done = true
	doomed := func(t int32) bool { _, ok := x.had[t]; return ok }
	if targets, _ := r.edges(v); !slices.ContainsFunc(targets, doomed) {
		return false
	}
	r.edgeN -= r.patchOf(v).filter(func(t int32) bool {
		if !doomed(t) {
			return true
		}
		x.had[t] = true
		return false
	})
	return x.had[to]
}

func (r *Run[V, E, M]) removeVertex(v int32) bool {
	if !r.Exists(v) {
		return false
	}
	r.exist--
	r.edgeN -= r.degree(v)
	r.patch[v] = &patch[E]{}
	r.patched++
	r.gone[v>>6] |= 1 << (uint(v) & 63)
	r.closed[v>>6] |= 1 << (uint(v) & 63)
	r.holes, r.anyEnds = true, true
	return true
}

func (r *Run[V, E, M]) addVertex(v int32, value V) bool {
	if r.Exists(v) {
		if r.prog.Conflict != nil {
			r.values[v] = r.prog.Conflict(v, r.values[v], value)
			return true
		}
		return false
	}
	if int(v) >= r.n {
		r.grow(int(v) + 1)
	}
	mask := uint64(1) << (uint(v) & 63)
	r.gone[v>>6] &^= mask
	r.closed[v>>6] &^= mask
	r.values[v] = value
	r.next.add(int(v>>6), mask)
	r.exist++
	return true
}

// grow allocates for n vertices; the new ones do not exist yet.
func (r *Run[V, E, M]) grow(n int) {
	old := r.n
	r.n = n
	r.values = append(r.values, make([]V, n-old)...)
	for _, s := range []*set{&r.active, &r.next, &r.said, &r.saying} {
		s.grow(n)
	}
	if r.since != nil {
		r.since.set.grow(n)
	}
	if r.count != nil {
		r.count = append(r.count, make([]uint32, n-len(r.count))...)
		r.end = append(r.end, make([]uint32, n-len(r.end))...)
	}
	r.closed, r.gone = growWords(r.closed, n), growWords(r.gone, n)
	if r.has != nil {
		r.has, r.nextHas = growWords(r.has, n), growWords(r.nextHas, n)
	}
	for v := old; v < n; v++ {
		r.gone[v>>6] |= 1 << (uint(v) & 63)
		r.closed[v>>6] |= 1 << (uint(v) & 63)
	}
	r.holes, r.anyEnds = true, true
}

// A patch is the changed list of edges out of a vertex.
type patch[E any] struct {
	to     []int32
	values []E
}

func (r *Run[V, E, M]) patchOf(v int32) *patch[E] {
	if p := r.patch[v]; p != nil {
		return p
	}
	to, values := r.edges(v)
	p := &patch[E]{slices.Clone(to), slices.Clone(values)}
	r.patch[v] = p
	r.patched += len(to) + 1
	return p
}

func (p *patch[E]) add(to int32, value E) {
	p.to, p.values = append(p.to, to), append(p.values, value)
}

// filter removes the edges to the given targets and returns their number.
func (p *patch[E]) filter(keep func(int32) bool) int {
	n := 0
	for i, t := range p.to {
		if keep(t) {
			p.to[n], p.values[n] = t, p.values[i]
			n++
		}
	}
	removed := len(p.to) - n
	clear(p.values[n:])
	p.to, p.values = p.to[:n], p.values[:n]
	return removed
}

// compact makes the edges a graph again, if they are patched, and reports true.
func (r *Run[V, E, M]) compact() bool {
	if r.patch != nil {
		r.rebuild()
	}
	return true
}

// rebuild creates a graph of the edges as they are.
func (r *Run[V, E, M]) rebuild() {
	g := &Graph[E]{n: r.n, label: r.g.label, labels: r.g.labels}
	g.out.off = make([]uint32, r.n+1)
	g.out.to, g.values = make([]int32, 0, r.edgeN), make([]E, 0, r.edgeN)
	for v := range int32(r.n) {
		to, values := r.edges(v)
		g.out.to = append(g.out.to, to...)
		g.values = append(g.values, values...)
		g.out.off[v+1] = uint32(len(g.out.to))
		if len(to) > 0 {
			g.sources++
		}
	}
	r.g, r.patch, r.patched = g, nil, 0
}
