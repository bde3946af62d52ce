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

// A reserve is a file that keeps room on the disk for the records that park runs when
// there is none left, and for making room. All who have the store open share it. Whoever has the turn to write
// uses it.
type reserve struct {
	path   string
	pause  time.Duration
	there  bool
	looked time.Time
	err    error // why it is not there, as of then
}

// keep creates the file if it is missing and there is space. What a store has begun it continues
// without the file, so no error is reported; see room.
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

// spare returns what of a group that failed is to be tried again, which is nothing if it was
// already: on a full disk what parks runs or deletes them, in the room of the reserve and of
// the write-ahead log. The others are told.
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

// shortage creates a *StorageError from an error that says that the system has run out of something.
func (s *store) shortage(err error) error {
	for _, short := range []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, short) {
			return &runlog.StorageError{Store: s.path, Err: err}
		}
	}
	return err
}

// How many pages Reclaim gives back at a time, which is what other writers wait for, and on a
// full disk, where the reserve has to do for each of them.
const (
	shrinkPages     = 1000
	shrinkPagesFull = 50
)

// Reclaim implements [runlog.Reclaimer]. It makes the file smaller bit by bit, between the
// appends of runs, on a full disk in the room of the reserve. A file that an older superstep
// made is written anew, once: that takes as much room as the file for a while, and appends
// wait for it.
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

// squeeze is Reclaim on a full disk: in small steps, with the write-ahead log emptied as soon
// as that can be done, and in the room of the reserve if it takes that.
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

// checkpoint writes the write-ahead log into the file and makes it empty, unless somebody
// still reads it: then the next one does it.
func (w *writer) checkpoint() error {
	w.c.sq.SetBusyTimeout(time.Second)
	defer w.c.sq.SetBusyTimeout(busyTimeout)
	return w.c.exec("PRAGMA wal_checkpoint(TRUNCATE)", nil)
}

// drain is checkpoint on a full disk. It does nothing if the file would have to grow, since
// that takes what room there is and gives none back.
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

// vacuum writes the file anew if it has free pages and does not know how to give them back.
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
