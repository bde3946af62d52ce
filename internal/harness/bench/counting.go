package main

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
)

// counter is the state of graphs whose nodes do nothing but count.
type counter struct{ N int }

func add(s counter, d int) counter { return counter{s.N + d} }

func one(context.Context, counter) (int, error) { return 1, nil }

type (
	countGraph = graph.Graph[counter, int]
	countFlow  = graph.Flow[counter, int]
)

func name(prefix string, i int) string { return fmt.Sprint(prefix, i) }

// chain is n nodes one after the other.
func chain(n int, node graph.Func[counter, int]) (*countFlow, error) {
	g := graph.New("chain", add)
	for i := range n {
		g.Add(name("n", i), node)
		if i > 0 {
			g.Edge(name("n", i-1), name("n", i))
		}
	}
	g.Edge(graph.Start, "n0")
	g.Edge(name("n", n-1), graph.End)
	return g.Compile()
}

// loop returns a node that is led to itself until it has run n times, and idle ones beside it
// that nothing ever wakes.
func loop(n, idle int) (*countFlow, error) {
	g := graph.New("loop", add)
	g.Add("w", one)
	g.Edge(graph.Start, "w")
	to := []string{"w", graph.End}
	for i := range idle {
		g.Add(name("i", i), one)
		if i > 0 {
			g.Edge(name("i", i-1), name("i", i))
		}
	}
	if idle > 0 {
		to = append(to, "i0")
		g.Edge(name("i", idle-1), graph.End)
	}
	g.Branch("w", func(s counter) string {
		if s.N < n {
			return "w"
		}
		return graph.End
	}, to...)
	return g.Compile()
}

// joined adds a node that waits for all that lead to it.
func joined(g *countGraph, name string) {
	g.AddNode(graph.Node[counter, int]{Name: name, Join: graph.All, Run: func(context.Context, *graph.Task, counter) (int, error) { return 1, nil }})
}

// static returns one node, k nodes side by side, and one that waits for them.
func static(k int) (*countFlow, error) {
	g := graph.New("static", add)
	g.Add("s", one)
	joined(g, "j")
	g.Edge(graph.Start, "s")
	g.Edge("j", graph.End)
	for i := range k {
		b := name("b", i)
		g.Add(b, one)
		g.Edge("s", b)
		g.Edge(b, "j")
	}
	return g.Compile()
}

// fanned is static with one node that is sent k messages.
func fanned(k int) (*countFlow, error) {
	g := graph.New("fanned", add)
	g.Add("s", one)
	g.Add("b", one)
	joined(g, "j")
	g.Edge(graph.Start, "s")
	g.Edge("b", "j")
	g.Edge("j", graph.End)
	sends := make([]graph.Send, k)
	for i := range sends {
		sends[i] = graph.Send{To: "b", Key: name("", i)}
	}
	g.Fan("s", func(counter) []graph.Send { return sends }, "b")
	return g.Compile()
}

// times is a job's work: a flow some times, each of which counts to want.
func (s *suite) times(f *countFlow, times, want int) func(*stopwatch) error {
	return func(*stopwatch) error {
		for range times {
			got, err := f.Run(s.ctx, counter{}, &graph.RunOptions{MaxSteps: 1 << 30})
			if err != nil {
				return err
			}
			if got.N != want {
				return fmt.Errorf("counted %d, want %d", got.N, want)
			}
		}
		return nil
	}
}

// w1 is chains and loops.
func (s *suite) w1() {
	jobs := bareSteps(s.ctx)
	for _, n := range []int{10, 100, 1000, 100_000} {
		f, err := chain(n, one)
		if err != nil {
			s.fail("W1", name("chain-", n), err)
			continue
		}
		rep := max(1, 10_000/n)
		jobs = append(jobs, job{wl: "W1", name: name("chain-", n), n: n * rep, series: series{"chain", float64(n), 1}, do: s.times(f, rep, n)})
	}
	for _, n := range []int{1000, 10_000, 100_000} {
		f, err := loop(n, 0)
		if err != nil {
			s.fail("W1", name("self-loop-", n), err)
			continue
		}
		rep := max(1, 10_000/n)
		jobs = append(jobs, job{wl: "W1", name: name("self-loop-", n), n: n * rep, series: series{"steps before", float64(n), 1}, do: s.times(f, rep, n)})
	}
	for _, idle := range []int{10, 1000, 100_000} {
		f, err := loop(10_000, idle)
		if err != nil {
			s.fail("W1", name("idle-", idle), err)
			continue
		}
		jobs = append(jobs, job{wl: "W1", name: name("idle-", idle), n: 10_000, series: series{"idle nodes", float64(idle), 0}, do: s.times(f, 1, 10_000)})
	}
	s.together(jobs...)
}

// w2 is one node, many side by side, one again.
func (s *suite) w2() {
	for _, k := range []int{10, 100, 1000, 10_000} {
		if k > s.maxK {
			break
		}
		rep := max(1, 10_000/k)
		jobs := []job{bareGoroutines(k)}
		for _, c := range []struct {
			name  string
			build func(int) (*countFlow, error)
		}{{"static", static}, {"fan", fanned}} {
			f, err := c.build(k)
			if err != nil {
				s.fail("W2", name(c.name+"-K", k), err)
				continue
			}
			jobs = append(jobs, job{wl: "W2", name: name(c.name+"-K", k), n: k * rep, series: series{c.name, float64(k), 1}, do: s.times(f, rep, k+2)})
		}
		s.together(jobs...)
	}
	s.together(job{wl: "W2", name: "compile-K10000", n: 10_000, do: func(*stopwatch) error {
		_, err := static(10_000)
		return err
	}})
}

// w3 is a loop over a router.
func (s *suite) w3() {
	f, err := loop(10_000, 0)
	if err != nil {
		s.fail("W3", "loop-router-10000", err)
		return
	}
	s.together(bareRouter(), job{wl: "W3", name: "loop-router-10000", n: 100_000, do: s.times(f, 10, 10_000)})
}
