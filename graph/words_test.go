package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// An error of a node names it once, and says what it waits for or how often it was tried.
func TestErrorsOfNodes(t *testing.T) {
	run := func(f func(context.Context, *graph.Task, state) (update, error)) graph.Node[state, update] {
		return graph.Node[state, update]{Name: "c", Run: f}
	}
	retried := run(func(context.Context, *graph.Task, state) (update, error) { return update{}, errors.New("boom") })
	retried.Retry = &graph.Retry{Attempts: 4, Backoff: -1}
	late := run(func(ctx context.Context, _ *graph.Task, _ state) (update, error) {
		<-ctx.Done()
		return update{}, ctx.Err()
	})
	late.Timeout = time.Millisecond
	for _, tc := range []struct {
		node graph.Node[state, update]
		want string
	}{
		{retried, "node c: after 4 attempts: boom"},
		{late, "node c took longer than its limit of 1ms"},
		{run(func(_ context.Context, task *graph.Task, _ state) (update, error) {
			return update{}, task.Arg(new(int))
		}),
			"node c: it was not sent anything"},
		{run(func(ctx context.Context, task *graph.Task, _ state) (update, error) {
			_, err := graph.Ask[chan int](ctx, graph.Question{Key: "q"})
			return update{}, err
		}), `node c: question "q": For[chan int](): type chan int is unsupported by jsonschema`},
		{run(func(ctx context.Context, task *graph.Task, _ state) (update, error) {
			_, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "Well?"})
			return update{}, err
		}), "paused: c asks: Well?"},
		{run(func(context.Context, *graph.Task, state) (update, error) {
			return update{}, &runlog.BudgetError{Path: "c", What: runlog.BudgetTokens, Limit: 10, Used: 9, Need: 4}
		}), "paused: c: 9 of the run's budget of 10 tokens used, and the next step may take 4 more; resume the run with a larger budget"},
	} {
		_, err := compile(t, one(tc.node)).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, runlogtest.NewMortal(), true)})
		if err == nil || err.Error() != tc.want {
			t.Errorf("got  %v\nwant %s", err, tc.want)
		}
	}
}
