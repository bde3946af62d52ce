package wire

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// nextWait decides whether attempt n (from 1), which failed, is followed by another, and how long
// to wait before it. Silence and timeouts are not retried: a retry would exceed the time that these
// limits bound.
func (c *Client) nextWait(n int, fail *model.Error) (time.Duration, bool) {
	if !fail.Temporary || n >= c.config.Retries || fail.Code == model.CodeIdle || fail.Code == model.CodeTimeout {
		return 0, false
	}
	jitter := c.config.Jitter()
	if fail.RetryAfter > 0 {
		wait := fail.RetryAfter + time.Duration(jitter*float64(c.config.Backoff))
		return wait, fail.RetryAfter <= c.config.MaxWait
	}
	wait := min(c.config.Backoff<<min(n-1, 10), maxBackoff, c.config.MaxWait)
	return time.Duration(float64(wait) * (0.5 + jitter/2)), true
}

// sleep waits and reports whether it did: it returns false if ctx ends first or would end first.
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

// retryAfter reads how long to wait, in any of the three forms in use. It returns 0 if the header
// is missing or has another form.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return bounded(ms / 1000)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
		return bounded(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(bounded(at.Sub(now).Seconds()), 0)
	}
	return 0
}

// limitReset reads how long to wait from rate limit headers such as x-ratelimit-reset-tokens and
// anthropic-ratelimit-tokens-reset: until the last of the exhausted limits is reset, or, if none is
// reported as exhausted, until the first reset of all.
func limitReset(h http.Header, now time.Time) time.Duration {
	var used, first time.Duration
	for name, values := range h {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") {
			continue
		}
		wait := untilReset(values[0], now)
		if wait <= 0 {
			continue
		}
		if first == 0 || wait < first {
			first = wait
		}
		left := strings.TrimSpace(h.Get(strings.Replace(name, "reset", "remaining", 1)))
		if left == "0" {
			used = max(used, wait)
		}
	}
	if used > 0 {
		return used
	}
	return first
}

// untilReset reads one of those headers: a time, a duration such as 6m0s, seconds, or
// seconds or milliseconds since 1970.
func untilReset(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return bounded(at.Sub(now).Seconds())
	}
	if d, err := time.ParseDuration(value); err == nil {
		return bounded(d.Seconds())
	}
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || !(n > 0):
		return 0
	case n > 1e11:
		return bounded(n/1000 - float64(now.UnixMilli())/1000)
	case n > 1e9:
		return bounded(n - float64(now.UnixMilli())/1000)
	}
	return bounded(n)
}

// bounded limits a wait to a year, so that absurd values do not overflow.
func bounded(seconds float64) time.Duration {
	const year = 365 * 24 * 3600
	return time.Duration(min(seconds, year) * float64(time.Second))
}
