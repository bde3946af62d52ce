package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

const (
	// pollEvery is how often the server is asked what other processes have written.
	pollEvery = 25 * time.Millisecond
	// headsPage is for how many runs it is asked at once.
	headsPage = 1000
)

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
	w, grown, err := s.watch.join(id, seq)
	if err != nil {
		return err
	}
	defer s.watch.leave(id, w)
	// Looked at only now, so that nothing falls between looking and waiting.
	m, _, err := s.find(ctx, id)
	if err != nil || m.info.Head >= seq {
		return err
	}
	select {
	case <-grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return fmt.Errorf("waiting for run %s: %w", id, s.closedError())
	}
}

func (w *watch) join(id string, seq uint64) (*waiters, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, fmt.Errorf("waiting for run %s: %w", id, w.s.closedError())
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
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for p := (pause{}); ; {
		select {
		case <-tick.C:
		case <-w.s.closing:
			return
		}
		ids := w.wanted()
		if ids == nil {
			return
		}
		if err := w.look(ctx, ids); err != nil {
			if errors.Is(err, runlog.ErrStoreReset) {
				for id := range ids {
					w.wake(id) // readers find out what is wrong when they read
				}
			}
			p.next(ctx, w.s.closing)
			continue
		}
		p = pause{}
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

// look wakes those whose run has grown or gone.
func (w *watch) look(ctx context.Context, ids map[string]uint64) error {
	page := make([]string, 0, min(len(ids), headsPage))
	for id := range ids {
		if page = append(page, id); len(page) == headsPage {
			if err := w.lookAt(ctx, page, ids); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	return w.lookAt(ctx, page, ids)
}

func (w *watch) lookAt(ctx context.Context, page []string, ids map[string]uint64) error {
	if len(page) == 0 {
		return nil
	}
	s := w.s
	keys := make([]string, len(page))
	for i, id := range page {
		keys[i] = s.keys.run(id)
	}
	known := s.known.Load()
	p := s.client.Pipeline()
	store := p.HMGet(ctx, s.keys.store, "id", "lsn")
	metas := p.MGet(ctx, keys...)
	if _, err := p.Exec(ctx); err != nil {
		return err
	}
	if err := s.observe(store.Val(), known); err != nil {
		return err
	}
	for i, v := range metas.Val() {
		text, _ := v.(string)
		m, err := decodeMeta(page[i], text)
		if err != nil || m.info.Head >= ids[page[i]] {
			w.wake(page[i])
		}
	}
	return nil
}

func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.polling.Wait()
}
