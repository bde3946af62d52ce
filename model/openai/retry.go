package openai

import (
	"context"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// nextWait decides whether attempt n (from 1), which failed, is followed by another,
// and how long to wait before it. Silence and timeouts are not tried again: the time
// they took is what the limits are there to bound.
func (m *Model) nextWait(n int, fail *model.Error) (time.Duration, bool) {
	if !fail.Temporary || n >= m.opts.Retries || fail.Code == model.CodeIdle || fail.Code == model.CodeTimeout {
		return 0, false
	}
	jitter := m.opts.Jitter()
	if fail.RetryAfter > 0 {
		wait := fail.RetryAfter + time.Duration(jitter*float64(m.opts.Backoff))
		return wait, fail.RetryAfter <= m.opts.MaxWait
	}
	wait := min(m.opts.Backoff<<min(n-1, 10), maxBackoff, m.opts.MaxWait)
	return time.Duration(float64(wait) * (0.5 + jitter/2)), true
}

// sleep waits and reports whether it could: not when ctx ends first, or would.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
