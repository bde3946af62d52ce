package vertex

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"
)

const (
	maxParts = 64
	onePart  = 31 // the shift that makes all indexes one part
)

// An outbox holds messages in the order sent, separated by ranges of target indexes, so that each
// range can be delivered by a separate goroutine.
type outbox[M any] struct{ parts [maxParts][]envelope[M] }

type envelope[M any] struct {
	to  int32
	msg M
}

// A lateSend is a message to a vertex that does not exist, or not yet.
type lateSend[M any] struct {
	from, to int32
	msg      M
}

func (r *Run[V, E, M]) makeSlots() []M {
	r.slotMu.Lock()
	defer r.slotMu.Unlock()
	if r.slots == nil {
		r.slots = make([]M, r.n)
	}
	return r.slots
}

func (r *Run[V, E, M]) numParts() int { return (r.n-1)>>r.crew.shift + 1 }

// combineRound folds what is buffered into the inboxes of the next superstep.
func (r *Run[V, E, M]) combineRound() {
	w := r.crew
	sent := w.buffered.Swap(0)
	if sent == 0 {
		return
	}
	r.needNextInbox()
	outs := slices.DeleteFunc(w.outs, func(o *outbox[M]) bool { return o == nil })
	parts := r.numParts()
	var next atomic.Int64
	work := 1
	if int(sent) > r.tuning.direct {
		work = parts
	}
	r.parallel(work, func(*Context[V, E, M]) {
		for p := int(next.Add(1)) - 1; p < parts; p = int(next.Add(1)) - 1 {
			for _, o := range outs {
				r.combine(o.parts[p])
				clear(o.parts[p])
				o.parts[p] = o.parts[p][:0]
			}
		}
	})
	w.free = append(w.free, outs...)
	clear(w.outs)
}

func (r *Run[V, E, M]) needNextInbox() {
	if len(r.nextInbox) < r.n {
		r.nextInbox = append(r.nextInbox, make([]M, r.n-len(r.nextInbox))...)
	}
}

// combine folds messages into the inboxes of the next superstep. Only the caller uses their words
// of the bitmaps.
func (r *Run[V, E, M]) combine(part []envelope[M]) {
	inbox, has, f := r.nextInbox, r.nextHas, r.prog.Combine.fold
	for i := range part {
		to := part[i].to
		w, bit := to>>6, uint64(1)<<(uint(to)&63)
		if has[w]&bit != 0 {
			inbox[to] = f(inbox[to], part[i].msg)
			continue
		}
		inbox[to] = part[i].msg
		has[w] |= bit
		r.next.addOwn(int(w), bit)
	}
}

// push delivers the messages of a set of vertices to all of their neighbours.
func (r *Run[V, E, M]) push(said *set, slots []M, edges int) {
	r.needNextInbox()
	if len(r.crew.at) == 1 || edges <= r.tuning.direct {
		r.parallel(1, func(*Context[V, E, M]) { r.pushAll(said, slots) })
		return
	}
	const words = 16
	r.crew.shift = uint8(max(10, bits.Len(uint(r.n))-6))
	for _, c := range r.crew.at {
		c.shift = r.crew.shift
	}
	r.rounds((len(said.words())+words-1)/words, false, func(c *Context[V, E, M], k int) {
		shift, out := c.shift&31, c.out
		for w := said.nextWord(k * words); w >= 0 && w < (k+1)*words; w = said.nextWord(w + 1) {
			for m := said.words()[w]; m != 0; m &= m - 1 {
				v := int32(w<<6 | bits.TrailingZeros64(m))
				targets, _ := r.edges(v)
				for _, to := range targets {
					part := &out.parts[uint32(to)>>shift%maxParts]
					*part = append(*part, envelope[M]{to, slots[v]})
				}
				c.directed += len(targets)
			}
		}
	})
}

func (r *Run[V, E, M]) pushAll(said *set, slots []M) {
	inbox, has, f := r.nextInbox, r.nextHas, r.prog.Combine.fold
	for w := said.nextWord(0); w >= 0; w = said.nextWord(w + 1) {
		for m := said.words()[w]; m != 0; m &= m - 1 {
			v := int32(w<<6 | bits.TrailingZeros64(m))
			msg := slots[v]
			targets, _ := r.edges(v)
			for _, to := range targets {
				w, bit := to>>6, uint64(1)<<(uint(to)&63)
				if has[w]&bit != 0 {
					inbox[to] = f(inbox[to], msg)
					continue
				}
				inbox[to] = msg
				has[w] |= bit
				r.next.addOwn(int(w), bit)
			}
		}
	}
}

// deliver delivers what has not been combined: all messages if the program has no Combine, and
// the late ones.
func (r *Run[V, E, M]) deliver(late []lateSend[M]) error {
	n := 0
	for _, s := range late {
		if uint32(s.to) >= uint32(r.n) {
			return r.vertexError(s.from, unknownVertex(s.to, r.n))
		}
		if !hasBit(r.gone, s.to) {
			late[n] = s
			n++
		}
	}
	late = late[:n]
	if r.prog.Combine == nil {
		r.deliverAll(late)
		return nil
	}
	if len(late) > 0 {
		r.needNextInbox()
	}
	for _, s := range late {
		r.combine([]envelope[M]{{s.to, s.msg}})
	}
	return nil
}

// deliverAll puts the messages beside each other, those to one vertex in the order sent.
func (r *Run[V, E, M]) deliverAll(late []lateSend[M]) {
	w := r.crew
	outs := slices.DeleteFunc(w.outs, func(o *outbox[M]) bool { return o == nil })
	if len(outs)+len(late) == 0 {
		return
	}
	if more := r.n - len(r.count); more > 0 {
		r.count = append(r.count, make([]uint32, more)...)
		r.end = append(r.end, make([]uint32, more)...)
	}
	var base [maxParts + 1]int
	for p := range maxParts {
		base[p+1] = base[p]
		for _, o := range outs {
			base[p+1] += len(o.parts[p])
		}
	}
	total := base[maxParts]
	if old := r.pending; cap(old) < total+len(late) {
		r.pending = make([]M, total, total+len(late))
	} else {
		clear(old)
		r.pending = old[:total]
	}
	var next atomic.Int64
	work := 1
	if total > r.tuning.direct {
		work = maxParts
	}
	r.parallel(work, func(*Context[V, E, M]) {
		for p := int(next.Add(1)) - 1; p < maxParts; p = int(next.Add(1)) - 1 {
			if base[p+1] > base[p] {
				r.deliverPart(outs, p, uint32(base[p]))
			}
		}
	})
	w.free = append(w.free, outs...)
	w.outs = w.outs[:0]
	slices.SortStableFunc(late, func(a, b lateSend[M]) int { return cmp.Compare(a.to, b.to) })
	for _, s := range late {
		r.pending = append(r.pending, s.msg)
		r.count[s.to]++
		r.end[s.to] = uint32(len(r.pending))
		r.next.add(int(s.to>>6), 1<<(uint(s.to)&63))
	}
}

func (r *Run[V, E, M]) deliverPart(outs []*outbox[M], p int, at uint32) {
	for _, o := range outs {
		for i := range o.parts[p] {
			to := o.parts[p][i].to
			r.count[to]++
			r.next.addOwn(int(to>>6), 1<<(uint(to)&63))
		}
	}
	place := func(w int) {
		for m := r.next.words()[w]; m != 0; m &= m - 1 {
			v := w<<6 | bits.TrailingZeros64(m)
			r.end[v] = at
			at += r.count[v]
		}
	}
	if shift := r.crew.shift; shift == onePart {
		for w := r.next.nextWord(0); w >= 0; w = r.next.nextWord(w + 1) {
			place(w)
		}
	} else { // the summaries are being written by others
		for w := p << shift >> 6; w < min((p+1)<<shift>>6, len(r.next.words())); w++ {
			place(w)
		}
	}
	for _, o := range outs {
		for i := range o.parts[p] {
			e := &o.parts[p][i]
			r.pending[r.end[e.to]] = e.msg
			r.end[e.to]++
		}
		clear(o.parts[p])
		o.parts[p] = o.parts[p][:0]
	}
}
