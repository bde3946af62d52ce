package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// readStore counts the records that are read.
type readStore struct {
	*runlog.Memory
	n atomic.Int64
}

func (s *readStore) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := s.Memory.Read(ctx, id, from, limit)
	s.n.Add(int64(len(recs)))
	return recs, err
}

// What answering questions one by one in one journal reads grows with their number, not with its square:
// each execution begins at the last snapshot there is, not at that of the opening.
func TestAnsweringIsLinear(t *testing.T) {
	reads := func(questions int) int64 {
		g := graph.New("ask", reduce)
		g.AddNode(graph.Node[state, update]{Name: "ask", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
			n, err := graph.Ask[int](ctx, graph.Question{Key: "q", Text: fmt.Sprint("How much is ", s.N, "?")})
			return update{Add: n}, err
		}})
		g.Edge(graph.Start, "ask")
		g.Branch("ask", func(s state) string {
			if s.N == questions {
				return graph.End
			}
			return "ask"
		}, "ask", graph.End)
		f := compile(t, g)
		store := &readStore{Memory: runlog.NewMemory(nil)}
		j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, SnapshotAfter: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for range questions {
			_, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, MaxSteps: 1000})
			var wait *pregel.WaitingError
			if !errors.As(err, &wait) {
				t.Fatal(err)
			}
			if err := j.Answer(t.Context(), wait.Paths[0], &runlog.Answer{Key: "q", Value: json.RawMessage("1")}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, MaxSteps: 1000}); err != nil || got.N != questions {
			t.Fatalf("got %+v, %v", got, err)
		}
		return store.n.Load()
	}
	if few, many := reads(50), reads(200); many > 6*few {
		t.Errorf("%d records are read for 50 questions, %d for 200", few, many)
	}
}
