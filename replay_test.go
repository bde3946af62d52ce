package superstep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// replays replays a run and checks that it is equal.
func replays(t testing.TB, e *superstep.Engine, id string) *journal.Report {
	t.Helper()
	report, err := e.Replay(t.Context(), id, &superstep.ReplayOptions{Wait: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if report.Diverged != nil {
		t.Fatalf("%v\nrecorded %s\nreplayed %s\n%s", report.Diverged, show(report.Diverged.Recorded), show(report.Diverged.Replayed), logOf(t, e, id))
	}
	if head := info(t, e, id).Head; uint64(report.Records) != head {
		t.Fatalf("%d of %d records were replayed", report.Records, head)
	}
	return report
}

func show(r *runlog.Record) string {
	if r == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d/%d %s %q %s", r.Seq, r.Epoch, r.Kind, r.Path, r.Data)
}

func logOf(t testing.TB, e *superstep.Engine, id string) string {
	t.Helper()
	var b strings.Builder
	for r, err := range e.Follow(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(show(&r) + "\n")
	}
	return b.String()
}

// wide is a workflow that fans out; each part does effects, which are counted.
type wide struct {
	done atomic.Int32
	// hinder fails, blocks or asks in the part of a key.
	hinder func(ctx context.Context, t *graph.Task) error
	final  string // what the last node makes of it
}

func (w *wide) workflow(t testing.TB) *workflow.Workflow {
	t.Helper()
	if w.final == "" {
		w.final = "!"
	}
	g := graph.New("wide", func(s, u []string) []string { return append(s, u...) })
	g.Add("plan", func(context.Context, []string) ([]string, error) { return []string{"plan"}, nil })
	g.AddNode(graph.Node[[]string, []string]{Name: "part", Retry: &graph.Retry{Attempts: 3, Backoff: time.Millisecond, If: func(err error) bool { return errors.Is(err, errPasses) }}, Run: func(ctx context.Context, task *graph.Task, _ []string) ([]string, error) {
		var out []string
		for i := range 3 {
			v, err := graph.Do(ctx, fmt.Sprintf("call-%d", i), func(context.Context, string) (int32, error) {
				n := w.done.Add(1)
				if task.Key() == "b" && i == 1 && task.Attempt() == 1 {
					return 0, fmt.Errorf("call %d: %w", n, errPasses)
				}
				return n, nil
			})
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("%s%d=%d", task.Key(), i, v))
		}
		if err := task.Emit(ctx, "note", map[string]string{"text": "nearly"}); err != nil {
			return nil, err
		}
		if w.hinder != nil {
			if err := w.hinder(ctx, task); err != nil {
				return nil, err
			}
		}
		return out, nil
	}})
	g.Add("sum", func(_ context.Context, s []string) ([]string, error) {
		return []string{fmt.Sprint(len(s)) + w.final + strings.Repeat("x", 20<<10)}, nil
	})
	g.Add("end", func(context.Context, []string) ([]string, error) { return []string{"end"}, nil })
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func([]string) []graph.Send {
		return []graph.Send{{To: "part", Key: "a"}, {To: "part", Key: "b"}, {To: "part", Key: "c"}, {To: "part", Key: "d"}}
	}, "part")
	g.Edge("part", "sum")
	g.Edge("sum", "end")
	g.Edge("end", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	f, err := workflow.New("job", "Wide.", flow, func(in job) ([]string, error) { return []string{in.Task}, nil }, func(s []string) (string, error) { return strings.Join(s, " "), nil })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var errPasses = errors.New("it passes")

func TestReplayOfParts(t *testing.T) {
	t.Parallel()
	for range 20 {
		w := &wide{}
		e := engine(t, runlog.NewMemory(nil), w.workflow(t))
		run := start(t, e, &superstep.StartOptions{Budget: &runlog.Budget{Wall: time.Hour, Turns: 100}}) // the log has the execution time
		ends(t, run, runlog.Completed)
		if _, carried, _ := strings.Cut(logOf(t, e, run.ID()), " carried "); !strings.Contains(carried, `"wall":`) {
			t.Fatal("the log has no execution time")
		}
		did := w.done.Load()
		report := replays(t, e, run.ID())
		if w.done.Load() != did {
			t.Fatalf("the replay did %d effects", w.done.Load()-did)
		}
		if report.Executed != report.Records-1 || report.Epochs != 1 {
			t.Errorf("%+v", report)
		}
	}
}

// A run that was interrupted, paused with one of two questions answered, failed, and was
// resumed after each.
func TestReplayOfARunThatWasTakenUp(t *testing.T) {
	t.Parallel()
	w := &wide{}
	var checks atomic.Int32
	blocked := make(chan struct{})
	w.hinder = func(ctx context.Context, t *graph.Task) error {
		if t.Key() != "c" {
			return nil
		}
		if _, err := graph.Do(ctx, "slow", func(ctx context.Context, _ string) (string, error) {
			if checks.Add(1) == 1 {
				close(blocked)
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "ready", nil
		}); err != nil {
			return err
		}
		for _, q := range []string{"first", "second"} {
			if _, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: q, Text: q + "?"}); err != nil {
				return err
			}
		}
		_, err := graph.Do(ctx, "check", func(context.Context, string) (string, error) {
			if checks.Add(1) == 3 {
				return "", errors.New("no luck")
			}
			return "fine", nil
		})
		return err
	}
	e := engine(t, runlog.NewMemory(nil), w.workflow(t))
	ctx, stop := context.WithCancel(t.Context())
	run, err := e.Start(ctx, "job", json.RawMessage(`{"task":"x"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-blocked
	stop()
	ends(t, run, runlog.Interrupted)
	replays(t, e, run.ID())
	only := func(key string) *superstep.ResumeOptions {
		return &superstep.ResumeOptions{Answer: func(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
			return &runlog.Answer{Value: json.RawMessage(`"yes"`)}, q.Key == key
		}}
	}
	ends(t, resume(t, e, run.ID(), only("first")), runlog.Paused)
	replays(t, e, run.ID())
	ends(t, resume(t, e, run.ID(), only("second")), runlog.Failed)
	replays(t, e, run.ID())
	ends(t, resume(t, e, run.ID(), nil), runlog.Completed)
	did, checked := w.done.Load(), checks.Load()
	began := time.Now()
	if report := replays(t, e, run.ID()); report.Epochs != 4 {
		t.Errorf("%+v", report)
	}
	if took := time.Since(began); took > 20*time.Second { // the time after which a replay stalls
		t.Errorf("it took %v: an answer was not given although everything waited for it", took)
	}
	if w.done.Load() != did || checks.Load() != checked {
		t.Error("the replay did effects")
	}
}

// A task asks two questions side by side, and the first is answered before the second is asked. The task goes on when both are answered, and so does a
// replay, which does not have the time of the first answer.
func TestReplayOfAnAnswerToARunningTask(t *testing.T) {
	t.Parallel()
	var e *superstep.Engine
	part := func(ctx context.Context, run, before, q, after string) error {
		do := func(key string) (err error) {
			_, err = graph.Do(ctx, key, func(ctx context.Context, _ string) (int, error) {
				if key != "b0" {
					return 1, nil
				}
				return 1, e.Answer(ctx, run, "second", &runlog.Answer{Key: "a", Value: json.RawMessage(`"yes"`)})
			})
			return err
		}
		if err := do(before); err != nil {
			return err
		}
		if _, err := graph.Ask[string](ctx, graph.Question{Key: q, Text: q + "?"}); err != nil {
			return err
		}
		return do(after)
	}
	asked := make(chan struct{})
	r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
		var errs [2]error
		var both sync.WaitGroup
		both.Go(func() { errs[0] = part(ctx, t.Scope().Run(), "a0", "a", "a1") })
		both.Go(func() {
			<-asked // in the first execution, so that there is something to answer
			errs[1] = part(ctx, t.Scope().Run(), "b0", "b", "b1")
		})
		both.Wait()
		return "2", errors.Join(errs[:]...)
	}}
	e = engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, &superstep.StartOptions{
		Observe: func(r runlog.Record, _ error) {
			if r.Kind == runlog.KindAsked && bytes.Contains(r.Data, []byte(`"a?"`)) {
				close(asked)
			}
		},
		Answer: func(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
			return &runlog.Answer{Value: json.RawMessage(`"yes"`)}, q.Key == "b"
		},
	})
	ends(t, run, runlog.Completed)
	replays(t, e, run.ID())
}

func TestReplayFindsAnotherWorkflow(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	w := &wide{}
	e := engine(t, store, w.workflow(t))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	for name, c := range map[string]struct {
		other *wide
		path  string
		why   string
	}{
		"another update": {&wide{final: "?"}, "sum", `/update/0 was "14!xxx`},
		"another effect": {&wide{hinder: func(ctx context.Context, t *graph.Task) error {
			_, err := graph.Do(ctx, "more", func(context.Context, string) (int, error) { panic("it was done") })
			return err
		}}, "part[", `it comes to effect.intended "more", which is not in the record`},
		"a failure": {&wide{hinder: func(context.Context, *graph.Task) error { return errors.New("broken") }}, "part[", "task.failed, which is not in the record"},
		"a question": {&wide{hinder: func(ctx context.Context, t *graph.Task) error {
			_, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "?"})
			return err
		}}, "part[", "question.asked"},
	} {
		report, err := engine(t, store, c.other.workflow(t)).Replay(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := report.Diverged; d == nil || !strings.HasPrefix(d.Path, c.path) || !strings.Contains(d.Why, c.why) || d.Recorded == nil {
			t.Errorf("%s: %v", name, d)
		}
	}
	replays(t, e, run.ID()) // the store is as it was
}

// A task that waits for its turn for ever is found by the time it takes.
func TestReplayThatStands(t *testing.T) {
	t.Parallel()
	keys := []string{"one", "two"}
	r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
		for _, key := range keys {
			if _, err := graph.Do(ctx, key, func(context.Context, string) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
		}
		return "2", nil
	}}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	replays(t, e, run.ID())
	keys = []string{"two", "one"}
	report, err := e.Replay(t.Context(), run.ID(), &superstep.ReplayOptions{Wait: 50 * time.Millisecond})
	if err != nil || report.Diverged == nil || report.Diverged.Path != "second" || !strings.Contains(report.Diverged.Why, "nothing wrote the recorded effect.intended") {
		t.Errorf("%+v %v", report, err)
	}
	if _, err := e.Replay(t.Context(), "nope", nil); err == nil {
		t.Error("a run that is not there was replayed")
	}
}

func TestReplayOfACancelledRun(t *testing.T) {
	t.Parallel()
	r := &rig{second: block}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	<-r.entered
	if err := e.Cancel(t.Context(), run.ID()); err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Cancelled)
	replays(t, e, run.ID())
}

func TestReplayIsAbandoned(t *testing.T) {
	t.Parallel()
	hold := false
	entered := make(chan struct{})
	r := &rig{second: func(ctx context.Context, _ *graph.Task) (string, error) {
		if hold {
			close(entered)
			<-ctx.Done()
		}
		return "2", ctx.Err()
	}}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	hold = true
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-entered; stop() }()
	if report, err := e.Replay(ctx, run.ID(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v %v", report, err)
	}
}
