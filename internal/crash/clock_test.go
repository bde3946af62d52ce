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
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// A clock that somebody keeps setting.
type clock struct{ off atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

func (c *clock) set(d time.Duration) { c.off.Store(int64(d)) }

// Before each record the clocks of two processes jump by a day to and fro, while the one
// runs and the other tries to take the run away. No step is lost, none begins early, none
// is done twice, and a run that is under way stays with its holder where the store does
// not go by clocks of processes.
func TestCrashOfClock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		rnd, seed := faults.Rand(t)
		p := b.open(t)
		var clocks [2]clock
		var stores [2]crash.Store
		for i := range stores {
			stores[i] = p.open(t, &crash.StoreOptions{Now: clocks[i].now, Lease: 2 * time.Second})
		}
		begin, jumps, taken := time.Now(), 0, 0
		ends := map[crash.Job]string{}
		runs := max(faults.N(100), 4)
		for n := range runs {
			job := crash.Job{Width: 2 + rnd.IntN(2), Rounds: 1 + rnd.IntN(2), Pad: 6000 * rnd.IntN(2)}
			w := newWitness(fmt.Sprintf("r-%d", n), job, &crash.Files{Dir: t.TempDir(), Slow: time.Millisecond})
			w.doubt = true
			x := &jumping{T: t, w: w, clocks: &clocks, days: [3]int{-1, 0, 1}, next: n}
			took, err := x.run(stores)
			if err != nil {
				t.Fatalf("seed %d, commit %s, run %d, after %d jumps: %v", seed, commit(), n, x.jumps, err)
			}
			if taken += took; job.Pad > 0 {
				job.Pad = 0
			}
			if ends[job] == "" {
				ends[job] = oracle(t, job)
			}
			if _, err := w.end(stores[0], ends[job]); err != nil {
				t.Fatalf("seed %d, commit %s, run %d, after %d jumps: %v", seed, commit(), n, x.jumps, err)
			}
			jumps += x.jumps
		}
		faults.Report(t, "clock jumps of a day", b.name, jumps, begin, "%d runs, two processes with clocks that differ by up to two days; 0 steps lost, early or doubled; %d runs changed hands", runs, taken)
	})
}

// jumping is one run under clocks that jump.
type jumping struct {
	*testing.T
	w      *witness
	clocks *[2]clock
	days   [3]int
	next   int
	jumps  int
}

// jump sets the clocks, to another pair of days each time.
func (x *jumping) jump() {
	x.jumps++
	x.next++
	for i, n := range []int{x.next, x.next / 3} {
		x.clocks[i].set(time.Duration(x.days[n%3]) * 24 * time.Hour)
	}
}

// run runs it in the one process while the other wants it, and gives how often it got it.
func (x *jumping) run(stores [2]crash.Store) (taken int, err error) {
	var engines [2]*superstep.Engine
	for i := range engines {
		seen := &crash.Observed{Store: stores[i], Acked: func(_ string, recs []runlog.Record) {
			for k := range recs {
				x.w.ack(&recs[k])
			}
			if i == 0 {
				x.jump()
			}
		}}
		engines[i] = engine(x.T, seen, x.w.world, &superstep.Options{Now: x.clocks[i].now, NewID: func() string { return x.w.id }})
		defer engines[i].Close()
	}
	answer := crash.Answers(x.w.id, x.w.world, true)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	run, err := engines[0].Start(ctx, crash.Name, inputs(x.w.job), &superstep.StartOptions{Answer: answer})
	if err != nil {
		return 0, err
	}
	rival := func() error {
		run, err := engines[1].Resume(ctx, x.w.id, &superstep.ResumeOptions{Answer: answer})
		if errors.As(err, new(*runlog.BusyError)) || errors.As(err, new(*runlog.QuarantinedError)) {
			return nil
		}
		if err == nil {
			var out superstep.Outcome
			if out, err = run.Wait(ctx); out.Status == runlog.Failed {
				err = out.Err
			}
		}
		return err
	}
	done := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				done <- nil
				return
			case <-time.After(5 * time.Millisecond):
				if err := rival(); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	out, err := run.Wait(ctx)
	close(over)
	if err := errors.Join(err, <-done); err != nil {
		return 0, err
	}
	for out.Status != runlog.Completed { // it was taken away
		taken++
		if taken > 20 {
			return taken, fmt.Errorf("the run ended %s: %w", out.Status, out.Err)
		}
		x.jump()
		run, err := engines[0].Resume(ctx, x.w.id, &superstep.ResumeOptions{Answer: answer, Quarantined: true})
		if errors.As(err, new(*runlog.BusyError)) {
			continue
		}
		if err != nil {
			return taken, err
		}
		if out, err = run.Wait(ctx); err != nil {
			return taken, err
		}
	}
	return taken, nil
}
