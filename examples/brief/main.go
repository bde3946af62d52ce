// Command brief is a custom Go workflow with the whole command line around it:
//
//	go run ./examples/brief run brief "Pregel"
package main

import (
	"fmt"
	"os"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
)

func main() {
	brief, err := flow()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&host.Config{
		Workflows: []*workflow.Workflow{brief},
		Stores:    stores.All(),
	}, nil))
}
