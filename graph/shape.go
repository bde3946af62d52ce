package graph

import (
	"slices"
	"strconv"
	"strings"
)

// Shape describes the nodes and edges of a graph: enough to draw it, to tell two versions apart and
// to describe how they differ.
type Shape struct {
	Nodes []ShapeNode `json:"nodes"`
	Edges []ShapeEdge `json:"edges"`
}

// ShapeNode is a node of a Shape.
type ShapeNode struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind,omitempty"`
	Join    string   `json:"join,omitempty"`     // "all", "settled", "quorum 2"
	OnError string   `json:"on_error,omitempty"` // "skip", "instead" (something takes the place of its update), "abort"
	Version string   `json:"version,omitempty"`
	Reads   []string `json:"reads,omitempty"`   // of one that declares them; see Bounded
	Bounded bool     `json:"bounded,omitempty"` // it sees what Reads names and no more
	Input   string   `json:"input,omitempty"`   // the node whose work its Input checks
	Most    int      `json:"most,omitempty"`
	Agents  int      `json:"-"` // that each task begins, see Node.Agents; no part of the graph's identity
	Uses    []string `json:"uses,omitempty"`
	Sub     *Shape   `json:"sub,omitempty"`
}

// ShapeEdge is an edge of a Shape.
type ShapeEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind,omitempty"` // "" for an edge, "branch", "fan", "send", "catch"
}

// diff describes in words how another shape differs from this one.
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
		reads := strings.Join(n.Reads, ",")
		if n.Bounded && reads == "" {
			reads = "nothing"
		}
		most := ""
		if n.Most > 0 {
			most = strconv.Itoa(n.Most)
		}
		for _, extra := range [][2]string{
			{"kind", n.Kind}, {"join", n.Join}, {"on_error", n.OnError}, {"version", n.Version}, {"reads", reads}, {"input", n.Input},
			{"uses", strings.Join(n.Uses, ",")}, {"most", most},
		} {
			if extra[1] != "" {
				line += " " + extra[0] + "=" + extra[1]
			}
		}
		out = append(out, line)
		if n.Sub != nil {
			for _, l := range n.Sub.nodeLines() {
				out = append(out, n.Name+"/"+l)
			}
		}
	}
	return out
}

// Agents returns the largest number of agents that a run can begin, nested graphs included. The
// number is unknown if a node that begins agents is on a cycle or behind one, is sent to by a fan
// without a bound, or decides how many while it runs.
func (s Shape) Agents() (agents int, known bool) {
	index := make(map[string]int, len(s.Nodes))
	for i, n := range s.Nodes {
		index[n.Name] = i
	}
	b := bound{shape: &s, in: make([][]*ShapeEdge, len(s.Nodes)), index: index, visits: make([]int, len(s.Nodes)), state: make([]uint8, len(s.Nodes))}
	for i := range s.Edges {
		e := &s.Edges[i]
		if to, ok := index[e.To]; ok {
			b.in[to] = append(b.in[to], e)
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		each := n.Agents
		if each < 0 {
			return 0, false
		}
		if n.Sub == nil && len(n.Uses) > 0 {
			return 0, false // a workflow by name
		}
		if n.Sub != nil {
			inner, known := n.Sub.Agents()
			if !known {
				return 0, false
			}
			each += inner
		}
		if each == 0 {
			continue
		}
		visits := b.of(i)
		if visits < 0 {
			return 0, false
		}
		agents += visits * each
	}
	return agents, true
}

// bound computes how often each node can be visited.
type bound struct {
	shape  *Shape
	index  map[string]int
	in     [][]*ShapeEdge
	visits []int
	state  []uint8 // 1 while its sources are looked at, 2 once visits is known
}

// of returns the visits of a node, -1 if they cannot be known.
func (b *bound) of(i int) int {
	switch b.state[i] {
	case 1:
		return -1 // a cycle
	case 2:
		return b.visits[i]
	}
	b.state[i] = 1
	sum := 0
	for _, e := range b.in[i] {
		from := 1
		if e.From != Start {
			from = b.of(b.index[e.From])
		}
		if e.Kind == "fan" || e.Kind == "send" {
			if b.shape.Nodes[i].Most == 0 {
				from = -1
			} else if from > 0 {
				from *= b.shape.Nodes[i].Most
			}
		}
		if from < 0 {
			sum = -1
			break
		}
		sum += from
	}
	b.state[i], b.visits[i] = 2, sum
	return sum
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
	for _, n := range s.Nodes {
		if n.Sub != nil {
			for _, l := range n.Sub.edgeLines() {
				out = append(out, n.Name+"/"+l)
			}
		}
	}
	return out
}
