package graph

import (
	"slices"
	"strings"
)

// Shape is what a graph looks like: enough to draw it, to tell two versions of it apart
// and to say in words how they differ.
type Shape struct {
	Nodes []ShapeNode `json:"nodes"`
	Edges []ShapeEdge `json:"edges"`
}

// ShapeNode is a node of a Shape.
type ShapeNode struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind,omitempty"`
	Join    string   `json:"join,omitempty"`     // "all", "settled", "quorum 2"
	OnError string   `json:"on_error,omitempty"` // "skip", "abort"
	Version string   `json:"version,omitempty"`
	Reads   []string `json:"reads,omitempty"`   // of one that declares them; see Bounded
	Bounded bool     `json:"bounded,omitempty"` // it sees what Reads names and no more
	Input   string   `json:"input,omitempty"`   // the node whose work its Input checks
	Uses    []string `json:"uses,omitempty"`
	Sub     *Shape   `json:"sub,omitempty"`
}

// ShapeEdge is an edge of a Shape.
type ShapeEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind,omitempty"` // "" for an edge, "branch", "fan", "send", "catch"
}

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
		reads := strings.Join(n.Reads, ",")
		if n.Bounded && reads == "" {
			reads = "nothing"
		}
		for _, extra := range [][2]string{
			{"kind", n.Kind}, {"join", n.Join}, {"on_error", n.OnError}, {"version", n.Version}, {"reads", reads}, {"input", n.Input}, {"uses", strings.Join(n.Uses, ",")},
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
