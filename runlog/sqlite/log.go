package sqlite

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/superstep-dev/superstep/runlog"
	zsqlite "zombiezen.com/go/sqlite"
)

const maxSeq = math.MaxUint32 // the low half of records.pos

// first is the smallest pos that a record of a run can have, less one.
func first(no int64) int64 { return no << 32 }

// A log is the hold of one store on one run.
type log struct {
	s     *Store
	id    string
	no    int64
	epoch uint64

	mu       sync.Mutex
	released bool
	lost     error // why it is unknown what the log holds, nil if it is known

	// What follows belongs to whoever has the turn to write.
	durable tail   // as of the last commit
	open    tail   // as of the open transaction
	tx      uint64 // which one that is
}

// A tail is what is needed of a log to go on with it.
type tail struct {
	seq      uint64
	hash     runlog.FrameHash
	status   runlog.Status
	snapshot uint64
}

// usable says whether the log may still write, as far as this process knows.
func (l *log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return l.fenced()
	}
	return l.lost
}

func (l *log) fenced() error { return fmt.Errorf("run %s: %w", l.id, runlog.ErrFenced) }

// Append implements runlog.Log. After an error that wraps ErrUnknown this hold of
// the run writes no more: release it and acquire the run again.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	if err := l.usable(); err != nil {
		return err
	}
	a := &appending{l: l, b: b}
	if err := l.s.write(ctx, &op{apply: a.apply, landed: a.landed, settle: a.settle, firm: len(b.Records) > 0}); err != nil {
		return err
	}
	for i := range b.Records {
		b.Records[i].Seq, b.Records[i].Epoch = a.from+uint64(i), l.epoch
	}
	if len(b.Records) > 0 {
		l.s.watch.wake(l.id)
	}
	return nil
}

// An appending is one batch on its way into the log.
type appending struct {
	l    *log
	b    *runlog.Batch
	from uint64 // the sequence number of its first record
	then tail   // the log behind it
}

// apply writes the batch. The first statement that writes also checks the epoch, so
// a stale writer changes nothing.
func (a *appending) apply(w *writer) error {
	l := a.l
	if l.tx != w.tx {
		l.open, l.tx = l.durable, w.tx
	}
	if err := l.usable(); err != nil { // an op before this one may have found out
		return err
	}
	if l.open.status.Ended() { // only whoever has the epoch changes it
		return &runlog.EndedError{ID: l.id, Status: l.open.status}
	}
	if err := a.encode(w); err != nil {
		return err
	}
	start := 0
	for i, end := range w.ends {
		if err := l.insert(w.c, a.from+uint64(i), w.frames[start:end], i == 0); err != nil {
			return err
		}
		w.s.fail("sqlite.mid-write")
		w.bytes += end - start
		start = end
	}
	if err := a.updateRun(w.c); err != nil {
		return err
	}
	l.open = a.then
	return nil
}

// encode puts the frames of the batch into the writer's scratch memory.
func (a *appending) encode(w *writer) error {
	a.from, a.then = a.l.open.seq+1, a.l.open
	w.frames, w.ends = w.frames[:0], w.ends[:0]
	if cap(w.frames) > 4<<20 {
		w.frames = nil // do not keep what one large batch took
	}
	if a.b.Status != "" {
		a.then.status = a.b.Status
	}
	for i := range a.b.Records {
		rec := a.b.Records[i]
		a.then.seq++
		if a.then.seq > maxSeq {
			return fmt.Errorf("run %s has %d records, as many as a run can have; start a new run", a.l.id, a.then.seq-1)
		}
		rec.Seq, rec.Epoch = a.then.seq, a.l.epoch
		if rec.Kind == runlog.KindSnapshot {
			a.then.snapshot = rec.Seq
		}
		var err error
		if w.frames, a.then.hash, err = runlog.AppendFrame(w.frames, a.then.hash, &rec); err != nil {
			return fmt.Errorf("run %s: %w", a.l.id, err)
		}
		w.ends = append(w.ends, len(w.frames))
	}
	return nil
}

// insert writes a frame. With check it writes only while the epoch is still the log's.
func (l *log) insert(c *conn, seq uint64, frame []byte, check bool) error {
	sql := "INSERT INTO records (pos, frame) VALUES (?1, ?2)"
	if check {
		sql = "INSERT INTO records (pos, frame) SELECT ?1, ?2 FROM runs WHERE no = ?3 AND epoch = ?4"
	}
	err := c.exec(sql, func(st *zsqlite.Stmt) {
		st.BindInt64(1, first(l.no)+int64(seq))
		st.BindBytes(2, frame)
		if check {
			st.BindInt64(3, l.no)
			st.BindInt64(4, int64(l.epoch))
		}
	})
	switch {
	case code(err) == zsqlite.ResultConstraint:
		return dbError{fmt.Errorf("run %s already has a record %d that this process did not write: %w (%w)", l.id, seq, runlog.ErrFenced, err)}
	case err == nil && check && c.sq.Changes() == 0:
		return l.fenced()
	}
	return err
}

// updateRun changes the run's row if the batch changes what it says. A batch
// without records and without a change still finds out whether the run is held.
func (a *appending) updateRun(c *conn) error {
	l, was, now := a.l, a.l.open, a.then
	if len(a.b.Records) > 0 && was.status == now.status && was.snapshot == now.snapshot {
		return nil
	}
	updated := l.s.now().UnixNano()
	err := c.exec(`UPDATE runs SET status = ?3, snapshot = ?4,
			updated = CASE WHEN status = ?3 THEN updated ELSE ?5 END,
			cancel = CASE WHEN ?6 THEN 0 ELSE cancel END
		WHERE no = ?1 AND epoch = ?2`, func(st *zsqlite.Stmt) {
		st.BindInt64(1, l.no)
		st.BindInt64(2, int64(l.epoch))
		st.BindText(3, string(now.status))
		st.BindInt64(4, int64(now.snapshot))
		st.BindInt64(5, updated)
		st.BindBool(6, now.status.Ended())
	})
	if err == nil && c.sq.Changes() == 0 {
		return l.fenced()
	}
	return err
}

// landed looks for the batch's last frame, which nobody else can have written.
func (a *appending) landed(c *conn) (found bool, err error) {
	if len(a.b.Records) == 0 {
		n, err := c.integer("SELECT count(*) FROM runs WHERE no = ?1 AND epoch = ?2 AND status = ?3", func(st *zsqlite.Stmt) {
			st.BindInt64(1, a.l.no)
			st.BindInt64(2, int64(a.l.epoch))
			st.BindText(3, string(a.then.status))
		})
		return n == 1, err
	}
	err = c.query("SELECT frame FROM records WHERE pos = ?1", func(st *zsqlite.Stmt) {
		st.BindInt64(1, first(a.l.no)+int64(a.then.seq))
	}, func(st *zsqlite.Stmt) bool {
		_, _, self, _, err := runlog.DecodeFrame(blob(st))
		found = err == nil && self == a.then.hash
		return false
	})
	return found, err
}

func (a *appending) settle(err error) {
	if err == nil {
		a.l.durable = a.then
		return
	}
	a.l.noteLost(err)
}

// noteLost remembers an outcome that nobody knows.
func (l *log) noteLost(err error) {
	if isUnknown(err) {
		l.mu.Lock()
		l.lost = err
		l.mu.Unlock()
	}
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.usable(); err != nil {
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
			return l.fenced()
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
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	bind := func(st *zsqlite.Stmt) {
		st.BindInt64(1, l.no)
		st.BindInt64(2, int64(l.epoch))
	}
	apply := func(w *writer) error {
		return w.c.exec("UPDATE runs SET owner = '', holder = '', lease_until = 0, takeovers = 0 WHERE no = ?1 AND epoch = ?2 AND holder <> ''", bind)
	}
	landed := func(c *conn) (bool, error) {
		n, err := c.integer("SELECT count(*) FROM runs WHERE no = ?1 AND epoch = ?2 AND holder <> ''", bind)
		return n == 0, err
	}
	return l.s.write(ctx, &op{apply: apply, landed: landed})
}
