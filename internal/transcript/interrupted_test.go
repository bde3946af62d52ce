package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// A run whose turn was interrupted shows what the model had said, and then the turn that took its place; live, from the store, and by changes.
func TestInterruptedTurnIsShown(t *testing.T) {
	t.Parallel()
	m := &scripted.Model{Answer: func(*model.Request) scripted.Turn { return scripted.Say("It ", "is ", "so.") }}
	var slow atomic.Bool
	slow.Store(true)
	g := graph.New("one", func(s, u int) int { return s + u })
	g.AddNode(graph.Node[int, int]{Name: "work", Run: func(ctx context.Context, task *graph.Task, _ int) (int, error) {
		a := &agent.Agent{Name: "helper", Model: stuck{m, &slow}}
		_, err := a.Run(ctx, task.Scope(), &agent.Work{Prompt: "Look."})
		return 1, err
	}})
	g.Edge(graph.Start, "work")
	g.Edge("work", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("one", "One.", flow, func(struct{}) (int, error) { return 0, nil }, func(n int) (int, error) { return n, nil })
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	engine, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{w}, NewID: func() string { return "r" }})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	live := &transcript.Run{}
	var feed transcript.Feed
	view := &shown{}
	follow := func(run *superstep.Run, from uint64, see func(*transcript.Task)) {
		for rec, err := range run.Follow(t.Context(), from) {
			if err != nil {
				t.Fatal(err)
			}
			live.Apply(rec)
			for _, c := range feed.Next(live) {
				view.apply(t, &c)
			}
			see(live.Task("work"))
		}
	}
	run, err := engine.Start(t.Context(), "one", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan superstep.Outcome, 1)
	follow(run, 1, func(task *transcript.Task) {
		if task != nil && task.Live() == "It is " && slow.Swap(false) {
			stop()
			go func() { ended <- run.Stop(stopped) }()
		}
	})
	if out := <-ended; out.Status != runlog.Interrupted {
		t.Fatal(out)
	}
	want := []string{"It is  cut"}
	texts := func(r *transcript.Run) (all []string) {
		for _, p := range r.Task("work").Parts {
			all = append(all, p.Text)
			if p.Cut {
				all[len(all)-1] += " cut"
			}
		}
		return all
	}
	if d := cmp.Diff(want, texts(live)); d != "" || live.Task("work").Live() != "" || live.Task("work").State != transcript.Stopped {
		t.Errorf("after the interruption it is %s, and says %q: %s", live.Task("work").State, live.Task("work").Live(), d)
	}
	run, err = engine.Resume(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	follow(run, live.Seq+1, func(*transcript.Task) {})
	stored := &transcript.Run{}
	for rec, err := range runlog.Records(t.Context(), store, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		stored.Apply(rec)
	}
	want = append(want, "It is so.")
	if d := cmp.Diff(want, texts(live)) + cmp.Diff(want, texts(stored)); d != "" {
		t.Error(d)
	}
	var whole transcript.Feed
	again := &shown{}
	for _, c := range whole.Next(stored) {
		again.apply(t, &c)
	}
	if d := cmp.Diff(again, view, cmpopts.IgnoreUnexported(shown{})); d != "" {
		t.Error(d)
	}
	if report, err := engine.Replay(t.Context(), "r", &superstep.ReplayOptions{Wait: 3 * time.Second}); err != nil || report.Diverged != nil {
		t.Error(report, err)
	}
}

// stuck is a model that stops after two parts until it must end, while it is slow.
type stuck struct {
	*scripted.Model
	slow *atomic.Bool
}

func (m stuck) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		n, slow := 0, m.slow.Load()
		for p, err := range m.Model.Generate(ctx, req) {
			if n++; n == 3 && slow {
				<-ctx.Done()
				yield(model.Part{}, ctx.Err())
				return
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// A turn whose step runs out of time is shown too, before the attempt that takes its place; a replay repeats both.
func TestTurnOutOfTimeIsShown(t *testing.T) {
	t.Parallel()
	m := &scripted.Model{Answer: func(*model.Request) scripted.Turn { return scripted.Say("It ", "is ", "so.") }}
	var slow atomic.Bool
	slow.Store(true)
	g := graph.New("one", func(s, u int) int { return s + u })
	g.AddNode(graph.Node[int, int]{
		Name: "work", Timeout: 30 * time.Millisecond, Retry: &graph.Retry{Attempts: 2, Backoff: time.Millisecond},
		Run: func(ctx context.Context, task *graph.Task, _ int) (int, error) {
			a := &agent.Agent{Name: "helper", Model: stuck{m, &slow}}
			_, err := a.Run(ctx, task.Scope(), &agent.Work{Prompt: "Look."})
			slow.Store(false)
			return 1, err
		},
	})
	g.Edge(graph.Start, "work")
	g.Edge("work", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("one", "One.", flow, func(struct{}) (int, error) { return 0, nil }, func(n int) (int, error) { return n, nil })
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	engine, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{w}, NewID: func() string { return "r" }})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	run, err := engine.Start(t.Context(), "one", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed {
		t.Fatal(out, err)
	}
	stored := &transcript.Run{}
	for rec, err := range runlog.Records(t.Context(), store, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		stored.Apply(rec)
	}
	var kinds []string
	for _, p := range stored.Task("work").Parts {
		kinds = append(kinds, fmt.Sprintf("%s %t", p.Kind, p.Cut))
	}
	if d := cmp.Diff([]string{"text true", "retry false", "text false"}, kinds); d != "" {
		t.Error(d)
	}
	if report, err := engine.Replay(t.Context(), "r", &superstep.ReplayOptions{Wait: 3 * time.Second}); err != nil || report.Diverged != nil {
		t.Error(report, err)
	}
}

// A turn that breaks off and is asked for again shows what it waits for and why, and nothing of what it had said. A replay has all of it.
func TestBrokenTurnIsShown(t *testing.T) {
	t.Parallel()
	half := scripted.Say("It is not")
	half.Err = &model.Error{Provider: "acme", Model: "m1", Code: model.CodeTruncated, Temporary: true, Err: errors.New("the stream broke off")}
	m := &scripted.Model{Turns: []scripted.Turn{half, half, scripted.Think("hm"), scripted.Say("It is so.")}}
	var passed atomic.Int64
	clock := &agent.Clock{Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }, After: func(d time.Duration) <-chan time.Time {
		passed.Add(int64(d))
		return time.After(time.Millisecond)
	}}
	g := graph.New("one", func(s, u string) string { return s + u })
	g.AddNode(graph.Node[string, string]{Name: "work", Run: func(ctx context.Context, task *graph.Task, _ string) (string, error) {
		out, err := (&agent.Agent{Name: "helper", Model: m, Clock: clock}).Run(ctx, task.Scope(), &agent.Work{Prompt: "Look."})
		if err != nil {
			return "", err
		}
		return out.Text, nil
	}})
	g.Edge(graph.Start, "work")
	g.Edge("work", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("one", "One.", flow, func(struct{}) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	engine, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	run, err := engine.Start(t.Context(), "one", struct{}{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Err != nil || string(out.Output) != `"It is so."` {
		t.Fatalf("got %+v, %v", out, err)
	}
	shown := &transcript.Run{}
	var waits, said []string
	for rec, err := range engine.Follow(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		shown.Apply(rec)
		if task := shown.Tasks; len(task) > 0 && !task[0].RetryAt.IsZero() {
			waits = append(waits, task[0].Trouble)
		}
	}
	for _, p := range shown.Tasks[0].Parts {
		said = append(said, string(p.Kind)+": "+p.Text)
	}
	broke := "note: the answer broke off and is asked for again: acme/m1: the stream broke off"
	if diff := cmp.Diff([]string{broke, broke, "reasoning: hm", "note: test/scripted ended without an answer", "text: It is so."}, said); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"acme/m1: the stream broke off", "acme/m1: the stream broke off"}, waits); diff != "" || shown.Retries != 2 {
		t.Errorf("it waited %d times, for: %s", shown.Retries, diff)
	}
	if report, err := engine.Replay(t.Context(), run.ID(), nil); err != nil || report.Diverged != nil {
		t.Errorf("replayed: %+v, %v", report, err)
	}
}
