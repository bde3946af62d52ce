package file

import (
	"context"
	"sync"
	"time"
)

// pollEvery is the interval at which a waiter checks whether another process has written.
const pollEvery = 40 * time.Millisecond

// Wait implements [runlog.Waiter].
func (s *store) Wait(ctx context.Context, id string, seq uint64) error {
	return s.watch.Wait(ctx, id, seq)
}

func (s *store) head(ctx context.Context, id string) (uint64, error) {
	if err := s.alive(ctx); err != nil {
		return 0, err
	}
	g, err := s.look(ctx, id)
	if err == nil {
		err = g.damage
	}
	if err != nil {
		return 0, s.explain("reading", err)
	}
	return g.st.Seq, nil
}

func (s *store) poll(ctx context.Context, runs map[string]uint64, wake func(string)) error {
	for id, seq := range runs {
		if head, err := s.head(ctx, id); err != nil || head >= seq {
			wake(id)
		}
	}
	return nil
}

// holds are the runs that this store holds.
type holds struct {
	mu     sync.Mutex
	held   map[string]*log
	closed bool
}

// keep notes a hold of this store. It reports false if the store is closed.
func (h *holds) keep(l *log) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.held == nil {
		h.held = map[string]*log{}
	}
	h.held[l.ID] = l
	return true
}

func (h *holds) forget(l *log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[l.ID] == l {
		delete(h.held, l.ID)
	}
}

func (h *holds) of(id string) *log {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[id]
}

// close returns all holds, and accepts no more.
func (h *holds) close() (held []*log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, l := range h.held {
		held = append(held, l)
	}
	return held
}
