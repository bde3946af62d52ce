package vertex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Run is a vertex program running on a graph. It is not safe for concurrent use.
type Run[V, E, M any] struct {
	g      *Graph[E]
	prog   *Program[V, E, M]
	n      int // one more than the highest index
	exist  int
	step   int
	values []V
	broken error
	body   func(c *Context[V, E, M], v int32, value *V, in []M) Vote // Compute, or attempts of it

	active, next   set      // who computes in this superstep, and in the next one
	closed, gone   []uint64 // who never computes again; who of them does not exist
	anyEnds, holes bool     // whether any bit of them is set

	// Used with a Combine. A message to all neighbours goes to a slot. A push then copies it to the
	// inboxes. If gather is set, it stays instead in the former inboxes until the next superstep
	// gathers it.
	inbox, nextInbox, slots []M
	has, nextHas            []uint64 // who has a message in inbox and nextInbox
	said, saying            set      // who has filled its slot; who has, of those in inbox
	gather, gatherAll       bool     // gatherAll: every vertex with neighbours has said something
	slotMu                  sync.Mutex

	// With none: the messages of v are pending[end[v]-count[v]:end[v]].
	pending    []M
	end, count []uint32

	patch   map[int32]*patch[E] // edges that are not as in g; not nil if n > g.n
	patched int                 // edges in there
	edgeN   int
	changed bool // the topology is not the one the run was started with

	since      *since // nil if nobody has asked yet
	aggregated []any  // *aggregateValue, by place in prog.Aggregators
	tuning     tuning
	crew       *crew[V, E, M] // during Run
}

// tuning holds settings that affect only the speed of a run.
type tuning struct {
	gatherFrom  int // vertices of a graph that may be gathered
	gatherShare int // gather if the messages to neighbours are at least one in so many edges
	round       int // messages that are buffered before they are combined
	direct      int // messages that one goroutine delivers on its own
	list        int // active vertices that are listed rather than looked for
}

// crew are the goroutines of a run and what they share during a superstep.
type crew[V, E, M any] struct {
	at       []*Context[V, E, M]
	stop     atomic.Bool // the context is done
	full     atomic.Bool // it is time to combine what is buffered, or a vertex has failed
	buffered atomic.Int64
	outs     []*outbox[M] // by chunk
	list     []int32
	shift    uint8
	retrying func(failed *Error, pause time.Duration)

	mu       sync.Mutex
	free     []*outbox[M]
	failures []*Error
	crash    error // a panic outside of Compute
}

// NewRun creates a run in its first superstep. The values become the run's own;
// nil stands for zero values. The entries are active, or every vertex if there are none.
func NewRun[V, E, M any](g *Graph[E], prog *Program[V, E, M], values []V, entries ...int32) (*Run[V, E, M], error) {
	if values == nil {
		values = make([]V, g.n)
	}
	r, err := newRun(g, prog, values)
	if err != nil {
		return nil, err
	}
	var bad graphError
	for _, v := range entries {
		if uint32(v) >= uint32(r.n) {
			bad.add("entry %d is not a vertex, of %d", v, r.n)
			continue
		}
		r.active.add(int(v>>6), 1<<(uint(v)&63))
	}
	if len(entries) == 0 {
		for w := range r.active.words() {
			r.active.add(w, ^uint64(0)>>(64-min(64, uint(r.n-w<<6))))
		}
	}
	return r, bad.orNil()
}

func newRun[V, E, M any](g *Graph[E], prog *Program[V, E, M], values []V) (*Run[V, E, M], error) {
	n := len(values)
	var bad graphError
	if g.n != n {
		bad.add("%d values for %d vertices", n, g.n)
	}
	if prog.Compute == nil {
		bad.add("the vertex program has no Compute")
	}
	for i, a := range prog.Aggregators {
		if slices.ContainsFunc(prog.Aggregators[:i], func(b AnyAggregator) bool { return b.name() == a.name() }) {
			bad.add("two aggregators are called %q", a.name())
		}
	}
	r := &Run[V, E, M]{
		g: g, prog: prog, n: n, exist: n, edgeN: g.NumEdges(), values: values,
		active: newSet(n), next: newSet(n), said: newSet(n), saying: newSet(n),
		closed: make([]uint64, wordsFor(n)), gone: make([]uint64, wordsFor(n)),
		tuning: tuning{gatherFrom: 1 << 12, gatherShare: 6, round: 1 << 18, direct: 1 << 13, list: 1 << 12},
	}
	r.body = prog.Compute
	if prog.mayFail() {
		r.body = (*Context[V, E, M]).attempts
	}
	if prog.Combine != nil {
		r.has, r.nextHas = make([]uint64, wordsFor(n)), make([]uint64, wordsFor(n))
	}
	for _, a := range prog.Aggregators {
		r.aggregated = append(r.aggregated, a.newValue())
	}
	return r, bad.orNil()
}

// Values returns the values of the vertices by index, those of vertices that do not exist
// included. The slice is the run's own; it is up to date between calls of Run.
func (r *Run[V, E, M]) Values() []V { return r.values }

// Step returns the superstep to be computed next: how many have been computed.
func (r *Run[V, E, M]) Step() int { return r.step }

// Exists reports whether there is a vertex of that index.
func (r *Run[V, E, M]) Exists(v int32) bool {
	return uint32(v) < uint32(r.n) && !hasBit(r.gone, v)
}

// Edges returns the targets of the edges out of a vertex as they are now, and their values.
func (r *Run[V, E, M]) Edges(v int32) ([]int32, []E) { return r.edges(v) }

// Ended reports whether no vertex is active any more.
func (r *Run[V, E, M]) Ended() bool {
	r.settle()
	return r.active.empty()
}

// Vertices returns how many vertices there are.
func (r *Run[V, E, M]) Vertices() int { return r.exist }

// Active returns how many vertices compute in the next superstep. It is 0 when the run has ended.
func (r *Run[V, E, M]) Active() int {
	r.settle()
	n := 0
	for w := r.active.nextWord(0); w >= 0; w = r.active.nextWord(w + 1) {
		n += bits.OnesCount64(r.active.words()[w])
	}
	return n
}

// Aggregated returns where the aggregators of the last superstep can be read.
func (r *Run[V, E, M]) Aggregated() Aggregating {
	return &Barrier{agg: &aggregates{list: r.prog.Aggregators, values: r.aggregated}}
}

// Run computes supersteps until no vertex is active, and returns nil then. It returns a
// *StepLimitError or *TimeoutError at a limit, a *Error if a vertex failed or panicked, the error
// of a checkpoint, and the cause of ctx if that is done first. When it returns, all goroutines that
// it started have ended.
//
// After an error that came between two supersteps Run may be called again and goes on, and so it
// does after one in the middle of a superstep if the program has a Retry or a Timeout. If it has
// neither, that leaves values of two supersteps side by side: the run is to be thrown
// away then, and [Restore] continues from the last checkpoint. The same holds for a
// message or a change of the topology that cannot be.
//
// A superstep of one vertex computes on the caller's goroutine.
func (r *Run[V, E, M]) Run(ctx context.Context, opt *Options[V, E, M]) error {
	var o Options[V, E, M]
	if opt != nil {
		o = *opt
	}
	if o.Parallelism <= 0 {
		o.Parallelism = runtime.GOMAXPROCS(0)
	}
	if r.broken != nil {
		return r.broken
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, &TimeoutError{What: "the run", After: o.Timeout})
		defer cancel()
	}
	r.hire(ctx, &o)
	defer func() { r.crew = nil }()
	stop := &r.crew.stop
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	if ctx.Err() != nil && r.pendingStep() {
		return context.Cause(ctx)
	}
	for r.pendingStep() {
		if o.MaxSteps > 0 && r.step >= o.MaxSteps {
			if ended := r.Ended(); r.broken != nil || ended {
				return r.broken
			}
			return r.stepLimit(o.MaxSteps)
		}
		if err := r.superstep(ctx, &o); err != nil {
			return err
		}
		if ctx.Err() != nil { // also after the last one
			return context.Cause(ctx)
		}
	}
	return nil
}

func (r *Run[V, E, M]) pendingStep() bool { return r.gather || !r.active.empty() }

func (r *Run[V, E, M]) hire(ctx context.Context, o *Options[V, E, M]) {
	r.crew = &crew[V, E, M]{retrying: o.Retrying}
	for range o.Parallelism {
		c := &Context[V, E, M]{run: r, ctx: ctx, stop: &r.crew.stop, out: &outbox[M]{}}
		c.agg = aggregates{list: r.prog.Aggregators, values: r.aggregated}
		for _, a := range r.prog.Aggregators {
			c.agg.cells = append(c.agg.cells, a.newCell())
		}
		r.crew.at = append(r.crew.at, c)
	}
}

func (r *Run[V, E, M]) superstep(ctx context.Context, o *Options[V, E, M]) error {
	r.compute()
	if err := r.failure(ctx); err != nil {
		if r.prog.mayFail() {
			r.rollback()
			return err
		}
		r.broken = fmt.Errorf("the run ended in the middle of superstep %d, restore it from a checkpoint: %w", r.step, err)
		return err
	}
	stats, err := r.barrier()
	if err != nil {
		r.broken = err
		return err
	}
	if stats.Computed == 0 {
		return nil // what was gathered was for nobody: this superstep has never been
	}
	if t := r.prog.Terminal; t != nil && t(&Barrier{stats, &r.crew.at[0].agg}) {
		r.dismiss()
	}
	if o.Trace != nil {
		o.Trace(stats)
	}
	if o.CheckpointEvery > 0 && r.step%o.CheckpointEvery == 0 && o.Checkpoint != nil {
		s, err := r.Snapshot()
		if err != nil {
			return err
		}
		return o.Checkpoint(s)
	}
	return nil
}

func (r *Run[V, E, M]) failure(ctx context.Context) error {
	interrupted := false
	for _, c := range r.crew.at {
		interrupted = interrupted || c.interrupted
	}
	if f := r.crew.failures; len(f) > 0 {
		return slices.MinFunc(f, func(a, b *Error) int { return cmp.Compare(a.Vertex, b.Vertex) })
	}
	if r.crew.crash == nil && interrupted {
		return context.Cause(ctx)
	}
	return r.crew.crash
}

// barrier closes a superstep that every active vertex has computed.
func (r *Run[V, E, M]) barrier() (Stats, error) {
	stats := Stats{Step: r.step}
	var said tally
	for _, c := range r.crew.at {
		stats.Computed += c.tally.computed
		stats.Messages += c.tally.messages + c.tally.saidEdges + len(c.late)
		stats.Retries += c.tally.retries
		said.said += c.tally.said
		said.messages += c.tally.messages
		said.saidEdges += c.tally.saidEdges
		r.anyEnds = r.anyEnds || c.tally.ended
	}
	changes, late := r.requests()
	if r.since != nil {
		r.since.computed(&r.active, r.gather)
	}
	gather := r.mayGather(&said, len(changes)+len(late))
	if said.said > 0 && !gather {
		r.push(&r.said, r.slots, said.saidEdges)
	}
	if err := r.change(changes, &stats); err != nil {
		return stats, err
	}
	if err := r.deliver(late); err != nil {
		return stats, err
	}
	r.turn(gather, said.said)
	stats.Vertices = r.exist
	if stats.Computed == 0 {
		return stats, nil
	}
	cells := make([]any, len(r.crew.at))
	for i, a := range r.prog.Aggregators {
		for j, c := range r.crew.at {
			cells[j] = c.agg.cells[i]
		}
		a.close(r.aggregated[i], cells)
	}
	r.step++
	return stats, r.crew.crash
}

// mayGather decides whether messages to all neighbours are gathered.
func (r *Run[V, E, M]) mayGather(said *tally, requests int) bool {
	return !r.prog.mayFail() && said.said > 0 && requests == 0 && said.messages == 0 && r.n >= r.tuning.gatherFrom &&
		said.saidEdges >= r.edgeN/r.tuning.gatherShare && r.compact()
}

// turn enters the next superstep.
func (r *Run[V, E, M]) turn(gather bool, said int) {
	r.active.reset(r.has)
	if r.gather {
		r.saying.reset(nil)
	}
	if r.anyEnds {
		r.dropEnded()
	}
	r.active, r.next = r.next, r.active
	r.gather = gather
	if gather {
		r.gatherAll = said == r.g.sources
		r.inbox, r.slots = r.slots, r.inbox
		r.said, r.saying = r.saying, r.said
		return
	}
	r.said.reset(nil)
	r.inbox, r.nextInbox = r.nextInbox, r.inbox
	r.has, r.nextHas = r.nextHas, r.has
}

// dropEnded removes vertices that never compute again from the next superstep.
func (r *Run[V, E, M]) dropEnded() {
	for w := r.next.nextWord(0); w >= 0; w = r.next.nextWord(w + 1) {
		drop := r.next.words()[w] & r.closed[w]
		if drop == 0 {
			continue
		}
		r.next.remove(w, drop)
		if r.nextHas != nil {
			r.nextHas[w] &^= drop
		}
		for ; len(r.count) > 0 && drop != 0; drop &= drop - 1 {
			r.count[w<<6|bits.TrailingZeros64(drop)] = 0
		}
	}
}

// dismiss ends the run: no vertex is active and no message is pending.
func (r *Run[V, E, M]) dismiss() {
	r.active.reset(r.has)
	r.saying.reset(nil)
	r.gather = false
	clear(r.count)
}

// settle combines the messages that would be gathered, to determine the active vertices.
func (r *Run[V, E, M]) settle() {
	if !r.gather {
		return
	}
	r.needNextInbox()
	const size = 64 // words
	words := len(r.active.words())
	var next atomic.Int64
	pull := func(*Context[V, E, M]) {
		for lo := size * (int(next.Add(1)) - 1); lo < words; lo = size * (int(next.Add(1)) - 1) {
			r.pull(lo, min(lo+size, words))
		}
	}
	if r.crew == nil {
		pull(nil)
	} else if r.parallel(words/size+1, pull); r.crew.crash != nil {
		r.broken = r.crew.crash
	}
	r.saying.reset(nil)
	r.inbox, r.nextInbox = r.nextInbox, r.inbox
	r.has, r.nextHas = r.nextHas, r.has
	r.gather = false
}

// pull gathers the messages to the vertices of some words into their inboxes. Only the caller uses those words of the bitmaps.
func (r *Run[V, E, M]) pull(lo, hi int) {
	in, slots, combine, saying := r.g.sourcesOf(), r.inbox, r.prog.Combine, r.saying.words()
	for w := lo; w < hi; w++ {
		got := uint64(0)
		for open := ^r.closed[w]; open != 0; open &= open - 1 {
			v := w<<6 | bits.TrailingZeros64(open)
			if v >= r.n {
				break
			}
			from, some := in.to[in.off[v]:in.off[v+1]], true
			switch {
			case len(from) == 0:
				continue
			case r.gatherAll:
				r.nextInbox[v] = combine.gather(slots, from)
			default:
				r.nextInbox[v], some = combine.gatherSome(slots, from, saying)
			}
			if some {
				got |= open & -open
			}
		}
		r.nextHas[w] = got
		r.active.addOwn(w, got)
	}
}

func (r *Run[V, E, M]) stepLimit(limit int) error {
	e := &StepLimitError{Limit: limit}
	list, all := r.active.collect(nil, 10)
	for _, v := range list {
		e.Frontier = append(e.Frontier, r.g.Label(v))
	}
	if !all {
		e.Frontier = append(e.Frontier, "and more")
	}
	return e
}

var errNoVertex = errors.New("no such vertex")

func (r *Run[V, E, M]) vertexError(v int32, err error) *Error {
	return &Error{Vertex: v, Label: r.g.Label(v), Step: r.step, Attempts: 1, Err: err}
}

func (r *Run[V, E, M]) degree(v int32) int {
	if r.patch != nil {
		return r.patchedDegree(v)
	}
	off := r.g.out.off
	return int(off[v+1] - off[v])
}

func (r *Run[V, E, M]) patchedDegree(v int32) int {
	to, _ := r.edges(v)
	return len(to)
}

func (r *Run[V, E, M]) edges(v int32) ([]int32, []E) {
	if r.patch != nil {
		if p := r.patch[v]; p != nil {
			return p.to, p.values
		}
		if int(v) >= r.g.n {
			return nil, nil
		}
	}
	lo, hi := r.g.out.off[v], r.g.out.off[v+1]
	return r.g.out.to[lo:hi], r.g.values[lo:hi]
}
