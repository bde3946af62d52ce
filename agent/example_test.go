package agent_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/tool"
)

func Example() {
	type query struct {
		Query string `json:"query"`
	}
	search, err := tool.New("search", "Search the notes.", func(_ context.Context, in query) (string, error) {
		return "## notes.md:3-3\n3\tA run survives a crash because every step is in its log.\n", nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		panic(err)
	}
	tools, err := tool.NewSet(search)
	if err != nil {
		panic(err)
	}
	a := &agent.Agent{Name: "reader", Prompt: "Answer from the notes.", Model: offline.New(), Tools: tools}
	out, err := a.Run(context.Background(), nil, &agent.Work{Prompt: "How does a run survive a crash?"})
	if err != nil {
		panic(err)
	}
	answer, _, _ := strings.Cut(out.Text, "\n")
	fmt.Println(out.Stop, answer)
	// Output: said - “A run survives a crash because every step is in its log.” (notes.md:3)
}
