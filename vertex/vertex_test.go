package vertex_test

import (
	"context"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/vertex"
)

type none = struct{}

// pageRank is the program of Malewicz et al. §5.1: what a vertex without edges holds is lost.
func pageRank(n, steps int) *vertex.Program[float64, none, float64] {
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
			if c.Step() == steps {
				return vertex.Halt
			}
			c.SendToNeighbors(*rank / float64(c.Degree()))
			return vertex.Stay
		},
		Combine: vertex.CombineSum[float64](),
	}
}

// components gives every vertex the lowest index it can reach along edges in both directions.
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

// shortest gives every vertex its distance from the entry.
func shortest() *vertex.Program[float64, float64, float64] {
	return &vertex.Program[float64, float64, float64]{
		Compute: func(c *vertex.Context[float64, float64, float64], _ int32, dist *float64, in []float64) vertex.Vote {
			switch {
			case c.Step() == 0:
				*dist = 0
			case in[0] < *dist:
				*dist = in[0]
			default:
				return vertex.Halt
			}
			length := c.EdgeValues()
			for i, to := range c.Targets() {
				c.Send(to, *dist+length[i])
			}
			return vertex.Halt
		},
		Combine: vertex.CombineMin[float64](),
	}
}

// rmat makes the edges of the W7 workload: m edges over n vertices by recursive matrix
// with a=.57, b=.19, c=.19, and relabelled at random.
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

func build[E any](t testing.TB, l *vertex.EdgeList[E], n int) *vertex.Graph[E] {
	t.Helper()
	g, err := l.Build(n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func runVertices[V, E, M any](t testing.TB, g *vertex.Graph[E], p *vertex.Program[V, E, M], values []V, o *vertex.Options[V, E, M], entries ...int32) *vertex.Run[V, E, M] {
	t.Helper()
	r, err := vertex.NewRun(g, p, values, entries...)
	if err == nil {
		err = r.Run(context.Background(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pageRankPlain(n, steps int, l *vertex.EdgeList[none]) []float64 {
	degree, rank := make([]int, n), make([]float64, n)
	for i := range rank {
		rank[i] = 1 / float64(n)
	}
	for _, u := range l.From {
		degree[u]++
	}
	for range steps {
		next := make([]float64, n)
		for i, u := range l.From {
			next[l.To[i]] += rank[u] / float64(degree[u])
		}
		for v := range next {
			next[v] = 0.15/float64(n) + 0.85*next[v]
		}
		rank = next
	}
	return rank
}

// union is union-find, with the lowest vertex of a component as its name.
func union(n int, from, to []int32) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	find := func(x int32) int32 {
		for p[x] != x {
			p[x] = p[p[x]]
			x = p[x]
		}
		return x
	}
	for i := range from {
		a, b := find(from[i]), find(to[i])
		p[max(a, b)] = min(a, b)
	}
	for i := range p {
		p[i] = find(int32(i))
	}
	return p
}

func TestPageRank(t *testing.T) {
	for _, n := range []int{1, 10, 1000, 20_000} {
		l := rmat(n, n*8*min(1, n-1), 42)
		want := pageRankPlain(n, 20, l)
		got := runVertices(t, build(t, l, n), pageRank(n, 20), nil, nil)
		if got.Step() != 21 {
			t.Errorf("%d vertices took %d supersteps", n, got.Step())
		}
		for v, x := range got.Values() {
			if math.Abs(x-want[v]) > 1e-12 {
				t.Fatalf("%d vertices: rank of %d is %g, want %g", n, v, x, want[v])
			}
		}
	}
}

func TestComponents(t *testing.T) {
	for _, n := range []int{2, 50, 1000, 50_000} {
		l := rmat(n, n, 7)
		l.Undirected = true
		got := runVertices(t, build(t, l, n), components(), nil, nil)
		if want := union(n, l.From, l.To); !slices.Equal(got.Values(), want) {
			t.Errorf("%d vertices: components differ", n)
		}
	}
}

func perEdge(b *testing.B, edges, steps int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(edges)/float64(steps), "ns/edge-superstep")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/op")
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkPageRank(b *testing.B) {
	for name, n := range map[string]int{"100k-1M": 100_000, "1M-10M": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			l := rmat(n, 10*n, 42)
			empty := heapBytes()
			g := build(b, l, n)
			runVertices(b, g, pageRank(n, 1), nil, nil) // the edges seen from their targets
			graph := heapBytes() - empty
			b.ResetTimer()
			var r *vertex.Run[float64, none, float64]
			for range b.N {
				r = runVertices(b, g, pageRank(n, 20), nil, nil)
			}
			b.StopTimer()
			perEdge(b, 10*n, 20)
			both := heapBytes() - empty
			b.ReportMetric(float64(both-8*10*uint64(n))/float64(n), "B/vertex")
			b.ReportMetric(float64(graph-8*uint64(n))/float64(10*n), "B/edge")
			runtime.KeepAlive(r)
			runtime.KeepAlive(g)
			runtime.KeepAlive(l)
		})
	}
}

// BenchmarkSend is PageRank with a message of its own for every edge.
func BenchmarkSend(b *testing.B) {
	const n = 1_000_000
	l := rmat(n, 10*n, 42)
	g := build(b, l, n)
	p := pageRank(n, 5)
	said := p.Compute
	p.Compute = func(c *vertex.Context[float64, none, float64], v int32, rank *float64, in []float64) vertex.Vote {
		if c.Step() < 5 {
			*rank = 0.15/n + 0.85*append(in, 0)[0]
			for _, to := range c.Targets() {
				c.Send(to, *rank/float64(c.Degree()))
			}
			return vertex.Stay
		}
		return said(c, v, rank, in)
	}
	for _, apart := range []bool{false, true} {
		b.Run(map[bool]string{false: "combined", true: "apart"}[apart], func(b *testing.B) {
			if apart {
				p.Combine = nil
			}
			for range b.N {
				runVertices(b, g, p, nil, nil)
			}
			perEdge(b, 10*n, 5)
		})
	}
}

func BenchmarkComponents(b *testing.B) {
	for name, n := range map[string]int{"100k-1M": 100_000, "1M-10M": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			l := rmat(n, 10*n, 42)
			l.Undirected = true
			g := build(b, l, n)
			b.ResetTimer()
			for range b.N {
				runVertices(b, g, components(), nil, nil)
			}
			perEdge(b, 10*n, 1)
		})
	}
}
