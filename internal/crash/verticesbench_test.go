//go:build unix

package crash_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

type none = struct{}

// BenchmarkVertices compares vertex programs whose runs are kept in a store, with a checkpoint every 5 supersteps, with the same run kept nowhere. The
// metric %more is by how much a run takes longer, side by side. In plain-file and plain-sqlite no store keeps it: the same values and messages are
// written and synced beside the next supersteps, without a log, a hash or anything else. No store can cost less.
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
	b.Run("plain-file", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "values"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		plainly(b, g, prog, func(data []byte) error {
			_, err := f.Write(data)
			return errors.Join(err, f.Sync())
		})
	})
	b.Run("plain-sqlite", func(b *testing.B) {
		c, err := zsqlite.OpenConn(filepath.Join(b.TempDir(), "values"), zsqlite.OpenReadWrite|zsqlite.OpenCreate)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		for _, q := range []string{"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=4000", "CREATE TABLE t (data BLOB NOT NULL)"} {
			if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
				b.Fatal(err)
			}
		}
		plainly(b, g, prog, func(data []byte) error {
			return sqlitex.ExecuteTransient(c, "INSERT INTO t (data) VALUES (?1)", &sqlitex.ExecOptions{Args: []any{data}})
		})
	})
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

// plainly compares a run whose values and messages are written every 5 supersteps, beside the next ones, with one that is kept nowhere.
func plainly[V, M any](b *testing.B, g *vertex.Graph[none], prog *vertex.Program[V, none, M], write func([]byte) error) {
	var bare, kept time.Duration
	var data []byte
	written := make(chan error, 1)
	for b.Loop() {
		for _, every := range []int{0, 5} {
			begin := time.Now()
			r, err := vertex.NewRun(g, prog, nil)
			if err != nil {
				b.Fatal(err)
			}
			if every == 0 {
				if err := r.Run(b.Context(), nil); err != nil {
					b.Fatal(err)
				}
				bare += time.Since(begin)
				continue
			}
			written <- nil
			for r.Active() > 0 {
				err := r.Run(b.Context(), &vertex.Options[V, none, M]{MaxSteps: r.Step() + every})
				if err != nil && !errors.As(err, new(*vertex.StepLimitError)) {
					b.Fatal(err)
				}
				s, err := r.Changes()
				if err = errors.Join(err, <-written); err != nil {
					b.Fatal(err)
				}
				go func() {
					data = data[:0]
					for _, list := range []any{s.Values, s.Votes, s.Changed, s.To, s.Messages} {
						data, _ = binary.Append(data, binary.LittleEndian, list)
					}
					written <- write(data)
				}()
			}
			if err := <-written; err != nil {
				b.Fatal(err)
			}
			kept += time.Since(begin)
		}
	}
	b.ReportMetric(100*(float64(kept)/float64(bare)-1), "%more")
	b.ReportMetric(float64(bare.Milliseconds())/float64(b.N), "ms-bare")
}
