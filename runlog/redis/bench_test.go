package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

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
			l := runlogtest.Create(b, s, "r")
			frame := runlogtest.Frame(b)
			runlogtest.BenchmarkAgainst(b, func() error {
				_, err := s.client.do(context.Background(), "SET", "{bare}", frame)
				return err
			}, func() error { return l.Append(context.Background(), runlogtest.Kilobyte()) })
		})
	}
}

// BenchmarkManyRuns is 1,000 concurrent runs of 10 durable appends each.
func BenchmarkManyRuns(b *testing.B) {
	srv, n := durable(b), 0
	runlogtest.BenchmarkManyRuns(b, func() runlog.Store {
		n++
		return openTest(b, srv.URL(), &Options{Prefix: fmt.Sprintf("many-%d", n)})
	})
}

// BenchmarkRuns lists 10,000 runs.
func BenchmarkRuns(b *testing.B) { runlogtest.BenchmarkRuns(b, openTest(b, durable(b).URL(), nil)) }

// BenchmarkRead reads a run of 1,000 records of 1 KB.
func BenchmarkRead(b *testing.B) {
	runlogtest.BenchmarkRead(b, openTest(b, durable(b).URL(), nil), 1000)
}

// BenchmarkBytes tells what 1,000 appends of 1 KB take in the server's memory and in its file.
func BenchmarkBytes(b *testing.B) {
	srv := durable(b)
	s := openTest(b, srv.URL(), nil)
	c := raw(b, srv)
	for i := 0; b.Loop(); i++ {
		before := appendedBytes(b, srv)
		l := runlogtest.Create(b, s, fmt.Sprintf("r-%d", i))
		for range 1000 {
			if err := l.Append(b.Context(), runlogtest.Kilobyte()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(appendedBytes(b, srv)-before), "file-bytes")
	}
	b.ReportMetric(float64(c("MEMORY", "USAGE", s.keys.log("r-0"), "SAMPLES", 0).(int64)), "memory-bytes")
}
