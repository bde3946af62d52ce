package draw

import (
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// DOT draws a graph in the language of Graphviz. It uses the same ids as [Mermaid].
func DOT(shape graph.Shape, opt *Options) string {
	o := opt.orDefault()
	var b strings.Builder
	rank := "TB"
	if o.LeftRight {
		rank = "LR"
	}
	fmt.Fprintf(&b, "digraph %s {\n", quote(o.Title))
	fmt.Fprintf(&b, "  graph [rankdir=%s, compound=true, bgcolor=\"white\", fontname=\"Helvetica\"", rank)
	if o.Title != "" {
		fmt.Fprintf(&b, ", label=%s, labelloc=\"t\"", quote(o.Title))
	}
	b.WriteString("];\n  node [fontname=\"Helvetica\"];\n  edge [fontname=\"Helvetica\", fontsize=10, color=\"#57606a\"];\n")
	build(&shape, o).dot(&b, "  ")
	b.WriteString("}\n")
	return b.String()
}

// dotForms are the attributes of a node's outline.
var dotForms = [...][2]string{ // shape, style
	plain:    {"box", "filled"},
	rounded:  {"box", "filled,rounded"},
	slanted:  {"parallelogram", "filled"},
	hexagon:  {"hexagon", "filled"},
	rhombus:  {"diamond", "filled"},
	doubled:  {"box", "filled"},
	terminal: {"oval", "filled"},
}

func (d *diagram) dot(b *strings.Builder, indent string) {
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.inner != nil {
			fmt.Fprintf(b, "%ssubgraph %s {\n", indent, quote("cluster_"+n.id))
			fmt.Fprintf(b, "%s  graph [label=%s, style=\"rounded,dashed\", color=\"#6e7781\"];\n", indent, quote(strings.Join(n.lines(), " · ")))
			n.inner.dot(b, indent+"  ")
			fmt.Fprintf(b, "%s}\n", indent)
			continue
		}
		form, look := dotForms[n.form], n.look()
		style := form[1]
		if look.dash {
			style += ",dashed"
		}
		fmt.Fprintf(b, "%s%s [label=%s, shape=%s, style=%q, fillcolor=%q, color=%q, fontcolor=%q", indent, quote(n.id),
			quote(n.lines()...), form[0], style, look.light.fill, look.light.stroke, look.light.text)
		if look.width > 1 {
			fmt.Fprintf(b, ", penwidth=%d", look.width)
		}
		if n.form == doubled {
			b.WriteString(", peripheries=2")
		}
		b.WriteString("];\n")
	}
	for i := range d.edges {
		e := &d.edges[i]
		from, _ := d.nodes[e.from].ports()
		_, to := d.nodes[e.to].ports()
		var attrs []string
		if e.kind != "" {
			attrs = append(attrs, "label="+quote(e.kind))
		}
		switch {
		case e.dashed():
			attrs = append(attrs, `style="dashed"`)
		case e.kind == "fan":
			attrs = append(attrs, `style="bold"`)
		}
		if e.kind == "catch" {
			attrs = append(attrs, `color="#cf222e"`, `fontcolor="#cf222e"`)
		}
		if e.from == e.to {
			attrs = append(attrs, "constraint=false") // that of a box is an edge from its end to its start
		} else {
			if n := &d.nodes[e.from]; n.inner != nil {
				attrs = append(attrs, "ltail="+quote("cluster_"+n.id))
			}
			if n := &d.nodes[e.to]; n.inner != nil {
				attrs = append(attrs, "lhead="+quote("cluster_"+n.id))
			}
		}
		fmt.Fprintf(b, "%s%s -> %s", indent, quote(from.id), quote(to.id))
		if len(attrs) > 0 {
			fmt.Fprintf(b, " [%s]", strings.Join(attrs, ", "))
		}
		b.WriteString(";\n")
	}
}

// quote writes lines as a Graphviz string, with everything escaped that Graphviz would interpret.
func quote(lines ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, `&amp;`)
	quoted := make([]string, len(lines))
	for i, s := range lines {
		quoted[i] = escape.Replace(s)
	}
	return `"` + strings.Join(quoted, `\n`) + `"`
}
