// Command patterns has the usual shapes of programs with agents, one to a file, to be copied:
//
//	go run ./examples/patterns run swarm "What does a lamp cost?"
//	go run ./examples/patterns workflows graph supervisor
//
// Their agents use the model of your configuration, or of SUPERSTEP_MODEL.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

func main() {
	set, err := open()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&host.Config{Name: "patterns", Workflows: set, Stores: stores.All()}, nil))
}

// open returns the workflows with the user's model.
func open() (workflow.Set, error) {
	h, err := host.Open(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.Close() }()
	m, err := h.Model("")
	if err != nil {
		return nil, err
	}
	return patterns(m)
}

// patterns returns the workflow of each file.
func patterns(m model.Model) (set workflow.Set, err error) {
	tools, err := sources()
	if err != nil {
		return nil, err
	}
	for _, pattern := range []func(model.Model, *tool.Set) (*workflow.Workflow, error){swarm, supervisor, reflection, planAndExecute, correctiveRAG, mapReduce} {
		w, err := pattern(m, tools)
		if err != nil {
			return nil, err
		}
		set = append(set, w)
	}
	return set, nil
}
