package node_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/chain"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// The workflow of docs/atomic.md, word for word.

type myState struct{ Topic, Research, Result string }

func fold(s, u myState) myState {
	if u.Research != "" {
		s.Research = u.Research
	}
	if u.Result != "" {
		s.Result = u.Result
	}
	return s
}

func myWorkflow(analyzer, worker *agent.Agent) (*graph.Flow[myState, myState], error) {
	research := node.Agent("research", analyzer,
		func(s myState) (string, error) { return "Research: " + s.Topic, nil },
		func(_ myState, out *agent.Outcome) (myState, error) { return myState{Research: out.Text}, nil })
	implement := node.Agent("implement", worker,
		func(s myState) (string, error) { return "Implement " + s.Topic + "\n" + s.Research, nil },
		func(_ myState, out *agent.Outcome) (myState, error) { return myState{Result: out.Text}, nil })
	return chain.Start(graph.New("my-workflow", fold), chain.Of(research)).
		Then(chain.Of(implement)).
		Compile()
}

func Example_atomic() {
	m := &scripted.Model{Answer: func(*model.Request) scripted.Turn { return scripted.Say("done") }}
	flow, err := myWorkflow(&agent.Agent{Name: "analyzer", Model: m}, &agent.Agent{Name: "worker", Model: m})
	if err != nil {
		fmt.Println(err)
		return
	}
	final, err := flow.Run(context.Background(), myState{Topic: "caches"}, nil)
	fmt.Println(err, final.Research != "", final.Result != "")
	// Output: <nil> true true
}
