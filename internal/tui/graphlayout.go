package tui

import (
	"cmp"
	"math"
	"slices"

	"github.com/superstep-dev/superstep/internal/layers"
)

// A graphBox is what is placed: a node of a graph, or a task of it, as a text on one line.
type graphBox struct {
	wide     int // cells of its text
	col, row int // where it is, in columns of boxes
	x, y     int // in cells
}

// A graphArc is an edge between boxes.
type graphArc struct {
	from, to int
	heavy    bool
}

// A picture is a drawn graph: its boxes are placed, and the cells between them hold lines.
type picture struct {
	boxes []graphBox
	w, h  int
	lines []lineCell // row by row
}

// lineCell is a cell of lines: how heavy each of its four arms is, up, right, down and left, and whose they are.
type lineCell struct {
	arms   [4]uint8
	hs, vs uint64 // groups of edges, as bits, with horizontal and with vertical arms
}

const (
	armUp = iota
	armRight
	armDown
	armLeft
)

// mostBoxes bounds the boxes of a picture that can be looked at.
const mostBoxes = 4000

// layGraph places boxes in columns from left to right, and draws the edges between them, without those that lead back, loops and doubles. It is nil if the
// graph is too large to be looked at.
func layGraph(boxes []graphBox, arcs []graphArc) *picture {
	if len(boxes) == 0 || len(boxes) > mostBoxes {
		return nil
	}
	heavy := map[[2]int]bool{}
	var ends [][2]int
	for _, a := range forward(len(boxes), arcs) {
		key := [2]int{a.from, a.to}
		if _, twice := heavy[key]; !twice {
			ends = append(ends, key)
		}
		heavy[key] = heavy[key] || a.heavy
	}
	one := layers.Box{Before: 0.5, After: 0.5} // a row
	l := &graphLayout{Layout: layers.New(slices.Repeat([]layers.Box{one}, len(boxes)), ends, layers.Gaps{Edge: one})}
	if slices.Contains(l.Far, true) {
		return nil
	}
	for i, chain := range l.Chains {
		for n := 1; n < len(chain); n++ {
			l.hops, l.heavy = append(l.hops, [2]int{chain[n-1], chain[n]}), append(l.heavy, heavy[ends[i]])
		}
	}
	l.row = make([]int, len(l.X))
	for _, col := range l.Layers {
		for i, v := range col {
			if l.row[v] = int(math.Round(l.X[v])); i > 0 {
				l.row[v] = max(l.row[v], l.row[col[i-1]]+1)
			}
		}
	}
	least := slices.Min(l.row)
	for i := range l.row {
		l.row[i] -= least
	}
	return l.picture(boxes)
}

// A graphLayout is where boxes, and edges that pass columns, are: its layers are columns.
type graphLayout struct {
	*layers.Layout
	row   []int
	hops  [][2]int // between neighbouring columns
	heavy []bool   // by hop
}

// forward returns the edges without those that lead back, and loops.
func forward(n int, arcs []graphArc) []graphArc {
	ends := make([][2]int, len(arcs))
	for i, a := range arcs {
		ends[i] = [2]int{a.from, a.to}
	}
	var out []graphArc
	for i, back := range layers.Backward(n, ends) {
		if a := arcs[i]; !back && a.from != a.to {
			out = append(out, a)
		}
	}
	return out
}

// picture draws the edges.
func (l *graphLayout) picture(boxes []graphBox) *picture {
	p := &picture{boxes: boxes, h: slices.Max(l.row) + 1}
	wide := make([]int, len(l.Layers)) // of the boxes of a column
	for i := range boxes {
		wide[l.Rank[i]] = max(wide[l.Rank[i]], boxes[i].wide)
	}
	group, channel, channels := l.channels()
	left := make([]int, len(l.Layers)) // where a column begins
	x := 0
	for c := range l.Layers {
		left[c] = x
		x += wide[c] + 3 + 2*max(1, channels[c])
	}
	p.w = left[len(left)-1] + wide[len(wide)-1]
	p.lines = make([]lineCell, (p.w+1)*p.h)
	for i := range boxes {
		b := &boxes[i]
		b.col, b.row = l.Rank[i], l.row[i]
		b.x, b.y = left[b.col], b.row
	}
	for pass := range 2 { // the heavy ones last
		for i, h := range l.hops {
			weight := uint8(1)
			if l.heavy[i] {
				weight = 2
			}
			if (weight == 2) != (pass == 1) {
				continue
			}
			bit := uint64(1) << (group[i] % 64)
			from, to := h[0], h[1]
			a, b := l.row[from], l.row[to]
			begin, end := left[l.Rank[from]], left[l.Rank[to]]+wide[l.Rank[to]] // of an edge that passes both columns
			if from < l.N {
				begin += boxes[from].wide + 1
				p.cell(begin, a).arm(armLeft, weight)
			}
			if to < l.N {
				end = left[l.Rank[to]] - 2
				p.cell(end, b).arm(armRight, weight)
			}
			turn := left[l.Rank[from]] + wide[l.Rank[from]] + 2 + 2*channel[i]
			if a == b {
				p.across(begin, end, a, weight, bit)
				continue
			}
			p.across(begin, turn, a, weight, bit)
			p.down(turn, min(a, b), max(a, b), weight, bit)
			p.across(turn, end, b, weight, bit)
		}
	}
	return p
}

// channels assigns each hop a group, and each group that changes rows a channel between its columns, so that vertical lines of two groups never touch.
func (l *graphLayout) channels() (group, channel, count []int) {
	group, channel, count = make([]int, len(l.hops)), make([]int, len(l.hops)), make([]int, len(l.Layers))
	outs := make([]int, len(l.Rank))
	for _, h := range l.hops {
		outs[h[0]]++
	}
	type span struct{ top, bottom, id int }
	byKey := map[[2]int]int{}
	var spans []span
	var where []int // the column before a group
	for i, h := range l.hops {
		key := [2]int{0, h[0]}
		if outs[h[0]] == 1 {
			key = [2]int{1, h[1]}
		}
		id, known := byKey[key]
		if !known {
			id = len(spans)
			byKey[key] = id
			spans, where = append(spans, span{math.MaxInt, math.MinInt, id}), append(where, l.Rank[h[0]])
		}
		group[i] = id
		spans[id].top = min(spans[id].top, l.row[h[0]], l.row[h[1]])
		spans[id].bottom = max(spans[id].bottom, l.row[h[0]], l.row[h[1]])
	}
	taken := make([][][]span, len(l.Layers)) // by column and channel
	at := make([]int, len(spans))
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Or(cmp.Compare(a.top, b.top), cmp.Compare(a.id, b.id)) })
	for _, s := range sorted {
		if s.top == s.bottom {
			continue
		}
		c := where[s.id]
		k := 0
		for k < len(taken[c]) && slices.ContainsFunc(taken[c][k], func(o span) bool { return o.top <= s.bottom && s.top <= o.bottom }) {
			k++
		}
		if k == len(taken[c]) {
			taken[c] = append(taken[c], nil)
		}
		taken[c][k] = append(taken[c][k], s)
		at[s.id] = k
	}
	for c := range count {
		count[c] = len(taken[c])
	}
	for i := range l.hops {
		channel[i] = at[group[i]]
	}
	return group, channel, count
}

func (p *picture) cell(x, y int) *lineCell {
	if x < 0 || y < 0 || x > p.w || y >= p.h {
		return &lineCell{}
	}
	return &p.lines[y*(p.w+1)+x]
}

func (c *lineCell) arm(i int, weight uint8) { c.arms[i] = max(c.arms[i], weight) }

func (p *picture) across(from, to, y int, weight uint8, bit uint64) {
	for x := from; x <= to; x++ {
		c := p.cell(x, y)
		c.hs |= bit
		if x > from {
			c.arm(armLeft, weight)
		}
		if x < to {
			c.arm(armRight, weight)
		}
	}
}

func (p *picture) down(x, from, to int, weight uint8, bit uint64) {
	for y := from; y <= to; y++ {
		c := p.cell(x, y)
		c.vs |= bit
		if y > from {
			c.arm(armUp, weight)
		}
		if y < to {
			c.arm(armDown, weight)
		}
	}
}

// boxDrawing has the characters of lines by the weights of their arms: up + 3 right + 9 down + 27 left.
const boxDrawing = "" +
	" ╵╹╶└┖╺┕┗╷│╿┌├┞┍┝┡╻╽┃┎┟┠┏┢┣" +
	"╴┘┚─┴┸╼┶┺┐┤┦┬┼╀┮┾╄┒┧┨┰╁╂┲╆╊" +
	"╸┙┛╾┵┹━┷┻┑┥┩┭┽╃┯┿╇┓┪┫┱╅╉┳╈╋"

// char is the character of a cell. Where lines of different groups cross, the heavier one passes above.
func (p *picture) char(x, y int) rune {
	c := *p.cell(x, y)
	if c.vs != 0 && c.hs != 0 && c.vs&c.hs == 0 && c.arms[armLeft] > 0 && c.arms[armRight] > 0 && c.arms[armUp] > 0 && c.arms[armDown] > 0 {
		if max(c.arms[armLeft], c.arms[armRight]) > max(c.arms[armUp], c.arms[armDown]) {
			c.arms[armUp], c.arms[armDown] = 0, 0
		} else {
			c.arms[armLeft], c.arms[armRight] = 0, 0
		}
	}
	return []rune(boxDrawing)[int(c.arms[armUp])+3*int(c.arms[armRight])+9*int(c.arms[armDown])+27*int(c.arms[armLeft])]
}
