package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// permission is a gate that has people asked about some calls.
type permission struct{}

func (permission) Check(_ *tool.Tool, c *tool.Call) tool.Verdict {
	if strings.Contains(string(c.Args), "permitted") {
		return tool.Verdict{Decision: tool.Ask, Subject: string(c.Args)}
	}
	return tool.Verdict{Decision: tool.Allow}
}

// contains checks the results that the lead had, one by one, for what they should say.
func contains(t *testing.T, results []string, want ...string) {
	t.Helper()
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d: %q", len(results), len(want), results)
	}
	for i := range want {
		if !strings.Contains(results[i], want[i]) {
			t.Errorf("result %d is %q, want %q in it", i, results[i], want[i])
		}
	}
}

// gate is something that steps of a workflow wait for.
type gate struct {
	open chan struct{}
	once sync.Once
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) let() { g.once.Do(func() { close(g.open) }) }

func (g *gate) wait(ctx context.Context) error {
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return context.DeadlineExceeded
	}
}

// A lead has a workflow run in the background, looks how far it is, and gets its result as often
// as it likes.
func TestBackground(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), nil)
	first, rest := newGate(), newGate()
	b.hold = func(ctx context.Context, step string) error {
		if step == "xab" {
			first.let()
			return rest.wait(ctx)
		}
		return nil
	}
	list := calls(
		[2]string{"collect_workflow", `{}`},
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
		[2]string{"collect_workflow", `{"handle":"slow-1","wait":false}`},
		[2]string{"collect_workflow", `{}`},
		[2]string{"collect_workflow", `{"handle":"slwo-1"}`},
		[2]string{"collect_workflow", `{"handle":"slow-1"}`},
		[2]string{"collect_workflow", `{"handle":"slow-1","wait":false}`},
		[2]string{"collect_workflow", ``},
	)
	b.say = func(results []string) modeltest.Reply {
		switch len(results) {
		case 2:
			if err := first.wait(t.Context()); err != nil {
				t.Error(err)
			}
		case 5:
			rest.let()
		}
		return list(results)
	}
	run := b.start(t, nil)
	if text := b.ends(t, run, runlog.Completed); text != "done" {
		t.Errorf("it said %q", text)
	}
	contains(t, b.last(),
		"Nothing was started", "handle is slow-1", "still running: slow-1: running, 1 step done", "slow-1: running, 1 step done",
		`did you mean "slow-1"`, "xabc", "xabc", "slow-1: done, collected")
	if got := strings.Join(b.done(), " "); got != "xa xab xabc" {
		t.Errorf("the workflow did %s", got)
	}
	var seen transcript.Run
	for r, err := range b.engine.Follow(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen.Apply(r)
	}
	for _, task := range seen.Tasks {
		if task.State != transcript.Done {
			t.Errorf("people see that %s is %s", task.Path, task.State)
		}
	}
	b.turns(t)
	b.replays(t, run.ID())
}

// What a lead has not collected when it ends is waited for, and it gets one more turn with it.
func TestUncollected(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), nil)
	ended := newGate()
	b.hold = func(ctx context.Context, _ string) error { return ended.wait(ctx) }
	list := calls(
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
		[2]string{"run_workflow", `{"name":"broken","inputs":{"text":"x"},"background":true}`},
		[2]string{"run_workflow", `{"name":"study","inputs":{"text":"x"},"background":true}`},
		[2]string{"run_workflow", `{"name":"panics","inputs":{"text":"x"},"background":true}`},
		[2]string{"collect_workflow", `{"handle":"study-3"}`},
	)
	b.say = func(results []string) modeltest.Reply {
		if len(results) == 5 {
			ended.let()
		}
		return list(results)
	}
	run := b.start(t, nil)
	if text := b.ends(t, run, runlog.Completed); text != "with all of it" {
		t.Errorf("it said %q", text)
	}
	prompt := b.prompts[len(b.prompts)-1]
	for _, want := range []string{"You were asked:\n\nGo.", "You ended with:\n\ndone", "slow-1:\nxabc", "broken-2:\nbroken-2 failed: ", "it is broken", "panics-4 failed: ", "oh no"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the last turn does not know %q:\n%s", want, prompt)
		}
	}
	if strings.Contains(prompt, "study-3") {
		t.Error("the last turn is told again what was collected")
	}
	b.turns(t)
	b.replays(t, run.ID())
}

// A question in a background workflow stops only that: the lead goes on to its end, and then the
// run waits for the answer.
func TestQuestionInTheBackground(t *testing.T) {
	for name, collect := range map[string]bool{"collected": true, "not collected": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, runlog.NewMemory(nil), nil)
			list := [][2]string{
				{"run_workflow", `{"name":"quiz","inputs":{"text":"color"},"background":true}`},
				{"run_workflow", `{"name":"slow","inputs":{"text":"x"}}`},
				{"run_workflow", `{"name":"slow","inputs":{"text":"y"},"background":true}`},
				{"collect_workflow", `{"handle":"slow-2"}`},
				{"collect_workflow", `{"handle":"quiz-1","wait":false}`},
			}
			want := []string{"quiz-1", "xabc", "slow-2", "yabc", "quiz-1: waits for a person's answer to: Which color?"}
			if collect {
				list, want = append(list, [2]string{"collect_workflow", `{"handle":"quiz-1"}`}), append(want, "color is red")
			}
			b.say = calls(list...)
			run := b.start(t, nil)
			b.ends(t, run, runlog.Paused)
			contains(t, b.last(), want[:5]...)
			out, _ := run.Wait(t.Context())
			if len(out.Open) != 1 || out.Open[0].Text != "Which color?" || !strings.HasPrefix(out.Open[0].Path, "work/") {
				t.Fatalf("%+v", out.Open)
			}
			if err := b.engine.Answer(t.Context(), run.ID(), out.Open[0].Path, &runlog.Answer{Key: "q", Value: json.RawMessage(`"red"`), By: "test"}); err != nil {
				t.Fatal(err)
			}
			text := b.ends(t, b.resume(t, run.ID(), nil), runlog.Completed)
			if collect {
				contains(t, b.last(), want...)
			} else if prompt := b.prompts[len(b.prompts)-1]; text != "with all of it" || !strings.Contains(prompt, "color is red") {
				t.Errorf("%q\n%s", text, prompt)
			}
			if n := strings.Count(strings.Join(b.done(), " "), "quiz red"); n != 1 {
				t.Errorf("the quiz went on %d times", n)
			}
			b.turns(t)
			b.replays(t, run.ID())
		})
	}
}

// An answer that comes while the lead is running is used at once, and one for the lead while
// something is running in the background is too.
func TestAnswersInTime(t *testing.T) {
	asks := func(c *delegate.Crew) {
		c.Agent.Gate = permission{}
	}
	for range 5 {
		b := newBench(t, runlog.NewMemory(nil), &setup{crew: asks})
		quizzed, led := newGate(), newGate()
		b.hold = func(ctx context.Context, step string) error {
			if step == "xabc" {
				return led.wait(ctx) // the lead has to go on for that
			}
			return nil
		}
		list := calls(
			[2]string{"run_workflow", `{"name":"quiz","inputs":{"text":"color"},"background":true}`},
			[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
			[2]string{"run_workflow", `{"name":"study","inputs":{"text":"permitted"}}`},
			[2]string{"collect_workflow", `{"handle":"slow-2"}`},
			[2]string{"collect_workflow", `{"handle":"quiz-1"}`},
		)
		b.say = func(results []string) modeltest.Reply {
			switch len(results) {
			case 2:
				if err := quizzed.wait(t.Context()); err != nil {
					t.Error("the quiz did not go on while the lead was running")
				}
			case 3:
				led.let()
			}
			return list(results)
		}
		ids := make(chan string, 1)
		var asked sync.WaitGroup
		run := b.start(t, &superstep.StartOptions{Observe: func(r runlog.Record, _ error) {
			switch {
			case r.Kind == runlog.KindAsked:
				id := <-ids
				ids <- id
				var q runlog.Question
				if err := json.Unmarshal(r.Data, &q); err != nil {
					t.Error(err)
				}
				a := &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"red"`), By: "test"}
				if q.Key != "q" {
					a.Value = json.RawMessage(`"once"`)
				}
				asked.Go(func() {
					if err := b.engine.Answer(t.Context(), id, r.Path, a); err != nil {
						t.Error(err)
					}
				})
			case r.Kind == runlog.KindTaskDone && strings.HasSuffix(r.Path, "/ask"):
				quizzed.let()
			}
		}})
		ids <- run.ID()
		b.ends(t, run, runlog.Completed)
		asked.Wait()
		contains(t, b.last(), "quiz-1", "slow-2", "You study. permitted", "xabc", "color is red")
		if strings.Contains(b.log(t, run.ID()), string(runlog.KindRunPaused)) {
			t.Error("the run was paused")
		}
		b.turns(t)
		b.replays(t, run.ID())
	}
}

// As many workflows may be in the background as were not collected.
func TestTooManyInTheBackground(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), nil)
	var list [][2]string
	for range 17 {
		list = append(list, [2]string{"run_workflow", `{"name":"study","inputs":{"text":"x"},"background":true}`})
	}
	list = append(list, [2]string{"collect_workflow", `{"handle":"study-7"}`}, list[0])
	b.say = calls(list...)
	run := b.start(t, nil)
	b.ends(t, run, runlog.Completed)
	results := b.last()
	contains(t, results[15:], "study-16", "16 workflows are in the background and not collected", "You study. x", "study-17")
	b.replays(t, run.ID())
}

// A stop ends the lead and what is in the background, and both go on when the run is resumed.
// A cancellation ends both for good.
func TestStopAndCancel(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		b := newBench(t, runlog.NewMemory(nil), nil)
		in, out := newGate(), newGate()
		b.hold = func(ctx context.Context, step string) error {
			if step != "xab" {
				return nil
			}
			in.let()
			return out.wait(ctx)
		}
		b.say = calls([2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`}, [2]string{"collect_workflow", `{"handle":"slow-1"}`})
		run := b.start(t, nil)
		if err := in.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.until(t, run, "turn-1") // the lead has asked for the result
		if cancel {
			if err := b.engine.Cancel(t.Context(), run.ID()); err != nil {
				t.Fatal(err)
			}
			b.ends(t, run, runlog.Cancelled)
			b.replays(t, run.ID())
			continue
		}
		now, stop := context.WithCancel(t.Context())
		stop()
		if got := run.Stop(now); got.Status != runlog.Interrupted {
			t.Fatalf("%+v", got)
		}
		out.let()
		if text := b.ends(t, b.resume(t, run.ID(), nil), runlog.Completed); text != "done" {
			t.Errorf("it said %q", text)
		}
		contains(t, b.last(), "slow-1", "xabc")
		if got := strings.Join(b.done(), " "); got != "xa xab xabc" {
			t.Errorf("the workflow did %s", got)
		}
		b.turns(t)
		b.replays(t, run.ID())
	}
}

// A stop that leaves time lets the steps that are running end, in the background too, and nothing
// of them is done again.
func TestStopBetweenSteps(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), nil)
	in, out := map[string]*gate{"x": newGate(), "y": newGate()}, map[string]*gate{"x": newGate(), "y": newGate()}
	b.hold = func(ctx context.Context, step string) error {
		if what, is := strings.CutSuffix(step, "ab"); is {
			in[what].let()
			return out[what].wait(ctx)
		}
		return nil
	}
	b.say = calls(
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"x"},"background":true}`},
		[2]string{"run_workflow", `{"name":"slow","inputs":{"text":"y"}}`},
		[2]string{"collect_workflow", `{"handle":"slow-1"}`},
	)
	run := b.start(t, nil)
	for _, g := range in {
		if err := g.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan superstep.Outcome, 1)
	go func() { stopped <- run.Stop(t.Context()) }()
	time.Sleep(20 * time.Millisecond)
	out["y"].let() // what the lead waits for stops before what it does not wait for
	time.Sleep(20 * time.Millisecond)
	out["x"].let()
	if got := <-stopped; got.Status != runlog.Interrupted {
		t.Fatalf("%+v", got)
	}
	sorted := func() string { did := b.done(); slices.Sort(did); return strings.Join(did, " ") }
	if got := sorted(); got != "xa xab ya yab" {
		t.Errorf("before they stopped the workflows did %s", got)
	}
	b.ends(t, b.resume(t, run.ID(), nil), runlog.Completed)
	if got := sorted(); got != "xa xab xabc ya yab yabc" {
		t.Errorf("the workflows did %s", got)
	}
	b.turns(t)
	b.replays(t, run.ID())
}

// The budget of the run is one: what works in the background uses it too, and the run pauses.
func TestBudgetIsShared(t *testing.T) {
	b := newBench(t, runlog.NewMemory(nil), nil)
	b.say = calls(
		[2]string{"run_workflow", `{"name":"study","inputs":{"text":"x"},"background":true}`},
		[2]string{"collect_workflow", `{"handle":"study-1"}`},
		[2]string{"run_workflow", `{"name":"study","inputs":{"text":"y"},"background":true}`},
		[2]string{"collect_workflow", `{"handle":"study-2"}`},
	)
	run := b.start(t, &superstep.StartOptions{Budget: &runlog.Budget{Turns: 4, Soft: 1}})
	b.ends(t, run, runlog.Paused)
	out, _ := run.Wait(t.Context())
	if out.Short == nil || out.Short.What != runlog.BudgetTurns {
		t.Fatalf("%+v", out)
	}
	if text := b.ends(t, b.resume(t, run.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Turns: 40}}), runlog.Completed); text != "done" {
		t.Errorf("it said %q", text)
	}
	if got := b.last(); !slices.Contains(got, "You study. y") {
		t.Errorf("%q", got)
	}
	b.turns(t)
	b.replays(t, run.ID())
}
