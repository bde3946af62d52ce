package compile

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// slots are the places for running steps in a recipe and in the recipes that call it, the innermost
// first.
type slots []*semaphore.Weighted

func newSlot(width int) *semaphore.Weighted {
	if width <= 0 {
		width = recipe.DefaultConcurrency
	}
	return semaphore.NewWeighted(int64(width))
}

// take waits for a place, in the order of arrival, and returns the function that frees it. After a
// run is told to stop, no more slots are granted.
func (s slots) take(ctx context.Context, t *graph.Task) (leave func(), err error) {
	leave = func() {}
	err = t.Scope().Afresh(func() (err error) { leave, err = s.enter(ctx, t); return err })
	return leave, err
}

func (s slots) enter(ctx context.Context, t *graph.Task) (leave func(), err error) {
	taken := 0
	leave = func() {
		for _, one := range s[:taken] {
			one.Release(1)
		}
	}
	for taken < len(s) && s[taken].TryAcquire(1) {
		taken++
	}
	if taken == len(s) {
		return leave, nil
	}
	t.Scope().Live(eventQueued, nil)
	defer func() {
		if err == nil {
			t.Scope().Placed()
			t.Scope().Live(eventWorks, nil)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if stop := t.Stopped(); stop != nil {
		done := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			select {
			case <-stop:
				cancel(pregel.ErrStopped)
			case <-done:
			}
		}()
		defer func() { close(done); <-ended }()
	}
	for _, one := range s[taken:] {
		if err := one.Acquire(ctx, 1); err != nil {
			leave()
			if cause := context.Cause(ctx); errors.Is(cause, pregel.ErrStopped) {
				return nil, cause
			}
			return nil, err
		}
		taken++
	}
	select {
	case <-t.Stopped():
		leave()
		return nil, pregel.ErrStopped
	default:
		return leave, nil
	}
}
