package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a workflow of two nodes, "first" and "second", whose second one does what a test wants.
type rig struct {
	first   atomic.Int32 // how often it ran
	second  func(ctx context.Context, t *graph.Task) (string, error)
	skip    bool // the second may fail
	entered chan struct{}
	once    sync.Once
}

type job struct {
	Task string `json:"task" jsonschema:"what to do"`
	N    int    `json:"n,omitempty"`
}

func (r *rig) workflow(t testing.TB) *workflow.Workflow {
	t.Helper()
	r.entered = make(chan struct{})
	g := graph.New("job", func(s, u string) string { return s + u })
	g.Add("first", func(context.Context, string) (string, error) { r.first.Add(1); return "1", nil })
	second := graph.Node[string, string]{Name: "second", Run: func(ctx context.Context, t *graph.Task, _ string) (string, error) {
		r.once.Do(func() { close(r.entered) })
		if r.second == nil {
			return "2", nil
		}
		return r.second(ctx, t)
	}}
	if r.skip {
		second.OnError = graph.Skip
	}
	g.AddNode(second)
	g.Edge(graph.Start, "first")
	g.Edge("first", "second")
	g.Edge("second", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "A job.", flow, func(in job) (string, error) { return in.Task + ":", nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func engine(t testing.TB, store runlog.Store, w ...*workflow.Workflow) *superstep.Engine {
	t.Helper()
	e, err := superstep.New(store, &superstep.Options{Workflows: w})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func start(t testing.TB, e *superstep.Engine, opt *superstep.StartOptions) *superstep.Run {
	t.Helper()
	r, err := e.Start(context.WithoutCancel(t.Context()), "job", json.RawMessage(`{"task":"a  b"}`), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func resume(t testing.TB, e *superstep.Engine, id string, opt *superstep.ResumeOptions) *superstep.Run {
	t.Helper()
	r, err := e.Resume(context.WithoutCancel(t.Context()), id, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ends waits for a run and checks how it ended.
func ends(t testing.TB, r *superstep.Run, want runlog.Status) superstep.Outcome {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := r.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != want {
		t.Fatalf("it is %s (%v), want %s", out.Status, out.Err, want)
	}
	return out
}

func info(t testing.TB, e *superstep.Engine, id string) runlog.Info {
	t.Helper()
	i, err := e.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// block waits until the run is stopped.
func block(ctx context.Context, _ *graph.Task) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestCompletes(t *testing.T) {
	t.Parallel()
	r := &rig{}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	out := ends(t, run, runlog.Completed)
	if string(out.Output) != `"a  b:12"` || out.Steps != 2 || out.Err != nil {
		t.Errorf("%+v", out)
	}
	if i := info(t, e, run.ID()); i.Status != runlog.Completed || i.Title != "a b" || i.Workflow != "job" || i.Owner != "" {
		t.Errorf("%+v", i)
	}
	again := resume(t, e, run.ID(), nil) // nothing executes
	if diff := cmp.Diff(out, ends(t, again, runlog.Completed)); diff != "" || r.first.Load() != 1 {
		t.Error(diff, r.first.Load())
	}
	var seqs []uint64
	for rec, err := range again.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, rec.Seq)
	}
	if len(seqs) < 6 || !slices.IsSorted(seqs) {
		t.Errorf("followed %v", seqs)
	}
}

func TestStartRefused(t *testing.T) {
	t.Parallel()
	e := engine(t, runlog.NewMemory(nil), (&rig{}).workflow(t))
	var in *workflow.InputsError
	if _, err := e.Start(t.Context(), "job", json.RawMessage(`{"tsak":"x"}`), nil); !errors.As(err, &in) || len(in.Problems) != 2 {
		t.Error(err)
	}
	var unknown *workflow.UnknownError
	if _, err := e.Start(t.Context(), "jbo", json.RawMessage(`{}`), nil); !errors.As(err, &unknown) {
		t.Error(err)
	}
	if runs, err := e.Runs(t.Context(), nil); err != nil || len(runs) != 0 {
		t.Errorf("a run that never began is listed: %v, %v", runs, err)
	}
	if _, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{{}, nil}}); err == nil {
		t.Error("workflows without anything were accepted")
	}
}

func TestFails(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("it is broken")
	var broken atomic.Bool
	broken.Store(true)
	r := &rig{second: func(context.Context, *graph.Task) (string, error) {
		if broken.Load() {
			return "", errBroken
		}
		return "2", nil
	}}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	out := ends(t, run, runlog.Failed)
	var tasks *graph.TasksError
	if !errors.Is(out.Err, errBroken) || !errors.As(out.Err, &tasks) || tasks.Tasks[0].Path != "second" || superstep.FailureCode(out.Err) != superstep.CodeTask {
		t.Errorf("%+v", out)
	}
	ends(t, resume(t, e, run.ID(), nil), runlog.Failed)
	broken.Store(false)
	if out := ends(t, resume(t, e, run.ID(), nil), runlog.Completed); string(out.Output) != `"a  b:12"` || r.first.Load() != 1 {
		t.Errorf("%+v; the first node ran %d times", out, r.first.Load())
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	w := &workflow.Workflow{Name: "job", Run: func(context.Context, *workflow.Exec) (*workflow.Result, error) { panic("oh no") }}
	e := engine(t, runlog.NewMemory(nil), w)
	run, err := e.Start(t.Context(), "job", json.RawMessage(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := ends(t, run, runlog.Failed); !strings.Contains(out.Err.Error(), "oh no") {
		t.Error(out.Err)
	}
}

func TestPartial(t *testing.T) {
	t.Parallel()
	r := &rig{skip: true, second: func(context.Context, *graph.Task) (string, error) { return "", errors.New("no") }}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	for range 2 { // resumed, it gives what it gave
		out := ends(t, run, runlog.Partial)
		if diff := cmp.Diff([]string{"second"}, out.Skipped); diff != "" || string(out.Output) != `"a  b:1"` {
			t.Errorf("%s %s", out.Output, diff)
		}
		run = resume(t, e, run.ID(), nil)
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	ask := func(ctx context.Context, t *graph.Task) (string, error) {
		b, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "go", Text: "Go on?", Options: []string{"yes", "no"}})
		return string(b), err
	}
	answer := func(with string) superstep.Answering {
		return func(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
			return &runlog.Answer{Value: json.RawMessage(with), By: "flag"}, q.Path == "second" && q.Key == "go"
		}
	}
	r := &rig{second: ask}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	for range 2 { // resumed without an answer, it pauses again and does not ask again
		out := ends(t, run, runlog.Paused)
		if len(out.Open) != 1 || out.Open[0].Path != "second" || out.Open[0].Text != "Go on?" || out.Err != nil {
			t.Fatalf("%+v", out)
		}
		run = resume(t, e, run.ID(), nil)
	}
	ends(t, run, runlog.Paused)
	if out := ends(t, resume(t, e, run.ID(), &superstep.ResumeOptions{Answer: answer(`"yes"`)}), runlog.Completed); string(out.Output) != `"a  b:1\"yes\""` || r.first.Load() != 1 {
		t.Errorf("%s; the first node ran %d times", out.Output, r.first.Load())
	}
	asked := 0
	for rec := range e.Follow(t.Context(), run.ID(), 0) {
		if rec.Kind == runlog.KindAsked {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	ends(t, start(t, e, &superstep.StartOptions{Answer: answer(`"no"`)}), runlog.Completed)
	var unfit *journal.UnfitError
	if out := ends(t, start(t, e, &superstep.StartOptions{Answer: answer(`"perhaps"`)}), runlog.Paused); !errors.As(out.Err, &unfit) || len(out.Open) != 1 {
		t.Errorf("%+v", out)
	}
	out := ends(t, start(t, e, &superstep.StartOptions{Answer: func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		return &runlog.Answer{Denied: true}, true
	}}), runlog.Failed)
	if !errors.Is(out.Err, journal.ErrDenied) || superstep.FailureCode(out.Err) != superstep.CodeDenied {
		t.Error(out.Err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("here", func(t *testing.T) {
		t.Parallel()
		r := &rig{second: block}
		e := engine(t, runlog.NewMemory(nil), r.workflow(t))
		run := start(t, e, nil)
		<-r.entered
		if err := e.Cancel(t.Context(), run.ID()); err != nil {
			t.Fatal(err)
		}
		ends(t, run, runlog.Cancelled)
		var ended *runlog.EndedError
		if _, err := e.Resume(t.Context(), run.ID(), nil); !errors.As(err, &ended) || ended.Status != runlog.Cancelled {
			t.Error(err)
		}
		if err := e.Cancel(t.Context(), run.ID()); !errors.As(err, &ended) {
			t.Error(err)
		}
	})
	t.Run("elsewhere", func(t *testing.T) {
		t.Parallel()
		r, store := &rig{second: block}, runlog.NewMemory(nil)
		run := start(t, engine(t, store, r.workflow(t)), nil)
		<-r.entered
		if err := engine(t, store).Cancel(t.Context(), run.ID()); err != nil {
			t.Fatal(err)
		}
		ends(t, run, runlog.Cancelled)
	})
	t.Run("nowhere", func(t *testing.T) {
		t.Parallel()
		r := &rig{second: func(context.Context, *graph.Task) (string, error) { return "", errors.New("no") }}
		e := engine(t, runlog.NewMemory(nil), r.workflow(t))
		run := start(t, e, nil)
		ends(t, run, runlog.Failed)
		if err := e.Cancel(t.Context(), run.ID()); err != nil {
			t.Fatal(err)
		}
		if i := info(t, e, run.ID()); i.Status != runlog.Cancelled {
			t.Errorf("%+v", i)
		}
	})
	var missing *runlog.NotFoundError
	if err := engine(t, runlog.NewMemory(nil)).Cancel(t.Context(), "none"); !errors.As(err, &missing) {
		t.Error(err)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	r, store := &rig{second: block}, runlog.NewMemory(nil)
	w := r.workflow(t)
	run := start(t, engine(t, store, w), nil)
	<-r.entered
	other := engine(t, store, w)
	var busy *runlog.BusyError
	if _, err := other.Resume(t.Context(), run.ID(), nil); !errors.As(err, &busy) || busy.ID != run.ID() {
		t.Error(err)
	}
	if err := other.Delete(t.Context(), run.ID()); !errors.As(err, &busy) {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	var blocks atomic.Bool
	blocks.Store(true)
	r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
		if blocks.Load() {
			return block(ctx, t)
		}
		return "2", nil
	}}
	store := runlog.NewMemory(nil)
	w := r.workflow(t)
	e := engine(t, store, w)
	run := start(t, e, nil)
	<-r.entered
	e.Close()
	if out := ends(t, run, runlog.Interrupted); out.Err == nil {
		t.Error("it does not say why")
	}
	other := engine(t, store, w)
	if i := info(t, other, run.ID()); i.Status != runlog.Interrupted {
		t.Errorf("%+v", i)
	}
	blocks.Store(false)
	if out := ends(t, resume(t, other, run.ID(), nil), runlog.Completed); string(out.Output) != `"a  b:12"` || r.first.Load() != 1 {
		t.Errorf("%s; the first node ran %d times", out.Output, r.first.Load())
	}
}

// A run whose context ends is interrupted, not failed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	r := &rig{second: block}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	ctx, stop := context.WithCancel(t.Context())
	run, err := e.Start(ctx, "job", json.RawMessage(`{"task":"x"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-r.entered
	stop()
	ends(t, run, runlog.Interrupted)
	r.second = nil
	ends(t, resume(t, e, run.ID(), nil), runlog.Completed)
}

func TestFind(t *testing.T) {
	t.Parallel()
	ids := []string{"aa1", "aa2", "bb1", "bb"}
	n := 0
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{(&rig{}).workflow(t)}, NewID: func() string { n++; return ids[(n-1)%len(ids)] }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if _, err := e.Find(t.Context(), "@last"); err == nil {
		t.Error("there is a last run of none")
	}
	for range ids {
		ends(t, start(t, e, nil), runlog.Completed)
	}
	for ref, want := range map[string]string{
		"aa1": "aa1", "bb": "bb", "bb1": "bb1", "@last": "bb", "@-1": "bb", "@-2": "bb1", "@-4": "aa1",
		"aa": "ambiguous", "b": "ambiguous", "x": "missing", "": "missing", "@-5": "error", "@0": "error", "@2": "error", "@x": "error",
	} {
		i, err := e.Find(t.Context(), ref)
		var several *superstep.AmbiguousError
		var missing *runlog.NotFoundError
		got := i.ID
		switch {
		case errors.As(err, &several) && len(several.Matches) == 2 && strings.Contains(err.Error(), "a b"):
			got = "ambiguous"
		case errors.As(err, &missing):
			got = "missing"
		case err != nil:
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", ref, got, err, want)
		}
	}
	if _, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"x"}`), nil); !errors.Is(err, runlog.ErrExists) {
		t.Errorf("every ID is taken, but: %v", err)
	}
}

// Those who follow see what is stored in order and without gaps, and what is said live
// at its place.
func TestFollow(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
		<-goOn
		for i := range 3 {
			t.Scope().Live("delta", i)
			if err := t.Scope().Emit(ctx, "said", i); err != nil {
				return "", err
			}
		}
		return "2", nil
	}}
	store := runlog.NewMemory(nil)
	e := engine(t, store, r.workflow(t))
	run := start(t, e, nil)
	<-r.entered
	var here, there []string
	var readers sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(2)
	read := func(e *superstep.Engine, into *[]string) {
		is := sync.OnceFunc(ready.Done)
		next := uint64(1)
		for rec, err := range e.Follow(context.WithoutCancel(t.Context()), run.ID(), 0) {
			if err != nil || rec.Seq != 0 && rec.Seq != next {
				t.Errorf("record %d, want %d: %v", rec.Seq, next, err)
			}
			if rec.Seq != 0 {
				next++
			}
			if rec.Kind == runlog.KindTaskDone {
				is()
			}
			var ev runlog.Event
			if rec.Kind == runlog.KindEvent && json.Unmarshal(rec.Data, &ev) == nil && ev.Name != "task.started" {
				*into = append(*into, fmt.Sprintf("%s %s", ev.Name, ev.Data))
			}
		}
	}
	readers.Go(func() { read(e, &here) })
	readers.Go(func() { read(engine(t, store), &there) })
	ready.Wait()
	close(goOn)
	ends(t, run, runlog.Completed)
	readers.Wait()
	if diff := cmp.Diff([]string{"delta 0", "said 0", "delta 1", "said 1", "delta 2", "said 2"}, here); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"said 0", "said 1", "said 2"}, there); diff != "" {
		t.Errorf("in another engine: %s", diff)
	}
}

// A follower that sleeps through more than is kept for it loses nothing that is stored.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	const records = 5000
	written := make(chan struct{})
	goOn := make(chan struct{})
	r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
		defer close(written)
		<-goOn
		for i := range records {
			if err := t.Scope().Emit(ctx, "said", i); err != nil {
				return "", err
			}
		}
		return "2", nil
	}}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	<-r.entered
	next, said := uint64(1), 0
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Seq == 0 {
			continue
		}
		if rec.Seq != next {
			t.Fatalf("record %d, want %d", rec.Seq, next)
		}
		if next == 1 {
			close(goOn)
			<-written
		}
		next++
		if rec.Kind == runlog.KindEvent {
			said++
		}
	}
	ends(t, run, runlog.Completed)
	if i := info(t, e, run.ID()); said != records || next != i.Head+1 {
		t.Errorf("%d events, %d records of %d", said, next-1, i.Head)
	}
}

// A follower may leave before the run ends, and the run goes on.
func TestFollowerLeaves(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r := &rig{second: func(context.Context, *graph.Task) (string, error) { <-goOn; return "2", nil }}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	for range run.Follow(t.Context(), 0) {
		break
	}
	<-r.entered
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var last error
	for _, err := range run.Follow(ctx, 0) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
	if _, err := run.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(goOn)
	ends(t, run, runlog.Completed)
}

func Example() {
	type state struct {
		Topic string   `json:"topic"`
		Notes []string `json:"notes,omitempty"`
		Brief string   `json:"brief,omitempty"`
	}
	type update struct {
		Note  string `json:"note,omitempty"`
		Brief string `json:"brief,omitempty"`
	}
	g := graph.New("brief", func(s state, u update) state {
		if u.Note != "" {
			s.Notes = append(slices.Clone(s.Notes), u.Note)
		}
		if u.Brief != "" {
			s.Brief = u.Brief
		}
		return s
	})
	g.Add("search", func(_ context.Context, s state) (update, error) {
		return update{Note: fmt.Sprintf("note %d on %s", len(s.Notes)+1, s.Topic)}, nil
	})
	g.Add("write", func(_ context.Context, s state) (update, error) {
		return update{Brief: strings.Join(s.Notes, ", ")}, nil
	})
	g.Edge(graph.Start, "search")
	g.Branch("search", func(s state) string {
		if len(s.Notes) < 2 {
			return "search"
		}
		return "write"
	}, "search", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		panic(err) // every mistake at once
	}
	type inputs struct {
		Topic string `json:"topic" jsonschema:"what the brief is about"`
	}
	w, err := workflow.New("brief", "Write a brief.", flow,
		func(in inputs) (state, error) { return state{Topic: in.Topic}, nil },
		func(s state) (string, error) { return s.Brief, nil })
	if err != nil {
		panic(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	run, err := e.Start(context.Background(), "brief", json.RawMessage(`{"topic":"Pregel"}`), nil)
	if err != nil {
		panic(err)
	}
	out, err := run.Wait(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Status, out.Steps, string(out.Output))
	// Output: completed 3 "note 1 on Pregel, note 2 on Pregel"
}

// A closed engine starts nothing.
func TestStartAfterClose(t *testing.T) {
	r := &rig{second: block}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	e.Close()
	if _, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"x"}`), nil); !errors.Is(err, superstep.ErrClosed) {
		t.Errorf("start: %v", err)
	}
	if _, err := e.Resume(t.Context(), "x", nil); !errors.Is(err, superstep.ErrClosed) {
		t.Errorf("resume: %v", err)
	}
	if err := e.Cancel(t.Context(), "x"); !errors.Is(err, superstep.ErrClosed) {
		t.Errorf("cancel: %v", err)
	}
}

// A worker continues with the runs that crashed processes left in a store that it shares with others.
func ExampleEngine_Serve() {
	store := runlog.NewMemory(nil) // in earnest postgres.Open or redis.Open, of package runlog/stores
	engine, err := superstep.New(store, &superstep.Options{Workflows: nil /* those it can run */})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	stop() // here at once; else ^C does it
	err = engine.Serve(ctx, &superstep.RecoverOptions{
		Taken:   func(id string) { fmt.Println("resumed:", id) },
		Ended:   func(id string, out superstep.Outcome) { fmt.Println(id, "is", out.Status) },
		Skipped: func(id string, why error) { fmt.Println("not ours:", id, why) },
		Failed:  func(id string, err error) { fmt.Println(id, err) },
	})
	fmt.Println("stopped:", err)
	// Output: stopped: <nil>
}

// A workflow that is made with types is started with them: the run has the inputs that the same JSON object would have given it.
func TestStartWithTypes(t *testing.T) {
	t.Parallel()
	e := engine(t, runlog.NewMemory(nil), (&rig{}).workflow(t))
	for id, inputs := range map[string]any{
		"struct": job{Task: "a"}, "pointer": &job{Task: "a"}, "map": map[string]any{"task": "a"}, "raw": json.RawMessage(`{"task":"a"}`), "bytes": []byte(`{"task":"a"}`),
	} {
		run, err := e.Start(t.Context(), "job", inputs, &superstep.StartOptions{ID: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if out := ends(t, run, runlog.Completed); string(out.Output) != `"a:12"` {
			t.Errorf("%s: %s", id, out.Output)
		}
		if info, err := e.Enqueue(t.Context(), "job", job{Task: "a"}, &superstep.StartOptions{ID: id}); err != nil || info.Status != runlog.Completed {
			t.Errorf("%s is another run: %+v, %v", id, info, err)
		}
	}
	for why, inputs := range map[string]any{
		"cannot be encoded": struct{ Task func() }{}, "task": nil, "tusk": struct {
			Task string `json:"task"`
			Tusk string `json:"tusk"`
		}{"a", "b"}, "object": "a",
	} {
		if _, err := e.Start(t.Context(), "job", inputs, nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v, want one with %q", inputs, err, why)
		}
	}
}

// A run that is started again by its ID is resumed, or gives its outcome, and is no other run.
func TestStartByID(t *testing.T) {
	t.Parallel()
	store := runlogtest.NewMortal()
	r := &rig{second: func(ctx context.Context, _ *graph.Task) (string, error) {
		return graph.Ask[string](ctx, graph.Question{Text: "Which?"})
	}}
	w := r.workflow(t)
	e := engine(t, store, w)
	ctx := context.WithoutCancel(t.Context())
	begin := func(inputs string) (*superstep.Run, error) {
		return e.Start(ctx, "job", json.RawMessage(inputs), &superstep.StartOptions{ID: "order-17"})
	}
	store.DieAt(0, false) // before its first record
	if _, err := begin(`{"task":"a"}`); !errors.Is(err, runlogtest.ErrCrash) {
		t.Fatal(err)
	}
	store.Revive()
	e = engine(t, store, w)
	for range 2 {
		run, err := begin(`{"task":"a"}`)
		if err != nil || run.ID() != "order-17" {
			t.Fatal(err)
		}
		ends(t, run, runlog.Paused)
	}
	for inputs, why := range map[string]string{`{"task":"b"}`: `"a", not "b"`, `{"task":"a","n":3}`: "n is absent, not 3"} {
		var conflict *superstep.ConflictError
		if _, err := begin(inputs); !errors.As(err, &conflict) || !strings.Contains(conflict.Why, why) {
			t.Errorf("%s: %v", inputs, err)
		}
	}
	if err := e.Answer(ctx, "order-17", "second", &runlog.Answer{Value: json.RawMessage(`"!"`)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run, err := begin(`{ "task": "a" }`)
		if err != nil {
			t.Fatal(err)
		}
		if out := ends(t, run, runlog.Completed); string(out.Output) != `"a:1!"` {
			t.Errorf("%s", out.Output)
		}
	}
	if r.first.Load() != 1 {
		t.Errorf("the first step ran %d times", r.first.Load())
	}
	if _, err := e.Start(ctx, "job", json.RawMessage(`{"task":"a"}`), &superstep.StartOptions{ID: "No Such"}); err == nil {
		t.Error("an ID that is none passes")
	}
}
