// Command own is a custom program: it adds a Go workflow to everything that the superstep command
// has. Its nodes name a tool and an agent, which are found when a run starts, so that it can be
// drawn, listed and forked without a model.
//
//	go run ./examples/own run survey "What is this project?" --model offline
//	go run ./examples/own workflows graph survey
package main

import (
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
)

func main() {
	own, err := survey()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(config(own), nil))
}

func config(own *workflow.Workflow) *host.Config {
	return &host.Config{Name: "own", Workflows: []*workflow.Workflow{own}, Stores: stores.All()}
}

type inputs struct {
	Question string `json:"question" jsonschema:"what to find out about this folder"`
}

type state struct{ Question, Files, Answer string }

// survey lists the folder and lets the agent explorer answer a question about it.
func survey() (*workflow.Workflow, error) {
	g := graph.New("survey", func(s, u state) state {
		if u.Files != "" {
			s.Files = u.Files
		}
		if u.Answer != "" {
			s.Answer = u.Answer
		}
		return s
	})
	g.AddNode(host.Tool("list", "ls", node.Args[state]{Static: map[string]any{"path": "."}},
		func(_ state, text string) (state, error) { return state{Files: text}, nil }))
	g.AddNode(host.Agent("answer", "explorer",
		func(s state) (string, error) {
			return s.Question + "\n\nSearch the documents of this folder. It has these files:\n" + s.Files, nil
		},
		func(_ state, out *agent.Outcome) (state, error) { return state{Answer: out.Text}, nil }))
	g.Edge(graph.Start, "list")
	g.Edge("list", "answer")
	g.Edge("answer", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("survey", "Answer a question about the files of this folder", flow,
		func(in inputs) (state, error) { return state{Question: in.Question}, nil },
		func(s state) (string, error) { return s.Answer, nil })
}
