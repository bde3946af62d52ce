package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

// A frail store is that of one worker, whose process may die at any write. What it holds then stays held until its lease ends.
type frail struct {
	*runlog.Memory
	began func(id string) // a run has its first record

	mu   sync.Mutex
	left int // writes until the deadly one, negative for none
	dead bool
}

// write does a write, unless the process is dead: it may die before and after.
func (f *frail) write(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return runlogtest.ErrCrash
	}
	f.left--
	if f.dead = f.left == -1 || f.left == -2 && rand.IntN(2) == 0; f.dead && f.left == -1 {
		return runlogtest.ErrCrash
	}
	if err := do(); err != nil || !f.dead {
		return err
	}
	return runlogtest.ErrCrash
}

func (f *frail) dies(after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = after
}

func (f *frail) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (log runlog.Log, info runlog.Info, err error) {
	err = f.write(func() error { log, info, err = f.Memory.Acquire(ctx, id, opt); return err })
	return &frailLog{log, f, info}, info, err
}

type frailLog struct {
	runlog.Log
	f    *frail
	info runlog.Info
}

func (l *frailLog) Append(ctx context.Context, b *runlog.Batch) error {
	return l.f.write(func() error {
		err := l.Log.Append(ctx, b)
		if err == nil && len(b.Records) > 0 && b.Records[0].Kind == runlog.KindRunStarted {
			l.f.began(l.info.ID)
		}
		return err
	})
}

func (l *frailLog) Release(ctx context.Context) error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if l.f.dead {
		return nil
	}
	return l.Log.Release(ctx)
}

// spans are eleven days in which clocks are changed.
var spans = []struct {
	from  string
	zones []string
}{
	{"2026-03-26T00:00:00Z", []string{"Europe/Berlin", "Asia/Beirut", "Australia/Lord_Howe", "UTC", "Antarctica/Troll"}},
	{"2026-10-23T00:00:00Z", []string{"Europe/Berlin", "Asia/Beirut", "America/New_York", "America/Havana", "UTC"}},
}

// Each tick of each schedule has one run, while three workers race for them and are killed at their writes, while their clocks jump, and while daylight
// saving begins and ends.
func TestFaultSchedules(t *testing.T) {
	begin := time.Now()
	rnd, _ := faults.Rand(t)
	count, kills, jumps := faults.N(1000), 0, 0
	w := (&rig{}).workflow(t)
	for _, span := range spans {
		k, j := scheduleSpan(t, rnd, w, span.from, span.zones, max(count/len(spans), 5))
		kills, jumps = kills+k, jumps+j
	}
	faults.Report(t, "schedules", "memory", count, begin, "each of 10 ticks has one run: %d kills, %d jumps of a clock", kills, jumps)
}

func scheduleSpan(t *testing.T, rnd *rand.Rand, w *workflow.Workflow, from string, zones []string, count int) (kills, jumps int) {
	t.Helper()
	truth := clockAt(t, from)
	memory := runlog.NewMemory(&runlog.MemoryOptions{Lease: 100 * time.Millisecond}) // what the dead have held is free soon
	var mu sync.Mutex
	began := map[string]int{}
	type process struct {
		store *frail
		e     *superstep.Engine
		ahead time.Duration // of the true time
	}
	boot := func() *process {
		p := &process{store: &frail{Memory: memory, left: -10, began: func(id string) { mu.Lock(); defer mu.Unlock(); began[id]++ }}}
		p.e = worker(t, p.store, func() time.Time { return truth.now().Add(p.ahead) }, w)
		return p
	}
	workers := []*process{boot(), boot(), boot()}
	for i := range count {
		add(t, workers[0].e, &superstep.Schedule{ID: fmt.Sprintf("s-%d", i), Workflow: "job", Inputs: json.RawMessage(`{"task":"x"}`), CatchUp: "1000h",
			Cron: fmt.Sprintf("%d %d * * *", rnd.IntN(60), rnd.IntN(4)), Zone: zones[i%len(zones)], Jitter: time.Duration(rnd.IntN(3600)) * time.Second,
			Overlap: []string{superstep.OverlapQueue, superstep.OverlapCancel}[i%2]})
	}
	turn := func() {
		var all sync.WaitGroup
		for _, p := range workers {
			all.Go(func() {
				runs, err := p.e.Recover(t.Context(), &superstep.RecoverOptions{Runs: 4})
				if err != nil && !p.store.dead {
					t.Error(err)
				}
				for _, r := range runs {
					_, _ = r.Wait(t.Context())
				}
			})
		}
		all.Wait()
		for i, p := range workers {
			if p.store.dead {
				p.e.Close()
				workers[i] = boot()
				workers[i].ahead = p.ahead
				kills++
			}
		}
	}
	end := truth.now().Add(10*24*time.Hour + 6*time.Hour)
	for truth.now().Before(end) {
		truth.advance(time.Duration(1+rnd.IntN(6)) * time.Hour)
		p := workers[rnd.IntN(3)]
		switch rnd.IntN(4) {
		case 0:
			p.ahead = []time.Duration{-24 * time.Hour, 0, 24 * time.Hour}[rnd.IntN(3)]
			jumps++
		case 1, 2:
			p.store.dies(rnd.IntN(30))
		}
		turn()
	}
	for _, p := range workers {
		p.ahead = 0
		p.store.dies(-10)
	}
	for range 3 { // past what a clock ahead of the others has started
		time.Sleep(100 * time.Millisecond)
		truth.advance(9 * time.Hour)
		turn()
	}
	all, err := workers[0].e.Schedules(t.Context())
	if err != nil || len(all) != count {
		t.Fatalf("%d schedules, %v", len(all), err)
	}
	want := map[string]bool{}
	for _, s := range all {
		first := s
		first.Decided = s.Created
		ticks := first.Upcoming(15)
		ticks = ticks[:slices.IndexFunc(ticks, func(at time.Time) bool { return at.After(s.Decided) })]
		for _, at := range ticks {
			want[s.ID+"-"+at.UTC().Format("20060102t150405z")] = true
		}
		if len(ticks) < 10 || s.Started != len(ticks) || s.Missed+s.Skipped > 0 || !s.Due.After(truth.now()) {
			t.Fatalf("schedule %s (%s in %s) had %d ticks, and its state is %+v", s.ID, s.Cron, s.Zone, len(ticks), s.ScheduleState)
		}
	}
	for id := range want {
		if began[id] != 1 {
			t.Errorf("the run %s was created %d times", id, began[id])
		}
	}
	for id, n := range began {
		if !want[id] {
			t.Errorf("the run %s was created %d times, for no tick", id, n)
		}
	}
	return kills, jumps
}
