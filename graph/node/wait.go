package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

// clockless returns the error for a missing clock.
func clockless(c *agent.Clock) error {
	return errors.Join(missing("clock's Now", c.Now == nil), missing("clock's After", c.After == nil))
}

// sleep waits for the duration or until the run is stopped, whichever is first.
func sleep(ctx context.Context, t *graph.Task, c *agent.Clock, d time.Duration) error {
	select {
	case <-c.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.Stopped():
		return pregel.ErrStopped // nobody should have to wait for somebody who waits
	}
}

// Wait returns a node that waits for a while. The end of the wait is fixed and recorded when it
// begins: a resumed run waits only for the rest. If the run is told to stop, the wait is
// interrupted and continues when the run is resumed.
func Wait[S, U any](name string, clock agent.Clock, while func(S) (time.Duration, error), update func(S) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "wait"}
	n.Err = errors.Join(clockless(&clock), missing("duration", while == nil), missing("update", update == nil))
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		d, err := while(s)
		if err != nil {
			return u, err
		}
		effect := &journal.Effect{Key: "until", Kind: "timer", Name: name, Input: d.String()}
		until, err := journal.Do(ctx, t.Scope(), effect, func(context.Context, string) (time.Time, error) {
			return clock.Now().Add(d).UTC().Round(0), nil
		})
		if err != nil {
			return u, err
		}
		for left := until.Sub(clock.Now()); left > 0; left = until.Sub(clock.Now()) {
			if err := sleep(ctx, t, &clock, left); err != nil {
				return u, err
			}
		}
		return update(s)
	}
	return n
}

// Until returns a node that waits for something to hold, and looks for it at once and then at every
// interval. It waits for ever unless it has a Timeout, which counts from when the run was last
// resumed. Once the condition holds, that is recorded. If holds returns an error, the node fails.
func Until[S, U any](name string, clock agent.Clock, every time.Duration, holds func(context.Context, S) (bool, error),
	update func(S) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "wait"}
	n.Err = errors.Join(clockless(&clock), missing("condition", holds == nil), missing("update", update == nil))
	if every <= 0 {
		n.Err = errors.Join(n.Err, fmt.Errorf("its interval is %v; it must be more than nothing", every))
	}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		for round := 1; ; round++ {
			effect := &journal.Effect{Key: fmt.Sprintf("held-%d", round), Kind: "timer", Name: name}
			stopped := false
			held, err := journal.Do(ctx, t.Scope(), effect, func(ctx context.Context, _ string) (bool, error) {
				for {
					if ok, err := holds(ctx, s); ok || err != nil {
						return ok, err
					}
					err := sleep(ctx, t, &clock, every)
					if stopped = errors.Is(err, pregel.ErrStopped); stopped {
						return false, nil // that is no failure of the effect
					} else if err != nil {
						return false, err
					}
				}
			})
			switch {
			case err != nil:
				return u, err
			case held:
				return update(s)
			case stopped:
				return u, pregel.ErrStopped
			}
		}
	}
	return n
}
