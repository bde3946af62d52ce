package faults_test

import (
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
)

// Tests watch the clock in the lane of timed tests alone, and elsewhere have ten times as long.
func TestTimed(t *testing.T) {
	skips := func() (skipped bool) {
		t.Run("", func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			faults.Timed(t)
		})
		return skipped
	}
	t.Setenv("SUPERSTEP_TEST_TIMED", "")
	if got := faults.Bound(time.Second); got < 10*time.Second || !skips() {
		t.Errorf("outside the lane: at most %s", got)
	}
	t.Setenv("SUPERSTEP_TEST_TIMED", "1")
	if got := faults.Bound(time.Hour); got < time.Hour || skips() {
		t.Errorf("in the lane: at most %s", got)
	}
}
