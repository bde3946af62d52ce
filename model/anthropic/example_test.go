package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
)

func Example() {
	// In place of Anthropic, a server on this machine that speaks its protocol.
	reply := modeltest.Reply{Parts: []model.Part{
		{Kind: model.Reasoning, Text: "Königsberg had seven.", Opaque: &model.Opaque{Data: json.RawMessage(`"c2lnbmF0dXJl"`)}},
		{Kind: model.Text, Text: "Seven bridges."},
		{Kind: model.UsagePart, Usage: &model.Usage{In: 1200, Out: 20, Cached: 1000, Reasoning: 12}},
	}}
	server, err := modeltest.Start(modeltest.Sequence(reply), &modeltest.Options{Wire: modeltest.Anthropic{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	m, err := anthropic.New(&anthropic.Options{
		Model: "claude-sonnet-4-6", BaseURL: server.URL, APIKey: "sk-ant-example",
		Thinking: anthropic.Adaptive, Effort: "medium",
		Price: &model.Price{In: 3, Out: 15, Cached: 0.3, Written: 3.75},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &model.Request{Messages: []model.Message{model.UserText("How many bridges had Königsberg?")}}
	turn, err := model.Collect(m.Generate(context.Background(), req), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range turn.Message.Parts {
		fmt.Println(p.Kind, p.Text, p.Opaque != nil) // what is opaque goes back with the message
	}
	price, _ := m.Price()
	fmt.Println(turn.Stop, price.Of(turn.Usage), "millionths of a dollar")
	// Output:
	// reasoning Königsberg had seven. true
	// text Seven bridges. false
	// end 1200 millionths of a dollar
}
