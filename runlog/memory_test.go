package runlog_test

import (
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

type memory struct {
	*runlog.Memory
	*runlogtest.Clock
}

func TestMemory(t *testing.T) {
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		c := runlogtest.NewClock()
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
