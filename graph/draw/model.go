package draw

import (
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/graph"
)

// diagram is the input of all formats: a graph with everything decided except the syntax.
type diagram struct {
	nodes      []node
	edges      []edge
	start, end int // -1 for none
}

type node struct {
	path   string
	id     string // letters, digits and '_', unique in the picture
	name   string // fit for one line
	notes  string // "agent, joins all"
	reads  string // "reads topic, notes"
	form   form
	state  string
	status string   // "" where states are left out
	inner  *diagram // of a sub-graph that is drawn open
}

// lines returns the lines of text in a node.
func (n *node) lines() []string {
	out := []string{n.name}
	for _, s := range []string{n.notes, n.status} {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

type edge struct {
	from, to int // indices of nodes
	kind     string
}

// form is the outline of a node.
type form uint8

const (
	plain    form = iota // a rectangle
	rounded              // an agent
	slanted              // a tool
	hexagon              // asks a person
	rhombus              // decides
	doubled              // a sub-graph that is drawn closed
	terminal             // the start or the end
)

var forms = map[string]form{
	"agent": rounded,
	"tool":  slanted,
	"ask":   hexagon, "question": hexagon,
	"decision": rhombus, "branch": rhombus, "if": rhombus, "switch": rhombus,
	"sub": doubled,
}

// maxDepth bounds how deep sub-graphs are drawn open, so that a graph that contains itself can be
// drawn.
const maxDepth = 16

type builder struct {
	opt *Options
	ids map[string]int // those that are taken, and how often each was wanted
}

// build decides everything about a picture except its syntax.
func build(shape *graph.Shape, opt *Options) *diagram {
	b := &builder{opt: opt, ids: make(map[string]int, len(shape.Nodes))}
	return b.diagram(shape, "", 0)
}

func (b *builder) diagram(shape *graph.Shape, prefix string, depth int) *diagram {
	d := &diagram{nodes: make([]node, 0, len(shape.Nodes)+2), start: -1, end: -1}
	index := make(map[string]int, len(shape.Nodes)+2)
	add := func(name string, n *node) int {
		index[name] = len(d.nodes)
		d.nodes = append(d.nodes, *n)
		return len(d.nodes) - 1
	}
	uses := func(name string) bool {
		return depth > 0 || slices.ContainsFunc(shape.Edges, func(e graph.ShapeEdge) bool { return e.From == name || e.To == name })
	}
	if uses(graph.Start) {
		d.start = add(graph.Start, &node{name: "start", form: terminal})
	}
	decides := deciders(shape)
	for i := range shape.Nodes {
		n := &shape.Nodes[i]
		if _, twice := index[n.Name]; !twice && n.Name != graph.Start && n.Name != graph.End {
			add(n.Name, b.node(n, prefix, decides[n.Name], depth))
		}
	}
	if uses(graph.End) {
		d.end = add(graph.End, &node{name: "end", form: terminal})
	}
	seen := make(map[graph.ShapeEdge]bool, len(shape.Edges))
	for _, e := range shape.Edges {
		if seen[e] {
			continue
		}
		seen[e] = true
		var ends [2]int
		for i, name := range [2]string{e.From, e.To} {
			at, ok := index[name]
			if !ok { // a shape that was never compiled may miss one
				at = add(name, b.node(&graph.ShapeNode{Name: name}, prefix, false, depth))
				d.nodes[at].notes = "missing"
			}
			ends[i] = at
		}
		d.edges = append(d.edges, edge{ends[0], ends[1], line(e.Kind)})
	}
	pseudo := ""
	if prefix != "" {
		pseudo = ident(prefix)
	}
	if d.start >= 0 {
		d.nodes[d.start].id = b.id(pseudo + "__start__")
	}
	if d.end >= 0 {
		d.nodes[d.end].id = b.id(pseudo + "__end__")
	}
	return d
}

// deciders finds the nodes whose outgoing edges are all choices.
func deciders(shape *graph.Shape) map[string]bool {
	ways, edges := map[string]int{}, map[string]bool{}
	for _, e := range shape.Edges {
		if e.Kind == "branch" {
			ways[e.From]++
		} else {
			edges[e.From] = true
		}
	}
	out := make(map[string]bool, len(ways))
	for name, n := range ways {
		out[name] = n > 1 && !edges[name]
	}
	return out
}

func (b *builder) node(n *graph.ShapeNode, prefix string, decides bool, depth int) *node {
	path := prefix + n.Name
	out := &node{path: path, id: b.id(ident(path)), name: line(n.Name)}
	if out.name == "" {
		out.name = "(no name)"
	}
	kind := line(n.Kind)
	out.form = forms[kind]
	if kind == "" && decides {
		out.form = rhombus
	}
	sub := n.Sub
	var notes []string
	switch {
	case sub != nil:
		out.form = doubled
		notes = append(notes, "sub-graph")
	case kind != "":
		notes = append(notes, kind)
	}
	switch join := line(n.Join); join {
	case "", "any":
	default:
		notes = append(notes, "joins "+join)
	}
	switch policy := line(n.OnError); policy {
	case "", "fail", "instead":
	case "skip":
		notes = append(notes, "may be skipped")
	default:
		notes = append(notes, "on failure "+policy)
	}
	out.notes = strings.Join(notes, ", ")
	if len(n.Reads) > 0 {
		out.reads = "reads " + line(strings.Join(n.Reads, ", "))
	}
	if b.opt.Status != nil {
		s := b.opt.Status[path]
		out.state, out.status = s.State, s.String()
		if sub == nil && kind == script && len(s.Steps) > 0 {
			sub = shapeOf(s.Steps)
		}
	}
	if sub != nil && !b.opt.Closed && depth < maxDepth {
		out.inner = b.diagram(sub, path+"/", depth+1)
	}
	return out
}

// reserved are the ids that mean something to Mermaid, or to the JavaScript it keeps them in.
var reserved = map[string]bool{
	"": true, "end": true, "graph": true, "flowchart": true, "subgraph": true, "style": true, "linkstyle": true, "classdef": true,
	"class": true, "click": true, "call": true, "href": true, "default": true, "direction": true, "interpolate": true, "acctitle": true,
	"accdescr": true, "_self": true, "_blank": true, "_parent": true, "_top": true, "constructor": true, "prototype": true,
	"tostring": true, "valueof": true, "tolocalestring": true, "hasownproperty": true, "isprototypeof": true,
	"propertyisenumerable": true, "__proto__": true,
}

// ident turns a path into an identifier. Different paths may give the same one.
func ident(path string) string {
	s := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, path)
	if reserved[strings.ToLower(s)] {
		s += "_"
	}
	return s
}

// id returns an identifier that is unique.
func (b *builder) id(base string) string {
	id := base
	for b.ids[id] > 0 {
		b.ids[base]++
		id = base + "_" + strconv.Itoa(b.ids[base])
	}
	b.ids[id] = 1
	return id
}

// dashed reports whether an edge is taken only sometimes.
func (e *edge) dashed() bool { return e.kind == "branch" || e.kind == "catch" || e.kind == "send" }

// ports returns the nodes at which the edges of n start and end, for formats in which no edge can
// lead to a box. For an open sub-graph these are its end and its start.
func (n *node) ports() (out, in *node) {
	out, in = n, n
	for out.inner != nil {
		out = &out.inner.nodes[out.inner.end]
	}
	for in.inner != nil {
		in = &in.inner.nodes[in.inner.start]
	}
	return out, in
}

// size counts the nodes and edges of a picture.
func (d *diagram) size() (nodes, edges int) {
	edges = len(d.edges)
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.form != terminal {
			nodes++
		}
		if n.inner != nil {
			innerNodes, innerEdges := n.inner.size()
			nodes, edges = nodes+innerNodes, edges+innerEdges
		}
	}
	return nodes, edges
}
