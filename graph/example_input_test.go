package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
)

// The node write wants a plan with two points. What the plan lacks is told to the node plan, which runs again.
func Example_input() {
	type State struct{ Plan, Text string }
	g := graph.New("brief", func(s, u State) State {
		if u.Plan != "" {
			s.Plan = u.Plan
		}
		s.Text += u.Text
		return s
	})
	g.AddNode(graph.Node[State, State]{
		Name: "plan", Reads: []string{},
		Run: func(_ context.Context, t *graph.Task, _ State) (State, error) {
			if wrong := t.Feedback(); len(wrong) > 0 {
				return State{Plan: "cost, risk"}, nil // a model would be shown what was wrong
			}
			return State{Plan: "cost"}, nil
		},
	})
	g.AddNode(graph.Node[State, State]{
		Name: "write", Reads: []string{"plan"},
		Input: &graph.Input[State]{
			Of:     func(s State) (any, error) { return strings.Split(s.Plan, ", "), nil },
			Schema: &jsonschema.Schema{Type: "array", MinItems: jsonschema.Ptr(2)},
			From:   "plan",
		},
		Run: func(_ context.Context, _ *graph.Task, s State) (State, error) {
			return State{Text: "About " + s.Plan}, nil
		},
	})
	g.Edge(graph.Start, "plan")
	g.Edge("plan", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		panic(err)
	}
	final, err := flow.Run(context.Background(), State{}, nil)
	fmt.Println(final.Text, err)
	// Output: About cost, risk <nil>
}

// The workflow train-model is a run of its own, which a worker with the label gpu executes.
func Example_child() {
	type State struct{ Data, Model string }
	g := graph.New("train", func(_, u State) State { return u })
	inputs := func(s State) (any, error) { return map[string]string{"data": s.Data}, nil }
	output := func(out json.RawMessage) (u State, err error) { return u, json.Unmarshal(out, &u.Model) }
	train := graph.Call("train", "train-model", inputs, output)
	train.Child = &graph.Child{Place: []string{"gpu"}, Budget: &runlog.Budget{Money: 2_500_000}}
	g.AddNode(train)
	g.Edge(graph.Start, "train")
	g.Edge("train", graph.End)
	_, err := g.Compile()
	fmt.Println(train.Child.Place, err)
	// Output: [gpu] <nil>
}
