package pregel

import "slices"

// earlyPlan holds, for every vertex, whether its tasks may start before their superstep. It also
// lists the vertices that must have ended by then, or that can no longer run before it.
type earlyPlan struct {
	may      []bool
	blockers []vertices // of those that may: whose unfinished tasks could change what the vertex is given
	feeds    [][]int    // of those that may: the vertices they read, and those that correct such a one
	blind    []bool     // joins that cannot be foretold
}

// vertices is a set of them, a bit each.
type vertices []uint64

func (b vertices) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b vertices) clear(i int)    { b[i/64] &^= 1 << (i % 64) }
func (b vertices) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// add puts o into b and reports whether that made a difference.
func (b vertices) add(o vertices) bool {
	more := false
	for i, w := range o {
		if w&^b[i] != 0 {
			b[i] |= w
			more = true
		}
	}
	return more
}

// AllowEarly lets tasks of vertices with declared Reads start as soon as their input is final,
// instead of at their superstep: once no unfinished task can lead to the vertex, to a vertex it
// reads, or to one that corrects those. The results of a run and the order of folding stay the
// same, but a run that ends with a failure may have computed more. It needs Targets of all
// vertices, and is called once, before the program is used. It takes a bit for every pair of
// vertices, so that in a program of more than 20,000 of them nothing starts early.
func (p *Program[S, U, M]) AllowEarly() {
	n := len(p.Vertices)
	if n > 20_000 || !slices.ContainsFunc(p.Vertices, func(v Vertex) bool { return v.Reads != nil }) {
		return
	}
	reach := p.reach()
	e := &earlyPlan{may: make([]bool, n), blockers: make([]vertices, n), feeds: make([][]int, n), blind: make([]bool, n)}
	correctors := make([][]int, n)
	for i := range p.Vertices {
		for _, c := range p.Vertices[i].Corrects {
			correctors[c] = append(correctors[c], i)
		}
	}
	for i := range p.Vertices {
		for _, to := range p.Vertices[i].Targets {
			if p.Vertices[to].Need > 0 && !p.joins(i, to, "") {
				e.blind[to] = true // it is woken in two ways
			}
		}
	}
	for i := range p.Vertices {
		v := &p.Vertices[i]
		cyclic := func(x int) bool { return reach[x].has(x) }
		e.blind[i] = e.blind[i] || v.Need > 0 && (v.Need < len(v.Sources) || cyclic(i) || slices.ContainsFunc(v.Sources, cyclic))
		if e.may[i] = v.Reads != nil && !e.blind[i]; !e.may[i] {
			continue
		}
		b := slices.Clone(reach[i])
		feeds := slices.Clone(v.Reads)
		for _, r := range v.Reads {
			feeds = append(feeds, correctors[r]...)
		}
		slices.Sort(feeds)
		e.feeds[i] = slices.Compact(feeds)
		for _, x := range e.feeds[i] {
			b.set(x)
			b.add(reach[x])
		}
		e.blockers[i] = b
	}
	p.early = e
}

// reach returns, for every vertex, the vertices from which a path leads to it.
func (p *Program[S, U, M]) reach() []vertices {
	n := len(p.Vertices)
	words := (n + 63) / 64
	all := make(vertices, n*words)
	reach := make([]vertices, n)
	for i := range reach {
		reach[i] = all[i*words : (i+1)*words]
	}
	order := p.reversePostorder()
	for more := true; more; { // twice for a graph without cycles
		more = false
		for _, i := range order {
			for _, to := range p.Vertices[i].Targets {
				if !reach[to].has(i) {
					reach[to].set(i)
					more = true
				}
				more = reach[to].add(reach[i]) || more
			}
		}
	}
	return reach
}

func (p *Program[S, U, M]) reversePostorder() []int {
	n := len(p.Vertices)
	seen, order := make([]bool, n), make([]int, 0, n)
	type frame struct{ vertex, next int }
	for root := range n {
		if seen[root] {
			continue
		}
		seen[root] = true
		stack := []frame{{vertex: root}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if targets := p.Vertices[f.vertex].Targets; f.next < len(targets) {
				to := targets[f.next]
				f.next++
				if !seen[to] {
					seen[to] = true
					stack = append(stack, frame{vertex: to})
				}
				continue
			}
			order = append(order, f.vertex)
			stack = stack[:len(stack)-1]
		}
	}
	slices.Reverse(order)
	return order
}

// Early reports whether the tasks of a vertex may start before their superstep, and if so,
// which vertices they wait for even then.
func (p *Program[S, U, M]) Early(vertex int) (may bool, waits []int) {
	if p.early == nil || p.Terminal != nil || !p.early.may[vertex] {
		return false, nil
	}
	for i := range p.Vertices {
		if p.early.blockers[vertex].has(i) {
			waits = append(waits, i)
		}
	}
	return true, waits
}
