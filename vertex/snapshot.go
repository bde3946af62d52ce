package vertex

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
)

// A Snapshot is the whole state of a run between two supersteps. It encodes with encoding/json
// where V, E and M do (which an infinite float does not), and with any codec that knows exported
// fields, encoding/gob for one.
type Snapshot[V, E, M any] struct {
	Step   int    `json:"step"`
	Values []V    `json:"values"`
	Votes  []byte `json:"votes"` // by vertex, the last Vote; 255 for an index that is no vertex

	// Changed is set if the snapshot has only what has changed, see [Run.Changes]: the vertices that Values and Votes are of, in ascending order. Size is
	// then how many there are in all.
	Changed []int32 `json:"changed,omitzero"`
	Size    int     `json:"size,omitzero"`

	// The messages to be read in this superstep: who they are for, in ascending order, how many
	// for each (nil for one each), and the messages in that order.
	To       []int32  `json:"to,omitempty"`
	Counts   []uint32 `json:"counts,omitempty"`
	Messages []M      `json:"messages,omitempty"`

	Aggregates map[string]json.RawMessage `json:"aggregates,omitempty"` // by name
	// Edges are the edges if the run has changed the topology. Otherwise they are those of the
	// graph it was started with, whose size stands here to be compared.
	Edges         *EdgeList[E] `json:"edges,omitempty"`
	GraphVertices int          `json:"graph_vertices"`
	GraphEdges    int          `json:"graph_edges"`
}

const votedNever byte = 255

// Snapshot takes the run between two supersteps. It shares nothing with the run but
// what the Vs, Es and Ms point to.
func (r *Run[V, E, M]) Snapshot() (*Snapshot[V, E, M], error) {
	if r.broken != nil {
		return nil, r.broken
	}
	r.settle()
	s := &Snapshot[V, E, M]{Step: r.step, GraphVertices: r.g.n, GraphEdges: r.g.NumEdges()}
	var vertices sync.WaitGroup
	vertices.Go(func() { s.Values, s.Votes = slices.Clone(r.values), r.votes() })
	defer vertices.Wait()
	return s, r.rest(s, r.changed)
}

// votes returns the last votes of all vertices.
func (r *Run[V, E, M]) votes() []byte {
	votes := make([]byte, r.n)
	for v := 0; v < r.n; v += 64 {
		word := votes[v:min(v+64, r.n)]
		if r.active.words()[v>>6] == math.MaxUint64 && r.closed[v>>6]|r.gone[v>>6] == 0 {
			for i := range word {
				word[i] = byte(Stay)
			}
			continue
		}
		for i := range word {
			word[i] = r.vote(int32(v + i))
		}
	}
	return votes
}

// vote returns the last vote of a vertex.
func (r *Run[V, E, M]) vote(v int32) byte {
	switch {
	case hasBit(r.gone, v):
		return votedNever
	case hasBit(r.closed, v):
		return byte(Complete)
	case r.active.has(v):
		return byte(Stay) // a message makes a vertex active as much as its vote does
	}
	return byte(Halt)
}

// rest adds what does not belong to one vertex: messages, aggregates, and edges if they are wanted.
func (r *Run[V, E, M]) rest(s *Snapshot[V, E, M], edges bool) error {
	r.inboxes(s)
	for i, a := range r.prog.Aggregators {
		data, err := a.encode(r.aggregated[i])
		if err != nil {
			return err
		}
		if data != nil {
			if s.Aggregates == nil {
				s.Aggregates = map[string]json.RawMessage{}
			}
			s.Aggregates[a.name()] = data
		}
	}
	if edges {
		s.Edges = r.edgeList()
	}
	return nil
}

func (r *Run[V, E, M]) snapInbox(s *Snapshot[V, E, M], v int32) {
	switch {
	case r.has != nil:
		if hasBit(r.has, v) {
			s.To, s.Messages = append(s.To, v), append(s.Messages, r.inbox[v])
		}
	case int(v) < len(r.count) && r.count[v] > 0:
		s.To, s.Counts = append(s.To, v), append(s.Counts, r.count[v])
		s.Messages = append(s.Messages, r.pending[r.end[v]-r.count[v]:r.end[v]]...)
	}
}

func (r *Run[V, E, M]) edgeList() *EdgeList[E] {
	l := &EdgeList[E]{}
	for v := range int32(r.n) {
		to, values := r.edges(v)
		for range to {
			l.From = append(l.From, v)
		}
		l.To, l.Values = append(l.To, to...), append(l.Values, values...)
	}
	return l
}

// Restore recreates the run that a snapshot was taken of, from the graph that run was started with.
// It reaches the same result, bit by bit. The snapshot is not changed and not kept.
func Restore[V, E, M any](g *Graph[E], prog *Program[V, E, M], s *Snapshot[V, E, M]) (*Run[V, E, M], error) {
	n := len(s.Values)
	if s.Changed != nil {
		return nil, fmt.Errorf("the snapshot of superstep %d has only what has changed; merge it into the one before", s.Step)
	}
	if s.Edges != nil {
		changed, err := s.Edges.Build(n)
		if err != nil {
			return nil, fmt.Errorf("the snapshot of superstep %d: %w", s.Step, err)
		}
		changed.label, changed.labels = g.label, g.labels
		g = changed
	} else if g.n != s.GraphVertices || g.NumEdges() != s.GraphEdges {
		return nil, fmt.Errorf("the snapshot of superstep %d is of a graph of %d vertices and %d edges, and this one has %d and %d",
			s.Step, s.GraphVertices, s.GraphEdges, g.n, g.NumEdges())
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	r, err := newRun(g, prog, slices.Clone(s.Values))
	if err != nil {
		return nil, err
	}
	r.step, r.changed = s.Step, s.Edges != nil
	for v, vote := range s.Votes {
		w, mask := v>>6, uint64(1)<<(uint(v)&63)
		switch vote {
		case byte(Stay):
			r.active.add(w, mask)
		case byte(Complete):
			r.closed[w] |= mask
			r.anyEnds = true
		case votedNever:
			r.closed[w] |= mask
			r.gone[w] |= mask
			r.anyEnds, r.holes = true, true
			r.exist--
		}
	}
	r.restoreInboxes(s)
	for i, a := range prog.Aggregators {
		if err := a.decode(r.aggregated[i], s.Aggregates[a.name()]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Run[V, E, M]) restoreInboxes(s *Snapshot[V, E, M]) {
	switch {
	case len(s.To) == 0:
	case r.has != nil:
		r.inbox = make([]M, r.n)
		at := 0
		for i, v := range s.To {
			m := s.Messages[at]
			at++
			for range s.count(i) - 1 { // the snapshot is of a program that had no Combine yet
				m = r.prog.Combine.fold(m, s.Messages[at])
				at++
			}
			r.inbox[v] = m
			r.has[v>>6] |= 1 << (uint(v) & 63)
		}
	default:
		r.pending = slices.Clone(s.Messages)
		r.count, r.end = make([]uint32, r.n), make([]uint32, r.n)
		at := uint32(0)
		for i, v := range s.To {
			at += uint32(s.count(i))
			r.count[v], r.end[v] = uint32(s.count(i)), at
		}
	}
}

func (s *Snapshot[V, E, M]) count(i int) int {
	if s.Counts == nil {
		return 1
	}
	return int(s.Counts[i])
}

func (s *Snapshot[V, E, M]) check() error {
	bad := graphError{}
	n := len(s.Values)
	if len(s.Votes) != n {
		bad.add("the snapshot has %d votes for %d vertices", len(s.Votes), n)
	}
	if s.Counts != nil && len(s.Counts) != len(s.To) {
		bad.add("the snapshot has %d counts for %d inboxes", len(s.Counts), len(s.To))
		return &bad
	}
	messages := 0
	for i, v := range s.To {
		if messages += s.count(i); s.count(i) == 0 || uint32(v) >= uint32(n) || i > 0 && s.To[i-1] >= v || int(v) < len(s.Votes) && s.Votes[v] != byte(Stay) {
			bad.add("inbox %d of the snapshot, of vertex %d, cannot be", i, v)
		}
	}
	if messages != len(s.Messages) {
		bad.add("the snapshot has %d messages in inboxes for %d", len(s.Messages), messages)
	}
	return bad.orNil()
}
