//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// held is a workflow whose runs go on until their process ends.
func held(b *testing.B) *workflow.Workflow {
	g := graph.New("held", func(_, u string) string { return u })
	g.Add("wait", func(ctx context.Context, id string) (string, error) {
		<-ctx.Done()
		return id, context.Cause(ctx)
	})
	g.Edge(graph.Start, "wait")
	g.Edge("wait", graph.End)
	flow, err := g.Compile()
	if err != nil {
		b.Fatal(err)
	}
	w, err := workflow.New("held", "A run that waits.", flow, func(in poolJob) (string, error) { return in.ID, nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// yardstick returns how long durable appends to a store take, in order.
func yardstick(tb testing.TB, store runlog.Store) (took []time.Duration) {
	tb.Helper()
	log, _, err := store.Acquire(tb.Context(), "yardstick", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "held"}})
	if err != nil {
		tb.Fatal(err)
	}
	for range 300 {
		begin := time.Now()
		if err := log.Append(tb.Context(), &runlog.Batch{Records: []runlog.Record{{Kind: "yardstick", Time: begin}}}); err != nil {
			tb.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	if err := log.Release(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	slices.Sort(took)
	return took
}

// What it costs to take a run while 100,000 are queued (SUPERSTEP_QUEUED sets another number), and to list them. The yardstick is one durable append to
// the store: taking a run is a hold, the start of its journal and one append.
func BenchmarkClaim(b *testing.B) {
	if b.N > 1 {
		b.Skip("it measures once: -benchtime 1x")
	}
	queued := 100_000
	if s := os.Getenv("SUPERSTEP_QUEUED"); s != "" {
		queued, _ = strconv.Atoi(s)
	}
	for _, back := range backends()[2:] {
		b.Run(back.name, func(b *testing.B) {
			store := back.open(b).open(b, nil)
			e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{held(b)}})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			var next atomic.Int64
			var all sync.WaitGroup
			begin := time.Now()
			for range 64 {
				all.Go(func() {
					for n := next.Add(1); n <= int64(queued); n = next.Add(1) {
						if _, err := e.Enqueue(b.Context(), "held", json.RawMessage(`{"id":"x"}`), nil); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(queued)/time.Since(begin).Seconds(), "enqueued/s")
			appends := yardstick(b, store)
			var claims []time.Duration
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			last := time.Now()
			var first time.Duration
			b.ResetTimer()
			_, err = e.Recover(ctx, &superstep.RecoverOptions{Runs: 500, Taken: func(string) {
				took := time.Since(last)
				if last = time.Now(); first == 0 {
					first = took // with the list
					return
				}
				claims = append(claims, took)
			}})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			slices.Sort(claims)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(first.Milliseconds()), "ms/list")
			b.ReportMetric(float64(claims[len(claims)/2].Microseconds()), "µs/claim")
			b.ReportMetric(float64(claims[len(claims)*95/100].Microseconds()), "µs/claim-p95")
			b.ReportMetric(float64(appends[len(appends)/2].Microseconds()), "µs/append")
		})
	}
}
