package vertex

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// undone is the state of a vertex before the superstep computed it.
type undone[V any] struct {
	v        int32
	messages uint32
	value    V
}

// mark is the position in a goroutine's effects at which a vertex began.
type mark struct {
	parts         [maxParts]int
	cells         []int
	changes, late int
	directed      int
	said          uint64
	tally         tally
}

// attempts is Compute for a program whose vertices may fail: it tries as often as Retry allows, and
// removes all traces of failed attempts.
func (c *Context[V, E, M]) attempts(v int32, value *V, in []M) Vote {
	p, run := c.run.prog, c.ctx
	old := *value
	c.undo = append(c.undo, undone[V]{v, uint32(len(in)), old})
	c.setMark()
	for c.attempt = 1; ; c.attempt++ {
		if p.Copy != nil {
			*value = p.Copy(old)
		}
		vote, err := c.try(v, value, append(c.again[:0], in...))
		if err == nil {
			return vote
		}
		*value = old
		c.rewind()
		if run.Err() != nil {
			break
		}
		pause, again := (*pregel.Retry)(p.Retry).After(c.attempt, err, chance(v, c.run.step, c.attempt))
		if !again {
			c.err = err
			return Halt
		}
		c.tally.retries++
		if f := c.run.crew.retrying; f != nil {
			f(c.failed(err), pause)
		}
		if !wait(run, pause) {
			break
		}
	}
	c.stop.Store(true) // whoever looks must not find that the run goes on, with this vertex left out
	c.interrupted = true
	return Halt
}

// try makes one attempt. If its context has ended, the attempt has failed, whatever it returns.
func (c *Context[V, E, M]) try(v int32, value *V, in []M) (vote Vote, err error) {
	run := c.ctx
	c.again = in
	if limit := c.run.prog.Timeout; limit > 0 {
		ctx, stop := context.WithTimeoutCause(run, limit, &TimeoutError{What: "an attempt", After: limit})
		defer stop()
		c.ctx = ctx
	}
	defer func() {
		if x := recover(); x != nil {
			c.err = &PanicError{Value: x, Stack: debug.Stack()}
		}
		if c.ctx.Err() != nil {
			c.err = context.Cause(c.ctx)
		}
		err, c.err, c.ctx = c.err, nil, run
	}()
	return c.run.prog.Compute(c, v, value, in), nil
}

func (c *Context[V, E, M]) setMark() {
	m := &c.mark
	for p := range m.parts {
		m.parts[p] = len(c.out.parts[p])
	}
	m.cells = m.cells[:0]
	for i, a := range c.agg.list {
		m.cells = append(m.cells, a.given(c.agg.cells[i]))
	}
	m.changes, m.late, m.directed, m.said, m.tally = len(c.changes), len(c.late), c.directed, c.said, c.tally
}

// rewind undoes everything the vertex has done since the mark, except the count of attempts.
func (c *Context[V, E, M]) rewind() {
	m := &c.mark
	for p := range m.parts {
		clear(c.out.parts[p][m.parts[p]:])
		c.out.parts[p] = c.out.parts[p][:m.parts[p]]
	}
	for i, a := range c.agg.list {
		a.takeBack(c.agg.cells[i], m.cells[i])
	}
	clear(c.changes[m.changes:])
	clear(c.late[m.late:])
	c.changes, c.late = c.changes[:m.changes], c.late[:m.late]
	m.tally.retries = c.tally.retries
	c.directed, c.said, c.tally = m.directed, m.said, m.tally
}

// rollback resets the run to what it was before the superstep that did not finish.
func (r *Run[V, E, M]) rollback() {
	for _, c := range r.crew.at {
		for _, u := range c.undo {
			r.values[u.v] = u.value
			r.closed[u.v>>6] &^= 1 << (uint(u.v) & 63)
			if r.prog.Combine == nil && u.messages > 0 {
				r.count[u.v] = u.messages
			}
		}
	}
	r.next.reset(r.nextHas)
	r.said.reset(nil)
}

// chance spreads the pauses of vertices that fail together. It is a hash, so that a repeated run
// has the same pauses.
func chance(v int32, step, attempt int) float64 {
	h := uint64(uint32(v))<<32 ^ uint64(step)<<8 ^ uint64(attempt)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float64((h^h>>31)>>11) / (1 << 53)
}

// wait pauses, and reports whether the pause was complete.
func wait(ctx context.Context, pause time.Duration) bool {
	if pause <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
