// Command review is a tour of the features of graphs: it reviews files in one task each, asks the user about the findings, and writes a report.
//
//	go run ./examples/review run review files=graph/run.go,graph/task.go
//	go run ./examples/review workflows graph review
//
// It calls no model: plain functions stand in for agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
)

// State is the state of the run. Its tags name the reducers for the nodes' updates.
type State struct {
	Files    []string `reduce:"union"`
	Findings []string `reduce:"append"`
	Rounds   int      `reduce:"sum"`
	Verdict  string
	Report   string
}

// Update is the update of a node. A zero field is not written.
type Update struct {
	Files    []string
	Findings []string
	Rounds   int
	Verdict  string
	Report   string
}

// look reviews one file. It is the part that would cost something, so it is an effect: it
// is done once, whatever happens to the process.
func look(ctx context.Context, t *graph.Task, _ State) (Update, error) {
	var file string
	if err := t.Arg(&file); err != nil {
		return Update{}, err
	}
	lines, err := graph.Do(ctx, "read", func(context.Context, string) (int, error) {
		b, err := os.ReadFile(file)
		return strings.Count(string(b), "\n"), err
	})
	if err != nil {
		return Update{}, err
	}
	return Update{Findings: []string{fmt.Sprintf("%s has %d lines", file, lines)}}, nil
}

// weigh adds a finding for each file that could not be reviewed.
func weigh(_ context.Context, t *graph.Task, _ State) (Update, error) {
	var u Update
	for _, f := range t.Failures() {
		u.Findings = append(u.Findings, "could not review: "+f.Error)
	}
	return u, nil
}

func build() (*graph.Flow[State, Update], error) {
	tags, err := reduce.Tags[State, Update]()
	if err != nil {
		return nil, err
	}
	g := graph.NewTagged("review", tags)

	// One task per file, as many as there are.
	g.Add("plan", func(context.Context, State) (Update, error) { return Update{Rounds: 1}, nil })
	g.Fan("plan", node.Map("look", func(s State) []string { return s.Files }, func(f string) string { return f }), "look")
	g.AddNode(graph.Node[State, Update]{Name: "look", Run: look, Retry: &graph.Retry{Attempts: 2, Backoff: 10 * time.Millisecond}, Most: 50})

	// It waits for all of them. A file that cannot be reviewed does not end the run.
	g.AddNode(graph.Node[State, Update]{Name: "weigh", Join: graph.Settled, Run: weigh})

	// A person decides, and may ask for another round.
	g.Add("approve", func(ctx context.Context, s State) (Update, error) {
		answer, err := graph.Ask[string](ctx, graph.Question{
			Text:    strings.Join(s.Findings, "; ") + ". Write the report?",
			Options: []string{"yes", "again", "no"},
			About:   map[string]string{"again": "search once more"},
		})
		return Update{Verdict: answer}, err
	})
	g.Branch("approve", func(s State) string {
		switch {
		case s.Verdict == "yes":
			return "write"
		case s.Verdict == "again" && s.Rounds < 3:
			return "plan"
		}
		return graph.End
	}, "write", "plan", graph.End)
	g.Add("write", func(_ context.Context, s State) (Update, error) {
		return Update{Report: strings.Join(s.Findings, "\n")}, nil
	})

	g.Edge(graph.Start, "plan")
	g.Edge("look", "weigh")
	g.Edge("weigh", "approve")
	g.Edge("write", graph.End)
	return g.Compile()
}

// Inputs are the inputs from the command line.
type Inputs struct {
	Files string `json:"files" jsonschema:"the files to review, with commas between them"`
}

func review() (*workflow.Workflow, error) {
	flow, err := build()
	if err != nil {
		return nil, err
	}
	begin := func(in Inputs) (State, error) {
		if in.Files == "" {
			return State{}, errors.New("files: name at least one")
		}
		return State{Files: strings.Split(in.Files, ",")}, nil
	}
	w, err := workflow.New("review", "Review files, ask, and write a report", flow, begin, func(s State) (string, error) { return s.Report, nil })
	if err == nil {
		w.NoModel = true
	}
	return w, err
}

func main() {
	w, err := review()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&host.Config{
		Name: "review", Workflows: workflow.Set{w},
		Stores: stores.All(),
	}, nil))
}
