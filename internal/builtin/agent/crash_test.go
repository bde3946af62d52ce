package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// recorded is what the log of a run has: effects that succeeded, and questions.
type recorded struct {
	outputs map[string]string // by path and key
	times   map[string]int    // how often one was recorded
	asked   map[string]int
}

func record(t *testing.T, store runlog.Store, id string) recorded {
	t.Helper()
	got := recorded{map[string]string{}, map[string]int{}, map[string]int{}}
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.Settled
		switch {
		case r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &d) == nil && d.Error == "":
			got.outputs[r.Path+" "+d.Key] = string(d.Output)
			got.times[r.Path+" "+d.Key]++
		case r.Kind == runlog.KindAsked:
			got.asked[r.Path]++
		}
	}
	return got
}

// Wherever a run is cut off whose lead polls, collects and ends with a result uncollected, both
// the conversation and what is in the background go on where they were: no turn and no effect
// that is in the log is had again, nobody is asked twice, what a poll has said stays said, and
// the run comes to the same end, which a replay repeats.
func TestCrashAtEveryAppend(t *testing.T) {
	answers := func(a *runlog.Question) *runlog.Answer {
		return &runlog.Answer{Key: a.Key, Value: json.RawMessage(`"red"`), By: "test"}
	}
	open := func(t *testing.T, store runlog.Store) *bench {
		b := newBench(t, store, nil)
		b.say = calls(
			[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
			[2]string{"run_workflow", `{"name":"quiz","inputs":{"text":"color"},"background":true}`},
			[2]string{"collect_workflow", `{"handle":"slow-1","wait":false}`},
			[2]string{"run_workflow", `{"name":"study","inputs":{"text":"y"},"background":true}`},
			[2]string{"collect_workflow", `{}`},
			[2]string{"collect_workflow", `{"handle":"slow-1"}`},
			[2]string{"run_workflow", `{"name":"study","inputs":{"text":"z"}}`},
			[2]string{"collect_workflow", `{"handle":"quiz-2"}`},
		)
		return b
	}
	finish := func(t *testing.T, b *bench, run *superstep.Run) superstep.Outcome {
		for range 5 {
			out, err := run.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if out.Status != runlog.Paused {
				return out
			}
			for _, q := range out.Open {
				if err := b.engine.Answer(t.Context(), run.ID(), q.Path, answers(&q)); err != nil {
					return superstep.Outcome{Status: runlog.Interrupted, Err: err}
				}
			}
			if run, err = b.engine.Resume(t.Context(), run.ID(), nil); err != nil {
				return superstep.Outcome{Status: runlog.Interrupted, Err: err}
			}
		}
		t.Fatal("it pauses for ever")
		return superstep.Outcome{}
	}
	crashes, ended := 0, false
	for n := 1; !ended; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %v", n, after), func(t *testing.T) {
				store := runlogtest.NewMortal()
				store.DieAt(n, after)
				first := open(t, store)
				run := first.start(t, nil)
				finish(t, first, run)
				if !store.Dead() {
					ended = true
					first.turns(t)
					first.replays(t, run.ID())
					return
				}
				crashes++
				before := record(t, store, run.ID())
				store.Revive()
				second := open(t, store)
				run, err := second.engine.Resume(t.Context(), run.ID(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if out := finish(t, second, run); out.Status != runlog.Completed || !strings.Contains(string(out.Output), "with all of it") {
					t.Fatalf("%+v\n%s", out, second.log(t, run.ID()))
				}
				all := record(t, store, run.ID())
				for key, output := range before.outputs {
					if diff := cmp.Diff(output, all.outputs[key]); diff != "" {
						t.Errorf("%s: %s", key, diff)
					}
				}
				for key, n := range all.times {
					if n != 1 {
						t.Errorf("%s was done %d times", key, n)
					}
				}
				for path, n := range all.asked {
					if n != 1 {
						t.Errorf("%s asked %d times", path, n)
					}
				}
				if turns := len(second.server.Requests()); turns != modelTurns(all)-modelTurns(before) {
					t.Errorf("%d turns were asked for, %d were missing", turns, modelTurns(all)-modelTurns(before))
				}
				for _, did := range second.done() {
					for key, output := range before.outputs {
						if output == fmt.Sprintf("%q", did) {
							t.Errorf("%s was done again: %s", key, did)
						}
					}
				}
				second.turns(t)
				second.replays(t, run.ID())
			})
		}
	}
	if crashes < 80 {
		t.Errorf("only %d crashes", crashes)
	}
}

func modelTurns(r recorded) int {
	n := 0
	for key := range r.outputs {
		if strings.HasPrefix(key[strings.LastIndexAny(key, " /")+1:], "turn-") {
			n++
		}
	}
	return n
}

// A run that goes on in another process tells its lead again what the first has told it: that
// what has long ended was still running.
func TestPollsAreRemembered(t *testing.T) {
	store := runlogtest.NewMortal()
	b := newBench(t, store, nil)
	list := calls(
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
		[2]string{"collect_workflow", `{"handle":"slow-1","wait":false}`},
		[2]string{"collect_workflow", `{"handle":"slow-1"}`},
	)
	polled := newGate()
	b.hold = func(ctx context.Context, _ string) error { return polled.wait(ctx) }
	b.say = func(results []string) modeltest.Reply {
		if len(results) == 2 { // the process dies when the poll is in the log
			store.Die()
			polled.let()
		}
		return list(results)
	}
	run := b.start(t, nil)
	out, err := run.Wait(t.Context())
	if err != nil || out.Status == runlog.Completed {
		t.Fatal(out, err)
	}
	store.Revive()
	again := newBench(t, store, nil)
	again.say = list
	run, err = again.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := again.ends(t, run, runlog.Completed); text != "done" {
		t.Errorf("it said %q", text)
	}
	contains(t, again.last(), "slow-1", "still running: slow-1: running, 0 steps done", "xabc")
	if len(again.server.Requests()) != 2 {
		t.Errorf("%d turns were asked for, want those that were missing", len(again.server.Requests()))
	}
	again.replays(t, run.ID())
}
