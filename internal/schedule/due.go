package schedule

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// Grace is how late a tick may be carried out without counting as missed.
const Grace = time.Minute

// MaxCaughtUp is how many missed ticks are caught up at most.
const MaxCaughtUp = 1000

// A Rule is when a schedule starts runs.
type Rule struct {
	ID      string
	Cron    *Cron
	Jitter  time.Duration // the longest delay of a tick
	CatchUp CatchUp
}

// CatchUp tells which missed ticks are caught up: the newest Ticks of them, and those that are not older than Within.
type CatchUp struct {
	Ticks  int
	Within time.Duration
}

// ParseCatchUp parses a number of ticks or a duration. The default is one tick.
func ParseCatchUp(s string) (CatchUp, error) {
	if s == "" {
		return CatchUp{Ticks: 1}, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n <= MaxCaughtUp {
		return CatchUp{Ticks: n}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return CatchUp{Within: d}, nil
	}
	return CatchUp{}, fmt.Errorf("catch-up %q: want how many missed times to catch up, from 0 to %d, or how far back, such as 24h", s, MaxCaughtUp)
}

// Delay returns how long after its time a tick is carried out. It depends on the schedule and the tick alone, so all workers agree on it.
func (r *Rule) Delay(tick time.Time) time.Duration {
	if r.Jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", r.ID, tick.Unix()) // it cannot fail
	sum := h.Sum64()
	sum = (sum ^ sum>>31) * 0x9e3779b97f4a7c15 // neighbouring ticks differ in the last bits of the hash only
	return time.Duration(sum>>1) % r.Jitter
}

// Next returns when the first tick after a time is due, or the zero time if there is none.
func (r *Rule) Next(after time.Time) time.Time {
	tick := r.Cron.Next(after)
	if tick.IsZero() {
		return tick
	}
	return tick.Add(r.Delay(tick)).UTC()
}

// Due returns the ticks after a time that are to be carried out at another, in order, and how many older ones count as missed. All ticks up to until are
// decided by that.
func (r *Rule) Due(after, now time.Time) (ticks []time.Time, missed int, until time.Time) {
	until = after
	for tick := r.Cron.Next(after); !tick.IsZero() && !now.Before(tick.Add(r.Delay(tick))); tick = r.Cron.Next(tick) {
		until = tick
		if ticks = append(ticks, tick); len(ticks) >= 2*MaxCaughtUp { // there may be years of them
			ticks = append(ticks[:0], ticks[MaxCaughtUp:]...)
			missed += MaxCaughtUp
		}
	}
	late := 0 // the ticks are in order, and so are their last moments
	for late < len(ticks) && now.Sub(ticks[late]) > r.Jitter+Grace {
		late++
	}
	drop := late - r.CatchUp.Ticks
	if r.CatchUp.Within > 0 {
		for drop = 0; drop < late && now.Sub(ticks[drop]) > r.CatchUp.Within; {
			drop++
		}
	}
	drop = max(drop, late-MaxCaughtUp, 0)
	return ticks[drop:], missed + drop, until
}

// RunID returns the ID of the run that a tick starts.
func RunID(schedule string, tick time.Time) string {
	return schedule + "-" + tick.UTC().Format("20060102t150405z")
}
