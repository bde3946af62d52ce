package delegate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/delegate"
)

// polite is a model that answers at once.
type polite struct{}

func (polite) Name() string { return "acme/polite" }

func (polite) Generate(_ context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		_ = yield(model.Part{Kind: model.Text, Text: "You said: " + r.Messages[0].Text()}, nil) &&
			yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

func Example() {
	w, err := delegate.New(&delegate.Options{
		Prepare: func(in *delegate.Inputs) error { in.Model = polite{}.Name(); return nil },
		Open: func(_ context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
			return &delegate.Crew{Agent: &agent.Agent{Name: in.Agent, Prompt: "Be polite.", Model: polite{}}}, nil
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
