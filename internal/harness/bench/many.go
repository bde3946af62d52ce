package main

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

const pause = 10 * time.Millisecond

// w5 is many runs at once of 10 nodes that wait.
func (s *suite) w5() {
	f, err := chain(10, func(context.Context, counter) (int, error) {
		time.Sleep(pause)
		return 1, nil
	})
	if err != nil {
		s.fail("W5", "concurrent", err)
		return
	}
	for _, runs := range []int{1000, 10_000} {
		s.together(
			concurrent(bare, name("go-goroutine-per-run-", runs), runs, func() error {
				var c counter
				for range 10 {
					time.Sleep(pause)
					c.N++
				}
				return nil
			}),
			concurrent(ours, name("concurrent-", runs), runs, func() error {
				_, err := f.Run(s.ctx, counter{}, &graph.RunOptions{})
				return err
			}),
		)
	}
	for _, p := range s.places() {
		s.together(s.atOnce(p, "W5", p.name+"-1000-runs-10-steps", 1000, strings.Repeat("x", 1024)))
	}
}

// concurrent returns a goroutine per run, with a look at the memory while all of them wait.
func concurrent(peer, name string, runs int, run func() error) job {
	var held []float64
	return job{peer: peer, wl: "W5", name: name, n: runs, do: func(*stopwatch) error {
		errs := make([]error, runs)
		var wg sync.WaitGroup
		for i := range runs {
			wg.Go(func() { errs[i] = run() })
		}
		time.Sleep(6 * pause)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		held = append(held, float64(m.HeapAlloc+m.StackInuse)/float64(runs))
		wg.Wait()
		return errors.Join(errs...)
	}, after: func(r *record) {
		r.Extra["ideal_ms"] = 100
		r.Extra["heap_stack_bytes_per_run"] = median(held)
	}}
}
