package sqlite

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	zsqlite "zombiezen.com/go/sqlite"
)

// BenchmarkAppend compares a durable append of one record of 1 KB with the least
// that SQLite can do: one row of as many bytes, with the same library and settings.
// The two take turns, so that both see the same disk; the ratio is of their medians.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	s := openTest(b, filepath.Join(dir, "runs.db"), nil)
	l := runlogtest.Create(b, s, "r")
	raw(b, filepath.Join(dir, "bare.db"), "PRAGMA journal_mode=WAL")
	raw(b, filepath.Join(dir, "bare.db"), "CREATE TABLE t (pos INTEGER PRIMARY KEY, frame BLOB NOT NULL)")
	c, err := openConn(filepath.Join(dir, "bare.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	frame, rows := runlogtest.Frame(b), int64(0)
	runlogtest.BenchmarkAgainst(b, func() error {
		if err := c.begin(context.Background()); err != nil {
			return err
		}
		rows++
		err := c.exec("INSERT INTO t (pos, frame) VALUES (?1, ?2)", func(st *zsqlite.Stmt) {
			st.BindInt64(1, rows)
			st.BindBytes(2, frame)
		})
		if err != nil {
			return err
		}
		return c.commit()
	}, func() error { return l.Append(context.Background(), runlogtest.Kilobyte()) })
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	runlogtest.BenchmarkManyRuns(b, func() runlog.Store { return openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil) })
}

// BenchmarkRuns lists 10,000 runs.
func BenchmarkRuns(b *testing.B) {
	runlogtest.BenchmarkRuns(b, openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil))
}

// BenchmarkRead reads a run of 1,000 records of 1 KB.
func BenchmarkRead(b *testing.B) {
	runlogtest.BenchmarkRead(b, openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil), 1000)
}

// BenchmarkResume takes up a run of 1,000 steps whose state is a list that has grown to
// 1 MB, from its last snapshot on.
func BenchmarkResume(b *testing.B) {
	s := openTest(b, filepath.Join(b.TempDir(), "runs.db"), nil)
	l := runlogtest.Create(b, s, "r")
	for i := range 1000 {
		batch := runlogtest.Kilobyte()
		if i == 700 {
			snapshot := batch.Records[0]
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
