package graph_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

type blob struct {
	N    int
	Last string
	All  []string
}

type blobUpdate struct {
	Text string `json:"text"`
	Grow bool   `json:"grow,omitempty"`
}

func foldBlob(s blob, u blobUpdate) blob {
	s.N++
	s.Last = u.Text
	if u.Grow {
		s.All = append(s.All[:len(s.All):len(s.All)], u.Text)
	}
	return s
}

func durableLoop(b testing.TB, n int, grow bool, pause time.Duration) *graph.Flow[blob, blobUpdate] {
	text := strings.Repeat("x", 1024)
	g := graph.New("durable", foldBlob)
	g.Add("w", func(context.Context, blob) (blobUpdate, error) {
		if pause > 0 {
			time.Sleep(pause)
		}
		return blobUpdate{text, grow}, nil
	})
	return around(b, g, func(s blob) bool { return s.N < n })
}

func openStore(b testing.TB) *sqlite.Store {
	s, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "bench.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func durableRun(store runlog.Store, id string, f *graph.Flow[blob, blobUpdate]) error {
	ctx := context.Background()
	j, err := journal.Open(ctx, store, id, &journal.Options{Create: &runlog.NewRun{Workflow: "bench"}})
	if err != nil {
		return err
	}
	_, err = f.Run(ctx, blob{}, &graph.RunOptions{Journal: j, MaxSteps: 1 << 30})
	if cerr := j.Close(ctx); err == nil {
		err = cerr
	}
	return err
}

// BenchmarkDurable is a run of 1,000 steps on SQLite, each of them on disk before the
// next begins: with 1 KB of new state a step, and with a list that grows by it. Its
// yardstick is the bare commit of one row in the benchmarks of runlog/sqlite.
func BenchmarkDurable(b *testing.B) {
	const steps = 1000
	for _, c := range []struct {
		name string
		grow bool
	}{{"1KB", false}, {"growing", true}} {
		b.Run(c.name, func(b *testing.B) {
			store := openStore(b)
			f := durableLoop(b, steps, c.grow, 0)
			i := 0
			for b.Loop() {
				i++
				if err := durableRun(store, fmt.Sprint("run-", i), f); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/steps, "µs/step")
		})
	}
}

// BenchmarkDurableRuns is 1,000 runs of 10 durable steps at once on one SQLite store.
func BenchmarkDurableRuns(b *testing.B) {
	f := durableLoop(b, 10, false, 0)
	store := openStore(b)
	i := 0
	for b.Loop() {
		i++
		var wg sync.WaitGroup
		for k := range 1000 {
			wg.Go(func() {
				if err := durableRun(store, fmt.Sprintf("run-%d-%d", i, k), f); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10000, "µs/step")
}

// BenchmarkRecover is taking up a run of 1,000 steps.
func BenchmarkRecover(b *testing.B) {
	for _, grow := range []bool{false, true} {
		b.Run(map[bool]string{false: "1KB", true: "growing"}[grow], func(b *testing.B) {
			store := openStore(b)
			ctx := context.Background()
			j, err := journal.Open(ctx, store, "run", &journal.Options{Create: &runlog.NewRun{}})
			if err != nil {
				b.Fatal(err)
			}
			f := durableLoop(b, 2000, grow, 0)
			_, _ = f.Run(ctx, blob{}, &graph.RunOptions{Journal: j, MaxSteps: 1000})
			_ = j.Close(ctx)
			for b.Loop() {
				j, err := journal.Open(ctx, store, "run", nil)
				if err != nil {
					b.Fatal(err)
				}
				if s, _ := f.Run(ctx, blob{}, &graph.RunOptions{Journal: j, MaxSteps: 1000}); s.N != 1000 {
					b.Fatal(s.N)
				}
				_ = j.Close(ctx)
			}
		})
	}
}
