package runlogtest

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A Clock stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at the beginning of 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock on by d.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Expire moves the clock past all leases, see [Run].
func (c *Clock) Expire(*testing.T, string) { c.Move(time.Minute) }

// Open opens a store with its package's function of that name and closes it when the test ends.
func Open[S io.Closer, O any](t testing.TB, open func(ctx context.Context, where string, opt *O) (S, error), where string, opt *O) S {
	t.Helper()
	s, err := open(t.Context(), where, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Create makes a run.
func Create(t testing.TB, s runlog.Store, id string) runlog.Log {
	t.Helper()
	l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Batch returns a batch of n records.
func Batch(n int) *runlog.Batch {
	b := &runlog.Batch{}
	for range n {
		b.Records = append(b.Records, runlog.Record{Kind: runlog.KindEvent, Time: time.Unix(1e9, 0), Data: json.RawMessage(`{"text":"some text"}`)})
	}
	return b
}

// Append appends n records.
func Append(t testing.TB, l runlog.Log, n int) {
	t.Helper()
	if err := l.Append(t.Context(), Batch(n)); err != nil {
		t.Fatal(err)
	}
}
