package tui

import (
	"cmp"
	"math"
	"slices"
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

// mostPlaces bounds the boxes, and the places at which edges pass columns.
const mostPlaces = 4000

// layGraph places boxes in columns from left to right, and draws the edges between them: edges that lead back are left out, each box is in the column after
// all that lead to it, columns are ordered by the barycentres of their neighbours, and boxes are moved as near to these as the order lets them
// (Sugiyama, Tagawa and Toda 1981; pool adjacent violators). It is nil if the graph is too large to be looked at.
func layGraph(boxes []graphBox, arcs []graphArc) *picture {
	if len(boxes) == 0 || len(boxes) > mostPlaces {
		return nil
	}
	l := &graphLayout{n: len(boxes), arcs: forward(len(boxes), arcs)}
	if !l.place() {
		return nil
	}
	return l.picture(boxes)
}

type graphLayout struct {
	n     int
	arcs  []graphArc
	col   []int
	row   []int
	hops  [][2]int // between neighbouring columns
	heavy []bool   // by hop
	cols  [][]int
}

// forward returns the edges without those that lead back, loops and doubles.
func forward(n int, arcs []graphArc) []graphArc {
	out := make([][]int, n)
	for i, a := range arcs {
		out[a.from] = append(out[a.from], i)
	}
	const open, closed = 1, 2
	state, keep := make([]uint8, n), make([]bool, len(arcs))
	var visit func(at int)
	visit = func(at int) {
		state[at] = open
		for _, i := range out[at] {
			to := arcs[i].to
			if state[to] == open {
				continue
			}
			keep[i] = true
			if state[to] == 0 {
				visit(to)
			}
		}
		state[at] = closed
	}
	for i := range n {
		if state[i] == 0 {
			visit(i)
		}
	}
	var kept []graphArc
	seen := map[[2]int]int{}
	for i, a := range arcs {
		key := [2]int{a.from, a.to}
		if at, twice := seen[key]; twice {
			kept[at].heavy = kept[at].heavy || a.heavy
			continue
		}
		if keep[i] {
			seen[key] = len(kept)
			kept = append(kept, a)
		}
	}
	return kept
}

// place finds a column and a row for each box and for each place at which an edge passes a column.
func (l *graphLayout) place() bool {
	l.col = make([]int, l.n)
	in, out := make([]int, l.n), make([][]int, l.n)
	for _, a := range l.arcs {
		in[a.to]++
		out[a.from] = append(out[a.from], a.to)
	}
	var queue []int
	for i := range l.n {
		if in[i] == 0 {
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, to := range out[at] {
			l.col[to] = max(l.col[to], l.col[at]+1)
			if in[to]--; in[to] == 0 {
				queue = append(queue, to)
			}
		}
	}
	for _, a := range l.arcs {
		at := a.from
		for c := l.col[a.from] + 1; c < l.col[a.to]; c++ {
			if len(l.col) >= mostPlaces {
				return false
			}
			l.hops, l.heavy = append(l.hops, [2]int{at, len(l.col)}), append(l.heavy, a.heavy)
			at = len(l.col)
			l.col = append(l.col, c)
		}
		l.hops, l.heavy = append(l.hops, [2]int{at, a.to}), append(l.heavy, a.heavy)
	}
	l.cols = make([][]int, slices.Max(l.col)+1)
	for i, c := range l.col {
		l.cols[c] = append(l.cols[c], i)
	}
	l.order()
	return true
}

// neighbours returns what each place is connected to in the column before it, or behind it.
func (l *graphLayout) neighbours(before bool) [][]int {
	out := make([][]int, len(l.col))
	for _, h := range l.hops {
		if before {
			out[h[1]] = append(out[h[1]], h[0])
		} else {
			out[h[0]] = append(out[h[0]], h[1])
		}
	}
	return out
}

func (l *graphLayout) order() {
	before, behind := l.neighbours(true), l.neighbours(false)
	l.row = make([]int, len(l.col))
	number := func(col []int) {
		for y, v := range col {
			l.row[v] = y
		}
	}
	for _, col := range l.cols {
		number(col)
	}
	wish := make([]float64, len(l.col))
	barycentre := func(col []int, near [][]int) {
		for _, v := range col {
			wish[v] = float64(l.row[v])
			if len(near[v]) > 0 {
				sum := 0
				for _, u := range near[v] {
					sum += l.row[u]
				}
				wish[v] = float64(sum) / float64(len(near[v]))
			}
		}
	}
	sweep := func(round int, each func(col []int, near [][]int)) {
		for i := range l.cols {
			if round%2 == 0 {
				each(l.cols[i], before)
			} else {
				each(l.cols[len(l.cols)-1-i], behind)
			}
		}
	}
	for round := range 4 {
		sweep(round, func(col []int, near [][]int) {
			barycentre(col, near)
			slices.SortStableFunc(col, func(a, b int) int { return cmp.Compare(wish[a], wish[b]) })
			number(col)
		})
	}
	for round := range 6 {
		sweep(round, func(col []int, near [][]int) {
			barycentre(col, near)
			l.settle(col, wish)
		})
	}
	least := slices.Min(l.row)
	for i := range l.row {
		l.row[i] -= least
	}
}

// settle gives the places of a column rows that are as near as their order permits to the wishes.
func (l *graphLayout) settle(col []int, wish []float64) {
	type pool struct {
		sum   float64
		count int
	}
	var pools []pool
	for i, v := range col {
		pools = append(pools, pool{wish[v] - float64(i), 1})
		for n := len(pools); n > 1 && pools[n-2].sum*float64(pools[n-1].count) > pools[n-1].sum*float64(pools[n-2].count); n = len(pools) {
			pools[n-2].sum += pools[n-1].sum
			pools[n-2].count += pools[n-1].count
			pools = pools[:n-1]
		}
	}
	i := 0
	for _, p := range pools {
		at := int(math.Round(p.sum / float64(p.count)))
		for range p.count {
			l.row[col[i]] = at + i
			i++
		}
	}
}

// picture draws the edges.
func (l *graphLayout) picture(boxes []graphBox) *picture {
	p := &picture{boxes: boxes, h: slices.Max(l.row) + 1}
	wide := make([]int, len(l.cols)) // of the boxes of a column
	for i := range boxes {
		wide[l.col[i]] = max(wide[l.col[i]], boxes[i].wide)
	}
	group, channel, channels := l.channels()
	left := make([]int, len(l.cols)) // where a column begins
	x := 0
	for c := range l.cols {
		left[c] = x
		x += wide[c] + 3 + 2*max(1, channels[c])
	}
	p.w = left[len(left)-1] + wide[len(wide)-1]
	p.lines = make([]lineCell, (p.w+1)*p.h)
	for i := range boxes {
		b := &boxes[i]
		b.col, b.row = l.col[i], l.row[i]
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
			begin, end := left[l.col[from]], left[l.col[to]]+wide[l.col[to]] // of an edge that passes both columns
			if from < l.n {
				begin += boxes[from].wide + 1
				p.cell(begin, a).arm(armLeft, weight)
			}
			if to < l.n {
				end = left[l.col[to]] - 2
				p.cell(end, b).arm(armRight, weight)
			}
			turn := left[l.col[from]] + wide[l.col[from]] + 2 + 2*channel[i]
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
	group, channel, count = make([]int, len(l.hops)), make([]int, len(l.hops)), make([]int, len(l.cols))
	outs := make([]int, len(l.col))
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
			spans, where = append(spans, span{math.MaxInt, math.MinInt, id}), append(where, l.col[h[0]])
		}
		group[i] = id
		spans[id].top = min(spans[id].top, l.row[h[0]], l.row[h[1]])
		spans[id].bottom = max(spans[id].bottom, l.row[h[0]], l.row[h[1]])
	}
	taken := make([][][]span, len(l.cols)) // by column and channel
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
