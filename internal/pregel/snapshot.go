package pregel

import (
	"cmp"
	"fmt"
	"slices"
)

// A Snapshot is the whole state of a machine between two supersteps. It refers to vertices by name,
// so it survives a change of their order, and it encodes as JSON if S and M do.
type Snapshot[S, U, M any] struct {
	Step      int               `json:"step"`
	State     S                 `json:"state"`
	Frontier  []woken[M]        `json:"frontier,omitempty"`
	Visits    []visitCount      `json:"visits,omitempty"`
	Completed []visitCount      `json:"completed,omitempty"`
	Arrived   []arrivedJoin[M]  `json:"arrived,omitempty"`
	Initial   []S               `json:"initial,omitempty"` // the first state of the run, of a program with declared reads
	Kept      []KeptUpdate[U]   `json:"kept,omitempty"`
	Early     []earlyTask[U, M] `json:"early,omitempty"`
}

// woken is a task of the superstep to come.
type woken[M any] struct {
	Vertex string `json:"vertex"`
	Key    string `json:"key,omitempty"`
	Inbox  []M    `json:"inbox,omitempty"`
}

// visitCount is how often an instance has computed.
type visitCount struct {
	Vertex string `json:"vertex"`
	Key    string `json:"key,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// arrivedJoin is what a join has collected so far.
type arrivedJoin[M any] struct {
	Vertex  string   `json:"vertex"`
	Sources []string `json:"sources"`
	Inbox   []M      `json:"inbox,omitempty"`
	Fired   bool     `json:"fired,omitempty"`
}

// KeptUpdate is an update of a vertex that another vertex reads.
type KeptUpdate[U any] struct {
	Vertex string `json:"vertex"`
	Step   int    `json:"step"`
	Index  int    `json:"index"`
	Fix    bool   `json:"fix,omitempty"` // another vertex amended it
	Update U      `json:"update"`
}

// earlyTask is a task that has ended before its superstep.
type earlyTask[U, M any] struct {
	Vertex  string         `json:"vertex"`
	Key     string         `json:"key,omitempty"`
	Step    int            `json:"step"`
	Outcome Outcome        `json:"outcome"`
	Update  U              `json:"update"`
	Fixed   string         `json:"fixed,omitempty"` // the vertex that Fix amends
	Fix     U              `json:"fix,omitzero"`
	Sends   []sentEarly[M] `json:"sends,omitempty"`
	Inside  []string       `json:"inside,omitempty"`
}

// sentEarly is a message of an earlyTask.
type sentEarly[M any] struct {
	To   string `json:"to"`
	Key  string `json:"key,omitempty"`
	Msg  M      `json:"msg,omitzero"`
	Bare bool   `json:"bare,omitempty"`
}

// Snapshot returns the state of the machine at the start of the current superstep.
func (m *Machine[S, U, M]) Snapshot() Snapshot[S, U, M] {
	name := func(v int) string { return m.prog.Vertices[v].Name }
	s := Snapshot[S, U, M]{Step: m.step, State: m.state}
	current := map[instance]bool{}
	for _, t := range m.tasks {
		s.Frontier = append(s.Frontier, woken[M]{name(t.Vertex), t.Key, t.Inbox})
		current[instance{t.Vertex, t.Key}] = true
	}
	count := func(id instance, n int32) {
		if current[id] {
			n-- // the visit of the current step is counted again when it is opened
		}
		if n > 0 {
			s.Visits = append(s.Visits, visitCount{name(id.vertex), id.key, int(n)})
		}
	}
	for v, n := range m.visits {
		count(instance{vertex: v}, n)
	}
	for id, n := range m.keyVisits {
		count(id, n)
	}
	for id := range m.completed {
		s.Completed = append(s.Completed, visitCount{Vertex: name(id.vertex), Key: id.key})
	}
	for to, r := range m.rounds {
		a := arrivedJoin[M]{Vertex: name(to), Inbox: r.inbox, Fired: r.fired}
		for _, from := range r.sources {
			a.Sources = append(a.Sources, name(from))
		}
		s.Arrived = append(s.Arrived, a)
	}
	if v := m.views; v != nil {
		s.Initial = []S{v.initial}
		for i := range v.kept {
			for _, k := range v.kept[i] {
				s.Kept = append(s.Kept, KeptUpdate[U]{name(i), k.step, k.index, !k.own, k.update})
			}
		}
	}
	if m.ahead != nil {
		for _, c := range m.ahead.done() {
			s.Early = append(s.Early, m.early(c))
		}
	}
	byName := func(a, b visitCount) int {
		return cmp.Or(cmp.Compare(a.Vertex, b.Vertex), cmp.Compare(a.Key, b.Key))
	}
	slices.SortFunc(s.Visits, byName)
	slices.SortFunc(s.Completed, byName)
	slices.SortFunc(s.Arrived, func(a, b arrivedJoin[M]) int { return cmp.Compare(a.Vertex, b.Vertex) })
	return s
}

// Convert returns a snapshot with its states and updates converted.
func Convert[S, U, S2, U2, M any](s *Snapshot[S, U, M], state func(S) (S2, error), update func(U) (U2, error)) (out Snapshot[S2, U2, M], err error) {
	out = Snapshot[S2, U2, M]{Step: s.Step, Frontier: s.Frontier, Visits: s.Visits, Completed: s.Completed, Arrived: s.Arrived}
	if out.State, err = state(s.State); err != nil {
		return out, err
	}
	for _, first := range s.Initial {
		one, err := state(first)
		if err != nil {
			return out, err
		}
		out.Initial = append(out.Initial, one)
	}
	for _, k := range s.Kept {
		u, err := update(k.Update)
		if err != nil {
			return out, err
		}
		out.Kept = append(out.Kept, KeptUpdate[U2]{k.Vertex, k.Step, k.Index, k.Fix, u})
	}
	for i := range s.Early {
		t := &s.Early[i]
		to := earlyTask[U2, M]{Vertex: t.Vertex, Key: t.Key, Step: t.Step, Outcome: t.Outcome, Fixed: t.Fixed, Sends: t.Sends, Inside: t.Inside}
		if to.Update, err = update(t.Update); err == nil && t.Fixed != "" {
			to.Fix, err = update(t.Fix)
		}
		if err != nil {
			return out, err
		}
		out.Early = append(out.Early, to)
	}
	return out, nil
}

func (m *Machine[S, U, M]) early(c *cell[U, M]) earlyTask[U, M] {
	name := func(v int) string { return m.prog.Vertices[v].Name }
	r := &c.result
	t := earlyTask[U, M]{Vertex: name(c.vertex), Key: c.key, Step: c.step, Outcome: r.Outcome, Update: r.Update, Inside: r.Inside}
	if r.Fix != nil {
		t.Fixed, t.Fix = name(r.Fix.Vertex), r.Fix.Update
	}
	for i := range r.Sends {
		x := &r.Sends[i]
		t.Sends = append(t.Sends, sentEarly[M]{name(x.To), x.Key, x.Msg, x.Bare})
	}
	return t
}

// Restore creates a machine from a snapshot. It fails if the snapshot names a vertex
// the program does not have.
func Restore[S, U, M any](prog *Program[S, U, M], s *Snapshot[S, U, M]) (*Machine[S, U, M], error) {
	r := restoring{index: make(map[string]int, len(prog.Vertices)), step: s.Step}
	for i, v := range prog.Vertices {
		r.index[v.Name] = i
	}
	m := empty(prog, s.State)
	m.step = s.Step
	for _, v := range s.Visits {
		if i := r.find(v.Vertex); v.Key == "" {
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
		m.completed[instance{r.find(v.Vertex), v.Key}] = true
	}
	for _, a := range s.Arrived {
		if m.rounds == nil {
			m.rounds = map[int]*round[M]{}
		}
		j := &round[M]{inbox: a.Inbox, fired: a.Fired}
		for _, name := range a.Sources {
			j.sources = append(j.sources, r.find(name))
		}
		slices.Sort(j.sources)
		m.rounds[r.find(a.Vertex)] = j
	}
	for _, w := range s.Frontier {
		i := m.wake(r.find(w.Vertex), w.Key)
		if i >= 0 {
			m.frontier.tasks[i].Inbox = w.Inbox
		}
	}
	if m.views != nil {
		if len(s.Initial) > 0 {
			m.views.initial = s.Initial[0]
		}
		for _, k := range s.Kept {
			i := r.find(k.Vertex)
			m.views.kept[i] = append(m.views.kept[i], kept[U]{k.Step, k.Index, !k.Fix, k.Update})
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	m.openStep()
	for i := range s.Early {
		if err := restoreEarly(m, &r, &s.Early[i]); err != nil {
			return nil, err
		}
	}
	return m, r.err
}

// restoring finds the vertices that a snapshot names.
type restoring struct {
	index map[string]int
	step  int
	err   error
}

func (r *restoring) find(name string) int {
	i, ok := r.index[name]
	if !ok && r.err == nil {
		r.err = fmt.Errorf("the snapshot of superstep %d has a vertex %q, which the graph no longer has", r.step, name)
	}
	return i
}

func restoreEarly[S, U, M any](m *Machine[S, U, M], r *restoring, t *earlyTask[U, M]) error {
	res := Result[U, M]{Outcome: t.Outcome, Update: t.Update, Inside: t.Inside}
	if t.Fixed != "" {
		res.Fix = &Fix[U]{r.find(t.Fixed), t.Fix}
	}
	for _, x := range t.Sends {
		res.Sends = append(res.Sends, Send[M]{r.find(x.To), x.Key, x.Msg, x.Bare})
	}
	v := r.find(t.Vertex)
	if r.err != nil {
		return r.err
	}
	if t.Step > m.step {
		return m.RecoverEarly(v, t.Key, t.Step, res)
	}
	for i := range m.tasks {
		if m.tasks[i].Vertex == v && m.tasks[i].Key == t.Key {
			return m.Recover(i, res)
		}
	}
	return fmt.Errorf("the snapshot of superstep %d has a result of %q, which that does not compute", m.step, t.Vertex)
}
