package vertex

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Graph is a directed graph over the vertices 0 … n-1 whose edges carry values of
// type E (struct{} for none, which takes no room). It does not change, and any number
// of runs may share it.
//
// It is kept as compressed sparse rows: 4 bytes a vertex and 4 bytes and an E an edge.
// The first run that gathers (see [Program]) adds the edges seen from their
// targets, another 4 bytes a vertex and 4 an edge; an undirected graph needs no second
// copy.
type Graph[E any] struct {
	n       int
	out     rows
	values  []E // of the edges, as out.to
	both    bool
	sources int                  // vertices with an edge out
	label   func(v int32) string // of the first vertices; may be nil
	labels  int                  // how many those are

	once sync.Once
	in   *rows
}

// rows are the edges of every vertex, one vertex after the other.
type rows struct {
	off []uint32 // where the edges of a vertex begin; one more than there are vertices
	to  []int32
}

// NumVertices returns the number of vertices.
func (g *Graph[E]) NumVertices() int { return g.n }

// NumEdges returns the number of directed edges; an undirected edge counts as two.
func (g *Graph[E]) NumEdges() int { return len(g.out.to) }

// Targets returns the ends of the edges out of a vertex. The slice is the graph's own.
func (g *Graph[E]) Targets(v int32) []int32 { return g.out.of(v) }

// Label returns what errors call a vertex: its id if the graph was built from named edges, its
// index otherwise.
func (g *Graph[E]) Label(v int32) string {
	if int(v) < g.labels {
		return g.label(v)
	}
	return strconv.Itoa(int(v))
}

func (r *rows) of(v int32) []int32 { return r.to[r.off[v]:r.off[v+1]] }

// sourcesOf returns the edges seen from their targets. The sources of a vertex are in ascending
// order.
func (g *Graph[E]) sourcesOf() *rows {
	g.once.Do(func() {
		if g.in = &g.out; !g.both {
			in := g.out.transpose()
			g.in = &in
		}
	})
	return g.in
}

func (r *rows) transpose() rows {
	n := len(r.off) - 1
	t := rows{off: make([]uint32, n+1), to: make([]int32, len(r.to))}
	for _, v := range r.to {
		t.off[v]++
	}
	t.starts()
	for u := range int32(n) {
		for _, v := range r.of(u) {
			t.to[t.off[v]] = u
			t.off[v]++
		}
	}
	t.rewind()
	return t
}

// starts turns counts into where each vertex begins.
func (r *rows) starts() {
	sum := uint32(0)
	for v, n := range r.off {
		r.off[v] = sum
		sum += n
	}
}

// rewind takes back what filling has moved: every start has become the start of the next vertex.
func (r *rows) rewind() {
	copy(r.off[1:], r.off)
	r.off[0] = 0
}

// An EdgeList holds the edges from which a [Graph] is built. The zero value is an empty list; From
// and To have the same length, and Values has it too or is nil.
type EdgeList[E any] struct {
	From, To []int32
	Values   []E
	// Undirected makes every edge two, one in each direction with the same value. A
	// loop stays one. The edges of a vertex are then sorted by target.
	Undirected bool
}

// Add adds an edge, with the value given or the zero value.
func (l *EdgeList[E]) Add(from, to int32, value ...E) {
	if len(value) > 0 && l.Values == nil {
		l.Values = make([]E, len(l.From), cap(l.From)+1)
	}
	l.From, l.To = append(l.From, from), append(l.To, to)
	if l.Values != nil {
		var e E
		if len(value) > 0 {
			e = value[0]
		}
		l.Values = append(l.Values, e)
	}
}

// Build creates a graph of n vertices. A vertex's edges keep the order of the list. The
// list is not changed and not kept. The error has everything that is wrong, one mistake on a line.
func (l *EdgeList[E]) Build(n int) (*Graph[E], error) {
	if err := l.check(n); err != nil {
		return nil, err
	}
	g := &Graph[E]{n: n, both: l.Undirected}
	g.out.off = make([]uint32, n+1)
	for i, u := range l.From {
		g.out.off[u]++
		if l.Undirected && u != l.To[i] {
			g.out.off[l.To[i]]++
		}
	}
	for _, d := range g.out.off {
		if d > 0 {
			g.sources++
		}
	}
	g.out.starts()
	g.out.to = make([]int32, g.out.off[n])
	g.values = make([]E, len(g.out.to))
	put := func(u, v int32, i int) {
		at := g.out.off[u]
		g.out.off[u]++
		g.out.to[at] = v
		if l.Values != nil {
			g.values[at] = l.Values[i]
		}
	}
	for i, u := range l.From {
		put(u, l.To[i], i)
		if l.Undirected && u != l.To[i] {
			put(l.To[i], u, i)
		}
	}
	g.out.rewind()
	if l.Undirected {
		g.sortEdges()
	}
	return g, nil
}

// sortEdges puts the edges of every vertex in the order of their targets.
func (g *Graph[E]) sortEdges() {
	if reflect.TypeFor[E]().Size() == 0 {
		for v := range int32(g.n) {
			slices.Sort(g.out.of(v))
		}
		return
	}
	var by []uint64 // target and place
	for v := range int32(g.n) {
		to := g.out.of(v)
		by = by[:0]
		for i, t := range to {
			by = append(by, uint64(t)<<32|uint64(i))
		}
		slices.Sort(by)
		values := g.values[g.out.off[v]:g.out.off[v+1]]
		old := slices.Clone(values)
		for i, x := range by {
			to[i], values[i] = int32(x>>32), old[uint32(x)]
		}
	}
}

func (l *EdgeList[E]) check(n int) error {
	var bad graphError
	if n < 0 || n > math.MaxInt32 {
		bad.add("%d vertices: a graph has between 0 and %d", n, math.MaxInt32)
		return &bad
	}
	if len(l.From) != len(l.To) {
		bad.add("%d edges have a source and %d a target", len(l.From), len(l.To))
	}
	if l.Values != nil && len(l.Values) != len(l.From) {
		bad.add("%d edges have a value and %d a source", len(l.Values), len(l.From))
	}
	if m := uint64(len(l.From)); m > math.MaxUint32 || l.Undirected && m > math.MaxUint32/2 {
		bad.add("%d edges: a graph has at most %d", m, uint32(math.MaxUint32))
	}
	for i, u := range l.From {
		if uint32(u) >= uint32(n) {
			bad.add("edge %d comes from vertex %d, of %d", i, u, n)
		}
	}
	for i, v := range l.To {
		if uint32(v) >= uint32(n) {
			bad.add("edge %d goes to vertex %d, of %d", i, v, n)
		}
	}
	return bad.orNil()
}

// A graphError lists the mistakes in a graph, at most the first hundred.
type graphError struct {
	Mistakes []string
	More     int // mistakes beyond those
}

func (e *graphError) add(format string, args ...any) {
	if len(e.Mistakes) == 100 {
		e.More++
		return
	}
	e.Mistakes = append(e.Mistakes, fmt.Sprintf(format, args...))
}

func (e *graphError) orNil() error {
	if len(e.Mistakes) == 0 {
		return nil
	}
	return e
}

func (e *graphError) Error() string {
	s := strings.Join(e.Mistakes, "\n")
	if e.More > 0 {
		s += fmt.Sprintf("\nand %d more mistakes", e.More)
	}
	return s
}

// NamedEdges builds a graph whose vertices have ids of the caller's. The zero value
// is empty. The ids are kept here, beside the graph: a run knows indexes only.
type NamedEdges[K comparable, E any] struct {
	Undirected bool // as of EdgeList

	ids   []K
	index map[K]int32
	edges []namedEdge[K, E]
	twice []K
}

type namedEdge[K comparable, E any] struct {
	from, to K
	value    E
}

// Vertex declares a vertex. The first one declared gets index 0, and so on.
func (b *NamedEdges[K, E]) Vertex(ids ...K) {
	if b.index == nil {
		b.index = map[K]int32{}
	}
	for _, id := range ids {
		if _, ok := b.index[id]; ok {
			b.twice = append(b.twice, id)
			continue
		}
		b.index[id] = int32(len(b.ids))
		b.ids = append(b.ids, id)
	}
}

// Edge adds an edge, with the value given or the zero value. Its ends may be declared later.
func (b *NamedEdges[K, E]) Edge(from, to K, value ...E) {
	e := namedEdge[K, E]{from: from, to: to}
	if len(value) > 0 {
		e.value = value[0]
	}
	b.edges = append(b.edges, e)
}

// Index returns the index of a vertex.
func (b *NamedEdges[K, E]) Index(id K) (int32, bool) {
	v, ok := b.index[id]
	return v, ok
}

// ID returns the id of the vertex of that index.
func (b *NamedEdges[K, E]) ID(v int32) K { return b.ids[v] }

// Build creates the graph. The error has everything that is wrong, one mistake on a line.
func (b *NamedEdges[K, E]) Build() (*Graph[E], error) {
	var bad graphError
	for _, id := range b.twice {
		bad.add("vertex %v is declared twice", id)
	}
	l := EdgeList[E]{Undirected: b.Undirected}
	for _, e := range b.edges {
		from, ok := b.index[e.from]
		if !ok {
			bad.add("edge %v → %v comes from an unknown vertex", e.from, e.to)
		}
		to, ok := b.index[e.to]
		if !ok {
			bad.add("edge %v → %v goes to an unknown vertex", e.from, e.to)
		}
		l.Add(from, to, e.value)
	}
	if err := bad.orNil(); err != nil {
		return nil, err
	}
	g, err := l.Build(len(b.ids))
	if err == nil {
		ids := b.ids[:len(b.ids):len(b.ids)]
		g.label, g.labels = func(v int32) string { return fmt.Sprint(ids[v]) }, len(ids)
	}
	return g, err
}
