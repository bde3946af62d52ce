package draw

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// Mermaid draws a graph as a Mermaid flowchart, for Markdown and other renderers. The id of a node
// is its path with '_' for everything but letters and digits, and a number if that id was taken.
// Mermaid itself refuses pictures of more than 500 edges unless it is told otherwise.
func Mermaid(shape graph.Shape, opt *Options) string {
	o := opt.orDefault()
	m := &mermaid{}
	if o.Title != "" {
		fmt.Fprintf(m, "---\ntitle: \"%s\"\n---\n", strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(o.Title))
	}
	direction := "TD"
	if o.LeftRight {
		direction = "LR"
	}
	fmt.Fprintf(m, "flowchart %s\n", direction)
	if o.Title != "" {
		fmt.Fprintf(m, "  accTitle: %s\n", entities(o.Title))
	}
	m.diagram(build(&shape, o), "  ", direction)
	m.styles(o.Status != nil)
	return m.String()
}

type mermaid struct {
	strings.Builder
	links   int
	caught  []string // the numbers of the edges that failures take
	grouped bool
}

// mermaidForms are the brackets around the label of a node.
var mermaidForms = [...][2]string{
	plain:    {`["`, `"]`},
	rounded:  {`("`, `")`},
	slanted:  {`[/"`, `"/]`},
	hexagon:  {`{{"`, `"}}`},
	rhombus:  {`{"`, `"}`},
	doubled:  {`[["`, `"]]`},
	terminal: {`(["`, `"])`},
}

func (m *mermaid) diagram(d *diagram, indent, direction string) {
	for i := range d.nodes {
		n := &d.nodes[i]
		parts := n.lines()
		for i := range parts {
			parts[i] = entities(parts[i])
		}
		if n.inner != nil {
			m.grouped = true
			fmt.Fprintf(m, "%ssubgraph %s[\"%s\"]\n%s  direction %s\n", indent, n.id, strings.Join(parts, " · "), indent, direction)
			m.diagram(n.inner, indent+"  ", direction)
			fmt.Fprintf(m, "%send\n%sclass %s group\n", indent, indent, n.id)
			continue
		}
		around := mermaidForms[n.form]
		fmt.Fprintf(m, "%s%s%s%s%s:::%s\n", indent, n.id, around[0], strings.Join(parts, "<br/>"), around[1], n.class())
	}
	for i := range d.edges {
		e := &d.edges[i]
		from, _ := d.nodes[e.from].ports()
		_, to := d.nodes[e.to].ports()
		arrow := "-->"
		switch {
		case e.dashed():
			arrow = "-.->"
		case e.kind == "fan":
			arrow = "==>"
		}
		if e.kind != "" {
			arrow += `|"` + entities(e.kind) + `"|`
		}
		if e.kind == "catch" {
			m.caught = append(m.caught, strconv.Itoa(m.links))
		}
		m.links++
		fmt.Fprintf(m, "%s%s %s %s\n", indent, from.id, arrow, to.id)
	}
}

// styles ends the picture with its colours. Each has its own fill, so that it is legible on any
// background.
func (m *mermaid) styles(withStates bool) {
	classes := palette
	if !withStates {
		classes = classes[:kinds]
	}
	for _, c := range classes {
		fmt.Fprintf(m, "  classDef %s fill:%s,stroke:%s,color:%s", c.name, c.light.fill, c.light.stroke, c.light.text)
		if c.width > 1 {
			fmt.Fprintf(m, ",stroke-width:%dpx", c.width)
		}
		if c.dash {
			m.WriteString(",stroke-dasharray:4 3")
		}
		m.WriteByte('\n')
	}
	if m.grouped {
		m.WriteString("  classDef group fill:transparent,stroke:#6e7781,stroke-dasharray:6 4\n")
	}
	if len(m.caught) > 0 {
		fmt.Fprintf(m, "  linkStyle %s stroke:%s\n", strings.Join(m.caught, ","), lightCanvas.fail)
	}
}

// entities escapes text so that Mermaid, Markdown and HTML interpret nothing in it: punctuation
// becomes #35;, except inside words.
func entities(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 0x80 || c == ' ' || c == ',' || alphanumeric(c):
			b.WriteByte(c)
		case (c == '-' || c == '_' || c == '.') && i > 0 && i+1 < len(s) && alphanumeric(s[i-1]) && alphanumeric(s[i+1]):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "#%d;", c)
		}
	}
	return b.String()
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
