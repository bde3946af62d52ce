// Package faults sizes and reports the tests that break things on purpose, and finds the programs that tests start. With
// SUPERSTEP_FAULTS=full in the environment they run their full numbers, as `./check crash`
// does, else about a tenth, or with -short, as in `./check`, a hundredth. With SUPERSTEP_TEST_TIMED
// in the environment, tests watch the clock, too: see Timed and Bound.
package faults

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Full reports whether the full numbers were asked for.
func Full() bool { return os.Getenv("SUPERSTEP_FAULTS") == "full" }

// N returns how often to repeat something that the full suite does full times: a tenth as often, or
// a hundredth with -short, but at least once.
func N(full int) int {
	switch {
	case Full():
		return full
	case testing.Short():
		return max(full/100, 1)
	}
	return max(full/10, 1)
}

// Unraced skips a test under the race detector, because it would look at nothing but slow everything down: what the test starts has none, or is looked at by
// other tests. `./check` runs it without.
func Unraced(tb testing.TB) {
	tb.Helper()
	if Raced {
		tb.Skip("it runs without the race detector")
	}
}

// Rand returns the test's own source of chance and its seed, which is the same each time
// unless SUPERSTEP_FAULTS_SEED names another one. A test prints the seed when it fails.
func Rand(tb testing.TB) (*rand.Rand, uint64) {
	tb.Helper()
	h := fnv.New64a()
	h.Write([]byte(tb.Name()))
	seed := h.Sum64()
	if s := os.Getenv("SUPERSTEP_FAULTS_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			tb.Fatalf("SUPERSTEP_FAULTS_SEED is %q, want a number", s)
		}
		seed = n
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("SUPERSTEP_FAULTS_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// Report prints one line of the suite's report: which fault, on which store, how often,
// how long it took, and what was found. `./check crash` gathers these lines.
func Report(tb testing.TB, fault, store string, n int, start time.Time, format string, args ...any) {
	tb.Helper()
	tb.Logf("FAULT\t%s\t%s\t%d\t%s\t%s", fault, store, n, time.Since(start).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// timed is the environment variable of the lane of timed tests.
const timed = "SUPERSTEP_TEST_TIMED"

// Timed skips a test whose subject is how long something takes, unless SUPERSTEP_TEST_TIMED is set in the environment. `./check deep` sets it in a lane
// of its own, which runs one package at a time and nothing beside it. A test that asserts other things as well asserts them without Timed, and its time
// with Bound.
func Timed(tb testing.TB) {
	tb.Helper()
	if os.Getenv(timed) == "" {
		tb.Skip("it watches the clock; set " + timed + "=1 with nothing else running")
	}
}

// Bound returns how long something may take of which limit is enough on a machine with nothing else to do. With SUPERSTEP_TEST_TIMED in the environment
// that is the limit itself, otherwise ten times the limit: other tests run beside it. Both become as many times longer as programs now share each of its
// processors, by Linux's /proc/loadavg, of which the last minute counts and this moment.
func Bound(limit time.Duration) time.Duration {
	if os.Getenv(timed) == "" {
		limit *= 10
	}
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return limit
	}
	var minute, five, fifteen float64
	var now int
	if _, err := fmt.Sscanf(string(data), "%f %f %f %d/", &minute, &five, &fifteen, &now); err != nil {
		return limit
	}
	return time.Duration(float64(limit) * max(1, max(minute, float64(now))/float64(runtime.NumCPU())))
}

// HangsUp lets programs that the test starts be ended by SIGHUP, also where nohup has the test ignore it: a signal that is caught has its default effect
// in a program that is started.
func HangsUp(tb testing.TB) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	tb.Cleanup(func() { signal.Stop(caught) })
}
