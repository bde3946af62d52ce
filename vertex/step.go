package vertex

import (
	"math/bits"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// compute computes the active vertices. They are cut into chunks of neighbouring indexes, which the
// goroutines of the crew take in order. The result does not depend on the cuts.
func (r *Run[V, E, M]) compute() {
	w := r.crew
	if r.slots != nil && len(r.slots) < r.n {
		r.slots = make([]M, r.n)
	}
	list, listed := w.list[:0], false
	if !r.gather {
		limit := max(r.tuning.list, r.n/32)
		if r.prog.mayFail() {
			limit = r.n // attempts are taken back only where no block is folded yet
		}
		list, listed = r.active.collect(list, limit)
	}
	w.list = list
	w.shift = uint8(max(10, bits.Len(uint(r.n))-6))
	if listed && r.fewMessages(list) {
		w.shift = onePart
	}
	for _, c := range w.at {
		c.begin(w.shift, !listed)
	}
	if listed {
		size := min(max(1, len(list)/max(256, 4*len(w.at))), 1<<12)
		r.rounds((len(list)+size-1)/size, true, func(c *Context[V, E, M], k int) {
			c.computeListed(list[k*size : min(len(list), (k+1)*size)])
		})
		return
	}
	size := 1 << aggregateBlock
	for size < 1<<14 && r.n/size > 32*len(w.at) {
		size *= 2
	}
	do := (*Context[V, E, M]).computeRange
	if r.gather {
		do = (*Context[V, E, M]).gatherRange
	}
	r.rounds((r.n+size-1)/size, true, func(c *Context[V, E, M], k int) {
		do(c, k*size, min(r.n, (k+1)*size))
	})
}

// fewMessages reports whether one message to every neighbour would be few enough for one
// goroutine to deliver.
func (r *Run[V, E, M]) fewMessages(list []int32) bool {
	n := len(list)
	for _, v := range list {
		if n += r.degree(v); n > r.tuning.direct {
			return false
		}
	}
	return true
}

func (c *Context[V, E, M]) begin(shift uint8, whole bool) {
	r := c.run
	c.slot, c.shift, c.tally, c.agg.whole = r.slots, shift, tally{}, whole
	c.changes, c.late = c.changes[:0], c.late[:0]
	clear(c.undo)
	c.undo = c.undo[:0]
	if c.reach = int32(r.n); r.holes {
		c.reach = 0
	}
}

// rounds computes all chunks, unless the run is stopped before. A round ends when enough messages
// are buffered, and they are combined then.
func (r *Run[V, E, M]) rounds(chunks int, stop bool, do func(c *Context[V, E, M], chunk int)) {
	w := r.crew
	w.outs = append(w.outs[:0], make([]*outbox[M], chunks)...)
	var next atomic.Int64
	for {
		w.full.Store(false)
		r.parallel(chunks-int(next.Load()), func(c *Context[V, E, M]) {
			for !w.full.Load() {
				k := int(next.Add(1)) - 1
				if k >= chunks {
					break
				}
				if c.interrupted = stop && w.stop.Load(); c.interrupted {
					break
				}
				c.chunk(k, do)
			}
			c.handOver()
		})
		ended := len(w.failures) > 0 || w.crash != nil || int(next.Load()) >= chunks
		for _, c := range w.at {
			ended = ended || c.interrupted
		}
		if r.prog.Combine != nil {
			r.combineRound()
		}
		if ended {
			return
		}
	}
}

// parallel lets as many of the crew as there is work for call f, and waits for them.
func (r *Run[V, E, M]) parallel(work int, f func(c *Context[V, E, M])) {
	var others sync.WaitGroup
	for _, c := range r.crew.at[1:max(1, min(work, len(r.crew.at)))] {
		others.Go(func() { r.crew.guard(c, f) })
	}
	r.crew.guard(r.crew.at[0], f)
	others.Wait()
}

// guard keeps a panic, of a Combine for one, from ending the process.
func (w *crew[V, E, M]) guard(c *Context[V, E, M], f func(c *Context[V, E, M])) {
	defer func() {
		if v := recover(); v != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.crash = &PanicError{Value: v, Stack: debug.Stack()}
			w.full.Store(true)
		}
	}()
	f(c)
}

// chunk does one chunk. What it sends joins what the chunk before sent, if that was this
// goroutine's too.
func (c *Context[V, E, M]) chunk(k int, do func(c *Context[V, E, M], chunk int)) {
	if c.directed > 0 && c.last != k-1 {
		c.handOver()
	}
	if c.directed == 0 {
		c.first = k
	}
	c.last = k
	before := c.directed
	w := c.run.crew
	defer func() {
		if v := recover(); v != nil {
			c.err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if c.err != nil {
			w.mu.Lock()
			w.failures = append(w.failures, c.failed(c.err))
			w.mu.Unlock()
			w.full.Store(true)
			c.err = nil
		}
	}()
	do(c, k)
	if sent := c.directed - before; sent > 0 && c.run.prog.Combine != nil &&
		w.buffered.Add(int64(sent)) >= int64(c.run.tuning.round) {
		w.full.Store(true)
	}
}

// handOver gives what was sent to be delivered, in the place of the chunk it begins with.
func (c *Context[V, E, M]) handOver() {
	if c.directed == 0 {
		return
	}
	w := c.run.crew
	w.outs[c.first] = c.out
	c.directed, c.out = 0, nil
	w.mu.Lock()
	if n := len(w.free); n > 0 {
		c.out, w.free = w.free[n-1], w.free[:n-1]
	}
	w.mu.Unlock()
	if c.out == nil {
		c.out = &outbox[M]{}
	}
}

// computeListed computes these vertices.
func (c *Context[V, E, M]) computeListed(list []int32) {
	r := c.run
	word := -1
	before := c.directed
	for _, v := range list {
		if w := int(v >> 6); w != word {
			if word >= 0 {
				c.flush(word)
			}
			word = w
		}
		if c.halted() {
			break
		}
		c.compute(v, r.take(v))
	}
	c.flush(word)
	c.tally.messages += c.directed - before
}

// computeRange computes the active vertices from lo, the first of a word, to hi.
func (c *Context[V, E, M]) computeRange(lo, hi int) {
	r := c.run
	active := r.active.words()
	before := c.directed
	for w := lo >> 6; w<<6 < hi && !c.halted(); w++ {
		for m := active[w]; m != 0 && !c.halted(); m &= m - 1 {
			v := int32(w<<6 | bits.TrailingZeros64(m))
			c.compute(v, r.take(v))
		}
		c.flush(w)
	}
	c.tally.messages += c.directed - before
}

// halted reports whether the chunk is to be left: the vertex has failed, or the run is to stop.
func (c *Context[V, E, M]) halted() bool {
	if c.err != nil {
		return true
	}
	if c.stop.Load() {
		c.interrupted = true
		return true
	}
	return false
}

// take returns and removes the messages to a vertex.
func (r *Run[V, E, M]) take(v int32) []M {
	if r.has != nil {
		if hasBit(r.has, v) {
			return r.inbox[v : v+1 : v+1]
		}
		return nil
	}
	if int(v) >= len(r.count) || r.count[v] == 0 {
		return nil
	}
	end := r.end[v]
	in := r.pending[end-r.count[v] : end : end]
	r.count[v] = 0
	return in
}

// gatherRange computes those vertices from lo to hi that are active or to which a neighbour
// has said something. What the neighbours said is combined in the order of their
// indexes, which is the order in which push would have sent it.
func (c *Context[V, E, M]) gatherRange(lo, hi int) {
	r := c.run
	in, slots, combine, saying := r.g.sourcesOf(), r.inbox, r.prog.Combine, r.saying.words()
	off, to := in.off, in.to
	all := r.gatherAll
	before := c.directed
	for w := lo >> 6; w<<6 < hi && !c.halted(); w++ {
		stays, closed := r.active.words()[w], r.closed[w]
		for v := w << 6; v < min(hi, w<<6+64) && !c.halted(); v++ {
			bit := uint64(1) << (uint(v) & 63)
			if closed&bit != 0 {
				continue
			}
			from := to[off[v]:off[v+1]]
			got := 0
			switch {
			case len(from) == 0:
			case all:
				got, c.box[0] = 1, combine.gather(slots, from)
			default:
				if m, some := combine.gatherSome(slots, from, saying); some {
					got, c.box[0] = 1, m
				}
			}
			if got == 0 && stays&bit == 0 {
				continue
			}
			c.compute(int32(v), c.box[:got:got])
		}
		c.flush(w)
	}
	c.tally.messages += c.directed - before
}
