package sqlite

import (
	"context"
	"fmt"
	"math"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

const maxSeq = math.MaxUint32 // the low half of records.pos

// first returns the smallest pos that a record of a run can have, less one.
func first(no int64) int64 { return no << 32 }

// A log is the hold of one store on one run.
type log struct {
	storekit.Hold
	s     *store
	no    int64
	epoch uint64
	tail  storekit.Tail // belongs to the append that is under way
}

// Append implements runlog.Log. After an error that wraps ErrUnknown this hold of the run no longer
// writes: release it and acquire the run again.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	return l.Alone(ctx, func() error {
		a, _ := l.s.scratch.Get().(*appending)
		if a == nil {
			a = &appending{}
		}
		a.l, a.b = l, b
		defer a.done()
		if err := a.encode(); err != nil {
			return err
		}
		if err := l.s.write(ctx, &op{apply: a.apply, landed: a.landed, firm: len(b.Records) > 0, urgent: b.Status == runlog.WaitingStorage}); err != nil {
			return err
		}
		l.tail.Number(b, l.epoch)
		l.tail = a.then
		if len(b.Records) > 0 {
			l.s.watch.Wake(l.ID)
		}
		return nil
	})
}

// An appending is one batch on its way into the log.
type appending struct {
	l      *log
	b      *runlog.Batch
	then   storekit.Tail // the log behind it
	frames []byte        // its records
	ends   []int         // where each of them ends
}

// encode encodes the frames of the batch. Callers do it before their turn, so that it does not
// cost time in the transaction.
func (a *appending) encode() error {
	a.then = a.l.tail
	var err error
	a.frames, a.ends, err = a.then.Encode(a.frames[:0], a.ends[:0], a.l.ID, a.l.epoch, a.b)
	if err == nil && a.then.Seq > maxSeq {
		err = fmt.Errorf("run %s has %d records, and a run can have %d: start a new run", a.l.ID, a.l.tail.Seq, int64(maxSeq))
	}
	return err
}

// apply checks the epoch and then writes the batch: a stale writer changes nothing.
func (a *appending) apply(w *writer) error {
	w.runs++
	if err := a.l.Usable(); err != nil { // it was released meanwhile
		return err
	}
	if err := w.check(a.l); err != nil {
		return err
	}
	if err := a.insert(w); err != nil {
		return err
	}
	return a.updateRun(w.c)
}

// done keeps the buffers of an append for the next one, unless they are large.
func (a *appending) done() {
	s := a.l.s
	if cap(a.frames) <= 1<<20 {
		*a = appending{frames: a.frames[:0], ends: a.ends[:0]}
		s.scratch.Put(a)
	}
}

// check returns ErrFenced unless the log holds the run. It caches the result until another process changes the file.
func (w *writer) check(l *log) error {
	if w.epochs[l.no] == l.epoch {
		return nil
	}
	epoch, err := w.c.integer("SELECT epoch FROM runs WHERE no = ?1", func(st *zsqlite.Stmt) { st.BindInt64(1, l.no) })
	if err != nil {
		return err
	}
	if uint64(epoch) != l.epoch {
		return l.Fenced()
	}
	w.epochs[l.no] = l.epoch
	return nil
}

// insert writes the encoded frames, as few rows.
func (a *appending) insert(w *writer) error {
	l, from, start := a.l, a.l.tail.Seq+1, 0
	shared := w.crowded() && len(a.frames) <= maxBatch
	for i, end := range a.ends {
		if i < len(a.ends)-1 && a.ends[i+1]-start <= maxRow {
			continue
		}
		write := w.insert
		if shared {
			write = w.share
		}
		if err := write(l.no, from+uint64(i), a.frames[start:end]); code(err) == zsqlite.ResultConstraint {
			return dbError{fmt.Errorf("run %s already has a record %d that this process did not write: %w (%w)", l.ID, from+uint64(i), runlog.ErrFenced, err)}
		} else if err != nil {
			return err
		}
		w.s.fail("sqlite.mid-write")
		w.bytes += end - start
		start = end
	}
	return nil
}

// insert writes a row of the table records.
func (w *writer) insert(run int64, last uint64, frames []byte) error {
	return w.c.exec("INSERT INTO records (pos, frames) VALUES (?1, ?2)", func(st *zsqlite.Stmt) {
		st.BindInt64(1, first(run)+int64(last))
		st.BindBytes(2, frames)
	})
}

// updateRun updates the run's row if the batch changes it. A batch without records and changes
// still checks whether the run is held.
func (a *appending) updateRun(c *conn) error {
	l, was, now := a.l, a.l.tail, a.then
	if len(a.b.Records) > 0 && was.Status == now.Status && was.Snapshot == now.Snapshot && a.b.Summary == "" {
		return nil
	}
	updated := l.s.now().UnixNano()
	err := c.exec(`UPDATE runs SET status = ?3, snapshot = ?4,
			updated = CASE WHEN status = ?3 THEN updated ELSE ?5 END,
			cancel = CASE WHEN ?6 THEN 0 ELSE cancel END,
			summary = coalesce(?7, summary)
		WHERE no = ?1 AND epoch = ?2`, func(st *zsqlite.Stmt) {
		st.BindInt64(1, l.no)
		st.BindInt64(2, int64(l.epoch))
		st.BindText(3, string(now.Status))
		st.BindInt64(4, int64(now.Snapshot))
		st.BindInt64(5, updated)
		st.BindBool(6, now.Status.Ended())
		if st.BindNull(7); a.b.Summary != "" {
			st.BindBytes(7, []byte(a.b.Summary))
		}
	})
	if err == nil && c.sq.Changes() == 0 {
		return l.Fenced()
	}
	return err
}

// landed looks for the batch's last frame, which no other writer can have written.
func (a *appending) landed(c *conn) (found bool, err error) {
	if len(a.b.Records) == 0 {
		n, err := c.integer("SELECT count(*) FROM runs WHERE no = ?1 AND epoch = ?2 AND status = ?3 AND summary IS coalesce(?4, summary)", func(st *zsqlite.Stmt) {
			st.BindInt64(1, a.l.no)
			st.BindInt64(2, int64(a.l.epoch))
			st.BindText(3, string(a.then.Status))
			if st.BindNull(4); a.b.Summary != "" {
				st.BindBytes(4, []byte(a.b.Summary))
			}
		})
		return n == 1, err
	}
	v, err := (&index{}).view(c)
	if err != nil {
		return false, err
	}
	err = v.eachRow(a.l.no, a.then.Seq, a.then.Seq, func(_ uint64, frames []byte) bool {
		_, _, self, _, err := runlog.DecodeFrame(lastFrame(frames))
		found = err == nil && self == a.then.Hash
		return false
	})
	return found, err
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.Usable(); err != nil {
		return false, err
	}
	var until int64
	apply := func(w *writer) error {
		until = l.s.now().Add(l.s.lease).UnixNano()
		held := false
		err := w.c.query("UPDATE runs SET lease_until = ?3 WHERE no = ?1 AND epoch = ?2 AND holder <> '' RETURNING cancel", func(st *zsqlite.Stmt) {
			st.BindInt64(1, l.no)
			st.BindInt64(2, int64(l.epoch))
			st.BindInt64(3, until)
		}, func(st *zsqlite.Stmt) bool {
			held, cancel = true, st.ColumnBool(0)
			return true
		})
		if err == nil && !held {
			return l.Fenced()
		}
		return err
	}
	landed := func(c *conn) (bool, error) {
		n, err := c.integer("SELECT lease_until FROM runs WHERE no = ?1 AND epoch = ?2", func(st *zsqlite.Stmt) {
			st.BindInt64(1, l.no)
			st.BindInt64(2, int64(l.epoch))
		})
		return n == until, err
	}
	if err := l.s.write(ctx, &op{apply: apply, landed: landed}); err != nil {
		return false, err
	}
	return cancel, nil
}

// Release implements runlog.Log. From the call on nothing can be appended, even if
// it fails; then it may be called again.
func (l *log) Release(ctx context.Context) error {
	l.End()
	bind := func(st *zsqlite.Stmt) {
		st.BindInt64(1, l.no)
		st.BindInt64(2, int64(l.epoch))
	}
	apply := func(w *writer) error {
		delete(w.epochs, l.no)
		return w.c.exec("UPDATE runs SET owner = '', holder = '', lease_until = 0, takeovers = 0 WHERE no = ?1 AND epoch = ?2 AND holder <> ''", bind)
	}
	landed := func(c *conn) (bool, error) {
		n, err := c.integer("SELECT count(*) FROM runs WHERE no = ?1 AND epoch = ?2 AND holder <> ''", bind)
		return n == 0, err
	}
	return l.s.write(ctx, &op{apply: apply, landed: landed, urgent: true})
}
