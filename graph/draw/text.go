package draw

import (
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// Text draws a graph as an indented outline, for terminals and screen readers: every node with its
// state, and below it its inputs and targets.
func Text(shape graph.Shape, opt *Options) string {
	o := opt.orDefault()
	return outline(build(&shape, o), o)
}

func outline(d *diagram, o *Options) string {
	var b strings.Builder
	nodes, edges := d.size()
	if o.Title != "" {
		b.WriteString(o.Title + ": ")
	}
	b.WriteString(count(nodes, "node") + ", " + count(edges, "edge") + "\n")
	d.outline(&b, "")
	return b.String()
}

func (d *diagram) outline(b *strings.Builder, indent string) {
	out := make([][]int, len(d.nodes))
	for i := range d.edges {
		from := d.edges[i].from
		out[from] = append(out[from], i)
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		if i == d.end {
			continue
		}
		b.WriteString(indent + n.name)
		if n.notes != "" {
			b.WriteString(" (" + n.notes + ")")
		}
		if n.status != "" {
			b.WriteString(": " + n.status)
		}
		b.WriteByte('\n')
		if n.reads != "" {
			b.WriteString(indent + "  " + n.reads + "\n")
		}
		for _, j := range out[i] {
			e := &d.edges[j]
			b.WriteString(indent + "  → " + d.nodes[e.to].name)
			if e.kind != "" {
				b.WriteString(" (" + e.kind + ")")
			}
			b.WriteByte('\n')
		}
		if n.inner != nil {
			b.WriteString(indent + "  inside:\n")
			n.inner.outline(b, indent+"    ")
		}
	}
}
