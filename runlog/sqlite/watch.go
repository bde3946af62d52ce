package sqlite

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pollEvery is how often the file is asked whether another process has written.
const pollEvery = 50 * time.Millisecond

// watch wakes those who wait for runs to grow. Appends of this store wake them
// directly; for those of others one goroutine polls while anybody waits.
type watch struct {
	s *Store

	mu      sync.Mutex
	waiting map[string]*waiters
	polling sync.WaitGroup
	running bool // the goroutine is there
	closed  bool

	c       *conn // the goroutine's
	version int64 // what PRAGMA data_version last said on it
}

// waiters are those who wait for one run.
type waiters struct {
	count int
	seq   uint64        // the smallest number anybody waits for
	grown chan struct{} // closed to wake them all
}

// Wait implements [runlog.Waiter].
func (s *Store) Wait(ctx context.Context, id string, seq uint64) error {
	w, grown, err := s.watch.join(id, seq)
	if err != nil {
		return err
	}
	defer s.watch.leave(id, w)
	// Looked at only now, so that nothing falls between looking and waiting.
	head, err := s.head(ctx, id)
	if err != nil || head >= seq {
		return err
	}
	select {
	case <-grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return fmt.Errorf("waiting for run %s: %w", id, errClosed)
	}
}

// head reads the number of a run's last record.
func (s *Store) head(ctx context.Context, id string) (head uint64, err error) {
	err = s.reading(ctx, func(v view) error {
		r, err := v.findRow(id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return s.notFound(id)
		}
		head = r.info.Head
		return nil
	})
	return head, s.explain("reading", err)
}

func (w *watch) join(id string, seq uint64) (*waiters, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, fmt.Errorf("waiting for run %s: %w", id, errClosed)
	}
	r := w.waiting[id]
	if r == nil {
		r = &waiters{seq: seq, grown: make(chan struct{})}
		if w.waiting == nil {
			w.waiting = map[string]*waiters{}
		}
		w.waiting[id] = r
	}
	r.count++
	r.seq = min(r.seq, seq)
	if !w.running {
		w.running = true
		w.polling.Go(w.poll)
	}
	return r, r.grown, nil
}

func (w *watch) leave(id string, r *waiters) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.count--
	if r.count == 0 && w.waiting[id] == r {
		delete(w.waiting, id)
	}
}

// wake wakes all who wait for a run.
func (w *watch) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.waiting[id]; r != nil {
		delete(w.waiting, id)
		close(r.grown)
	}
}

// poll runs until a tick finds nobody waiting.
func (w *watch) poll() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.s.closing:
			return
		}
		ids := w.wanted()
		if ids == nil {
			return
		}
		if err := w.look(ids); err != nil {
			// Readers find out what is wrong when they read.
			_ = w.c.close()
			w.c = nil
			for id := range ids {
				w.wake(id)
			}
		}
	}
}

// wanted returns what is waited for. When that is nothing, the goroutine is taken
// to be gone.
func (w *watch) wanted() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.running = false
		return nil
	}
	ids := make(map[string]uint64, len(w.waiting))
	for id, r := range w.waiting {
		ids[id] = r.seq
	}
	return ids
}

// look wakes those whose run has grown or gone, if the file has changed since the
// last look.
func (w *watch) look(ids map[string]uint64) error {
	if w.c == nil {
		c, err := openReader(w.s.path)
		if err != nil {
			return err
		}
		w.c, w.version = c, 0
	}
	version, err := w.c.integer("PRAGMA data_version", nil)
	if err != nil || version == w.version {
		return err
	}
	err = w.c.snapshot(func() error {
		v, err := w.s.recent.view(w.c)
		if err != nil {
			return err
		}
		for id, seq := range ids {
			r, err := v.findRow(id)
			if err != nil {
				return err
			}
			if r == nil || r.info.Head >= seq {
				w.wake(id)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.version = version
	return nil
}

func (w *watch) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.polling.Wait()
	err := w.c.close()
	w.c = nil
	return err
}
