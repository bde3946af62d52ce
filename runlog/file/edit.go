package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
)

// An edit is a change of a run by the holder of its lock.
type edit struct {
	reel
	id    string
	lock  *flock.Flock
	st    state
	until int64 // when the lease ends, as far as anybody said so
}

// lockEvery is the interval between attempts to take a lock that another process has.
const lockEvery = time.Millisecond

// lockRun takes a run's lock. It waits for whoever has it.
func (s *store) lockRun(ctx context.Context, id string) (*flock.Flock, error) {
	for {
		l, err := s.lockAny(ctx, id)
		if err != nil || owners.Same(l, l.Path()) {
			return l, err
		}
		_ = l.Close() // the run was deleted meanwhile
	}
}

// lockAny is lockRun for callers that check afterwards whether the run still exists.
func (s *store) lockAny(ctx context.Context, id string) (*flock.Flock, error) {
	l := flock.New(filepath.Join(s.runDir(id), lockName), flock.SetFlag(os.O_RDWR))
	ok, err := l.TryLock()
	if err == nil && !ok {
		ok, err = l.TryLockContext(ctx, lockEvery)
		if errors.Is(context.Cause(ctx), errPatience) { // this process may have been stopped all the while
			if last, lerr := l.TryLock(); last || lerr != nil {
				ok, err = last, lerr
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, s.notFound(id)
	case err != nil || !ok:
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// patience returns how long a change waits for the lock of a run. It is much longer than a write
// takes.
func (s *store) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, max(s.lease/3, 100*time.Millisecond), errPatience)
}

var errPatience = errors.New("another process keeps the run locked")

// edit takes a run's lock and reads its log. It cuts off the remains of a crash at the end of the
// log, and makes durable what no process guarantees to be. With a *CorruptError it still returns an
// edit, of what could be read. The caller closes it.
func (s *store) edit(ctx context.Context, id string) (*edit, error) {
	short, stop := s.patience(ctx)
	defer stop()
	lock, err := s.lockRun(short, id)
	if err != nil {
		if errors.Is(context.Cause(short), errPatience) && ctx.Err() == nil {
			return nil, s.stuck(id)
		}
		return nil, err
	}
	e := &edit{reel: reel{s: s, dir: s.runDir(id)}, id: id, lock: lock}
	err = e.open()
	if err != nil && !errors.As(err, new(*runlog.CorruptError)) {
		e.close()
		return nil, err
	}
	return e, err
}

// stuck returns the error for a run that stays locked: its process hangs in the middle of a write.
func (s *store) stuck(id string) error {
	busy := &runlog.BusyError{ID: id, Owner: "a process that hangs in a write"}
	if o, ok := readHold(s.runDir(id)); ok && o.st.owner != "" {
		busy.Owner, busy.Until = o.st.owner, moment(o.until)
	}
	return busy
}

func (e *edit) close() {
	_ = e.reel.close()
	if e.lock != nil {
		_ = e.lock.Close()
		e.lock = nil
	}
}

// open reads the log and mends its end.
func (e *edit) open() error {
	f, err := e.s.disk.open(e.path(), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return located(runlog.NewChain(e.id, 1), e.path(), 0, "the file is missing")
	}
	if err != nil {
		return err
	}
	e.f = f
	h, data, err := e.load()
	if err != nil {
		return readable(e.id, e.path(), err)
	}
	if h.id != e.id {
		return located(runlog.NewChain(e.id, 1), e.path(), 0, fmt.Sprintf("it is the log of run %.80q", h.id))
	}
	e.h = h
	var durable int64
	if o, ok := readHold(e.dir); ok && o.h.nonce == h.nonce {
		durable, e.until = o.durable, o.until
	}
	sc := h.scan(data)
	e.st, e.size = sc.st, sc.end
	if err := h.damage(e.id, e.path(), data, &sc, durable); err != nil {
		return err
	}
	if e.st.deleted {
		return e.s.notFound(e.id)
	}
	return e.mend(data, max(durable, h.size))
}

// readable converts an error about the content of a log to the error for a damaged run.
func readable(id, path string, err error) error {
	switch newer := (*versionError)(nil); {
	case errors.As(err, &newer):
		return fmt.Errorf("run %s: %w", id, err)
	case errors.Is(err, errFormat):
		return located(runlog.NewChain(id, 1), path, 0, err.Error())
	}
	return err
}

// mend reduces a log to its valid part, and makes that durable.
func (e *edit) mend(data []byte, durable int64) error {
	if e.size == int64(len(data)) && e.size == durable {
		return nil
	}
	if e.size < int64(len(data)) {
		if err := e.f.Truncate(e.size); err != nil {
			return err
		}
	}
	if e.size > durable {
		// It is written again, not only synced: after a failed sync the system may treat data as
		// stored that is only in memory.
		if _, err := e.f.WriteAt(data[durable:e.size], durable); err != nil {
			return err
		}
	}
	if err := e.f.sync(); err != nil {
		return err
	}
	// The log may also be new, from a process that died before it made its name durable.
	if err := e.s.disk.syncDir(e.dir); err != nil {
		return err
	}
	e.vouch(&e.st, e.until)
	return nil
}

// commit stores a new state durably, with a lease that ends then.
func (e *edit) commit(st *state, until int64) error {
	if err := e.append(e.h.appendMark(nil, e.size, e.size, st)); err != nil {
		return err
	}
	e.st, e.until = *st, until
	e.vouch(st, until)
	return nil
}

// commitLast is commit for a write that must succeed even on a full disk.
func (e *edit) commitLast(st *state, until int64) error {
	err := e.commit(st, until)
	if errors.As(err, new(*runlog.StorageError)) && e.s.reserve.spend() {
		err = e.commit(st, until)
	}
	return err
}

// settle makes the end of a log durable, for a reader when no process guarantees it.
func (s *store) settle(ctx context.Context, id string) error {
	e, err := s.edit(ctx, id)
	if e != nil {
		e.close()
	}
	return err
}
