//go:build unix

package crash_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

type none = struct{}

// BenchmarkVertices compares vertex programs whose runs are kept in a store, with a checkpoint every 5 supersteps, with the same run kept nowhere. The
// metric %more is by how much a run takes longer, side by side.
func BenchmarkVertices(b *testing.B) {
	const n, degree = 200_000, 10
	random := rand.New(rand.NewPCG(1, 2))
	var edges vertex.EdgeList[none]
	for v := range n * degree {
		edges.Add(int32(v%n), int32(float64(n)*math.Pow(random.Float64(), 2)))
	}
	directed, err := edges.Build(n)
	if err != nil {
		b.Fatal(err)
	}
	edges.Undirected = true
	undirected, err := edges.Build(n)
	if err != nil {
		b.Fatal(err)
	}
	rank := &vertex.Program[float64, none, float64]{Combine: vertex.CombineSum[float64](),
		Compute: func(c *vertex.Context[float64, none, float64], _ int32, rank *float64, in []float64) vertex.Vote {
			if *rank = 1.0 / n; len(in) > 0 {
				*rank = 0.15/n + 0.85*in[0]
			}
			if c.Step() == 30 {
				return vertex.Halt
			}
			c.SendToNeighbors(*rank / float64(c.Degree()))
			return vertex.Stay
		}}
	lowest := &vertex.Program[int32, none, int32]{Combine: vertex.CombineMin[int32](),
		Compute: func(c *vertex.Context[int32, none, int32], v int32, lowest *int32, in []int32) vertex.Vote {
			least := v
			if c.Step() > 0 {
				least = in[0]
			}
			if c.Step() == 0 || least < *lowest {
				*lowest = least
				c.SendToNeighbors(least)
			}
			return vertex.Halt
		}}
	b.Run("pagerank", func(b *testing.B) { beside(b, directed, rank) })
	b.Run("components", func(b *testing.B) { beside(b, undirected, lowest) })
}

func beside[V, M any](b *testing.B, g *vertex.Graph[none], prog *vertex.Program[V, none, M]) {
	w, err := workflow.Vertices("job", "A vertex program.", func(context.Context, struct{}) (*workflow.Computation[V, none, M, int], error) {
		return &workflow.Computation[V, none, M, int]{Graph: g, Program: prog, Result: func(r *vertex.Run[V, none, M]) (int, error) { return r.Step(), nil }}, nil
	}, &workflow.VerticesOptions{Every: 5})
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range append(backends(), backend{name: "memory"}) {
		b.Run(kind.name, func(b *testing.B) {
			var s runlog.Store = runlog.NewMemory(nil)
			if kind.open != nil {
				opened, err := crash.Open(b.Context(), kind.open(b).url, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer opened.Close()
				s = opened
			}
			e, err := superstep.New(s, &superstep.Options{Workflows: workflow.Set{w}})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			var bare, kept time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				r, err := vertex.NewRun(g, prog, nil)
				if err == nil {
					err = r.Run(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
				bare += time.Since(begin)
				begin = time.Now()
				run, err := e.Start(b.Context(), "job", nil, &superstep.StartOptions{ID: fmt.Sprintf("run-%d", i)})
				if err != nil {
					b.Fatal(err)
				}
				if out, err := run.Wait(b.Context()); err != nil || out.Status != runlog.Completed {
					b.Fatal(out, err)
				}
				kept += time.Since(begin)
				if err := e.Delete(b.Context(), run.ID()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(100*(float64(kept)/float64(bare)-1), "%more")
			b.ReportMetric(float64(bare.Milliseconds())/float64(b.N), "ms-bare")
		})
	}
}
