package agent_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/workflow"
)

func Example() {
	polite := &scripted.Model{ID: "acme/polite", Turns: []scripted.Turn{scripted.Say("You said: hello")}}
	w, err := delegate.New(&delegate.Options{
		Prepare: func(in *delegate.Inputs) error { in.Model = polite.Name(); return nil },
		Open: func(_ context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
			return &delegate.Crew{Agent: &agent.Agent{Name: in.Agent, Prompt: "Be polite.", Model: polite}}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	res, err := w.Run(context.Background(), &workflow.Exec{Inputs: json.RawMessage(`{"prompt":"hello"}`), Graph: graph.RunOptions{}})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(res.Output))
	// Output: {"text":"You said: hello","agent":"general-purpose","model":"acme/polite"}
}
