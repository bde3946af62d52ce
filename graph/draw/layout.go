package draw

import (
	"cmp"
	"math"
	"slices"

	"github.com/superstep-dev/superstep/internal/layers"
)

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

// layout is where boxes are in their layers.
type layout struct {
	*layers.Layout
	boxes []box
}

// box returns a box; the place of an edge has no size.
func (l layout) box(v int) box {
	if v < l.N {
		return l.boxes[v]
	}
	return box{}
}

// lay places boxes and edges, stacks the layers and routes the edges.
func lay(boxes []box, arcs [][2]int) *drawing {
	sizes := make([]layers.Box, len(boxes))
	for i, b := range boxes {
		sizes[i] = layers.Box{Before: b.w / 2, After: b.w/2 + b.right}
	}
	l := &layout{layers.New(sizes, arcs, layers.Gaps{Boxes: besides, Edges: laneGap, Mixed: laneGap + 6}), boxes}
	d := &drawing{x: make([]float64, l.N), y: make([]float64, l.N), runs: make([][]run, len(arcs)), turned: l.Turned}
	left, right := math.Inf(1), math.Inf(-1)
	for v, x := range l.X {
		b := l.box(v)
		left, right = min(left, x-b.w/2), max(right, x+b.w/2+b.right)
	}
	for v := range l.X {
		l.X[v] = math.Round(l.X[v] - left)
	}
	around := 0 // edges that go around
	for _, far := range l.Far {
		if far {
			around++
		}
	}
	lane := right - left
	if around > 0 {
		lane += besides
	}
	top, bottom := l.heights()
	copy(d.x, l.X)
	for v := range l.N {
		d.y[v] = math.Round((top[l.Rank[v]] + bottom[l.Rank[v]]) / 2)
	}
	ports := l.ports()
	for i, c := range l.Chains {
		for j, v := range c {
			r := l.Rank[v]
			a := run{l.X[v], top[r], bottom[r]}
			switch {
			case v >= l.N:
			case j == 0:
				a.x, a.top = a.x+ports[i][0], d.y[v]+l.boxes[v].h/2
			default:
				a.x, a.bottom = a.x+ports[i][1], d.y[v]-l.boxes[v].h/2
			}
			if l.Far[i] && j == 1 {
				d.runs[i] = append(d.runs[i], run{lane, top[l.Rank[c[0]]+1], bottom[r-1]})
			}
			d.runs[i] = append(d.runs[i], a)
		}
	}
	if len(l.X) > 0 {
		d.w, d.h = math.Ceil(lane), math.Ceil(bottom[len(bottom)-1])
	}
	return d
}

// heights returns the top and bottom of each layer.
func (l layout) heights() (top, bottom []float64) {
	top, bottom = make([]float64, len(l.Layers)), make([]float64, len(l.Layers))
	y := 0.0
	for r, layer := range l.Layers {
		height, edges := 0.0, 0
		for _, v := range layer {
			height = max(height, l.box(v).h)
			edges += len(l.Down[v])
		}
		top[r], bottom[r] = y, y+height
		y += height + min(mostGap, between+perEdge*float64(edges))
	}
	return top, bottom
}

// ports returns, for each edge, the offsets of its upper and its lower end from the middle of the
// box. The ends at one box are ordered by where they lead.
func (l layout) ports() [][2]float64 {
	type end struct {
		arc, side int
		x         float64
	}
	ends := [2][][]end{make([][]end, l.N), make([][]end, l.N)}
	for i, c := range l.Chains {
		if len(c) == 0 {
			continue
		}
		last := len(c) - 1
		xs := [2]float64{l.X[c[1]], l.X[c[last-1]]}
		if l.Far[i] {
			xs = [2]float64{math.Inf(1), math.Inf(1)}
		}
		ends[0][c[0]] = append(ends[0][c[0]], end{i, 0, xs[0]})
		ends[1][c[last]] = append(ends[1][c[last]], end{i, 1, xs[1]})
	}
	out := make([][2]float64, len(l.Chains))
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
