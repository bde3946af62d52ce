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
	// urgent says that it parks a run, gives it up or deletes it, and may use the reserve for it.
	urgent bool

	done     chan error
	finished bool
}

// write has an op done: by the caller who has the turn to write, or else by this
// one. If ctx ends before the op's transaction has begun, nothing is written.
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

// A writer is what a store writes with. Whoever takes it from Store.turn writes,
// for all who are waiting by then; no goroutine has to be woken for a single
// append. Ops that arrive while a transaction is being committed share the next.
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

// serve writes o, and what else is waiting, and passes the turn on. If something panics,
// the others that share the write are told that its outcome is unknown.
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

// group writes o, and what else is waiting by then, in one transaction. If an op
// fails in the database for reasons of its own, the others are done again without it.
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

// company waits until as many ops as last time are there, if those were many: their callers
// have been told, and are likely to come with the next. It waits no longer than the last
// commit took, which is what each of them costs less if they share one.
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

// filled ends the filling of a transaction. Of those who share a row that cannot be
// written, one is taken to be at fault.
func (w *writer) filled(in []*op) ([]*op, *op, error) {
	if err := w.flush(); err != nil {
		return in[:len(in)-1], in[len(in)-1], err
	}
	return in, nil, nil
}

// end commits the transaction that the ops of group are in, and returns those that are to
// be tried again, unless they were.
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

// begin opens a transaction for a caller who waits no longer than ctx.
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

// connect ensures that there is a connection.
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

// lookAround forgets what is known of the file if others have written to it. It is called
// in a transaction, so that they cannot while it counts.
func (w *writer) lookAround() error {
	version, err := w.c.integer("PRAGMA data_version", nil)
	if err != nil || version == w.version && w.epochs != nil {
		return err
	}
	w.version, w.epochs = version, map[int64]uint64{}
	w.recent, err = w.c.integer("SELECT (SELECT max(no) FROM recent) - (SELECT min(no) FROM recent)", nil)
	return err
}

// forget drops what the transaction has changed, in memory.
func (w *writer) forget() {
	w.epochs, w.row = nil, w.row[:0]
	w.rows.forget() // before others can reuse the numbers of its rows
}

// view returns what the open transaction sees.
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

// tidy does what can wait until callers have been told: it moves the rows of the table
// recent when there are many, and makes the reserve again.
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

// abandon gives the connection up after an error, since what it remembers of the
// file cannot be trusted any more.
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
