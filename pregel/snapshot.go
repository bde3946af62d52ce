package pregel

import (
	"cmp"
	"fmt"
	"slices"
)

// A Snapshot is all a machine is between two supersteps. It names vertices instead
// of counting them, so it outlives a change of their order, and it encodes as JSON
// wherever S and M do.
type Snapshot[S, M any] struct {
	Step      int           `json:"step"`
	State     S             `json:"state"`
	Frontier  []Woken[M]    `json:"frontier,omitempty"`
	Visits    []VisitCount  `json:"visits,omitempty"`
	Completed []VisitCount  `json:"completed,omitempty"`
	Arrived   []ArrivedJoin `json:"arrived,omitempty"`
}

// Woken is a task of the superstep to come.
type Woken[M any] struct {
	Vertex string `json:"vertex"`
	Key    string `json:"key,omitempty"`
	Inbox  []M    `json:"inbox,omitempty"`
}

// VisitCount is how often an instance has computed.
type VisitCount struct {
	Vertex string `json:"vertex"`
	Key    string `json:"key,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// ArrivedJoin is what an All join has so far.
type ArrivedJoin struct {
	Vertex  string   `json:"vertex"`
	Sources []string `json:"sources"`
}

// Snapshot takes the machine as it was when the current superstep opened.
func (m *Machine[S, U, M]) Snapshot() Snapshot[S, M] {
	name := func(v int) string { return m.prog.Vertices[v].Name }
	s := Snapshot[S, M]{Step: m.step, State: m.state}
	current := map[instance]bool{}
	for _, t := range m.tasks {
		s.Frontier = append(s.Frontier, Woken[M]{name(t.Vertex), t.Key, t.Inbox})
		current[instance{t.Vertex, t.Key}] = true
	}
	count := func(id instance, n int32) {
		if current[id] {
			n-- // the visit of the current step is counted again when it is opened
		}
		if n > 0 {
			s.Visits = append(s.Visits, VisitCount{name(id.vertex), id.key, int(n)})
		}
	}
	for v, n := range m.visits {
		count(instance{vertex: v}, n)
	}
	for id, n := range m.keyVisits {
		count(id, n)
	}
	for id := range m.completed {
		s.Completed = append(s.Completed, VisitCount{Vertex: name(id.vertex), Key: id.key})
	}
	for to, got := range m.arrived {
		a := ArrivedJoin{Vertex: name(to)}
		for _, from := range got {
			a.Sources = append(a.Sources, name(from))
		}
		s.Arrived = append(s.Arrived, a)
	}
	byName := func(a, b VisitCount) int {
		return cmp.Or(cmp.Compare(a.Vertex, b.Vertex), cmp.Compare(a.Key, b.Key))
	}
	slices.SortFunc(s.Visits, byName)
	slices.SortFunc(s.Completed, byName)
	slices.SortFunc(s.Arrived, func(a, b ArrivedJoin) int { return cmp.Compare(a.Vertex, b.Vertex) })
	return s
}

// Restore makes a machine from a snapshot. It fails if the snapshot names a vertex
// the program does not have.
func Restore[S, U, M any](prog *Program[S, U], s *Snapshot[S, M]) (*Machine[S, U, M], error) {
	index := make(map[string]int, len(prog.Vertices))
	for i, v := range prog.Vertices {
		index[v.Name] = i
	}
	var unknown error
	find := func(name string) int {
		i, ok := index[name]
		if !ok && unknown == nil {
			unknown = fmt.Errorf("the snapshot of superstep %d has a vertex %q, which the graph no longer has", s.Step, name)
		}
		return i
	}
	m := &Machine[S, U, M]{prog: prog, state: s.State, step: s.Step, visits: make([]int32, len(prog.Vertices))}
	m.frontier.at = make([]int32, len(prog.Vertices))
	m.frontier.sorted = true
	for _, v := range s.Visits {
		if i := find(v.Vertex); v.Key == "" {
			m.visits[i] = int32(v.Count)
		} else {
			if m.keyVisits == nil {
				m.keyVisits = map[instance]int32{}
			}
			m.keyVisits[instance{i, v.Key}] = int32(v.Count)
		}
	}
	for _, v := range s.Completed {
		if m.completed == nil {
			m.completed = map[instance]bool{}
		}
		m.completed[instance{find(v.Vertex), v.Key}] = true
	}
	for _, a := range s.Arrived {
		if m.arrived == nil {
			m.arrived = map[int][]int{}
		}
		var got []int
		for _, name := range a.Sources {
			got = append(got, find(name))
		}
		slices.Sort(got)
		m.arrived[find(a.Vertex)] = got
	}
	for _, w := range s.Frontier {
		i := m.wake(find(w.Vertex), w.Key)
		if i >= 0 {
			m.frontier.tasks[i].Inbox = w.Inbox
		}
	}
	if unknown != nil {
		return nil, unknown
	}
	m.openStep()
	return m, nil
}
