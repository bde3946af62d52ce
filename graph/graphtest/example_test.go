package graphtest_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/graphtest"
)

func ExampleKillEverywhere() { //nolint:testableexamples // it is part of a test
	t := new(testing.T) // that of your test
	g := graph.New("greet", func(s, u string) string { return s + u })
	g.Add("greet", func(ctx context.Context, name string) (string, error) {
		return graph.Do(ctx, "mail", func(context.Context, string) (string, error) { return ": sent", nil })
	})
	g.Edge(graph.Start, "greet")
	g.Edge("greet", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	graphtest.KillEverywhere(t, flow, "Ada", nil)
}
