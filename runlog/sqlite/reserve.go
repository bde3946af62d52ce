package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

const (
	reserveSize  = 512 << 10       // bytes: what a hundred runs that are parked together need
	reservePause = 5 * time.Second // between two looks whether there is room for it again
)

// A reserve is a file that reserves disk space for two uses on a full disk: records that park runs, and operations that free disk space. All processes
// that have the store open share it. The current writer uses it.
type reserve struct {
	path   string
	pause  time.Duration
	there  bool
	looked time.Time
	err    error // why it is not there, as of then
}

// keep creates the file if it is missing and there is space. The store also works without the file, so keep reports no error; see room.
func (r *reserve) keep() {
	if r.there || time.Since(r.looked) < r.pause {
		return
	}
	r.looked = time.Now()
	if info, err := os.Stat(r.path); err == nil && info.Size() >= reserveSize {
		r.there = true
		return
	}
	content := make([]byte, reserveSize)
	_, _ = rand.Read(content) // so that no file system makes it smaller
	if r.err = os.WriteFile(r.path, content, 0o600); r.err != nil {
		_ = os.Remove(r.path)
		return
	}
	r.there = true
}

// room returns why no run may be acquired: on a full disk without the reserve, the run could not be
// parked.
func (r *reserve) room() error {
	r.looked = time.Time{} // now, for a person may have made room
	if r.keep(); r.there || !errors.Is(r.err, syscall.ENOSPC) {
		return nil
	}
	return fmt.Errorf("making the reserve of %d bytes for pausing runs: %w", reserveSize, r.err)
}

// give frees the reserved disk space.
func (r *reserve) give() {
	r.there, r.looked, r.err = false, time.Now(), syscall.ENOSPC
	_ = os.Remove(r.path) // or somebody else has
}

// spend frees the reserved disk space, if there is any.
func (r *reserve) spend() bool {
	_, err := os.Stat(r.path)
	r.give()
	return err == nil
}

// spare returns the ops of a failed group to retry, none if they were already retried. On a full disk, these are the ops that park or delete runs; they
// use the space of the reserve and of the write-ahead log. The other ops fail.
func (w *writer) spare(group []*op, err error, again bool) (urgent []*op) {
	for _, o := range group {
		if o.urgent && !again && code(err) == zsqlite.ResultFull {
			urgent = append(urgent, o)
		} else {
			o.finish(w.s.explain("writing", err))
		}
	}
	if len(urgent) > 0 {
		if !w.s.reserve.spend() {
			w.drain() // the reserve is gone: what the log takes is room too
		}
	}
	return urgent
}

// shortage converts an error about an exhausted resource, such as a full disk, into a *StorageError.
func (s *store) shortage(err error) error {
	for _, short := range []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, short) {
			return &runlog.StorageError{Store: s.path, Err: err}
		}
	}
	return err
}

// How many pages Reclaim frees in one step, normally and on a full disk. Other writers wait for a step, and on a full disk each step must fit into the
// reserve.
const (
	shrinkPages     = 1000
	shrinkPagesFull = 50
)

// Reclaim implements [runlog.Reclaimer]. It shrinks the file in small steps between the appends of runs, on a full disk with the help of the reserve. A
// file of an older version is rewritten once: meanwhile this needs as much disk space as the file, and appends wait.
func (s *store) Reclaim(ctx context.Context) (freed int64, err error) {
	before := s.bytes()
	if err = s.reclaim(ctx); code(err) == zsqlite.ResultFull {
		err = s.squeeze(ctx)
	}
	return max(before-s.bytes(), 0), s.explain("reclaiming room in", err)
}

func (s *store) reclaim(ctx context.Context) error {
	err := s.alone(ctx, func(w *writer) error {
		if err := w.begin(ctx); err != nil {
			return err
		}
		err := w.gather()
		if err == nil {
			err = w.commit(w.c)
		}
		if err != nil {
			w.undo()
			return err
		}
		return w.vacuum(ctx)
	})
	for left := int64(1); left > 0 && err == nil; {
		err = s.alone(ctx, func(w *writer) (err error) {
			left, err = w.shrink(ctx, shrinkPages)
			return err
		})
	}
	if err == nil {
		err = s.alone(ctx, (*writer).checkpoint)
	}
	return err
}

// squeeze does the work of Reclaim on a full disk: in small steps, emptying the write-ahead log as soon as possible, and using the reserve if needed.
func (s *store) squeeze(ctx context.Context) error {
	spent := false
	var err error
	for left := int64(1); left > 0 && err == nil; {
		err = s.alone(ctx, func(w *writer) (err error) {
			w.drain()
			left, err = w.shrink(ctx, shrinkPagesFull)
			if code(err) == zsqlite.ResultFull && !spent {
				spent = true
				s.reserve.spend()
				left, err = w.shrink(ctx, shrinkPagesFull)
			}
			return err
		})
	}
	if err == nil {
		err = s.alone(ctx, (*writer).checkpoint)
	}
	return errors.Join(err, s.alone(ctx, func(*writer) error {
		s.reserve.looked = time.Time{}
		s.reserve.keep()
		return nil
	}))
}

// checkpoint copies the write-ahead log into the file and empties it. If a reader still uses the log, the next checkpoint empties it.
func (w *writer) checkpoint() error {
	w.c.sq.SetBusyTimeout(time.Second)
	defer w.c.sq.SetBusyTimeout(busyTimeout)
	return w.c.exec("PRAGMA wal_checkpoint(TRUNCATE)", nil)
}

// drain does the work of checkpoint on a full disk. It does nothing if the file would have to grow, since that would use disk space without freeing any.
func (w *writer) drain() {
	if w.connect() != nil {
		return
	}
	size, err := w.c.integer("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", nil)
	info, serr := os.Stat(w.s.path)
	if err == nil && serr == nil && size <= info.Size() {
		_ = w.checkpoint() // whoever goes on finds out whether there is room
	}
}

// alone calls f with the turn to write and a connection.
func (s *store) alone(ctx context.Context, f func(*writer) error) error {
	select {
	case w := <-s.turn:
		defer func() { s.turn <- w }()
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.connect(); err != nil {
			return err
		}
		err := f(w)
		if isDB(err) && code(err) != zsqlite.ResultBusy && code(err) != zsqlite.ResultFull {
			w.abandon(err)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return fmt.Errorf("writing store %s: %w", s.path, storekit.ErrClosed)
	}
}

// vacuum rewrites the file if it has free pages and was created without support for freeing them.
func (w *writer) vacuum(ctx context.Context) error {
	auto, err := w.c.integer("PRAGMA auto_vacuum", nil)
	if err != nil || auto != 0 {
		return err
	}
	free, err := w.c.integer("PRAGMA freelist_count", nil)
	if err != nil || free == 0 {
		return err
	}
	if err := w.c.exec("PRAGMA auto_vacuum=INCREMENTAL", nil); err != nil {
		return err
	}
	return retryBusy(ctx, func() error { return w.c.exec("VACUUM", nil) })
}

// shrink frees some pages, and reports how many are left.
func (w *writer) shrink(ctx context.Context, pages int) (left int64, err error) {
	was, err := w.c.integer("PRAGMA freelist_count", nil)
	if err != nil || was == 0 {
		return 0, err
	}
	if err := w.c.begin(ctx); err != nil {
		return 0, err
	}
	err = w.c.exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages), nil)
	if err == nil {
		err = w.commit(w.c)
	}
	if err != nil {
		w.undo()
		return 0, err
	}
	left, err = w.c.integer("PRAGMA freelist_count", nil)
	if left >= was {
		left = 0 // it can do no more
	}
	return left, err
}

// bytes returns the disk space of the store.
func (s *store) bytes() (n int64) {
	for _, name := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}
