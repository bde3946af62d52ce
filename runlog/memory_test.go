package runlog_test

import (
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type memory struct {
	*runlog.Memory
	clock *clock
}

func (m memory) Expire(*testing.T, string) { m.clock.Move(time.Minute) }

func TestMemory(t *testing.T) {
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		c := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		return memory{runlog.NewMemory(&runlog.MemoryOptions{Now: c.Now}), c}
	})
}

func TestMemoryDefaults(t *testing.T) {
	m := runlog.NewMemory(nil)
	l, info, err := m.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	if info.Owner == "" || time.Since(info.Created) > time.Minute {
		t.Fatalf("%+v", info)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
