package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	zsqlite "zombiezen.com/go/sqlite"
)

func kilobyte() runlog.Record {
	return runlog.Record{
		Kind: runlog.KindTaskDone, Path: "plan/search", Time: time.Unix(1e9, 0),
		Data: json.RawMessage(`{"x":"` + strings.Repeat("x", 1016) + `"}`),
	}
}

// BenchmarkAppend compares a durable append of one record of 1 KB with the least
// that SQLite can do: one row of as many bytes, with the same library and settings.
// The two take turns, so that both see the same disk; the ratio is of their medians.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	s := openTest(b, filepath.Join(dir, "runs.db"), nil)
	l := create(b, s, "r")
	raw(b, filepath.Join(dir, "bare.db"), "PRAGMA journal_mode=WAL")
	raw(b, filepath.Join(dir, "bare.db"), "CREATE TABLE t (pos INTEGER PRIMARY KEY, frame BLOB NOT NULL)")
	c, err := openConn(filepath.Join(dir, "bare.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	rec := kilobyte()
	rec.Seq = 1
	frame, _, err := runlog.AppendFrame(nil, runlog.FrameHash{}, &rec)
	if err != nil {
		b.Fatal(err)
	}
	var bare, ours []time.Duration
	for i := 0; b.Loop(); i++ {
		t0 := time.Now()
		err := c.begin(context.Background())
		if err == nil {
			err = c.exec("INSERT INTO t (pos, frame) VALUES (?1, ?2)", func(st *zsqlite.Stmt) {
				st.BindInt64(1, int64(i))
				st.BindBytes(2, frame)
			})
		}
		if err == nil {
			err = c.commit()
		}
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
	b.ReportMetric(float64(median(bare).Microseconds()), "bare-µs")
	b.ReportMetric(float64(median(ours).Microseconds()), "append-µs")
	b.ReportMetric(float64(median(ours))/float64(median(bare)), "ratio")
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil)
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
	var wg sync.WaitGroup
	for i := range logs {
		wg.Go(func() {
			var err error
			logs[i], _, err = s.Acquire(context.Background(), fmt.Sprintf("run-%06d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t"}})
			if err == nil {
				err = logs[i].Append(context.Background(), &runlog.Batch{Records: []runlog.Record{kilobyte()}})
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return logs
}

// BenchmarkRuns lists 10,000 runs.
func BenchmarkRuns(b *testing.B) {
	s := openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil)
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
	s := openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil)
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

func median(ds []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}

// BenchmarkResume takes up a run of 1,000 steps whose state is a list that has grown to
// 1 MB, from its last snapshot on.
func BenchmarkResume(b *testing.B) {
	s := openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil)
	l := create(b, s, "r")
	for i := range 1000 {
		batch := &runlog.Batch{Records: []runlog.Record{kilobyte()}}
		if i == 700 {
			snapshot := kilobyte()
			snapshot.Kind, snapshot.Data = runlog.KindSnapshot, json.RawMessage(`{"x":"`+strings.Repeat("x", 700_000)+`"}`)
			batch.Records = append(batch.Records, snapshot)
		}
		if err := l.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, info, err := s.Acquire(b.Context(), "r", nil)
		if err != nil {
			b.Fatal(err)
		}
		if recs, err := s.Read(b.Context(), "r", info.Snapshot, 0); err != nil || len(recs) != 300 {
			b.Fatalf("%d records, error %v", len(recs), err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
