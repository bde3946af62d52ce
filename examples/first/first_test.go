// Package first has the first programs of docs/graphs.md, word for word.
package first

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

type Text struct{ Topic, Found, Brief string }

func join(s, u Text) Text {
	return Text{cmp.Or(u.Topic, s.Topic), cmp.Or(u.Found, s.Found), cmp.Or(u.Brief, s.Brief)}
}

func search(_ context.Context, s Text) (Text, error) { return Text{Found: "all about " + s.Topic}, nil }

func write(_ context.Context, s Text) (Text, error) { return Text{Brief: "A brief: " + s.Found}, nil }

func twoNodes(ctx context.Context) (Text, error) {
	g := graph.New("brief", join)
	g.Add("search", search)
	g.Add("write", write)
	g.Edge(graph.Start, "search")
	g.Edge("search", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile() // every mistake at once
	if err != nil {
		return Text{}, err
	}
	return flow.Run(ctx, Text{Topic: "Pregel"}, nil)
}

func agentWithATool(ctx context.Context, m model.Model) (Text, error) {
	type query struct{ Words string }
	look := func(_ context.Context, q query) (string, error) { return "all about " + q.Words, nil }
	library, err := tool.New("library", "Looks something up.", look, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return Text{}, err
	}
	tools, err := tool.NewSet(library)
	if err != nil {
		return Text{}, err
	}
	librarian := &agent.Agent{Name: "librarian", Prompt: "Look it up in the library.", Model: m, Tools: tools}
	g := graph.New("ask", join)
	g.AddNode(node.Agent("search", librarian,
		func(s Text) (string, error) { return "Find something about " + s.Topic, nil },
		func(_ Text, out *agent.Outcome) (Text, error) { return Text{Found: out.Text}, nil }))
	g.Edge(graph.Start, "search")
	g.Edge("search", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return Text{}, err
	}
	return flow.Run(ctx, Text{Topic: "Pregel"}, nil)
}

func durable(ctx context.Context, store runlog.Store, download func() (string, error)) (Text, error) {
	g := graph.New("brief", join)
	g.Add("search", func(ctx context.Context, _ Text) (Text, error) {
		found, err := graph.Do(ctx, "download", func(context.Context, string) (string, error) { return download() })
		return Text{Found: found}, err
	})
	g.Add("write", write)
	g.Edge(graph.Start, "search")
	g.Edge("search", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return Text{}, err
	}
	return flow.Run(ctx, Text{Topic: "Pregel"}, &graph.RunOptions{Store: store, ID: "my-run"})
}

type Sizes struct {
	Files []string `reduce:"union"`
	Total int      `reduce:"sum"`
}

func fanOut(ctx context.Context, files ...string) (Sizes, error) {
	tags, err := reduce.Tags[Sizes, Sizes]()
	if err != nil {
		return Sizes{}, err
	}
	g := graph.NewTagged("sizes", tags)
	g.Add("plan", func(context.Context, Sizes) (Sizes, error) { return Sizes{}, nil })
	g.AddNode(graph.Node[Sizes, Sizes]{Name: "measure", Run: func(_ context.Context, t *graph.Task, _ Sizes) (Sizes, error) {
		var file string
		err := t.Arg(&file)
		return Sizes{Total: len(file)}, err
	}})
	g.Edge(graph.Start, "plan")
	g.Fan("plan", node.Map("measure", func(s Sizes) []string { return s.Files }, nil), "measure")
	g.Edge("measure", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return Sizes{}, err
	}
	return flow.Run(ctx, Sizes{Files: files}, nil)
}

func question(ctx context.Context, store runlog.Store, answer string) (Text, error) {
	g := graph.New("publish", join)
	g.Add("approve", func(ctx context.Context, s Text) (Text, error) {
		answer, err := graph.Ask[string](ctx, graph.Question{Text: "Publish " + s.Topic + "?", Options: []string{"yes", "no"}})
		return Text{Brief: answer}, err
	})
	g.Edge(graph.Start, "approve")
	g.Edge("approve", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return Text{}, err
	}
	opt := &graph.RunOptions{Store: store, ID: "my-run"}
	final, err := flow.Run(ctx, Text{Topic: "Pregel"}, opt)
	var paused *graph.Paused
	if !errors.As(err, &paused) {
		return final, err
	}
	if err := flow.Answer(ctx, store, "my-run", paused.Questions[0], answer); err != nil {
		return final, err
	}
	return flow.Run(ctx, Text{}, opt)
}

func watch(ctx context.Context, flow *graph.Flow[Text, Text]) error {
	for e, err := range flow.Stream(ctx, Text{Topic: "Pregel"}, nil) {
		if err != nil {
			return err // the last one, as Run returns it
		}
		switch e.Kind {
		case "text":
			fmt.Print(e.Text)
		case "step":
			fmt.Println("step", e.Step, e.State)
		}
	}
	return nil
}

func Example_watch() {
	g := graph.New("brief", join)
	g.Add("search", search)
	g.Edge(graph.Start, "search")
	g.Edge("search", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(watch(context.Background(), flow))
	// Output:
	// step 0 {Pregel  }
	// step 1 {Pregel all about Pregel }
	// <nil>
}

func Example_twoNodes() {
	fmt.Println(twoNodes(context.Background()))
	// Output: {Pregel all about Pregel A brief: all about Pregel} <nil>
}

func Example_agentWithATool() {
	m := &scripted.Model{Turns: []scripted.Turn{scripted.Call("library", `{"Words":"Pregel"}`), scripted.Say("Supersteps.")}}
	fmt.Println(agentWithATool(context.Background(), m))
	// Output: {Pregel Supersteps. } <nil>
}

func Example_durable() {
	store, downloads := runlog.NewMemory(nil), 0
	for range 2 { // the second is given the end of the first
		fmt.Println(durable(context.Background(), store, func() (string, error) { downloads++; return "the paper", nil }))
	}
	fmt.Println(downloads)
	// Output:
	// {Pregel the paper A brief: the paper} <nil>
	// {Pregel the paper A brief: the paper} <nil>
	// 1
}

func Example_fanOut() {
	fmt.Println(fanOut(context.Background(), "one.go", "three.go"))
	// Output: {[one.go three.go] 14} <nil>
}

func Example_question() {
	fmt.Println(question(context.Background(), runlog.NewMemory(nil), "yes"))
	// Output: {Pregel  yes} <nil>
}
