//go:build unix

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

var errDead = errors.New("the process died")

// A mortal store is one whose process dies after some appends: it writes nothing more, and lets go of nothing.
type mortal struct {
	runlog.Store
	left atomic.Int32
}

func (s *mortal) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := s.Store.Acquire(ctx, id, opt)
	if err != nil {
		return nil, info, err
	}
	return &mortalLog{l, s}, info, nil
}

type mortalLog struct {
	runlog.Log
	s *mortal
}

func (l *mortalLog) Append(ctx context.Context, b *runlog.Batch) error {
	if l.s.left.Add(-1) < 0 {
		return errDead
	}
	return l.Log.Append(ctx, b)
}

func (l *mortalLog) Release(ctx context.Context) error {
	if l.s.left.Load() < 0 {
		return errDead
	}
	return l.Log.Release(ctx)
}

// On every store a vertex program that dies at each of its appends in turn ends as one that never does.
func TestVertices(t *testing.T) {
	t.Parallel()
	w, err := workflow.Vertices("spread", "A wave around a ring.", func(context.Context, struct{}) (*workflow.Computation[int32, struct{}, int32, int], error) {
		const n = 5000
		var ring vertex.EdgeList[struct{}]
		for v := range int32(n) {
			ring.Add(v, (v+1)%n)
			ring.Add(v, (v*7+3)%n)
		}
		g, err := ring.Build(n)
		return &workflow.Computation[int32, struct{}, int32, int]{Graph: g, Entries: []int32{0}, Program: &vertex.Program[int32, struct{}, int32]{
			Combine: vertex.CombineMin[int32](),
			Compute: func(c *vertex.Context[int32, struct{}, int32], _ int32, depth *int32, _ []int32) vertex.Vote {
				if *depth == 0 {
					*depth = int32(c.Step()) + 1
					c.SendToNeighbors(1)
				}
				return vertex.Halt
			}}, Result: func(r *vertex.Run[int32, struct{}, int32]) (sum int, err error) {
			for v, depth := range r.Values() {
				sum = (sum*31 + v + int(depth)) % 1_000_003
			}
			return sum, nil
		}}, err
	}, &workflow.VerticesOptions{Every: 3})
	if err != nil {
		t.Fatal(err)
	}
	open := func(t *testing.T, s runlog.Store) *superstep.Engine {
		e, err := superstep.New(s, &superstep.Options{Workflows: workflow.Set{w}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	memory := open(t, runlog.NewMemory(nil))
	defer memory.Close()
	run, err := memory.Start(t.Context(), "spread", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := run.Wait(t.Context())
	if err != nil || want.Status != runlog.Completed {
		t.Fatalf("got %+v, %v", want, err)
	}
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			url := b.open(t).url
			deaths := 0
			for life := int32(2); ; life++ { // each run dies once; the first append makes it
				died, out := once(t, open, url, b.lease, fmt.Sprintf("run-%d", life), life)
				if out.Status != runlog.Completed || string(out.Output) != string(want.Output) {
					t.Fatalf("after append %d it is %s with %s, %v; want %s", life, out.Status, out.Output, out.Err, want.Output)
				}
				if !died {
					break
				}
				deaths++
			}
			if deaths < 10 {
				t.Errorf("only %d deaths", deaths)
			}
		})
	}
}

// once starts a run whose process dies after some appends, and resumes it with another.
func once(t *testing.T, open func(*testing.T, runlog.Store) *superstep.Engine, url string, lease time.Duration, id string, appends int32) (died bool, out superstep.Outcome) {
	t.Helper()
	s, err := crash.Open(t.Context(), url, &crash.StoreOptions{Lease: lease, Owner: "first"})
	if err != nil {
		t.Fatal(err)
	}
	dying := &mortal{Store: s}
	dying.left.Store(appends)
	e := open(t, dying)
	run, err := e.Start(t.Context(), "spread", nil, &superstep.StartOptions{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	out, err = run.Wait(t.Context())
	died = dying.left.Load() < 0
	e.Close()
	if cerr := s.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if !died {
		return false, out
	}
	if s, err = crash.Open(t.Context(), url, &crash.StoreOptions{Lease: lease, Owner: "second"}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e = open(t, s)
	defer e.Close()
	for busy := new(*runlog.BusyError); ; { // until the lease of the first ends
		if run, err = e.Resume(t.Context(), id, nil); !errors.As(err, busy) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err = run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return true, out
}
