package draw_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A graph is drawn as it is, and as far as a run of it has come.
func Example() {
	ctx := context.Background()
	g := graph.New("brief", func(n, more int) int { return n + more })
	one := func(context.Context, int) (int, error) { return 1, nil }
	g.Add("search", one)
	g.Add("write-up", one)
	g.Edge(graph.Start, "search")
	g.Branch("search", func(n int) string {
		if n < 2 {
			return "search"
		}
		return "write-up"
	}, "search", "write-up")
	g.Edge("write-up", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(draw.Text(flow.Shape(), nil))

	store := runlog.NewMemory(nil)
	j, err := journal.Open(ctx, store, "my-run", &journal.Options{Create: &runlog.NewRun{Workflow: "brief"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer j.Close(ctx)
	if _, err := flow.Run(ctx, 0, &graph.RunOptions{Journal: j}); err != nil {
		fmt.Println(err)
		return
	}
	status, err := draw.Status(runlog.Records(ctx, store, "my-run", 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(draw.Text(flow.Shape(), &draw.Options{Title: "brief", Status: status}))
	// Output:
	// 2 nodes, 4 edges
	// start
	//   → search
	// search
	//   → search (branch)
	//   → write-up (branch)
	// write-up
	//   → end
	// brief: 2 nodes, 4 edges
	// start
	//   → search
	// search: ✓ done ×2
	//   → search (branch)
	//   → write-up (branch)
	// write-up: ✓ done
	//   → end
}
