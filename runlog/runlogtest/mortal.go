package runlogtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// ErrCrash is the error of a [Mortal] store once its process is dead.
var ErrCrash = errors.New("the process died")

// Mortal is a store in memory with a simulated process that can die, for tests of runs that crash.
// A dead process appends, renews, acquires and releases nothing more: it gets ErrCrash for all of
// it but the release, and keeps the leases it had. What it wrote can be read on. Appends are made
// one at a time, so those after the deadly one are not stored however many were under way. Its
// clock moves only from life to life.
type Mortal struct {
	*runlog.Memory

	// Quarantine enables quarantine as in other stores. Otherwise runs are taken over however many
	// processes have died.
	Quarantine bool

	past atomic.Int64 // lives that ended, which is also the clock, in hours

	mu    sync.Mutex
	left  int // appends until the deadly one, negative for none
	after bool
	dead  bool
}

// NewMortal returns an empty store whose process dies only when told to.
func NewMortal() *Mortal {
	m := &Mortal{left: -1}
	m.Memory = runlog.NewMemory(&runlog.MemoryOptions{Now: func() time.Time {
		return time.Unix(1, 0).Add(time.Duration(m.past.Load()) * time.Hour)
	}})
	return m
}

// DieAt lets the process die at an append, the next one for 0: before it is durable, or
// after that and before anybody is told. It is for this life only. No append is deadly if
// n is negative.
func (m *Mortal) DieAt(n int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.after = n, after
}

// Die lets the process die now.
func (m *Mortal) Die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// Dead reports whether the process has died and was not followed by another.
func (m *Mortal) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// Revive starts another process, which does not die unless it is told to, when the leases
// of the former one have run out. The former one is dead for good, whether it had died
// before or not.
func (m *Mortal) Revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past.Add(1)
	m.left, m.dead = -1, false
}

// Acquire implements [runlog.Store] for the process of this life.
func (m *Mortal) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, runlog.Info{}, ErrCrash
	}
	if !m.Quarantine {
		var o runlog.AcquireOptions
		if opt != nil {
			o = *opt
		}
		o.Quarantined = true
		opt = &o
	}
	l, info, err := m.Memory.Acquire(ctx, id, opt)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	return &mortalLog{l, m, m.past.Load()}, info, nil
}

// A mortalLog is the hold of the process of one life.
type mortalLog struct {
	log  runlog.Log
	m    *Mortal
	life int64
}

// dead reports whether the process that holds the log is. The store's lock is held.
func (l *mortalLog) dead() bool { return l.m.dead || l.life != l.m.past.Load() }

func (l *mortalLog) Append(ctx context.Context, b *runlog.Batch) error {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.dead() {
		return ErrCrash
	}
	m.dead = m.left == 0
	if m.left >= 0 {
		m.left--
	}
	if m.dead && !m.after {
		return ErrCrash
	}
	if err := l.log.Append(ctx, b); err != nil || !m.dead {
		return err
	}
	return ErrCrash
}

func (l *mortalLog) Renew(ctx context.Context) (cancel bool, err error) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.dead() {
		return false, ErrCrash
	}
	return l.log.Renew(ctx)
}

func (l *mortalLog) Release(ctx context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.dead() {
		return nil
	}
	return l.log.Release(ctx)
}
