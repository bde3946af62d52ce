package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// BenchmarkAppend compares a durable append of one record of 1 KB with the least that a
// file can do: a write of as many bytes to its end, and fdatasync. The two take turns, so
// that both see the same disk; the ratio is of their medians.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	s := openTest(b, filepath.Join(dir, "store"), nil)
	l := runlogtest.Create(b, s, "r")
	bare, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	frame := runlogtest.Frame(b)
	runlogtest.BenchmarkAgainst(b, func() error {
		if _, err := bare.Write(frame); err != nil {
			return err
		}
		return dataSync(bare)
	}, func() error { return l.Append(context.Background(), runlogtest.Kilobyte()) })
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	runlogtest.BenchmarkManyRuns(b, func() runlog.Store { return openTest(b, b.TempDir(), nil) })
}

// BenchmarkRuns lists 10,000 runs: that nobody holds, for the first time in a store that was
// just opened and again, and that the store holds itself.
func BenchmarkRuns(b *testing.B) {
	dir := fastDir(b) // listing reads no disk, making so many runs would
	s, err := Open(b.Context(), dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	runlogtest.MakeRuns(b, s, 10_000)
	b.Run("held", func(b *testing.B) {
		for b.Loop() {
			runlogtest.List(b, s, 10_000)
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
			runlogtest.List(b, s, 10_000)
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
			runlogtest.List(b, s, 10_000)
		}
	})
}

// BenchmarkResume takes up a run of 1,000 records of 1 KB with a snapshot near its end, and
// reads from that on.
func BenchmarkResume(b *testing.B) {
	s := openTest(b, b.TempDir(), nil)
	l := runlogtest.Create(b, s, "r")
	for i := range 1000 {
		batch := runlogtest.Kilobyte()
		if i == 950 {
			batch.Records[0].Kind = runlog.KindSnapshot
		}
		if err := l.Append(b.Context(), batch); err != nil {
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
func BenchmarkRead(b *testing.B) { runlogtest.BenchmarkRead(b, openTest(b, b.TempDir(), nil), 100) }
