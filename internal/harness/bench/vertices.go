package main

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"sync"

	"github.com/superstep-dev/superstep/vertex"
)

type none = struct{}

const rounds = 20

// rmat makes m edges over n vertices by recursive matrix with a=.57, b=.19, c=.19, and
// relabels them at random; the other engines are given the same graph.
func rmat(n, m int, seed int64) *vertex.EdgeList[none] {
	r := rand.New(rand.NewSource(seed))
	bits := 0
	for 1<<bits < n {
		bits++
	}
	perm := r.Perm(1 << bits)
	l := &vertex.EdgeList[none]{From: make([]int32, 0, m), To: make([]int32, 0, m)}
	for len(l.From) < m {
		u, v := 0, 0
		for b := range bits {
			switch x := r.Float64(); {
			case x < .57:
			case x < .76:
				v |= 1 << b
			case x < .95:
				u |= 1 << b
			default:
				u, v = u|1<<b, v|1<<b
			}
		}
		if u, v = perm[u], perm[v]; u != v && u < n && v < n {
			l.Add(int32(u), int32(v))
		}
	}
	return l
}

func pageRank(n int) *vertex.Program[float64, none, float64] {
	base := 0.15 / float64(n)
	return &vertex.Program[float64, none, float64]{
		Compute: func(c *vertex.Context[float64, none, float64], _ int32, rank *float64, in []float64) vertex.Vote {
			switch {
			case c.Step() == 0:
				*rank = 1 / float64(n)
			case len(in) > 0:
				*rank = base + 0.85*in[0]
			default:
				*rank = base
			}
			if c.Step() == rounds {
				return vertex.Halt
			}
			c.SendToNeighbors(*rank / float64(c.Degree()))
			return vertex.Stay
		},
		Combine: vertex.CombineSum[float64](),
	}
}

func components() *vertex.Program[int32, none, int32] {
	return &vertex.Program[int32, none, int32]{
		Compute: func(c *vertex.Context[int32, none, int32], v int32, least *int32, in []int32) vertex.Vote {
			switch {
			case c.Step() == 0:
				*least = v
			case in[0] < *least:
				*least = in[0]
			default:
				return vertex.Halt
			}
			c.SendToNeighbors(*least)
			return vertex.Halt
		},
		Combine: vertex.CombineMin[int32](),
	}
}

func solve[V, M any](ctx context.Context, g *vertex.Graph[none], p *vertex.Program[V, none, M]) ([]V, error) {
	run, err := vertex.NewRun(g, p, nil)
	if err == nil {
		err = run.Run(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	return run.Values(), nil
}

// w7 benchmarks vertex programs on large graphs.
func (s *suite) w7() {
	sizes := []int{100_000, 1_000_000}
	if s.quick {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		label := fmt.Sprintf("%dk-%dM", n/1000, n/100_000)
		s.ranks(n, label)
		s.components(n, label)
	}
}

// weigh returns how many bytes of memory a graph and a run of PageRank on it take.
func weigh(ctx context.Context, l *vertex.EdgeList[none], n int) (g *vertex.Graph[none], edges, vertices float64, err error) {
	empty := heapBytes()
	if g, err = l.Build(n); err != nil {
		return nil, 0, 0, err
	}
	if _, err := solve(ctx, g, pageRank(n)); err != nil { // makes the edges seen from their targets
		return nil, 0, 0, err
	}
	edges = heapBytes() - empty
	run, err := vertex.NewRun(g, pageRank(n), nil)
	if err == nil {
		err = run.Run(ctx, nil)
	}
	vertices = heapBytes() - empty - edges
	runtime.KeepAlive(run)
	runtime.KeepAlive(l)
	return g, edges, vertices, err
}

func (s *suite) ranks(n int, label string) {
	l := rmat(n, 10*n, 42)
	g, edges, vertices, err := weigh(s.ctx, l, n)
	byHand := compress(l, n)
	if err == nil {
		err = s.agree(g, byHand)
	}
	if err != nil {
		s.fail("W7", "pagerank-"+label, err)
		return
	}
	s.together(
		job{peer: bare, wl: "W7", name: "pagerank-csr-loops-" + label, n: 10 * n * rounds, do: func(*stopwatch) error {
			runtime.KeepAlive(byHand.pageRank())
			return nil
		}},
		job{wl: "W7", name: "pagerank-" + label, n: 10 * n * rounds, do: func(*stopwatch) error {
			_, err := solve(s.ctx, g, pageRank(n))
			return err
		}, after: func(r *record) {
			r.Extra["bytes_per_vertex"] = (vertices + 8*float64(n)) / float64(n) // its two offsets are the graph's
			r.Extra["bytes_per_edge"] = (edges - 8*float64(n)) / float64(10*n)
		}},
	)
}

// agree checks the ranks of the vertex program.
func (s *suite) agree(g *vertex.Graph[none], byHand *compressed) error {
	got, err := solve(s.ctx, g, pageRank(byHand.n))
	if err != nil {
		return err
	}
	for v, want := range byHand.pageRank() {
		if math.Abs(got[v]-want) > 1e-9 {
			return fmt.Errorf("vertex %d has rank %g by hand and %g by program", v, want, got[v])
		}
	}
	return nil
}

func (s *suite) components(n int, label string) {
	l := rmat(n, 10*n, 42)
	byHand := unionFind(l, n)
	l.Undirected = true
	g, err := l.Build(n)
	var got []int32
	if err == nil {
		got, err = solve(s.ctx, g, components())
	}
	for v := range got {
		if got[v] != byHand[v] {
			err = fmt.Errorf("vertex %d is of component %d by hand and %d by program", v, byHand[v], got[v])
		}
	}
	if err != nil {
		s.fail("W7", "cc-"+label, err)
		return
	}
	s.together(
		job{peer: bare, wl: "W7", name: "cc-union-find-" + label, n: 10 * n, do: func(*stopwatch) error {
			runtime.KeepAlive(unionFind(l, n))
			return nil
		}},
		job{wl: "W7", name: "cc-" + label, n: 10 * n, do: func(*stopwatch) error {
			_, err := solve(s.ctx, g, components())
			return err
		}},
	)
}

// compressed is a graph as a program written for this one task would keep it.
type compressed struct {
	n      int
	off    []uint32
	from   []uint32 // of the edges into each vertex
	degree []uint32 // of the edges out of it
}

func compress(l *vertex.EdgeList[none], n int) *compressed {
	c := &compressed{n: n, off: make([]uint32, n+1), from: make([]uint32, len(l.To)), degree: make([]uint32, n)}
	for i, v := range l.To {
		c.off[v+1]++
		c.degree[l.From[i]]++
	}
	for v := range n {
		c.off[v+1] += c.off[v]
	}
	at := append([]uint32(nil), c.off[:n]...)
	for i, v := range l.To {
		c.from[at[v]] = uint32(l.From[i])
		at[v]++
	}
	return c
}

// pageRank is plain loops over the edges into each vertex, a part of them on each processor.
func (c *compressed) pageRank() []float64 {
	rank, share := make([]float64, c.n), make([]float64, c.n)
	for v := range rank {
		rank[v] = 1 / float64(c.n)
	}
	base := 0.15 / float64(c.n)
	for range rounds {
		c.parts(func(lo, hi int) {
			for v := lo; v < hi; v++ {
				share[v] = 0
				if c.degree[v] > 0 {
					share[v] = rank[v] / float64(c.degree[v])
				}
			}
		})
		c.parts(func(lo, hi int) {
			for v := lo; v < hi; v++ {
				sum := 0.0
				for _, u := range c.from[c.off[v]:c.off[v+1]] {
					sum += share[u]
				}
				rank[v] = base + .85*sum
			}
		})
	}
	return rank
}

func (c *compressed) parts(do func(lo, hi int)) {
	n := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(c.n*i/n, c.n*(i+1)/n) })
	}
	wg.Wait()
}

// unionFind assigns each vertex the lowest index of its component.
func unionFind(l *vertex.EdgeList[none], n int) []int32 {
	root := make([]int32, n)
	for v := range root {
		root[v] = int32(v)
	}
	find := func(v int32) int32 {
		for root[v] != v {
			root[v] = root[root[v]]
			v = root[v]
		}
		return v
	}
	for i, u := range l.From {
		a, b := find(u), find(l.To[i])
		root[max(a, b)] = min(a, b)
	}
	for v := range root {
		root[v] = find(int32(v))
	}
	return root
}
