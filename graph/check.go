package graph

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/encodable"
	"github.com/superstep-dev/superstep/internal/suggest"
)

type compiler struct {
	g            *parts
	index        map[string]int
	problems     []string
	out          [][]int   // by node: over edges, without End
	loose        [][]int   // by node: over anything else, without End
	ends         []bool    // by node: something of it leads to End
	leads        []bool    // by node: it has an edge or a route
	in           [][]int   // by node: over edges
	fanned       [][]int   // by node: who sends to it, rather than lead to it
	looseIn      [][]int   // by node: over anything else, -1 for Start
	choices      [][][]int // by node: the targets of each of its routes, -1 for End
	startChoices [][]int
	entries      []int // over edges
	starts       []int // over routes
	idom         []int // by node: see dominate
	order        []int // by node: its place in postorder
	unknown      bool  // an edge or a route names a node that is not there
	meant        []int // what it may have meant, and where edges from such a node lead
	inputs       []*checkedInput
	outputs      []*jsonschema.Resolved
}

func (c *compiler) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func (c *compiler) checkNodes() {
	g := c.g
	if g.name == "" {
		c.report("the graph has no name")
	}
	if g.types.fold == nil {
		c.report("the graph has no reducer")
	}
	if len(g.nodes) == 0 {
		c.report("the graph has no nodes")
	}
	for i, n := range g.nodes {
		if !nodeName.MatchString(n.Name) {
			c.report("node %q: a name is 1 to 64 of a-z, A-Z, 0-9, '_', '-' or '.'", n.Name)
		}
		if _, twice := c.index[n.Name]; twice {
			c.report("node %q is added twice", n.Name)
		} else {
			c.index[n.Name] = i
		}
		switch {
		case n.Err != nil:
			c.report("node %q: %v", n.Name, n.Err)
		case n.Run == nil && g.funcs[i] == nil:
			c.report("node %q has no function", n.Name)
		}
		if n.Join < Settled {
			c.report("node %q: there is no join %d; use graph.Any, All, Settled or Quorum(n)", n.Name, int(n.Join))
		}
		if n.Instead != nil && n.OnError != Skip {
			c.report("node %q has an update Instead of its own and is not skipped; set OnError to graph.Skip", n.Name)
		}
		if n.Most < 0 {
			c.report("node %q: the most tasks of it are negative", n.Name)
		}
		if n.Timeout < 0 {
			c.report("node %q: its timeout is negative", n.Name)
		}
		if r := n.Retry; r != nil && (r.Attempts < 0 || r.Max < 0 || r.Factor < 0 || r.Jitter > 1) {
			c.report("node %q: its retry has a negative number or a jitter above 1", n.Name)
		}
	}
	n := len(g.nodes)
	c.out, c.loose, c.in = make([][]int, n), make([][]int, n), make([][]int, n)
	c.ends, c.leads, c.looseIn, c.fanned, c.choices = make([]bool, n), make([]bool, n), make([][]int, n), make([][]int, n), make([][][]int, n)
}

// find returns the index of a node. If the node does not exist, find reports that and returns -1.
func (c *compiler) find(name, where string) int {
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
		c.unknown = true
		if close := suggest.Closest(name, names); close != "" {
			c.meant = append(c.meant, c.index[close])
		}
	}
	return -1
}

// half notes a path of which only one end is known; the other is -1. A known source is assumed to
// lead somewhere, and a known target to be reached.
func (c *compiler) half(from, to int) {
	if from >= 0 && to < 0 {
		c.ends[from], c.leads[from] = true, true
	}
	if from < 0 && to >= 0 {
		c.meant = append(c.meant, to)
	}
}

func (c *compiler) checkEdges() {
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
		case from < 0 || to < 0:
			c.half(from, to)
		default:
			c.leads[from] = true
			c.out[from] = append(c.out[from], to)
			c.in[to] = append(c.in[to], from)
		}
	}
	for _, r := range c.g.routes {
		c.checkRoute(&r)
	}
	for i, n := range c.g.nodes {
		for k, to := range n.Sends {
			where := fmt.Sprintf("sends of %s", n.Name)
			if slices.Contains(n.Sends[:k], to) {
				c.report("%s name %q twice", where, to)
			} else if to == End {
				c.ends[i], c.leads[i] = true, true
			} else if to := c.find(to, where); to < 0 {
				c.half(i, to)
			} else {
				c.lead(i, to)
				c.fanned[to] = append(c.fanned[to], i)
				c.leads[i] = true
			}
		}
	}
	caught := make(map[edge]bool, len(c.g.catch))
	for _, e := range c.g.catch {
		where := fmt.Sprintf("catch %s → %s", e.from, e.to)
		from := c.find(e.from, where)
		if caught[e] {
			c.report("%s is there twice", where)
		}
		caught[e] = true
		if e.to != End {
			if to := c.find(e.to, where); from >= 0 && to >= 0 {
				c.lead(from, to)
			} else {
				c.half(from, to)
			}
		}
	}
}

// lead notes a path from one node to another that is not always taken.
func (c *compiler) lead(from, to int) {
	c.loose[from] = append(c.loose[from], to)
	c.looseIn[to] = append(c.looseIn[to], from)
}

func (c *compiler) checkRoute(r *route) {
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
	var targets []int
	defer func() {
		if r.from == Start {
			c.startChoices = append(c.startChoices, targets)
		} else if from >= 0 {
			c.choices[from] = append(c.choices[from], targets)
		}
	}()
	for i, name := range r.to {
		if slices.Contains(r.to[:i], name) {
			c.report("%s names %q twice", where, name)
			continue
		}
		if name == End {
			targets = append(targets, -1)
			if from >= 0 {
				c.ends[from], c.leads[from] = true, true
			}
			continue
		}
		to := c.find(name, where)
		if to < 0 || from < 0 && r.from != Start {
			c.half(from, to)
			continue
		}
		targets = append(targets, to)
		if r.fan != nil {
			c.fanned[to] = append(c.fanned[to], from)
		}
		if r.from == Start {
			c.starts = append(c.starts, to)
			c.looseIn[to] = append(c.looseIn[to], -1)
		} else if from >= 0 {
			c.leads[from] = true
			c.lead(from, to)
		}
	}
}

func (r *route) kind() string {
	if r.fan != nil {
		return "fan"
	}
	return "branch"
}

// checkRoutes checks the edges of the graph as a whole.
func (c *compiler) checkRoutes() {
	n := len(c.g.nodes)
	reached := make([]bool, n)
	if len(c.entries)+len(c.starts) == 0 {
		c.report("no start node; add an edge from graph.Start")
		for i := range reached {
			reached[i] = true // which of them can be reached is then another question
		}
	}
	mark(slices.Concat(c.entries, c.starts, c.meant), reached, func(i int) [2][]int { return [2][]int{c.out[i], c.loose[i]} })
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
		case c.index[nd.Name] != i: // it is added twice
		case !reached[i]:
			c.report("node %q cannot be reached from graph.Start", nd.Name)
		case !c.leads[i]:
			c.report("node %q leads nowhere; add an edge to graph.End if the run ends there", nd.Name)
		case !out[i]:
			trapped = append(trapped, nd.Name)
		}
	}
	for i := range c.g.nodes {
		if !c.unknown { // or else it may be what a join misses
			c.checkJoin(i, reached)
		}
	}
	if len(trapped) > 0 && !slices.ContainsFunc(c.leads, func(b bool) bool { return !b }) {
		c.report("no way out of %s; add a branch from there to graph.End", strings.Join(trapped, ", "))
	}
	if loop := c.endlessLoop(); loop != nil {
		c.report("%s runs for ever: every step of it is an edge; put a branch in it", strings.Join(loop, " → "))
	}
}

func (c *compiler) checkJoin(i int, reached []bool) {
	nd := &c.g.nodes[i]
	if nd.Join == Any {
		return
	}
	if n := len(distinct(c.in[i])); nd.Join > 0 {
		if n < int(nd.Join) {
			c.report("node %q waits for %d of its sources, but only %d nodes have an edge to it", nd.Name, int(nd.Join), n)
		}
		return
	}
	what := fmt.Sprintf("node %q joins all of its sources", nd.Name)
	stray := slices.IndexFunc(c.looseIn[i], func(from int) bool { return !slices.Contains(c.in[i], from) })
	switch {
	case len(c.in[i]) == 0:
		c.report("%s, but no edge leads to it", what)
	case stray >= 0:
		from := Start
		if j := c.looseIn[i][stray]; j >= 0 {
			from = c.g.nodes[j].Name
		}
		c.report("%s, but %s leads to it by a choice, so that it may wait for ever; add an edge from it as well, or use an `any` join", what, from)
	case slices.Contains(c.entries, i):
		c.report("%s and is an entry too", what)
	case !slices.ContainsFunc(slices.Concat(c.in[i], []int{i}), func(n int) bool { return !reached[n] }):
		if a, b, never := c.unjoined(i); never {
			c.report("%s, but there is a way on which %s runs and %s does not, so that it may wait for ever; use an `any` join or a quorum, or lead "+
				"both ways to it", what, c.g.nodes[a].Name, c.g.nodes[b].Name)
		}
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

// looped returns how many nodes are on loops, or on a path between loops.
func (c *compiler) looped() int {
	n := len(c.g.nodes)
	next, back := make([][]int, n), make([][]int, n)
	for i := range n {
		next[i] = slices.Concat(c.out[i], c.loose[i])
		for _, to := range next[i] {
			back[to] = append(back[to], i)
		}
	}
	gone := make([]bool, n)
	for _, way := range [][2][][]int{{next, back}, {back, next}} { // what nothing leads to, then what leads nowhere
		var free []int
		open := make([]int, n)
		for i := range n {
			for _, from := range way[1][i] {
				if !gone[from] {
					open[i]++
				}
			}
			if open[i] == 0 && !gone[i] {
				free = append(free, i)
			}
		}
		for len(free) > 0 {
			i := free[len(free)-1]
			free = free[:len(free)-1]
			gone[i] = true
			for _, to := range way[0][i] {
				if open[to]--; open[to] == 0 && !gone[to] {
					free = append(free, to)
				}
			}
		}
	}
	looped := 0
	for _, g := range gone {
		if !g {
			looped++
		}
	}
	return looped
}

// endlessLoop finds a cycle that consists only of edges and so can never end.
func (c *compiler) endlessLoop() []string {
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

// checkTypes looks for types that cannot be stored in a log.
func (c *compiler) checkTypes() {
	for _, t := range []reflect.Type{c.g.types.state, c.g.types.update} {
		name := t.Name()
		if name == "" {
			name = t.String()
		}
		for _, problem := range encodable.Check(t, name) {
			if !slices.Contains(c.problems, problem) {
				c.report("%s", problem)
			}
		}
	}
}

// checkedInput is an Input that can be checked.
type checkedInput struct {
	*Input[any]
	schema *jsonschema.Resolved
	from   int // the producing node, -1 for none
}

// checkReads checks the Reads, Input and Output declarations of nodes.
func (c *compiler) checkReads() {
	n := len(c.g.nodes)
	c.inputs, c.outputs = make([]*checkedInput, n), make([]*jsonschema.Resolved, n)
	for i := range c.g.nodes {
		nd := &c.g.nodes[i]
		for k, r := range nd.Reads {
			if slices.Contains(nd.Reads[:k], r) {
				c.report("node %q reads %q twice", nd.Name, r)
			} else {
				c.find(r, fmt.Sprintf("reads of %s", nd.Name))
			}
		}
		var err error
		if nd.Output != nil {
			if c.outputs[i], err = nd.Output.Resolve(nil); err != nil {
				c.report("node %q: the schema of its output: %v", nd.Name, err)
			}
		}
		if nd.Input != nil {
			c.checkInput(i)
		}
	}
}

func (c *compiler) checkInput(i int) {
	nd := &c.g.nodes[i]
	in := &checkedInput{Input: nd.Input, from: -1}
	c.inputs[i] = in
	if in.Schema == nil {
		c.report("node %q: its input has no schema", nd.Name)
		return
	}
	var err error
	if in.schema, err = in.Schema.Resolve(nil); err != nil {
		c.report("node %q: the schema of its input: %v", nd.Name, err)
	}
	from := in.From
	if from == "" && len(nd.Reads) == 1 {
		from = nd.Reads[0]
	}
	if from == "" {
		return // there is nobody to run again
	}
	where := fmt.Sprintf("input of %s", nd.Name)
	if in.from = c.find(from, where); in.from < 0 {
		return
	}
	if p := &c.g.nodes[in.from]; len(p.Sends) > 0 || len(c.fanned[in.from]) > 0 {
		c.report("%s is produced by %q, which sends, or runs for what it is sent, so that it could not be run again; put a node between them", where, from)
	}
	if nd.Reads == nil {
		return // it sees all that the producing node sees
	}
	p := &c.g.nodes[in.from]
	if !slices.Contains(nd.Reads, from) {
		c.report("%s is produced by %q, which is not among its reads", where, from)
	}
	if p.Reads == nil {
		c.report("%s is produced by %q, which reads the whole state, so that it could not be run again; name what it reads in its Reads", where, from)
	}
	for _, r := range p.Reads {
		if !slices.Contains(nd.Reads, r) {
			c.report("%s is produced by %q, which reads %q; the node has to read that too, for it to be run again", where, from, r)
		}
	}
}

// distinct returns the given nodes without duplicates, in order. Start may be among them.
func distinct(nodes []int) []int {
	out := slices.DeleteFunc(slices.Clone(nodes), func(i int) bool { return i < 0 })
	slices.Sort(out)
	return slices.Compact(out)
}
