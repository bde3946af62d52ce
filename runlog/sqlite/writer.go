package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

// The most that shares one transaction.
const (
	maxGroupOps   = 2048
	maxGroupBytes = 16 << 20
)

// maxPatience is the longest wait for others to share a commit with.
const maxPatience = 2 * time.Millisecond

// An op is one write. The current writer calls its functions.
type op struct {
	ctx context.Context

	// apply performs the write inside a transaction. It is called again if the transaction fails because of another op. It returns errors of the database
	// unchanged; any other error means that nothing was written.
	apply func(w *writer) error
	// landed reports whether the write of apply is in the database.
	landed func(c *conn) (bool, error)
	// firm means that no other write can change the result of landed.
	firm bool
	// urgent means that the op parks, releases or deletes a run, and may use the reserve.
	urgent bool

	done     chan error
	finished bool
}

// write executes an op, either through the current writer or by becoming the writer. If ctx ends before the op's transaction has begun, nothing is
// written.
func (s *store) write(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.ctx = ctx
	o.done = make(chan error, 1)
	select {
	case w := <-s.turn:
		w.serve(o)
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return fmt.Errorf("writing store %s: %w", s.path, storekit.ErrClosed)
	}
	return <-o.done
}

// A writer performs the writes of a store. The goroutine that takes it from Store.turn writes its own op and all waiting ones, so that a single append
// wakes no other goroutine. Ops that arrive during a commit share the next transaction.
type writer struct {
	s      *store
	c      *conn // nil after a failure, until it is opened again
	commit func(*conn) error
	bytes  int           // what the open transaction has taken so far
	taken  []*op         // what this turn writes
	runs   int           // how many runs append in it
	before int           // and how many did in the one before
	shared int           // how many ops the last commit was of
	took   time.Duration // by the last commit

	version int64            // what PRAGMA data_version said when epochs was last right
	epochs  map[int64]uint64 // of runs, by number, as far as they are known

	row      []byte // of the table recent, being filled
	rows     index  // what the writer knows of that table
	recent   int64  // how many rows the table has
	gatherAt int64  // how many it may have before they are moved
}

// serve writes o and all waiting ops, and passes the turn on. If it panics, the other callers in the transaction learn that the outcome is unknown.
func (w *writer) serve(o *op) {
	w.taken = append(w.taken[:0], o)
	whole := false
	defer func() {
		if !whole {
			w.panicked()
		}
		clear(w.taken)
		w.s.turn <- w
	}()
	w.group(o)
	whole = true
}

func (w *writer) panicked() {
	err := fmt.Errorf("writing store %s: %w: something panicked in it", w.s.path, runlog.ErrUnknown)
	w.abandon(err)
	for _, o := range w.taken {
		if !o.finished {
			o.finish(err)
		}
	}
}

// finish reports the outcome to the op's caller.
func (o *op) finish(err error) {
	o.finished = true
	o.done <- err
}

func finishAll(group []*op, err error) {
	for _, o := range group {
		o.finish(err)
	}
}

// group writes o and all waiting ops in one transaction. If one op fails in the database, the others are retried without it.
func (w *writer) group(o *op) {
	w.before, w.runs = w.runs, 0
	todo, ctx := w.company(o), o.ctx
	again := false
	for len(todo) > 0 {
		w.s.fail("sqlite.before-begin")
		if err := w.begin(ctx); err != nil {
			err = w.s.explain("writing", err)
			if ctx.Err() != nil && len(todo) > 1 { // which ends the wait of one of them only
				todo[0].finish(err)
				todo = todo[1:]
				ctx = todo[0].ctx
				continue
			}
			finishAll(todo, err)
			return
		}
		in, out, err := w.fill(todo)
		ctx = context.Background()
		if out == nil {
			todo, again = w.end(in, again), true
			continue
		}
		w.undo()
		switch code(err) {
		case zsqlite.ResultConstraint, zsqlite.ResultTooBig, zsqlite.ResultCorrupt:
			out.finish(w.s.explain("writing", err))
			todo = in
		default:
			if code(err) != zsqlite.ResultFull {
				w.abandon(err)
			}
			todo, again = w.spare(append(in, out), err, again), true
		}
	}
	w.tidy()
}

// company waits until as many ops are queued as last time, if those were many: their callers are likely to send the next ones soon. It waits no longer
// than the last commit took, because sharing a commit saves each op that much.
func (w *writer) company(o *op) (group []*op) {
	group = []*op{o}
	if w.before < crowd || w.took <= 0 {
		return group
	}
	enough := time.NewTimer(min(w.took, maxPatience))
	defer enough.Stop()
	for len(group) < w.shared {
		select {
		case o := <-w.s.ops:
			w.taken, group = append(w.taken, o), append(group, o)
		case <-enough.C:
			return group
		}
	}
	return group
}

// fill applies ops in the open transaction, first todo, then the waiting ones, and returns the applied ops. If an op fails in the database, fill also
// returns that op, its error and the ops that it has not reached. It finishes ops that need no transaction.
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
				w.taken = append(w.taken, o)
			default:
				return w.filled(in)
			}
		default:
			return w.filled(in)
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

// filled completes the content of a transaction. If a shared row cannot be written, one of its ops is treated as the failed one.
func (w *writer) filled(in []*op) ([]*op, *op, error) {
	if err := w.flush(); err != nil {
		return in[:len(in)-1], in[len(in)-1], err
	}
	return in, nil, nil
}

// end commits the transaction of a group, and returns the ops to retry, none if they were already retried.
func (w *writer) end(group []*op, again bool) (urgent []*op) {
	if len(group) == 0 {
		w.undo()
		return nil
	}
	w.s.fail("sqlite.before-commit")
	began := time.Now()
	err := w.commit(w.c)
	w.took, w.shared = time.Since(began), len(group)
	switch code(err) {
	case zsqlite.ResultOK:
		w.s.fail("sqlite.after-commit")
	case zsqlite.ResultFull, zsqlite.ResultBusy:
		// The last frame of the log, without which the others count for nothing, was not written.
		w.undo()
		return w.spare(group, err, again)
	default:
		witness := slices.IndexFunc(group, func(o *op) bool { return o.firm })
		err = w.resolve(group[max(witness, 0)], err)
	}
	finishAll(group, err)
	return nil
}

// begin opens a transaction. It stops waiting when ctx ends.
func (w *writer) begin(ctx context.Context) error {
	if err := w.s.there(); err != nil {
		return err
	}
	if err := w.connect(); err != nil {
		return err
	}
	w.bytes = 0
	err := w.c.begin(ctx)
	if err == nil {
		err = w.lookAround()
	}
	if err != nil && code(err) != zsqlite.ResultBusy && ctx.Err() == nil {
		w.abandon(err)
	}
	return err
}

// connect opens the connection if there is none.
func (w *writer) connect() error {
	if w.c != nil {
		return nil
	}
	c, err := openConn(w.s.path)
	if err != nil {
		return err
	}
	w.c, w.version = c, 0
	return nil
}

// lookAround drops cached data of the file if other processes have written to it. It is called in a transaction, during which they cannot write.
func (w *writer) lookAround() error {
	version, err := w.c.integer("PRAGMA data_version", nil)
	if err != nil || version == w.version && w.epochs != nil {
		return err
	}
	w.version, w.epochs = version, map[int64]uint64{}
	w.recent, err = w.c.integer("SELECT (SELECT max(no) FROM recent) - (SELECT min(no) FROM recent)", nil)
	return err
}

// forget drops the in-memory changes of the transaction.
func (w *writer) forget() {
	w.epochs, w.row = nil, w.row[:0]
	w.rows.forget() // before others can reuse the numbers of its rows
}

// view returns a view of the open transaction.
func (w *writer) view() (view, error) {
	if err := w.flush(); err != nil {
		return view{}, err
	}
	return w.rows.view(w.c)
}

// undo rolls the transaction back.
func (w *writer) undo() {
	w.forget()
	w.abandon(w.c.rollback())
}

// tidy does the work that can wait until callers have their results: it moves the rows of the table recent when there are many, and recreates the
// reserve.
func (w *writer) tidy() {
	if w.c == nil {
		return
	}
	w.s.reserve.keep()
	if w.recent < w.gatherAt || w.begin(context.Background()) != nil {
		return
	}
	err := w.gather()
	if err == nil {
		err = w.commit(w.c)
	}
	if err != nil {
		w.abandon(err) // another time: the rows are as safe where they are
		w.gatherAt += maxRecentRows / 2
		return
	}
	w.gatherAt = maxRecentRows
}

// abandon closes the connection after an error, since its cached data of the file may be wrong.
func (w *writer) abandon(err error) {
	if err != nil && w.c != nil {
		w.forget()
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
		return fmt.Errorf("writing store %s: %w: the commit failed (%w), and so did looking for it (%w); check the disk, then resume the run",
			w.s.path, runlog.ErrUnknown, cause, err)
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
