package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A row is a row of the table of runs.
type row struct {
	no    int64
	info  runlog.Info // as stored
	hold  int64
	rev   int64
	live  bool // its lease has not ended
	left  time.Duration
	bytes int64
	last  []byte // the frame at its head, where that was asked for
}

// selectRuns is followed by a condition.
const selectRuns = `SELECT no, id, workflow, title, parent, status, created, updated, epoch, hold, rev, head, snapshot, bytes, takeovers, cancel, owner,
	(extract(epoch FROM lease_until - clock_timestamp()) * 1000000)::bigint, summary `

func scanRow(v [][]byte) row {
	r := row{no: toInt(v[0]), hold: toInt(v[9]), rev: toInt(v[10]), bytes: toInt(v[13])}
	r.info = runlog.Info{
		ID:       string(v[1]),
		Workflow: string(v[2]),
		Title:    string(v[3]),
		Parent:   string(v[4]),
		Status:   runlog.Status(v[5]),
		Created:  toTime(v[6]),
		Updated:  toTime(v[7]),
		Epoch:    uint64(toInt(v[8])),
		Head:     uint64(toInt(v[11])),
		Snapshot: uint64(toInt(v[12])),

		Takeovers: int(toInt(v[14])),
		Cancel:    toBool(v[15]),
		Owner:     string(v[16]),
		Summary:   string(v[18]),
	}
	r.left = time.Duration(toInt(v[17])) * time.Microsecond
	r.live = r.left > 0
	return r
}

// held reports whether a process holds the run.
func (r *row) held() bool { return r.hold != 0 && r.live }

// busy returns an error for users, so it converts the end of the lease to this machine's clock.
func (r *row) busy() error {
	return &runlog.BusyError{ID: r.info.ID, Owner: r.info.Owner, Until: time.Now().Add(r.left)}
}

// find reads the row of a run and the frame at its head, nil if there is none.
func find(ctx context.Context, c *conn, id string) (found *row, err error) {
	err = c.query(ctx, selectRuns+", frame FROM runs LEFT JOIN records ON run = no AND seq = head WHERE id = $1", func(v [][]byte) error {
		r := scanRow(v)
		r.last = slices.Clone(v[19])
		found = &r
		return nil
	}, []byte(id))
	return found, err
}

func (s *store) notFound(id string) error { return &runlog.NotFoundError{ID: id, Store: s.name} }

// Acquire implements [runlog.Store].
func (s *store) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if err := runlog.CheckID(id); err != nil {
		return nil, runlog.Info{}, err
	}
	a := &acquiring{s: s, id: id, hold: newHold()}
	if opt != nil {
		a.opt = *opt
	}
	if err := s.with(ctx, writing, a.do); err != nil {
		return nil, runlog.Info{}, storekit.Diagnose(ctx, s, id, err)
	}
	return a.log, a.info, nil
}

// newHold returns a number that no other acquisition has.
func newHold() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1
}

type acquiring struct {
	s    *store
	id   string
	opt  runlog.AcquireOptions
	hold int64
	log  *log
	info runlog.Info
}

// errRace reports that another process was faster, so that the operation must be repeated.
var errRace = errors.New("the run keeps changing hands")

// do acquires the run. It decides based on what it reads, and writes only if that is unchanged. If
// it is repeated after an interruption, it finds its own hold.
func (a *acquiring) do(ctx context.Context, c *conn) error {
	for range 100 {
		r, err := find(ctx, c, a.id)
		switch {
		case err != nil:
			return err
		case r != nil && r.hold == a.hold:
			return a.taken(c, r)
		case r == nil && a.opt.Create == nil:
			return a.s.notFound(a.id)
		case r == nil:
			err = a.insert(ctx, c)
		case a.opt.Create != nil:
			return fmt.Errorf("run %s: %w", a.id, runlog.ErrExists)
		default:
			err = a.take(ctx, c, r)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("run %s: %w", a.id, errRace)
}

func (a *acquiring) insert(ctx context.Context, c *conn) error {
	create := a.opt.Create
	return c.query(ctx, `INSERT INTO runs (id, workflow, title, parent, status, created, updated, epoch, hold, owner, lease_until)
		SELECT $1, $2, $3, $4, $5, now, now, 1, $6, $7, now + $8::bigint * interval '1 microsecond' FROM clock_timestamp() AS now
		ON CONFLICT (id) DO NOTHING`, nil,
		[]byte(a.id), []byte(text(create.Workflow)), []byte(text(create.Title)), []byte(text(create.Parent)), []byte(cmp.Or(create.Status, runlog.Running)),
		bigint(a.hold), []byte(a.s.owner), micros(a.s.lease))
}

func (a *acquiring) take(ctx context.Context, c *conn, r *row) error {
	if r.held() {
		return r.busy()
	}
	takeovers, err := r.info.TakeOver(r.hold != 0, &a.opt)
	if err != nil {
		return err
	}
	if _, err := r.hash(); err != nil {
		return err
	}
	return c.query(ctx, `UPDATE runs SET epoch = epoch + 1, hold = $4, owner = $5, takeovers = $6::bigint, updated = clock_timestamp(),
			lease_until = clock_timestamp() + $7::bigint * interval '1 microsecond'
		WHERE no = $1 AND hold = $2 AND rev = $3 AND epoch = $8 AND (hold = 0 OR lease_until <= clock_timestamp())`, nil,
		bigint(r.no), bigint(r.hold), bigint(r.rev), bigint(a.hold), []byte(a.s.owner), bigint(int64(takeovers)), micros(a.s.lease), bigint(int64(r.info.Epoch)))
}

func (a *acquiring) taken(c *conn, r *row) error {
	hash, err := r.hash()
	if err != nil {
		return err
	}
	a.info = r.info
	a.log = &log{Hold: storekit.Hold{ID: a.id}, s: a.s, no: r.no, epoch: r.info.Epoch, hold: a.hold, timeline: c.timeline}
	a.log.acked = tail{storekit.Tail{Seq: r.info.Head, Hash: hash, Status: r.info.Status, Snapshot: r.info.Snapshot}, r.rev}
	return nil
}

// hash returns the hash of the run's last frame, which must exist and be intact.
func (r *row) hash() (runlog.FrameHash, error) {
	if r.info.Head == 0 {
		return runlog.FrameHash{}, nil
	}
	chain := runlog.NewChain(r.info.ID, r.info.Head)
	if r.last == nil {
		return runlog.FrameHash{}, chain.Damaged("it is missing")
	}
	if _, err := chain.Next(r.last); err != nil {
		return runlog.FrameHash{}, err
	}
	if r.info.Snapshot > r.info.Head {
		return runlog.FrameHash{}, &runlog.CorruptError{ID: r.info.ID, Seq: r.info.Head + 1, Good: r.info.Head,
			Why: fmt.Sprintf("there is a snapshot at record %d, and nothing there", r.info.Snapshot)}
	}
	return chain.Hash, nil
}

// Read implements [runlog.Store]. A limit of 0 or less means all.
func (s *store) Read(ctx context.Context, id string, from uint64, limit int) (records []runlog.Record, err error) {
	from = min(max(from, 1), math.MaxInt64)
	start := max(from-1, 1) // one earlier, to check the link
	var most []byte         // null is no limit
	if limit > 0 {
		most = bigint(int64(limit) + int64(from-start))
	}
	var damage error
	err = s.with(ctx, reading, func(ctx context.Context, c *conn) error {
		records, damage = nil, nil
		chain := runlog.NewChain(id, start)
		known, head, seen := false, uint64(0), int64(0)
		err := c.query(ctx, `SELECT head, frame FROM runs LEFT JOIN LATERAL
				(SELECT seq, frame FROM records WHERE run = no AND seq >= $2 ORDER BY seq LIMIT $3) f ON true
			WHERE id = $1 ORDER BY seq`, func(v [][]byte) error {
			known, head = true, uint64(toInt(v[0]))
			if v[1] == nil {
				return nil
			}
			seen++
			var rec runlog.Record
			if rec, damage = chain.Next(slices.Clone(v[1])); damage != nil {
				return damage
			}
			if rec.Seq >= from {
				records = append(records, rec)
			}
			return nil
		}, []byte(id), bigint(int64(start)), most)
		switch {
		case damage != nil:
			return nil
		case err != nil:
			return err
		case !known:
			return s.notFound(id)
		case chain.Seq < head && (limit <= 0 || seen < toInt(most)):
			damage = chain.Damaged("it is missing")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, damage
}

// Runs implements [runlog.Store].
func (s *store) Runs(ctx context.Context, f *runlog.Filter) (infos []runlog.Info, err error) {
	rows, err := s.list(ctx, f)
	for i := range rows {
		infos = append(infos, rows[i].info)
	}
	return infos, err
}

// Sizes implements [runlog.Sizer]: the bytes of the frames, before compression.
func (s *store) Sizes(ctx context.Context, f *runlog.Filter) (map[string]int64, error) {
	rows, err := s.list(ctx, f)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for i := range rows {
		if n := rows[i].bytes; n > 0 {
			sizes[rows[i].info.ID] = n
		}
	}
	return sizes, nil
}

// list reads the rows that f picks, with what listings show.
func (s *store) list(ctx context.Context, f *runlog.Filter) (rows []row, err error) {
	if f == nil {
		f = &runlog.Filter{}
	}
	if !possible(f) {
		return nil, ctx.Err()
	}
	where, values := condition(f)
	err = s.with(ctx, reading, func(ctx context.Context, c *conn) error {
		rows = nil
		return c.query(ctx, selectRuns+where, func(v [][]byte) error {
			r := scanRow(v)
			r.info.Show(r.held(), r.hold != 0)
			if f.Takes(r.info.Status) {
				rows = append(rows, r)
			}
			return nil
		}, values...)
	})
	if err != nil {
		return nil, err
	}
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return rows, nil
}

// possible reports whether there can be runs that f picks. A text that no ID can have in it
// is not sent to the server, which refuses some.
func possible(f *runlog.Filter) bool {
	ok := func(text string) bool { return text == "" || runlog.CheckID(text) == nil }
	return ok(f.ID) && ok(f.Prefix)
}

// condition returns the SQL condition for the part of a filter that the database evaluates. Values are bound, so each
// set of fields has one text.
func condition(f *runlog.Filter) (sql string, values [][]byte) {
	var terms []string
	term := func(sql string, value []byte) {
		values = append(values, value)
		terms = append(terms, strings.ReplaceAll(sql, "?", fmt.Sprintf("$%d", len(values))))
	}
	if f.ID != "" {
		term("id = ?", []byte(f.ID))
	}
	if p := f.Prefix; p != "" {
		// The column compares bytes, and the last byte of an ID has a successor.
		term("id >= ?", []byte(p))
		term("id < ?", []byte(p[:len(p)-1]+string(p[len(p)-1]+1)))
	}
	limit := f.Limit > 0
	if len(f.Status) == 0 {
		term("status <> ?", []byte(runlog.Importing))
	} else {
		stored := slices.Clone(f.Status)
		for i, status := range stored {
			if status == runlog.Interrupted || status == runlog.Quarantined || status == runlog.Running {
				stored[i], limit = runlog.Running, false // which of these it is the caller decides
			}
			stored[i] = runlog.Status(text(string(stored[i])))
		}
		if len(stored) == 1 { // the index has these in order
			term("status = ?", []byte(stored[0]))
		} else {
			term("status = ANY (?::text[])", texts(stored, func(s runlog.Status) string { return string(s) }))
		}
	}
	sql = "FROM runs "
	if len(terms) > 0 {
		sql += "WHERE " + strings.Join(terms, " AND ")
	}
	sql += " ORDER BY no DESC"
	if limit {
		values = append(values, bigint(int64(f.Limit)))
		sql += fmt.Sprintf(" LIMIT $%d", len(values))
	}
	return sql, values
}

// RequestCancel implements [runlog.Store].
func (s *store) RequestCancel(ctx context.Context, id string) error {
	if runlog.CheckID(id) != nil {
		return s.notFound(id)
	}
	return s.with(ctx, writing, func(ctx context.Context, c *conn) error {
		known := false
		err := c.query(ctx, "UPDATE runs SET cancel = status NOT IN ('completed', 'partial', 'cancelled') WHERE id = $1 RETURNING no", func([][]byte) error {
			known = true
			return nil
		}, []byte(id))
		if err == nil && !known {
			return s.notFound(id)
		}
		return err
	})
}

// Delete implements [runlog.Store].
func (s *store) Delete(ctx context.Context, id string) error {
	if runlog.CheckID(id) != nil {
		return s.notFound(id)
	}
	var meant int64 // the run's number, once it is known
	err := s.with(ctx, writing, func(ctx context.Context, c *conn) error {
		for range 100 {
			r, err := find(ctx, c, id)
			switch {
			case err != nil:
				return err
			case meant != 0 && (r == nil || r.no != meant):
				return nil // this is another time, and the first one was enough
			case r == nil:
				return s.notFound(id)
			case r.held():
				return r.busy()
			}
			meant = r.no
			err = c.query(ctx, `WITH d AS (
					DELETE FROM runs WHERE no = $1 AND hold = $2 AND rev = $3 AND (hold = 0 OR lease_until <= clock_timestamp()) RETURNING no
				) DELETE FROM records USING d WHERE run = d.no`, nil, bigint(r.no), bigint(r.hold), bigint(r.rev))
			if err != nil {
				return err
			}
		}
		return fmt.Errorf("run %s: %w", id, errRace)
	})
	if err == nil {
		s.watch.Wake(id)
	}
	return err
}
