package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

// dead leaves a run behind whose process died in its second node.
func dead(t *testing.T, m *runlogtest.Mortal) (id string, r *rig) {
	t.Helper()
	r = &rig{second: block}
	e := engine(t, m, r.workflow(t))
	run := start(t, e, nil)
	<-r.entered
	m.Die()
	e.Close()
	m.Revive()
	return run.ID(), r
}

// Runs that a dead process left are resumed by one of those that serve the store, and
// nothing is done twice. Paused runs and those of other workflows are left unchanged.
func TestServe(t *testing.T) {
	m := runlogtest.NewMortal()
	var ids []string
	var firsts []*rig
	for range 5 {
		id, r := dead(t, m)
		ids, firsts = append(ids, id), append(firsts, r)
	}
	other := zflow(t, func(context.Context, *graph.Task, int) (int, error) { return 0, nil })
	paused := &rig{second: asksWhich}
	waits := start(t, engine(t, m, paused.workflow(t)), nil)
	ends(t, waits, runlog.Paused)

	synctestServe(t, m, ids, other)
	for i, r := range firsts {
		if n := r.first.Load(); n != 1 {
			t.Errorf("the first node of run %d ran %d times before", i, n)
		}
	}
	infos, err := m.Runs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		want := runlog.Completed
		if i.ID == waits.ID() {
			want = runlog.Paused
		}
		if i.Status != want {
			t.Errorf("run %s is %s", i.ID, i.Status)
		}
	}
}

// synctestServe has three workers serve a store until all of the runs have ended.
func synctestServe(t *testing.T, store runlog.Store, ids []string, other *workflow.Workflow) {
	t.Helper()
	again := &rig{}
	job := again.workflow(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	ended := map[string]int{}
	all := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 3 {
		ws := []*workflow.Workflow{job}
		if n == 2 {
			ws = []*workflow.Workflow{other} // does not know what there is to do
		}
		e := engine(t, store, ws...)
		wg.Go(func() {
			err := e.Serve(ctx, &superstep.RecoverOptions{Every: time.Millisecond, Runs: 2, Ended: func(id string, out superstep.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				if ended[id]++; len(ended) == len(ids) && ended[id] == 1 {
					close(all)
				}
				if out.Status != runlog.Completed || n == 2 {
					t.Errorf("worker %d: run %s ended as %s (%v)", n, id, out.Status, out.Err)
				}
			}, Failed: func(id string, err error) { t.Errorf("worker %d, run %q: %v", n, id, err) }})
			if err != nil {
				t.Error(err)
			}
		})
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Error("not all runs were resumed")
	}
	stop()
	wg.Wait()
	for _, id := range ids {
		if ended[id] != 1 {
			t.Errorf("run %s was executed %d times", id, ended[id])
		}
	}
	if n := again.first.Load(); n != 0 {
		t.Errorf("the first node ran %d times again", n)
	}
}

// A worker that stops leaves its runs to others.
func TestServeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := runlogtest.NewMortal()
		id, _ := dead(t, m)
		slow := &rig{second: block}
		e := engine(t, m, slow.workflow(t))
		ctx, stop := context.WithCancel(t.Context())
		var out superstep.Outcome
		done := make(chan error)
		go func() {
			done <- e.Serve(ctx, &superstep.RecoverOptions{Ended: func(_ string, o superstep.Outcome) { out = o }})
		}()
		<-slow.entered
		if got := info(t, e, id); got.Status != runlog.Running || got.Takeovers != 0 && got.Takeovers != 1 {
			t.Errorf("while it is executed the run is %+v", got)
		}
		stop()
		if err := <-done; err != nil || out.Status != runlog.Interrupted {
			t.Errorf("Serve gave %v, the run %s", err, out.Status)
		}
		if got := info(t, e, id); got.Status != runlog.Interrupted || got.Takeovers != 0 {
			t.Errorf("the run it left is %+v", got)
		}
		e.Close()
	})
}

// A run whose processes die one after another is left unchanged, and others are not.
func TestQuarantine(t *testing.T) {
	m := runlogtest.NewMortal()
	m.Quarantine = true
	id, r := dead(t, m)
	poison := r.workflow(t)
	for n := 1; n <= runlog.MaxTakeovers; n++ {
		r.once = sync.Once{}
		w := r.workflow(t)
		e := engine(t, m, w)
		taken, err := e.Recover(t.Context(), nil)
		if err != nil || len(taken) != 1 {
			t.Fatalf("takeover %d: %d were taken, %v", n, len(taken), err)
		}
		<-r.entered
		m.Die()
		e.Close()
		m.Revive()
	}
	good, _ := dead(t, m)
	r.second = nil
	e := engine(t, m, poison)
	if got := info(t, e, id); got.Status != runlog.Quarantined {
		t.Fatalf("after %d takeovers it is %s", runlog.MaxTakeovers, got.Status)
	}
	taken, err := e.Recover(t.Context(), nil)
	if err != nil || len(taken) != 1 || taken[0].ID() != good {
		t.Fatalf("%d were taken, %v", len(taken), err)
	}
	ends(t, taken[0], runlog.Completed)
	var q *runlog.QuarantinedError
	if _, err := e.Resume(t.Context(), id, nil); !errors.As(err, &q) {
		t.Fatalf("resuming it gave %v", err)
	}
	ends(t, resume(t, e, id, &superstep.ResumeOptions{Quarantined: true}), runlog.Completed)
}

// fullStore has a full disk from some append on, with or without room for a last word.
type fullStore struct {
	runlog.Store
	left    atomic.Int32 // appends there is room for, negative for any number
	reserve bool
}

type fullLog struct {
	runlog.Log
	s *fullStore
}

func (s *fullStore) Acquire(ctx context.Context, id string, o *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, i, err := s.Store.Acquire(ctx, id, o)
	if err != nil {
		return nil, i, err
	}
	return &fullLog{l, s}, i, nil
}

func (l *fullLog) Append(ctx context.Context, b *runlog.Batch) error {
	if n := l.s.left.Load(); n == 0 && (b.Status != runlog.WaitingStorage || !l.s.reserve) {
		return &runlog.StorageError{Store: "test", Err: syscall.ENOSPC}
	} else if n > 0 {
		l.s.left.Add(-1)
	}
	return l.Log.Append(ctx, b)
}

// A run whose store is full is parked wherever that happens, not failed, and goes on once
// there is room.
func TestFullStore(t *testing.T) {
	undisturbed := &rig{}
	base := engine(t, runlog.NewMemory(nil), undisturbed.workflow(t))
	whole := start(t, base, nil)
	want := ends(t, whole, runlog.Completed)
	appends := 0
	for range kinds2(t, base, whole.ID()) {
		appends++
	}
	for _, reserve := range []bool{true, false} {
		for n := range appends {
			t.Run(fmt.Sprintf("reserve=%t/%d", reserve, n), func(t *testing.T) {
				s := &fullStore{Store: runlog.NewMemory(nil), reserve: reserve}
				s.left.Store(int32(n))
				r := &rig{}
				e := engine(t, s, r.workflow(t))
				run, err := e.Start(t.Context(), "job", []byte(`{"task":"a  b"}`), nil)
				var full *runlog.StorageError
				if n == 0 {
					left, lerr := e.Runs(t.Context(), nil)
					if !errors.As(err, &full) || lerr != nil || len(left) != 0 {
						t.Fatalf("a run that could not begin gave %v and left %v", err, left)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				out, err := run.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if out.Status == runlog.Completed { // there was room for all of it
					return
				}
				status := runlog.Interrupted
				if reserve {
					status = runlog.WaitingStorage
				}
				if out.Status != status || !errors.As(out.Err, &full) || info(t, e, run.ID()).Status != status {
					t.Fatalf("it ended as %s (%v), listed %s", out.Status, out.Err, info(t, e, run.ID()).Status)
				}
				taken, err := e.Recover(t.Context(), nil) // there is still no room
				if err != nil {
					t.Fatal(err)
				}
				for _, again := range taken {
					if out, _ := again.Wait(t.Context()); out.Status != status {
						t.Fatalf("resumed too early it ended as %s", out.Status)
					}
				}
				s.left.Store(-1)
				got := ends(t, resume(t, e, run.ID(), nil), runlog.Completed)
				if string(got.Output) != string(want.Output) || r.first.Load() > 2 {
					t.Errorf("it ended with %s, want %s; the first node ran %d times", got.Output, want.Output, r.first.Load())
				}
			})
		}
	}
}

func kinds2(t *testing.T, e *superstep.Engine, id string) (out []runlog.Kind) {
	t.Helper()
	for r, err := range e.Follow(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Kind)
	}
	return out
}

// What is kept of a store: whatever is not over, the newest, the recent, and the parents of all of them.
func TestPrune(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: func() time.Time { return now }})
	e, err := superstep.New(store, &superstep.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	add := func(id, workflow, parent string, s runlog.Status) {
		l, _, err := store.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: workflow, Parent: parent}})
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Status: s})
		}
		if err == nil {
			err = l.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
	}
	add("root", "a", "", runlog.Completed)
	add("paused", "a", "", runlog.Paused)
	add("stuck", "a", "", runlog.Running) // interrupted
	add("full", "a", "", runlog.WaitingStorage)
	add("failed", "a", "", runlog.Failed)
	add("mid", "a", "root", runlog.Cancelled)
	add("b1", "b", "", runlog.Completed)
	add("b2", "b", "", runlog.Partial)
	add("lone", "a", "gone", runlog.Completed)
	add("leaf", "a", "mid", runlog.Completed)
	for _, c := range []struct {
		keep superstep.Retention
		want []string
	}{
		{superstep.Retention{Newest: 1}, []string{"lone", "b1", "failed"}},
		{superstep.Retention{Newest: 2}, []string{"failed"}},
		{superstep.Retention{Newest: 1, Workflow: "b"}, []string{"b1"}},
		{superstep.Retention{Within: 3 * time.Hour}, []string{"b1", "failed"}},
		{superstep.Retention{Within: time.Minute}, []string{"leaf", "lone", "b2", "b1", "mid", "failed", "root"}},
		{superstep.Retention{Within: time.Minute, Newest: 1}, []string{"lone", "b1", "failed"}},
		{superstep.Retention{Within: 100 * time.Hour}, nil},
	} {
		c.keep.Dry = true
		got, err := e.Prune(t.Context(), c.keep)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range got {
			ids = append(ids, got[i].ID)
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%+v removes %q, want %q", c.keep, ids, c.want)
		}
	}
	if _, err := e.Prune(t.Context(), superstep.Retention{}); !errors.Is(err, superstep.ErrKeepsNothing) {
		t.Errorf("keeping nothing gave %v", err)
	}
	if got, err := e.Prune(t.Context(), superstep.Retention{Newest: 1}); err != nil || len(got) != 3 {
		t.Errorf("%d were removed, %v", len(got), err)
	}
	left, err := e.Runs(t.Context(), nil)
	if err != nil || len(left) != 7 {
		t.Errorf("%d are left, %v", len(left), err)
	}
}

// Pruning leaves what runs remember, however old it is, and no run can have the ID of such a log.
func TestPruneLeavesMemory(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: clock})
	ada, err := memory.New(store, &memory.Options{Now: clock}).In("users/ada")
	if err != nil {
		t.Fatal(err)
	}
	if err := ada.Put(t.Context(), "tone", "formal", nil); err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(store, &superstep.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(1000 * time.Hour)
	if _, err := e.Prune(t.Context(), superstep.Retention{Newest: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := memory.Get[string](t.Context(), ada, "tone"); err != nil || got != "formal" {
		t.Errorf("left is %q, %v", got, err)
	}
	logs, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	if err != nil || len(logs) != 1 || !unlisted.Reserved(logs[0].ID) {
		t.Errorf("the logs are %+v, %v", logs, err)
	}
}

// A worker that has another version of a workflow leaves its runs to those that have the
// right one, and says so once.
func TestRecoverLeavesOtherVersions(t *testing.T) {
	m := runlogtest.NewMortal()
	id, r := dead(t, m)
	other := &rig{skip: true} // which is another graph
	e := engine(t, m, other.workflow(t))
	var skipped []error
	opt := &superstep.RecoverOptions{Skipped: func(got string, why error) {
		if got != id {
			t.Errorf("run %s was skipped", got)
		}
		skipped = append(skipped, why)
	}}
	for range 3 {
		taken, err := e.Recover(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range taken {
			ends(t, run, runlog.Interrupted)
		}
	}
	var changed *graph.ChangedError
	if len(skipped) != 1 || !errors.As(skipped[0], &changed) || info(t, e, id).Status != runlog.Interrupted {
		t.Fatalf("skipped %v, listed %s", skipped, info(t, e, id).Status)
	}
	unknown := engine(t, m)
	skipped = nil
	for range 2 {
		if taken, err := unknown.Recover(t.Context(), opt); err != nil || len(taken) > 0 {
			t.Fatalf("%d were taken, %v", len(taken), err)
		}
	}
	if len(skipped) != 1 {
		t.Fatalf("skipped %v", skipped)
	}
	r.second = nil
	taken, err := engine(t, m, r.workflow(t)).Recover(t.Context(), nil)
	if err != nil || len(taken) != 1 {
		t.Fatalf("%d were taken, %v", len(taken), err)
	}
	ends(t, taken[0], runlog.Completed)
}

// While a store is full, a worker does not do the same work over and over.
func TestRecoverBacksOff(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := &fullStore{Store: runlog.NewMemory(nil), reserve: true}
	s.left.Store(3)
	r := &rig{}
	e, err := superstep.New(s, &superstep.Options{Workflows: []*workflow.Workflow{r.workflow(t)}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ends(t, start(t, e, nil), runlog.WaitingStorage)
	looks := 0
	for range 24 * 60 { // a day
		now = now.Add(time.Minute)
		s.left.Store(1)
		taken, err := e.Recover(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range taken {
			looks++
			ends(t, run, runlog.WaitingStorage)
		}
	}
	if looks < 20 || looks > 40 {
		t.Errorf("it was tried %d times in a day", looks)
	}
}

// A run that is quarantined can be cancelled.
func TestCancelQuarantined(t *testing.T) {
	m := runlogtest.NewMortal()
	m.Quarantine = true
	id, r := dead(t, m)
	for range runlog.MaxTakeovers {
		r.once = sync.Once{}
		e := engine(t, m, r.workflow(t))
		resume(t, e, id, nil)
		<-r.entered
		m.Die()
		e.Close()
		m.Revive()
	}
	e := engine(t, m)
	if got := info(t, e, id).Status; got != runlog.Quarantined {
		t.Fatalf("it is %s", got)
	}
	if err := e.Cancel(t.Context(), id); err != nil || info(t, e, id).Status != runlog.Cancelled {
		t.Fatalf("cancelling it gave %v, and it is %s", err, info(t, e, id).Status)
	}
}

// A replay ends where another version of the graph took the run over.
func TestReplayEndsAtTheSeam(t *testing.T) {
	store := runlog.NewMemory(nil)
	first := &rig{second: func(context.Context, *graph.Task) (string, error) { return "", errors.New("not in this version") }}
	old := engine(t, store, first.workflow(t))
	run := start(t, old, nil)
	ends(t, run, runlog.Failed)
	second := &rig{skip: true}
	e := engine(t, store, second.workflow(t))
	ends(t, resume(t, e, run.ID(), &superstep.ResumeOptions{AllowChange: true}), runlog.Completed)
	for _, e := range []*superstep.Engine{old, e} {
		begin := time.Now()
		rep, err := e.Replay(t.Context(), run.ID(), nil)
		if err != nil || rep.Diverged == nil || time.Since(begin) > faults.Bound(20*time.Second) {
			t.Fatalf("after %s the replay gave %+v, %v", time.Since(begin), rep, err)
		}
	}
	rep, _ := old.Replay(t.Context(), run.ID(), nil)
	if rep.Diverged.Why == "" || rep.Records < 4 {
		t.Errorf("the version that began it diverges at %+v after %d records", rep.Diverged, rep.Records)
	}
}

// An engine that resumes a run it was fenced off from executes it twice for a while: the old execution ends on its own, takes
// nothing of the new one with it, and Close waits for both.
func TestResumeOfARunThatWasFencedOffHere(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: now})
	begun, old := make(chan struct{}, 2), make(chan struct{})
	var times atomic.Int64
	e, err := superstep.New(store, &superstep.Options{Now: now, Workflows: []*workflow.Workflow{zflow(t, func(ctx context.Context, _ *graph.Task, _ int) (int, error) {
		begun <- struct{}{}
		if times.Add(1) == 1 {
			<-old // as one that hears of nothing
			return 1, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := e.Start(t.Context(), "z", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	ahead.Store(int64(time.Hour))
	second, err := e.Resume(t.Context(), first.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	close(old)
	if out, err := first.Wait(t.Context()); err != nil || !errors.Is(out.Err, runlog.ErrFenced) {
		t.Errorf("the old execution: %+v, %v", out, err)
	}
	closed := make(chan struct{})
	go func() { e.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close still waits: it has forgotten the new one, or what listens for the old one")
	}
	if out, err := second.Wait(t.Context()); err != nil || out.Status != runlog.Interrupted {
		t.Errorf("the new execution: %+v, %v", out, err)
	}
}
