package graph_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A brief is the state of a graph; what its nodes return are notes.
type brief struct {
	Topic string   `json:"topic"`
	Notes []string `json:"notes,omitempty"`
}

type note struct {
	Text string `json:"text"`
}

func addNote(b brief, n note) brief {
	b.Notes = append(b.Notes[:len(b.Notes):len(b.Notes)], n.Text)
	return b
}

func Example() {
	g := graph.New("brief", addNote)
	g.Add("search", func(_ context.Context, b brief) (note, error) {
		return note{fmt.Sprintf("source %d about %s", len(b.Notes)+1, b.Topic)}, nil
	})
	g.Add("write", func(_ context.Context, b brief) (note, error) {
		return note{fmt.Sprintf("a brief from %d sources", len(b.Notes))}, nil
	})
	g.Edge(graph.Start, "search")
	g.Branch("search", func(b brief) string {
		if len(b.Notes) < 2 {
			return "search"
		}
		return "write"
	}, "search", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	final, err := flow.Run(context.Background(), brief{Topic: "Pregel"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range final.Notes {
		fmt.Println(n)
	}
	// Output:
	// source 1 about Pregel
	// source 2 about Pregel
	// a brief from 2 sources
}

// With a journal a run can be continued by whoever opens its log next. Nodes that were
// done are not run again.
func Example_durable() {
	broken := true
	g := graph.New("brief", addNote)
	g.AddNode(graph.Node[brief, note]{Name: "search", Run: func(ctx context.Context, t *graph.Task, b brief) (note, error) {
		found, err := graph.Do(ctx, "query", func(context.Context, string) (string, error) {
			fmt.Println("searching for", b.Topic)
			return "a source", nil
		})
		return note{found}, err
	}})
	g.Add("write", func(context.Context, brief) (note, error) {
		if broken {
			return note{}, fmt.Errorf("the printer is out of paper")
		}
		return note{"a brief"}, nil
	})
	g.Edge(graph.Start, "search")
	g.Edge("search", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	store := runlog.NewMemory(nil) // sqlite.Open gives one that outlives the process
	try := func(opt *journal.Options) {
		j, err := journal.Open(ctx, store, "my-run", opt)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer j.Close(ctx)
		final, err := flow.Run(ctx, brief{Topic: "Pregel"}, &graph.RunOptions{Journal: j})
		if err != nil {
			fmt.Println("stopped:", err)
			return
		}
		fmt.Println("finished:", final.Notes)
	}
	try(&journal.Options{Create: &runlog.NewRun{Workflow: "brief"}})
	broken = false
	try(nil)
	// Output:
	// searching for Pregel
	// stopped: node write: the printer is out of paper
	// finished: [a source a brief]
}

func ExampleFlow_Stream() {
	g := graph.New("brief", addNote)
	g.Add("search", func(_ context.Context, b brief) (note, error) { return note{"a source about " + b.Topic}, nil })
	g.Edge(graph.Start, "search")
	g.Edge("search", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range flow.Stream(context.Background(), brief{Topic: "Pregel"}, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e.Kind {
		case "text": // of a model, piece by piece
			fmt.Print(e.Text)
		case "started", "done":
			fmt.Println(e.Path, e.Kind)
		case "step":
			fmt.Println("step", e.Step, e.State.Notes)
		}
	}
	// Output:
	// step 0 []
	// search started
	// search done
	// step 1 [a source about Pregel]
}
