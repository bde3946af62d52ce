package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
)

// This is the main function of a program with one workflow and the whole command line
// around it: run, resume, list, watch and the rest.
func Example() { //nolint:testableexamples // a main function ends the process
	greet, err := greeting()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&host.Config{
		Workflows: []*workflow.Workflow{greet},
		Stores:    stores.All(),
	}, nil))
}

type whom struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

type greeted struct {
	Name, Text string
}

func greeting() (*workflow.Workflow, error) {
	g := graph.New("greet", func(s greeted, text string) greeted {
		s.Text = text
		return s
	})
	g.Add("greet", func(_ context.Context, s greeted) (string, error) { return "Hello, " + s.Name + ".", nil })
	g.Edge(graph.Start, "greet")
	g.Edge("greet", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("greet", "Greet somebody", flow,
		func(in whom) (greeted, error) { return greeted{Name: in.Name}, nil },
		func(s greeted) (string, error) { return s.Text, nil })
}

// A program runs a command line within itself, with streams of its own.
func ExampleRun() {
	greet, err := greeting()
	if err != nil {
		fmt.Println(err)
		return
	}
	var out bytes.Buffer
	code := cli.Run(context.Background(), &host.Config{Workflows: []*workflow.Workflow{greet}}, &cli.Options{
		Args: []string{"run", "greet", "name=Ada", "--store", "memory", "-q"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: os.Stderr,
	})
	fmt.Print(out.String(), code, "\n")
	// Output:
	// Hello, Ada.
	// 0
}
