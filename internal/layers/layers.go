// Package layers places the boxes of a graph in layers, for pictures of it.
package layers

import (
	"cmp"
	"math"
	"slices"
)

// A Box is how far an element reaches from its middle, before it and behind it along its layer.
type Box struct{ Before, After float64 }

// Gaps are the distances between neighbours in a layer.
type Gaps struct {
	Boxes float64 // between two boxes
	Edges float64 // between two edges that pass the layer
	Mixed float64 // between a box and an edge
	Edge  Box     // of an edge that passes the layer
}

// A Layout is where boxes and edges are, as Sugiyama, Tagawa and Toda (1981) place them: edges are turned until there is no cycle, each box is put in the
// layer below all boxes that lead to it, edges that cross layers get a place in each of them, the layers are ordered by the barycentres of their
// neighbours, and the boxes of a layer are moved as near to their neighbours as their order allows, which is an isotonic regression (pool adjacent
// violators) per layer.
type Layout struct {
	N      int       // boxes of the caller
	Rank   []int     // the layer of each box, and of each place of an edge behind them
	X      []float64 // their middles along the layer
	Layers [][]int   // what is in each layer, in order
	Down   [][]int   // what each leads to in the layer below
	Chains [][]int   // by edge, what it passes, from above to below; for a far one only its ends, none for a loop
	Far    []bool    // by edge: it goes around everything
	Turned []bool    // by edge: it runs upwards, from its target to its source

	boxes []Box
	arcs  [][2]int
	gaps  Gaps
	up    [][]int
}

// New places boxes and edges. It takes O((boxes+edges) log) per round, for a fixed number of rounds.
func New(boxes []Box, arcs [][2]int, gaps Gaps) *Layout {
	l := &Layout{boxes: slices.Clone(boxes), arcs: arcs, N: len(boxes), gaps: gaps, Far: make([]bool, len(arcs))}
	l.Turned = Backward(l.N, arcs)
	l.ranks()
	l.chain()
	l.order()
	l.place()
	return l
}

// Backward reports of each edge between n boxes whether it closes a cycle.
func Backward(n int, arcs [][2]int) []bool {
	turned := make([]bool, len(arcs))
	out := make([][]int, n)
	for i, a := range arcs {
		if a[0] != a[1] {
			out[a[0]] = append(out[a[0]], i)
		}
	}
	const open, closed = 1, 2
	state := make([]uint8, n)
	type frame struct{ at, next int }
	for root := range n {
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
			switch to := arcs[i][1]; state[to] {
			case 0:
				state[to] = open
				stack = append(stack, frame{at: to})
			case open:
				turned[i] = true
			}
		}
	}
	return turned
}

// ends returns the upper and the lower end of an edge.
func (l *Layout) ends(i int) (above, below int) {
	if l.Turned[i] {
		return l.arcs[i][1], l.arcs[i][0]
	}
	return l.arcs[i][0], l.arcs[i][1]
}

// ranks puts each box into a layer: below the lowest box that leads to it, or, if none does, right
// above the first box that it leads to.
func (l *Layout) ranks() {
	out, in := make([][]int, l.N), make([]int, l.N)
	for i := range l.arcs {
		if above, below := l.ends(i); above != below {
			out[above] = append(out[above], below)
			in[below]++
		}
	}
	l.Rank = make([]int, l.N)
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
			l.Rank[to] = max(l.Rank[to], l.Rank[i]+1)
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
			first = min(first, l.Rank[to])
		}
		l.Rank[i] = first - 1
	}
}

// chain assigns each edge a position in every layer that it crosses, short edges first. The number
// of places is bounded in proportion to the graph; the remaining edges are drawn around it.
func (l *Layout) chain() {
	l.Chains = make([][]int, len(l.arcs))
	byLength := make([]int, 0, len(l.arcs))
	length := func(i int) int { above, below := l.ends(i); return l.Rank[below] - l.Rank[above] }
	for i, a := range l.arcs {
		if a[0] != a[1] {
			byLength = append(byLength, i)
		}
	}
	slices.SortStableFunc(byLength, func(a, b int) int { return cmp.Compare(length(a), length(b)) })
	budget := 2000 + 2*(l.N+len(l.arcs))
	for _, i := range byLength {
		above, below := l.ends(i)
		places := length(i) - 1
		if budget -= places; budget < 0 && places > 0 {
			l.Far[i] = true
			l.Chains[i] = []int{above, below}
			continue
		}
		l.Chains[i] = append(l.Chains[i], above)
		for r := l.Rank[above] + 1; r < l.Rank[below]; r++ {
			l.Chains[i] = append(l.Chains[i], len(l.boxes))
			l.boxes = append(l.boxes, l.gaps.Edge)
			l.Rank = append(l.Rank, r)
		}
		l.Chains[i] = append(l.Chains[i], below)
	}
	l.up, l.Down = make([][]int, len(l.boxes)), make([][]int, len(l.boxes))
	for i, c := range l.Chains {
		for j := 1; j < len(c) && !l.Far[i]; j++ {
			l.Down[c[j-1]] = append(l.Down[c[j-1]], c[j])
			l.up[c[j]] = append(l.up[c[j]], c[j-1])
		}
	}
}

// order sorts each layer so that few edges cross.
func (l *Layout) order() {
	depth := 0
	for _, r := range l.Rank {
		depth = max(depth, r+1)
	}
	l.Layers = make([][]int, depth)
	for v, seen := 0, make([]bool, len(l.boxes)); v < len(l.boxes); v++ { // neighbours next to each other, to begin with
		stack := []int{v}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[at] {
				continue
			}
			seen[at] = true
			l.Layers[l.Rank[at]] = append(l.Layers[l.Rank[at]], at)
			for _, to := range slices.Backward(l.Down[at]) {
				stack = append(stack, to)
			}
		}
	}
	pos := make([]int, len(l.boxes))
	number := func(r int) {
		for i, v := range l.Layers[r] {
			pos[v] = i
		}
	}
	for r := range l.Layers {
		number(r)
	}
	best, fewest := l.copyLayers(), l.crossings(pos)
	weight := make([]float64, len(l.boxes))
	for round := 0; round < 12 && fewest > 0; round++ {
		neighbours := l.up
		if round%2 == 1 {
			neighbours = l.Down
		}
		for i := range l.Layers {
			r := i
			if round%2 == 1 {
				r = len(l.Layers) - 1 - i
			}
			for _, v := range l.Layers[r] {
				weight[v] = float64(pos[v])
				if list := neighbours[v]; len(list) > 0 {
					sum := 0
					for _, u := range list {
						sum += pos[u]
					}
					weight[v] = float64(sum) / float64(len(list))
				}
			}
			slices.SortStableFunc(l.Layers[r], func(a, b int) int { return cmp.Compare(weight[a], weight[b]) })
			number(r)
		}
		if n := l.crossings(pos); n < fewest {
			best, fewest = l.copyLayers(), n
		}
	}
	l.Layers = best
}

func (l *Layout) copyLayers() [][]int {
	out := make([][]int, len(l.Layers))
	for i, layer := range l.Layers {
		out[i] = slices.Clone(layer)
	}
	return out
}

// crossings counts how often edges cross: inversions, with a Fenwick tree per layer.
func (l *Layout) crossings(pos []int) int {
	total := 0
	var tree, ends []int
	for r := 0; r+1 < len(l.Layers); r++ {
		size := len(l.Layers[r+1])
		tree = append(tree[:0], make([]int, size+1)...)
		seen := 0
		for _, v := range l.Layers[r] {
			ends = ends[:0]
			for _, u := range l.Down[v] {
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

// place moves the boxes of each layer to where their neighbours are.
func (l *Layout) place() {
	l.X = make([]float64, len(l.boxes))
	for _, layer := range l.Layers {
		at := 0.0
		for i, v := range layer {
			if i > 0 {
				at += l.apart(layer[i-1], v)
			}
			l.X[v] = at
		}
		for _, v := range layer {
			l.X[v] -= at / 2
		}
	}
	wish, weight := make([]float64, len(l.boxes)), make([]float64, len(l.boxes))
	const rounds = 28
	for round := range rounds {
		for i := range l.Layers {
			r := i
			if round%2 == 1 {
				r = len(l.Layers) - 1 - i
			}
			for _, v := range l.Layers[r] {
				var lists [2][]int
				if round%2 == 0 || round >= rounds-16 {
					lists[0] = l.up[v]
				}
				if round%2 == 1 || round >= rounds-16 {
					lists[1] = l.Down[v]
				}
				wish[v], weight[v] = l.wish(v, lists)
			}
			l.settle(l.Layers[r], wish, weight)
		}
	}
}

// wish returns the ideal position of a box and its weight. Edges across several layers weigh more,
// to keep them straight.
func (l *Layout) wish(v int, lists [2][]int) (x, weight float64) {
	var sum, all float64
	for _, list := range lists {
		for _, u := range list {
			w := 1.0
			if v >= l.N && u >= l.N {
				w = 8
			} else if v >= l.N || u >= l.N {
				w = 2
			}
			sum += w * l.X[u]
			all += w
		}
	}
	if all == 0 {
		return l.X[v], 0.1
	}
	return sum / all, all
}

// apart returns how far the middles of neighbours in a layer must be from each other.
func (l *Layout) apart(a, b int) float64 {
	gap := l.gaps.Boxes
	switch {
	case a >= l.N && b >= l.N:
		gap = l.gaps.Edges
	case a >= l.N || b >= l.N:
		gap = l.gaps.Mixed
	}
	return l.boxes[a].After + gap + l.boxes[b].Before
}

// settle puts the boxes of a layer as near to their ideal positions as their order allows. It
// minimizes the weighted sum of squares by pooling neighbours that overlap.
func (l *Layout) settle(layer []int, wish, weight []float64) {
	type pool struct {
		x, weight float64
		n         int
	}
	pools := make([]pool, 0, len(layer))
	offset := 0.0
	offsets := make([]float64, len(layer))
	for i, v := range layer {
		if i > 0 {
			offset += l.apart(layer[i-1], v)
		}
		offsets[i] = offset
		p := pool{wish[v] - offset, weight[v], 1}
		for len(pools) > 0 && pools[len(pools)-1].x >= p.x {
			q := pools[len(pools)-1]
			pools = pools[:len(pools)-1]
			p = pool{(p.x*p.weight + q.x*q.weight) / (p.weight + q.weight), p.weight + q.weight, p.n + q.n}
		}
		pools = append(pools, p)
	}
	i := 0
	for _, p := range pools {
		for range p.n {
			l.X[layer[i]] = p.x + offsets[i]
			i++
		}
	}
}
