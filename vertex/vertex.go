// Package vertex runs data-parallel programs over large graphs: one function that every
// vertex computes in supersteps, with messages, aggregators and changes of the topology,
// over millions of vertices in dense arrays. A [Program] is the definition, a [Graph] its
// edges and a [Run] one computation, which can be saved and restored at a barrier.
//
// Package graph is for workflows, whose few tasks take their time and have identities.
package vertex

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// A Vote is the state that a vertex chooses after computing.
type Vote uint8

// The votes of a vertex.
const (
	Halt     Vote = iota // sleep until a message comes
	Stay                 // compute in the next superstep too
	Complete             // never compute again; messages to it are dropped
)

// A Retry describes how often and how soon a failed vertex is tried again. If nil, there is one
// attempt.
type Retry struct {
	Attempts int              // in all, the first included; defaults to 3
	Backoff  time.Duration    // before the second attempt; defaults to 500 ms, negative for none
	Factor   float64          // from one pause to the next; defaults to 2
	Max      time.Duration    // of a pause; defaults to 30 s
	Jitter   float64          // a pause is shortened by up to this part of it, 0 to 1; defaults to 0.1, negative for none
	If       func(error) bool // whether a failure is worth another attempt; defaults to always
}

// A StepLimitError reports that a run reached its limit of supersteps.
type StepLimitError struct {
	Limit    int
	Frontier []string // the labels of the vertices that would have computed next, at most ten
}

func (e *StepLimitError) Error() string { return (*pregel.StepLimitError)(e).Error() }

// A TimeoutError reports that a run or an attempt exceeded its time limit.
type TimeoutError struct {
	What  string // "the run" or "an attempt"
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return (&pregel.TimeoutError{What: e.What, After: e.After}).Error()
}

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// A PanicError reports that a function of the program panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A Program defines the computation of every vertex of a large graph, after the vertex API of
// Malewicz et al., "Pregel: a system for large-scale graph processing" (SIGMOD 2010). V is the
// value of a vertex, E of an edge (struct{} for none) and M of a message. It is a definition: any
// number of runs may share it.
//
// # Supersteps
//
// In a superstep every active vertex computes: it reads the messages sent to it in the superstep
// before, changes its value, sends messages and votes. It is active in the first superstep if it is
// an entry, and later if it voted [Stay] or received a message. [Halt] puts it to sleep until a
// message comes, [Complete] for good; messages to a completed vertex are dropped. The run ends when
// no vertex is active.
//
// # Determinism
//
// A run gives the same bits at every parallelism, with and without checkpoints, and
// after a restore, as long as Compute depends on nothing but what it is given. Messages
// reach a vertex in the order of their sources and, of one source, in the order sent.
// Combine folds them from the left in that order, what came by Send before
// what came by SendToNeighbors. Aggregators and changes of the topology have fixed
// orders of their own.
//
// # Memory and speed
//
// A run keeps a V and about a byte for every vertex, and with a Combine up to three Ms: the
// messages to it, what it says to its neighbours, and the next of either; two if the program
// only sends or only says. Nothing is kept per message then: each is folded into the one of its
// target during the superstep it is sent in, from buffers of bounded size. With no Combine
// there are 8 bytes more per vertex, and every message is kept until it is read, for a while
// twice and with its target.
//
// The cost of a superstep depends on its active vertices and their messages. When a large part of
// the graph says something to all of its neighbours (SendToNeighbors, with a Combine), it is not
// sent at all: in the next superstep every vertex gathers it from the sources of its edges, which
// several goroutines can do without meeting and in the same order as if it had been sent. That is
// the fastest way for a message to travel.
//
// # Failures
//
// A program with a Retry or a Timeout is one whose vertices may fail. An attempt fails by
// [Context.Fail], by a panic, or by its context ending before it. Nothing of it stays: the
// next one finds the value and the messages as they were, and what the failed one sent, gave to
// aggregators and asked of the topology has never been. A superstep that does not finish, because
// a vertex has failed for good or the run was stopped, has never been either: [Run.Run] may
// be called again and computes it anew, with its attempts counted anew. So a snapshot needs to hold
// no attempts. This costs a second V and about a hundred nanoseconds for every vertex that
// computes, and such a program never gathers; one with neither pays nothing for it.
type Program[V, E, M any] struct {
	// Compute computes one vertex. value points at the vertex's own value. If the program has a Combine, in holds at most one message; the slice is valid
	// during the call. It is called from several goroutines at once, for different vertices.
	//
	// A panic in it ends the run with a *Error, unless it is tried again; one in Combine
	// with a *PanicError. All other functions but Copy and Retry.If are called on the goroutine of
	// Run. A Compute that waits for something should give up by [Context.Fail] once
	// [Context.Context] is done.
	Compute func(c *Context[V, E, M], v int32, value *V, in []M) Vote
	// Combine combines two messages to the same vertex into one. If nil, messages are not combined.
	Combine *Combiner[M]
	// Aggregators are those the program may use.
	Aggregators []AnyAggregator
	// Terminal, if non-nil, ends the run after a superstep if it returns true, even if vertices are
	// still active.
	Terminal func(b *Barrier) bool
	// Conflict gives the value of a vertex that is added and exists, or is added again
	// by another vertex of the same superstep. Nil keeps what was there, or came first.
	Conflict func(v int32, have, add V) V
	// Retry says how often and how soon a vertex that failed computes again. A vertex that pauses keeps its goroutine: if many vertices of a program
	// pause at the same time, set Parallelism accordingly. Nil means that a vertex which fails ends the run.
	Retry *Retry
	// Timeout limits one attempt: the context of the vertex ends then, and the attempt has failed.
	// It takes effect when Compute returns. If zero, there is no limit.
	Timeout time.Duration
	// Copy returns a copy of a value, for an attempt to work on, that shares no memory which
	// Compute changes. If nil, a plain assignment is used. It is used only with a Retry or a
	// Timeout.
	Copy func(V) V
}

// mayFail reports whether vertices are computed in attempts.
func (p *Program[V, E, M]) mayFail() bool { return p.Retry != nil || p.Timeout > 0 }

// Options are the settings of [Run.Run]. Nil means the defaults.
type Options[V, E, M any] struct {
	Parallelism int           // goroutines running at once; defaults to GOMAXPROCS
	MaxSteps    int           // supersteps before a *StepLimitError, counted from the first of the run; defaults to no limit
	Timeout     time.Duration // before a *TimeoutError, from this call on; defaults to no limit
	// CheckpointEvery calls Checkpoint after every so many supersteps: at 5, when 5, 10,
	// 15 … have been computed. Defaults to never.
	CheckpointEvery int
	// Checkpoint receives the run at a barrier. The snapshot is the callee's to keep. An error of
	// it ends Run, at that barrier.
	Checkpoint func(s *Snapshot[V, E, M]) error
	// Trace is called after every superstep. The engine reads no clock: to measure supersteps, read
	// one here. It may be nil.
	Trace func(s Stats)
	// Retrying is called when an attempt has failed and another will follow after the pause, from
	// the goroutine of the vertex: several at once. Defaults to nothing.
	Retrying func(failed *Error, pause time.Duration)
}

// Stats are the counts of one superstep. They do not depend on the parallelism.
type Stats struct {
	Step     int // from 0
	Computed int // vertices that computed
	Messages int // messages sent, before any were combined; one to all neighbours counts for each
	Vertices int // that exist after the superstep
	Changes  int // of the topology, that took effect
	Ignored  int // changes of the topology that did not: their vertex or edge did not exist
	Retries  int // attempts of vertices after their first
}

// A Barrier is the end of a superstep.
type Barrier struct {
	Stats
	agg *aggregates
}

func (b *Barrier) aggregating() *aggregates { return b.agg }

// A Error names which vertex ended a run. If several did in one superstep, it is the one of
// the lowest index.
type Error struct {
	Vertex   int32
	Label    string // its id if the graph was built from named edges
	Step     int
	Attempts int // how many it had made
	Err      error
}

func (e *Error) Error() string {
	if e.Attempts > 1 {
		return fmt.Sprintf("vertex %s in superstep %d, attempt %d: %v", e.Label, e.Step, e.Attempts, e.Err)
	}
	return fmt.Sprintf("vertex %s in superstep %d: %v", e.Label, e.Step, e.Err)
}

// Unwrap returns the cause, a *PanicError for a panic.
func (e *Error) Unwrap() error { return e.Err }

// A Context gives a computing vertex access to the engine. It belongs to one call of Compute.
type Context[V, E, M any] struct {
	run *Run[V, E, M]
	ctx context.Context
	v   int32

	reach   int32 // Send goes straight to the vertices below it
	shift   uint8 // which part of the outbox: the target shifted by this
	out     *outbox[M]
	slot    []M    // by vertex: what it says to all neighbours
	said    uint64 // who of the current word has, and has neighbours
	stays   uint64 // who of the current word voted Stay
	ends    uint64 // who of the current word voted Complete
	box     [1]M   // an inbox
	agg     aggregates
	changes []change[V, E]
	late    []lateSend[M]
	tally   tally

	stop        *atomic.Bool
	err         error // why v failed
	interrupted bool
	first, last int // the chunks in out, if directed > 0
	directed    int // messages in out

	// Of a program whose vertices may fail.
	attempt int
	undo    []undone[V] // by vertex this goroutine has computed in the superstep
	again   []M         // an inbox of which the messages are kept elsewhere
	mark    mark
}

// tally holds the counts of a goroutine in one superstep.
type tally struct {
	computed, messages int
	said, saidEdges    int // vertices with neighbours that said something to them, and how many they have
	retries            int
	ended              bool
}

// Context returns a context that ends when the run must stop or the attempt exceeds its Timeout.
func (c *Context[V, E, M]) Context() context.Context { return c.ctx }

// Step returns the superstep, from 0.
func (c *Context[V, E, M]) Step() int { return c.run.step }

// NumVertices returns one more than the highest index of a vertex in this superstep.
func (c *Context[V, E, M]) NumVertices() int { return c.run.n }

// Degree returns the number of edges out of the vertex.
func (c *Context[V, E, M]) Degree() int { return c.run.degree(c.v) }

// Targets returns the ends of the edges out of the vertex. The slice must not be changed.
func (c *Context[V, E, M]) Targets() []int32 {
	to, _ := c.run.edges(c.v)
	return to
}

// EdgeValues returns the values of the edges out of the vertex, in the order of Targets.
// The slice must not be changed.
func (c *Context[V, E, M]) EdgeValues() []E {
	_, values := c.run.edges(c.v)
	return values
}

// Send sends a message to a vertex, which need not be a neighbour. One that does not
// exist must be added in the same superstep; if its index has never been a
// vertex the run ends with a *Error, otherwise the message is dropped.
func (c *Context[V, E, M]) Send(to int32, m M) {
	if uint32(to) >= uint32(c.reach) {
		c.sendFar(to, m)
		return
	}
	part := &c.out.parts[uint32(to)>>(c.shift&31)%maxParts]
	*part = append(*part, envelope[M]{to, m})
	c.directed++
}

func (c *Context[V, E, M]) sendFar(to int32, m M) {
	r := c.run
	if uint32(to) < uint32(r.n) && !hasBit(r.gone, to) {
		part := &c.out.parts[uint32(to)>>(c.shift&31)%maxParts]
		*part = append(*part, envelope[M]{to, m})
		c.directed++
		return
	}
	c.late = append(c.late, lateSend[M]{c.v, to, m})
}

// SendToNeighbors sends the same message along every edge out of the vertex.
func (c *Context[V, E, M]) SendToNeighbors(m M) {
	bit := uint64(1) << (uint(c.v) & 63)
	if uint(c.v) >= uint(len(c.slot)) || c.said&bit != 0 {
		c.sayAgain(m)
		return
	}
	if d := c.run.degree(c.v); d > 0 {
		c.slot[c.v] = m
		c.said |= bit
		c.tally.said++
		c.tally.saidEdges += d
	}
}

// sayAgain is the first SendToNeighbors of a run, the second of a vertex, or any with no Combine.
func (c *Context[V, E, M]) sayAgain(m M) {
	if c.run.prog.Combine != nil && len(c.slot) == 0 {
		c.slot = c.run.makeSlots()
		c.SendToNeighbors(m)
		return
	}
	for _, to := range c.Targets() {
		c.Send(to, m)
	}
}

// Fail records that the vertex has failed: it computes again if the program has a Retry that allows
// it, and otherwise the run ends with a *Error. The caller should return.
func (c *Context[V, E, M]) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// failed returns the error of the vertex that is computing.
func (c *Context[V, E, M]) failed(err error) *Error {
	e := c.run.vertexError(c.v, err)
	e.Attempts = max(1, c.attempt)
	return e
}

func (c *Context[V, E, M]) aggregating() *aggregates { return &c.agg }

// compute computes one vertex.
func (c *Context[V, E, M]) compute(v int32, in []M) {
	c.v, c.agg.vertex = v, v
	r := c.run
	switch r.body(c, v, &r.values[v], in) {
	case Stay:
		c.stays |= 1 << (uint(v) & 63)
	case Complete:
		c.ends |= 1 << (uint(v) & 63)
	case Halt:
	}
	c.tally.computed++
}

// flush reports to the run what the vertices of a word did.
func (c *Context[V, E, M]) flush(w int) {
	if c.stays != 0 {
		c.run.next.add(w, c.stays)
	}
	if c.said != 0 {
		c.run.said.add(w, c.said)
	}
	if c.ends != 0 {
		orWord(&c.run.closed[w], c.ends)
		c.tally.ended = true
	}
	c.stays, c.said, c.ends = 0, 0, 0
}
