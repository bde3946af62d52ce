package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
)

func kilobyte() runlog.Record {
	return runlog.Record{
		Kind: runlog.KindTaskDone, Path: "plan/search", Time: time.Unix(1e9, 0),
		Data: json.RawMessage(`{"x":"` + strings.Repeat("x", 1016) + `"}`),
	}
}

// BenchmarkAppend compares an append of one record of 1 KB with the least that a server
// can do: a SET of as many bytes, by the same client. The two take turns, so that both see the same
// server and disk; the ratio is of their medians. Without a disk, what is left is the work.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name string
		opt  []string
	}{
		{"always", []string{"appendonly yes"}},
		{"everysec", []string{"appendonly yes", "appendfsync everysec"}},
		{"none", nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := openTest(b, redisserver.Start(b, c.opt...).URL(), &Options{AllowVolatile: true})
			l := create(b, s, "r")
			rec := kilobyte()
			rec.Seq = 1
			frame, _, err := runlog.AppendFrame(nil, runlog.FrameHash{}, &rec)
			if err != nil {
				b.Fatal(err)
			}
			var bare, ours []time.Duration
			for b.Loop() {
				t0 := time.Now()
				_, err := s.client.do(context.Background(), "SET", "{bare}", frame)
				t1 := time.Now()
				if err == nil {
					err = l.Append(context.Background(), &runlog.Batch{Records: []runlog.Record{rec}})
				}
				if err != nil {
					b.Fatal(err)
				}
				bare, ours = append(bare, t1.Sub(t0)), append(ours, time.Since(t1))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(median(bare).Nanoseconds())/1000, "bare-µs")
			b.ReportMetric(float64(median(ours).Nanoseconds())/1000, "append-µs")
			b.ReportMetric(float64(median(ours))/float64(median(bare)), "ratio")
		})
	}
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	srv := durable(b)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		s := openTest(b, srv.URL(), &Options{Prefix: fmt.Sprintf("many-%d", i)})
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

func manyRuns(tb testing.TB, s *Store, n int) []runlog.Log {
	tb.Helper()
	logs := make([]runlog.Log, n)
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			var err error
			logs[i], _, err = s.Acquire(context.Background(), fmt.Sprintf("run-%06d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t"}})
			if err == nil {
				err = logs[i].Append(context.Background(), &runlog.Batch{Records: []runlog.Record{kilobyte()}})
			}
			if err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
	return logs
}

// BenchmarkRuns lists 10,000 runs.
func BenchmarkRuns(b *testing.B) {
	s := openTest(b, durable(b).URL(), nil)
	manyRuns(b, s, 10_000)
	for b.Loop() {
		infos, err := s.Runs(b.Context(), nil)
		if err != nil || len(infos) != 10_000 {
			b.Fatalf("%d runs, error %v", len(infos), err)
		}
	}
}

// BenchmarkRead reads a run of 1,000 records of 1 KB.
func BenchmarkRead(b *testing.B) {
	s := openTest(b, durable(b).URL(), nil)
	l := create(b, s, "r")
	batch := &runlog.Batch{}
	for range 1000 {
		batch.Records = append(batch.Records, kilobyte())
	}
	if err := l.Append(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if recs, err := s.Read(b.Context(), "r", 1, 0); err != nil || len(recs) != 1000 {
			b.Fatalf("%d records, error %v", len(recs), err)
		}
	}
}

// BenchmarkBytes tells what 1,000 appends of 1 KB take in the server's memory and in its file.
func BenchmarkBytes(b *testing.B) {
	srv := durable(b)
	s := openTest(b, srv.URL(), nil)
	c := raw(b, srv)
	for i := 0; b.Loop(); i++ {
		before := appendedBytes(b, srv)
		l := create(b, s, fmt.Sprintf("r-%d", i))
		for range 1000 {
			if err := l.Append(b.Context(), &runlog.Batch{Records: []runlog.Record{kilobyte()}}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(appendedBytes(b, srv)-before), "file-bytes")
	}
	b.ReportMetric(float64(c("MEMORY", "USAGE", s.keys.log("r-0"), "SAMPLES", 0).(int64)), "memory-bytes")
}

func median(ds []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}
