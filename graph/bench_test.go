package graph_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

type counter struct{ N int }

func add(s counter, d int) counter { return counter{s.N + d} }

func one1(context.Context, counter) (int, error) { return 1, nil }

func chain(b testing.TB, n int) *graph.Flow[counter, int] {
	g := graph.New("chain", add)
	for i := range n {
		g.Add(fmt.Sprint("n", i), one1)
		if i > 0 {
			g.Edge(fmt.Sprint("n", i-1), fmt.Sprint("n", i))
		}
	}
	g.Edge(graph.Start, "n0")
	g.Edge(fmt.Sprint("n", n-1), graph.End)
	f, err := g.Compile()
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func loop(b testing.TB, n int) *graph.Flow[counter, int] {
	g := graph.New("loop", add)
	g.Add("w", one1)
	return around(b, g, func(s counter) bool { return s.N < n })
}

// around runs the node w of g again and again while there is more to do.
func around[S, U any](b testing.TB, g *graph.Graph[S, U], more func(S) bool) *graph.Flow[S, U] {
	b.Helper()
	g.Edge(graph.Start, "w")
	g.Branch("w", func(s S) string {
		if more(s) {
			return "w"
		}
		return graph.End
	}, "w", graph.End)
	f, err := g.Compile()
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func fan(b testing.TB, k int) *graph.Flow[counter, int] {
	g := graph.New("fan", add)
	g.Add("s", one1)
	g.AddNode(graph.Node[counter, int]{Name: "j", Join: graph.All, Run: func(context.Context, *graph.Task, counter) (int, error) { return 1, nil }})
	g.Edge(graph.Start, "s")
	g.Edge("j", graph.End)
	for i := range k {
		n := fmt.Sprint("b", i)
		g.Add(n, one1)
		g.Edge("s", n)
		g.Edge(n, "j")
	}
	f, err := g.Compile()
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// run repeats a flow; perRun is how many units of work one run is.
func run(b *testing.B, f *graph.Flow[counter, int], perRun, want int) {
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		got, err := f.Run(ctx, counter{}, &graph.RunOptions{MaxSteps: 1 << 30})
		if err != nil || got.N != want {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(perRun), "ns/unit")
}

func BenchmarkChain(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { run(b, chain(b, n), n, n) })
	}
}

func BenchmarkLoop(b *testing.B) {
	b.Run("10000", func(b *testing.B) { run(b, loop(b, 10000), 10000, 10000) })
}

func BenchmarkFanOut(b *testing.B) {
	for _, k := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(k), func(b *testing.B) { run(b, fan(b, k), k, k+2) })
	}
}

func BenchmarkCompile(b *testing.B) {
	b.Run("10000", func(b *testing.B) {
		for b.Loop() {
			fan(b, 10000)
		}
	})
}

func BenchmarkConcurrentRuns(b *testing.B) {
	g := graph.New("wait", add)
	for i := range 10 {
		n := fmt.Sprint("n", i)
		g.Add(n, func(context.Context, counter) (int, error) { time.Sleep(10 * time.Millisecond); return 1, nil })
		if i == 0 {
			g.Edge(graph.Start, n)
		} else {
			g.Edge(fmt.Sprint("n", i-1), n)
		}
	}
	g.Edge("n9", graph.End)
	f, err := g.Compile()
	if err != nil {
		b.Fatal(err)
	}
	for _, runs := range []int{1000, 10000} {
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			for b.Loop() {
				var wg sync.WaitGroup
				for range runs {
					wg.Go(func() {
						if _, err := f.Run(context.Background(), counter{}, nil); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
