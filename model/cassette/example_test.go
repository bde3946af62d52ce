package cassette_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/cassette"
	"github.com/superstep-dev/superstep/model/openai"
)

func Example() {
	// Record: any model will do, here one of a server on this machine.
	server, err := modeltest.Start(modeltest.Sequence(modeltest.Text("It is Kaliningrad now.")), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := openai.New(&openai.Options{Model: "gpt-5", BaseURL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	var tape bytes.Buffer // a file, in earnest
	ask := func(m model.Model, question string) {
		req := &model.Request{Messages: []model.Message{model.UserText(question)}}
		turn, err := model.Collect(m.Generate(context.Background(), req), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(m.Name(), "says:", turn.Message.Text())
	}
	ask(cassette.Record(m, &tape), "Where is Königsberg?")
	server.Close()

	// Play: nobody is asked any more.
	player, err := cassette.Open(&tape, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ask(player, "Where is Königsberg now?")
	ask(player, "Where is Königsberg?")
	// Output:
	// openai/gpt-5 says: It is Kaliningrad now.
	// openai/gpt-5: this request was not recorded; the nearest is that of turn 1 of 1: message 1 is "Where is Königsberg now?", recorded "Where is Königsberg?"; record the cassette again if that is meant
	// openai/gpt-5 says: It is Kaliningrad now.
}
