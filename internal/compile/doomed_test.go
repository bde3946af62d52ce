package compile_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// doom fails at 0.1 s, beside a chain and a foreach.
const doom = `
name: test
max_concurrency: 4
steps:
  - {id: bad, subagent: x, on_error: fail, prompt: 0.1 bad}
  - {id: s1, subagent: y, prompt: 0.5 s1}
  - {id: s2, subagent: y, depends_on: [s1], prompt: 0.5 s2}
  - {id: s3, subagent: y, depends_on: [s2], prompt: 0.5 s3}
  - id: fan
    foreach: {in: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], width: 1, steps: [{id: i, subagent: y, prompt: 0.3 i}]}
  - {id: s0, subagent: y, prompt: 0.05 s0}
  - {id: wide, depends_on: [s0], foreach: {in: [1, 2, 3, 4, 5, 6, 7, 8], steps: [{id: w, subagent: y, prompt: 0.3 w}]}}
`

// slowly has a kitchen in which agents take as long as their prompts say, and x fails. It counts what begins after that.
func slowly() (k *kitchen, after *atomic.Int32) {
	after = &atomic.Int32{}
	var failed atomic.Bool
	k = &kitchen{delay: func(p string) time.Duration {
		if failed.Load() {
			after.Add(1)
		}
		var s float64
		_, _ = fmt.Sscan(p, &s)
		return time.Duration(s * float64(time.Second))
	}}
	k.say = map[string]func(string) (string, error){"x": func(string) (string, error) {
		failed.Store(true)
		return "", errors.New("no luck")
	}}
	return k, after
}

// Once a step has failed for good, no other agent begins: neither a step after those that run, nor an item of a foreach, and none that waits for a place.
func TestNothingBeginsAfterAFailure(t *testing.T) {
	for _, fast := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k, after := slowly()
			text, took := doom, 500*time.Millisecond
			if fast {
				text, took = strings.Replace(doom, "max_concurrency", "fail_fast: true\nmax_concurrency", 1), 100*time.Millisecond
			}
			begun := time.Now()
			r := k.run(t, text, "")
			r.status(t, runlog.Failed)
			if d := time.Since(begun); d != took || after.Load() != 0 || !strings.Contains(r.Err.Error(), "node bad") {
				t.Errorf("fail_fast %v: it ended after %v, and %d agents began after the failure: %v", fast, d, after.Load(), r.Err)
			}
			r.engine.Close()
		})
	}
}

// What was not begun is begun when the run is resumed, and nothing is done twice.
func TestFailedRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := slowly()
		r := k.run(t, doom, "")
		r.status(t, runlog.Failed)
		k.say = nil
		again, err := r.engine.Resume(t.Context(), r.id, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ended(t, r.engine, again)
		got.status(t, runlog.Completed)
		if n := k.asked("y: 0.3 i"); n != 10 {
			t.Errorf("the items were asked %d times, want 10", n)
		}
		got.engine.Close()
	})
}

// The replay of a failed run begins as little as the run did.
func TestFailedRunReplays(t *testing.T) {
	k, _ := slowly()
	r := k.run(t, doom, "")
	r.status(t, runlog.Failed)
	r.replays(t, k)
}

// A person who turns a step down ends the run: what comes after the others does not begin.
func TestNothingBeginsAfterARejection(t *testing.T) {
	k, _ := slowly()
	r := k.run(t, `
name: test
steps:
  - {id: g, subagent: y, gate: human, prompt: 0 g}
  - {id: s1, subagent: y, prompt: 0 s1}
  - {id: s2, subagent: y, depends_on: [s1, late], prompt: 0 s2}
  - {id: late, ask: {question: When?}}
`, "")
	r.status(t, runlog.Paused)
	r = r.answer(t, "g", `{"decision": "reject"}`)
	if n := k.asked("y: 0 s2"); r.Status != runlog.Failed || n != 0 {
		t.Errorf("the run is %s, and s2 was asked %d times: %v", r.Status, n, r.Err)
	}
}

// A condition that refers to a step decides for itself, also where a failure of the step skips what depends on it.
func TestConditionBesideOnErrorSkip(t *testing.T) {
	k := &kitchen{say: map[string]func(string) (string, error){"x": func(string) (string, error) { return "", errors.New("no luck") }}}
	r := k.run(t, `
name: test
steps:
  - {id: deploy, subagent: x, on_error: skip, prompt: deploy}
  - {id: rollback, subagent: y, depends_on: [deploy], when: 'steps.deploy.status == "failed"', prompt: roll back}
  - {id: after, subagent: y, depends_on: [deploy], prompt: after}
`, "")
	r.status(t, runlog.Partial)
	if k.asked("y: roll back") != 1 || k.asked("y: after") != 0 {
		t.Error(k.order())
	}
	r.replays(t, k)
}
