package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// asksWhich is a second node that asks and gives the answer.
func asksWhich(ctx context.Context, t *graph.Task) (string, error) {
	return graph.Ask[string](ctx, graph.Question{Key: "q", Text: "Which?"})
}

func answered(s string) *runlog.Answer {
	b, _ := json.Marshal(s)
	return &runlog.Answer{Key: "q", Value: b, By: "person"}
}

func TestAnswerAPausedRun(t *testing.T) {
	r := &rig{second: asksWhich}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	out, err := run.Wait(t.Context())
	if err != nil || out.Status != runlog.Paused {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := e.Answer(t.Context(), run.ID(), "second", &runlog.Answer{Key: "q", Value: json.RawMessage(`7`)}); err == nil {
		t.Error("an answer of another type was taken")
	}
	if err := e.Answer(t.Context(), run.ID(), "second", answered("x")); err != nil {
		t.Fatal(err)
	}
	var twice *journal.AnsweredError
	if err := e.Answer(t.Context(), run.ID(), "second", answered("y")); !errors.As(err, &twice) {
		t.Errorf("got %v", err)
	}
	again := resume(t, e, run.ID(), nil)
	if out, err = again.Wait(t.Context()); err != nil || string(out.Output) != `"a  b:1x"` {
		t.Fatalf("got %+v, %v", out, err)
	}
	var ended *runlog.EndedError
	if err := e.Answer(t.Context(), run.ID(), "second", answered("z")); !errors.As(err, &ended) {
		t.Errorf("got %v", err)
	}
}

// An answer that comes when a run is about to pause for it is not left lying.
func TestAnswerJustBeforeThePause(t *testing.T) {
	r := &rig{second: asksWhich}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == runlog.KindAsked {
			if err := e.Answer(t.Context(), run.ID(), "second", answered("now")); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	out, err := run.Wait(t.Context())
	if out.Status == runlog.Paused { // the answer came even later: it is there for whoever resumes
		out, err = resume(t, e, run.ID(), nil).Wait(t.Context())
	}
	if err != nil || string(out.Output) != `"a  b:1now"` {
		t.Fatalf("got %+v, %v", out, err)
	}
}

// An answer that comes between the last look for answers and the pause prevents the pause, which would be for nothing.
func TestAnswerAtThePause(t *testing.T) {
	var e *superstep.Engine
	var waits atomic.Pointer[string] // the run, once nothing runs in it
	r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
		out, err := asksWhich(ctx, t)
		if err != nil {
			id := t.Scope().Run()
			waits.Store(&id)
		}
		return out, err
	}}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{r.workflow(t)}, Now: func() time.Time {
		if id := waits.Swap(nil); id != nil { // it notes since when it waits
			if err := e.Answer(t.Context(), *id, "second", answered("now")); err != nil {
				t.Error(err)
			}
		}
		return time.Now()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if out := ends(t, start(t, e, nil), runlog.Completed); string(out.Output) != `"a  b:1now"` {
		t.Errorf("got %+v", out)
	}
}

func TestStopAtASafePoint(t *testing.T) {
	release := make(chan struct{})
	r := &rig{}
	r.second = func(ctx context.Context, _ *graph.Task) (string, error) {
		select {
		case <-release:
			return "2", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	// What is running may end by itself, and then the run has.
	run := start(t, e, nil)
	<-r.entered
	close(release)
	if out := run.Stop(t.Context()); out.Status != runlog.Completed {
		t.Fatalf("got %+v", out)
	}
	// It is cut off at the deadline, and the run can be resumed.
	release = make(chan struct{})
	r.once, r.entered = sync.Once{}, make(chan struct{})
	run = start(t, e, nil)
	<-r.entered
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if out := run.Stop(late); out.Status != runlog.Interrupted || !errors.Is(out.Err, graph.ErrStopped) {
		t.Fatalf("got %+v", out)
	}
	close(release)
	out, err := resume(t, e, run.ID(), nil).Wait(t.Context())
	if err != nil || out.Status != runlog.Completed || r.first.Load() != 2 {
		t.Fatalf("got %+v, %v; the first node ran %d times", out, err, r.first.Load())
	}
}

// Whoever answers first is heard, and an answer that is no good leaves its question open.
func TestAnswersThatComeToNothing(t *testing.T) {
	r := &rig{second: asksWhich}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	asked, goOn := make(chan struct{}), make(chan struct{})
	run := start(t, e, &superstep.StartOptions{Answer: func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		close(asked)
		<-goOn
		return answered("terminal"), true
	}})
	<-asked
	if err := e.Answer(t.Context(), run.ID(), "second", answered("console")); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if out, err := run.Wait(t.Context()); err != nil || string(out.Output) != `"a  b:1console"` {
		t.Fatalf("got %+v, %v", out, err)
	}
	for name, answer := range map[string]superstep.Answering{
		"of another type": func(context.Context, runlog.Question) (*runlog.Answer, bool) {
			return &runlog.Answer{Value: json.RawMessage(`7`)}, true
		},
		"nil":     func(context.Context, runlog.Question) (*runlog.Answer, bool) { return nil, true },
		"a panic": func(context.Context, runlog.Question) (*runlog.Answer, bool) { panic("no answer") },
	} {
		out, err := start(t, e, &superstep.StartOptions{Answer: answer}).Wait(t.Context())
		if err != nil || out.Status != runlog.Paused || len(out.Open) != 1 {
			t.Errorf("%s: got %+v, %v", name, out, err)
		}
	}
}

// What a cache had is in the log, and so a run that used it replays without it.
func TestReplayOfACachedNode(t *testing.T) {
	g := graph.New("job", func(s, u string) string { return s + u })
	g.AddNode(graph.Node[string, string]{Name: "n", Cache: &graph.Caching[string]{}, Run: func(ctx context.Context, t *graph.Task, _ string) (string, error) {
		return graph.Do(ctx, "model", func(context.Context, string) (string, error) { return "x", nil })
	}})
	g.Edge(graph.Start, "n")
	g.Edge("n", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "A job.", flow, func(in job) (string, error) { return in.Task, nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: workflow.Set{w}, Cache: graph.NewMemoryCache(10, time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 2 {
		run := start(t, e, nil)
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		replays(t, e, run.ID())
	}
}

// An answer that comes while a callback is asked counts, also when the callback then has none itself. What was
// answered goes on at once, whatever else the callback is asked about.
func TestAnswerWhileAsked(t *testing.T) {
	for name, first := range map[string]string{"the one it is asked about": "a", "another one": "b"} {
		t.Run(name, func(t *testing.T) {
			var went []string // in the order in which they had their answers
			w := &workflow.Workflow{Name: "job", Run: func(ctx context.Context, x *workflow.Exec) (*workflow.Result, error) {
				var waiting []string
				for _, path := range []string{"a", "b"} {
					if _, err := x.Journal.Scope(path).Ask(ctx, &runlog.Question{Key: "q", Text: "?"}); err != nil {
						waiting = append(waiting, path)
					} else if !slices.Contains(went, path) {
						went = append(went, path)
					}
				}
				if waiting != nil {
					return nil, &pregel.WaitingError{Paths: waiting}
				}
				return &workflow.Result{Output: json.RawMessage(`"done"`)}, nil
			}}
			e := engine(t, runlog.NewMemory(nil), w)
			id := make(chan string, 1)
			asked := 0
			run, err := e.Start(t.Context(), "job", json.RawMessage(`{}`), &superstep.StartOptions{Answer: func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
				name := <-id
				id <- name
				path := q.Path
				if asked++; asked == 1 {
					path = first
				} else if len(went) == 0 {
					t.Error("what was answered does not go on before the next question is put")
				}
				if err := e.Answer(t.Context(), name, path, answered("x")); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return nil, false
			}})
			if err != nil {
				t.Fatal(err)
			}
			id <- run.ID()
			if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed || asked != 2 || went[0] != first {
				t.Fatalf("%+v, %v, asked %d times, %q", out, err, asked, went)
			}
		})
	}
}

// An answer reaches a run that another process executes, which continues at once; of many only the first counts.
func TestAnswerARunOfAnotherProcess(t *testing.T) {
	t.Parallel()
	r := &rig{second: asksWhich}
	store := runlog.NewMemory(nil)
	asked := make(chan struct{})
	here, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
	run := start(t, here, &superstep.StartOptions{Answer: func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) {
		close(asked)
		<-ctx.Done() // somebody is at the terminal and does not answer
		return nil, false
	}})
	<-asked
	if err := there.Answer(t.Context(), run.ID(), "second", &runlog.Answer{Key: "q", Value: json.RawMessage(`7`)}); !errors.As(err, new(*journal.UnfitError)) {
		t.Errorf("an answer of another type: %v", err)
	}
	if err := there.Answer(t.Context(), run.ID(), "first", answered("x")); !errors.As(err, new(*journal.UnaskedError)) {
		t.Errorf("an answer to no question: %v", err)
	}
	var all sync.WaitGroup
	var won, late atomic.Int32
	for i := range 8 {
		all.Go(func() {
			switch err := there.Answer(t.Context(), run.ID(), "second", answered(string(rune('a'+i)))); {
			case err == nil:
				won.Add(1)
			case errors.As(err, new(*journal.AnsweredError)), errors.As(err, new(*runlog.EndedError)), errors.As(err, new(*journal.UnaskedError)): // its step is over
				late.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	out, err := run.Wait(t.Context())
	if err != nil || out.Status != runlog.Completed || len(out.Output) != len(`"a  b:1x"`) {
		t.Fatalf("got %+v, %v", out, err)
	}
	all.Wait()
	if won.Load() != 1 || late.Load() != 7 {
		t.Errorf("%d answers won, %d came late", won.Load(), late.Load())
	}
	n := 0
	for rec, err := range runlog.Records(t.Context(), store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == runlog.KindAnswered {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the log has %d answers", n)
	}
}

// A process that stops before it reads an answer loses none: who posted it gives it to the run itself.
func TestAnswerWhenTheProcessStops(t *testing.T) {
	t.Parallel()
	for range 20 {
		r := &rig{second: asksWhich}
		store := runlog.NewMemory(nil)
		asked := make(chan struct{})
		here, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
		run := start(t, here, &superstep.StartOptions{Answer: func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) {
			close(asked)
			<-ctx.Done()
			return nil, false
		}})
		<-asked
		go here.Close()
		if err := there.Answer(t.Context(), run.ID(), "second", answered("x")); err != nil && !errors.As(err, new(*runlog.EndedError)) {
			t.Fatal(err)
		}
		out, err := run.Wait(t.Context())
		if err == nil && out.Status != runlog.Completed {
			out, err = resume(t, there, run.ID(), nil).Wait(t.Context())
		}
		if err != nil || string(out.Output) != `"a  b:1x"` {
			t.Fatalf("got %+v, %v", out, err)
		}
	}
}

// A run pauses for who asks, whoever executes it: what is running ends, nothing else starts, no worker resumes it, and an answer
// does not either. Resumed it does not pause again, and its replay is equal.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"here", "elsewhere", "nowhere"} {
		t.Run(held, func(t *testing.T) {
			t.Parallel()
			store, entered, release := runlog.NewMemory(nil), make(chan struct{}, 1), make(chan struct{})
			free := sync.OnceFunc(func() { close(release) })
			steps := func() *workflow.Workflow {
				g := graph.New("job", func(s, u string) string { return s + u })
				g.Add("first", func(ctx context.Context, _ string) (string, error) {
					select {
					case entered <- struct{}{}:
					default:
					}
					select {
					case <-release:
						return "1", nil
					case <-ctx.Done():
						return "", ctx.Err()
					}
				})
				g.Add("second", func(context.Context, string) (string, error) { return "2", nil })
				g.Edge(graph.Start, "first")
				g.Edge("first", "second")
				g.Edge("second", graph.End)
				flow, err := g.Compile()
				if err != nil {
					t.Fatal(err)
				}
				w, err := workflow.New("job", "A job.", flow, func(job) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			e, other := engine(t, store, steps()), engine(t, store, steps())
			run := start(t, e, nil)
			<-entered
			by := e
			switch held {
			case "elsewhere":
				by = other
			case "nowhere":
				e.Close()
				by = other
			}
			paused := make(chan error)
			go func() { paused <- by.Pause(t.Context(), run.ID(), "test") }()
			if held != "nowhere" {
				select {
				case err := <-paused:
					t.Errorf("it paused while a task was running: %v", err)
				case <-time.After(300 * time.Millisecond):
				}
				free()
			}
			if err := <-paused; err != nil {
				t.Fatal(err)
			}
			if out, err := run.Wait(t.Context()); held != "nowhere" && (err != nil || out.Status != runlog.Paused) {
				t.Fatalf("got %+v, %v", out, err)
			}
			if taken, err := other.Recover(t.Context(), nil); err != nil || len(taken) > 0 {
				t.Fatalf("a worker took %d runs: %v", len(taken), err)
			}
			if err := by.Pause(t.Context(), run.ID(), "test"); err != nil {
				t.Error("once more:", err)
			}
			free()
			out, err := resume(t, other, run.ID(), nil).Wait(t.Context())
			if err != nil || string(out.Output) != `"12"` {
				t.Fatalf("resumed: %+v, %v", out, err)
			}
			replays(t, other, run.ID())
			if err := by.Pause(t.Context(), run.ID(), "test"); !errors.As(err, new(*runlog.EndedError)) && held != "nowhere" {
				t.Error("a finished run:", err)
			}
		})
	}
}

// A run that waits for a person at a terminal pauses too. Its question can be answered then, and it stays paused until it is resumed.
func TestPauseWhileAsked(t *testing.T) {
	t.Parallel()
	r := &rig{second: asksWhich}
	store, asked := runlog.NewMemory(nil), make(chan struct{}, 8)
	here, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
	run := start(t, here, &superstep.StartOptions{Answer: func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, false
	}})
	<-asked
	if err := there.Pause(t.Context(), run.ID(), "test"); err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Paused || len(out.Open) != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := there.Answer(t.Context(), run.ID(), "second", answered("x")); err != nil {
		t.Fatal(err)
	}
	if taken, err := there.Recover(t.Context(), nil); err != nil || len(taken) > 0 || info(t, there, run.ID()).Status != runlog.Paused {
		t.Fatalf("answered, the run is %s, and a worker took %d: %v", info(t, there, run.ID()).Status, len(taken), err)
	}
	out, err := resume(t, there, run.ID(), nil).Wait(t.Context())
	if err != nil || string(out.Output) != `"a  b:1x"` {
		t.Fatalf("resumed: %+v, %v", out, err)
	}
	replays(t, there, run.ID())
}

// There is nothing to pause in a run that has failed.
func TestPauseAFailedRun(t *testing.T) {
	t.Parallel()
	r := &rig{second: func(context.Context, *graph.Task) (string, error) { return "", errors.New("no") }}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	run := start(t, e, nil)
	if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Failed {
		t.Fatalf("got %+v, %v", out, err)
	}
	if err := e.Pause(t.Context(), run.ID(), "test"); err == nil || info(t, e, run.ID()).Status != runlog.Failed {
		t.Errorf("%v; the run is %s", err, info(t, e, run.ID()).Status)
	}
}

// lingering takes a moment to record that a run pauses, and another one to let go of it.
type lingering struct {
	runlog.Store
	paused, checked chan struct{}
}

func (s *lingering) Acquire(ctx context.Context, id string, o *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := s.Store.Acquire(ctx, id, o)
	if err != nil {
		return nil, info, err
	}
	return &lingeringLog{l, s}, info, nil
}

type lingeringLog struct {
	runlog.Log
	s *lingering
}

func (l *lingeringLog) Append(ctx context.Context, b *runlog.Batch) error {
	err := l.Log.Append(ctx, b)
	if b.Status == runlog.Paused {
		close(l.s.paused)
		time.Sleep(100 * time.Millisecond) // enough for an answer to be on its way; the test is red without the mend only if it is
	}
	return err
}

func (l *lingeringLog) Release(ctx context.Context) error {
	select {
	case <-l.s.checked:
	case <-time.After(300 * time.Millisecond):
	}
	return l.Log.Release(ctx)
}

// A process that has recorded the pause takes no answer any more. Whoever answers then finds a run that nobody executes, and no run that seems to go on.
func TestAnswerBehindThePause(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"here": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &lingering{Store: runlog.NewMemory(nil), paused: make(chan struct{}), checked: make(chan struct{})}
			r := &rig{second: asksWhich}
			here, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
			run := start(t, here, nil)
			<-store.paused
			e := here
			if elsewhere {
				e = there
			}
			if err := e.Answer(t.Context(), run.ID(), "second", answered("x")); err != nil {
				t.Fatal(err)
			}
			infos, err := store.Runs(t.Context(), &runlog.Filter{ID: run.ID()})
			if err != nil || len(infos) != 1 || infos[0].Status != runlog.Interrupted {
				t.Errorf("behind the answer the run is %+v, %v", infos, err)
			}
			close(store.checked)
			ends(t, run, runlog.Paused)
			if out := ends(t, resume(t, there, run.ID(), nil), runlog.Completed); string(out.Output) != `"a  b:1x"` {
				t.Errorf("got %s", out.Output)
			}
		})
	}
}

// Who observes a run may answer it when it pauses: the run does not wait for who waits for it.
func TestAnswerByAnObserver(t *testing.T) {
	t.Parallel()
	store := &lingering{Store: runlog.NewMemory(nil), paused: make(chan struct{}), checked: make(chan struct{})}
	var e *superstep.Engine
	answers := make(chan error, 1)
	r := &rig{second: asksWhich}
	e, err := superstep.New(store, &superstep.Options{
		Workflows: []*workflow.Workflow{r.workflow(t)},
		Observe: func(id string, r runlog.Record, live bool) {
			if r.Kind == runlog.KindAsked && live {
				<-store.paused
				answers <- e.Answer(t.Context(), id, "second", answered("x"))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	run := start(t, e, nil)
	ends(t, run, runlog.Paused)
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	if out := ends(t, resume(t, e, run.ID(), nil), runlog.Completed); string(out.Output) != `"a  b:1x"` {
		t.Errorf("got %s", out.Output)
	}
}
