package pregel

import "slices"

// views holds the input of vertices that do not read the whole state: the first state of the run,
// and the updates of the vertices that are read by others.
type views[S, U any] struct {
	reduce  func(S, U) S
	branch  func(S) S
	reads   [][]int // by vertex
	initial S
	read    []bool      // by vertex: somebody reads it
	kept    [][]kept[U] // by vertex, in the order of the fold
	at      map[int]*view[S]
}

// kept is an update of a superstep that has been committed.
type kept[U any] struct {
	step, index int
	own         bool // not a fix by another vertex, which comes first
	update      U
}

func (a *kept[U]) compare(b *kept[U]) int {
	switch {
	case a.step != b.step:
		return a.step - b.step
	case a.index != b.index:
		return a.index - b.index
	case a.own == b.own:
		return 0
	case b.own:
		return -1
	}
	return 1
}

// view is a state with the first so many updates of each vertex it reads folded in.
type view[S any] struct {
	state S
	next  []int
}

func newViews[S, U, M any](prog *Program[S, U, M], initial S) *views[S, U] {
	if !slices.ContainsFunc(prog.Vertices, func(v Vertex) bool { return v.Reads != nil }) {
		return nil
	}
	n := len(prog.Vertices)
	v := &views[S, U]{reduce: prog.Reduce, branch: prog.Branch, at: map[int]*view[S]{}}
	v.initial = v.apart(initial)
	v.reads, v.read, v.kept = make([][]int, n), make([]bool, n), make([][]kept[U], n)
	for i := range prog.Vertices {
		v.reads[i] = prog.Vertices[i].Reads
		for _, r := range v.reads[i] {
			v.read[r] = true
		}
	}
	return v
}

func (v *views[S, U]) apart(s S) S {
	if v.branch == nil {
		return s
	}
	return v.branch(s)
}

// keep stores a committed update, if any vertex reads it.
func (v *views[S, U]) keep(vertex, step, index int, fix *Fix[U], u U) {
	if fix != nil && v.read[fix.Vertex] {
		v.kept[fix.Vertex] = append(v.kept[fix.Vertex], kept[U]{step, index, false, fix.Update})
	}
	if v.read[vertex] {
		v.kept[vertex] = append(v.kept[vertex], kept[U]{step, index, true, u})
	}
}

// sees returns what a vertex sees of all that has been committed.
func (v *views[S, U]) sees(vertex int) S {
	w := v.at[vertex]
	if w == nil {
		w = &view[S]{state: v.apart(v.initial), next: make([]int, len(v.reads[vertex]))}
		v.at[vertex] = w
	}
	var news []kept[U]
	for i, r := range v.reads[vertex] {
		news = append(news, v.kept[r][w.next[i]:]...)
		w.next[i] = len(v.kept[r])
	}
	if len(v.reads[vertex]) > 1 {
		slices.SortFunc(news, func(a, b kept[U]) int { return a.compare(&b) })
	}
	for i := range news {
		w.state = v.reduce(w.state, news[i].update)
	}
	return w.state
}
