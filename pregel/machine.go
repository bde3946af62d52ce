package pregel

import (
	"fmt"
	"slices"
)

// Vote is what a vertex wants to be after it computed.
type Vote uint8

// The votes of a vertex.
const (
	Halt     Vote = iota // sleep until a message comes
	Stay                 // compute in the next superstep too
	Complete             // never compute again; messages to it are dropped
)

// Join says what wakes a vertex that several others send to.
type Join uint8

// The joins of a vertex.
const (
	Any Join = iota // any message; those of one superstep are one visit
	All             // a message from every one of its sources, over however many supersteps
)

// A Vertex is a place in the graph.
type Vertex struct {
	Name    string
	Join    Join
	Sources []int // of an All join: the vertices it waits for, by index, distinct
}

// A Program is the fixed part of a run: what a machine is made from. It must not
// change once a machine has it, and any number of machines may share it.
type Program[S, U any] struct {
	Vertices []Vertex
	// Reduce folds an update into the state. It must be a pure function: it is called
	// in path order at every barrier, and again when a run is recovered.
	Reduce func(S, U) S
	// Terminal ends the run as soon as it holds for the state, whatever is still
	// active. Nil means never.
	Terminal func(S) bool
}

// A Send is a message to a vertex.
type Send[M any] struct {
	To   int    // the vertex, by index
	Key  string // the instance, "" for the vertex itself
	Msg  M
	Bare bool // it only wakes the vertex: Msg is not put into the inbox
}

// A Task is one computation of one vertex.
type Task[M any] struct {
	Vertex int    // by index into Program.Vertices
	Key    string // the instance, "" for the vertex itself
	Visit  int    // how often this instance has computed before, in this run
	Step   int    // the superstep, from 0
	Index  int    // its place among the tasks of the step, which is its place in the fold
	Inbox  []M    // in the order of the senders' places
}

// Outcome is how a task ended.
type Outcome uint8

// The outcomes of a task.
const (
	Done    Outcome = iota + 1 // its update and sends count
	Skipped                    // it failed and is passed over: its sends count, its update does not exist
	Failed                     // it failed for good: the step cannot commit
	Waiting                    // it waits for something outside; Wake makes it ready again
	Aborted                    // it was stopped before it ended; as if it had never started
)

// A Result is what became of a task.
type Result[U, M any] struct {
	Outcome Outcome
	Update  U
	Sends   []Send[M]
	Vote    Vote
	Err     error // of Skipped, Failed and Aborted
	Note    any   // for the recorder; the machine does not look at it
}

// A Machine is a run between decisions. It is not safe for concurrent use.
type Machine[S, U, M any] struct {
	prog  *Program[S, U]
	state S
	step  int

	tasks   []Task[M]
	results []Result[U, M] // by index; the zero outcome is open
	ready   []int          // tasks to be handed out again
	open    int            // tasks with no outcome, or Waiting
	failed  int
	waiting int

	fresh     bool // Plan has not handed out the tasks of this step yet
	recovered bool // some of them have a result from before

	visits    []int32
	keyVisits map[instance]int32
	completed map[instance]bool
	arrived   map[int][]int // of All joins: the sources that have sent, sorted

	frontier frontier[M]
}

type instance struct {
	vertex int
	key    string
}

// frontier collects who computes in the next superstep.
type frontier[M any] struct {
	tasks  []Task[M]
	at     []int32 // by vertex: the place of its own task in tasks, plus one
	keyAt  map[instance]int
	sorted bool
}

// New makes a machine in its first superstep. The entries are woken in the order given.
func New[S, U, M any](prog *Program[S, U], state S, entries ...Send[M]) *Machine[S, U, M] {
	m := &Machine[S, U, M]{prog: prog, state: state, visits: make([]int32, len(prog.Vertices))}
	m.frontier.at = make([]int32, len(prog.Vertices))
	m.frontier.sorted = true
	for i := range entries {
		m.deliver(-1, &entries[i])
	}
	m.openStep()
	return m
}

// State is the state as of the last commit.
func (m *Machine[S, U, M]) State() S { return m.state }

// Step is the superstep that is being computed, from 0. After the last commit it is
// the number of supersteps the run took.
func (m *Machine[S, U, M]) Step() int { return m.step }

// Ended reports whether no vertex is active any more.
func (m *Machine[S, U, M]) Ended() bool { return len(m.tasks) == 0 }

// Tasks are all tasks of the current superstep, by index. The slice is the
// machine's own and valid until the next commit.
func (m *Machine[S, U, M]) Tasks() []Task[M] { return m.tasks }

// Outcome is what is known of the task of that index, 0 if nothing.
func (m *Machine[S, U, M]) Outcome(index int) Outcome { return m.results[index].Outcome }

// Result is the result of the task of that index, as handed to Apply.
func (m *Machine[S, U, M]) Result(index int) *Result[U, M] { return &m.results[index] }

// Path is the identity of a task.
func (m *Machine[S, U, M]) Path(t *Task[M]) string {
	return Path(m.prog.Vertices[t.Vertex].Name, t.Key, t.Visit)
}

// Plan hands out the tasks that may start now, in path order. A task is handed out
// once, and again after Wake. The slice is the machine's own and valid until the
// next call of Plan or Commit.
func (m *Machine[S, U, M]) Plan() []Task[M] {
	if m.fresh {
		m.fresh = false
		if !m.recovered {
			return m.tasks
		}
		m.ready = m.ready[:0]
		for i := range m.results {
			if m.results[i].Outcome == 0 {
				m.ready = append(m.ready, i)
			}
		}
	}
	if len(m.ready) == 0 {
		return nil
	}
	slices.Sort(m.ready)
	out := make([]Task[M], len(m.ready))
	for i, x := range m.ready {
		out[i] = m.tasks[x]
	}
	m.ready = m.ready[:0]
	return out
}

// Apply takes the result of a task of this superstep. It changes nothing but what is
// known of that task; the state moves at Commit.
func (m *Machine[S, U, M]) Apply(index int, r Result[U, M]) error {
	if index < 0 || index >= len(m.tasks) {
		return fmt.Errorf("superstep %d has no task %d", m.step, index)
	}
	switch old := m.results[index].Outcome; {
	case old == Waiting:
		m.waiting--
	case old != 0:
		return fmt.Errorf("task %s has a result already", m.Path(&m.tasks[index]))
	}
	switch r.Outcome {
	case Done, Skipped:
		m.open--
	case Failed:
		m.open--
		m.failed++
	case Waiting:
		m.waiting++
	case Aborted:
		m.results[index] = Result[U, M]{}
		m.ready = append(m.ready, index)
		return nil
	default:
		return fmt.Errorf("task %s: a result needs an outcome", m.Path(&m.tasks[index]))
	}
	m.results[index] = r
	return nil
}

// Wake makes a waiting task ready again.
func (m *Machine[S, U, M]) Wake(index int) {
	if m.results[index].Outcome == Waiting {
		m.waiting--
		m.results[index] = Result[U, M]{}
		m.ready = append(m.ready, index)
	}
}

// Recover tells a machine that was restored what became of a task of the current
// superstep before: Plan will not hand it out. It must come before the first Plan of the step.
func (m *Machine[S, U, M]) Recover(index int, r Result[U, M]) error {
	if !m.fresh {
		return fmt.Errorf("superstep %d has started already", m.step)
	}
	m.recovered = true
	return m.Apply(index, r)
}

// Complete reports whether every task of the superstep has ended well, so that Commit may be called.
func (m *Machine[S, U, M]) Complete() bool { return m.open == 0 && m.failed == 0 && len(m.tasks) > 0 }

// Failures are the indexes of the tasks that failed for good, in path order.
func (m *Machine[S, U, M]) Failures() []int { return m.having(Failed, m.failed) }

// Waits are the indexes of the waiting tasks, in path order.
func (m *Machine[S, U, M]) Waits() []int { return m.having(Waiting, m.waiting) }

func (m *Machine[S, U, M]) having(o Outcome, n int) []int {
	if n == 0 {
		return nil
	}
	out := make([]int, 0, n)
	for i := range m.results {
		if m.results[i].Outcome == o {
			out = append(out, i)
		}
	}
	return out
}

// Commit closes the superstep: it folds the updates and routes the messages in path
// order, and opens the next one. It panics if the step is not Complete.
func (m *Machine[S, U, M]) Commit() {
	if !m.Complete() {
		panic("pregel: commit of a superstep that is not complete")
	}
	for i := range m.tasks {
		r := &m.results[i]
		if r.Outcome == Done {
			m.state = m.prog.Reduce(m.state, r.Update)
		}
		if r.Vote == Complete { // before any message of the step is delivered
			if m.completed == nil {
				m.completed = map[instance]bool{}
			}
			m.completed[instance{m.tasks[i].Vertex, m.tasks[i].Key}] = true
		}
	}
	for i := range m.tasks {
		t, r := &m.tasks[i], &m.results[i]
		for j := range r.Sends {
			m.deliver(t.Vertex, &r.Sends[j])
		}
		if r.Vote == Stay {
			m.wake(t.Vertex, t.Key)
		}
	}
	m.step++
	m.openStep()
}

// deliver puts a message where its vertex finds it in the next superstep.
func (m *Machine[S, U, M]) deliver(from int, s *Send[M]) {
	if m.prog.Vertices[s.To].Join == All && s.Key == "" && from >= 0 && !m.arrive(s.To, from) {
		return
	}
	if i := m.wake(s.To, s.Key); i >= 0 && !s.Bare {
		t := &m.frontier.tasks[i]
		t.Inbox = append(t.Inbox, s.Msg)
	}
}

// arrive counts a source of an All join and reports whether it was the last one.
func (m *Machine[S, U, M]) arrive(to, from int) bool {
	if m.arrived == nil {
		m.arrived = map[int][]int{}
	}
	got := m.arrived[to]
	i, found := slices.BinarySearch(got, from)
	if !found {
		got = slices.Insert(got, i, from)
	}
	if len(got) < len(m.prog.Vertices[to].Sources) {
		m.arrived[to] = got
		return false
	}
	delete(m.arrived, to)
	return true
}

// wake makes an instance active in the next superstep and gives its place there, or
// -1 if it has completed.
func (m *Machine[S, U, M]) wake(vertex int, key string) int {
	f := &m.frontier
	id := instance{vertex, key}
	if m.completed != nil && m.completed[id] {
		return -1
	}
	if key == "" {
		if at := f.at[vertex]; at > 0 {
			return int(at) - 1
		}
	} else if at, ok := f.keyAt[id]; ok {
		return at
	}
	n := len(f.tasks)
	if n > 0 && f.tasks[n-1].Vertex > vertex {
		f.sorted = false
	}
	f.tasks = append(f.tasks, Task[M]{Vertex: vertex, Key: key})
	if key == "" {
		f.at[vertex] = int32(n) + 1
	} else {
		if f.keyAt == nil {
			f.keyAt = map[instance]int{}
		}
		f.keyAt[id] = n
	}
	return n
}

// openStep makes the frontier the current superstep.
func (m *Machine[S, U, M]) openStep() {
	f := &m.frontier
	for i := range f.tasks {
		if t := &f.tasks[i]; t.Key == "" {
			f.at[t.Vertex] = 0
		}
	}
	clear(f.keyAt)
	if m.prog.Terminal != nil && m.prog.Terminal(m.state) {
		f.tasks = f.tasks[:0]
	}
	if !f.sorted {
		slices.SortStableFunc(f.tasks, func(a, b Task[M]) int { return a.Vertex - b.Vertex })
		f.sorted = true
	}
	// The two task slices take turns, so that a long run allocates none.
	old := m.tasks
	m.tasks = f.tasks
	clear(old)
	f.tasks = old[:0]
	for i := range m.tasks {
		t := &m.tasks[i]
		t.Step, t.Index, t.Visit = m.step, i, m.visit(t.Vertex, t.Key)
	}
	clear(m.results)
	m.results = slices.Grow(m.results[:0], len(m.tasks))[:len(m.tasks)]
	m.ready, m.fresh, m.recovered = m.ready[:0], true, false
	m.open, m.failed, m.waiting = len(m.tasks), 0, 0
}

// visit counts a computation of an instance and gives how many came before it.
func (m *Machine[S, U, M]) visit(vertex int, key string) int {
	if key == "" {
		m.visits[vertex]++
		return int(m.visits[vertex]) - 1
	}
	if m.keyVisits == nil {
		m.keyVisits = map[instance]int32{}
	}
	id := instance{vertex, key}
	n := m.keyVisits[id]
	m.keyVisits[id] = n + 1
	return int(n)
}

// Stalled are the All joins that some sources have reached and others have not, by
// vertex, with the sources that are missing. Once the run has Ended they can never fire.
func (m *Machine[S, U, M]) Stalled() map[int][]int {
	if len(m.arrived) == 0 {
		return nil
	}
	out := make(map[int][]int, len(m.arrived))
	for to, got := range m.arrived {
		for _, s := range m.prog.Vertices[to].Sources {
			if !slices.Contains(got, s) {
				out[to] = append(out[to], s)
			}
		}
	}
	return out
}
