package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A log is the hold of one store on one run.
type log struct {
	storekit.Hold
	s     *store
	no    int64
	epoch uint64
	hold  int64
	buf   []byte // of the append that is under way

	mu       sync.Mutex
	acked    tail   // what the run has to be, as far as anybody was told
	timeline string // the server's history when it was
}

// A tail is the state needed to append to a log.
type tail struct {
	storekit.Tail
	rev int64
}

func (l *log) tail() tail {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// settle notes the outcome of a write that would lead to the given tail.
func (l *log) settle(then tail, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acked = then
	}
	l.Note(err)
}

// on notes the server's history that the log's last write is in.
func (l *log) on(timeline string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timeline = timeline
}

// Append implements runlog.Log. After an error that wraps ErrUnknown or ErrStoreReset this hold of
// the run no longer writes: release it, and acquire the run again. When ctx ends while the batch is
// on its way, Append waits for the outcome for up to two seconds and gives ErrUnknown then.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	return l.Alone(ctx, func() error {
		o := &op{ctx: ctx, l: l, was: l.tail(), deadline: time.Now().Add(l.s.patience), done: make(chan error, 1)}
		if o.then = o.was; b.Summary != "" {
			o.summary = []byte(b.Summary)
		}
		o.then.rev++
		var err error
		if o.frames, o.ends, err = o.then.Encode(l.buf[:0], nil, l.ID, l.epoch, b); err != nil {
			return err
		}
		if len(o.frames) > maxBatchBytes {
			return fmt.Errorf("run %s: the batch has more than the %d bytes that one append may have; append it in parts", l.ID, maxBatchBytes)
		}
		if cap(o.frames) <= 64<<10 {
			l.buf = o.frames
		}
		if err := l.s.submit(ctx, o); err != nil {
			return err
		}
		o.was.Number(b, l.epoch)
		if len(b.Records) > 0 {
			l.s.watch.Wake(l.ID)
		}
		return nil
	})
}

// errLanded reports that an op is in the database.
var errLanded = errors.New("it landed")

const lookSQL = `SELECT b.ord, r.hold = b.hold, r.rev, w.frame, t.frame
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS b (no, hold, was_seq, then_seq, ord)
	JOIN runs r ON r.no = b.no
	LEFT JOIN records w ON r.hold <> b.hold AND w.run = b.no AND w.seq = b.was_seq
	LEFT JOIN records t ON r.hold <> b.hold AND t.run = b.no AND t.seq = b.then_seq`

// look determines the state of ops: nil if they may be written, errLanded if they were written, and
// otherwise why they cannot be.
func look(ctx context.Context, c *conn, ops []*op) ([]error, error) {
	found := make([]error, len(ops))
	for i, o := range ops {
		found[i] = o.gone(c)
	}
	err := c.query(ctx, lookSQL, func(v [][]byte) error {
		i := toInt(v[0]) - 1
		if toBool(v[1]) {
			found[i] = ops[i].compare(toInt(v[2]))
		} else {
			found[i] = ops[i].superseded(v[3], v[4])
		}
		return nil
	},
		bigints(ops, func(o *op) int64 { return o.l.no }),
		bigints(ops, func(o *op) int64 { return o.l.hold }),
		bigints(ops, func(o *op) int64 { return int64(o.was.Seq) }),
		bigints(ops, func(o *op) int64 { return int64(o.then.Seq) }))
	return found, err
}

// compare judges a run that is still held, given how often it was written.
func (o *op) compare(rev int64) error {
	switch {
	case rev == o.was.rev:
		return nil
	case rev == o.then.rev:
		return errLanded
	case rev < o.was.rev:
		return o.reset("the last of them are missing")
	}
	return o.l.Fenced()
}

// superseded decides about a run that another process holds or has held, given the record at the
// old head and the one at the new head.
func (o *op) superseded(was, then []byte) error {
	is := func(frame []byte, hash runlog.FrameHash) bool {
		_, _, self, _, err := runlog.DecodeFrame(frame)
		return err == nil && self == hash
	}
	switch {
	case o.was.Seq > 0 && !is(was, o.was.Hash):
		return o.reset("others are in their place")
	case o.then.Seq > o.was.Seq && is(then, o.then.Hash):
		return errLanded // before it was taken over
	case o.then.Seq == o.was.Seq && o.sent:
		return fmt.Errorf("%w: %w", o.l.Fenced(), runlog.ErrUnknown)
	}
	return o.l.Fenced()
}

// gone decides about a run that is missing.
func (o *op) gone(c *conn) error {
	o.l.mu.Lock()
	timeline := o.l.timeline
	o.l.mu.Unlock()
	if timeline != "" && c.timeline != "" && timeline != c.timeline {
		return o.reset("the run is not there")
	}
	return o.l.Fenced() // and deleted
}

// reset returns the error for acknowledged records that are lost.
func (o *op) reset(how string) error {
	return fmt.Errorf("run %s: %w: of the records up to %d that were acknowledged, %s: the server was replaced by one that did not have them, "+
		"or brought back to an earlier moment (%w); read the run to see what it has, and resume it from there",
		o.l.ID, runlog.ErrStoreReset, o.was.Seq, how, runlog.ErrFenced)
}

func isDuplicate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.Usable(); err != nil {
		return false, err
	}
	err = l.s.with(ctx, writing, func(ctx context.Context, c *conn) error {
		was := l.tail()
		held, rev := false, int64(0)
		err := c.query(ctx, `UPDATE runs SET lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
			WHERE no = $1 AND hold = $2 RETURNING cancel, rev`, func(v [][]byte) error {
			held, cancel, rev = true, toBool(v[0]), toInt(v[1])
			return nil
		}, bigint(l.no), bigint(l.hold), micros(l.s.lease))
		if err != nil || held && rev >= was.rev {
			return err
		}
		found, err := look(ctx, c, []*op{{l: l, was: was, then: was}})
		if err == nil && (found[0] == nil || errors.Is(found[0], errLanded)) {
			return &lostError{errors.New("the run was not there, and then it was")}
		}
		return errors.Join(err, found[0])
	})
	if err != nil {
		l.Note(notUnknown(err))
		return false, err
	}
	return cancel, nil
}

// notUnknown returns err, or nil if err is about a write whose outcome does not matter.
func notUnknown(err error) error {
	if errors.Is(err, runlog.ErrUnknown) {
		return nil
	}
	return err
}

// Release implements runlog.Log. From the call on nothing can be appended, even if it
// fails; then it may be called again.
func (l *log) Release(ctx context.Context) error {
	l.End()
	return l.s.with(ctx, writing, func(ctx context.Context, c *conn) error {
		return c.query(ctx, "UPDATE runs SET hold = 0, owner = '', takeovers = 0, lease_until = clock_timestamp() WHERE no = $1 AND hold = $2",
			nil, bigint(l.no), bigint(l.hold))
	})
}
