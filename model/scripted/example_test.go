package scripted_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// An agent is tested with the turns of its model written down.
func Example() {
	search, err := tool.New("search", "Search the docs.", func(_ context.Context, in struct {
		Query string `json:"query"`
	}) (string, error) {
		return "found: " + in.Query, nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		panic(err)
	}
	tools, err := tool.NewSet(search)
	if err != nil {
		panic(err)
	}
	m := &scripted.Model{Turns: []scripted.Turn{
		scripted.Call("search", `{"query":"crash"}`).Using(100, 20),
		scripted.Say("It resumes.").Using(150, 10),
	}}
	a := &agent.Agent{Name: "helper", Model: m, Tools: tools}
	out, err := a.Run(context.Background(), nil, &agent.Work{Prompt: "What happens in a crash?"})
	if err != nil {
		panic(err)
	}
	last := m.Requests()[1].Messages
	fmt.Println(last[len(last)-1].Parts[0].Text)
	fmt.Println(out.Text, out.Usage.In, out.Usage.Out)
	fmt.Println(m.Unused())
	// Output:
	// found: crash
	// It resumes. 250 30
	// <nil>
}

// Agents side by side have a script each, so that their order does not matter.
func ExamplePrompt() {
	m := &scripted.Model{
		Prompts: []scripted.Prompt{
			{Has: "the code", Turns: []scripted.Turn{scripted.Say("The code is fine.")}},
			{Has: "the tests", Turns: []scripted.Turn{scripted.Say("One test fails.")}},
		},
		Answer: func(r *model.Request) scripted.Turn { return scripted.Say("Nothing to do for " + r.Messages[0].Text()) },
	}
	for _, prompt := range []string{"review the tests", "review the code", "tea"} {
		a := &agent.Agent{Name: "reviewer", Model: m}
		out, err := a.Run(context.Background(), nil, &agent.Work{Prompt: prompt})
		if err != nil {
			panic(err)
		}
		fmt.Println(out.Text)
	}
	// Output:
	// One test fails.
	// The code is fine.
	// Nothing to do for tea
}
