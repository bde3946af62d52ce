package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/runlog"
)

func kilobyte() runlog.Record {
	return runlog.Record{
		Kind: runlog.KindTaskDone, Path: "plan/search", Time: time.Unix(1e9, 0),
		Data: json.RawMessage(`{"x":"` + strings.Repeat("x", 1016) + `"}`),
	}
}

// A bare table and a prepared statement: the least that a row in Postgres takes.
type bare struct {
	c   *pgconn.PgConn
	st  *pgconn.StatementDescription
	pos int64
}

func openBare(b *testing.B, dsn string) *bare {
	b.Helper()
	c, err := pgconn.Connect(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	if _, err := c.Exec(b.Context(), "DROP TABLE IF EXISTS bare; CREATE TABLE bare (pos bigint PRIMARY KEY, frame bytea NOT NULL)").ReadAll(); err != nil {
		b.Fatal(err)
	}
	st, err := c.Prepare(b.Context(), "insert", "INSERT INTO bare SELECT * FROM unnest($1::bigint[], $2::bytea[])", nil)
	if err == nil {
		st, err = c.Prepare(b.Context(), "one", "INSERT INTO bare VALUES ($1, $2)", nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	return &bare{c: c, st: st}
}

// insert commits one row.
func (r *bare) insert(b *testing.B, frame []byte) {
	r.pos++
	if _, err := r.c.ExecStatement(context.Background(), r.st, [][]byte{bigint(r.pos), frame}, []int16{1}, nil).Close(); err != nil {
		b.Fatal(err)
	}
}

// many commits n rows with one statement.
func (r *bare) many(b *testing.B, frame []byte, n int) {
	keys := make([]int64, n)
	frames := arrayHead(nil, 17, n)
	for i := range keys {
		r.pos++
		keys[i] = r.pos
		frames = append(binary.BigEndian.AppendUint32(frames, uint32(len(frame))), frame...)
	}
	if _, err := r.c.ExecPrepared(context.Background(), "insert", [][]byte{bigints(keys, func(n int64) int64 { return n }), frames}, []int16{1}, nil).Close(); err != nil {
		b.Fatal(err)
	}
}

func frameOf(b *testing.B, rec runlog.Record) []byte {
	b.Helper()
	rec.Seq = 1
	frame, _, err := runlog.AppendFrame(nil, runlog.FrameHash{}, &rec)
	if err != nil {
		b.Fatal(err)
	}
	return frame
}

// BenchmarkAppend compares a durable append of one record of 1 KB with the least that
// Postgres can do: one row of as many bytes, committed by a prepared statement. The two
// take turns, so that both see the same disk; the ratio is of their medians.
func BenchmarkAppend(b *testing.B) {
	dsn := shared.Server(b).DSN()
	s := openTest(b, dsn, &Options{Schema: schema(b)})
	l := create(b, s, "r")
	least := openBare(b, dsn)
	frame := frameOf(b, kilobyte())
	var theirs, ours []time.Duration
	for b.Loop() {
		t0 := time.Now()
		least.insert(b, frame)
		t1 := time.Now()
		if err := l.Append(context.Background(), &runlog.Batch{Records: []runlog.Record{kilobyte()}}); err != nil {
			b.Fatal(err)
		}
		theirs, ours = append(theirs, t1.Sub(t0)), append(ours, time.Since(t1))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(theirs).Microseconds()), "bare-µs")
	b.ReportMetric(float64(median(ours).Microseconds()), "append-µs")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
}

// BenchmarkHundredRuns compares a step of 100 runs at once with one statement that
// commits 100 rows of as many bytes.
func BenchmarkHundredRuns(b *testing.B) {
	dsn := shared.Server(b).DSN()
	s := openTest(b, dsn, &Options{Schema: schema(b)})
	logs := manyRuns(b, s, 100)
	least := openBare(b, dsn)
	frame := frameOf(b, kilobyte())
	var theirs, ours []time.Duration
	for b.Loop() {
		t0 := time.Now()
		least.many(b, frame, len(logs))
		t1 := time.Now()
		step(b, logs, 1)
		theirs, ours = append(theirs, t1.Sub(t0)), append(ours, time.Since(t1))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(theirs).Microseconds()), "bare-µs")
	b.ReportMetric(float64(median(ours).Microseconds()), "step-µs")
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "ratio")
}

// step appends n records to each log, one after the other, all logs at once.
func step(b *testing.B, logs []runlog.Log, n int) {
	b.Helper()
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() {
			for range n {
				if err := l.Append(context.Background(), &runlog.Batch{Records: []runlog.Record{kilobyte()}}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	dsn := shared.Server(b).DSN()
	var took []time.Duration
	for b.Loop() {
		s := openTest(b, dsn, &Options{Schema: schema(b)})
		logs := manyRuns(b, s, 1000)
		begin := time.Now()
		step(b, logs, 10)
		took = append(took, time.Since(begin))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(took).Milliseconds()), "ms")
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
	s := openTest(b, shared.Server(b).DSN(), &Options{Schema: schema(b)})
	manyRuns(b, s, 10_000)
	for b.Loop() {
		infos, err := s.Runs(b.Context(), nil)
		if err != nil || len(infos) != 10_000 {
			b.Fatalf("%d runs, error %v", len(infos), err)
		}
	}
}

// BenchmarkRead reads a run of 1,000 records of 1 KB, and tells what they take on disk.
func BenchmarkRead(b *testing.B) {
	server := shared.Server(b)
	s := openTest(b, server.DSN(), &Options{Schema: schema(b)})
	l := create(b, s, "r")
	step(b, slices.Repeat([]runlog.Log{l}, 1), 1000)
	bytes := int64(0)
	err := s.with(b.Context(), reading, func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SELECT pg_total_relation_size('records') + pg_total_relation_size('runs')", func(v [][]byte) error {
			bytes = toInt(v[0])
			return nil
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if recs, err := s.Read(b.Context(), "r", 1, 0); err != nil || len(recs) != 1000 {
			b.Fatalf("%d records, error %v", len(recs), err)
		}
	}
	b.ReportMetric(float64(bytes)/1e6, "MB")
}

func median(ds []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(ds))
	return s[len(s)/2]
}
