package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// times are how many seconds the tests of packages took the last time.
type times struct {
	mu      sync.Mutex
	seconds map[string]float64 // by the lane, a space and the package
}

// remembered returns the times of the last check of this user.
func remembered() *times {
	t := &times{seconds: map[string]float64{}}
	if data, err := os.ReadFile(filepath.Join(cacheDir(), "times.json")); err == nil {
		_ = json.Unmarshal(data, &t.seconds) // without them the order is that of another machine
	}
	return t
}

// save keeps the times for the next check.
func (t *times) save() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	data, err := json.Marshal(t.seconds)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cacheDir(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cacheDir(), "times.json"), data, 0o600)
}

// set notes how long a package took in a lane.
func (t *times) set(lane, pkg string, seconds float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seconds[lane+" "+pkg] = seconds
}

// of returns how long a package may take in a lane: what it took the last time, or else on two cores.
func (t *times) of(lane, pkg string) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.seconds[lane+" "+pkg]; ok {
		return s
	}
	if s, ok := slow()[strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")]; ok {
		return s
	}
	return 1
}

// slow has the seconds that the slowest packages took on two cores, by their folder. They begin first where nothing is remembered.
func slow() map[string]float64 {
	return map[string]float64{
		"cli": 100, "cmd/superstep": 90, "internal/crash": 60, "internal/tui": 50, "internal/docs": 50, "": 40, "internal/floors": 40,
		"runlog/postgres": 30, "runlog/redis": 30, "agent/acp": 20, "internal/hosttest": 20, "console": 20, "internal/golden": 20, "tool/sandbox": 20,
	}
}
