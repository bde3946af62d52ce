//go:build unix

package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A store in memory ends with its process, so what dies here is the process's hold on the
// store: before an append or right after it. Then another goes on.
func TestCrashInMemory(t *testing.T) {
	t.Parallel()
	rnd, seed := faults.Rand(t)
	begin, deaths, runs := time.Now(), faults.N(1000), 0
	ends := map[crash.Job]string{}
	store := runlogtest.NewMortal()
	for died := 0; died < deaths; runs++ {
		job := crash.Job{Width: 2 + rnd.IntN(3), Rounds: 1 + rnd.IntN(3), Pad: 6000 * rnd.IntN(2)}
		w := newWitness(fmt.Sprintf("r-%d", runs), job, &crash.Files{Dir: t.TempDir()})
		var last schedule
		for lives, id := 0, ""; ; lives++ {
			if lives > 20 {
				t.Fatalf("seed %d, run %d does not end: %q", seed, runs, last)
			}
			if lives < 5 && died < deaths {
				store.DieAt(rnd.IntN(60), rnd.IntN(2) == 0)
			}
			e := engine(t, &crash.Observed{Store: store, Acked: func(id string, recs []runlog.Record) {
				for i := range recs {
					w.ack(&recs[i])
				}
			}}, w.world, &superstep.Options{NewID: func() string { return w.id }})
			answer := crash.Answers(w.id, w.world, false)
			var run *superstep.Run
			var err error
			if id == "" {
				run, err = e.Start(t.Context(), crash.Name, inputs(job), &superstep.StartOptions{Answer: answer})
			} else {
				run, err = e.Resume(t.Context(), id, &superstep.ResumeOptions{Answer: answer, Quarantined: lives > runlog.MaxTakeovers})
			}
			var out superstep.Outcome
			if err == nil {
				if out, err = run.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			e.Close()
			if store.Dead() {
				died++
			} else if err != nil {
				t.Fatalf("seed %d, run %d, %q: %v", seed, runs, last, err)
			}
			last = append(last, fmt.Sprintf("life %d: %s", lives, out.Status))
			store.Revive()
			recs, err := w.look(store)
			if err != nil {
				t.Fatalf("seed %d, run %d, %q: %v", seed, runs, last, err)
			}
			if len(recs) == 0 { // it died before there was anything
				if err := store.Delete(t.Context(), w.id); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if id = w.id; out.Status != runlog.Completed {
				continue
			}
			job.Pad = 0
			if ends[job] == "" {
				ends[job] = oracle(t, job)
			}
			if recs, err = w.end(store, ends[job]); err != nil {
				t.Fatalf("seed %d, run %d, %q: %v", seed, runs, last, err)
			}
			replays(t, engine(t, store, still{}, nil), w.id, recs)
			break
		}
	}
	faults.Report(t, "death of the process", "memory", deaths, begin, "%d runs ended as undisturbed, all replayed; 0 acknowledged records lost, 0 doubled, 0 effects repeated", runs)
}
