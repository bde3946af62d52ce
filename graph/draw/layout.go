package draw

import (
	"cmp"
	"math"
	"slices"
)

// The layout is that of Sugiyama, Tagawa and Toda (1981): edges are turned until there is no cycle,
// each box is put in the layer below all boxes that lead to it, edges that cross layers get a place
// in each of them, the layers are ordered by the barycentres of their neighbours, and the boxes of
// a layer are moved as near to their neighbours as their order allows, which is an isotonic
// regression (pool adjacent violators) per layer.

// box is an element to place: its size, and the space needed to its right.
type box struct{ w, h, right float64 }

// run is a stretch of an edge that goes straight down at x.
type run struct{ x, top, bottom float64 }

// drawing is the result of the layout. Edges run downwards; an edge that was turned runs from its
// target to its source.
type drawing struct {
	x, y   []float64 // the centres of the boxes
	w, h   float64   // of everything
	runs   [][]run   // by edge; none for a loop
	turned []bool    // by edge
}

const (
	besides  = 36.0 // between two boxes of a layer
	laneGap  = 14.0 // beside an edge that passes a layer
	between  = 50.0 // between two layers, and
	perEdge  = 2.0  // for each edge there, up to
	mostGap  = 110.0
	portStep = 22.0 // between two edges at a box
)

type layout struct {
	boxes    []box // those of the caller, then the places of edges in layers
	arcs     [][2]int
	n        int // boxes of the caller
	rank     []int
	chains   [][]int // by edge, what it passes, from above to below; for a far one only its ends
	far      []bool  // by edge: it goes around everything
	turned   []bool
	up, down [][]int
	layers   [][]int
	x        []float64
}

// lay places boxes and edges. It takes O((boxes+edges) log) per round, for a fixed number of rounds.
func lay(boxes []box, arcs [][2]int) *drawing {
	l := &layout{boxes: slices.Clone(boxes), arcs: arcs, n: len(boxes), turned: make([]bool, len(arcs)), far: make([]bool, len(arcs))}
	l.straighten()
	l.ranks()
	l.chain()
	l.order()
	l.place()
	return l.drawing()
}

// straighten reverses the edges that close a cycle.
func (l *layout) straighten() {
	out := make([][]int, l.n)
	for i, a := range l.arcs {
		if a[0] != a[1] {
			out[a[0]] = append(out[a[0]], i)
		}
	}
	const open, closed = 1, 2
	state := make([]uint8, l.n)
	type frame struct{ at, next int }
	for root := range l.n {
		if state[root] != 0 {
			continue
		}
		stack := []frame{{at: root}}
		state[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(out[f.at]) {
				state[f.at] = closed
				stack = stack[:len(stack)-1]
				continue
			}
			i := out[f.at][f.next]
			f.next++
			switch to := l.arcs[i][1]; state[to] {
			case 0:
				state[to] = open
				stack = append(stack, frame{at: to})
			case open:
				l.turned[i] = true
			}
		}
	}
}

// ends returns the upper and the lower end of an edge.
func (l *layout) ends(i int) (above, below int) {
	if l.turned[i] {
		return l.arcs[i][1], l.arcs[i][0]
	}
	return l.arcs[i][0], l.arcs[i][1]
}

// ranks puts each box into a layer: below the lowest box that leads to it, or, if none does, right
// above the first box that it leads to.
func (l *layout) ranks() {
	out, in := make([][]int, l.n), make([]int, l.n)
	for i := range l.arcs {
		if above, below := l.ends(i); above != below {
			out[above] = append(out[above], below)
			in[below]++
		}
	}
	l.rank = make([]int, l.n)
	var queue, roots []int
	for i, n := range in {
		if n == 0 {
			queue = append(queue, i)
			roots = append(roots, i)
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, to := range out[i] {
			l.rank[to] = max(l.rank[to], l.rank[i]+1)
			if in[to]--; in[to] == 0 {
				queue = append(queue, to)
			}
		}
	}
	for _, i := range roots {
		if len(out[i]) == 0 {
			continue
		}
		first := math.MaxInt
		for _, to := range out[i] {
			first = min(first, l.rank[to])
		}
		l.rank[i] = first - 1
	}
}

// chain assigns each edge a position in every layer that it crosses, short edges first. The number
// of places is bounded in proportion to the graph; the remaining edges are drawn around it.
func (l *layout) chain() {
	l.chains = make([][]int, len(l.arcs))
	byLength := make([]int, 0, len(l.arcs))
	length := func(i int) int { above, below := l.ends(i); return l.rank[below] - l.rank[above] }
	for i, a := range l.arcs {
		if a[0] != a[1] {
			byLength = append(byLength, i)
		}
	}
	slices.SortStableFunc(byLength, func(a, b int) int { return cmp.Compare(length(a), length(b)) })
	budget := 2000 + 2*(l.n+len(l.arcs))
	for _, i := range byLength {
		above, below := l.ends(i)
		places := length(i) - 1
		if budget -= places; budget < 0 && places > 0 {
			l.far[i] = true
			l.chains[i] = []int{above, below}
			continue
		}
		l.chains[i] = append(l.chains[i], above)
		for r := l.rank[above] + 1; r < l.rank[below]; r++ {
			l.chains[i] = append(l.chains[i], len(l.boxes))
			l.boxes = append(l.boxes, box{})
			l.rank = append(l.rank, r)
		}
		l.chains[i] = append(l.chains[i], below)
	}
	l.up, l.down = make([][]int, len(l.boxes)), make([][]int, len(l.boxes))
	for i, c := range l.chains {
		for j := 1; j < len(c) && !l.far[i]; j++ {
			l.down[c[j-1]] = append(l.down[c[j-1]], c[j])
			l.up[c[j]] = append(l.up[c[j]], c[j-1])
		}
	}
}

// order sorts each layer so that few edges cross.
func (l *layout) order() {
	depth := 0
	for _, r := range l.rank {
		depth = max(depth, r+1)
	}
	l.layers = make([][]int, depth)
	for v, seen := 0, make([]bool, len(l.boxes)); v < len(l.boxes); v++ { // neighbours next to each other, to begin with
		stack := []int{v}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[at] {
				continue
			}
			seen[at] = true
			l.layers[l.rank[at]] = append(l.layers[l.rank[at]], at)
			for _, to := range slices.Backward(l.down[at]) {
				stack = append(stack, to)
			}
		}
	}
	pos := make([]int, len(l.boxes))
	number := func(r int) {
		for i, v := range l.layers[r] {
			pos[v] = i
		}
	}
	for r := range l.layers {
		number(r)
	}
	best, fewest := l.copyLayers(), l.crossings(pos)
	weight := make([]float64, len(l.boxes))
	for round := 0; round < 12 && fewest > 0; round++ {
		neighbours := l.up
		if round%2 == 1 {
			neighbours = l.down
		}
		for i := range l.layers {
			r := i
			if round%2 == 1 {
				r = len(l.layers) - 1 - i
			}
			for _, v := range l.layers[r] {
				weight[v] = float64(pos[v])
				if list := neighbours[v]; len(list) > 0 {
					sum := 0
					for _, u := range list {
						sum += pos[u]
					}
					weight[v] = float64(sum) / float64(len(list))
				}
			}
			slices.SortStableFunc(l.layers[r], func(a, b int) int { return cmp.Compare(weight[a], weight[b]) })
			number(r)
		}
		if n := l.crossings(pos); n < fewest {
			best, fewest = l.copyLayers(), n
		}
	}
	l.layers = best
}

func (l *layout) copyLayers() [][]int {
	out := make([][]int, len(l.layers))
	for i, layer := range l.layers {
		out[i] = slices.Clone(layer)
	}
	return out
}

// crossings counts how often edges cross: inversions, with a Fenwick tree per layer.
func (l *layout) crossings(pos []int) int {
	total := 0
	var tree, ends []int
	for r := 0; r+1 < len(l.layers); r++ {
		size := len(l.layers[r+1])
		tree = append(tree[:0], make([]int, size+1)...)
		seen := 0
		for _, v := range l.layers[r] {
			ends = ends[:0]
			for _, u := range l.down[v] {
				ends = append(ends, pos[u])
			}
			for _, p := range ends {
				total += seen
				for i := p + 1; i > 0; i -= i & -i {
					total -= tree[i]
				}
			}
			for _, p := range ends {
				seen++
				for i := p + 1; i <= size; i += i & -i {
					tree[i]++
				}
			}
		}
	}
	return total
}
