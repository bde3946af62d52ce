package gemini_test

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/gemini"
)

func Example() {
	// In place of the service, a server on this machine that asks for a tool and then answers.
	server, err := modeltest.Start(modeltest.Sequence(
		modeltest.Call("weather", `{"city":"Kaliningrad"}`),
		modeltest.Text("It snows."),
	), &modeltest.Options{Wire: modeltest.Gemini{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	m, err := gemini.New(&gemini.Options{Model: "gemini-2.5-flash", BaseURL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &model.Request{
		Messages: []model.Message{model.UserText("What is the weather in Kaliningrad?")},
		Tools: []model.ToolSpec{{Name: "weather", Input: &jsonschema.Schema{
			Type: "object", Properties: map[string]*jsonschema.Schema{"city": {Type: "string"}},
		}}},
	}
	for {
		turn, err := model.Collect(m.Generate(context.Background(), req), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Messages = append(req.Messages, turn.Message)
		if turn.Stop != model.StopCalls {
			fmt.Println(m.Name(), "says:", turn.Message.Text())
			return
		}
		for _, call := range turn.Message.Calls() {
			fmt.Println(call.Name, string(call.Args))
			req.Messages = append(req.Messages, model.ToolResult(call, "-4 °C, snow", false))
		}
	}
	// Output:
	// weather {"city":"Kaliningrad"}
	// gemini/gemini-2.5-flash says: It snows.
}
