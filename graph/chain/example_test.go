package chain_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/chain"
)

// A chain says a graph in the order in which things happen.
func ExampleStart() {
	says := func(name, text string) chain.Node[brief, note] {
		return chain.Step(name, func(context.Context, brief) (note, error) { return note{text}, nil })
	}
	flow, err := chain.Start(graph.New("brief", addNote), says("plan", "a plan")).
		Loop(func(b brief) bool { return len(b.Notes) >= 3 },
			says("search", "a source")).
		Parallel(graph.All,
			says("write", "a text"),
			chain.Seq(says("sketch", "a sketch"), says("draw", "a picture"))).
		Then(says("print", "a proof")).
		If(func(b brief) bool { return b.Topic == "Pregel" }).
		Then(says("publish", "published")).
		Else().
		Then(says("shelve", "shelved")).
		EndIf().
		Catch(says("apologize", "an apology")).
		Compile()
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
	// a plan
	// a source
	// a source
	// a text
	// a sketch
	// a picture
	// a proof
	// published
}

// Everything that is wrong with a chain is told at once, with its place.
func ExampleChain_Compile_mistakes() {
	done := chain.Step("done", func(context.Context, brief) (note, error) { return note{}, nil })
	_, err := chain.Start(graph.New("brief", addNote), done).
		Else().
		Loop(func(brief) bool { return true }).
		Then(done).
		Compile()
	fmt.Println(err)
	// Output:
	// graph "brief" has 3 mistakes:
	//   - Else after node "done": there is no If before it
	//   - Loop after node "done": its body is empty
	//   - Then after node "done": there is a node "done" already
}
