package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	zsqlite "zombiezen.com/go/sqlite"
)

// The most that shares one transaction.
const (
	maxGroupOps   = 2048
	maxGroupBytes = 16 << 20
)

// An op is one write. Its functions are called by whoever has the turn to write.
type op struct {
	ctx context.Context

	// apply does the write inside a transaction. It is called again if the
	// transaction fails for another op's sake. Errors of the database come back as
	// they are; any other error means that nothing was written.
	apply func(w *writer) error
	// landed reports whether what apply wrote is in the database.
	landed func(c *conn) (bool, error)
	// firm says that nobody else's write can change what landed reports.
	firm bool
	// settle is called with the outcome before the caller hears of it. It may be nil.
	settle func(err error)

	done chan error
}

// write has an op done: by the caller who has the turn to write, or else by this
// one. If ctx ends before the op's transaction has begun, nothing is written.
func (s *Store) write(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.ctx = ctx
	o.done = make(chan error, 1)
	select {
	case w := <-s.turn:
		w.group(o)
		s.turn <- w
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return fmt.Errorf("writing store %s: %w", s.path, errClosed)
	}
	return <-o.done
}

// A writer is what a store writes with. Whoever takes it from Store.turn writes,
// for all who are waiting by then; no goroutine has to be woken for a single
// append. Ops that arrive while a transaction is being committed share the next.
type writer struct {
	s      *Store
	c      *conn // nil after a failure, until it is opened again
	commit func(*conn) error
	frames []byte // scratch: the frames of the op being applied
	ends   []int  // where each of them ends
	tx     uint64 // counts transactions
	bytes  int    // what the open transaction has taken so far
}

// finish tells the op's caller how it went.
func (o *op) finish(err error) {
	if o.settle != nil {
		o.settle(err)
	}
	o.done <- err
}

func finishAll(group []*op, err error) {
	for _, o := range group {
		o.finish(err)
	}
}

// group writes o, and what else is waiting by then, in one transaction. If an op
// fails in the database for reasons of its own, the others are done again without it.
func (w *writer) group(o *op) {
	todo, ctx := []*op{o}, o.ctx
	for len(todo) > 0 {
		w.s.fail("sqlite.before-begin")
		if err := w.begin(ctx); err != nil {
			finishAll(todo, w.s.explain("writing", err))
			return
		}
		in, out, err := w.fill(todo)
		if out == nil {
			w.end(in)
			return
		}
		w.abandon(w.c.rollback())
		switch code(err) {
		case zsqlite.ResultConstraint, zsqlite.ResultTooBig, zsqlite.ResultCorrupt:
			out.finish(w.s.explain("writing", err))
		default:
			if code(err) != zsqlite.ResultFull {
				w.abandon(err)
			}
			finishAll(append(in, out), w.s.explain("writing", err))
			return
		}
		todo, ctx = in, context.Background()
	}
}

// fill applies ops in the open transaction: first those of todo, then those that
// are waiting. It returns the ones in the transaction. If one fails in the
// database, it returns that and the error too, and among the others those it did
// not come to. Ops that need no transaction have been finished.
func (w *writer) fill(todo []*op) (in []*op, out *op, err error) {
	in = make([]*op, 0, len(todo))
	for {
		var o *op
		switch {
		case len(todo) > 0:
			o, todo = todo[0], todo[1:]
		case len(in) < maxGroupOps && w.bytes < maxGroupBytes:
			select {
			case o = <-w.s.ops:
			default:
				return in, nil, nil
			}
		default:
			return in, nil, nil
		}
		err := o.ctx.Err()
		if err == nil {
			err = o.apply(w)
		}
		switch {
		case err == nil:
			in = append(in, o)
		case isDB(err):
			return append(in, todo...), o, err
		default:
			o.finish(err)
		}
	}
}

// end commits the transaction that the ops of group are in.
func (w *writer) end(group []*op) {
	if len(group) == 0 {
		w.abandon(w.c.rollback())
		return
	}
	w.s.fail("sqlite.before-commit")
	err := w.commit(w.c)
	switch code(err) {
	case zsqlite.ResultOK:
		w.s.fail("sqlite.after-commit")
	case zsqlite.ResultFull, zsqlite.ResultBusy:
		// The last frame of the log, without which the others count for nothing, was not written.
		w.abandon(w.c.rollback())
		err = w.s.explain("writing", err)
	default:
		witness := slices.IndexFunc(group, func(o *op) bool { return o.firm })
		err = w.resolve(group[max(witness, 0)], err)
	}
	finishAll(group, err)
}

// begin opens a transaction for a caller who waits no longer than ctx.
func (w *writer) begin(ctx context.Context) error {
	if w.c == nil {
		c, err := openConn(w.s.path)
		if err != nil {
			return err
		}
		w.c = c
	}
	w.tx++
	w.bytes = 0
	err := w.c.begin(ctx)
	if err != nil && code(err) != zsqlite.ResultBusy && ctx.Err() == nil {
		w.abandon(err)
	}
	return err
}

// abandon gives the connection up after an error, since what it remembers of the
// file cannot be trusted any more.
func (w *writer) abandon(err error) {
	if err != nil && w.c != nil {
		_ = w.c.close()
		w.c = nil
	}
}

// resolve finds out whether a transaction whose COMMIT failed with cause is in the
// database, given one of its ops. Its last frame may be in the write-ahead log
// without counting yet, and would count after a crash. So the log is written over
// before the answer is given: an answer that is not ErrUnknown stays true.
func (w *writer) resolve(o *op, cause error) error {
	landed, err := false, error(nil)
	for try := range 3 {
		if try > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		w.abandon(cause)
		if landed, err = w.look(o); err == nil {
			break
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing store %s: %w: the commit failed (%w), and so did looking for it (%w); check the disk, then resume the run", w.s.path, runlog.ErrUnknown, cause, err)
	case landed:
		return nil
	}
	return fmt.Errorf("nothing was stored: %w", w.s.explain("writing", cause))
}

func (w *writer) look(o *op) (landed bool, err error) {
	if err := w.begin(context.Background()); err != nil {
		return false, err
	}
	landed, err = o.landed(w.c)
	if err == nil {
		err = w.c.exec("UPDATE meta SET value = value + 1 WHERE name = 'fences'", nil)
	}
	if err == nil {
		err = w.commit(w.c)
	}
	if err != nil {
		w.abandon(err) // which rolls back
	}
	return landed, err
}
