package journal

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/superstep-dev/superstep/runlog"
)

// The number of records, and the bytes of their data, by which a follower may lag before it must read from the store again. They bound the memory for a
// stalled follower.
const (
	ringSize  = 4096
	ringBytes = 8 << 20
)

// hub holds the last records of a running journal for those who follow it.
type hub struct {
	mu        sync.Mutex
	followers atomic.Int32
	ring      []runlog.Record // within array
	array     []runlog.Record // from its beginning
	first     uint64          // the position of the first record of the ring
	bytes     int             // of data in the ring
	head      uint64          // the sequence number of the last stored record that was published, or was there before
	wake      chan struct{}   // closed when there is more; nil while nobody waits
	closed    bool
}

func (h *hub) follow(n int32) {
	h.mu.Lock() // what is published after this is kept
	h.followers.Add(n)
	h.mu.Unlock()
}

func (h *hub) followed() bool { return h.followers.Load() > 0 }

func (h *hub) publish(recs ...runlog.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range recs {
		if recs[i].Seq != 0 {
			h.head = recs[i].Seq
		}
	}
	if h.followers.Load() == 0 { // whoever comes reads the store first
		h.first += uint64(len(h.ring))
		h.ring, h.array, h.bytes = nil, nil, 0
		return
	}
	for i := range recs {
		h.room()
		h.ring = append(h.ring, recs[i])
		h.bytes += recs[i].Size()
	}
	for len(h.ring) > ringSize || h.bytes > ringBytes && len(h.ring) > 1 {
		h.bytes -= h.ring[0].Size()
		h.ring[0] = runlog.Record{}
		h.ring = h.ring[1:]
		h.first++
	}
	h.signal()
}

// room makes room for one more record. The ring moves back to the beginning of its array when it has reached the end, so that a full ring is moved once for
// as many records as it holds.
func (h *hub) room() {
	if len(h.ring) < cap(h.ring) {
		return
	}
	if all := h.array[:cap(h.array)]; len(all) > 0 && len(all) >= 2*len(h.ring) {
		n := copy(all, h.ring)
		clear(all[n:])
		h.ring = all[:n]
		return
	}
	h.ring = slices.Grow(h.ring, len(h.ring)+16)
	h.array = h.ring
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.signal()
	h.mu.Unlock()
}

func (h *hub) signal() {
	if h.wake != nil {
		close(h.wake)
		h.wake = nil
	}
}

// read copies the records from a position on into buf. It reports a gap if the reader lagged and pos is no longer in the ring. If there is nothing to
// read, it returns a channel that is closed when there is, or closed == true.
func (h *hub) read(pos uint64, buf []runlog.Record) (got []runlog.Record, gap bool, wake <-chan struct{}, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pos < h.first {
		return nil, true, nil, false
	}
	if rest := h.ring[pos-h.first:]; len(rest) > 0 {
		return append(buf[:0], rest[:min(len(rest), cap(buf))]...), false, nil, false
	}
	if h.closed {
		return nil, false, nil, true
	}
	if h.wake == nil {
		h.wake = make(chan struct{})
	}
	return nil, false, h.wake, false
}

// position returns the next position of the ring, and the last stored record before it.
func (h *hub) position() (next, head uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first + uint64(len(h.ring)), h.head
}

// Follow yields the run's records from a sequence number on (0 is the first), and then new ones, in order and without gaps, until the journal is closed
// or ctx has ended. Live-only records, whose Seq is 0, come in between in order. A follower that lags by more than a few thousand records, or some
// megabytes, loses live-only records and nothing else. A slow follower never slows the run.
func (j *Journal) Follow(ctx context.Context, from uint64) iter.Seq2[runlog.Record, error] {
	return j.Following(ctx, from, func() {})
}

// Following is Follow, and calls begun once or more often: from the first time on no live-only record is missed.
func (j *Journal) Following(ctx context.Context, from uint64, begun func()) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		j.hub.follow(1)
		defer j.hub.follow(-1)
		next := max(from, 1)
		buf := make([]runlog.Record, 0, 256)
		for {
			pos, head := j.hub.position()
			begun()
			for r, err := range j.Since(ctx, next) {
				if err == nil && r.Seq > head {
					break // the ring has it, with the live-only records before it
				}
				if !yield(r, err) || err != nil {
					return
				}
				next = r.Seq + 1
			}
			for {
				got, gap, wake, closed := j.hub.read(pos, buf)
				if gap {
					break
				}
				if closed {
					return
				}
				if wake != nil {
					select {
					case <-wake:
					case <-ctx.Done():
						yield(runlog.Record{}, context.Cause(ctx))
						return
					}
				}
				pos += uint64(len(got))
				for i := range got {
					if got[i].Seq != 0 && got[i].Seq < next {
						continue // it came from the store already
					}
					if !yield(got[i], nil) {
						return
					}
					if got[i].Seq != 0 {
						next = got[i].Seq + 1
					}
				}
			}
		}
	}
}
