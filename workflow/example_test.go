package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

type trip struct {
	City string `json:"city"`
}

func book(ctx context.Context, s *workflow.Steps, in trip) (string, error) {
	seat, err := graph.Do(ctx, "reserve", func(context.Context, string) (string, error) { return "12A", nil })
	if err != nil {
		return "", err
	}
	if err := s.Sleep(ctx, "think", time.Millisecond); err != nil {
		return "", err
	}
	answer, err := graph.Ask[string](ctx, graph.Question{Key: "buy", Text: "Buy " + seat + " to " + in.City + "?", Options: []string{"yes", "no"}})
	if err != nil || answer == "no" {
		return "", err
	}
	return graph.Once(ctx, "buy", func(context.Context, string) (string, error) { return "ticket " + seat, nil })
}

func ExampleScript() {
	w, err := workflow.Script("book", "Books a seat.", book, nil)
	if err != nil {
		panic(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	ctx := context.Background()
	run, err := e.Start(ctx, "book", json.RawMessage(`{"city":"Lyon"}`), nil)
	if err != nil {
		panic(err)
	}
	out, err := run.Wait(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Status, out.Open[0].Text)
	if err := e.Answer(ctx, run.ID(), "script", &runlog.Answer{Value: json.RawMessage(`"yes"`)}); err != nil {
		panic(err)
	}
	if run, err = e.Resume(ctx, run.ID(), nil); err != nil {
		panic(err)
	}
	if out, err = run.Wait(ctx); err != nil {
		panic(err)
	}
	fmt.Println(out.Status, string(out.Output))
	// Output:
	// paused Buy 12A to Lyon?
	// completed "ticket 12A"
}
