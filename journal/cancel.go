package journal

import (
	"context"
	"sync"

	"github.com/superstep-dev/superstep/internal/unlisted"
)

// cancels are the parts of a run that can be cancelled, and those that shall be.
type cancels struct {
	mu    sync.Mutex
	read  uint64            // how much of the requests was read
	asked map[string]bool   // paths
	parts map[string]func() // by path
}

// CancelPart cancels the part of the run that has the path, and reports whether it was under way. One that begins
// later is cancelled at once.
func (j *Journal) CancelPart(path string) bool {
	c := &j.cancels
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]bool{}
	}
	c.asked[path] = true
	cancel := c.parts[path]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// Cancellable has cancel called, once or more and not for long, when somebody asks for this part of the run to be
// cancelled, or has done so before; until stop is called. In a replay, and without a log, nobody asks.
func (s *Scope) Cancellable(cancel func()) (stop func()) {
	stop = func() {}
	if s != nil {
		_ = s.Afresh(func() error { stop = s.cancellable(cancel); return nil })
	}
	return stop
}

func (s *Scope) cancellable(cancel func()) (stop func()) {
	c := &s.j.cancels
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = map[string]func(){}
	}
	c.parts[s.path] = cancel
	if c.asked[s.path] {
		cancel()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.parts, s.path)
	}
}

// requested reads what was requested since, for Hold. What cannot be read now is read later.
func (j *Journal) requested(ctx context.Context) {
	// Most runs have no requests, and an error of the store itself the next append meets too.
	recs, _ := j.store.Read(ctx, unlisted.RequestsID(j.id), j.cancels.read+1, 64)
	for i := range recs {
		if recs[i].Kind == unlisted.KindCancel {
			j.CancelPart(recs[i].Path)
		}
		j.cancels.read = recs[i].Seq
	}
}
