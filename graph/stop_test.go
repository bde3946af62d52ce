package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// However a stop or a deadline falls between two looks of the driver, the run ends as stopped.
func TestStopAtAnyInstant(t *testing.T) {
	g := graph.New("loop", reduce)
	g.Add("n", func(context.Context, state) (update, error) { return update{Add: 1}, nil })
	edges(g, "@start n")
	g.Branch("n", func(state) string { return "n" }, "n", graph.End)
	flow := compile(t, g)
	for range 150 {
		stop := make(chan struct{})
		time.AfterFunc(300*time.Microsecond, func() { close(stop) })
		if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Stop: stop, MaxSteps: 1 << 30}); !errors.Is(err, graph.ErrStopped) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Microsecond)
		if _, err := flow.Run(ctx, state{}, &graph.RunOptions{MaxSteps: 1 << 30}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
}

// What of a wide superstep has not started when the run is stopped does not start any more.
func TestStopHoldsBackWhatIsQueued(t *testing.T) {
	stop := make(chan struct{})
	var ran atomic.Int32
	g := graph.New("wide", reduce)
	for i := range 200 {
		n := fmt.Sprint("n", i)
		g.Add(n, func(context.Context, state) (update, error) {
			if ran.Add(1) == 1 {
				close(stop)
			}
			<-stop // else the others might all run before it is closed
			return update{Add: 1}, nil
		})
		edges(g, "@start "+n, n+" @end")
	}
	store := runlog.NewMemory(nil)
	j := open(t, store, true)
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: j, Parallelism: 2, Stop: stop}); !errors.Is(err, graph.ErrStopped) || ran.Load() > 3 {
		t.Fatalf("got %v; %d tasks ran", err, ran.Load())
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, false)}); err != nil || got.N != 200 || ran.Load() != 200 {
		t.Errorf("got %v, %v after %d tasks", got, err, ran.Load())
	}
}

func TestStopEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		n := 0
		g := graph.New("retries", reduce)
		g.AddNode(graph.Node[state, update]{Name: "n", Retry: &graph.Retry{Attempts: 3, Backoff: time.Minute}, Run: func(context.Context, *graph.Task, state) (update, error) {
			n++
			close(stop)
			return update{}, errBroken
		}})
		edges(g, "@start n", "n @end")
		begin := time.Now()
		if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Stop: stop}); !errors.Is(err, graph.ErrStopped) || n != 1 || time.Since(begin) > 0 {
			t.Errorf("got %v after %d attempts and %s", err, n, time.Since(begin))
		}
	})
}

func TestNothingStartsBeyondTheLimit(t *testing.T) {
	ran := false
	released := make(chan struct{})
	g := graph.New("limit", reduce)
	g.Add("a", visit("a"))
	g.Add("slow", func(context.Context, state) (update, error) { <-released; return update{}, nil })
	g.AddNode(graph.Node[state, update]{Name: "c", Reads: []string{"a"}, Run: func(context.Context, *graph.Task, state) (update, error) {
		ran = true
		return update{}, nil
	}})
	edges(g, "@start a", "@start slow", "a c", "c @end", "slow @end")
	time.AfterFunc(20*time.Millisecond, func() { close(released) })
	var limit *graph.StepLimitError
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{MaxSteps: 1}); !errors.As(err, &limit) || ran {
		t.Errorf("got %v, ran %v", err, ran)
	}
}

func TestCacheTellsTasksApart(t *testing.T) {
	g := graph.New("keys", reduce)
	g.Add("s", visit("s"))
	g.AddNode(graph.Node[state, update]{Name: "w", Cache: &graph.Caching[state]{}, Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
		return update{Visit: t.Key()}, nil
	}})
	edges(g, "@start s", "w @end")
	g.Fan("s", func(state) []graph.Send { return []graph.Send{{To: "w", Key: "a"}, {To: "w", Key: "b"}} }, "w")
	c := graph.NewMemoryCache(10, time.Now)
	for range 2 {
		got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Parallelism: 1, Cache: c})
		if err != nil || strings.Join(got.Trail, "") != "sab" {
			t.Fatalf("got %v, %v", got, err)
		}
	}
}

// faulty is a cache that works as little as it may.
type faulty struct{}

func (faulty) Load(context.Context, string) ([]byte, bool, error) { return nil, false, errBroken }

func (faulty) Store(context.Context, string, []byte, time.Duration) error { return errBroken }

func TestCacheKeepsOnlyWhatCounts(t *testing.T) {
	for name, c := range map[string]graph.Cache{"good": graph.NewMemoryCache(-1, time.Now), "faulty": faulty{}} {
		n := 0
		g := graph.New("checked", reduce)
		g.Check(func(s state) error {
			if slices.Contains(s.Trail, "bad") {
				return errors.New("it is bad")
			}
			return nil
		})
		g.AddNode(graph.Node[state, update]{Name: "n", Cache: &graph.Caching[state]{}, Retry: &graph.Retry{Backoff: -1}, Run: func(context.Context, *graph.Task, state) (update, error) {
			if n++; n == 1 {
				return update{Visit: "bad"}, nil
			}
			return update{Visit: "good"}, nil
		}})
		edges(g, "@start n", "n @end")
		if got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Cache: c}); err != nil || n != 2 || got.Trail[0] != "good" {
			t.Errorf("%s: got %v, %v after %d", name, got, err, n)
		}
	}
}

// A run whose producer is mended after it has failed asks that anew.
func TestInputFitsAfterAFailure(t *testing.T) {
	mended := false
	g := planned(func(*graph.Task, plans) (planning, error) {
		if mended {
			return planning{Plan: "abc"}, nil
		}
		return planning{Plan: "?"}, nil
	})
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	var unfit *graph.SchemaError
	for i := range 2 {
		j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, Reopen: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := flow.Run(t.Context(), plans{}, &graph.RunOptions{Journal: j}); !errors.As(err, &unfit) || len(unfit.Attempts) != 3 {
			t.Fatalf("run %d: got %v", i, err)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mended = true
	if got, err := flow.Run(t.Context(), plans{}, &graph.RunOptions{Journal: open(t, store, false)}); err != nil || got.Used != "abc" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestProducerThatIsSentTo(t *testing.T) {
	g := graph.New("sent", replan)
	nop := func(context.Context, *graph.Task, plans) (planning, error) { return planning{}, nil }
	g.AddNode(graph.Node[plans, planning]{Name: "s", Run: nop})
	g.AddNode(graph.Node[plans, planning]{Name: "p", Run: nop})
	g.AddNode(graph.Node[plans, planning]{Name: "c", Run: nop, Input: &graph.Input[plans]{From: "p", Schema: &jsonschema.Schema{}}})
	g.Edge(graph.Start, "s")
	g.Fan("s", func(plans) []graph.Send { return nil }, "p")
	g.Edge("p", "c")
	g.Edge("c", graph.End)
	if _, err := g.Compile(); err == nil || !strings.Contains(err.Error(), "runs for what it is sent") {
		t.Errorf("got %v", err)
	}
}

func TestSkipsInsideAreTold(t *testing.T) {
	inner := graph.New("inner", reduce)
	inner.AddNode(graph.Node[state, update]{Name: "x", Run: broken, OnError: graph.Skip})
	edges(inner, "@start x", "x @end")
	g := graph.New("outer", reduce)
	g.AddNode(graph.Sub("sub", compile(t, inner), func(s state) (state, error) { return s, nil }, func(state) (update, error) { return update{}, nil }))
	g.Add("next", visit("next"))
	edges(g, "@start sub", "sub next", "next @end")
	flow := compile(t, g)
	for _, opt := range []*graph.RunOptions{nil, {Journal: open(t, runlog.NewMemory(nil), true)}} {
		if final, err := flow.Execute(t.Context(), state{}, opt); err != nil || !slices.Equal(final.Skipped, []string{"sub/x"}) {
			t.Errorf("got %+v, %v", final, err)
		}
	}
}

func TestBoundsHoldEverywhere(t *testing.T) {
	three := func(state) (out []graph.Send) {
		for i := range 3 {
			out = append(out, graph.Send{To: "w", Key: fmt.Sprint(i)})
		}
		return out
	}
	w := graph.Node[state, update]{Name: "w", Most: 2, Run: func(context.Context, *graph.Task, state) (update, error) { return update{}, nil }}
	start := graph.New("start", reduce)
	start.AddNode(w)
	start.Fan(graph.Start, three, "w")
	edges(start, "w @end")
	skip := graph.New("skip", reduce)
	skip.AddNode(graph.Node[state, update]{Name: "s", Run: broken, OnError: graph.Skip})
	skip.AddNode(w)
	skip.Fan("s", three, "w")
	edges(skip, "@start s", "w @end")
	for _, g := range []*graph.Graph[state, update]{start, skip} {
		if _, err := compile(t, g).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "which may have 2") {
			t.Errorf("got %v", err)
		}
	}
	call := graph.New("call", reduce)
	call.AddNode(graph.Call("c", "other", func(s state) (any, error) { return s, nil }, func(json.RawMessage) (update, error) { return update{}, nil }))
	edges(call, "@start c", "c @end")
	if tasks, known := compile(t, call).Shape().Agents(); known {
		t.Errorf("a workflow by name has %d agents", tasks)
	}
}

func TestPartsHaveTheirPlace(t *testing.T) {
	inner := graph.New("inner", reduce)
	inner.Add("a", visit("a"))
	edges(inner, "@start a", "a @end")
	flow := compile(t, inner)
	part := &graph.Node[state, update]{Name: "a", Run: func(context.Context, *graph.Task, state) (update, error) { return update{}, nil }}
	for name, c := range map[string]struct {
		run  func(ctx context.Context, t *graph.Task, s state) error
		want string
	}{
		"twice": {func(ctx context.Context, t *graph.Task, s state) error {
			_, err := graph.Part(ctx, t, part, s)
			_, again := graph.Part(ctx, t, part, s)
			return errors.Join(err, again)
		}, "two parts"},
		"a graph beside it": {func(ctx context.Context, t *graph.Task, s state) error {
			_, err := graph.Part(ctx, t, part, s)
			_, again := flow.Run(ctx, s, t.Nested(""))
			return errors.Join(err, again)
		}, "needs a key"},
		"a graph with a key": {func(ctx context.Context, t *graph.Task, s state) error {
			_, err := graph.Part(ctx, t, part, s)
			_, again := flow.Run(ctx, s, t.Nested("k"))
			return errors.Join(err, again)
		}, ""},
	} {
		g := graph.New("parts", reduce)
		g.AddNode(graph.Node[state, update]{Name: "n", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) { return update{}, c.run(ctx, t, s) }})
		edges(g, "@start n", "n @end")
		_, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, runlog.NewMemory(nil), true)})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPanicsOutsideNodesAreErrors(t *testing.T) {
	var p *graph.PanicError
	g := graph.New("panics", func(state, update) state { panic("reducer") })
	g.Add("a", visit("a"))
	edges(g, "@start a", "a @end")
	if _, err := compile(t, g).Run(t.Context(), state{}, nil); !errors.As(err, &p) {
		t.Errorf("got %v", err)
	}
	g = graph.New("panics", reduce)
	g.Add("a", visit("a"))
	g.Fan(graph.Start, func(state) []graph.Send { panic("fan") }, "a")
	edges(g, "a @end")
	if _, err := compile(t, g).Run(t.Context(), state{}, nil); !errors.As(err, &p) {
		t.Errorf("got %v", err)
	}
}

// deaf is a node that takes its time, whatever its context says.
func deaf(took time.Duration, err error) graph.Node[state, update] {
	return graph.Node[state, update]{Name: "n", Timeout: 30 * time.Millisecond, Run: func(context.Context, *graph.Task, state) (update, error) {
		time.Sleep(took)
		return update{Add: 1}, err
	}}
}

// At its deadline an attempt has failed, whatever the node returns later.
func TestLateIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		end  error
		want string
	}{
		"well":   {nil, "node n took longer than its limit of 30ms"},
		"badly":  {errBroken, "node n took longer than its limit of 30ms, and ended with: it is broken"},
		"told":   {fmt.Errorf("call: %w", context.DeadlineExceeded), "node n took longer than its limit of 30ms"},
		"halted": {graph.Halt(errBroken), "node n took longer than its limit of 30ms, and ended with: it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := deaf(200*time.Millisecond, c.end)
				n.Retry = &graph.Retry{Attempts: 2, Backoff: -1}
				store := runlog.NewMemory(nil)
				j := open(t, store, true)
				begin := time.Now()
				_, err := compile(t, one(n)).Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
				attempts := 2
				if graph.Halts(c.end) {
					attempts = 1
				}
				if took := time.Since(begin); took != time.Duration(attempts)*200*time.Millisecond {
					t.Errorf("it took %s", took)
				}
				var late *graph.TimeoutError
				if !errors.As(err, &late) || late.Error() != c.want || c.end != nil && !errors.Is(err, c.end) {
					t.Errorf("got %v", err)
				}
				for r, err := range runlog.Records(t.Context(), store, j.ID(), 0) {
					var d runlog.TaskFailed
					if err != nil || r.Kind == runlog.KindTaskFailed && (json.Unmarshal(r.Data, &d) != nil || !d.Late) {
						t.Errorf("%s %s, %v", r.Kind, r.Data, err)
					}
				}
			})
		})
	}
}

// A panic after the deadline keeps its stack.
func TestLatePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := deaf(0, nil)
		n.Run = func(context.Context, *graph.Task, state) (update, error) {
			time.Sleep(time.Second)
			panic("ouch")
		}
		_, err := compile(t, one(n)).Run(t.Context(), state{}, nil)
		var p *graph.PanicError
		if !errors.As(err, &p) || len(p.Stack) == 0 || !strings.Contains(err.Error(), "limit of 30ms, and ended with: panic: ouch") {
			t.Errorf("got %v", err)
		}
	})
}

// A run's limit ends Run, though its last task pays no heed; what that has made is kept.
func TestRunOutOfTimeInItsLastTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ran := deaf(0, nil), 0
		n.Timeout, n.Run = 0, func(context.Context, *graph.Task, state) (update, error) {
			ran++
			time.Sleep(time.Second)
			return update{Add: 1}, nil
		}
		store := runlog.NewMemory(nil)
		j := open(t, store, true)
		flow := compile(t, one(n))
		got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, Timeout: 50 * time.Millisecond})
		var late *graph.TimeoutError
		if !errors.As(err, &late) || late.What != "the run" || got.N != 0 {
			t.Errorf("got %v, %v", got, err)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, false)}); err != nil || got.N != 1 || ran != 1 {
			t.Errorf("got %v, %v after %d tasks", got, err, ran)
		}
	})
}

// Whoever runs a graph is told once how it ended, also if it failed.
func TestEnded(t *testing.T) {
	for want, limit := range map[string]int{"2 [] <nil>": 0, "1 [] stopped": 1} {
		g := graph.New("g", reduce)
		g.Add("a", func(context.Context, state) (update, error) { return update{}, nil })
		g.Add("b", func(context.Context, state) (update, error) { return update{}, nil })
		g.Edge(graph.Start, "a")
		g.Edge("a", "b")
		g.Edge("b", graph.End)
		var told []string
		_, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{MaxSteps: limit, Ended: func(steps int, skipped []string) {
			told = append(told, fmt.Sprint(steps, skipped))
		}})
		if got := strings.Join(told, ", ") + " " + fmt.Sprint(err); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
