//go:build unix

package crash_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// stopping is a world that has the run stopped in the middle of its nth effect, which
// happens nevertheless.
type stopping struct {
	crash.Files
	mu   sync.Mutex
	left int
	stop context.CancelFunc
}

func (w *stopping) Do(a *crash.Act) error {
	w.mu.Lock()
	w.left--
	if w.left == 0 {
		w.stop()
		time.Sleep(time.Millisecond)
	}
	w.mu.Unlock()
	return w.Files.Do(a)
}

// A run that is stopped in the middle of an effect knows afterwards what came of it:
// nothing is asked about it, and it does not happen again.
func TestCrashOfStop(t *testing.T) {
	t.Parallel()
	begin, stops := time.Now(), 0
	job := crash.Job{Width: 2, Rounds: 1}
	want := oracle(t, job)
	for n := 1; ; n++ {
		store := runlog.NewMemory(nil)
		ctx, stop := context.WithCancel(t.Context())
		world := &stopping{Files: crash.Files{Dir: t.TempDir()}, left: n, stop: stop}
		e := engine(t, store, world, nil)
		w := newWitness("", job, &world.Files)
		named := make(chan struct{}) // closed once the run has its ID
		answer := func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
			<-named
			if strings.HasPrefix(q.Key, "unknown:") {
				t.Errorf("stopped in effect %d, it asks %s %q", n, q.Path, q.Text)
			}
			return crash.Answers(w.id, world, false)(ctx, q)
		}
		run, err := e.Start(ctx, crash.Name, inputs(job), &superstep.StartOptions{Answer: answer})
		if err != nil {
			t.Fatal(err)
		}
		w.id = run.ID()
		close(named)
		out, err := run.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stopped := ctx.Err() != nil
		stop()
		if stopped {
			stops++
			if _, err := w.look(store); err != nil {
				t.Fatalf("stopped in effect %d: %v", n, err)
			}
			run, err := e.Resume(t.Context(), w.id, &superstep.ResumeOptions{Answer: answer})
			if err != nil {
				t.Fatal(err)
			}
			if out, err = run.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if out.Status != runlog.Completed {
			t.Fatalf("stopped in effect %d, it ended %+v", n, out)
		}
		if _, err := w.end(store, want); err != nil {
			t.Fatalf("stopped in effect %d: %v", n, err)
		}
		e.Close()
		if !stopped {
			break
		}
	}
	if stops < 10 {
		t.Errorf("only %d effects were stopped", stops)
	}
	faults.Report(t, "stop in an effect", "memory", stops, begin, "0 outcomes lost, 0 effects repeated, nothing asked")
}

// A frame that its writer could not have written at its place is damage.
func TestCrashFrames(t *testing.T) {
	t.Parallel()
	frames := func(epochs ...uint64) (out [][]byte) {
		var hash runlog.FrameHash
		for i, epoch := range epochs {
			r := runlog.Record{Seq: uint64(i + 1), Epoch: epoch, Time: time.Unix(1, 0), Kind: runlog.KindEvent}
			frame, next, err := runlog.AppendFrame(nil, hash, &r)
			if err != nil {
				t.Fatal(err)
			}
			out, hash = append(out, frame), next
		}
		return out
	}
	for _, c := range []struct {
		name   string
		frames [][]byte
		good   int
	}{
		{"one after the other", frames(1, 1, 3), 3},
		{"of a stale writer", frames(1, 2, 1), 2},
	} {
		chain := runlog.NewChain("r", 1)
		var corrupt *runlog.CorruptError
		for i, frame := range c.frames {
			_, err := chain.Next(frame)
			if (err == nil) != (i < c.good) || err != nil && !errors.As(err, &corrupt) {
				t.Errorf("%s: frame %d: %v", c.name, i+1, err)
			}
		}
	}
}
