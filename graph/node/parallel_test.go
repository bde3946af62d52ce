package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// after is a branch that takes a while, in the time of a bubble, and may fail.
func after(name string, d time.Duration, err error) graph.Node[state, update] {
	return graph.Node[state, update]{Name: name, Run: func(ctx context.Context, _ *graph.Task, s state) (update, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return update{}, ctx.Err()
		}
		if err != nil {
			return update{}, err
		}
		return add(s, name)
	}}
}

func TestStrategies(t *testing.T) {
	broken := errors.New("it is broken")
	ms := time.Millisecond
	for _, tc := range []struct {
		name     string
		opt      *node.ParallelOptions
		branches []graph.Node[state, update]
		want     string
		fails    string
		took     time.Duration
	}{
		{"all, in the order of branches", nil, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, nil)}, "[a b]", "", 3 * ms},
		{"all, one at a time", &node.ParallelOptions{Width: 1}, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, nil)}, "[a b]", "", 4 * ms},
		{"all, one fails", nil, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, broken)}, "", "b: it is broken", 3 * ms},
		{"all, settled", &node.ParallelOptions{Settled: true}, []graph.Node[state, update]{after("a", ms, broken), after("b", ms, nil)}, "[a failed: a: it is broken b]", "", ms},
		{"race", &node.ParallelOptions{Strategy: node.Race}, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, nil)}, "[b]", "", ms},
		{"race, the first fails", &node.ParallelOptions{Strategy: node.Race}, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, broken)}, "", "b: it is broken", ms},
		{"race, settled", &node.ParallelOptions{Strategy: node.Race, Settled: true}, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, broken)}, "[b failed: b: it is broken]", "", ms},
		{"any", &node.ParallelOptions{Strategy: node.Any}, []graph.Node[state, update]{after("a", 3*ms, nil), after("b", ms, broken), after("c", 9*ms, nil)}, "[a]", "", 3 * ms},
		{"any, none", &node.ParallelOptions{Strategy: node.Any}, []graph.Node[state, update]{after("a", 3*ms, broken), after("b", ms, broken)}, "", "a: it is broken\nb: it is broken", 3 * ms},
		{"any, none, settled", &node.ParallelOptions{Strategy: node.Any, Settled: true}, []graph.Node[state, update]{after("a", ms, broken)}, "[n failed: a: it is broken]", "", ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				n := node.Parallel("n", tc.branches, notes, tc.opt)
				got, err := oneWay(t, n).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, runlog.NewMemory(nil))})
				if tc.fails != "" {
					if err == nil || !strings.HasSuffix(err.Error(), tc.fails) {
						t.Errorf("got %v", err)
					}
				} else if err != nil || fmt.Sprint(got.Notes) != tc.want {
					t.Errorf("got %v, %v", got.Notes, err)
				}
				if took := time.Since(begin); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
			})
		})
	}
}

// Who has won stays the winner, whoever would win now.
func TestWinnerIsRecorded(t *testing.T) {
	for _, strategy := range []node.Strategy{node.Race, node.Any} {
		synctest.Test(t, func(t *testing.T) {
			slow, store, merges := time.Hour, runlogtest.NewMortal(), 0
			branch := func(name string, d *time.Duration) graph.Node[state, update] {
				return graph.Node[state, update]{Name: name, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
					return after(name, *d, nil).Run(ctx, t, s)
				}}
			}
			fast := time.Minute
			n := node.Parallel("n", []graph.Node[state, update]{branch("a", &slow), branch("b", &fast)}, func(s state, rs []node.Result[update]) (update, error) {
				if merges++; merges == 1 {
					store.Die()
				}
				return notes(s, rs)
			}, &node.ParallelOptions{Strategy: strategy})
			flow := oneWay(t, n)
			if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)}); !errors.Is(err, runlogtest.ErrCrash) {
				t.Fatal(err)
			}
			store.Revive()
			slow, fast = 0, time.Hour
			got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)})
			if err != nil || fmt.Sprint(got.Notes) != "[b]" {
				t.Errorf("got %v, %v", got.Notes, err)
			}
		})
	}
}

// A branch may ask. The others are done with meanwhile, and not run again when there is an
// answer; that a branch waits is no failure of it.
func TestBranchAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		opt   *node.ParallelOptions
		other error
		want  string
		ran   int // of the other branch
	}{
		"all":     {nil, nil, "[x yes]", 1},
		"settled": {&node.ParallelOptions{Settled: true}, errors.New("it is broken"), "[x failed: x: it is broken yes]", 1},
		"any":     {&node.ParallelOptions{Strategy: node.Any}, errors.New("it is broken"), "[yes]", 2},
	} {
		t.Run(name, func(t *testing.T) {
			store, ran := runlogtest.NewMortal(), 0
			x := graph.Node[state, update]{Name: "x", Run: func(_ context.Context, _ *graph.Task, s state) (update, error) {
				ran++
				if tc.other != nil {
					return update{}, tc.other
				}
				return add(s, "x")
			}}
			asked := 0
			ask := graph.Node[state, update]{Name: "ask", Retry: &graph.Retry{Attempts: 3, Backoff: 1}}
			ask.Run = func(ctx context.Context, _ *graph.Task, s state) (update, error) {
				asked++
				answer, err := graph.Ask[string](ctx, graph.Question{Text: "Well?"})
				if err != nil {
					return update{}, err
				}
				return add(s, answer)
			}
			flow := oneWay(t, node.Parallel("n", []graph.Node[state, update]{x, ask}, notes, tc.opt))
			j := open(t, store)
			var waiting *pregel.WaitingError
			if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !errors.As(err, &waiting) {
				t.Fatal(err)
			}
			if _, failed := settled(t, store); failed > 0 || asked > 1 {
				t.Errorf("%d effects are recorded as failed, after asking %d times", failed, asked)
			}
			if err := j.Answer(t.Context(), "n/ask", &runlog.Answer{Key: "answer", Value: json.RawMessage(`"yes"`)}); err != nil {
				t.Fatal(err)
			}
			store.Revive()
			got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)})
			if err != nil || fmt.Sprint(got.Notes) != tc.want || ran != tc.ran {
				t.Errorf("got %v, %v, x ran %d times", got.Notes, err, ran)
			}
		})
	}
}

// A branch that is answered continues beside the others, which may take its place of the width, and does not in a run that is to stop.
func TestAnsweredBranchContinues(t *testing.T) {
	for name, tc := range map[string]struct {
		width int
		stops bool
		want  string
	}{"continues": {3, false, "[yes s x]"}, "takes a place": {1, false, "[yes s x]"}, "is to stop": {3, true, ""}} {
		t.Run(name, func(t *testing.T) {
			stop, answered, continued := make(chan struct{}), make(chan struct{}), make(chan struct{})
			j := open(t, runlogtest.NewMortal())
			asked := 0
			ask := graph.Node[state, update]{Name: "ask", Run: func(ctx context.Context, _ *graph.Task, s state) (update, error) {
				asked++
				answer, err := graph.Ask[string](ctx, graph.Question{Text: "Well?"})
				if err != nil {
					return update{}, err
				}
				close(continued)
				return add(s, answer)
			}}
			slow := graph.Node[state, update]{Name: "slow", Run: func(_ context.Context, _ *graph.Task, s state) (update, error) {
				if tc.stops {
					close(stop)
				}
				if err := j.Answer(t.Context(), "n/ask", &runlog.Answer{Key: "answer", Value: json.RawMessage(`"yes"`)}); err != nil {
					return update{}, err
				}
				close(answered)
				if tc.width > 1 && !tc.stops {
					<-continued
				}
				return add(s, "s")
			}}
			first := graph.Node[state, update]{Name: "first", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
				for len(j.Open()) == 0 { // it has asked
					runtime.Gosched()
				}
				return slow.Run(ctx, t, s)
			}}
			last := graph.Node[state, update]{Name: "last", Run: func(_ context.Context, _ *graph.Task, s state) (update, error) {
				<-answered
				return add(s, "x")
			}}
			flow := oneWay(t, node.Parallel("n", []graph.Node[state, update]{ask, first, last}, notes, &node.ParallelOptions{Width: tc.width}))
			got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, Stop: stop})
			if tc.stops {
				if !errors.Is(err, pregel.ErrStopped) || asked != 1 {
					t.Errorf("got %v, asked %d times", err, asked)
				}
				return
			}
			if err != nil || fmt.Sprint(got.Notes) != tc.want || asked != 2 {
				t.Errorf("got %v, %v, asked %d times", got.Notes, err, asked)
			}
		})
	}
}

// A branch is a node like others: it may be a graph, be tried again, have a limit and a
// schema, and panic; but it does not send.
func TestBranchSettings(t *testing.T) {
	tries := 0
	flaky := graph.Node[state, update]{Name: "flaky", Retry: &graph.Retry{Attempts: 2, Backoff: 1}, Run: func(_ context.Context, task *graph.Task, s state) (update, error) {
		if tries++; tries == 1 {
			return update{}, errors.New("not yet")
		}
		return add(s, fmt.Sprintf("%s attempt %d", task.Node(), task.Attempt()))
	}}
	inner := oneWay(t, effect(&world{}, "n/sub", "in", false))
	sub := graph.Sub("sub", inner, func(s state) (state, error) { return s, nil }, func(s state) (update, error) { return add(s, "sub "+s.Notes[0]) })
	n := node.Parallel("n", []graph.Node[state, update]{flaky, sub}, notes, nil)
	if n.Sub == nil || len(n.Sub.Nodes) != 2 || n.Sub.Nodes[1].Sub == nil {
		t.Errorf("its shape is %v", n.Sub)
	}
	got, err := oneWay(t, n).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, runlogtest.NewMortal())})
	if diff := cmp.Diff([]string{"flaky attempt 2", "sub in"}, got.Notes); diff != "" || err != nil {
		t.Error(diff, err)
	}
	slow := after("slow", time.Hour, nil)
	slow.Timeout = time.Millisecond
	for want, b := range map[string]graph.Node[state, update]{
		"out of paper": {Name: "b", Run: func(context.Context, *graph.Task, state) (update, error) { panic("out of paper") }},
		"cannot send": {Name: "b", Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
			t.Send(graph.Send{To: "x"})
			return update{}, nil
		}},
		"node slow":        slow,
		"does not fit its": {Name: "b", Output: &jsonschema.Schema{Required: []string{"talk"}}, Run: note("b").Run},
	} {
		for _, strategy := range []node.Strategy{node.All, node.Any} {
			n := node.Parallel("n", []graph.Node[state, update]{b}, notes, &node.ParallelOptions{Strategy: strategy})
			if _, err := oneWay(t, n).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

// A run that is cancelled cancels the branches, and nothing of them is a failure.
func TestParallelCancelled(t *testing.T) {
	for _, strategy := range []node.Strategy{node.All, node.Race, node.Any} {
		synctest.Test(t, func(t *testing.T) {
			store := runlog.NewMemory(nil)
			n := node.Parallel("n", []graph.Node[state, update]{after("a", time.Hour, nil), after("b", time.Hour, nil)}, notes, &node.ParallelOptions{Strategy: strategy, Settled: true})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := oneWay(t, n).Run(ctx, state{}, &graph.RunOptions{Journal: open(t, store)}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if well, failed := settled(t, store); len(well)+failed > 0 {
				t.Errorf("recorded: %v and %d failures", well, failed)
			}
		})
	}
}

// A branch that halts fails the run: it has no other attempt, is no result, and no other branch wins.
func TestParallelHalts(t *testing.T) {
	for _, strategy := range []node.Strategy{node.All, node.Race, node.Any} {
		tries := 0
		b := graph.Node[state, update]{Name: "b", Retry: &graph.Retry{Attempts: 3, Backoff: -1}, Run: func(context.Context, *graph.Task, state) (update, error) {
			tries++
			return update{}, graph.Halt(errors.New("it is over"))
		}}
		hangs := graph.Node[state, update]{Name: "c", Run: func(ctx context.Context, _ *graph.Task, _ state) (update, error) {
			if strategy != node.All {
				<-ctx.Done()
			}
			return update{}, ctx.Err()
		}}
		n := node.Parallel("n", []graph.Node[state, update]{b, hangs}, notes, &node.ParallelOptions{Strategy: strategy, Settled: true})
		n.OnError, n.Retry = graph.Skip, &graph.Retry{Attempts: 3, Backoff: -1}
		if _, err := oneWay(t, n).Run(t.Context(), state{}, nil); !graph.Halts(err) || tries != 1 {
			t.Errorf("strategy %d: %v after %d tries", strategy, err, tries)
		}
	}
}
