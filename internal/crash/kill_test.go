//go:build unix

package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// Workers are killed with SIGKILL, half of them at random and half at each failpoint, and
// others go on. Nothing that was acknowledged is lost, nothing that was finished happens
// again, and every run ends as one that was not disturbed. It can be replayed. Every third run is a script.
func TestCrashOfWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) { newKiller(t, b).kill(faults.N(1000), nil) })
}

// Servers are killed with SIGKILL and started again while workers are running, of which
// half are killed at the same moment.
func TestCrashOfServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		if b.serve == nil {
			t.Skip("it has no server")
		}
		own := *b
		own.open = b.serve
		k := newKiller(t, &own)
		k.kill(faults.N(100), k.place.kill)
	})
}

// killer kills the workers of one store.
type killer struct {
	*testing.T
	b     *backend
	place *place
	store crash.Store
	world *crash.Files
	rand  *rand.Rand
	seed  uint64

	took    time.Duration  // of a run that nothing disturbs
	points  []string       // those to die at, in turn
	hits    map[string]int // how often such a run reaches each
	reached map[string]int // how often one was deadly
	kills   int
	runs    int
	lifted  int // runs that were quarantined
	unknown int // effects that may happen once and of which nobody knew whether they had
	ends    map[crash.Job]string
	last    schedule // of the run that is under way, for reports
}

// segment is so small that a run of files has several.
const segment = "30000"

// schedule is what was done to a run.
type schedule []string

func newKiller(t *testing.T, b *backend) *killer {
	k := &killer{T: t, b: b, place: b.open(t), world: &crash.Files{Dir: t.TempDir(), Slow: 2 * time.Millisecond},
		hits: map[string]int{}, reached: map[string]int{}, ends: map[crash.Job]string{}}
	k.rand, k.seed = faults.Rand(t)
	k.store = k.place.open(t, nil)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, commit %s, run %d, schedule %q", k.seed, commit(), k.runs, k.last)
		}
	})
	k.measure()
	return k
}

// measure runs without a disturbance, to know how long that takes and what it passes.
func (k *killer) measure() {
	job := crash.Job{Width: 3, Rounds: 2, Pad: 6000}
	k.took = time.Minute
	for i := range 3 {
		w := newWitness(fmt.Sprintf("calm-%d", i), job, k.world)
		begin := time.Now()
		p := k.start(w.id, job, nil)
		if killed, err := p.wait(); killed || err != nil || p.ended() != runlog.Completed {
			k.Fatalf("the undisturbed run: killed %v, ended %q, %v", killed, p.ended(), err)
		}
		k.took = min(k.took, time.Since(begin))
		for _, l := range p.lines {
			if l.what == "reached" {
				k.hits[l.args[0]] = int(atoi(l.args[1]))
			}
		}
		k.hear(w, p)
		k.finish(w)
	}
	k.points = slices.Concat(journalPoints, k.b.points)
	for _, name := range k.points {
		if k.hits[name] == 0 {
			k.Errorf("a run does not reach %s; it reaches %q", name, slices.Sorted(maps.Keys(k.hits)))
		}
	}
}

func (k *killer) start(id string, job crash.Job, more []string) *process {
	in, _ := json.Marshal(job)
	args := []string{"-store", k.place.url, "-world", k.world.Dir, "-slow", k.world.Slow.String(), "-run", id, "-job", string(in), "-lease", k.b.lease.String(), "-segment", segment}
	return start(k.T, nil, append(args, more...)...)
}

func (k *killer) hear(w *witness, p *process) {
	for _, l := range p.lines {
		if err := w.hear(l); err != nil {
			k.Fatalf("run %s: %v", w.id, err)
		}
	}
}

// kill breaks runs until so many workers were killed. If server is not nil it is called
// while a worker is running, and kills what that depends on.
func (k *killer) kill(kills int, server func()) {
	begin := time.Now()
	for k.kills < kills && !k.Failed() {
		k.runs++
		job := crash.Job{Width: 2 + k.rand.IntN(3), Rounds: 1 + k.rand.IntN(3), Pad: 6000 * k.rand.IntN(2), Script: k.runs%3 == 2}
		k.run(newWitness(fmt.Sprintf("r-%d", k.runs), job, k.world), min(1+k.rand.IntN(5), kills-k.kills), server)
	}
	for _, name := range k.points {
		if k.reached[name] == 0 && server == nil && kills >= 4*len(k.points) {
			k.Errorf("nobody died at %s", name)
		}
	}
	fault := "kill -9 of the worker"
	if server != nil {
		fault = "kill -9 of the server"
	}
	faults.Report(k, fault, k.b.name, k.kills, begin, "%d runs ended as undisturbed, all replayed; 0 acknowledged records lost, 0 doubled, 0 effects repeated; %d effects of unknown outcome asked about, %d quarantines", k.runs, k.unknown, k.lifted)
}

// run breaks one run some times and then lets it end.
func (k *killer) run(w *witness, times int, server func()) {
	k.last = nil
	for try := 0; !k.Failed(); try++ {
		if try > 100 {
			k.Fatalf("run %s does not end: %q", w.id, k.last)
		}
		args := k.lift(w.id)
		how, after := "", time.Duration(0)
		switch {
		case times <= 0:
		case server != nil || k.rand.IntN(2) == 0:
			after = 1 + time.Duration(k.rand.Int64N(int64(k.took*5/4)))
			how = fmt.Sprint("after ", after)
		default:
			point := k.rarest()
			how = fmt.Sprintf("%s:%d", point, 1+k.rand.IntN(k.hits[point]*(1+k.rand.IntN(4))/4+1))
			args = append(args, "-die", how)
		}
		switch k.rand.IntN(6) {
		case 0:
			args = append(args, "-leave")
		case 1:
			args = append(args, "-early")
		}
		k.last = append(k.last, fmt.Sprint(how, args))
		if k.once(w, after, server, args) {
			return
		}
		if how != "" && (server != nil || k.last[len(k.last)-1] == "killed") {
			times--
		}
	}
}

// rarest is a point at which few have died so far.
func (k *killer) rarest() string {
	at := k.rand.IntN(len(k.points))
	points := slices.Concat(k.points[at:], k.points[:at])
	return slices.MinFunc(points, func(a, b string) int { return k.reached[a] - k.reached[b] })
}

// once lets one worker work, and reports whether the run has ended.
func (k *killer) once(w *witness, after time.Duration, server func(), args []string) bool {
	p := k.start(w.id, w.job, args)
	if after > 0 {
		hit := make(chan struct{})
		both := k.rand.IntN(2) == 0
		timer := time.AfterFunc(after, func() {
			defer close(hit)
			if server == nil || both {
				_ = p.cmd.Process.Kill()
			}
			if server != nil {
				server()
			}
		})
		defer func() {
			if !timer.Stop() {
				<-hit
			}
		}()
	}
	killed, err := p.wait()
	if server != nil && after > 0 {
		k.kills++
	}
	if err != nil && server == nil {
		k.Fatalf("run %s: %v", w.id, err)
	}
	k.hear(w, p)
	if killed {
		if server == nil {
			k.kills++
		}
		for i, a := range args {
			if a == "-die" {
				k.reached[pointOf(args[i+1])]++
			}
		}
		k.last = append(k.last, "killed")
	}
	if !killed && err == nil && p.ended() == runlog.Completed {
		k.finish(w)
		return true
	}
	if !killed && err == nil && p.ended() != runlog.Paused && server == nil {
		k.Fatalf("run %s ended %s: %+v", w.id, p.ended(), p.lines[len(p.lines)-1])
	}
	var missing *runlog.NotFoundError
	if _, err := w.look(k.store); err != nil && !(errors.As(err, &missing) && len(w.acked) == 0) {
		k.Fatalf("run %s: %v", w.id, err)
	}
	return false
}

func pointOf(die string) string {
	for i := range die {
		if die[i] == ':' {
			return die[:i]
		}
	}
	return die
}

// lift gives what a worker needs to take a run up that is quarantined, after it was
// seen that others cannot, and nothing for another run.
func (k *killer) lift(id string) (args []string) {
	ctx := context.Background()
	infos, err := k.store.Runs(ctx, &runlog.Filter{ID: id})
	for give := time.Now().Add(time.Minute); err == nil && len(infos) > 0 && infos[0].Status == runlog.Running; {
		if k.b.lease == 0 || time.Now().After(give) {
			k.Fatalf("run %s reads running, and nobody runs it: %+v", id, infos[0])
		}
		time.Sleep(5 * time.Millisecond)
		infos, err = k.store.Runs(ctx, &runlog.Filter{ID: id})
	}
	if err != nil {
		k.Fatal(err)
	}
	if len(infos) == 0 || infos[0].Status != runlog.Quarantined {
		return nil
	}
	k.lifted++
	if infos[0].Takeovers != runlog.MaxTakeovers {
		k.Fatalf("run %s is quarantined after %d takeovers", id, infos[0].Takeovers)
	}
	e := engine(k.T, k.store, still{}, nil)
	if _, err := e.Resume(ctx, id, nil); !errors.As(err, new(*runlog.QuarantinedError)) {
		k.Fatalf("run %s is quarantined, and resuming it gives %v", id, err)
	}
	return []string{"-quarantined"}
}

// finish looks at a run that has ended, and replays it.
func (k *killer) finish(w *witness) {
	job := w.job
	job.Pad = 0
	if k.ends[job] == "" {
		k.ends[job] = oracle(k.T, job)
	}
	recs, err := w.end(k.store, k.ends[job])
	if err != nil {
		k.Fatalf("run %s: %v", w.id, err)
	}
	for i := range recs {
		if recs[i].Kind == runlog.KindAsked && bytes.Contains(recs[i].Data, []byte(`"key":"unknown:`)) {
			k.unknown++
		}
	}
	replays(k.T, engine(k.T, k.store, still{}, nil), w.id, recs)
}

// replays replays a run from its log, without a world.
func replays(t *testing.T, e *superstep.Engine, id string, recs []runlog.Record) {
	t.Helper()
	records := len(recs)
	r, err := e.Replay(context.Background(), id, &superstep.ReplayOptions{Wait: 20 * time.Second})
	if err != nil {
		t.Fatalf("replaying run %s: %v", id, err)
	}
	if r.Diverged != nil || r.Records != records {
		t.Fatalf("replaying run %s: %d of %d records, diverged: %v\n%s", id, r.Records, records, r.Diverged, outline(recs))
	}
}

// outline is a log in a line per record.
func outline(recs []runlog.Record) string {
	var b strings.Builder
	for i := range recs {
		var d struct {
			Key, Error string
		}
		_ = json.Unmarshal(recs[i].Data, &d)
		fmt.Fprintf(&b, "%d %d %s %s %s %s\n", recs[i].Seq, recs[i].Epoch, recs[i].Kind, recs[i].Path, d.Key, d.Error)
	}
	return b.String()
}
