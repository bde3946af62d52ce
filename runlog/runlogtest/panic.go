package runlogtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// Panics checks what a store does if something panics in one of its writes, which appends of
// several runs share: it acknowledges nothing that is not stored, stores nothing twice, and goes
// on to work for who acquires the runs again. Open opens an empty store with that failpoint;
// points name those at which a caller of the store may find itself.
func Panics(t *testing.T, open func(t *testing.T, failpoint func(name string)) runlog.Store, points ...string) {
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			var armed atomic.Int32
			f := &fixture{T: t}
			f.store = open(t, func(name string) {
				if name == point && armed.Add(-1) == 0 {
					panic(name)
				}
			})
			var logs []runlog.Log
			for i := range 3 {
				logs = append(logs, f.create(fmt.Sprint("run", i)))
			}
			armed.Store(20)
			panicked := f.appendMuch(logs)
			if panicked != 1 {
				t.Errorf("it panicked %d times", panicked)
			}
			for i, l := range logs {
				f.ok(l.Release(t.Context()))
				l, _ := f.acquire(fmt.Sprint("run", i))
				f.append(l, &runlog.Batch{Records: records(1)})
			}
		})
	}
}

// appendMuch appends to logs from several goroutines each, until that fails, compares what is
// stored with what was acknowledged, and counts the panics.
func (f *fixture) appendMuch(logs []runlog.Log) (panicked int32) {
	const writers, each = 3, 40
	var n atomic.Int32
	var wg sync.WaitGroup
	var acked [3][writers]int
	for i, l := range logs {
		for w := range writers {
			wg.Go(func() {
				defer func() {
					if recover() != nil {
						n.Add(1)
					}
				}()
				for k := range each {
					r := record(k)
					r.Path = fmt.Sprint(w, "-", k)
					if err := l.Append(f.Context(), &runlog.Batch{Records: []runlog.Record{r}}); err != nil {
						return
					}
					acked[i][w]++
				}
			})
		}
	}
	wg.Wait()
	for i := range logs {
		id := fmt.Sprint("run", i)
		there := map[string]int{}
		for _, r := range f.read(id, 1, 1000) {
			there[r.Path]++
		}
		for w := range writers {
			for k := range each {
				if got := there[fmt.Sprint(w, "-", k)]; got > 1 || got == 0 && k < acked[i][w] {
					f.Errorf("%s: record %d of writer %d, who has %d acknowledged, is stored %d times", id, k, w, acked[i][w], got)
				}
			}
		}
	}
	return n.Load()
}
