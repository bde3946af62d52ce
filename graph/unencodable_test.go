package graph_test

import (
	"context"
	"math"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

type loose struct {
	Scores []float64
	Any    any
}

// What cannot be encoded is found where it is made, with its field, with and without a journal.
func TestUnencodable(t *testing.T) {
	last := func(_, u loose) loose { return u }
	for _, tc := range []struct {
		name   string
		state  loose
		update loose
		reduce func(s, u loose) loose
		opt    graph.RunOptions
		want   string
		lasts  bool // it is not seen without a journal
	}{
		{"a number", loose{}, loose{Scores: []float64{1, math.NaN()}}, last, graph.RunOptions{},
			"node work: its update cannot be encoded: loose.Scores[1]: NaN cannot be encoded", false},
		{"under any", loose{}, loose{Any: map[string]any{"done": make(chan int)}}, last, graph.RunOptions{},
			"node work: its update cannot be encoded: loose.Any[done]: chan int cannot be encoded", false},
		{"the initial state", loose{Any: math.Inf(1)}, loose{}, last, graph.RunOptions{},
			`graph "g": the initial state cannot be encoded: loose.Any: +Inf cannot be encoded`, false},
		{"a reducer", loose{}, loose{}, func(loose, loose) loose { return loose{Any: math.NaN()} }, graph.RunOptions{SnapshotEvery: 1},
			`graph "g": the state of superstep 1 cannot be encoded: loose.Any: NaN cannot be encoded`, true},
	} {
		for _, journal := range []bool{false, true} {
			g := graph.New("g", tc.reduce)
			g.Add("work", func(context.Context, loose) (loose, error) { return tc.update, nil })
			g.Add("more", func(context.Context, loose) (loose, error) { return loose{}, nil })
			g.Edge(graph.Start, "work")
			g.Edge("work", "more")
			g.Edge("more", graph.End)
			flow, err := g.Compile()
			if err != nil {
				t.Fatal(err)
			}
			opt, want := tc.opt, tc.want
			if journal {
				opt.Journal = open(t, runlogtest.NewMortal(), true)
			} else if tc.lasts {
				want = ""
			}
			got := ""
			if _, err := flow.Run(t.Context(), tc.state, &opt); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s, journal %v: got  %q, want %q", tc.name, journal, got, want)
			}
		}
	}
}
