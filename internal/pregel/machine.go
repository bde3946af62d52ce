package pregel

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
)

// Vote is the state that a vertex chooses after computing.
type Vote uint8

// The votes of a vertex.
const (
	Halt     Vote = iota // sleep until a message comes
	Stay                 // compute in the next superstep too
	Complete             // never compute again; messages to it are dropped
)

// A Vertex is a node of the graph.
type Vertex struct {
	Name string
	// Need makes the vertex a join: it is woken once Need of its Sources have sent, each counted
	// once, over any number of supersteps. That is a round. Messages of further sources are dropped
	// until all have sent, or until one sends again, which begins the next round: every message of
	// that superstep belongs to the new round. If 0, the vertex is no join: any message wakes it,
	// and the messages of one superstep are one visit.
	Need    int
	Sources []int // of a join: the vertices it waits for, by index, sorted, distinct; what others send wakes it as ever
	// Reads are the vertices whose updates its tasks see: their state is the first state of the run
	// with only those updates folded in, up to the superstep before theirs. If nil, they see the
	// whole state. A task that reads little may start early, see Program.AllowEarly.
	Reads []int
	// Targets are all vertices it may ever send to, in any way. Only AllowEarly looks at them.
	Targets []int
	// Corrects are the vertices whose updates its results may amend, see Result.Fix.
	Corrects []int
}

// A Program is the fixed part of a run: what a machine is made from. It must not
// change once a machine has it, and any number of machines may share it.
type Program[S, U, M any] struct {
	Vertices []Vertex
	// Reduce folds an update into the state. It must be a pure function: it is called
	// in path order at every barrier, and again when a run is recovered.
	Reduce func(S, U) S
	// Fold is Reduce for the machine's own state, which it may change in place: what State returns is
	// then valid until the next Commit. If nil, Reduce is called.
	Fold func(S, U) S
	// Terminal ends the run as soon as it returns true for the state, whatever is still active. If
	// nil, it never does.
	Terminal func(S) bool
	// Branch returns a copy of a state that can be folded independently: the two must not share
	// memory that Reduce writes to, such as the spare capacity of a slice. It may be nil if Reduce
	// writes to no shared memory.
	Branch func(S) S
	// Check examines the results of a complete superstep before its commit, in path order. An error
	// ends the run there. If nil, nothing is checked.
	Check func(tasks []Task[M], results []Result[U, M]) error

	early *earlyPlan // who may start early, nil for nobody
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
	Index  int    // its place among the tasks of the step, which is its place in the fold; negative for one that starts early
	Inbox  []M    // in the order of the senders' places
}

// Outcome is how a task ended.
type Outcome uint8

// The outcomes of a task.
const (
	Done    Outcome = iota + 1 // its update and sends count
	Skipped                    // it failed and is skipped: its sends count, its update does not exist
	Caught                     // it failed and its sends say so to whoever takes care of that; otherwise as Skipped
	Failed                     // it failed for good: the step cannot commit
	Waiting                    // it waits for something outside; Wake makes it ready again
	Aborted                    // it was stopped before it ended; as if it had never started
)

// A Result is the result of a task.
type Result[U, M any] struct {
	Outcome Outcome
	Update  U
	Sends   []Send[M]
	Vote    Vote
	Err     error    // of Skipped, Caught, Failed and Aborted
	Fix     *Fix[U]  // folded before Update, nil for none
	Inside  []string // what was skipped inside of the task, for Machine.Skipped
	Note    any      // for the recorder; the machine does not look at it
}

// A Fix is an update made on behalf of another vertex. Readers of that vertex see it as one of that
// vertex's own updates.
type Fix[U any] struct {
	Vertex int // one that the task's own Corrects
	Update U
}

// A Machine is a run between decisions. It is not safe for concurrent use.
type Machine[S, U, M any] struct {
	prog  *Program[S, U, M]
	state S
	step  int

	tasks   []Task[M]
	results []Result[U, M] // by index; the zero outcome is open
	ready   []int          // tasks to be handed out again
	open    int            // tasks with no outcome, or Waiting
	failed  int
	doom    int   // the first superstep in which a task is known to have failed for good, -1 for none
	cut     []int // tasks that were stopped since then
	waiting int

	fresh     bool // Plan has not handed out the tasks of this step yet
	recovered bool // some of them have a result from before

	visits    []int32
	keyVisits map[instance]int32
	completed map[instance]bool
	rounds    map[int]*round[M] // of joins, by vertex
	arrived   []joining[M]      // what the commit under way has sent to joins

	frontier frontier[M]
	skipped  []string // of the last commit

	views *views[S, U]    // what vertices that read little see; nil if there are none
	ahead *ahead[S, U, M] // what starts before its superstep; nil if nothing does
}

// round is what a join has collected so far.
type round[M any] struct {
	sources []int // those that have sent, sorted
	inbox   []M
	fired   bool // enough have; it waits for the rest, to drop what they send
}

// joining is a message to a join.
type joining[M any] struct {
	from int
	send *Send[M]
}

type instance struct {
	vertex int
	key    string
}

// frontier collects the vertices that compute in the next superstep.
type frontier[M any] struct {
	tasks  []Task[M]
	at     []int32 // by vertex: the place of its own task in tasks, plus one
	keyAt  map[instance]int
	sorted bool
}

// New creates a machine in its first superstep. The entries are woken in the order given.
func New[S, U, M any](prog *Program[S, U, M], state S, entries ...Send[M]) *Machine[S, U, M] {
	m := empty(prog, state)
	for i := range entries {
		m.deliver(-1, &entries[i])
	}
	m.openStep()
	return m
}

func empty[S, U, M any](prog *Program[S, U, M], state S) *Machine[S, U, M] {
	m := &Machine[S, U, M]{prog: prog, state: state, visits: make([]int32, len(prog.Vertices)), doom: -1}
	m.frontier.at = make([]int32, len(prog.Vertices))
	m.frontier.sorted = true
	m.views = newViews(prog, state)
	if prog.early != nil && prog.Terminal == nil {
		m.ahead = newAhead(m)
	}
	return m
}

// State returns the state as of the last commit.
func (m *Machine[S, U, M]) State() S { return m.state }

// Step returns the superstep that is being computed, from 0. After the last commit it is
// the number of supersteps the run took.
func (m *Machine[S, U, M]) Step() int { return m.step }

// Ended reports whether no vertex is active any more.
func (m *Machine[S, U, M]) Ended() bool { return len(m.tasks) == 0 }

// Tasks returns all tasks of the current superstep, by index. The slice is the
// machine's own and valid until the next commit.
func (m *Machine[S, U, M]) Tasks() []Task[M] { return m.tasks }

// Outcome returns the outcome of the task at an index, or 0 if it is not known yet.
func (m *Machine[S, U, M]) Outcome(index int) Outcome { return m.results[index].Outcome }

// Result returns the result of the task of that index, as handed to Apply.
func (m *Machine[S, U, M]) Result(index int) *Result[U, M] { return &m.results[index] }

// Path returns the identity of a task.
func (m *Machine[S, U, M]) Path(t *Task[M]) string {
	return Path(m.prog.Vertices[t.Vertex].Name, t.Key, t.Visit)
}

// Plan returns the tasks that may start now, in path order, followed by those that start early.
// Once a task has failed for good, nothing of a superstep after its own starts early. Each task is
// returned once, and again after Wake. The slice is the machine's own and valid until
// the next call of Plan or Commit.
func (m *Machine[S, U, M]) Plan() []Task[M] {
	if m.fresh {
		m.fresh = false
		if m.ahead == nil && !m.recovered {
			return m.tasks
		}
		m.ready = m.ready[:0]
		for i := range m.results {
			if m.results[i].Outcome == 0 && (m.ahead == nil || m.ahead.take(i)) {
				m.ready = append(m.ready, i)
			}
		}
	}
	slices.Sort(m.ready)
	out := make([]Task[M], 0, len(m.ready))
	for _, x := range m.ready {
		out = append(out, m.tasks[x])
	}
	m.ready = m.ready[:0]
	if m.ahead != nil {
		out = append(out, m.ahead.plan()...)
	}
	return out
}

// Sees returns the input state of a task that Plan has returned.
func (m *Machine[S, U, M]) Sees(t *Task[M]) S {
	if m.views == nil || m.prog.Vertices[t.Vertex].Reads == nil {
		return m.state
	}
	if m.ahead != nil {
		return m.ahead.sees(t)
	}
	return m.views.sees(t.Vertex)
}

// Apply applies the result of a task of this superstep. It changes only that task; the state
// changes at Commit. A refused result changes nothing.
func (m *Machine[S, U, M]) Apply(index int, r Result[U, M]) error {
	if index < 0 && m.ahead != nil {
		var err error
		if index, err = m.ahead.apply(index, &r); err != nil || index < 0 {
			return err
		}
	}
	if index < 0 || index >= len(m.tasks) {
		return fmt.Errorf("superstep %d has no task %d", m.step, index)
	}
	old := m.results[index].Outcome
	if old != 0 && old != Waiting {
		return fmt.Errorf("task %s has a result already", m.Path(&m.tasks[index]))
	}
	if err := m.prog.takes(&r); err != nil {
		return fmt.Errorf("task %s: %w", m.Path(&m.tasks[index]), err)
	}
	if old == Waiting {
		m.waiting--
	}
	switch r.Outcome {
	case Failed:
		m.open--
		m.failed++
		m.fails(m.step)
	case Waiting:
		m.waiting++
	case Aborted:
		m.again(index, m.doom >= 0 && errors.Is(r.Err, ErrStopped))
		return nil
	default:
		m.open--
	}
	m.results[index] = r
	if m.ahead != nil {
		m.ahead.applied(index)
	}
	return nil
}

// takes reports what is wrong with a result.
func (p *Program[S, U, M]) takes(r *Result[U, M]) error {
	if r.Outcome < Done || r.Outcome > Aborted {
		return errors.New("a result needs an outcome")
	}
	for i := range r.Sends {
		if to := r.Sends[i].To; to < 0 || to >= len(p.Vertices) {
			return fmt.Errorf("it sends to vertex %d of %d", to, len(p.Vertices))
		}
	}
	if f := r.Fix; f != nil && (f.Vertex < 0 || f.Vertex >= len(p.Vertices)) {
		return fmt.Errorf("it fixes vertex %d of %d", f.Vertex, len(p.Vertices))
	}
	return nil
}

// Wake makes a waiting task ready again. It ignores other tasks.
func (m *Machine[S, U, M]) Wake(index int) {
	if index < 0 && m.ahead != nil {
		index = m.ahead.wake(index)
	}
	if index >= 0 && index < len(m.results) && m.results[index].Outcome == Waiting {
		m.waiting--
		m.again(index, false)
	}
}

// fails notes that a task of a superstep has failed for good.
func (m *Machine[S, U, M]) fails(step int) {
	if m.doom < 0 || step < m.doom {
		m.doom = step
	}
}

// again makes a task ready that was already started.
func (m *Machine[S, U, M]) again(index int, cut bool) {
	m.results[index] = Result[U, M]{}
	if cut { // it would be again
		m.cut = append(m.cut, index)
	} else {
		m.ready = append(m.ready, index)
	}
	if m.ahead != nil {
		m.ahead.current[index].started = false // it may be before the first Plan of the step
	}
}

// Recover gives a restored machine the recorded result of a task of the current superstep, so that
// Plan does not return it. Call it before the first Plan of the step.
func (m *Machine[S, U, M]) Recover(index int, r Result[U, M]) error {
	if !m.fresh {
		return fmt.Errorf("superstep %d has started already", m.step)
	}
	m.recovered = true
	return m.Apply(index, r)
}

// RecoverEarly is Recover for a task that had started early: one of a superstep that
// has not been opened yet.
func (m *Machine[S, U, M]) RecoverEarly(vertex int, key string, step int, r Result[U, M]) error {
	if vertex < 0 || vertex >= len(m.prog.Vertices) {
		return fmt.Errorf("there is no vertex %d", vertex)
	}
	if m.ahead == nil {
		return fmt.Errorf("%s has a result in superstep %d already, and nothing starts early", Path(m.prog.Vertices[vertex].Name, key, 0), step)
	}
	return m.ahead.recover(instance{vertex, key}, step, r)
}

// Complete reports whether every task of the superstep has ended well, so that Commit may be called.
func (m *Machine[S, U, M]) Complete() bool { return m.open == 0 && m.failed == 0 && len(m.tasks) > 0 }

// Failures returns the indexes of the tasks that failed for good, in path order.
func (m *Machine[S, U, M]) Failures() []int { return m.having(Failed, m.failed) }

// Waits returns the waiting tasks, in path order, followed by those that started early.
func (m *Machine[S, U, M]) Waits() []Task[M] {
	var out []Task[M]
	for _, i := range m.having(Waiting, m.waiting) {
		out = append(out, m.tasks[i])
	}
	if m.ahead != nil {
		out = append(out, m.ahead.waits()...)
	}
	return out
}

// Skipped returns, in path order, the paths of the tasks that the last commit skipped, and the
// paths that its tasks reported as skipped inside them. The slice is valid until the next commit.
func (m *Machine[S, U, M]) Skipped() []string { return m.skipped }

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

// Check runs the program's check on a superstep that is Complete. A driver calls it before Commit,
// and stops with its error.
func (m *Machine[S, U, M]) Check() error {
	if m.prog.Check == nil {
		return nil
	}
	return m.prog.Check(m.tasks, m.results)
}

// Commit closes the superstep: it folds the updates and routes the messages in path
// order, and opens the next one. It panics if the step is not Complete.
func (m *Machine[S, U, M]) Commit() {
	if !m.Complete() {
		panic("pregel: commit of a superstep that is not complete")
	}
	m.fold()
	m.route()
	m.step++
	m.openStep()
}

// fold puts the updates of the superstep into the state.
func (m *Machine[S, U, M]) fold() {
	m.skipped = m.skipped[:0]
	at := 0
	defer func() {
		if v := recover(); v != nil {
			panic(&PanicError{Value: v, Stack: debug.Stack(), During: "the reducer failed on the update of node " + m.Path(&m.tasks[at])})
		}
	}()
	for i := range m.tasks {
		t, r := &m.tasks[i], &m.results[i]
		at = i
		switch r.Outcome {
		case Done:
			m.skipped = append(m.skipped, r.Inside...)
			m.add(r)
			if m.views != nil {
				m.views.keep(t.Vertex, t.Step, t.Index, r.Fix, r.Update)
			}
		case Skipped:
			m.skipped = append(m.skipped, m.Path(t))
		}
	}
}

// add puts the updates of a result into the state.
func (m *Machine[S, U, M]) add(r *Result[U, M]) {
	fold := m.prog.Fold
	if fold == nil {
		fold = m.prog.Reduce
	}
	if r.Fix != nil {
		m.state = fold(m.state, r.Fix.Update)
	}
	m.state = fold(m.state, r.Update)
}

// Known returns the state with all results folded in that are known, also those of the superstep
// under way and of tasks that started early. The machine must be discarded after that.
func (m *Machine[S, U, M]) Known() S {
	for i := range m.results {
		if m.results[i].Outcome == Done {
			m.add(&m.results[i])
		}
	}
	if m.ahead != nil {
		for _, c := range m.ahead.done() {
			if c.index < 0 && c.result.Outcome == Done {
				m.add(&c.result)
			}
		}
	}
	return m.state
}

// route delivers the messages of the superstep.
func (m *Machine[S, U, M]) route() {
	sends := 0
	for i := range m.tasks {
		r := &m.results[i]
		sends += len(r.Sends)
		if r.Vote == Complete { // before any message of the step is delivered
			if m.completed == nil {
				m.completed = map[instance]bool{}
			}
			m.completed[instance{m.tasks[i].Vertex, m.tasks[i].Key}] = true
		}
	}
	if sends > 8 { // a wide step: room for it at once
		m.frontier.tasks = slices.Grow(m.frontier.tasks, min(sends, len(m.prog.Vertices)))
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
	m.fire()
}

// deliver delivers a message to its vertex for the next superstep.
func (m *Machine[S, U, M]) deliver(from int, s *Send[M]) {
	if m.prog.joins(from, s.To, s.Key) {
		m.arrived = append(m.arrived, joining[M]{from, s})
		return
	}
	if i := m.wake(s.To, s.Key); i >= 0 && !s.Bare {
		t := &m.frontier.tasks[i]
		t.Inbox = append(t.Inbox, s.Msg)
	}
}

// joins reports whether a message counts towards a join, rather than to wake its vertex.
func (p *Program[S, U, M]) joins(from, to int, key string) bool {
	v := &p.Vertices[to]
	if v.Need == 0 || key != "" || from < 0 {
		return false
	}
	_, found := slices.BinarySearch(v.Sources, from)
	return found
}

// fire counts the sources of the joins that received messages, and wakes the joins that have
// enough.
func (m *Machine[S, U, M]) fire() {
	slices.SortStableFunc(m.arrived, func(a, b joining[M]) int { return a.send.To - b.send.To })
	for rest := m.arrived; len(rest) > 0; {
		to := rest[0].send.To
		n := 1
		for n < len(rest) && rest[n].send.To == to {
			n++
		}
		m.join(to, rest[:n])
		rest = rest[n:]
	}
	clear(m.arrived)
	m.arrived = m.arrived[:0]
}

// join adds the messages that one superstep has sent to a join. All of them belong to one round.
func (m *Machine[S, U, M]) join(to int, arrived []joining[M]) {
	v, r := &m.prog.Vertices[to], m.rounds[to]
	again := func(x joining[M]) bool { _, sent := slices.BinarySearch(r.sources, x.from); return sent }
	if r == nil || r.fired && slices.ContainsFunc(arrived, again) {
		r = &round[M]{sources: make([]int, 0, len(v.Sources))}
		if m.rounds == nil {
			m.rounds = map[int]*round[M]{}
		}
		m.rounds[to] = r
	}
	for _, x := range arrived {
		if i, sent := slices.BinarySearch(r.sources, x.from); !sent {
			r.sources = slices.Insert(r.sources, i, x.from)
		}
		if !x.send.Bare && !r.fired {
			r.inbox = append(r.inbox, x.send.Msg)
		}
	}
	if !r.fired && len(r.sources) >= v.Need {
		r.fired = true
		if i := m.wake(to, ""); i >= 0 {
			t := &m.frontier.tasks[i]
			t.Inbox = append(t.Inbox, r.inbox...)
		}
		r.inbox = nil
	}
	if len(r.sources) == len(v.Sources) {
		delete(m.rounds, to)
	}
}

// wake activates an instance in the next superstep and returns its place there, or
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

// openStep turns the frontier into the current superstep.
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
	if m.ahead != nil {
		m.ahead.open()
	}
}

// visit counts a computation of an instance and returns the number of earlier ones.
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

// Stalled returns the joins that some but not enough sources have reached, by vertex, with the
// missing sources. Once the run has Ended they can never fire.
func (m *Machine[S, U, M]) Stalled() map[int][]int {
	var out map[int][]int
	for to, r := range m.rounds {
		if r.fired {
			continue
		}
		if out == nil {
			out = map[int][]int{}
		}
		for _, s := range m.prog.Vertices[to].Sources {
			if !slices.Contains(r.sources, s) {
				out[to] = append(out[to], s)
			}
		}
	}
	return out
}
