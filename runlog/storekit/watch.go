package storekit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClosed is the error of all calls to a closed store.
var ErrClosed = errors.New("the store is closed")

// A Watch wakes callers that wait for runs to grow, for a store that is a [runlog.Waiter]. Appends of the same store wake them directly; for appends of
// other processes, one goroutine polls while there are waiters. Set the fields before the first Wait. Its methods are safe for concurrent use.
type Watch struct {
	// Every is the time between two polls.
	Every time.Duration
	// Head returns the number of a run's last record, or an error if there is none.
	Head func(ctx context.Context, id string) (uint64, error)
	// Poll calls wake for each run that has reached its number or was deleted. After an error, all waiters wake and find the error when they read. Only
	// one goroutine at a time calls Poll.
	Poll func(ctx context.Context, runs map[string]uint64, wake func(id string)) error

	mu      sync.Mutex
	waiting map[string]*waiters
	polling sync.WaitGroup
	stop    context.CancelFunc // of the goroutine, nil while there is none
	closing chan struct{}
	closed  bool
}

// waiters holds the callers that wait for one run.
type waiters struct {
	count int
	seq   uint64        // the smallest number anybody waits for
	grown chan struct{} // closed to wake them all
}

// Wait implements [runlog.Waiter].
func (w *Watch) Wait(ctx context.Context, id string, seq uint64) error {
	r, grown, closing := w.join(id, seq)
	defer w.leave(id, r)
	select {
	case <-closing:
		return fmt.Errorf("waiting for run %s: %w", id, ErrClosed)
	default:
	}
	// Looked at only now, so that nothing falls between looking and waiting.
	head, err := w.Head(ctx, id)
	if err != nil || head >= seq {
		return err
	}
	select {
	case <-grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closing:
		return fmt.Errorf("waiting for run %s: %w", id, ErrClosed)
	}
}

func (w *Watch) join(id string, seq uint64) (r *waiters, grown, closing <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.init()
	r = w.waiting[id]
	if r == nil {
		r = &waiters{seq: seq, grown: make(chan struct{})}
		w.waiting[id] = r
	}
	r.count++
	r.seq = min(r.seq, seq)
	if w.stop == nil && !w.closed {
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		w.polling.Go(func() {
			defer stop()
			w.poll(ctx)
		})
	}
	return r, r.grown, w.closing
}

func (w *Watch) init() {
	if w.waiting == nil {
		w.waiting, w.closing = map[string]*waiters{}, make(chan struct{})
	}
}

func (w *Watch) leave(id string, r *waiters) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.count--
	if r.count == 0 && w.waiting[id] == r {
		delete(w.waiting, id)
	}
}

// Wake wakes all waiters of a run.
func (w *Watch) Wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.waiting[id]; r != nil {
		delete(w.waiting, id)
		close(r.grown)
	}
}

// poll runs until a tick finds no waiters.
func (w *Watch) poll(ctx context.Context) {
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		runs := w.wanted()
		if runs == nil {
			return
		}
		if err := w.Poll(ctx, runs, w.Wake); err != nil {
			for id := range runs {
				w.Wake(id)
			}
		}
	}
}

// wanted returns the runs that are waited for. If there are none, the polling goroutine counts as ended.
func (w *Watch) wanted() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.stop = nil
		return nil
	}
	runs := make(map[string]uint64, len(w.waiting))
	for id, r := range w.waiting {
		runs[id] = r.seq
	}
	return runs
}

// Close ends all waits, and returns when the polling goroutine has ended.
func (w *Watch) Close() {
	w.mu.Lock()
	w.init()
	if !w.closed {
		w.closed = true
		close(w.closing)
	}
	if w.stop != nil {
		w.stop()
	}
	w.mu.Unlock()
	w.polling.Wait()
}
