package pregel_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/pregel"
)

func TestRetryAfter(t *testing.T) {
	no := errors.New("no")
	plain := func(r pregel.Retry) *pregel.Retry { r.Jitter = -1; return &r }
	for name, c := range map[string]struct {
		retry   *pregel.Retry
		attempt int
		chance  float64
		want    time.Duration // negative for no other attempt
	}{
		"nil is once":            {nil, 1, 0, -1},
		"one attempt is once":    {&pregel.Retry{Attempts: 1}, 1, 0, -1},
		"three by default":       {&pregel.Retry{}, 2, 0, time.Second},
		"and no more":            {&pregel.Retry{}, 3, 0, -1},
		"first pause":            {&pregel.Retry{}, 1, 0, 500 * time.Millisecond},
		"jitter shortens":        {&pregel.Retry{}, 1, 0.5, 475 * time.Millisecond},
		"jitter of the whole":    {&pregel.Retry{Jitter: 1}, 1, 0.75, 125 * time.Millisecond},
		"no more than the whole": {&pregel.Retry{Jitter: 9}, 1, 0.75, 125 * time.Millisecond},
		"no jitter":              {plain(pregel.Retry{}), 1, 0.9, 500 * time.Millisecond},
		"the factor":             {plain(pregel.Retry{Attempts: 9, Backoff: time.Second, Factor: 3}), 3, 0, 9 * time.Second},
		"a steady pause":         {plain(pregel.Retry{Attempts: 9, Backoff: time.Second, Factor: 1}), 8, 0, time.Second},
		"the cap by default":     {plain(pregel.Retry{Attempts: 2000}), 1999, 0, 30 * time.Second},
		"a cap of one's own":     {plain(pregel.Retry{Attempts: 9, Max: time.Second}), 8, 0, time.Second},
		"a cap below the first":  {plain(pregel.Retry{Max: time.Millisecond}), 1, 0, time.Millisecond},
		"no pause":               {&pregel.Retry{Backoff: -1}, 2, 0.5, 0},
		"a hopeless failure":     {&pregel.Retry{If: func(err error) bool { return !errors.Is(err, no) }}, 1, 0, -1},
		"one with hope":          {&pregel.Retry{If: func(err error) bool { return errors.Is(err, no) }}, 1, 0, 500 * time.Millisecond},
	} {
		d, again := c.retry.After(c.attempt, no, c.chance)
		if again != (c.want >= 0) || again && d != c.want {
			t.Errorf("%s: %v, %v, want %v", name, d, again, c.want)
		}
	}
}

// No setting makes a pause negative or longer than its cap.
func TestRetryBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, int64(time.Hour)), rapid.Just(int64(math.MaxInt64)))
		r := &pregel.Retry{
			Attempts: math.MaxInt, Backoff: time.Duration(duration.Draw(t, "backoff")), Max: time.Duration(max(1, duration.Draw(t, "max"))),
			Factor: rapid.Float64Range(0, 1e300).Draw(t, "factor"), Jitter: rapid.Float64Range(-2, 2).Draw(t, "jitter"),
		}
		d, again := r.After(rapid.IntRange(1, 1e6).Draw(t, "attempt"), nil, rapid.Float64Range(0, 0.999).Draw(t, "chance"))
		if !again || d < 0 || d > r.Max {
			t.Fatalf("a pause of %d with %+v", d, *r)
		}
	})
}
