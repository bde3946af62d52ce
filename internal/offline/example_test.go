package offline_test

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/model"
)

// found is what a search tool answers with: passages under their file and lines.
const found = `## docs/queue.md:13-13
13	The queue forgets a job once its result has been acknowledged. Others it keeps.
`

func Example() {
	m := offline.New()
	req := &model.Request{
		Messages: []model.Message{model.UserText("When does the queue forget a job?")},
		Tools: []model.ToolSpec{{Name: "search_files", Input: &jsonschema.Schema{
			Type: "object", Properties: map[string]*jsonschema.Schema{"query": {Type: "string"}},
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
			fmt.Println(turn.Message.Text())
			return
		}
		for _, call := range turn.Message.Calls() {
			fmt.Println(call.Name, string(call.Args))
			req.Messages = append(req.Messages, model.ToolResult(call,
				found, false))
		}
	}
	// Output:
	// search_files {"query":"When does the queue forget a job?"}
	// Offline model: it quotes, and writes no prose.
	//
	// docs/queue.md:13
	// > The queue forgets a job once its result has been acknowledged. Others it keeps.
}
