//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// poolNames are the workflows of queued runs. Their runs are equally many.
var poolNames = []string{"pool-a", "pool-b", "pool-c"}

type poolJob struct {
	ID string `json:"id"`
}

// poolWorkflows have two tasks each; did is called when one begins.
func poolWorkflows(did func(run, task string)) (out []*workflow.Workflow, err error) {
	for _, name := range poolNames {
		g := graph.New(name, func(_, u string) string { return u })
		for _, task := range []string{"one", "two"} {
			g.Add(task, func(_ context.Context, id string) (string, error) {
				did(id, task)
				time.Sleep(5 * time.Millisecond)
				return id, nil
			})
		}
		g.Edge(graph.Start, "one")
		g.Edge("one", "two")
		g.Edge("two", graph.End)
		flow, err := g.Compile()
		if err != nil {
			return nil, err
		}
		w, err := workflow.New(name, "A run of a pool.", flow, func(in poolJob) (string, error) { return in.ID, nil }, func(s string) (string, error) { return s, nil })
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// poolFlows are the workflows of workers; did is called when a task begins.
func poolFlows(did func(run, task string)) ([]*workflow.Workflow, error) {
	flows, err := poolWorkflows(did)
	kin, kerr := family(did)
	return append(flows, kin...), errors.Join(err, kerr)
}

// serve takes queued runs until the process is killed or there is a file "over".
func (w *worker) serve(ctx context.Context) error {
	flows, err := poolFlows(func(run, task string) { w.say("did %s %s %d", run, task, time.Now().UnixNano()) })
	if err != nil {
		return err
	}
	held := func(info *runlog.Info) { w.say("held %s %d", info.ID, time.Now().UnixNano()) }
	e, err := superstep.New(&crash.Observed{Store: w.store, Held: held}, &superstep.Options{Workflows: flows})
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(w.world.Dir + "/over"); err == nil {
				stop()
			}
		}
	}()
	return e.Serve(ctx, &superstep.RecoverOptions{Runs: 16, Every: min(w.lease, 3*time.Second), Failed: func(id string, err error) { w.say("failed %s %v", id, err) }})
}

// A pool is three workers of one store, and what they say.
type pool struct {
	t     *testing.T
	world string
	store crash.Store
	*superstep.Engine
	args []string

	mu     sync.Mutex
	procs  [3]*process
	deaths []death
	began  map[string][]moment // of tasks, by run
	held   map[string][]moment // by run: when workers have taken it
	first  []string            // workflows of the runs, in the order in which they began
	names  map[string]string   // the workflow of a run
}

// A moment is when a worker has begun a task, or taken a run.
type moment struct {
	task   string
	worker int
	at     time.Time
}

// A death is when a worker was killed.
type death struct {
	worker   int
	at, gone time.Time // before the signal, and after the end
}

// newPool creates an empty store and an engine of it.
func newPool(t *testing.T, b *backend, lease time.Duration) *pool {
	t.Helper()
	place := b.open(t)
	p := &pool{t: t, world: t.TempDir(), store: place.open(t, nil), began: map[string][]moment{}, held: map[string][]moment{}, names: map[string]string{}}
	p.args = []string{"-pool", "-store", place.url, "-world", p.world, "-lease", lease.String()}
	flows, err := poolFlows(func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	if p.Engine, err = superstep.New(p.store, &superstep.Options{Workflows: flows}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (p *pool) start(n int) {
	p.procs[n] = start(p.t, func(l line) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case l.what == "did" && len(l.args) == 3, l.what == "held" && len(l.args) == 2:
			id, of := l.args[0], p.held
			ns, _ := strconv.ParseInt(l.args[len(l.args)-1], 10, 64)
			m := moment{worker: n, at: time.Unix(0, ns)}
			if l.what == "did" {
				m.task, of = l.args[1], p.began
				if len(of[id]) == 0 {
					p.first = append(p.first, p.names[id])
				}
			}
			of[id] = append(of[id], m)
		case l.what == "failed", l.what == "error":
			p.t.Logf("worker %d: %v", n, l)
		}
	}, p.args...)
}

// startAll starts the workers.
func (p *pool) startAll() {
	for n := range p.procs {
		p.start(n)
	}
}

// restart kills a worker, and starts it again.
func (p *pool) restart(n int) {
	d := death{worker: n, at: time.Now()}
	_ = p.procs[n].cmd.Process.Kill()
	_, _ = p.procs[n].wait()
	d.gone = time.Now()
	p.deaths = append(p.deaths, d)
	p.start(n)
}

// takeovers returns, for each run that a worker held when it was killed, how long it took until a worker held it again. That worker may have been
// killed as well: then the run counts twice. A worker takes interrupted runs before queued ones, so time without free capacity counts.
func (p *pool) takeovers() (took []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, held := range p.held {
		if p.names[id] == "" {
			continue // no run
		}
		slices.SortFunc(held, func(a, b moment) int { return a.at.Compare(b.at) })
		for i := range len(held) - 1 {
			d := slices.IndexFunc(p.deaths, func(d death) bool { return d.worker == held[i].worker && d.gone.After(held[i].at) })
			if d >= 0 && held[i+1].at.After(p.deaths[d].at) {
				took = append(took, held[i+1].at.Sub(p.deaths[d].at))
			}
		}
	}
	slices.Sort(took)
	return took
}

// end stops the workers.
func (p *pool) end() {
	if err := os.WriteFile(p.world+"/over", nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
	for _, proc := range p.procs {
		if _, err := proc.wait(); err != nil {
			p.t.Error(err)
		}
	}
}

// Queued runs are executed by three workers, two of which are killed and started again at random: none is lost, no task whose result was recorded is
// executed again, the workflows get equal shares, and runs of a killed worker continue elsewhere.
func TestCrashPool(t *testing.T) {
	for _, b := range backends() {
		if b.lease == 0 {
			continue // of one machine
		}
		t.Run(b.name, func(t *testing.T) {
			runs, lease := 90, time.Second
			if faults.Full() {
				runs, lease = 10_000, 15*time.Second
			}
			if s := os.Getenv("SUPERSTEP_POOL_RUNS"); s != "" {
				runs, _ = strconv.Atoi(s)
			}
			rnd, _ := faults.Rand(t)
			begin := time.Now()
			p := newPool(t, &b, lease)
			enqueue := func(id, name string) error {
				in, _ := json.Marshal(poolJob{id})
				p.mu.Lock()
				p.names[id] = name
				p.mu.Unlock()
				_, err := p.Enqueue(t.Context(), name, in, &superstep.StartOptions{ID: id})
				return err
			}
			var all sync.WaitGroup
			for k := range 4 {
				all.Go(func() {
					for n := k; n < runs; n += 4 {
						if err := enqueue(fmt.Sprintf("r-%d", n), poolNames[n*len(poolNames)/runs]); err != nil { // one workflow after another
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			queued := time.Since(begin)
			began := time.Now()
			p.startAll()
			left := func() int {
				infos, err := p.store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Queued, runlog.Running, runlog.Interrupted}})
				if err != nil {
					t.Fatal(err)
				}
				return len(infos)
			}
			kills, next := 0, time.Now().Add(time.Second)
			for left() > 0 {
				time.Sleep(100 * time.Millisecond)
				p.mu.Lock()
				due := faults.Full() && time.Now().After(next) || !faults.Full() && kills < 2 && len(p.first) > (kills+1)*runs/4
				p.mu.Unlock()
				if due {
					p.restart(rnd.IntN(2))
					kills++
					next = time.Now().Add(time.Second + time.Duration(rnd.Int64N(int64(4*time.Second))))
				}
			}
			took := time.Since(began)

			twice := 0
			for n := range runs {
				id := fmt.Sprintf("r-%d", n)
				done, finished := map[string]time.Time{}, 0
				for r, err := range runlog.Records(t.Context(), p.store, id, 1) {
					if err != nil {
						t.Fatal(err)
					}
					switch r.Kind {
					case runlog.KindTaskDone:
						if _, had := done[r.Path]; had {
							twice++
						}
						done[r.Path] = r.Time
					case runlog.KindRunFinished:
						finished++
					}
				}
				if finished != 1 || len(done) != 2 {
					t.Errorf("run %s has %d ends and %d results", id, finished, len(done))
				}
				p.mu.Lock()
				for _, m := range p.began[id] {
					if m.at.After(done[m.task].Add(time.Millisecond)) {
						twice++
					}
				}
				p.mu.Unlock()
			}
			if twice > 0 {
				t.Errorf("%d tasks were executed after their result was recorded", twice)
			}
			share := map[string]int{}
			p.mu.Lock()
			half := p.first[:len(p.first)/2]
			for _, name := range half {
				share[name]++
			}
			p.mu.Unlock()
			worst := 0.0
			for _, name := range poolNames {
				worst = max(worst, 100*abs(float64(share[name])*float64(len(poolNames))/float64(len(half))-1))
			}
			if worst > 10 && runs >= 300 {
				t.Errorf("of the first half, the workflows have %v", share)
			}
			takeovers := p.takeovers()
			if most := at(takeovers, .99); most > 20*time.Second {
				t.Errorf("p99 of the takeovers is %v, want 20s", most)
			}

			// At half the load, how long does a run wait?
			rate := max(float64(runs)/took.Seconds()/2, 2)
			given := map[string]time.Time{}
			for n := range min(runs/10+10, int(10*rate)+1) {
				id := fmt.Sprintf("l-%d", n)
				if err := enqueue(id, poolNames[n%len(poolNames)]); err != nil {
					t.Fatal(err)
				}
				given[id] = time.Now()
				time.Sleep(time.Duration(float64(time.Second) / rate))
			}
			for left() > 0 {
				time.Sleep(50 * time.Millisecond)
			}
			p.end()
			var late []time.Duration
			for id, at := range given {
				late = append(late, p.began[id][0].at.Sub(at))
			}
			slices.Sort(late)
			appends := yardstick(t, p.store)
			goal := map[string]time.Duration{"postgres": 300 * time.Millisecond, "redis": 100 * time.Millisecond}[b.name]
			if got := at(late, .95); got > 10*goal && faults.Full() { // else other tests run beside it
				t.Errorf("p95 of the start latency is %v, want %v", got, goal)
			}
			faults.Report(t, "3 workers of a pool, 2 killed at random", b.name, runs, begin,
				"0 lost, %d twice; %d kills, %d taken over, p50 %v p99 %v; worst share %.1f%% off; enqueued %.0f/s, executed %.0f/s; start latency at half load p50 %v p95 %v, an append p50 %v p95 %v",
				twice, kills, len(takeovers), at(takeovers, .5), at(takeovers, .99), worst, float64(runs)/queued.Seconds(), float64(runs)/took.Seconds(), at(late, .5), at(late, .95), at(appends, .5), at(appends, .95))
		})
	}
}

func abs(f float64) float64 { return max(f, -f) }

func at(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond)
}
