package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
)

// An uneven is a graph of nodes that wait, each after those before it: indexes lower than its own.
type uneven struct {
	cost   []time.Duration
	before [][]int
}

// sixNodes is s(100) → a(200) b(500) c(300); a → d(150); b, c, d → e(100).
func sixNodes() *uneven {
	u := &uneven{before: [][]int{{}, {0}, {0}, {0}, {1}, {2, 3, 4}}}
	for _, ms := range []int{100, 200, 500, 300, 150, 100} {
		u.cost = append(u.cost, time.Duration(ms)*time.Millisecond)
	}
	return u
}

// layered is random: layers of nodes that wait 10 to 90 ms after one to three nodes of the two
// layers before.
func layered(layers, width int, seed uint64) *uneven {
	r := rand.New(rand.NewPCG(seed, seed)) // the same graph every time
	u := &uneven{}
	for i := range layers * width {
		u.cost = append(u.cost, time.Duration(10+r.IntN(81))*time.Millisecond)
		first := i / width * width
		var before []int
		for range 1 + r.IntN(3) {
			b := first - 1 - r.IntN(2*width)
			if b >= 0 && (len(before) == 0 || b < before[len(before)-1]) {
				before = append(before, b)
			}
		}
		u.before = append(u.before, before)
	}
	return u
}

// critical returns the duration of the longest path.
func (u *uneven) critical() time.Duration {
	end := make([]time.Duration, len(u.cost))
	most := time.Duration(0)
	for i, d := range u.cost {
		for _, b := range u.before[i] {
			end[i] = max(end[i], end[b])
		}
		end[i] += d
		most = max(most, end[i])
	}
	return most
}

// bound returns a lower bound on the duration of any schedule with the given parallelism; 0 means
// no limit.
func (u *uneven) bound(width int) time.Duration {
	work := time.Duration(0)
	for _, d := range u.cost {
		work += d
	}
	if width == 0 {
		return u.critical()
	}
	return max(u.critical(), work/time.Duration(width))
}

// listed returns the ideal duration of a list schedule, in which nodes start in the order in which
// they become ready.
func (u *uneven) listed(width int) time.Duration {
	n := len(u.cost)
	open, after := make([]int, n), make([][]int, n)
	for i := n - 1; i >= 0; i-- {
		open[i] = len(u.before[i])
		for _, b := range u.before[i] {
			after[b] = append(after[b], i)
		}
	}
	var ready, running []int
	ends := make([]time.Duration, n)
	for i := range n {
		if open[i] == 0 {
			ready = append(ready, i)
		}
	}
	now := time.Duration(0)
	for len(ready)+len(running) > 0 {
		for len(ready) > 0 && (width == 0 || len(running) < width) {
			ends[ready[0]] = now + u.cost[ready[0]]
			running, ready = append(running, ready[0]), ready[1:]
		}
		slices.SortStableFunc(running, func(a, b int) int { return cmp.Compare(ends[a], ends[b]) })
		done := running[0]
		now, running = ends[done], running[1:]
		for _, a := range after[done] {
			if open[a]--; open[a] == 0 {
				ready = append(ready, a)
			}
		}
	}
	return now
}

// flow returns a graph of nodes that declare what they read.
func (u *uneven) flow() (*countFlow, error) {
	g := graph.New("uneven", add)
	last := make([]bool, len(u.cost))
	for i, d := range u.cost {
		last[i] = true
		reads := make([]string, 0, len(u.before[i])) // not nil: it sees no more
		for _, b := range u.before[i] {
			reads = append(reads, name("n", b))
			g.Edge(name("n", b), name("n", i))
			last[b] = false
		}
		n := graph.Node[counter, int]{Name: name("n", i), Reads: reads, Run: func(context.Context, *graph.Task, counter) (int, error) {
			time.Sleep(d)
			return 1, nil
		}}
		if len(reads) > 1 {
			n.Join = graph.All
		}
		if len(reads) == 0 {
			g.Edge(graph.Start, n.Name)
		}
		g.AddNode(n)
	}
	for i := range last {
		if last[i] {
			g.Edge(name("n", i), graph.End)
		}
	}
	return g.Compile()
}

// goroutines is the same with a goroutine for each node and a channel for each end.
func (u *uneven) goroutines(width int) func(*stopwatch) error {
	return func(*stopwatch) error {
		room := make(chan struct{}, max(1, width))
		ends := make([]chan struct{}, len(u.cost))
		for i := range ends {
			ends[i] = make(chan struct{})
		}
		var wg sync.WaitGroup
		for i, d := range u.cost {
			wg.Go(func() {
				for _, b := range u.before[i] {
					<-ends[b]
				}
				if width > 0 {
					room <- struct{}{}
					defer func() { <-room }()
				}
				time.Sleep(d)
				close(ends[i])
			})
		}
		wg.Wait()
		return nil
	}
}

// w6 is nodes of uneven length.
func (s *suite) w6() {
	s.schedule("dag-sleep", sixNodes(), 0)
	random := layered(20, 50, 1)
	s.schedule("dag-1000", random, 0)
	s.schedule("dag-1000-width16", random, 16)
}

// schedule runs a graph with so many nodes at once, 0 for any number.
func (s *suite) schedule(name string, u *uneven, width int) {
	n := len(u.cost)
	least := float64(u.bound(width).Nanoseconds()) / 1e6
	f, err := u.flow()
	if err != nil {
		s.fail("W6", name, err)
		return
	}
	opt := &graph.RunOptions{Parallelism: width}
	if width == 0 {
		opt.Parallelism = n
	}
	after := func(r *record) {
		r.Extra["least_ms"] = least
		r.Extra["to_least"] = median(r.WallMs) / least
		if width == 0 {
			r.Extra["critical_ms"] = least
			return
		}
		greedy := float64(u.listed(width).Nanoseconds()) / 1e6
		r.Extra["greedy_ms"] = greedy
		r.Extra["to_greedy"] = median(r.WallMs) / greedy
	}
	s.together(
		job{peer: bare, wl: "W6", name: "go-" + name, n: n, reps: min(s.reps, 3), cold: true, do: u.goroutines(width), after: after},
		job{wl: "W6", name: name, n: n, reps: min(s.reps, 3), cold: true, after: after, do: func(*stopwatch) error {
			got, err := f.Run(s.ctx, counter{}, opt)
			if err == nil && got.N != n {
				err = fmt.Errorf("%d nodes ran, want %d", got.N, n)
			}
			return err
		}},
	)
}
