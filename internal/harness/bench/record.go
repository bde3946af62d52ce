package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Who a record is of: the engine, or what the machine does without one.
const (
	ours = "superstep"
	bare = "bare"
)

// A record is one measured case. Its JSON is the format in which other engines are
// measured too. Times are milliseconds, one for each repetition.
type record struct {
	Peer   string             `json:"peer"`
	WL     string             `json:"wl"`
	Case   string             `json:"case"`
	N      int                `json:"n"` // units of work in one repetition: steps, branches, runs, events
	WallMs []float64          `json:"wall_ms"`
	CPUMs  []float64          `json:"cpu_ms,omitempty"` // of the process, where that is known
	MedMs  float64            `json:"med_ms"`
	MinMs  float64            `json:"min_ms"`
	MaxMs  float64            `json:"max_ms"`
	UsPerN float64            `json:"us_per_n"`
	Allocs float64            `json:"allocs_per_n,omitempty"`
	Bytes  float64            `json:"bytes_per_n,omitempty"`
	Extra  map[string]float64 `json:"extra,omitempty"`
	Note   string             `json:"note,omitempty"`

	series series
}

// A series is the same work at several sizes.
type series struct {
	name string  // "" for none
	size float64 // of this case
	// grows is the exponent that the work is meant to have in the size: 1 if the size
	// is the number of units, 0 if a unit should cost the same at every size.
	grows float64
}

// A job is a case to be measured.
type job struct {
	peer   string // defaults to ours
	wl     string
	name   string
	n      int  // units of work in one repetition
	reps   int  // defaults to those of the suite
	cold   bool // the first repetition counts
	series series
	// do is one repetition. It may start the stopwatch again after it has made ready,
	// and stop it before it cleans up.
	do    func(*stopwatch) error
	after func(*record) // fills in further figures; defaults to nothing
}

// A suite measures jobs.
type suite struct {
	ctx     context.Context
	reps    int
	quick   bool
	agents  []string // the programs in peers that W9 measures too
	program string   // of this command, which serves the model of W9 in a process of its own; "" serves it in this one
	maxK    int      // the widest fan
	dir     string   // where stores are made
	emit    func(*record)
}

// together measures jobs that are to be compared. The jobs alternate, so that changes in the load of the machine affect all of them alike.
func (s *suite) together(jobs ...job) {
	recs := make([]*record, len(jobs))
	most := 0
	for i := range jobs {
		j := &jobs[i]
		j.peer, j.reps = cmp.Or(j.peer, ours), cmp.Or(j.reps, s.reps)
		most = max(most, j.reps)
		recs[i] = &record{Peer: j.peer, WL: j.wl, Case: j.name, N: j.n, Extra: map[string]float64{}, series: j.series}
		if !j.cold {
			recs[i].fail(j.do(&stopwatch{}))
		}
	}
	for rep := range most {
		for i := range jobs {
			if rep < jobs[i].reps && recs[i].Note == "" {
				recs[i].measure(jobs[i].do)
			}
		}
	}
	for i, r := range recs {
		if jobs[i].after != nil && len(r.WallMs) > 0 {
			jobs[i].after(r)
		}
		r.sum()
		s.emit(r)
	}
}

// fail says of a workload that it could not be made ready.
func (s *suite) fail(wl, name string, err error) {
	r := &record{Peer: ours, WL: wl, Case: name}
	r.fail(err)
	s.emit(r)
}

func (r *record) fail(err error) {
	if err != nil {
		r.Note = fmt.Sprintf("error: %.300v", err)
	}
}

func (r *record) measure(do func(*stopwatch) error) {
	runtime.GC()
	var w stopwatch
	w.start()
	err := do(&w)
	w.stop()
	if err != nil {
		r.fail(err)
		return
	}
	r.WallMs = append(r.WallMs, float64(w.wall.Nanoseconds())/1e6)
	if w.cpu > 0 {
		r.CPUMs = append(r.CPUMs, float64(w.cpu.Nanoseconds())/1e6)
	}
	r.Allocs, r.Bytes = float64(w.allocs)/float64(r.N), float64(w.bytes)/float64(r.N)
}

func (r *record) sum() {
	if len(r.WallMs) == 0 {
		return
	}
	r.MedMs = median(r.WallMs)
	r.MinMs, r.MaxMs = slices.Min(r.WallMs), slices.Max(r.WallMs)
	r.UsPerN = r.MedMs * 1000 / float64(max(1, r.N))
}

func (r *record) spread() float64 {
	if r.MedMs == 0 {
		return 0
	}
	return (r.MaxMs - r.MinMs) / r.MedMs
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// percentile returns the value below which that share of the values lies. It sorts them.
func percentile(v []float64, share float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(len(v)-1, int(share*float64(len(v))))]
}

// A stopwatch measures time and allocations.
type stopwatch struct {
	began   time.Time
	used    time.Duration // of the processor, by the process
	mem     runtime.MemStats
	running bool

	wall, cpu     time.Duration
	allocs, bytes uint64
}

// start begins, or begins anew: what was before does not count.
func (w *stopwatch) start() {
	runtime.ReadMemStats(&w.mem)
	w.running = true
	w.used = processor()
	w.began = time.Now()
}

// stop ends. A second call does nothing.
func (w *stopwatch) stop() {
	if !w.running {
		return
	}
	w.wall, w.cpu, w.running = time.Since(w.began), processor()-w.used, false
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	w.allocs, w.bytes = now.Mallocs-w.mem.Mallocs, now.TotalAlloc-w.mem.TotalAlloc
}

// set has a repetition take what another process has measured.
func (w *stopwatch) set(wall, cpu time.Duration) {
	w.running = false
	w.wall, w.cpu, w.allocs, w.bytes = wall, cpu, 0, 0
}

// heapBytes returns what is alive.
func heapBytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
