//go:build linux

package crash_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// Runs are started, pause, are resumed and end, again and again, on a store that stays
// open and on one that is opened each time. No goroutine and no file is left over. The
// stores follow each other, since what is counted is that of the whole process.
func TestCrashLeaks(t *testing.T) {
	memory := func(testing.TB) *place { return nil }
	for _, b := range append(backends(), backend{name: "memory", open: memory}) {
		t.Run(b.name, func(t *testing.T) {
			p := b.open(t)
			open := func() crash.Store {
				if p == nil {
					return unclosed{runlog.NewMemory(nil)}
				}
				s, err := crash.Open(t.Context(), p.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			kept := open()
			cycle := func(n int) {
				s := kept
				if n%10 == 0 {
					s = open()
				}
				pausing(t, s, fmt.Sprintf("r-%d", n))
				if n%10 == 0 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for n := range 20 {
				cycle(n)
			}
			goroutines, files := counted(t)
			begin, cycles := time.Now(), faults.N(1000)
			for n := range cycles {
				cycle(20 + n)
			}
			nowGoroutines, nowFiles := counted(t)
			faults.Report(t, "run cycles", b.name, cycles, begin, "goroutines %d, then %d; open files %d, then %d", goroutines, nowGoroutines, files, nowFiles)
			if nowGoroutines > goroutines+2 || nowFiles > files+2 {
				buf := make([]byte, 1<<20)
				t.Errorf("goroutines %d, then %d; open files %d, then %d\n%s", goroutines, nowGoroutines, files, nowFiles, buf[:runtime.Stack(buf, true)])
			}
			if err := kept.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

type unclosed struct{ runlog.Store }

func (unclosed) Close() error { return nil }

// pausing runs a run in three executions, of two engines.
func pausing(t *testing.T, s runlog.Store, id string) {
	t.Helper()
	e := engine(t, s, quiet{}, &superstep.Options{NewID: func() string { return id }})
	defer e.Close()
	ctx := t.Context()
	run, err := e.Start(ctx, crash.Name, inputs(crash.Job{Width: 2, Rounds: 1}), nil)
	for err == nil {
		var out superstep.Outcome
		if out, err = run.Wait(ctx); err != nil || out.Status != runlog.Paused {
			if out.Status != runlog.Completed {
				t.Fatalf("run %s: %+v", id, out)
			}
			break
		}
		for _, q := range out.Open {
			a, _ := crash.Answers(id, quiet{}, false)(ctx, q)
			if err := e.Answer(ctx, id, q.Path, a); err != nil {
				t.Fatal(err)
			}
		}
		run, err = e.Resume(ctx, id, nil)
	}
	if err != nil {
		t.Fatalf("run %s: %v", id, err)
	}
}

// counted gives how many goroutines and open files the process has, at its quietest.
func counted(t *testing.T) (goroutines, files int) {
	t.Helper()
	goroutines, files = 1<<30, 1<<30
	for range 20 {
		runtime.GC() // closes what is closed by finalizers
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		goroutines, files = min(goroutines, runtime.NumGoroutine()), min(files, len(entries))
		time.Sleep(10 * time.Millisecond)
	}
	return goroutines, files
}
