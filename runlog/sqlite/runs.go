package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

// A row is a row of the table of runs.
type row struct {
	no     int64
	info   runlog.Info // as stored
	holder string
	until  time.Time
}

// headPos is the position of a run's last record in the table records, in one seek.
const headPos = "(SELECT pos FROM records WHERE pos > runs.no << 32 AND pos < (runs.no + 1) << 32 ORDER BY pos DESC LIMIT 1)"

// selectRuns is followed by a condition.
const selectRuns = `SELECT no, id, workflow, title, status, created, updated, epoch, snapshot, cancel, owner, holder, lease_until, parent, takeovers,
	` + headPos + `, summary
	FROM runs `

func (v view) scanRow(st *zsqlite.Stmt) row {
	moment := func(col int) time.Time { return time.Unix(0, st.ColumnInt64(col)).UTC() }
	r := row{no: st.ColumnInt64(0), holder: st.ColumnText(11), until: moment(12)}
	r.info = runlog.Info{
		ID:       st.ColumnText(1),
		Workflow: st.ColumnText(2),
		Title:    st.ColumnText(3),
		Status:   runlog.Status(st.ColumnText(4)),
		Created:  moment(5),
		Updated:  moment(6),
		Epoch:    uint64(st.ColumnInt64(7)),
		Snapshot: uint64(st.ColumnInt64(8)),
		Cancel:   st.ColumnBool(9),
		Owner:    st.ColumnText(10),

		Parent:    st.ColumnText(13),
		Takeovers: int(st.ColumnInt64(14)),
	}
	r.info.Head = v.head(r.no, uint64(st.ColumnInt64(15))&maxSeq)
	summary := make([]byte, st.ColumnLen(16))
	r.info.Summary = string(summary[:st.ColumnBytes(16, summary)])
	return r
}

// findRow reads the row of a run, and returns nil if there is none.
func (v view) findRow(id string) (found *row, err error) {
	err = v.c.query(selectRuns+"WHERE id = ?1", func(st *zsqlite.Stmt) { st.BindText(1, id) }, func(st *zsqlite.Stmt) bool {
		r := v.scanRow(st)
		found = &r
		return false
	})
	if err == nil && found != nil {
		err = v.c.confirm(found.no, id)
	}
	return found, err
}

// confirm checks that a run's row is where the index of IDs points: records do not name their run, so with a damaged index one run's records could pass
// for another's.
func (c *conn) confirm(no int64, id string) error {
	n, err := c.integer("SELECT count(*) FROM runs WHERE no = ?1 AND +id = ?2", func(st *zsqlite.Stmt) {
		st.BindInt64(1, no)
		st.BindText(2, id)
	})
	if err == nil && n != 1 {
		err = dbError{fmt.Errorf("the index of IDs and the table of runs disagree about run %s: %w", id, zsqlite.ResultCorrupt.ToError())}
	}
	return err
}

// findRow reads the row of a run within the open transaction.
func (w *writer) findRow(id string) (view, *row, error) {
	v, err := w.view()
	if err != nil {
		return v, nil, err
	}
	r, err := v.findRow(id)
	return v, r, err
}

// foundRow reads the row of a run for a later check.
func foundRow(c *conn, id string) (*row, error) {
	v, err := (&index{}).view(c)
	if err != nil {
		return nil, err
	}
	return v.findRow(id)
}

// reading lends a connection with a transaction that reads.
func (s *store) reading(ctx context.Context, f func(v view) error) error {
	if err := s.there(); err != nil {
		return err
	}
	return s.readers.with(ctx, func(c *conn) error {
		return c.snapshot(func() error {
			v, err := s.recent.view(c)
			if err != nil {
				return err
			}
			return f(v)
		})
	})
}

// claim returns the holder from the run's row.
func (r *row) claim() owners.Claim { return owners.Claim{Holder: r.holder, Until: r.until.UnixNano()} }

// free returns nil if the run may be taken from its former holder, see [owners.Owners.Free].
func (s *store) free(r *row, seen *owners.Doubt) error {
	return s.owners.Free(s.now(), r.claim(), seen, &runlog.BusyError{ID: r.info.ID, Owner: r.info.Owner, Until: r.until})
}

// patiently is [owners.Patiently] for this store.
func (s *store) patiently(ctx context.Context, f func(seen *owners.Doubt) error) error {
	return owners.Patiently(ctx, s.lease, s.closing, fmt.Errorf("writing store %s: %w", s.path, storekit.ErrClosed), f)
}

func (s *store) notFound(id string) error { return &runlog.NotFoundError{ID: id, Store: s.path} }

// Acquire implements [runlog.Store].
func (s *store) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if err := runlog.CheckID(id); err != nil {
		return nil, runlog.Info{}, err
	}
	holder, err := s.owners.Join()
	if err != nil {
		return nil, runlog.Info{}, s.shortage(err)
	}
	a := &acquiring{s: s, id: id, holder: holder}
	if opt != nil {
		a.opt = *opt
	}
	err = s.patiently(ctx, func(seen *owners.Doubt) error {
		a.seen = seen
		return s.write(ctx, &op{apply: a.apply, landed: a.landed})
	})
	if err != nil {
		return nil, runlog.Info{}, storekit.Diagnose(ctx, s, id, err)
	}
	return a.log, a.info, nil
}

type acquiring struct {
	s      *store
	id     string
	holder string
	opt    runlog.AcquireOptions
	seen   *owners.Doubt // nil at first
	log    *log
	info   runlog.Info
}

func (a *acquiring) apply(w *writer) error {
	if err := w.s.reserve.room(); err != nil {
		return a.s.shortage(err)
	}
	v, r, err := w.findRow(a.id)
	switch {
	case err != nil:
		return err
	case a.opt.Create != nil && r != nil:
		return fmt.Errorf("run %s: %w", a.id, runlog.ErrExists)
	case a.opt.Create == nil && r == nil:
		return a.s.notFound(a.id)
	case r != nil:
		if err := a.s.free(r, a.seen); err != nil {
			return err
		}
		if r.info.Takeovers, err = r.info.TakeOver(r.holder != "", &a.opt); err != nil {
			return err
		}
	}
	now := a.s.now().UTC()
	if r == nil {
		return a.insert(w, now)
	}
	hash, err := v.lastHash(r)
	if err != nil {
		return err
	}
	a.took(w, r, hash, now)
	return w.c.exec("UPDATE runs SET epoch = ?2, updated = ?3, owner = ?4, holder = ?5, lease_until = ?6, takeovers = ?7 WHERE no = ?1", func(st *zsqlite.Stmt) {
		st.BindInt64(1, r.no)
		st.BindInt64(2, int64(a.info.Epoch))
		st.BindInt64(3, now.UnixNano())
		st.BindText(4, a.s.owner)
		st.BindText(5, a.holder)
		st.BindInt64(6, now.Add(a.s.lease).UnixNano())
		st.BindInt64(7, int64(a.info.Takeovers))
	})
}

// took creates the log of a run that is acquired with the next epoch.
func (a *acquiring) took(w *writer, r *row, hash runlog.FrameHash, now time.Time) {
	a.info = r.info
	a.info.Epoch++
	a.info.Updated = now
	a.info.Owner = a.s.owner
	a.log = &log{Hold: storekit.Hold{ID: a.id}, s: a.s, no: r.no, epoch: a.info.Epoch}
	a.log.tail = storekit.Tail{Seq: r.info.Head, Hash: hash, Status: r.info.Status, Snapshot: r.info.Snapshot}
	w.epochs[r.no] = a.info.Epoch
}

// insert creates the run.
func (a *acquiring) insert(w *writer, now time.Time) error {
	status := cmp.Or(a.opt.Create.Status, runlog.Running)
	err := w.c.exec(`INSERT INTO runs (id, workflow, title, status, created, updated, parent, epoch, owner, holder, lease_until)
			VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, 1, ?7, ?8, ?9)`, func(st *zsqlite.Stmt) {
		st.BindText(1, a.id)
		st.BindText(2, a.opt.Create.Workflow)
		st.BindText(3, a.opt.Create.Title)
		st.BindText(4, string(status))
		st.BindInt64(5, now.UnixNano())
		st.BindText(6, a.opt.Create.Parent)
		st.BindText(7, a.s.owner)
		st.BindText(8, a.holder)
		st.BindInt64(9, now.Add(a.s.lease).UnixNano())
	})
	if err != nil {
		return err
	}
	a.took(w, &row{no: w.c.sq.LastInsertRowID(), info: runlog.Info{
		ID: a.id, Workflow: a.opt.Create.Workflow, Title: a.opt.Create.Title, Status: status, Created: now, Parent: a.opt.Create.Parent,
	}}, runlog.FrameHash{}, now)
	return nil
}

func (a *acquiring) landed(c *conn) (bool, error) {
	r, err := foundRow(c, a.id)
	return err == nil && r != nil && r.holder == a.holder && r.info.Epoch == a.info.Epoch, err
}

// lastHash checks a run's last record and returns its hash.
func (v view) lastHash(r *row) (runlog.FrameHash, error) {
	head := r.info.Head
	if r.info.Snapshot > head {
		return runlog.FrameHash{}, runlog.NewChain(r.info.ID, head+1).Damaged("it is missing, though a later one was written")
	}
	if head == 0 {
		return runlog.FrameHash{}, nil
	}
	before, err := v.lastBefore(r.no, head)
	if err != nil {
		return runlog.FrameHash{}, err
	}
	chain := runlog.NewChain(r.info.ID, before+1)
	var damage error
	err = v.eachRow(r.no, head, head, func(seq uint64, frames []byte) bool {
		damage = nextRow(chain, seq, frames, func(rec *runlog.Record) {
			if rec.Epoch > r.info.Epoch && damage == nil {
				damage = runlog.NewChain(r.info.ID, rec.Seq).Damaged(fmt.Sprintf("epoch %d in a run of epoch %d", rec.Epoch, r.info.Epoch))
			}
		})
		return false
	})
	return chain.Hash, errors.Join(err, damage)
}

// Runs implements [runlog.Store].
func (s *store) Runs(ctx context.Context, f *runlog.Filter) (infos []runlog.Info, err error) {
	if f == nil {
		f = &runlog.Filter{}
	}
	if f.Prefix != "" && runlog.CheckID(f.Prefix) != nil {
		return nil, ctx.Err() // no ID begins like that
	}
	where, bind := condition(f)
	err = s.reading(ctx, func(v view) error {
		infos = nil
		live := s.owners.Liveness(s.now())
		return v.c.query(selectRuns+where+"ORDER BY no DESC", bind, func(st *zsqlite.Stmt) bool {
			r := v.scanRow(st)
			r.info.Show(live.Held(r.claim()), r.holder != "")
			if f.Takes(r.info.Status) {
				infos = append(infos, r.info)
			}
			return ctx.Err() == nil && (f.Limit <= 0 || len(infos) < f.Limit)
		})
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, s.explain("reading", err)
	}
	return infos, nil
}

// condition returns the SQL condition for the part of a filter that the database evaluates. Values are bound, so each
// set of fields has one text.
func condition(f *runlog.Filter) (where string, bind func(*zsqlite.Stmt)) {
	var terms, values []string
	term := func(sql string, vs ...string) {
		terms = append(terms, sql)
		values = append(values, vs...)
	}
	if f.ID != "" {
		term("id = ?", f.ID)
	}
	if p := f.Prefix; p != "" {
		// IDs are ASCII, so the last byte has a successor, and bytes compare as text.
		term("id >= ? AND id < ?", p, p[:len(p)-1]+string(p[len(p)-1]+1))
	}
	switch {
	case len(f.Status) == 1 && (f.Status[0] == runlog.Interrupted || f.Status[0] == runlog.Quarantined):
		term("status = ?", string(runlog.Running))
	case len(f.Status) == 1:
		term("status = ?", string(f.Status[0]))
	}
	if len(terms) == 0 {
		return "", nil
	}
	return "WHERE " + strings.Join(terms, " AND ") + " ", func(st *zsqlite.Stmt) {
		for i, v := range values {
			st.BindText(i+1, v)
		}
	}
}

// Read implements [runlog.Store]. A limit of 0 or less means all.
func (s *store) Read(ctx context.Context, id string, from uint64, limit int) (records []runlog.Record, err error) {
	from = min(max(from, 1), maxSeq+1)
	err = s.reading(ctx, func(v view) error { return s.read(ctx, v, id, from, limit, &records) })
	return records, s.explain("reading", err)
}

func (s *store) read(ctx context.Context, v view, id string, from uint64, limit int, records *[]runlog.Record) error {
	no, err := v.c.integer("SELECT no FROM runs WHERE id = ?1", func(st *zsqlite.Stmt) { st.BindText(1, id) })
	if err != nil {
		return err
	}
	if no == 0 {
		return s.notFound(id)
	}
	if err := v.c.confirm(no, id); err != nil {
		return err
	}
	start := max(from-1, 1) // one earlier, to check the link
	before, err := v.lastBefore(no, start)
	if err != nil {
		return err
	}
	chain := runlog.NewChain(id, before+1)
	full := func() bool { return limit > 0 && len(*records) >= limit }
	var damage error
	err = v.eachRow(no, start, maxSeq, func(seq uint64, frames []byte) bool {
		damage = nextRow(chain, seq, frames, func(rec *runlog.Record) {
			if rec.Seq >= from && !full() {
				*records = append(*records, *rec)
			}
		})
		return damage == nil && !full() && ctx.Err() == nil
	})
	if full() {
		damage = nil // it is behind what was asked for
	}
	if code(err) == zsqlite.ResultCorrupt {
		err = chain.Damaged(s.explain("reading", err).Error())
	}
	return errors.Join(damage, err, ctx.Err())
}

// RequestCancel implements [runlog.Store].
func (s *store) RequestCancel(ctx context.Context, id string) error {
	apply := func(w *writer) error {
		_, r, err := w.findRow(id)
		if err != nil {
			return err
		}
		if r == nil {
			return s.notFound(id)
		}
		if r.info.Status.Ended() {
			return nil // there is nothing left to stop
		}
		return w.c.exec("UPDATE runs SET cancel = 1 WHERE no = ?1", func(st *zsqlite.Stmt) { st.BindInt64(1, r.no) })
	}
	landed := func(c *conn) (bool, error) {
		r, err := foundRow(c, id)
		return r != nil && (r.info.Cancel || r.info.Status.Ended()), err
	}
	return s.write(ctx, &op{apply: apply, landed: landed})
}

// Delete implements [runlog.Store].
func (s *store) Delete(ctx context.Context, id string) error {
	var seen *owners.Doubt
	apply := func(w *writer) error {
		v, r, err := w.findRow(id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return s.notFound(id)
		}
		if err := s.free(r, seen); err != nil {
			return err
		}
		delete(w.epochs, r.no)
		if v.shared(r.no) {
			if err := w.gather(); err != nil {
				return err
			}
		}
		err = w.c.exec("DELETE FROM records WHERE pos BETWEEN ?1 AND ?2", func(st *zsqlite.Stmt) {
			st.BindInt64(1, first(r.no))
			st.BindInt64(2, first(r.no)+maxSeq)
		})
		if err != nil {
			return err
		}
		return w.c.exec("DELETE FROM runs WHERE no = ?1", func(st *zsqlite.Stmt) { st.BindInt64(1, r.no) })
	}
	landed := func(c *conn) (bool, error) {
		r, err := foundRow(c, id)
		return r == nil, err
	}
	err := s.patiently(ctx, func(d *owners.Doubt) error {
		seen = d
		return s.write(ctx, &op{apply: apply, landed: landed, urgent: true}) // it makes room
	})
	if err == nil {
		s.watch.Wake(id)
	}
	return err
}

// Sizes implements [runlog.Sizer]: the bytes of the frames. It reads them all past; the
// pages of large ones excepted.
func (s *store) Sizes(ctx context.Context, f *runlog.Filter) (sizes map[string]int64, err error) {
	infos, err := s.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	sizes = map[string]int64{}
	err = s.reading(ctx, func(v view) error {
		for i := range infos {
			if err := ctx.Err(); err != nil {
				return err
			}
			no, err := v.c.integer("SELECT no FROM runs WHERE id = ?1", func(st *zsqlite.Stmt) { st.BindText(1, infos[i].ID) })
			if err != nil {
				return err
			}
			n, err := v.c.integer("SELECT sum(length(frames)) FROM records WHERE pos BETWEEN ?1 AND ?2", func(st *zsqlite.Stmt) {
				st.BindInt64(1, first(no))
				st.BindInt64(2, first(no)+maxSeq)
			})
			if err != nil {
				return err
			}
			for _, p := range v.places(no, 0, maxSeq) {
				n += int64(p.size)
			}
			if n > 0 {
				sizes[infos[i].ID] = n
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.explain("reading", err)
	}
	return sizes, nil
}
