//go:build unix

package acp_test

import (
	"context"
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/internal/acptest"
)

// An agent of another program is a model: whatever runs an agent runs it too.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	pool := acp.NewPool(&acp.Options{Environ: os.Environ()})
	defer pool.Close()
	// acp.Known has those that need no configuration, such as opencode; this one speaks from a script.
	command := acp.Command{Name: "scripted", Argv: []string{os.Args[0]}, Env: acptest.Env("plain", dir)}
	a := &agent.Agent{Name: "worker", Model: pool.Model(command, dir)}

	g := graph.New("work", reduce.Replace[string])
	g.AddNode(node.Agent("work", a, func(task string) (string, error) { return task, nil }, func(_ string, out *agent.Outcome) (string, error) { return out.Text, nil }))
	g.Edge(graph.Start, "work")
	g.Edge("work", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(flow.Run(context.Background(), "Look into a.txt.", nil))
	// Output: Done. <nil>
}
