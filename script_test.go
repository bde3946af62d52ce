package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

// played counts what the steps of a script do.
type played struct {
	mu   sync.Mutex
	did  map[string]int
	now  time.Time
	hold chan time.Time // a sleep waits for it; nil to let time pass
}

func (p *played) Do(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did[what]++
}

// workflows returns a script that has steps of all kinds, and the workflow that it calls.
func (p *played) workflows(t testing.TB) []*workflow.Workflow {
	t.Helper()
	p.did, p.now = map[string]int{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := agent.Clock{
		Now: func() time.Time { p.mu.Lock(); defer p.mu.Unlock(); return p.now },
		After: func(d time.Duration) <-chan time.Time {
			if p.hold != nil {
				return p.hold
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.now = p.now.Add(d)
			c := make(chan time.Time, 1)
			c <- p.now
			return c
		},
	}
	type verdict struct {
		Good bool `json:"good"`
	}
	judge := &agent.Agent{Name: "judge", Model: &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		p.Do(fmt.Sprintf("turn %d", len(r.Messages)))
		if len(r.Messages) == 1 {
			return scripted.Say("good")
		}
		return scripted.Say(`{"good":true}`)
	}}}
	type in struct {
		Task string `json:"task"`
	}
	shout, err := workflow.Script("shout", "Shouts.", func(ctx context.Context, _ *workflow.Steps, in in) (string, error) {
		return graph.Do(ctx, "shout", func(context.Context, string) (string, error) { p.Do("shout"); return strings.ToUpper(in.Task), nil })
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	job, err := workflow.Script("job", "A job.", func(ctx context.Context, s *workflow.Steps, in in) (string, error) {
		first, err := graph.Do(ctx, "first", func(context.Context, string) (string, error) { p.Do("first"); return in.Task + "!", nil })
		if err != nil {
			return "", err
		}
		if err := s.Sleep(ctx, "rest", time.Hour); err != nil {
			return "", err
		}
		v, _, err := agent.Typed[verdict](ctx, s.Scope(), judge, &agent.Work{Key: "judge", Prompt: first, Stopped: s.Stopped()})
		if err != nil {
			return "", err
		}
		var loud string
		if err := s.Call(ctx, "loud", "shout", map[string]string{"task": first}, &loud); err != nil {
			return "", err
		}
		to, err := graph.Ask[string](ctx, graph.Question{Key: "whom", Text: "To whom?"})
		if err != nil {
			return "", err
		}
		return graph.Do(ctx, "send", func(context.Context, string) (string, error) {
			p.Do("send")
			return fmt.Sprint(to, ": ", loud, " ", v.Good), nil
		})
	}, &workflow.ScriptOptions{Clock: &clock, Uses: []string{"shout"}})
	if err != nil {
		t.Fatal(err)
	}
	return []*workflow.Workflow{job, shout}
}

// drive runs the job of a script to its end, through the death of a process, and returns the run's ID and whether one died.
func drive(t testing.TB, store *runlogtest.Mortal, all []*workflow.Workflow) (id string, died bool) {
	t.Helper()
	e := engine(t, store, all...)
	run := start(t, e, nil)
	for id = run.ID(); ; {
		out, err := run.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !store.Dead() && out.Status == runlog.Paused {
			q := out.Open[0]
			err := e.Answer(t.Context(), id, q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"Ann"`), By: "person"})
			if err != nil && !store.Dead() {
				t.Fatal(err)
			}
		}
		for {
			if store.Dead() {
				died = true
				store.Revive()
				e = engine(t, store, all...)
			}
			if info(t, e, id).Status == runlog.Completed {
				return id, died
			}
			if run, err = e.Resume(context.WithoutCancel(t.Context()), id, nil); err == nil {
				break
			} else if !store.Dead() {
				t.Fatal(err)
			}
		}
	}
}

// A script whose process dies at any append, before or after it, ends as one that was left in peace: no recorded step is repeated, it sleeps until the same
// time, and it is replayed.
func TestScriptAfterAnyCrash(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		deaths := 0
		for n, died := 1, true; died; n++ {
			store, p := runlogtest.NewMortal(), &played{}
			all := p.workflows(t)
			begun := p.now
			store.DieAt(n, after)
			var id string
			if id, died = drive(t, store, all); died {
				deaths++
			}
			if slept := p.now.Sub(begun); slept != time.Hour {
				t.Errorf("%d: slept %s", n, slept)
			}
			for what, times := range p.did {
				if times > 2 || after && times > 1 {
					t.Errorf("%d, %v: %s happened %d times", n, after, what, times)
				}
			}
			if len(p.did) != 5 {
				t.Errorf("it did %v", p.did)
			}
			clear(p.did)
			e := engine(t, store, all...)
			replays(t, e, id)
			if len(p.did) > 0 {
				t.Errorf("the replay did %v", p.did)
			}
			if out := ends(t, resume(t, e, id, nil), runlog.Completed); string(out.Output) != `"Ann: A  B! true"` {
				t.Fatalf("output %s", out.Output)
			}
		}
		if deaths < 15 {
			t.Errorf("it died only %d times", deaths)
		}
	}
}

// Of steps beside each other a death loses one that must not happen twice, after the other has gone on. A person says that it happened, and the run is
// replayed.
func TestScriptLosesOneOfTwo(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, 2} {
		t.Run(fmt.Sprint(times), func(t *testing.T) { losesOneOfTwo(t, times) })
	}
}

func losesOneOfTwo(t *testing.T, times int) {
	t.Parallel()
	store := runlogtest.NewMortal()
	w, err := workflow.Script("job", "Two at a time.", func(ctx context.Context, _ *workflow.Steps, _ struct {
		Task string `json:"task"`
	}) (string, error) {
		other := make(chan struct{})
		var charged string
		var wrong, failed error
		var both sync.WaitGroup
		both.Go(func() {
			charged, wrong = graph.Once(ctx, "charge", func(context.Context, string) (string, error) {
				<-other
				store.Die()
				return "charged", nil
			})
		})
		both.Go(func() {
			time.Sleep(20 * time.Millisecond) // the charge is announced first
			for i := range 3 {
				if _, failed = graph.Do(ctx, fmt.Sprint("other", i), func(context.Context, string) (int, error) { return i, nil }); failed != nil {
					return
				}
			}
			close(other)
		})
		both.Wait()
		if happened := (*journal.HappenedError)(nil); errors.As(wrong, &happened) {
			charged, wrong = "somehow", nil
		}
		return charged, errors.Join(wrong, failed)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, store, w)
	run := start(t, e, nil)
	for n := range times {
		_, _ = run.Wait(t.Context())
		store.Revive()
		e = engine(t, store, w)
		q, answer := ends(t, resume(t, e, run.ID(), nil), runlog.Paused).Open[0], runlog.UnknownHappened
		if n+1 < times {
			answer = runlog.UnknownAgain
		}
		if err := e.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(fmt.Sprintf("%q", answer)), By: "person"}); err != nil {
			t.Fatal(err)
		}
		if n+1 < times {
			run = resume(t, e, run.ID(), nil)
		}
	}
	if out := ends(t, resume(t, e, run.ID(), nil), runlog.Completed); string(out.Output) != `"somehow"` {
		t.Errorf("output %s", out.Output)
	}
	replays(t, e, run.ID())
}

// A log that announces each call of a workflow, as older ones do, is replayed.
func TestScriptWithAnIntent(t *testing.T) {
	t.Parallel()
	repeat := journal.RepeatByKey
	w, err := workflow.Script("job", "Calls.", func(ctx context.Context, s *workflow.Steps, in struct {
		Task string `json:"task"`
	}) (string, error) {
		e := &journal.Effect{Key: "call", Kind: "workflow", Name: "other", Inside: true, Repeat: repeat, Input: in}
		return journal.Do(ctx, s.Scope(), e, func(ctx context.Context, _ string) (string, error) {
			return graph.Ask[string](ctx, graph.Question{Key: "whom", Text: "To whom?"})
		})
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, runlog.NewMemory(nil), w)
	run := start(t, e, nil)
	ends(t, run, runlog.Paused)
	if err := e.Answer(t.Context(), run.ID(), "script", &runlog.Answer{Key: "whom", Value: json.RawMessage(`"Ann"`), By: "person"}); err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, run.ID(), nil), runlog.Completed)
	repeat = journal.RepeatFreely
	replays(t, e, run.ID())
}

// A script that is paused in its sleep sleeps on when it is resumed. Pictures of its run show its steps so far.
func TestScriptIsDrawn(t *testing.T) {
	t.Parallel()
	store, p := runlog.NewMemory(nil), &played{hold: make(chan time.Time)}
	all := p.workflows(t)
	begun := p.now
	e := engine(t, store, all...)
	run := start(t, e, nil)
	picture := func() string {
		states, err := draw.Status(runlog.Records(t.Context(), store, run.ID(), 0))
		if err != nil {
			t.Fatal(err)
		}
		flow, err := all[0].Flow(nil)
		if err != nil {
			t.Fatal(err)
		}
		return draw.Text(flow.Shape(), &draw.Options{Status: states})
	}
	for rec, err := range e.Follow(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == runlog.KindSettled && strings.Contains(string(rec.Data), "rest/until") {
			break
		}
	}
	if got := picture(); !strings.Contains(got, "first: ✓ done\n") || !strings.Contains(got, "rest (sleep): ● running\n") || strings.Contains(got, "judge") {
		t.Error(got)
	}
	if err := e.Pause(t.Context(), run.ID(), "test"); err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
	p.hold = nil
	run = resume(t, e, run.ID(), nil)
	ends(t, run, runlog.Paused)
	if p.now.Sub(begun) != time.Hour || p.did["first"] != 1 {
		t.Errorf("slept %s, did %v", p.now.Sub(begun), p.did)
	}
	for _, want := range []string{"script (script): ? waiting\n", "judge (agent): ✓ done\n", "loud (workflow): ✓ done\n", "whom (ask): ? waiting\n"} {
		if got := picture(); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	shown, names := &transcript.Run{}, []string(nil) // what runs show -v lists
	for rec, err := range runlog.Records(t.Context(), store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		shown.Apply(rec)
	}
	for _, part := range shown.Tasks[0].Parts {
		if part.Kind == transcript.ToolUse {
			names = append(names, part.Tool.Kind+" "+part.Tool.Name)
		}
	}
	if diff := cmp.Diff([]string{"do first", "sleep rest", "workflow shout"}, names); diff != "" {
		t.Error(diff)
	}
	replays(t, e, run.ID())
}

// A worker releases a script that sleeps, and takes it again when it is time.
func TestScriptIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := workflow.Script("job", "A job.", func(ctx context.Context, s *workflow.Steps, _ job) (string, error) {
			return "rested", s.Sleep(ctx, "rest", time.Hour)
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, begun := engine(t, runlog.NewMemory(nil), w), time.Now()
		enqueue(t, e, "job", "x", &superstep.StartOptions{ID: "r"})
		ctx, stop := context.WithCancel(t.Context())
		ended, served := make(chan superstep.Outcome, 3), make(chan error)
		go func() {
			served <- e.Serve(ctx, &superstep.RecoverOptions{Ended: func(_ string, out superstep.Outcome) { ended <- out }})
		}()
		if out := <-ended; out.Status != runlog.Queued || time.Since(begun) > time.Minute {
			t.Errorf("after %v it is %s (%v)", time.Since(begun), out.Status, out.Err)
		}
		if out := <-ended; out.Status != runlog.Completed || time.Since(begun) < time.Hour {
			t.Errorf("after %v it is %s (%v)", time.Since(begun), out.Status, out.Err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		e.Close()
	})
}

// A second step of a script under the key of a first one is an error: it would be taken for done.
func TestScriptKeys(t *testing.T) {
	child, err := workflow.Script("child", "", func(_ context.Context, _ *workflow.Steps, in struct{ N string }) (string, error) { return in.N, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, s *workflow.Steps, key, n string) error {
		return s.Call(ctx, key, "child", map[string]string{"N": n}, nil)
	}
	pay := func(ctx context.Context, key string) error {
		_, err := graph.Once(ctx, key, func(context.Context, string) (int, error) { return 0, nil })
		return err
	}
	for want, steps := range map[string]func(ctx context.Context, s *workflow.Steps) error{
		`sleep "nap" is used twice in one attempt (both at script_test.go:`: func(ctx context.Context, s *workflow.Steps) error {
			return errors.Join(s.Sleep(ctx, "nap", 1), s.Sleep(ctx, "nap", 1))
		},
		`call "c" is used twice`: func(ctx context.Context, s *workflow.Steps) error {
			return errors.Join(call(ctx, s, "c", "a"), call(ctx, s, "c", "b"))
		},
		`effect "charge" is used`: func(ctx context.Context, _ *workflow.Steps) error {
			return errors.Join(pay(ctx, "charge"), pay(ctx, "charge"))
		},
		`effect "nap" is used twice`: func(ctx context.Context, s *workflow.Steps) error {
			return errors.Join(s.Sleep(ctx, "nap", 1), pay(ctx, "nap"))
		},
		`such as "nap/2"`: func(ctx context.Context, s *workflow.Steps) error {
			return errors.Join(pay(ctx, "nap"), s.Sleep(ctx, "nap", 1))
		},
		"": func(ctx context.Context, s *workflow.Steps) error {
			return errors.Join(call(ctx, s, "a", "a"), call(ctx, s, "b", "b"), s.Sleep(ctx, "c", 1), pay(ctx, "d"))
		},
	} {
		w, err := workflow.Script("steps", "", func(ctx context.Context, s *workflow.Steps, _ struct{}) (string, error) { return "done", steps(ctx, s) },
			&workflow.ScriptOptions{Uses: []string{"child"}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w, child}})
		if err != nil {
			t.Fatal(err)
		}
		run, err := e.Start(t.Context(), "steps", json.RawMessage(`{}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Wait(t.Context())
		if err != nil || (out.Err == nil) != (want == "") || out.Err != nil && !strings.Contains(out.Err.Error(), want) {
			t.Errorf("got %+v, %v; want %q", out, err, want)
		}
	}
}
