package pregel

import (
	"math"
	"time"
)

// A Retry describes how often and how soon a failed task is tried again. If nil, there is one
// attempt.
type Retry struct {
	Attempts int              // in all, the first included; defaults to 3
	Backoff  time.Duration    // before the second attempt; defaults to 500 ms, negative for none
	Factor   float64          // from one pause to the next; defaults to 2
	Max      time.Duration    // of a pause; defaults to 30 s
	Jitter   float64          // a pause is shortened by up to this part of it, 0 to 1; defaults to 0.1, negative for none
	If       func(error) bool // whether a failure is worth another attempt; defaults to always
}

// After returns the pause between an attempt that failed, counted from 1, and the next, and whether
// there is a next. Chance, in [0, 1), selects the pause between its bounds.
func (r *Retry) After(attempt int, err error, chance float64) (time.Duration, bool) {
	if r == nil {
		return 0, false
	}
	attempts, pause, factor, most, jitter := r.Attempts, r.Backoff, r.Factor, r.Max, r.Jitter
	if attempts == 0 {
		attempts = 3
	}
	if attempt >= attempts || r.If != nil && !r.If(err) {
		return 0, false
	}
	switch {
	case pause < 0:
		return 0, true
	case pause == 0:
		pause = 500 * time.Millisecond
	}
	if factor == 0 {
		factor = 2
	}
	if most == 0 {
		most = 30 * time.Second
	}
	if jitter == 0 {
		jitter = 0.1
	}
	d := min(float64(pause)*math.Pow(factor, float64(attempt-1)), float64(most), 1<<62)
	d *= 1 - min(max(jitter, 0), 1)*chance
	return min(time.Duration(d), most), true
}
