package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// SVG draws a graph as a self-contained picture: without scripts or external references, with text
// as text, an outline for screen readers, and colours for light and dark backgrounds. The time is
// nearly proportional to the graph: about a second for ten thousand nodes.
func SVG(shape graph.Shape, opt *Options) []byte {
	o := opt.orDefault()
	d := build(&shape, o)
	s := &svg{across: o.LeftRight}
	all := s.plan(d)
	description := outline(d, o)
	hash := fnv.New32a()
	hash.Write([]byte(description))
	s.prefix = fmt.Sprintf("ss%08x", hash.Sum32()) // apart from other pictures of the same page
	if nodes, _ := d.size(); nodes > 200 {
		description, _, _ = strings.Cut(description, "\n")
	}
	head := 0.0
	if o.Title != "" {
		head = 34
		all.w = max(all.w, textWidth(o.Title, 16))
	}
	w, h := all.w+2*margin, all.h+2*margin+head
	title := o.Title
	if title == "" {
		title = "Graph"
	}
	fmt.Fprintf(&s.b,
		`<svg xmlns="http://www.w3.org/2000/svg" class="superstep-graph" role="img" aria-labelledby="%s-t" aria-describedby="%s-d" `+
			`width="%s" height="%s" viewBox="0 0 %s %s">`+"\n",
		s.prefix, s.prefix, num(w), num(h), num(w), num(h))
	fmt.Fprintf(&s.b, "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", s.prefix, escaped(title), s.prefix, escaped(description))
	s.style()
	fmt.Fprintf(&s.b, `<rect class="back" width="%s" height="%s"/>`+"\n", num(w), num(h))
	if o.Title != "" {
		s.text(w/2, margin+16, 16, "head", o.Title)
	}
	s.diagram(all, margin, margin+head)
	s.b.WriteString("</svg>\n")
	return s.b.Bytes()
}

const (
	margin  = 20.0
	padding = 18.0 // of the frame around a sub-graph
	header  = 34.0 // of that frame
	slant   = 14.0
)

type svg struct {
	b      bytes.Buffer
	prefix string
	across bool // from left to right
}

// plan is a diagram with the positions of all its elements.
type plan struct {
	*diagram
	*drawing
	boxes []box // as they are drawn, not as they are laid out
	inner []*plan
	w, h  float64
}

func (s *svg) plan(d *diagram) *plan {
	p := &plan{diagram: d, boxes: make([]box, len(d.nodes)), inner: make([]*plan, len(d.nodes))}
	room := make([]float64, len(d.nodes)) // for loops
	arcs := make([][2]int, len(d.edges))
	for i := range d.edges {
		e := &d.edges[i]
		arcs[i] = [2]int{e.from, e.to}
		if e.from == e.to {
			label := textWidth(e.kind, labelSize)
			if s.across {
				label = labelSize
			}
			room[e.from] = max(room[e.from]+loopStep, loopRoom+label)
		}
	}
	boxes := make([]box, len(d.nodes))
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.inner != nil {
			in := s.plan(n.inner)
			p.inner[i] = in
			p.boxes[i] = box{w: max(in.w, textWidth(n.header(), labelSize+1)) + 2*padding, h: in.h + header + 2*padding}
		} else {
			p.boxes[i] = n.box()
		}
		boxes[i] = p.boxes[i]
		if s.across {
			boxes[i].w, boxes[i].h = boxes[i].h, boxes[i].w
		}
		boxes[i].right = room[i]
	}
	p.drawing = lay(boxes, arcs)
	p.w, p.h = p.drawing.w, p.drawing.h
	if s.across {
		p.x, p.y = p.y, p.x
		p.w, p.h = p.h, p.w
	}
	return p
}

func (n *node) header() string { return strings.Join(n.lines(), " · ") }

// A row is a line of text in a node.
type row struct {
	text   string
	size   float64
	height float64
	class  string
}

func (n *node) rows() []row {
	var out []row
	size := 14.0
	if n.form == terminal {
		size = 12
	}
	for _, s := range wrapped(n.name) {
		out = append(out, row{s, size, size + 5, "name"})
	}
	if n.notes != "" {
		out = append(out, row{n.notes, 11, 16, "notes"})
	}
	if n.status != "" {
		out = append(out, row{n.status, 12, 17, "status"})
	}
	return out
}

// box returns how large a node is drawn.
func (n *node) box() box {
	var w, h float64
	for _, r := range n.rows() {
		width := textWidth(r.text, r.size)
		if r.class == "name" {
			width *= 1.06 // it is bold
		}
		w, h = max(w, width), h+r.height
	}
	switch n.form {
	case terminal:
		return box{w: math.Ceil(w + 30), h: h + 9}
	case rhombus: // the text is a rectangle in it
		h += 6
		return box{w: math.Ceil((w + 8) / (1 - 1/2.6)), h: math.Ceil(h * 2.6)}
	case slanted, hexagon:
		w += 2 * slant
	case doubled:
		w += 12
	}
	return box{w: math.Ceil(max(w+28, 84)), h: h + 18}
}

func (s *svg) diagram(p *plan, ox, oy float64) {
	for i := range p.nodes { // frames first: edges lie on them
		if in := p.inner[i]; in != nil {
			n, b := &p.nodes[i], p.boxes[i]
			x, y := ox+p.x[i]-b.w/2, oy+p.y[i]-b.h/2
			fmt.Fprintf(&s.b, `<g class="node" data-path="%s">`, escaped(n.path))
			fmt.Fprintf(&s.b, `<rect class="frame" x="%s" y="%s" width="%s" height="%s" rx="10"/>`, num(x), num(y), num(b.w), num(b.h))
			s.text(ox+p.x[i], y+24, labelSize+1, "frame-name", n.header())
			s.b.WriteString("</g>\n")
			s.diagram(in, ox+p.x[i]-in.w/2, y+header+padding)
		}
	}
	s.edges(p, ox, oy)
	for i := range p.nodes {
		if p.inner[i] == nil {
			s.node(&p.nodes[i], p.boxes[i], ox+p.x[i], oy+p.y[i])
		}
	}
}

func (s *svg) node(n *node, b box, x, y float64) {
	if n.form == terminal {
		s.b.WriteString(`<g class="c-terminal">`)
	} else {
		fmt.Fprintf(&s.b, `<g class="node c-%s" data-path="%s"><title>%s</title>`, n.class(), escaped(n.path), escaped(n.header()))
	}
	l, t, r, u := x-b.w/2, y-b.h/2, x+b.w/2, y+b.h/2
	radius := 3.0
	switch n.form {
	case rounded:
		radius = 14
	case terminal:
		radius = b.h / 2
	case plain, doubled, slanted, hexagon, rhombus:
	}
	switch n.form {
	case rhombus:
		s.polygon(x, t, r, y, x, u, l, y)
	case hexagon:
		s.polygon(l+slant, t, r-slant, t, r, y, r-slant, u, l+slant, u, l, y)
	case slanted:
		s.polygon(l+slant, t, r, t, r-slant, u, l, u)
	case plain, rounded, doubled, terminal:
		fmt.Fprintf(&s.b, `<rect class="shape" x="%s" y="%s" width="%s" height="%s" rx="%s"/>`, num(l), num(t), num(b.w), num(b.h), num(radius))
	}
	if n.form == doubled {
		fmt.Fprintf(&s.b, `<path class="shape" d="M%s %sV%sM%s %sV%s"/>`, num(l+7), num(t), num(u), num(r-7), num(t), num(u))
	}
	rows := n.rows()
	at := y
	for _, row := range rows {
		at -= row.height / 2
	}
	for _, row := range rows {
		at += row.height
		s.text(x, at-row.height*0.28, row.size, row.class, row.text)
	}
	s.b.WriteString("</g>\n")
}

func (s *svg) polygon(xy ...float64) {
	s.b.WriteString(`<polygon class="shape" points="`)
	for i, v := range xy {
		if i > 0 {
			s.b.WriteByte(' ')
		}
		s.b.WriteString(num(v))
	}
	s.b.WriteString(`"/>`)
}

func (s *svg) text(x, y, size float64, class, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s" font-size="%s">%s</text>`, class, num(x), num(y), num(size), escaped(text))
}

// style writes the style sheet of the picture and its arrow heads.
func (s *svg) style() {
	s.b.WriteString("<style>\n.superstep-graph{font-family:system-ui,-apple-system,\"Segoe UI\",Helvetica,Arial,sans-serif}\n" +
		".superstep-graph text{text-anchor:middle}\n.superstep-graph .name,.superstep-graph .head,.superstep-graph .frame-name{font-weight:600}\n" +
		".superstep-graph .edge{fill:none;stroke-width:1.5}\n.superstep-graph .dashed{stroke-dasharray:5 4}\n.superstep-graph .fan{stroke-width:2.5}\n" +
		".superstep-graph .frame{fill:none;stroke-dasharray:7 4}\n.superstep-graph .label{stroke-width:4;stroke-linejoin:round;paint-order:stroke}\n")
	for _, c := range palette {
		fmt.Fprintf(&s.b, ".superstep-graph .c-%s .shape{stroke-width:%d", c.name, c.width)
		if c.dash {
			s.b.WriteString(";stroke-dasharray:4 3")
		}
		s.b.WriteString("}\n")
	}
	s.colours(lightCanvas, func(c class) colours { return c.light })
	s.b.WriteString("@media (prefers-color-scheme:dark){\n")
	s.colours(darkCanvas, func(c class) colours { return c.dark })
	s.b.WriteString("}\n</style>\n<defs>")
	for _, kind := range []string{"line", "fail"} {
		fmt.Fprintf(&s.b,
			`<marker id="%s-%s" viewBox="0 0 10 10" refX="9.5" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" `+
				`orient="auto"><path class="tip %s" d="M0 0.8L10 5L0 9.2z"/></marker>`,
			s.prefix, kind, kind)
	}
	s.b.WriteString("</defs>\n")
}

func (s *svg) colours(on canvas, of func(class) colours) {
	fmt.Fprintf(&s.b, ".superstep-graph .back{fill:%s}\n.superstep-graph text{fill:%s}\n.superstep-graph .edge,.superstep-graph .frame{stroke:%s}\n",
		on.back, on.text, on.line)
	fmt.Fprintf(&s.b, ".superstep-graph .tip{fill:%s}\n.superstep-graph .label{fill:%s;stroke:%s}\n", on.line, on.text, on.back)
	fmt.Fprintf(&s.b, ".superstep-graph .edge.catch{stroke:%s}\n.superstep-graph .tip.fail{fill:%s}\n", on.fail, on.fail)
	for _, look := range palette {
		c, name := of(look), look.name
		fmt.Fprintf(&s.b, ".superstep-graph .c-%s .shape{fill:%s;stroke:%s}\n.superstep-graph .c-%s text{fill:%s}\n", name, c.fill, c.stroke, name, c.text)
	}
}

// num writes a coordinate.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer takes everything
	return b.String()
}
