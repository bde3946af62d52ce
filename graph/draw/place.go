package draw

import (
	"cmp"
	"math"
	"slices"
)

// place moves the boxes of each layer to where their neighbours are.
func (l *layout) place() {
	l.x = make([]float64, len(l.boxes))
	for _, layer := range l.layers {
		at := 0.0
		for i, v := range layer {
			if i > 0 {
				at += l.apart(layer[i-1], v)
			}
			l.x[v] = at
		}
		for _, v := range layer {
			l.x[v] -= at / 2
		}
	}
	wish, weight := make([]float64, len(l.boxes)), make([]float64, len(l.boxes))
	const rounds = 28
	for round := range rounds {
		for i := range l.layers {
			r := i
			if round%2 == 1 {
				r = len(l.layers) - 1 - i
			}
			for _, v := range l.layers[r] {
				var lists [2][]int
				if round%2 == 0 || round >= rounds-16 {
					lists[0] = l.up[v]
				}
				if round%2 == 1 || round >= rounds-16 {
					lists[1] = l.down[v]
				}
				wish[v], weight[v] = l.wish(v, lists)
			}
			l.settle(l.layers[r], wish, weight)
		}
	}
}

// wish returns the ideal position of a box and its weight. Edges across several layers weigh more,
// to keep them straight.
func (l *layout) wish(v int, lists [2][]int) (x, weight float64) {
	var sum, all float64
	for _, list := range lists {
		for _, u := range list {
			w := 1.0
			if v >= l.n && u >= l.n {
				w = 8
			} else if v >= l.n || u >= l.n {
				w = 2
			}
			sum += w * l.x[u]
			all += w
		}
	}
	if all == 0 {
		return l.x[v], 0.1
	}
	return sum / all, all
}

// apart returns how far the centres of neighbours in a layer must be from each other.
func (l *layout) apart(a, b int) float64 {
	gap := besides
	switch {
	case a >= l.n && b >= l.n:
		gap = laneGap
	case a >= l.n || b >= l.n:
		gap = laneGap + 6
	}
	return l.boxes[a].w/2 + l.boxes[a].right + gap + l.boxes[b].w/2
}

// settle puts the boxes of a layer as near to their ideal positions as their order allows. It
// minimizes the weighted sum of squares by pooling neighbours that overlap.
func (l *layout) settle(layer []int, wish, weight []float64) {
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
			l.x[layer[i]] = p.x + offsets[i]
			i++
		}
	}
}

// drawing stacks the layers and routes the edges.
func (l *layout) drawing() *drawing {
	d := &drawing{x: make([]float64, l.n), y: make([]float64, l.n), runs: make([][]run, len(l.arcs)), turned: l.turned}
	left, right := math.Inf(1), math.Inf(-1)
	for v, b := range l.boxes {
		left, right = min(left, l.x[v]-b.w/2), max(right, l.x[v]+b.w/2+b.right)
	}
	for v := range l.x {
		l.x[v] = math.Round(l.x[v] - left)
	}
	around := 0 // edges that go around
	for _, far := range l.far {
		if far {
			around++
		}
	}
	lane := right - left
	if around > 0 {
		lane += besides
	}
	top, bottom := l.heights()
	copy(d.x, l.x)
	for v := range l.n {
		d.y[v] = math.Round((top[l.rank[v]] + bottom[l.rank[v]]) / 2)
	}
	ports := l.ports()
	for i, c := range l.chains {
		for j, v := range c {
			r := l.rank[v]
			a := run{l.x[v], top[r], bottom[r]}
			switch {
			case v >= l.n:
			case j == 0:
				a.x, a.top = a.x+ports[i][0], d.y[v]+l.boxes[v].h/2
			default:
				a.x, a.bottom = a.x+ports[i][1], d.y[v]-l.boxes[v].h/2
			}
			if l.far[i] && j == 1 {
				d.runs[i] = append(d.runs[i], run{lane, top[l.rank[c[0]]+1], bottom[r-1]})
			}
			d.runs[i] = append(d.runs[i], a)
		}
	}
	if len(l.boxes) > 0 {
		d.w, d.h = math.Ceil(lane), math.Ceil(bottom[len(bottom)-1])
	}
	return d
}

// heights returns the top and bottom of each layer.
func (l *layout) heights() (top, bottom []float64) {
	top, bottom = make([]float64, len(l.layers)), make([]float64, len(l.layers))
	y := 0.0
	for r, layer := range l.layers {
		height, edges := 0.0, 0
		for _, v := range layer {
			height = max(height, l.boxes[v].h)
			edges += len(l.down[v])
		}
		top[r], bottom[r] = y, y+height
		y += height + min(mostGap, between+perEdge*float64(edges))
	}
	return top, bottom
}

// ports returns, for each edge, the offsets of its upper and its lower end from the middle of the
// box. The ends at one box are ordered by where they lead.
func (l *layout) ports() [][2]float64 {
	type end struct {
		arc, side int
		x         float64
	}
	ends := [2][][]end{make([][]end, l.n), make([][]end, l.n)}
	for i, c := range l.chains {
		if len(c) == 0 {
			continue
		}
		last := len(c) - 1
		xs := [2]float64{l.x[c[1]], l.x[c[last-1]]}
		if l.far[i] {
			xs = [2]float64{math.Inf(1), math.Inf(1)}
		}
		ends[0][c[0]] = append(ends[0][c[0]], end{i, 0, xs[0]})
		ends[1][c[last]] = append(ends[1][c[last]], end{i, 1, xs[1]})
	}
	out := make([][2]float64, len(l.arcs))
	for _, side := range ends {
		for v, list := range side {
			slices.SortStableFunc(list, func(a, b end) int { return cmp.Compare(a.x, b.x) })
			step := 0.0
			if len(list) > 1 {
				step = min(portStep, max(0, l.boxes[v].w*0.6)/float64(len(list)-1))
			}
			for i, e := range list {
				out[e.arc][e.side] = math.Round(step * (float64(i) - float64(len(list)-1)/2))
			}
		}
	}
	return out
}
