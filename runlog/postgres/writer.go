package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// The most that shares one transaction, and the most that one append may be: the server
// takes no message of a gigabyte.
const (
	maxGroupOps   = 4096
	maxGroupBytes = 16 << 20
	maxBatchBytes = 512 << 20
)

// grace is how long an abandoned append still waits for an answer that may be arriving.
const grace = time.Second

// An op is one append. There is one at a time of each log.
type op struct {
	ctx       context.Context
	l         *log
	was, then tail // of the log
	frames    []byte
	ends      []int  // where each frame ends
	summary   []byte // nil for no change
	deadline  time.Time
	done      chan error

	sent bool // it may have been committed; the writer's own
}

// A group holds the operations of one transaction.
type group struct{ ops []*op }

// A writer performs the appends of a store. The goroutine that takes it from Store.turn writes for
// all that wait by then, so a single append wakes no other goroutine. Appends that arrive while the
// server is committing share the next transaction.
type writer struct {
	s     *store
	c     *conn // nil after a failure
	pause storekit.Backoff
}

// submit performs an op: in the calling goroutine if it has the turn to write, or else in the one
// that has it. If ctx ends before the op is sent, nothing is written.
func (s *store) submit(ctx context.Context, o *op) error {
	select {
	case w := <-s.turn:
		w.serve(o)
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return s.closed(writing)
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	wait := time.NewTimer(2 * grace)
	defer wait.Stop()
	select {
	case err := <-o.done:
		return err
	case <-wait.C:
		return fmt.Errorf("run %s: %w: %w", o.l.ID, runlog.ErrUnknown, ctx.Err())
	}
}

// gather collects the ops that wait beside one. It first yields to goroutines that are about to add
// ops, since another transaction would cost more.
func (s *store) gather(o *op) *group {
	g, bytes := &group{[]*op{o}}, len(o.frames)
	for more := true; more; {
		runtime.Gosched()
		more = false
		for len(g.ops) < maxGroupOps && bytes < maxGroupBytes {
			select {
			case o := <-s.ops:
				g.ops, bytes, more = append(g.ops, o), bytes+len(o.frames), true
				continue
			default:
			}
			break
		}
	}
	return g
}

// serve tries to write an op and all others that wait, in the goroutine of the op's caller. Retries
// run in another goroutine, since the caller may not want to wait.
func (w *writer) serve(o *op) {
	g := w.s.gather(o)
	all, whole := g.ops, false
	defer func() {
		if whole {
			return
		}
		for _, o := range all {
			select {
			case o.done <- fmt.Errorf("run %s: %w: something panicked in it", o.l.ID, runlog.ErrUnknown):
			default: // its outcome was known
			}
		}
		w.c.close()
		w.c = nil
		w.s.turn <- w
	}()
	w.s.fail("postgres.before-begin")
	w.pause = storekit.Backoff{}
	connected, err := w.c != nil, error(nil)
	if connected {
		wire := w.c.pg.Conn()
		stop := context.AfterFunc(o.ctx, func() { _ = wire.SetDeadline(time.Now().Add(grace)) })
		err = w.try(g)
		stop()
	}
	whole = true
	if len(g.ops) == 0 {
		w.s.turn <- w
		return
	}
	w.s.work.Go(func() {
		if connected {
			w.after(g, err)
		}
		w.write(g)
		w.s.turn <- w
	})
}

// write stores a group durably, or determines why that is impossible.
func (w *writer) write(g *group) {
	for len(g.ops) > 0 {
		w.after(g, w.try(g))
	}
}

// after handles the outcome of an attempt, and waits a little if another one is needed.
func (w *writer) after(g *group, err error) {
	v := judge(err)
	switch v {
	case away:
		w.c.close()
		w.c = nil
	case full:
		g.finish(func(o *op) bool { return !o.sent }, &runlog.StorageError{Store: w.s.name, Err: err})
	case final:
		w.refused(g, err)
	}
	w.expire(g, v, err)
	if len(g.ops) > 0 {
		w.pause.Wait(context.Background(), w.s.closing)
	}
}

// try writes a group in one transaction. Ops with a known outcome are finished and leave the group.
func (w *writer) try(g *group) error {
	timeout, stop := context.WithDeadline(context.Background(), w.until(g))
	defer stop()
	if w.c == nil {
		c, err := w.s.dialer.connect(timeout)
		if err == nil {
			err = c.script(timeout, "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
			if err != nil {
				c.close()
				err = &lostError{err}
			}
		}
		if err != nil {
			return err
		}
		w.c = c
	}
	if slices.ContainsFunc(g.ops, func(o *op) bool { return o.sent }) {
		if err := w.settle(timeout, g); err != nil || len(g.ops) == 0 {
			return w.lost(err)
		}
	}
	w.s.fail("postgres.before-commit")
	for _, o := range g.ops {
		o.sent = true
	}
	deadline, _ := timeout.Deadline()
	_ = w.c.pg.Conn().SetDeadline(deadline)
	landed, err := w.commit(g.ops)
	_ = w.c.pg.Conn().SetDeadline(time.Time{})
	if warning := w.c.warning(); err == nil && warning != "" {
		err = &warnedError{warning}
	}
	if err = w.lost(err); judge(err) == away {
		return err
	}
	for _, o := range g.ops {
		o.sent = false // all of it is in or nothing
	}
	if err != nil {
		return err
	}
	w.s.fail("postgres.after-commit")
	rest := g.ops[:0:0]
	for i, o := range g.ops {
		if landed[i] {
			w.landed(o)
		} else {
			rest = append(rest, o)
		}
	}
	g.ops = rest
	if len(rest) == 0 {
		return nil
	}
	return w.lost(w.settle(timeout, g)) // they are not what they were
}

// lost marks the error of a lost connection.
func (w *writer) lost(err error) error {
	if err != nil && w.c.pg.IsClosed() {
		return &lostError{err}
	}
	return err
}

// until is when to give up an attempt.
func (w *writer) until(g *group) time.Time {
	now := time.Now()
	until := now.Add(w.s.patience / 3)
	for _, o := range g.ops {
		if d := o.deadline; d.Before(until) {
			until = d
		}
		if d := now.Add(grace); o.ctx.Err() != nil && d.Before(until) {
			until = d
		}
	}
	if least := now.Add(50 * time.Millisecond); until.Before(least) {
		return least
	}
	return until
}

// commitSQL takes one row per log, and all frames in one value; $10 holds their offsets. If the row
// of a run is not as the writer left it, it is not updated and gets no records.
const commitSQL = `WITH u AS (
	UPDATE runs r SET rev = r.rev + 1, head = b.head, snapshot = b.snapshot, bytes = r.bytes + b.bytes, status = b.status,
		updated = CASE WHEN r.status = b.status THEN r.updated ELSE clock_timestamp() END,
		cancel = r.cancel AND b.status NOT IN ('completed', 'partial', 'cancelled'), summary = coalesce(nullif(b.summary, ''), r.summary)
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $12::bytea[])
		WITH ORDINALITY AS b (no, hold, rev, head, snapshot, bytes, status, first, n, summary, ord)
	WHERE r.no = b.no AND r.hold = b.hold AND r.rev = b.rev
	RETURNING r.no, r.head - b.n AS base, b.first, b.n, b.ord
), i AS (
	INSERT INTO records (run, seq, frame)
	SELECT u.no, u.base + k, substr($11::bytea, ($10::int[])[u.first + k], ($10::int[])[u.first + k + 1] - ($10::int[])[u.first + k])
	FROM u, generate_series(1, u.n) AS k
) SELECT ord FROM u`

// commitOneSQL is the same for one record, which is what most appends to a single run are.
const commitOneSQL = `WITH u AS (
	UPDATE runs SET rev = rev + 1, head = $4, snapshot = $5, bytes = bytes + $6, status = $7,
		updated = CASE WHEN status = $7 THEN updated ELSE clock_timestamp() END,
		cancel = cancel AND $7 NOT IN ('completed', 'partial', 'cancelled'), summary = coalesce($9, summary)
	WHERE no = $1 AND hold = $2 AND rev = $3
	RETURNING no
) INSERT INTO records (run, seq, frame) SELECT no, $4, $8 FROM u RETURNING 1`

// commit writes ops in one transaction and reports for each whether it was included.
func (w *writer) commit(ops []*op) (landed []bool, err error) {
	landed = make([]bool, len(ops))
	var frames []byte
	var starts, first []int // where each frame begins, counted from 1, and one more; and the first of each op
	for _, o := range ops {
		first = append(first, len(starts))
		start := len(frames)
		for _, end := range o.ends {
			starts = append(starts, start+1)
			start = len(frames) + end
			w.s.fail("postgres.mid-write")
		}
		if len(ops) == 1 {
			frames = o.frames
		} else {
			frames = append(frames, o.frames...)
		}
	}
	starts = append(starts, len(frames)+1)
	if o := ops[0]; len(ops) == 1 && len(o.ends) == 1 {
		err = w.c.query(context.Background(), commitOneSQL, func([][]byte) error {
			landed[0] = true
			return nil
		}, bigint(o.l.no), bigint(o.l.hold), bigint(o.was.rev), bigint(int64(o.then.Seq)), bigint(int64(o.then.Snapshot)), bigint(int64(len(frames))),
			[]byte(o.then.Status), frames, o.summary)
		return landed, err
	}
	err = w.c.query(context.Background(), commitSQL, func(v [][]byte) error {
		landed[toInt(v[0])-1] = true
		return nil
	},
		bigints(ops, func(o *op) int64 { return o.l.no }),
		bigints(ops, func(o *op) int64 { return o.l.hold }),
		bigints(ops, func(o *op) int64 { return o.was.rev }),
		bigints(ops, func(o *op) int64 { return int64(o.then.Seq) }),
		bigints(ops, func(o *op) int64 { return int64(o.then.Snapshot) }),
		bigints(ops, func(o *op) int64 { return int64(len(o.frames)) }),
		texts(ops, func(o *op) string { return string(o.then.Status) }),
		bigints(first, func(n int) int64 { return int64(n) }),
		bigints(ops, func(o *op) int64 { return int64(len(o.ends)) }),
		ints(starts), frames, byteas(oidBytea, ops, func(o *op) []byte { return o.summary }))
	return landed, err
}

// settle determines which ops were committed, and why others were not. It finishes the ops whose
// outcome is certain; the others may be sent.
func (w *writer) settle(ctx context.Context, g *group) error {
	found, err := look(ctx, w.c, g.ops)
	if err != nil {
		return err
	}
	if slices.Contains(found, errLanded) {
		if err := w.c.fence(ctx); err != nil {
			return err
		}
	}
	rest := g.ops[:0:0]
	for i, o := range g.ops {
		switch err := found[i]; {
		case err == nil:
			o.sent = false
			rest = append(rest, o)
		case errors.Is(err, errLanded):
			w.landed(o)
		default:
			o.finish(err)
		}
	}
	g.ops = rest
	return nil
}

// landed finishes an op that is durable.
func (w *writer) landed(o *op) {
	o.l.on(w.c.timeline)
	o.finish(nil)
}

// refused deals with an error of the server that is not about connections: whose fault it
// is shows when each op is sent on its own.
func (w *writer) refused(g *group, err error) {
	if len(g.ops) > 1 && !errors.Is(err, runlog.ErrStoreReset) {
		for _, o := range g.ops {
			w.write(&group{[]*op{o}})
		}
		g.ops = nil
		return
	}
	for _, o := range g.ops {
		o.finish(w.refusal(o, err))
	}
	g.ops = nil
}

// refusal returns the error of an op that the server refuses.
func (w *writer) refusal(o *op, err error) error {
	switch {
	case o.sent:
		return fmt.Errorf("run %s: %w: %w", o.l.ID, runlog.ErrUnknown, err)
	case judge(err) == full:
		return &runlog.StorageError{Store: w.s.name, Err: err}
	case isDuplicate(err):
		return fmt.Errorf("run %s has records that this process did not write: %w (%w)", o.l.ID, runlog.ErrFenced, err)
	}
	return fmt.Errorf("run %s: %w", o.l.ID, w.s.explain(writing, err))
}

// expire finishes the ops whose time has run out.
func (w *writer) expire(g *group, v verdict, err error) {
	closing := false
	select {
	case <-w.s.closing:
		closing = true
	default:
	}
	now := time.Now()
	rest := g.ops[:0:0]
	for _, o := range g.ops {
		var why error
		switch {
		case o.ctx.Err() != nil:
			why = o.ctx.Err()
		case closing:
			why = w.s.closed(writing)
		case !now.Before(o.deadline) && v == crowded:
			why = &runlog.StorageError{Store: w.s.name, Err: err}
		case !now.Before(o.deadline):
			why = &runlog.StorageError{Store: w.s.name, Err: fmt.Errorf("the server has not answered for %s: %w", w.s.patience, err)}
		default:
			rest = append(rest, o)
			continue
		}
		if o.sent {
			why = fmt.Errorf("run %s: %w: %w", o.l.ID, runlog.ErrUnknown, why)
		}
		o.finish(why)
	}
	g.ops = rest
}

// finish reports the outcome to the callers of the ops that are meant.
func (g *group) finish(meant func(*op) bool, err error) {
	rest := g.ops[:0:0]
	for _, o := range g.ops {
		if meant(o) {
			o.finish(err)
		} else {
			rest = append(rest, o)
		}
	}
	g.ops = rest
}

func (o *op) finish(err error) {
	o.l.settle(o.then, err)
	o.done <- err
}
