package pregel

import (
	"fmt"
	"math/bits"
	"slices"
)

// ahead is the part of a machine that lets tasks start before their superstep. It follows the known
// results into later supersteps, and computes tasks whose inputs are all final. The superstep of
// such a task is opened as usual; the machine then finds the result, or a task that is still
// running. So what a run computes does not depend on any of this.
type ahead[S, U, M any] struct {
	m       *Machine[S, U, M]
	plans   *earlyPlan
	cells   map[cellID]*cell[U, M] // of the current superstep and of those to come
	current []*cell[U, M]          // of the current superstep, by index
	of      [][]*cell[U, M]        // by vertex
	maybes  []*cell[U, M]          // joins of which nobody can tell yet whether they fire
	waiting []*cell[U, M]          // may start early and have not
	out     []*cell[U, M]          // have started early; the task's Index is -1-place
	joins   map[int]*gathering[U, M]
	live    vertices // vertices with an unfinished cell
	count   []int32  // of unfinished cells, by vertex
	limit   int      // supersteps that may be computed, 0 for any number
	off     bool     // something cannot be foretold any more: nothing else starts early
}

type cellID struct {
	instance
	step int
}

// cell is a task, known as soon as something leads to it.
type cell[U, M any] struct {
	cellID
	from    []arrival[U, M] // of a superstep to come
	joined  bool            // it is a join that has fired: it comes after those that one sender wakes
	maybe   bool            // a join of which nobody can tell yet whether it fires
	started bool
	index   int // in its superstep, -1 before that is opened
	place   int // in out, -1 for none
	visit   int // of one that has started early
	blocker int // a vertex that was in its way when it was looked at last
	result  Result[U, M]
}

// arrival is a message on its way.
type arrival[U, M any] struct {
	from *cell[U, M]
	n    int // which of its sends
	msg  M
	bare bool
}

// gathering is what a join has collected so far, including results of later supersteps.
type gathering[U, M any] struct {
	sources map[int]int // to the superstep it sent in
	from    []arrival[U, M]
	last    int
	blind   bool // a source sent twice: who knows which round that is
}

func newAhead[S, U, M any](m *Machine[S, U, M]) *ahead[S, U, M] {
	n := len(m.prog.Vertices)
	return &ahead[S, U, M]{
		m: m, plans: m.prog.early, cells: map[cellID]*cell[U, M]{}, of: make([][]*cell[U, M], n),
		joins: map[int]*gathering[U, M]{}, live: make(vertices, (n+63)/64), count: make([]int32, n),
	}
}

// open begins a superstep that the machine has opened.
func (a *ahead[S, U, M]) open() {
	for _, c := range a.current {
		a.drop(c)
	}
	a.current = slices.Grow(a.current[:0], len(a.m.tasks))[:len(a.m.tasks)]
	for i := range a.m.tasks {
		t := &a.m.tasks[i]
		id := cellID{instance{t.Vertex, t.Key}, t.Step}
		c := a.cells[id]
		if c == nil {
			c = a.add(id)
		}
		a.current[i] = c
		c.index, c.from = i, nil
		if c.joined || c.maybe {
			delete(a.joins, t.Vertex)
		}
		if c.place >= 0 && c.visit != t.Visit {
			panic(fmt.Sprintf("pregel: %s started early as visit %d", a.m.Path(t), c.visit))
		}
		switch c.result.Outcome {
		case 0:
			continue
		case Waiting:
			a.m.waiting++
		case Failed:
			a.m.open--
			a.m.failed++
		default:
			a.m.open--
		}
		a.m.results[i] = c.result
	}
	a.maybes = slices.DeleteFunc(a.maybes, func(c *cell[U, M]) bool {
		if c.step > a.m.step {
			return false
		}
		if c.index < 0 { // it has not fired after all
			a.settled(c)
			a.drop(c)
		}
		return true
	})
}

func (a *ahead[S, U, M]) add(id cellID) *cell[U, M] {
	c := &cell[U, M]{cellID: id, index: -1, place: -1, blocker: -1}
	a.cells[id] = c
	a.of[id.vertex] = append(a.of[id.vertex], c)
	a.count[id.vertex]++
	a.live.set(id.vertex)
	return c
}

// settled removes a cell from those that may still send messages.
func (a *ahead[S, U, M]) settled(c *cell[U, M]) {
	if a.count[c.vertex]--; a.count[c.vertex] == 0 {
		a.live.clear(c.vertex)
	}
}

func (a *ahead[S, U, M]) drop(c *cell[U, M]) {
	delete(a.cells, c.cellID)
	of := a.of[c.vertex]
	if of[0] == c {
		a.of[c.vertex] = of[1:] // the usual case: they are there in the order of steps
	} else {
		a.of[c.vertex] = slices.DeleteFunc(of, func(o *cell[U, M]) bool { return o == c })
	}
	if c.place >= 0 {
		a.out[c.place] = nil
		for len(a.out) > 0 && a.out[len(a.out)-1] == nil {
			a.out = a.out[:len(a.out)-1]
		}
	}
}

// take returns a task of the current superstep for execution, unless it has started.
func (a *ahead[S, U, M]) take(index int) bool {
	c := a.current[index]
	taken := c.started
	c.started = true
	return !taken
}

// applied follows the result of a task of the current superstep.
func (a *ahead[S, U, M]) applied(index int) {
	c, r := a.current[index], &a.m.results[index]
	c.started = true
	c.result = *r
	a.follow(c)
}

// follow delivers what a result sends into the supersteps to come.
func (a *ahead[S, U, M]) follow(c *cell[U, M]) {
	switch c.result.Outcome {
	case Done, Skipped, Caught:
	default:
		return
	}
	for i := range c.result.Sends {
		s := &c.result.Sends[i]
		a.arrive(instance{s.To, s.Key}, arrival[U, M]{c, i, s.Msg, s.Bare})
	}
	switch c.result.Vote {
	case Stay:
		a.arrive(c.instance, arrival[U, M]{from: c, n: len(c.result.Sends), bare: true})
	case Complete:
		a.off = true
	}
	a.settled(c)
}

func (a *ahead[S, U, M]) arrive(to instance, r arrival[U, M]) {
	id := cellID{to, r.from.step + 1}
	if r.n < len(r.from.result.Sends) && a.m.prog.joins(r.from.vertex, to.vertex, to.key) {
		a.gather(id, r)
		return
	}
	c := a.cells[id]
	if c == nil {
		c = a.add(id)
		a.consider(c)
	}
	c.from = append(c.from, r)
}

func (a *ahead[S, U, M]) consider(c *cell[U, M]) {
	if a.plans.may[c.vertex] {
		a.waiting = append(a.waiting, c)
	}
}

// gather is arrive for a join.
func (a *ahead[S, U, M]) gather(id cellID, r arrival[U, M]) {
	g := a.joins[id.vertex]
	if g == nil {
		g = &gathering[U, M]{sources: map[int]int{}, blind: a.plans.blind[id.vertex]}
		if had := a.m.rounds[id.vertex]; had != nil {
			for _, s := range had.sources {
				g.sources[s] = a.m.step - 1
			}
		}
		a.joins[id.vertex] = g
	}
	if step, again := g.sources[r.from.vertex]; again && step != r.from.step {
		g.blind = true
	}
	g.sources[r.from.vertex] = r.from.step
	g.from = append(g.from, r)
	g.last = max(g.last, r.from.step)
	id.step = g.last + 1
	switch {
	case g.blind:
		if a.cells[id] == nil {
			c := a.add(id)
			c.maybe = true
			a.maybes = append(a.maybes, c)
		}
	case len(g.sources) == len(a.m.prog.Vertices[id.vertex].Sources):
		c := a.cells[id]
		if c == nil {
			c = a.add(id)
			c.joined = true
			a.consider(c)
		}
		c.from = g.from
	}
}

// plan returns the tasks that may start early now, by superstep and vertex.
func (a *ahead[S, U, M]) plan() []Task[M] {
	if a.off || len(a.waiting) == 0 {
		return nil
	}
	limit := a.limit
	if doom := a.m.doom; doom >= 0 && (limit <= 0 || doom < limit) {
		limit = doom + 1
	}
	var free []*cell[U, M]
	n := 0
	for _, c := range a.waiting {
		switch {
		case c.index >= 0 || c.started: // its superstep has come
		case limit > 0 && c.step >= limit, a.blocked(c):
			a.waiting[n] = c
			n++
		default:
			free = append(free, c)
		}
	}
	clear(a.waiting[n:])
	a.waiting = a.waiting[:n]
	slices.SortFunc(free, compareCells)
	out := make([]Task[M], len(free))
	for i, c := range free {
		out[i] = a.start(c)
	}
	return out
}

// blocked reports whether an unfinished task could still change what a cell is given.
func (a *ahead[S, U, M]) blocked(c *cell[U, M]) bool {
	if g := a.joins[c.vertex]; g != nil && g.blind {
		return true
	}
	if c.blocker >= 0 && a.live.has(c.blocker) && c.blocker != c.vertex {
		return true
	}
	for i, w := range a.plans.blockers[c.vertex] {
		w &= a.live[i]
		for w != 0 {
			v := i*64 + bits.TrailingZeros64(w)
			if v != c.vertex || a.count[v] > 1 {
				c.blocker = v
				return true
			}
			w &= w - 1
		}
	}
	return false
}

func (a *ahead[S, U, M]) start(c *cell[U, M]) Task[M] {
	c.started = true
	if c.place < 0 {
		c.place = len(a.out)
		a.out = append(a.out, c)
		c.visit = a.visits(c)
	}
	return a.task(c)
}

// visits returns how often the instance of a cell computes before it.
func (a *ahead[S, U, M]) visits(c *cell[U, M]) int {
	n := int(a.m.visits[c.vertex])
	if c.key != "" {
		n = int(a.m.keyVisits[c.instance])
	}
	for _, o := range a.of[c.vertex] {
		if o.key == c.key && o.step < c.step && o.step > a.m.step {
			n++
		}
	}
	return n
}

func (a *ahead[S, U, M]) task(c *cell[U, M]) Task[M] {
	t := Task[M]{Vertex: c.vertex, Key: c.key, Visit: c.visit, Step: c.step, Index: -1 - c.place}
	if r := a.m.rounds[c.vertex]; c.joined && r != nil {
		t.Inbox = append(t.Inbox, r.inbox...)
	}
	slices.SortFunc(c.from, func(x, y arrival[U, M]) int { return compareArrivals(&x, &y) })
	for i := range c.from {
		if r := &c.from[i]; !r.bare && r.from.step >= a.m.step {
			t.Inbox = append(t.Inbox, r.msg)
		}
	}
	return t
}

// sees returns the state of a task: the committed updates, and those that are certain to be
// committed.
func (a *ahead[S, U, M]) sees(t *Task[M]) S {
	views := a.m.views
	state := views.sees(t.Vertex)
	if t.Index >= 0 {
		return state
	}
	var known []*cell[U, M]
	reads := a.m.prog.Vertices[t.Vertex].Reads
	for _, v := range a.plans.feeds[t.Vertex] {
		for _, c := range a.of[v] {
			if c.step < t.Step && c.result.Outcome == Done {
				known = append(known, c)
			}
		}
	}
	if len(known) == 0 {
		return state
	}
	slices.SortFunc(known, compareCells)
	state = views.apart(state)
	for _, c := range known {
		if f := c.result.Fix; f != nil && slices.Contains(reads, f.Vertex) {
			state = views.reduce(state, f.Update)
		}
		if slices.Contains(reads, c.vertex) {
			state = views.reduce(state, c.result.Update)
		}
	}
	return state
}

// apply applies the result of a task that started early. It returns the task's index if its
// superstep has been opened meanwhile, and otherwise -1.
func (a *ahead[S, U, M]) apply(index int, r *Result[U, M]) (int, error) {
	place := -1 - index
	if place >= len(a.out) || a.out[place] == nil {
		return -1, fmt.Errorf("no task %d has started early", index)
	}
	c := a.out[place]
	switch {
	case c.index >= 0:
		return c.index, nil
	case c.result.Outcome != 0:
		return -1, fmt.Errorf("task %s has a result already", a.path(c))
	}
	if err := a.m.prog.takes(r); err != nil {
		return -1, fmt.Errorf("task %s: %w", a.path(c), err)
	}
	if r.Outcome == Aborted {
		a.again(c)
		return -1, nil
	}
	c.result = *r
	if r.Outcome == Failed {
		a.m.fails(c.step)
	}
	a.follow(c)
	return -1, nil
}

// failures returns the tasks of the first superstep to come that has failures, in path order.
func (a *ahead[S, U, M]) failures() (out []*cell[U, M]) {
	for _, c := range a.out {
		if c != nil && c.result.Outcome == Failed && c.step == a.m.doom {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, compareCells)
	return out
}

func (a *ahead[S, U, M]) again(c *cell[U, M]) {
	c.started, c.result = false, Result[U, M]{}
	a.waiting = append(a.waiting, c)
}

func (a *ahead[S, U, M]) path(c *cell[U, M]) string {
	return Path(a.m.prog.Vertices[c.vertex].Name, c.key, c.visit)
}

// wake makes a waiting task that started early ready again. It returns the task's index if its
// superstep has been opened meanwhile, and otherwise -1.
func (a *ahead[S, U, M]) wake(index int) int {
	place := -1 - index
	if place >= len(a.out) || a.out[place] == nil {
		return -1
	}
	c := a.out[place]
	if c.index < 0 && c.result.Outcome == Waiting {
		a.again(c)
	}
	return c.index
}

func (a *ahead[S, U, M]) waits() []Task[M] {
	var out []Task[M]
	for _, c := range a.out {
		if c != nil && c.index < 0 && c.result.Outcome == Waiting {
			out = append(out, a.task(c))
		}
	}
	return out
}

// recover restores the result of a task that had started early.
func (a *ahead[S, U, M]) recover(id instance, step int, r Result[U, M]) error {
	c := a.cells[cellID{id, step}]
	if err := a.m.prog.takes(&r); err != nil {
		return fmt.Errorf("task %s: %w", Path(a.m.prog.Vertices[id.vertex].Name, id.key, 0), err)
	}
	if c == nil || c.index >= 0 || c.started {
		return fmt.Errorf("%s has a result in superstep %d, to which nothing leads", Path(a.m.prog.Vertices[id.vertex].Name, id.key, 0), step)
	}
	a.start(c)
	c.result = r
	a.follow(c)
	return nil
}

// done returns the tasks of later supersteps, or of the one just opened, that already have a
// result.
func (a *ahead[S, U, M]) done() []*cell[U, M] {
	var out []*cell[U, M]
	for _, c := range a.out {
		if c != nil && (c.result.Outcome == Done || c.result.Outcome == Skipped || c.result.Outcome == Caught) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, compareCells)
	return out
}

// compareCells puts cells in the order in which their results are folded.
func compareCells[U, M any](a, b *cell[U, M]) int {
	switch {
	case a == b:
		return 0
	case a.step != b.step:
		return a.step - b.step
	case a.index >= 0 && b.index >= 0:
		return a.index - b.index
	case a.vertex != b.vertex:
		return a.vertex - b.vertex
	case a.joined != b.joined:
		if b.joined {
			return -1
		}
		return 1
	}
	return compareArrivals(first(a.from), first(b.from))
}

func first[U, M any](from []arrival[U, M]) *arrival[U, M] {
	best := &from[0]
	for i := range from[1:] {
		if r := &from[i+1]; compareArrivals(r, best) < 0 {
			best = r
		}
	}
	return best
}

func compareArrivals[U, M any](a, b *arrival[U, M]) int {
	if a.from != b.from {
		return compareCells(a.from, b.from)
	}
	return a.n - b.n
}
