package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

const (
	labelSize = 11.0
	loopRoom  = 44.0
	loopStep  = 14.0
)

// edges draws the edges of a diagram, then their labels, so that no edge crosses one.
func (s *svg) edges(p *plan, ox, oy float64) {
	l := &labels{gaps: map[float64][]label{}}
	loops := make(map[int]int)
	for i := range p.edges {
		e := &p.edges[i]
		class, tip := "edge", "line"
		if e.dashed() {
			class += " dashed"
		}
		switch e.kind {
		case "fan":
			class += " fan"
		case "catch":
			class, tip = class+" catch", "fail"
		}
		var path string
		if e.from == e.to {
			path = s.loop(p, i, loops[e.from], l)
			loops[e.from]++
		} else {
			path = s.curve(p, i, l)
		}
		fmt.Fprintf(&s.b, `<path class="%s" transform="translate(%s %s)" marker-end="url(#%s-%s)" d="%s"/>`+"\n", class, num(ox), num(oy), s.prefix, tip, path)
	}
	for _, a := range l.all {
		s.text(ox+a.x, oy+a.y+labelSize*0.35, labelSize, "label", a.text)
		s.b.WriteByte('\n')
	}
}

// point writes a point of the layout, which always runs downwards.
func (s *svg) point(x, y float64) string {
	if s.across {
		x, y = y, x
	}
	return num(x) + " " + num(y)
}

// curve returns the path of an edge, straight within a layer and curved between layers.
func (s *svg) curve(p *plan, i int, l *labels) string {
	e := &p.edges[i]
	runs := slices.Clone(p.runs[i])
	above, below := e.from, e.to
	if p.turned[i] {
		above, below = below, above
	}
	first, last := &runs[0], &runs[len(runs)-1]
	first.top -= s.inset(p, above, first.x, 1)
	last.bottom += s.inset(p, below, last.x, -1)
	if p.turned[i] {
		slices.Reverse(runs)
		for j := range runs {
			runs[j].top, runs[j].bottom = runs[j].bottom, runs[j].top
		}
	}
	var b strings.Builder
	b.WriteString("M" + s.point(runs[0].x, runs[0].top))
	for j, r := range runs {
		if j > 0 {
			from := runs[j-1]
			mid := (from.bottom + r.top) / 2
			b.WriteString("C" + s.point(from.x, mid) + " " + s.point(r.x, mid) + " " + s.point(r.x, r.top))
		}
		if math.Abs(r.top-r.bottom) > 0.5 {
			b.WriteString("L" + s.point(r.x, r.bottom))
		}
	}
	if e.kind != "" {
		l.put(s, e.kind, runs[0], runs[1])
	}
	return b.String()
}

// inset returns the distance from the box of a node to its outline at x, on the side that the
// layout calls lower (1) or upper (-1).
func (s *svg) inset(p *plan, at int, x, side float64) float64 {
	b := p.boxes[at]
	mid, length, depth := p.x[at], b.w, b.h
	if s.across {
		mid, length, depth = p.y[at], b.h, b.w
	}
	f := (x - mid) / (length / 2)
	if p.nodes[at].inner != nil {
		return 0
	}
	switch form := p.nodes[at].form; {
	case form == rhombus:
		return depth / 2 * math.Abs(f)
	case form == hexagon && s.across:
		return slant * math.Abs(f)
	case form == slanted && s.across:
		return slant * (1 + side*f) / 2
	case form == terminal && s.across: // its sides are half circles
		return b.h / 2 * (1 - math.Sqrt(max(0, 1-f*f)))
	}
	return 0
}

// loop draws an edge from a node to itself, beside the node.
func (s *svg) loop(p *plan, i, nth int, l *labels) string {
	e := &p.edges[i]
	x, y, half := p.x[e.from], p.y[e.from], p.boxes[e.from].w/2
	if s.across {
		x, y, half = p.y[e.from], p.x[e.from], p.boxes[e.from].h/2
	}
	const out, open = 34.0, 8.0
	reach := out + loopStep*float64(nth)
	edge := x + half - s.loopInset(p, e.from, open)
	if e.kind != "" {
		cx := x + half + reach*0.75 + 6 + textWidth(e.kind, labelSize)/2
		if s.across {
			l.all = append(l.all, label{e.kind, y, x + half + reach*0.75 + labelSize, 0})
		} else {
			l.all = append(l.all, label{e.kind, cx, y + labelSize*1.2*float64(nth), 0})
		}
	}
	far := x + half + reach
	return "M" + s.point(edge, y-open) + "C" + s.point(far, y-open-10) + " " + s.point(far, y+open+10) + " " + s.point(edge, y+open)
}

// loopInset is inset for the sides on which loops are.
func (s *svg) loopInset(p *plan, at int, off float64) float64 {
	b := p.boxes[at]
	switch form := p.nodes[at].form; {
	case p.nodes[at].inner != nil:
	case form == rhombus && s.across:
		return b.h / 2 * off / (b.w / 2)
	case form == rhombus:
		return b.w / 2 * off / (b.h / 2)
	case (form == hexagon || form == slanted) && !s.across:
		return slant * 0.5
	}
	return 0
}

// labels are the texts at edges, in the coordinates of the picture.
type labels struct {
	all  []label
	gaps map[float64][]label // by where the gap between two layers begins
}

type label struct {
	text    string
	x, y, w float64
}

// put finds a place for a label on the first curve of an edge where it covers no other label.
func (l *labels) put(s *svg, text string, from, to run) {
	w := textWidth(text, labelSize) + 6
	mid := (from.bottom + to.top) / 2
	var chosen label
	around := l.gaps[mid]
	if len(around) > 64 { // where there are so many, a look at the latest must do
		around = around[len(around)-64:]
	}
	for n, t := range [...]float64{0.5, 0.4, 0.62, 0.3, 0.72, 0.2} {
		u := 1 - t
		a, b := u*u*u+3*u*u*t, 3*u*t*t+t*t*t // x and y of the curve, in two points each
		x := a*from.x + b*to.x
		y := u*u*u*from.bottom + (3*u*u*t+3*u*t*t)*mid + t*t*t*to.top
		if s.across {
			x, y = y, x
		}
		c := label{text, x, y, w}
		free := !slices.ContainsFunc(around, func(o label) bool {
			return math.Abs(o.x-c.x) < (o.w+c.w)/2 && math.Abs(o.y-c.y) < labelSize+2
		})
		if n == 0 || free {
			chosen = c
		}
		if free {
			break
		}
	}
	l.gaps[mid] = append(l.gaps[mid], chosen)
	l.all = append(l.all, chosen)
}

// textWidth estimates the width of text in a proportional font, on the safe side.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("ijlI.,:;|!'()[]{}ft -", r):
			w += 0.38
		case strings.ContainsRune("mwMW@%&#", r):
			w += 0.95
		case r >= 0x1100 && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) || unicode.IsUpper(r):
			w += 0.75
			if r >= 0x1100 {
				w += 0.3
			}
		case unicode.Is(unicode.Mn, r):
		default:
			w += 0.6
		}
	}
	return w * size
}

// wrapped breaks a long name into up to three lines, after punctuation where possible.
func wrapped(name string) []string {
	const width, most = 26, 3
	var out []string
	rest := []rune(name)
	for len(rest) > width && len(out) < most-1 {
		cut := width
		for i := width; i > width/2; i-- {
			if strings.ContainsRune("-_./: ", rest[i-1]) {
				cut = i
				break
			}
		}
		out = append(out, strings.TrimSpace(string(rest[:cut])))
		rest = rest[cut:]
	}
	if len(rest) > width {
		rest = append(rest[:width-1:width-1], '…')
	}
	return append(out, strings.TrimSpace(string(rest)))
}
