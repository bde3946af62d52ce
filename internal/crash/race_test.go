//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// Eight workers run whatever nobody runs, on one store. Some are stopped for longer than
// their lease and go on, as if nothing had happened; others are killed. Each step of each
// run is committed once, and what a dead or hanging worker held is soon another's.
func TestCrashRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		runs, stops := faults.N(1000), faults.N(500)
		if !faults.Full() { // so many on all stores together
			runs, stops = max(runs/len(backends()), 1), max(stops/len(backends()), 3)
		}
		r := newRace(t, b)
		begin := time.Now()
		r.seed(min(runs, 20)) // more come as these end: a run that is to be taken over must not queue behind a thousand
		for i := range r.workers {
			r.start(i)
		}
		stopped, killed := r.disturb(stops)
		r.seed(max(runs-len(r.runs), 0))
		r.finish()
		p99, worst := r.takeovers()
		faults.Report(t, "race of 8 workers", b.name, len(r.runs), begin,
			"%d SIGSTOPs past the lease, %d kills; 0 steps committed twice, 0 lost; %d takeovers at the latest %s after the lease (p99 %s, lease %s, limit %s)",
			stopped, killed, len(r.took), worst, p99, raceLease, raceLimit)
		if p99 > faults.Bound(raceLimit) {
			t.Errorf("takeovers took up to %s after the lease", worst)
		}
	})
}

const (
	raceLease = time.Second     // of the workers; 15 s by default
	raceLimit = 5 * time.Second // for the 99th percentile of takeovers, from the end of the lease on
)

type race struct {
	*testing.T
	b     *backend
	place *place
	store crash.Store
	world *crash.Files
	rand  *rand.Rand

	mu      sync.Mutex
	workers [8]*racer
	runs    map[string]*witness
	pending map[string]pending // runs whose worker hangs or is dead
	took    []time.Duration
	wrong   error
}

type racer struct {
	*process
	holds map[string]bool // the runs it was last heard to hold
}

type pending struct {
	by    *racer
	since time.Time
}

func newRace(t *testing.T, b *backend) *race {
	r := &race{T: t, b: b, place: b.open(t), world: &crash.Files{Dir: t.TempDir(), Slow: 2 * time.Millisecond}, runs: map[string]*witness{}, pending: map[string]pending{}}
	r.store = r.place.open(t, nil)
	rnd, seed := faults.Rand(t)
	r.rand = rnd
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, commit %s", seed, commit())
		}
	})
	return r
}

// seed makes runs that have just begun.
func (r *race) seed(n int) {
	r.Helper()
	ctx := context.Background()
	for range n {
		job := crash.Job{Width: 2, Rounds: 1 + r.rand.IntN(2), Pad: 6000 * r.rand.IntN(2)}
		w := newWitness(fmt.Sprintf("r-%d", len(r.runs)+1), job, r.world)
		w.doubt = true
		r.mu.Lock()
		r.runs[w.id] = w
		r.mu.Unlock()
		if err := create(ctx, r.store, w.id, job); err != nil {
			r.Fatal(err)
		}
	}
}

func create(ctx context.Context, store runlog.Store, id string, job crash.Job) error {
	l, _, err := store.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: crash.Name}})
	if err != nil {
		return err
	}
	started, err := json.Marshal(runlog.RunStarted{Workflow: crash.Name, Inputs: inputs(job)})
	if err != nil {
		return err
	}
	if err := l.Append(ctx, &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindRunStarted, Time: time.Now().UTC(), Data: started}}}); err != nil {
		return err
	}
	return l.Release(ctx)
}

func (r *race) start(i int) {
	p := &racer{holds: map[string]bool{}}
	r.mu.Lock()
	r.workers[i] = p
	r.mu.Unlock()
	p.process = start(r.T, func(l line) { r.hear(p, l) },
		"-store", r.place.url, "-world", r.world.Dir, "-slow", r.world.Slow.String(), "-lease", raceLease.String())
}

// hear takes note of what one of the workers says.
func (r *race) hear(p *racer, l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	switch l.what {
	case "held":
		id := l.args[0]
		p.holds[id] = true
		if was, is := r.pending[id]; is && was.by != p {
			r.took = append(r.took, time.Since(was.since)-raceLease)
			delete(r.pending, id)
		}
	case "ended":
		delete(p.holds, l.args[0])
		if was, is := r.pending[l.args[0]]; is && was.by == p {
			delete(r.pending, l.args[0])
		}
		if s := runlog.Status(l.args[1]); s == runlog.Failed || s == runlog.Paused || s == runlog.Cancelled {
			err = fmt.Errorf("run %s ended %s", l.args[0], strings.Join(l.args[1:], " "))
		}
	case "acked":
		err = r.runs[l.args[0]].hear(l)
	case "error":
		err = fmt.Errorf("a worker: %s", strings.Join(l.args, " "))
	}
	if err != nil && r.wrong == nil {
		r.wrong = err
	}
}

func (r *race) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrong
}

// disturb stops workers and lets them go on, three at a time, and kills one now and then.
func (r *race) disturb(stops int) (stopped, killed int) {
	for round := 1; stopped < stops && r.failed() == nil; round++ {
		if r.left() < 20 {
			r.seed(20)
		}
		time.Sleep(time.Duration(r.rand.IntN(100)) * time.Millisecond)
		hang := r.rand.Perm(len(r.workers))[:3]
		for _, i := range hang {
			r.hang(r.workers[i], syscall.SIGSTOP)
			stopped++
		}
		dead := -1
		if round%4 == 0 {
			for dead = r.rand.IntN(len(r.workers)); slices.Contains(hang, dead); {
				dead = r.rand.IntN(len(r.workers))
			}
			r.hang(r.workers[dead], syscall.SIGKILL)
			killed++
		}
		time.Sleep(raceLease*3/2 + time.Duration(r.rand.IntN(100))*time.Millisecond)
		for _, i := range hang {
			if err := r.workers[i].cmd.Process.Signal(syscall.SIGCONT); err != nil {
				r.Error(err)
			}
		}
		if dead >= 0 {
			if _, err := r.workers[dead].wait(); err != nil {
				r.Error(err)
			}
			r.start(dead)
		}
	}
	return stopped, killed
}

// hang sends a worker a signal, and remembers what it holds.
func (r *race) hang(p *racer, s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil {
		r.Error(err)
	}
	for id := range p.holds {
		r.pending[id] = pending{p, time.Now()}
	}
}

// left is how many runs nobody has resumed yet.
func (r *race) left() int {
	infos, err := r.store.Runs(context.Background(), &runlog.Filter{Status: []runlog.Status{runlog.Interrupted}})
	if err != nil {
		r.Fatal(err)
	}
	return len(infos)
}

// finish lets the workers do the rest, and looks at every run.
func (r *race) finish() {
	if err := os.WriteFile(filepath.Join(r.world.Dir, "over"), nil, 0o600); err != nil {
		r.Fatal(err)
	}
	for _, p := range r.workers {
		if _, err := p.wait(); err != nil {
			r.Error(err)
		}
	}
	if err := r.failed(); err != nil {
		r.Fatal(err)
	}
	ends := map[crash.Job]string{}
	replayer := engine(r.T, r.store, still{}, nil)
	for id, w := range r.runs {
		job := w.job
		if job.Pad = 0; ends[job] == "" {
			ends[job] = oracle(r.T, job)
		}
		if err := r.lift(w, replayer); err != nil {
			r.Error(err)
			continue
		}
		recs, err := w.end(r.store, ends[job])
		if err != nil {
			r.Errorf("run %s: %v", id, err)
			continue
		}
		replays(r.T, replayer, id, recs)
	}
}

// lift runs a run to its end that is in quarantine, since it was stopped that often.
func (r *race) lift(w *witness, still *superstep.Engine) error {
	_, err := still.Resume(r.Context(), w.id, nil)
	if !errors.As(err, new(*runlog.QuarantinedError)) {
		return err
	}
	run, err := engine(r.T, r.store, w.world, nil).Resume(r.Context(), w.id, &superstep.ResumeOptions{Answer: crash.Answers("", w.world, true), Quarantined: true})
	if err != nil {
		return err
	}
	out, err := run.Wait(r.Context())
	if err == nil && out.Status != runlog.Completed {
		err = fmt.Errorf("run %s was in quarantine, and is %s after that: %w", w.id, out.Status, out.Err)
	}
	return err
}

// takeovers gives the 99th percentile and the worst of them.
func (r *race) takeovers() (p99, worst time.Duration) {
	if len(r.took) == 0 {
		return 0, 0
	}
	slices.Sort(r.took)
	round := func(d time.Duration) time.Duration { return max(d, 0).Round(10 * time.Millisecond) }
	return round(r.took[len(r.took)*99/100]), round(r.took[len(r.took)-1])
}
