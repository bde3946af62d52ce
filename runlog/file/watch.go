package file

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pollEvery is how often those who wait for a run look whether another process has written.
const pollEvery = 40 * time.Millisecond

// watch wakes those who wait for runs to grow, and knows which runs this store holds.
// Appends of this store wake them directly; for those of others each looks for itself.
type watch struct {
	mu     sync.Mutex
	grown  map[string]*waiters
	held   map[string]*log
	closed bool
}

// waiters are those who wait for one run.
type waiters struct {
	count int
	grown chan struct{} // closed to wake them all
}

func (w *watch) join(id string) *waiters {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.grown[id]
	if r == nil {
		r = &waiters{grown: make(chan struct{})}
		if w.grown == nil {
			w.grown = map[string]*waiters{}
		}
		w.grown[id] = r
	}
	r.count++
	return r
}

func (w *watch) leave(id string, r *waiters) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.count--
	if r.count == 0 && w.grown[id] == r {
		delete(w.grown, id)
	}
}

func (w *watch) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.grown[id]; r != nil {
		delete(w.grown, id)
		close(r.grown)
	}
}

// keep notes a hold of this store. It reports false if the store is closed.
func (w *watch) keep(l *log) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	if w.held == nil {
		w.held = map[string]*log{}
	}
	w.held[l.id] = l
	return true
}

func (w *watch) forget(l *log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[l.id] == l {
		delete(w.held, l.id)
	}
}

func (w *watch) holds(id string) *log {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[id]
}

// close returns the holds there are, and takes no more.
func (w *watch) close() (held []*log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, l := range w.held {
		held = append(held, l)
	}
	return held
}

// Wait implements [runlog.Waiter].
func (s *Store) Wait(ctx context.Context, id string, seq uint64) error {
	tick := time.NewTimer(pollEvery)
	defer tick.Stop()
	for {
		// Looked at only after joining, so that nothing falls between looking and waiting.
		r := s.watch.join(id)
		more, err := s.waited(ctx, id, seq, r, tick)
		s.watch.leave(id, r)
		if !more {
			return err
		}
	}
}

func (s *Store) waited(ctx context.Context, id string, seq uint64, r *waiters, tick *time.Timer) (more bool, err error) {
	if err := s.alive(ctx); err != nil {
		return false, err
	}
	e, err := s.look(ctx, id)
	if err != nil || e.st.head >= seq {
		return false, s.explain("reading", err)
	}
	if e.damage != nil {
		return false, e.damage
	}
	tick.Reset(pollEvery)
	select {
	case <-r.grown:
		return false, nil
	case <-tick.C:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.closing:
		return false, fmt.Errorf("waiting for run %s: %w", id, errClosed)
	}
}
