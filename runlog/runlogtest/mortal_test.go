package runlogtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A store under a process that does not die is a store like others.
func TestMortalIsAStore(t *testing.T) {
	runlogtest.Run(t, func(*testing.T) runlog.Store {
		m := runlogtest.NewMortal()
		m.Quarantine = true
		return m
	})
}

func acquire(t *testing.T, m *runlogtest.Mortal, opt *runlog.AcquireOptions) runlog.Log {
	t.Helper()
	l, _, err := m.Acquire(t.Context(), "r", opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func one() *runlog.Batch {
	return &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: time.Unix(1, 0)}}}
}

func stored(t *testing.T, m *runlogtest.Mortal) (n int) {
	t.Helper()
	for _, err := range runlog.Records(t.Context(), m, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestMortalDies(t *testing.T) {
	for _, c := range []struct {
		name   string
		die    func(m *runlogtest.Mortal)
		acked  int // of five appends at once
		stored int
	}{
		{"never", func(*runlogtest.Mortal) {}, 5, 5},
		{"never, in so many words", func(m *runlogtest.Mortal) { m.DieAt(-1, true) }, 5, 5},
		{"now", (*runlogtest.Mortal).Die, 0, 0},
		{"before the next", func(m *runlogtest.Mortal) { m.DieAt(0, false) }, 0, 0},
		{"after the next", func(m *runlogtest.Mortal) { m.DieAt(0, true) }, 0, 1},
		{"before the third", func(m *runlogtest.Mortal) { m.DieAt(2, false) }, 2, 2},
		{"after the third", func(m *runlogtest.Mortal) { m.DieAt(2, true) }, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := runlogtest.NewMortal()
			l := acquire(t, m, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
			c.die(m)
			var mu sync.Mutex
			var work sync.WaitGroup
			acked := 0
			for range 5 {
				work.Go(func() {
					err := l.Append(context.Background(), one())
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						acked++
					} else if !errors.Is(err, runlogtest.ErrCrash) {
						t.Error(err)
					}
				})
			}
			work.Wait()
			if n := stored(t, m); acked != c.acked || n != c.stored || m.Dead() != (c.acked < 5) {
				t.Errorf("%d acknowledged, %d stored, dead %v", acked, n, m.Dead())
			}
		})
	}
}

// The dead do nothing, not even when there is another process.
func TestMortalRevives(t *testing.T) {
	for _, dies := range []bool{true, false} {
		m := runlogtest.NewMortal()
		first := acquire(t, m, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		m.DieAt(3, false)
		still := func() {
			t.Helper()
			if err := first.Append(t.Context(), one()); !errors.Is(err, runlogtest.ErrCrash) {
				t.Errorf("Append: %v", err)
			}
			if _, err := first.Renew(t.Context()); !errors.Is(err, runlogtest.ErrCrash) {
				t.Errorf("Renew: %v", err)
			}
			if err := first.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
		if dies {
			m.Die()
			still()
			if _, _, err := m.Acquire(t.Context(), "r", nil); !errors.Is(err, runlogtest.ErrCrash) {
				t.Errorf("Acquire: %v", err)
			}
			infos, err := m.Runs(t.Context(), nil)
			if err != nil || len(infos) != 1 || infos[0].Status != runlog.Running {
				t.Errorf("the dead has let go of its run: %+v, %v", infos, err)
			}
		}
		m.Revive()
		still()
		second := acquire(t, m, nil)
		still()
		for range 5 { // DieAt was for the life before
			if err := second.Append(t.Context(), one()); err != nil {
				t.Fatal(err)
			}
		}
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquire(t, m, nil) // as a process that lives lets go
		if n := stored(t, m); n != 5 || m.Dead() {
			t.Errorf("%d records, dead %v", n, m.Dead())
		}
	}
}
