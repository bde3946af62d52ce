package node_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

// The agents of a run share one pool, whichever nodes began them.
func TestAgentsOfARunShareOnePool(t *testing.T) {
	for _, tc := range []struct {
		agents int
		took   time.Duration
	}{{0, 6 * time.Second}, {13, 2 * time.Second}, {1, 26 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			m := &scripted.Model{Answer: func(*model.Request) scripted.Turn {
				turn := scripted.Say("done")
				turn.Delay = time.Second
				return turn
			}}
			g := graph.New("pool", reduce)
			for i := range 4 {
				name := fmt.Sprintf("crew%d", i)
				g.AddNode(node.Subagents(name, []*agent.Agent{named("worker", m)}, func(state) ([]node.Job, error) {
					return []node.Job{{Prompt: "1"}, {Prompt: "2"}, {Prompt: "3"}, {Prompt: "4"}, {Prompt: "5"}, {Prompt: "6"}}, nil
				}, func(state, []node.Result[*agent.Outcome]) (update, error) { return update{}, nil }, &node.SubagentsOptions{Width: 6}))
				g.Edge(graph.Start, name)
				g.Edge(name, graph.End)
			}
			for _, name := range []string{"one", "two"} {
				g.AddNode(node.Agent(name, named(name, m), topic, func(state, *agent.Outcome) (update, error) { return update{}, nil }))
				g.Edge(graph.Start, name)
				g.Edge(name, graph.End)
			}
			flow, err := g.Compile()
			if err != nil {
				t.Fatal(err)
			}
			j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}, Agents: tc.agents})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := flow.Run(t.Context(), state{Topic: "go"}, &graph.RunOptions{Journal: j}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != tc.took {
				t.Errorf("%d at once: 26 agents took %v, want %v", tc.agents, took, tc.took)
			}
		})
	}
}
