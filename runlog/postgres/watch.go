package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// pollEvery is how often the server is asked for the heads of runs that are waited for.
// NOTIFY is not used: it takes a lock of the whole server in every commit, which would
// keep commits from sharing a write to the disk.
const pollEvery = 25 * time.Millisecond

// watch wakes those who wait for runs to grow. Appends of this store wake them directly;
// for those of others one goroutine polls while anybody waits.
type watch struct {
	s *Store

	mu      sync.Mutex
	waiting map[string]*waiters
	polling sync.WaitGroup
	running bool // the goroutine is there
	closed  bool
}

// waiters are those who wait for one run.
type waiters struct {
	count int
	seq   uint64        // the smallest number anybody waits for
	grown chan struct{} // closed to wake them all
}

// Wait implements [runlog.Waiter].
func (s *Store) Wait(ctx context.Context, id string, seq uint64) error {
	if runlog.CheckID(id) != nil {
		return s.notFound(id)
	}
	w, grown, err := s.watch.join(id, seq)
	if err != nil {
		return err
	}
	defer s.watch.leave(id, w)
	// Looked at only now, so that nothing falls between looking and waiting.
	heads, err := s.heads(ctx, map[string]uint64{id: seq})
	if err != nil {
		return err
	}
	head, known := heads[id]
	switch {
	case !known:
		return s.notFound(id)
	case head >= seq:
		return nil
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

// heads reads the numbers of the runs' last records.
func (s *Store) heads(ctx context.Context, ids map[string]uint64) (heads map[string]uint64, err error) {
	list := make([]string, 0, len(ids))
	for id := range ids {
		list = append(list, id)
	}
	err = s.with(ctx, reading, func(ctx context.Context, c *conn) error {
		heads = map[string]uint64{}
		return c.query(ctx, "SELECT id, head FROM runs WHERE id = ANY ($1::text[])", func(v [][]byte) error {
			heads[string(v[0])] = uint64(toInt(v[1]))
			return nil
		}, texts(list, func(id string) string { return id }))
	})
	return heads, err
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
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w.polling.Go(func() { // so that closing does not wait for a server that is away
		select {
		case <-w.s.closing:
			stop()
		case <-ctx.Done():
		}
	})
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
		heads, err := w.s.heads(ctx, ids)
		for id, seq := range ids {
			// Whoever reads finds out what is wrong.
			if head, known := heads[id]; err != nil || !known || head >= seq {
				w.wake(id)
			}
		}
	}
}

// wanted returns what is waited for. When that is nothing, the goroutine is taken to be
// gone.
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

func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.polling.Wait()
}
