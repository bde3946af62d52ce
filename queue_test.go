package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

func enqueue(t testing.TB, e *superstep.Engine, name, task string, opt *superstep.StartOptions) runlog.Info {
	t.Helper()
	i, err := e.Enqueue(t.Context(), name, json.RawMessage(fmt.Sprintf(`{"task":%q}`, task)), opt)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// named is a workflow of one node.
func named(t testing.TB, name string, run func(ctx context.Context, task string) error) *workflow.Workflow {
	t.Helper()
	g := graph.New(name, func(_, u string) string { return u })
	g.Add("only", func(ctx context.Context, s string) (string, error) { return s, run(ctx, s) })
	g.Edge(graph.Start, "only")
	g.Edge("only", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New(name, "A job.", flow, func(in job) (string, error) { return in.Task, nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A queued run is listed and executed by nobody, until a worker takes it.
func TestEnqueue(t *testing.T) {
	store := redact.Store(runlog.NewMemory(nil), redact.New(redact.Secret{Name: "KEY", Value: "sk-very-secret-1234567"}))
	r := &rig{}
	e := engine(t, store, r.workflow(t))
	opt := &superstep.StartOptions{ID: "q", Queue: &runlog.Queue{Place: []string{"gpu"}, Priority: 7, Key: "k", Limit: 2}}
	enqueue(t, e, "job", "it sk-very-secret-1234567", opt)
	got := info(t, e, "q")
	if got.Status != runlog.Queued || got.Owner != "" || got.Head != 1 || got.Queue() == nil || got.Queue().Priority != 7 || got.Queue().Place[0] != "gpu" {
		t.Fatalf("it is %+v", got)
	}
	if again := enqueue(t, e, "job", "it sk-very-secret-1234567", opt); again.ID != "q" || info(t, e, "q").Epoch != 2 {
		t.Errorf("the second time there is %+v", again)
	}
	_, err := e.Enqueue(t.Context(), "job", json.RawMessage(`{"task":"other"}`), opt)
	if !errors.As(err, new(*superstep.ConflictError)) {
		t.Errorf("another run of that ID gives %v", err)
	}
	if taken, err := e.Recover(t.Context(), nil); err != nil || len(taken) > 0 {
		t.Fatalf("a worker without a GPU takes %d runs, %v", len(taken), err)
	}
	taken, err := e.Recover(t.Context(), &superstep.RecoverOptions{Place: []string{"acp", "gpu"}})
	if err != nil || len(taken) != 1 {
		t.Fatalf("a worker takes %d runs, %v", len(taken), err)
	}
	ends(t, taken[0], runlog.Completed)
	if again := enqueue(t, e, "job", "it sk-very-secret-1234567", opt); again.Status != runlog.Completed || r.first.Load() != 1 {
		t.Errorf("afterwards there is %+v", again)
	}
	for _, q := range []runlog.Queue{{Place: []string{"GPU"}}, {Limit: 1}, {Key: "k", Limit: -1}, {Place: make([]string, 9)}} {
		if _, err := e.Enqueue(t.Context(), "job", json.RawMessage(`{"task":"x"}`), &superstep.StartOptions{Queue: &q}); err == nil {
			t.Errorf("%+v is accepted", q)
		}
	}
}

// Several processes that enqueue a run of one ID create it once.
func TestEnqueueTogether(t *testing.T) {
	store := runlog.NewMemory(nil)
	var wg sync.WaitGroup
	for range 8 {
		e := engine(t, store, (&rig{}).workflow(t))
		wg.Go(func() {
			if _, err := e.Enqueue(t.Context(), "job", json.RawMessage(`{"task":"x"}`), &superstep.StartOptions{ID: "q"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if infos, _ := store.Runs(t.Context(), nil); len(infos) != 1 || infos[0].Status != runlog.Queued {
		t.Errorf("there are %+v", infos)
	}
}

// Users may cancel, pause, delete or resume a queued run.
func TestQueuedByHand(t *testing.T) {
	r := &rig{}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	for _, id := range []string{"cancel", "pause", "delete", "resume"} {
		enqueue(t, e, "job", "x", &superstep.StartOptions{ID: id, Queue: &runlog.Queue{NotBefore: time.Now().Add(time.Hour), Place: []string{"nowhere"}}})
	}
	if err := errors.Join(e.Cancel(t.Context(), "cancel"), e.Pause(t.Context(), "pause", "me"), e.Delete(t.Context(), "delete")); err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, "resume", nil), runlog.Completed)
	if a, b := info(t, e, "cancel").Status, info(t, e, "pause").Status; a != runlog.Cancelled || b != runlog.Paused {
		t.Errorf("they are %s and %s", a, b)
	}
	if taken, err := e.Recover(t.Context(), &superstep.RecoverOptions{Place: []string{"nowhere"}}); err != nil || len(taken) > 0 {
		t.Errorf("a worker takes %d runs, %v", len(taken), err)
	}
}

// Workers take the runs of higher priority first; of one priority, workflows and keys take turns.
func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		run := func(_ context.Context, task string) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, task)
			return nil
		}
		e := engine(t, runlog.NewMemory(nil), named(t, "many", run), named(t, "few", run))
		queue := func(name, task string, q *runlog.Queue) {
			enqueue(t, e, name, task, &superstep.StartOptions{ID: task, Queue: q})
			time.Sleep(time.Millisecond)
		}
		for n := range 4 {
			queue("many", fmt.Sprint("m", n), nil)
		}
		for n := range 2 {
			queue("few", fmt.Sprint("f", n), nil)
		}
		queue("many", "k0", &runlog.Queue{Key: "k"})
		queue("few", "first", &runlog.Queue{Priority: 1})
		queue("few", "last", &runlog.Queue{Priority: 1, NotBefore: time.Now().Add(time.Hour)})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Serve(ctx, &superstep.RecoverOptions{Runs: 1})
		}()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		ran := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(order)
		}
		if got, want := ran(), []string{"first", "m0", "f0", "k0", "m1", "f1", "m2", "m3"}; !slices.Equal(got, want) {
			t.Errorf("they ran as %v, want %v", got, want)
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if got := ran(); got[len(got)-1] != "last" {
			t.Errorf("the last one ran never: %v", got)
		}
		stop()
		<-done
	})
}

// Never more runs of a key execute at once than its limit allows, whatever workers do, and all of them are executed.
func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs, limit = 60, 2
		var mu sync.Mutex
		now, most, ran := 0, 0, 0
		all := make(chan struct{})
		run := func(context.Context, string) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			now--
			if ran++; ran == runs {
				close(all)
			}
			return nil
		}
		store := runlog.NewMemory(nil)
		w := named(t, "job", run)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for n := range 4 {
			e := engine(t, store, w)
			if n == 0 {
				for i := range runs {
					enqueue(t, e, "job", fmt.Sprint(i), &superstep.StartOptions{Queue: &runlog.Queue{Key: "k", Limit: limit}})
				}
			}
			wg.Go(func() {
				_ = e.Serve(ctx, &superstep.RecoverOptions{Runs: 8, Failed: func(id string, err error) { t.Error(id, err) }})
			})
		}
		select {
		case <-all:
		case <-time.After(time.Hour):
			t.Errorf("after an hour %d runs ran", ran)
		}
		stop()
		wg.Wait()
		if most != limit {
			t.Errorf("%d ran at once, want %d", most, limit)
		}
	})
}

// A run that began queued and waits for an answer is queued again by the answer, so that a worker continues it.
func TestAnsweredIsQueued(t *testing.T) {
	r := &rig{second: asksWhich}
	store := runlogtest.NewMortal()
	e := engine(t, store, r.workflow(t))
	enqueue(t, e, "job", "x", &superstep.StartOptions{ID: "q"})
	taken, err := e.Recover(t.Context(), nil)
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	out := ends(t, taken[0], runlog.Paused)
	if err := e.Answer(t.Context(), "q", out.Open[0].Path, &runlog.Answer{Key: out.Open[0].Key, Value: json.RawMessage(`"A"`)}); err != nil {
		t.Fatal(err)
	}
	if got := info(t, e, "q"); got.Status != runlog.Queued || got.Queue() == nil {
		t.Errorf("it is %+v", got)
	}
	if taken, err = e.Recover(t.Context(), nil); err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	ends(t, taken[0], runlog.Completed)
}

// A worker that looks once leaves word why it has not taken a run, until the next one starts.
func TestRecoverTells(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	done := func(context.Context, string) error { return nil }
	enqueue(t, engine(t, store, named(t, "there", done), named(t, "gone", done)), "gone", "x", nil)
	workers := func(want int) []unlisted.Worker {
		t.Helper()
		all, err := unlisted.Workers(t.Context(), store)
		if err != nil || len(all) != want {
			t.Fatalf("the workers are %+v, %v", all, err)
		}
		return all
	}
	for range 2 {
		if taken, err := engine(t, store, named(t, "there", done)).Recover(t.Context(), &superstep.RecoverOptions{Place: []string{"gpu"}}); err != nil || len(taken) > 0 {
			t.Fatal(taken, err)
		}
		all := workers(1)
		if labels, why := unlisted.Lacking(all, "1", "gone", nil); !all[0].Left || labels != nil || !strings.Contains(why, "gone") {
			t.Errorf("it is %+v: %q, %q", all[0], labels, why)
		}
		if labels, why := unlisted.Lacking(all, "1", "there", []string{"gpu"}); len(labels) != 1 || why != "" {
			t.Errorf("a run that nobody has looked at: %q, %q", labels, why)
		}
	}
	taken, err := engine(t, store, named(t, "there", done), named(t, "gone", done)).Recover(t.Context(), nil)
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	ends(t, taken[0], runlog.Completed)
}

// A worker tells which runs it does not take, as long as it serves.
func TestServeTells(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	done := func(context.Context, string) error { return nil }
	both := engine(t, store, named(t, "there", done), named(t, "gone", done))
	enqueue(t, both, "gone", "x", nil)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	e := engine(t, store, named(t, "there", done))
	go func() { served <- e.Serve(ctx, &superstep.RecoverOptions{Place: []string{"gpu"}}) }()
	var all []unlisted.Worker
	for len(all) != 1 || all[0].Skips["gone"] == "" {
		var err error
		if all, err = unlisted.Workers(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if !all[0].Has([]string{"gpu"}) || all[0].Has([]string{"acp"}) {
		t.Errorf("the worker is %+v", all[0])
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if all, err := unlisted.Workers(t.Context(), store); err != nil || len(all) > 0 {
		t.Errorf("a worker that has stopped is listed: %+v, %v", all, err)
	}
}

// A worker releases a run that only waits for a date, and takes it again then. It does not release one that soon continues, or that works besides.
func TestReleased(t *testing.T) {
	for _, tc := range []struct {
		name     string
		wait     time.Duration
		busy     bool
		released bool
	}{{"an hour", time.Hour, false, true}, {"soon", 20 * time.Second, false, false}, {"beside work", time.Hour, true, false}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := graph.New("job", func(_, u string) string { return u })
				g.AddNode(node.Wait("wait", agent.Clock{Now: time.Now, After: time.After}, func(string) (time.Duration, error) { return tc.wait, nil },
					func(string) (string, error) { return "waited", nil }))
				g.Edge(graph.Start, "wait")
				g.Edge("wait", graph.End)
				if tc.busy {
					g.Add("work", func(ctx context.Context, s string) (string, error) { time.Sleep(2 * time.Hour); return s, nil })
					g.Edge(graph.Start, "work")
					g.Edge("work", graph.End)
				}
				flow, err := g.Compile()
				if err != nil {
					t.Fatal(err)
				}
				w, err := workflow.New("job", "A job.", flow, func(in job) (string, error) { return in.Task, nil }, func(s string) (string, error) { return s, nil })
				if err != nil {
					t.Fatal(err)
				}
				e := engine(t, runlog.NewMemory(nil), w)
				begun := time.Now()
				enqueue(t, e, "job", "x", &superstep.StartOptions{ID: "r", Queue: &runlog.Queue{Priority: 3}})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan superstep.Outcome, 3)
				served := make(chan error)
				go func() {
					served <- e.Serve(ctx, &superstep.RecoverOptions{Ended: func(_ string, out superstep.Outcome) { ended <- out }})
				}()
				out := <-ended
				if tc.released {
					if got := time.Since(begun); out.Status != runlog.Queued || got > 10*time.Second {
						t.Fatalf("after %v it is %s (%v)", got, out.Status, out.Err)
					}
					synctest.Wait()
					i := info(t, e, "r")
					if q := i.Queue(); i.Status != runlog.Queued || i.Owner != "" || q == nil || q.Priority != 3 || q.NotBefore.Sub(begun).Round(time.Second) != tc.wait || e.Load().Executing != 0 {
						t.Fatalf("it is %+v, %+v", i, q)
					}
					out = <-ended
				}
				want := tc.wait
				if tc.busy {
					want = 2 * time.Hour
				}
				if got := time.Since(begun); out.Status != runlog.Completed || got < want || got > want+10*time.Second {
					t.Errorf("it ended after %v as %s (%v)", got, out.Status, out.Err)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
				e.Close()
			})
		})
	}
}

// slowToList takes two seconds to list all runs that wait.
type slowToList struct{ runlog.Store }

func (s slowToList) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	if f != nil && len(f.Status) == 3 && f.ID == "" {
		time.Sleep(2 * time.Second)
	}
	return s.Store.Runs(ctx, f)
}

// A run whose worker crashed before it began it is still queued, below newer ones. Another worker finds it soon after the hold has ended.
func TestTakenButNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowToList{runlog.NewMemory(nil)}
		e := engine(t, store, named(t, "job", func(context.Context, string) error { return nil }))
		begin := time.Now()
		enqueue(t, e, "job", "x", &superstep.StartOptions{ID: "old"})
		for n := range 100 {
			time.Sleep(time.Millisecond)
			enqueue(t, e, "job", "x", &superstep.StartOptions{ID: fmt.Sprint("n", n), Queue: &runlog.Queue{NotBefore: begin.Add(time.Hour)}})
		}
		if _, _, err := store.Acquire(t.Context(), "old", nil); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var after time.Duration
		if err := e.Serve(ctx, &superstep.RecoverOptions{Taken: func(string) { after = time.Since(begin); stop() }}); err != nil {
			t.Fatal(err)
		}
		if after < 15*time.Second || after > 22*time.Second {
			t.Errorf("it was taken after %s, want 15 to 22 seconds", after)
		}
		e.Close()
	})
}

// A worker that cannot execute one run says so of that run, not of all runs of its workflow, and no longer once that run has ended.
func TestSkipsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := runlog.NewMemory(nil)
		for _, version := range []string{"2", "1"} {
			if _, err := engine(t, store, versioned(t, version)).Enqueue(t.Context(), "versioned", nil, &superstep.StartOptions{ID: "v-" + version}); err != nil {
				t.Fatal(err)
			}
		}
		e, err := superstep.New(store, &superstep.Options{Restore: func(_ string, raw json.RawMessage) (*workflow.Workflow, error) {
			if string(raw) == `"2"` {
				return nil, errors.New("it is newer")
			}
			return restored(t, raw)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		ctx, stop := context.WithCancel(t.Context())
		var served sync.WaitGroup
		served.Go(func() {
			if err := e.Serve(ctx, nil); err != nil {
				t.Error(err)
			}
		})
		lacking := func(id string) bool {
			workers, err := unlisted.Workers(t.Context(), store)
			if err != nil || len(workers) != 1 {
				t.Fatal(workers, err)
			}
			_, why := unlisted.Lacking(workers, id, "versioned", nil)
			return why != ""
		}
		time.Sleep(10 * time.Second)
		if !lacking("v-2") || lacking("v-1") || info(t, e, "v-1").Status != runlog.Paused {
			t.Errorf("v-2 has a worker: %t, v-1: %t and is %s", !lacking("v-2"), !lacking("v-1"), info(t, e, "v-1").Status)
		}
		if err := e.Cancel(t.Context(), "v-2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if lacking("v-2") {
			t.Error("a run that was cancelled is still named")
		}
		stop()
		served.Wait()
	})
}
