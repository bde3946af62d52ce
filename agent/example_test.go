package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
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
	_, answer, _ := strings.Cut(out.Text, "\n\n") // it says first that it only quotes
	fmt.Println(out.Stop)
	fmt.Println(answer)
	// Output:
	// said
	// notes.md:3
	// > A run survives a crash because every step is in its log.
}

// careful has a person asked about everything but what changes nothing.
type careful struct{}

func (careful) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	if t.Effect == tool.Pure {
		return tool.Verdict{Decision: tool.Allow}
	}
	return tool.Verdict{Decision: tool.Ask, Subject: string(c.Args)}
}

// A person decides on a call, and the run waits for that.
func ExampleAgent_gate() {
	ctx := context.Background()
	remove := &tool.Tool{Name: "remove", Input: &jsonschema.Schema{Type: "object"}, Run: func(context.Context, *tool.Call) (string, error) {
		return "removed", nil
	}}
	tools, err := tool.NewSet(remove)
	if err != nil {
		panic(err)
	}
	m := &scripted.Model{Turns: []scripted.Turn{scripted.Call("remove", `{"path": "notes"}`), scripted.Say("I was not allowed to.")}}
	a := &agent.Agent{Name: "cleaner", Model: m, Tools: tools, Gate: careful{}}
	j, err := journal.Open(ctx, runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = j.Close(ctx) }()
	_, err = a.Run(ctx, j.Scope("clean"), &agent.Work{Prompt: "Clean up."})
	fmt.Println("waits:", journal.Waits(err))
	for _, q := range j.Open() {
		fmt.Println(strings.Fields(q.Text), q.Options)
		if err := j.Answer(ctx, q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"deny: I need them"`)}); err != nil {
			panic(err)
		}
	}
	out, err := a.Run(ctx, j.Scope("clean"), &agent.Work{Prompt: "Clean up."})
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Messages[2].Parts[0].Text)
	fmt.Println(out.Text)
	// Output:
	// waits: true
	// [May cleaner call remove? {"path":"notes"}] [once run deny]
	// denied: I need them
	// I was not allowed to.
}
