package storekit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/runlog/storekit"
)

// runs is what a Watch asks.
type runs struct {
	storekit.Watch
	head  atomic.Uint64 // of the run r, 0 if it is not there
	polls atomic.Int64
	err   atomic.Pointer[error] // of each poll
}

func watched() *runs {
	r := &runs{}
	r.head.Store(1)
	r.Every = time.Second
	r.Head = func(_ context.Context, id string) (uint64, error) {
		if id != "r" {
			return 0, errors.New("not there")
		}
		return r.head.Load(), nil
	}
	r.Poll = func(_ context.Context, runs map[string]uint64, wake func(string)) error {
		r.polls.Add(1)
		for id, seq := range runs {
			if r.head.Load() >= seq {
				wake(id)
			}
		}
		if err := r.err.Load(); err != nil {
			return *err
		}
		return nil
	}
	return r
}

// wait waits for a record of the run r, and returns how it ends.
func (r *runs) wait(ctx context.Context, seq uint64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.Wait(ctx, "r", seq) }()
	synctest.Wait()
	return done
}

func ended(t *testing.T, why string, done <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", why, err, want)
		}
	default:
		t.Errorf("%s: it still waits", why)
		<-done
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := watched()
		ended(t, "what is there", r.wait(t.Context(), 1), nil)
		if err := r.Wait(t.Context(), "other", 1); err == nil {
			t.Error("a run that is not there was waited for")
		}
		first, second := r.wait(t.Context(), 2), r.wait(t.Context(), 3)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(first) != 0 || r.polls.Load() != 5 {
			t.Errorf("%d polls in five seconds, and %d were woken", r.polls.Load(), len(first))
		}
		r.head.Store(2)
		time.Sleep(time.Second)
		ended(t, "another process wrote", first, nil)
		ended(t, "another process wrote, and readers look again", second, nil)
		third := r.wait(t.Context(), 3)
		r.Wake("other")
		synctest.Wait()
		if len(third) != 0 {
			t.Error("another run's append woke it")
		}
		r.Wake("r")
		ended(t, "an append of the store's own", third, nil)
		fourth := r.wait(t.Context(), 3)
		gone := errors.New("the disk is gone")
		r.err.Store(&gone)
		time.Sleep(time.Second)
		ended(t, "a poll that failed", fourth, nil)
		fifth := r.wait(t.Context(), 3)
		r.Close()
		ended(t, "a store that was closed", fifth, storekit.ErrClosed)
		ended(t, "a closed store", r.wait(t.Context(), 1), storekit.ErrClosed)
		r.Close()
	})
}

func TestNobodyPollsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := watched()
		short, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		if err := r.Wait(short, "r", 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if r.polls.Load() != 1 {
			t.Errorf("%d polls", r.polls.Load())
		}
		again := r.wait(t.Context(), 2)
		r.head.Store(2)
		time.Sleep(time.Second)
		ended(t, "polled again", again, nil)
		r.Close()
	})
}
