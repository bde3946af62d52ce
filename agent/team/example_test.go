package team_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

func Example() {
	echo := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		return scripted.Say(r.System + " says: " + r.Messages[0].Text())
	}}
	t, err := team.New(&team.Options{
		Agents: func(name string) (*agent.Agent, error) {
			return &agent.Agent{Name: name, Prompt: name, Model: echo}, nil
		},
		List:  func() []team.Info { return []team.Info{{Name: "explorer", Description: "finds things out"}} },
		Limit: 2,
	})
	if err != nil {
		panic(err)
	}
	defer t.Close()
	ctx := context.Background()
	j, err := journal.Open(ctx, runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		panic(err)
	}
	defer func() { _ = j.Close(ctx) }()
	results, err := t.SpawnAll(ctx, j.Scope("research"), []team.Job{
		{Agent: "explorer", Prompt: "the code"},
		{Agent: "explorer", Prompt: "the tests"},
		{Agent: "explorer"},
	})
	if err != nil {
		panic(err)
	}
	for _, r := range results {
		fmt.Println(r.ID, r.Success, r.Output+r.Error)
	}
	// Output:
	// research/explorer[1] true explorer says: the code
	// research/explorer[2] true explorer says: the tests
	// research/explorer[3] false it has no prompt; say what is to be done
}
