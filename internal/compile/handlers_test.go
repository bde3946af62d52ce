package compile_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
)

const handled = `
name: test
steps:
  - {id: work, subagent: x, on_error: fail, prompt: work}
  - {id: g, subagent: y, gate: human, depends_on: [work], prompt: go on}
on_failure:
  - {id: undo, subagent: y, prompt: "undo {{run.status}} {{run.failed}}: {{run.error}}"}
  - {id: tell, subagent: y, prompt: "tell {{steps.undo.output}}"}
on_cancel: {id: stop, subagent: y, prompt: "stop {{run.status}}"}
always: {id: tidy, subagent: z, prompt: "tidy {{run.status}}"}
`

// order returns what the agents were asked.
func (k *kitchen) order() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.prompts, "; ")
}

// The handlers of a run run after its end: by a failure, by a rejection, well, and by a cancellation.
func TestHandlers(t *testing.T) {
	no := map[string]func(string) (string, error){"x": func(string) (string, error) { return "", errors.New("no luck") }}
	k := &kitchen{say: no}
	r := k.run(t, handled, "")
	r.status(t, runlog.Failed)
	if want := `x: work; y: undo failed ["work"]: node work: agent x: no luck; y: tell [undo failed ["work"]: node work: agent x: no luck]; z: tidy failed`; k.order() != want || r.Err.Error() != "node work: agent x: no luck" {
		t.Errorf("asked %s\nwant %s\n%v", k.order(), want, r.Err)
	}
	r.replays(t, k)
	again, err := r.engine.Resume(t.Context(), r.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r = ended(t, r.engine, again); r.Status != runlog.Failed || k.asked("x: work") != 2 || k.asked("z: tidy failed") != 2 {
		t.Errorf("resumed after its end, the run is %s: %s", r.Status, k.order())
	}
	for answer, want := range map[string]string{"reject": "y: undo failed [\"g\"]: node g: rejected by operator", "approve": "z: tidy completed"} {
		k := &kitchen{}
		r := k.run(t, handled, "")
		r.status(t, runlog.Paused)
		r = r.answer(t, "g", `"`+answer+`"`)
		if !strings.Contains(k.order(), want) || strings.Contains(k.order(), "undo") != (answer == "reject") || (r.Status == runlog.Completed) != (answer == "approve") || strings.Contains(k.order(), "stop") {
			t.Errorf("%s: the run is %s, asked %s", answer, r.Status, k.order())
		}
		r.replays(t, k)
	}
}

// A run with handlers that is cut off after any record ends alike, and repeats no handler that had ended.
func TestHandlersCutOff(t *testing.T) {
	var last *kitchen
	kin := func() *kitchen {
		last = &kitchen{say: map[string]func(string) (string, error){"x": func(string) (string, error) { return "", errors.New("no luck") }}}
		return last
	}
	r := kin().run(t, handled, "")
	r.status(t, runlog.Failed)
	r.cuts(t, kin, handled, 1)
	if last.order() != "" {
		t.Errorf("with all but the end of the run in its log, asked %s", last.order())
	}
}

// A run that is cancelled while it executes ends with its handlers.
func TestHandlersOfACancelledRun(t *testing.T) {
	k := &kitchen{delay: func(p string) time.Duration {
		if p == "work" {
			return time.Minute
		}
		return 0
	}}
	e := k.engine(t, runlog.NewMemory(nil), handled)
	run, err := e.Start(t.Context(), "test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k.asked("x: work") == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := e.Cancel(t.Context(), run.ID()); err != nil {
		t.Fatal(err)
	}
	r := ended(t, e, run)
	if r.Status != runlog.Cancelled || k.order() != "x: work; y: stop cancelled; z: tidy cancelled" {
		t.Errorf("the run is %s, asked %s", r.Status, k.order())
	}
}

// A run that is killed in a handler goes on there: no step of it and no handler that has ended runs again.
func TestKilledInAHandler(t *testing.T) {
	var first atomic.Bool
	k := &kitchen{}
	k.say = map[string]func(string) (string, error){"x": func(string) (string, error) { return "", errors.New("no luck") }}
	k.delay = func(p string) time.Duration {
		if strings.HasPrefix(p, "tell") && first.CompareAndSwap(false, true) {
			return time.Minute
		}
		return 0
	}
	store := runlog.NewMemory(nil)
	e := k.engine(t, store, handled)
	run, err := e.Start(t.Context(), "test", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k.asked("y: tell") == 0 {
		time.Sleep(time.Millisecond)
	}
	e.Close()
	again, err := k.engine(t, store, handled).Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := ended(t, e, again)
	if r.Status != runlog.Failed || k.asked("x: work") != 1 || k.asked("y: undo") != 1 || k.asked("y: tell") != 2 || k.asked("z: tidy") != 1 || superstep.FailureCode(r.Err) != superstep.CodeTask {
		t.Errorf("the run is %s, asked %s: %v", r.Status, k.order(), r.Err)
	}
}
