package runlogtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// Kilobyte returns a batch of one record of 1 KB.
func Kilobyte() *runlog.Batch {
	return &runlog.Batch{Records: []runlog.Record{{
		Kind: runlog.KindTaskDone, Path: "plan/search", Time: time.Unix(1e9, 0),
		Data: json.RawMessage(`{"x":"` + strings.Repeat("x", 1016) + `"}`),
	}}}
}

// Frame returns the bytes that a log is made of for the record of [Kilobyte].
func Frame(b *testing.B) []byte {
	b.Helper()
	r := Kilobyte().Records[0]
	r.Seq = 1
	frame, _, err := runlog.AppendFrame(nil, runlog.FrameHash{}, &r)
	if err != nil {
		b.Fatal(err)
	}
	return frame
}

// BenchmarkAgainst compares what a store does with the least that what it is made of can do for
// it. The two take turns, so that both see the same disk and server; the ratio is of their medians.
func BenchmarkAgainst(b *testing.B, bare, ours func() error) {
	var theirs, took []time.Duration
	for b.Loop() {
		t0 := time.Now()
		err := bare()
		t1 := time.Now()
		if err == nil {
			err = ours()
		}
		if err != nil {
			b.Fatal(err)
		}
		theirs, took = append(theirs, t1.Sub(t0)), append(took, time.Since(t1))
	}
	median := func(ds []time.Duration) float64 {
		slices.Sort(ds)
		return float64(ds[len(ds)/2].Nanoseconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(theirs)/1000, "bare-µs")
	b.ReportMetric(median(took)/1000, "store-µs")
	b.ReportMetric(median(took)/median(theirs), "ratio")
}

// MakeRuns makes n runs of one record of 1 KB. A hundred at once are under way.
func MakeRuns(b *testing.B, s runlog.Store, n int) []runlog.Log {
	b.Helper()
	logs := make([]runlog.Log, n)
	var wg sync.WaitGroup
	for first := range min(n, 100) {
		wg.Go(func() {
			for i := first; i < n; i += 100 {
				var err error
				logs[i], _, err = s.Acquire(context.Background(), fmt.Sprintf("run-%06d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t"}})
				if err == nil {
					err = logs[i].Append(context.Background(), Kilobyte())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return logs
}

// Steps appends n records of 1 KB to each log, one after the other, to all logs at once.
func Steps(logs []runlog.Log, n int) error {
	errs := make(chan error, len(logs))
	for _, l := range logs {
		go func() {
			var err error
			for i := 0; i < n && err == nil; i++ {
				err = l.Append(context.Background(), Kilobyte())
			}
			errs <- err
		}()
	}
	var failed error
	for range logs {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each. The function open returns
// a new, empty store.
func BenchmarkManyRuns(b *testing.B, open func() runlog.Store) {
	for b.Loop() {
		b.StopTimer()
		logs := MakeRuns(b, open(), 1000)
		b.StartTimer()
		if err := Steps(logs, 10); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRuns lists 10,000 runs.
func BenchmarkRuns(b *testing.B, s runlog.Store) {
	MakeRuns(b, s, 10_000)
	for b.Loop() {
		List(b, s, 10_000)
	}
}

// List lists the n runs of a store.
func List(b *testing.B, s runlog.Store, n int) {
	b.Helper()
	if infos, err := s.Runs(b.Context(), nil); err != nil || len(infos) != n {
		b.Fatalf("%d runs, error %v", len(infos), err)
	}
}

// BenchmarkRead reads a run of 1,000 records of 1 KB, which were appended in batches of that size.
func BenchmarkRead(b *testing.B, s runlog.Store, batch int) {
	l := Create(b, s, "r")
	for range 1000 / batch {
		if err := l.Append(b.Context(), &runlog.Batch{Records: slices.Repeat(Kilobyte().Records, batch)}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if recs, err := s.Read(b.Context(), "r", 1, 0); err != nil || len(recs) != 1000 {
			b.Fatalf("%d records, error %v", len(recs), err)
		}
	}
}
