package main

import (
	"context"
	"runtime"
	"sync"
)

// A bareNode is a node with nothing around it.
type bareNode func(context.Context, *counter) error

//go:noinline
func count(_ context.Context, s *counter) error { s.N++; return nil }

// bareSteps returns a step at its least: a hand-over to a goroutine and back, and a goroutine of
// its own.
func bareSteps(ctx context.Context) []job {
	const steps = 100_000
	return []job{
		{peer: bare, wl: "W1", name: "go-chan-handoff", n: steps, do: func(*stopwatch) error {
			ask, reply := make(chan *counter), make(chan error)
			go func() {
				for s := range ask {
					reply <- count(ctx, s)
				}
			}()
			defer close(ask)
			var s counter
			for range steps {
				ask <- &s
				if err := <-reply; err != nil {
					return err
				}
			}
			return nil
		}},
		{peer: bare, wl: "W1", name: "go-goroutine-per-step", n: steps, do: func(*stopwatch) error {
			var s counter
			done := make(chan error, 1)
			for range steps {
				go func() { done <- count(ctx, &s) }()
				if err := <-done; err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

func bareGoroutines(k int) job {
	rep := max(1, 100_000/k)
	return job{peer: bare, wl: "W2", name: name("go-goroutines-K", k), n: k * rep, do: func(*stopwatch) error {
		for range rep {
			res := make([]int, k)
			var wg sync.WaitGroup
			for i := range k {
				wg.Go(func() { res[i] = i + 1 })
			}
			wg.Wait()
			runtime.KeepAlive(res)
		}
		return nil
	}}
}

func bareRouter() job {
	const steps = 1_000_000
	nodes := []bareNode{count}
	return job{peer: bare, wl: "W3", name: "go-loop-router", n: steps, do: func(*stopwatch) error {
		var s counter
		for s.N < steps {
			if err := nodes[0](context.Background(), &s); err != nil {
				return err
			}
		}
		return nil
	}}
}
