package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/pregel"
)

// A CompileError lists everything that is wrong with a graph.
type CompileError struct {
	Graph    string
	Problems []string
}

func (e *CompileError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("graph %q: %s", e.Graph, e.Problems[0])
	}
	return fmt.Sprintf("graph %q has %d mistakes:\n  - %s", e.Graph, len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// message is what nodes send each other: the argument of a Send as JSON.
type message = json.RawMessage

// A Flow is a graph that can be run. It never changes, and any number of runs may
// use it at once.
type Flow[S, U any] struct {
	name    string
	program pregel.Program[S, U]
	nodes   []node[S, U]
	index   map[string]int
	entries []pregel.Send[message]
	starts  []compiledRoute[S]
	shape   Shape
	digest  string
	reduce  func(S, U) S
	skips   bool // some node may be passed over
}

// node is a node as it is run.
type node[S, U any] struct {
	Node[S, U]
	fn     Func[S, U]
	sends  []pregel.Send[message] // over its edges
	routes []compiledRoute[S]
}

type compiledRoute[S any] struct {
	route[S]
	sends map[string][]pregel.Send[message] // by target; none for End
}

// Shape is what a graph looks like: enough to tell two versions of it apart and to
// say in words how they differ.
type Shape struct {
	Nodes []ShapeNode `json:"nodes"`
	Edges []ShapeEdge `json:"edges"`
}

// ShapeNode is a node of a Shape.
type ShapeNode struct {
	Name    string `json:"name"`
	Join    string `json:"join,omitempty"`
	OnError string `json:"on_error,omitempty"`
	Version string `json:"version,omitempty"`
}

// ShapeEdge is an edge of a Shape.
type ShapeEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind,omitempty"` // "" for an edge, "branch", "fan"
}

// Compile checks the graph and makes it runnable. It reports every mistake it finds
// at once, as a *CompileError.
func (g *Graph[S, U]) Compile() (*Flow[S, U], error) {
	c := &compiler[S, U]{g: g, index: make(map[string]int, len(g.nodes))}
	c.checkNodes()
	c.checkEdges()
	if len(c.problems) == 0 { // the rest would only repeat it
		c.checkRoutes()
	}
	if len(c.problems) > 0 {
		return nil, &CompileError{Graph: g.name, Problems: c.problems}
	}
	return c.flow()
}

type compiler[S, U any] struct {
	g        *Graph[S, U]
	index    map[string]int
	problems []string
	out      [][]int  // by node: over edges, without End
	loose    [][]int  // by node: over branches and fans, without End
	ends     []bool   // by node: something of it leads to End
	leads    []bool   // by node: it has an edge or a route
	in       [][]int  // by node: over edges
	looseIn  []string // by node: a node that leads to it by a branch or fan, "" if none does
	entries  []int    // over edges
	starts   []int    // over routes
}

func (c *compiler[S, U]) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func (c *compiler[S, U]) checkNodes() {
	g := c.g
	if g.name == "" {
		c.report("the graph has no name")
	}
	if g.reduce == nil {
		c.report("the graph has no reducer")
	}
	if len(g.nodes) == 0 {
		c.report("the graph has no nodes")
	}
	for i, n := range g.nodes {
		if !nodeName.MatchString(n.Name) {
			c.report("node %q: a name is 1 to 64 letters, digits, '_', '-' or '.'", n.Name)
		}
		if _, twice := c.index[n.Name]; twice {
			c.report("node %q is added twice", n.Name)
		} else {
			c.index[n.Name] = i
		}
		if n.Run == nil && g.funcs[i] == nil {
			c.report("node %q has no function", n.Name)
		}
		if n.Timeout < 0 {
			c.report("node %q: its timeout is negative", n.Name)
		}
		if r := n.Retry; r != nil && (r.Attempts < 0 || r.Backoff < 0 || r.Max < 0 || r.Factor < 0 || r.Jitter > 1) {
			c.report("node %q: its retry has a negative number or a jitter above 1", n.Name)
		}
	}
	n := len(g.nodes)
	c.out, c.loose, c.in = make([][]int, n), make([][]int, n), make([][]int, n)
	c.ends, c.leads, c.looseIn = make([]bool, n), make([]bool, n), make([]string, n)
}

// find gives the index of a node, or -1 after reporting that there is none.
func (c *compiler[S, U]) find(name, where string) int {
	if i, ok := c.index[name]; ok {
		return i
	}
	switch name {
	case Start:
		c.report("%s leads to graph.Start; nothing may", where)
	case End:
		c.report("%s starts at graph.End; nothing may", where)
	default:
		names := make([]string, 0, len(c.index))
		for _, n := range c.g.nodes {
			if !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
			}
		}
		c.report("%s: there is no node %q%s", where, name, suggest.Hint(name, names))
	}
	return -1
}

func (c *compiler[S, U]) checkEdges() {
	seen := make(map[edge]bool, len(c.g.edges))
	for _, e := range c.g.edges {
		where := fmt.Sprintf("edge %s → %s", e.from, e.to)
		if seen[e] {
			c.report("%s is there twice", where)
			continue
		}
		seen[e] = true
		from, to := -1, -1
		if e.from != Start {
			from = c.find(e.from, where)
		}
		if e.to != End {
			to = c.find(e.to, where)
		}
		switch {
		case e.from == Start && e.to == End:
			c.report("%s: the graph would do nothing", where)
		case e.from == Start && to >= 0:
			c.entries = append(c.entries, to)
		case e.to == End && from >= 0:
			c.ends[from], c.leads[from] = true, true
		case from >= 0 && to >= 0:
			c.leads[from] = true
			c.out[from] = append(c.out[from], to)
			c.in[to] = append(c.in[to], from)
		}
	}
	for _, r := range c.g.routes {
		c.checkRoute(&r)
	}
}

func (c *compiler[S, U]) checkRoute(r *route[S]) {
	kind := r.kind()
	where := fmt.Sprintf("%s from %s", kind, r.from)
	if r.branch == nil && r.fan == nil {
		c.report("%s has no function", where)
	}
	if len(r.to) == 0 {
		c.report("%s names no targets; list the nodes it may choose", where)
	}
	from := -1
	if r.from != Start {
		from = c.find(r.from, where)
	}
	for i, name := range r.to {
		if slices.Contains(r.to[:i], name) {
			c.report("%s names %q twice", where, name)
			continue
		}
		if name == End {
			if r.fan != nil {
				c.report("%s names graph.End; a message cannot be sent there", where)
			}
			if from >= 0 {
				c.ends[from], c.leads[from] = true, true
			}
			continue
		}
		to := c.find(name, where)
		if to < 0 {
			continue
		}
		c.looseIn[to] = r.from
		if r.from == Start {
			c.starts = append(c.starts, to)
		} else if from >= 0 {
			c.leads[from] = true
			c.loose[from] = append(c.loose[from], to)
		}
	}
}

func (r *route[S]) kind() string {
	if r.fan != nil {
		return "fan"
	}
	return "branch"
}

// checkRoutes looks at the graph as a whole.
func (c *compiler[S, U]) checkRoutes() {
	n := len(c.g.nodes)
	reached := make([]bool, n)
	if len(c.entries)+len(c.starts) == 0 {
		c.report("no start node; add an edge from graph.Start")
		for i := range reached {
			reached[i] = true // which of them can be reached is then another question
		}
	}
	mark(append(slices.Clone(c.entries), c.starts...), reached, func(i int) [2][]int { return [2][]int{c.out[i], c.loose[i]} })
	back, exits := make([][]int, n), []int{}
	for i := range n {
		for _, to := range append(slices.Clone(c.out[i]), c.loose[i]...) {
			back[to] = append(back[to], i)
		}
		if c.ends[i] {
			exits = append(exits, i)
		}
	}
	out := make([]bool, n)
	mark(exits, out, func(i int) [2][]int { return [2][]int{back[i]} })
	var trapped []string
	for i, nd := range c.g.nodes {
		switch {
		case !reached[i]:
			c.report("node %q cannot be reached from graph.Start", nd.Name)
		case !c.leads[i]:
			c.report("node %q leads nowhere; add an edge to graph.End if the run ends there", nd.Name)
		case !out[i]:
			trapped = append(trapped, nd.Name)
		}
		c.checkJoin(i)
	}
	if len(trapped) > 0 && !slices.ContainsFunc(c.leads, func(b bool) bool { return !b }) {
		c.report("no way out of %s; branch from one of them to graph.End", strings.Join(trapped, ", "))
	}
	if loop := c.endlessLoop(); loop != nil {
		c.report("%s runs for ever: every step of it is an edge; put a branch in it", strings.Join(loop, " → "))
	}
}

func (c *compiler[S, U]) checkJoin(i int) {
	nd := &c.g.nodes[i]
	if nd.Join != All {
		return
	}
	switch {
	case len(c.in[i]) == 0:
		c.report("node %q joins all of its sources, but no edge leads to it", nd.Name)
	case c.looseIn[i] != "":
		c.report("node %q joins all of its sources, but %s leads to it by a choice, so that it may wait for ever; use an edge, or an `any` join", nd.Name, c.looseIn[i])
	case slices.Contains(c.entries, i):
		c.report("node %q joins all of its sources and is an entry too", nd.Name)
	}
}

// mark sets everything that can be reached from some nodes.
func mark(from []int, seen []bool, next func(int) [2][]int) {
	stack := slices.Clone(from)
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[i] {
			continue
		}
		seen[i] = true
		for _, list := range next(i) {
			stack = append(stack, list...)
		}
	}
}

// endlessLoop finds a cycle of nothing but edges: it can never stop.
func (c *compiler[S, U]) endlessLoop() []string {
	const open, closed = 1, 2
	state := make([]uint8, len(c.g.nodes))
	type frame struct{ node, next int }
	for root := range c.g.nodes {
		if state[root] != 0 {
			continue
		}
		stack := []frame{{node: root}}
		state[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(c.out[f.node]) {
				state[f.node] = closed
				stack = stack[:len(stack)-1]
				continue
			}
			to := c.out[f.node][f.next]
			f.next++
			switch state[to] {
			case 0:
				state[to] = open
				stack = append(stack, frame{node: to})
			case open:
				var loop []string
				for i := range stack {
					if stack[i].node == to {
						stack = stack[i:]
						break
					}
				}
				for _, f := range stack {
					loop = append(loop, c.g.nodes[f.node].Name)
				}
				return append(loop, c.g.nodes[to].Name)
			}
		}
	}
	return nil
}

func (c *compiler[S, U]) flow() (*Flow[S, U], error) {
	g := c.g
	f := &Flow[S, U]{name: g.name, index: c.index, nodes: make([]node[S, U], len(g.nodes)), reduce: g.reduce}
	f.program = pregel.Program[S, U]{Vertices: make([]pregel.Vertex, len(g.nodes)), Reduce: g.reduce}
	for i, nd := range g.nodes {
		v := pregel.Vertex{Name: nd.Name}
		s := ShapeNode{Name: nd.Name, Version: nd.Version}
		if nd.Join == All {
			v.Join, v.Sources = pregel.All, c.in[i]
			s.Join = "all"
		}
		if nd.OnError == Skip {
			s.OnError = "skip"
			f.skips = true
		}
		f.program.Vertices[i] = v
		f.shape.Nodes = append(f.shape.Nodes, s)
		f.nodes[i] = node[S, U]{Node: nd, fn: g.funcs[i]}
	}
	for _, e := range g.edges {
		f.shape.Edges = append(f.shape.Edges, ShapeEdge{From: e.from, To: e.to})
		if e.to == End {
			continue
		}
		send := pregel.Send[message]{To: c.index[e.to], Bare: true}
		if e.from == Start {
			f.entries = append(f.entries, send)
		} else {
			n := &f.nodes[c.index[e.from]]
			n.sends = append(n.sends, send)
		}
	}
	for _, r := range g.routes {
		cr := compiledRoute[S]{route: r, sends: make(map[string][]pregel.Send[message], len(r.to))}
		for _, to := range r.to {
			f.shape.Edges = append(f.shape.Edges, ShapeEdge{From: r.from, To: to, Kind: r.kind()})
			cr.sends[to] = nil
			if to != End {
				cr.sends[to] = []pregel.Send[message]{{To: c.index[to], Bare: true}}
			}
		}
		if r.from == Start {
			f.starts = append(f.starts, cr)
		} else {
			n := &f.nodes[c.index[r.from]]
			n.routes = append(n.routes, cr)
		}
	}
	b, err := json.Marshal(f.shape)
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.name, err)
	}
	sum := sha256.Sum256(append([]byte(g.name+"\n"), b...))
	f.digest = hex.EncodeToString(sum[:16])
	return f, nil
}

// Name is the graph's.
func (f *Flow[S, U]) Name() string { return f.name }

// Digest changes whenever the shape of the graph does.
func (f *Flow[S, U]) Digest() string { return f.digest }

// Shape is what the graph looks like. The caller must not change it.
func (f *Flow[S, U]) Shape() Shape { return f.shape }

// diff says in words how another shape differs from this one.
func (s Shape) diff(now Shape) []string {
	var out []string
	compare := func(old, current []string, what string) {
		for _, x := range old {
			if !slices.Contains(current, x) {
				out = append(out, "- "+what+" "+x)
			}
		}
		for _, x := range current {
			if !slices.Contains(old, x) {
				out = append(out, "+ "+what+" "+x)
			}
		}
	}
	compare(s.nodeLines(), now.nodeLines(), "node")
	compare(s.edgeLines(), now.edgeLines(), "edge")
	if len(out) == 0 {
		out = append(out, "the order of nodes or edges")
	}
	return out
}

func (s Shape) nodeLines() []string {
	var out []string
	for _, n := range s.Nodes {
		line := n.Name
		for _, extra := range [][2]string{{"join", n.Join}, {"on_error", n.OnError}, {"version", n.Version}} {
			if extra[1] != "" {
				line += " " + extra[0] + "=" + extra[1]
			}
		}
		out = append(out, line)
	}
	return out
}

func (s Shape) edgeLines() []string {
	var out []string
	for _, e := range s.Edges {
		line := e.From + " → " + e.To
		if e.Kind != "" {
			line += " (" + e.Kind + ")"
		}
		out = append(out, line)
	}
	return out
}
