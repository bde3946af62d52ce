package file

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

func kilobyte() runlog.Record {
	return runlog.Record{
		Kind: runlog.KindTaskDone, Path: "plan/search", Time: time.Unix(1e9, 0),
		Data: json.RawMessage(`{"x":"` + strings.Repeat("x", 1016) + `"}`),
	}
}

// BenchmarkAppend compares a durable append of one record of 1 KB with the least that a
// file can do: a write of as many bytes to its end, and fdatasync. The two take turns, so
// that both see the same disk; the ratio is of their medians.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	s := openTest(b, filepath.Join(dir, "store"), nil)
	l := create(b, s, "r")
	bare, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	rec := kilobyte()
	rec.Seq = 1
	frame, _, err := runlog.AppendFrame(nil, runlog.FrameHash{}, &rec)
	if err != nil {
		b.Fatal(err)
	}
	var least, ours []time.Duration
	for b.Loop() {
		t0 := time.Now()
		_, err := bare.Write(frame)
		if err == nil {
			err = dataSync(bare)
		}
		t1 := time.Now()
		if err == nil {
			err = l.Append(context.Background(), &runlog.Batch{Records: []runlog.Record{rec}})
		}
		if err != nil {
			b.Fatal(err)
		}
		least, ours = append(least, t1.Sub(t0)), append(ours, time.Since(t1))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(least).Nanoseconds())/1000, "bare-µs")
	b.ReportMetric(float64(median(ours).Nanoseconds())/1000, "append-µs")
	b.ReportMetric(float64(median(ours))/float64(median(least)), "ratio")
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := openTest(b, b.TempDir(), nil)
		logs := manyRuns(b, s, 1000)
		b.StartTimer()
		var wg sync.WaitGroup
		for _, l := range logs {
			wg.Go(func() {
				for range 10 {
					if err := l.Append(context.Background(), &runlog.Batch{Records: []runlog.Record{kilobyte()}}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}

func manyRuns(b *testing.B, s *Store, n int) []runlog.Log {
	b.Helper()
	logs := make([]runlog.Log, n)
	for i := range logs {
		var err error
		logs[i], _, err = s.Acquire(context.Background(), fmt.Sprintf("run-%06d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t"}})
		if err == nil {
			err = logs[i].Append(context.Background(), &runlog.Batch{Records: []runlog.Record{kilobyte()}})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return logs
}

// BenchmarkRuns lists 10,000 runs: that nobody holds, for the first time in a store that was
// just opened and again, and that the store holds itself.
func BenchmarkRuns(b *testing.B) {
	dir := fastDir(b) // listing reads no disk, making so many runs would
	s, err := Open(b.Context(), dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	manyRuns(b, s, 10_000)
	list := func(b *testing.B, s *Store) {
		infos, err := s.Runs(b.Context(), nil)
		if err != nil || len(infos) != 10_000 {
			b.Fatalf("%d runs, error %v", len(infos), err)
		}
	}
	b.Run("held", func(b *testing.B) {
		for b.Loop() {
			list(b, s)
		}
	})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s, err := Open(b.Context(), dir, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			list(b, s)
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("again", func(b *testing.B) {
		s := openTest(b, dir, nil)
		for b.Loop() {
			list(b, s)
		}
	})
}

// BenchmarkResume takes up a run of 1,000 records of 1 KB with a snapshot near its end, and
// reads from that on.
func BenchmarkResume(b *testing.B) {
	s := openTest(b, b.TempDir(), nil)
	l := create(b, s, "r")
	for i := range 1000 {
		rec := kilobyte()
		if i == 950 {
			rec.Kind = runlog.KindSnapshot
		}
		if err := l.Append(b.Context(), &runlog.Batch{Records: []runlog.Record{rec}}); err != nil {
			b.Fatal(err)
		}
	}
	release(b, l)
	sizes, err := s.Sizes(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, info := acquire(b, s, "r")
		if recs, err := s.Read(b.Context(), "r", info.Snapshot, 0); err != nil || len(recs) != 50 {
			b.Fatalf("%d records, error %v", len(recs), err)
		}
		b.StopTimer()
		release(b, l)
		b.StartTimer()
	}
	b.ReportMetric(float64(sizes["r"]), "bytes/run")
}

// BenchmarkRead reads a run of 1,000 records of 1 KB.
func BenchmarkRead(b *testing.B) {
	s := openTest(b, b.TempDir(), nil)
	l := create(b, s, "r")
	for range 10 {
		batch := &runlog.Batch{}
		for range 100 {
			batch.Records = append(batch.Records, kilobyte())
		}
		if err := l.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if recs, err := s.Read(b.Context(), "r", 1, 0); err != nil || len(recs) != 1000 {
			b.Fatalf("%d records, error %v", len(recs), err)
		}
	}
}

func median(ds []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}
