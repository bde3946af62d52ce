package postgres

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

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
func (r *bare) insert(frame []byte) error {
	r.pos++
	_, err := r.c.ExecStatement(context.Background(), r.st, [][]byte{bigint(r.pos), frame}, []int16{1}, nil).Close()
	return err
}

// many commits n rows with one statement.
func (r *bare) many(frame []byte, n int) error {
	keys := make([]int64, n)
	frames := arrayHead(nil, 17, n)
	for i := range keys {
		r.pos++
		keys[i] = r.pos
		frames = append(binary.BigEndian.AppendUint32(frames, uint32(len(frame))), frame...)
	}
	_, err := r.c.ExecPrepared(context.Background(), "insert", [][]byte{bigints(keys, func(n int64) int64 { return n }), frames}, []int16{1}, nil).Close()
	return err
}

// BenchmarkAppend compares a durable append of one record of 1 KB with the least that
// Postgres can do: one row of as many bytes, committed by a prepared statement. The two
// take turns, so that both see the same disk; the ratio is of their medians.
func BenchmarkAppend(b *testing.B) {
	dsn := shared.Server(b).DSN()
	l := runlogtest.Create(b, openTest(b, dsn, &Options{Schema: schema(b)}), "r")
	least, frame := openBare(b, dsn), runlogtest.Frame(b)
	runlogtest.BenchmarkAgainst(b, func() error { return least.insert(frame) },
		func() error { return l.Append(context.Background(), runlogtest.Kilobyte()) })
}

// BenchmarkHundredRuns compares a step of 100 runs at once with one statement that
// commits 100 rows of as many bytes.
func BenchmarkHundredRuns(b *testing.B) {
	dsn := shared.Server(b).DSN()
	logs := runlogtest.MakeRuns(b, openTest(b, dsn, &Options{Schema: schema(b)}), 100)
	least, frame := openBare(b, dsn), runlogtest.Frame(b)
	runlogtest.BenchmarkAgainst(b, func() error { return least.many(frame, len(logs)) }, func() error { return runlogtest.Steps(logs, 1) })
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	dsn := shared.Server(b).DSN()
	runlogtest.BenchmarkManyRuns(b, func() runlog.Store { return openTest(b, dsn, &Options{Schema: schema(b)}) })
}

// BenchmarkRuns lists 10,000 runs.
func BenchmarkRuns(b *testing.B) {
	runlogtest.BenchmarkRuns(b, openTest(b, shared.Server(b).DSN(), &Options{Schema: schema(b)}))
}

// BenchmarkRead reads a run of 1,000 records of 1 KB, and tells what they take on disk.
func BenchmarkRead(b *testing.B) {
	s := openTest(b, shared.Server(b).DSN(), &Options{Schema: schema(b)})
	runlogtest.BenchmarkRead(b, s, 1)
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
	b.ReportMetric(float64(bytes)/1e6, "MB")
}
