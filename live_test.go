package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// twoEngines are those of two processes, over one store.
func twoEngines(t *testing.T, w *workflow.Workflow) (e, other *superstep.Engine) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no sockets")
	}
	dir, err := os.MkdirTemp("", "live") //nolint:usetesting // t.TempDir may be too long a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	store := runlog.NewMemory(nil)
	var engines []*superstep.Engine
	for range 2 {
		e, err := superstep.New(store, &superstep.Options{
			Workflows: workflow.Set{w}, Sockets: func(id string) []string { return []string{filepath.Join(dir, "live", id+"-0123456.sock")} },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		engines = append(engines, e)
	}
	return engines[0], engines[1]
}

// What a task says live is seen by the follower of another engine before the task has ended.
func TestFollowElsewhere(t *testing.T) {
	t.Parallel()
	var r rig
	release := make(chan struct{})
	r.second = func(ctx context.Context, g *graph.Task) (string, error) {
		for {
			g.Scope().Live("text", map[string]string{"text": "word"})
			select {
			case <-release:
				return "2", nil
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	e, other := twoEngines(t, r.workflow(t))
	run, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"a"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-r.entered
	var seqs []uint64
	words := 0
	for rec, err := range other.Follow(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Seq != 0 {
			seqs = append(seqs, rec.Seq)
			continue
		}
		if words++; words == 3 { // it has not ended
			close(release)
		}
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed {
		t.Fatalf("%+v, %v", out, err)
	}
	var want []uint64
	for rec, err := range e.Follow(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, rec.Seq)
	}
	if !slices.Equal(seqs, want) || words < 3 {
		t.Errorf("records %v and %d words, want %v", seqs, words, want)
	}
}

// Who asks for a run of another process to be cancelled has it look at once, and not when it next renews its lease.
func TestCancelElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	var r rig
	r.second = func(ctx context.Context, _ *graph.Task) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	e, other := twoEngines(t, r.workflow(t))
	run, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"a"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-r.entered
	start := time.Now()
	if err := other.Cancel(t.Context(), run.ID()); err != nil {
		t.Fatal(err)
	}
	out, err := run.Wait(t.Context())
	if err != nil || out.Status != runlog.Cancelled || !errors.Is(out.Err, journal.ErrCancelRequested) {
		t.Fatalf("%+v, %v", out, err)
	}
	if took := time.Since(start); took > faults.Bound(1500*time.Millisecond) { // a lease is renewed every 2 s
		t.Errorf("cancelled after %v", took)
	}
}

// A follower of another process holds up neither the end of a run nor Close.
func TestCloseWithFollower(t *testing.T) {
	t.Parallel()
	var r rig
	r.second = func(ctx context.Context, _ *graph.Task) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	e, other := twoEngines(t, r.workflow(t))
	run, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"a"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-r.entered
	stalled, free, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		seen := false
		for range other.Follow(context.WithoutCancel(t.Context()), run.ID(), 0) {
			if !seen {
				close(stalled)
				<-free
				seen = true
			}
		}
	}()
	<-stalled
	start := time.Now()
	e.Close()
	if took := time.Since(start); took > faults.Bound(3*time.Second) {
		t.Errorf("Close took %v", took)
	}
	close(free)
	<-ended
}

// An answer reaches a run of another process within 250 ms in 95 of 100 cases; the test allows four times that.
func TestAnswerElsewhereSoon(t *testing.T) {
	t.Parallel()
	r := &rig{second: asksWhich}
	here, there := twoEngines(t, r.workflow(t))
	var took []time.Duration
	for range 20 {
		asked := make(chan struct{})
		run := start(t, here, &superstep.StartOptions{Answer: func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) {
			close(asked)
			<-ctx.Done()
			return nil, false
		}})
		<-asked
		begun := time.Now()
		if err := there.Answer(t.Context(), run.ID(), "second", answered("x")); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begun))
		if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	slices.Sort(took)
	t.Logf("answers took p50 %v, p95 %v", took[10], took[18])
	if took[18] > faults.Bound(time.Second) {
		t.Errorf("p95 is %v, want 250ms", took[18])
	}
}
