package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// fleet is a workflow of n tasks side by side, of which each does three effects that
// take ten tokens, and then one that does the same in a graph of its own.
func fleet(t testing.TB, n int, did func(string)) *workflow.Workflow {
	t.Helper()
	work := func(ctx context.Context, t *graph.Task, _ []string) ([]string, error) {
		for i := range 3 {
			_, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: fmt.Sprint(i), Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: 10}},
				func(context.Context, string) (int, error) { did(t.Scope().Path() + fmt.Sprint(i)); return 0, nil })
			if err != nil {
				return nil, err
			}
		}
		return []string{t.Scope().Path()}, nil
	}
	fold := func(s, u []string) []string { return append(slices.Clone(s), u...) }
	inner := graph.New("inner", fold)
	inner.AddNode(graph.Node[[]string, []string]{Name: "deep", Run: work})
	inner.Edge(graph.Start, "deep")
	inner.Edge("deep", graph.End)
	below, err := inner.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New("fleet", fold)
	g.Add("plan", func(context.Context, []string) ([]string, error) { return nil, nil })
	g.AddNode(graph.Node[[]string, []string]{Name: "work", Run: work})
	g.AddNode(graph.Node[[]string, []string]{Name: "sub", Run: func(ctx context.Context, t *graph.Task, _ []string) ([]string, error) {
		return below.Run(ctx, nil, t.Nested(""))
	}})
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func([]string) []graph.Send {
		var out []graph.Send
		for i := range n {
			out = append(out, graph.Send{To: "work", Key: fmt.Sprint(i)})
		}
		return out
	}, "work")
	g.Edge("work", "sub")
	g.Edge("sub", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("fleet", "A fleet.", flow, func(struct{}) ([]string, error) { return nil, nil }, func(s []string) (string, error) { return strings.Join(s, " "), nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wait(t testing.TB, r *superstep.Run, err error) superstep.Outcome {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A run that is paused at limit after limit, the last of them in an inner graph, ends as
// one without limits does, and does nothing twice.
func TestBudgetPausesTheRun(t *testing.T) {
	var one superstep.Outcome
	for _, limits := range [][]runlog.Budget{{{}}, {{Tokens: 5}, {Tokens: 40}, {Tokens: 95}, {Tokens: 110}, {Tokens: 120}}} {
		store := runlog.NewMemory(nil)
		done := make(chan string, 100)
		e := engine(t, store, fleet(t, 3, func(what string) { done <- what }))
		r, err := e.Start(t.Context(), "fleet", json.RawMessage(`{}`), &superstep.StartOptions{Budget: &limits[0]})
		for i := range limits {
			if i > 0 {
				r, err = e.Resume(t.Context(), r.ID(), nil) // the limit is that of the run
				if out := wait(t, r, err); out.Status != runlog.Paused || out.Short == nil || out.Short.Limit != limits[i-1].Tokens {
					t.Fatalf("resumed without a budget: %+v", out)
				}
				r, err = e.Resume(t.Context(), r.ID(), &superstep.ResumeOptions{Budget: &limits[i]})
			}
			out := wait(t, r, err)
			if i == len(limits)-1 {
				if out.Status != runlog.Completed || one.Status != "" && string(out.Output) != string(one.Output) {
					t.Fatalf("%+v, want %+v", out, one)
				}
				one = out
				break
			}
			if out.Status != runlog.Paused || out.Err != nil || out.Short == nil || out.Short.What != runlog.BudgetTokens || out.Short.Limit != limits[i].Tokens {
				t.Fatalf("with %+v: %+v", limits[i], out)
			}
			if want := limits[i].Tokens / 10; int64(len(done)) != want {
				t.Errorf("%d effects within %d tokens", len(done), limits[i].Tokens)
			}
			var last runlog.Record
			for rec, err := range runlog.Records(t.Context(), store, r.ID(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				last = rec
			}
			var paused runlog.RunPaused
			if err := json.Unmarshal(last.Data, &paused); err != nil || last.Kind != runlog.KindRunPaused || paused.Reason != out.Short.Error() || paused.Short == nil || len(paused.Waiting) == 0 {
				t.Errorf("%s %s", last.Kind, last.Data)
			}
		}
		close(done)
		seen := map[string]bool{}
		for what := range done {
			if seen[what] {
				t.Errorf("%s was done twice", what)
			}
			seen[what] = true
		}
		if len(seen) != 12 {
			t.Errorf("did %v", seen)
		}
	}
}

// A workflow that only says that it was stopped pauses all the same.
func TestBudgetOfTimeBesideAGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := (&rig{}).workflow(t)
		w.Run = func(ctx context.Context, _ *workflow.Exec) (*workflow.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		e := engine(t, runlog.NewMemory(nil), w)
		r, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"x"}`), &superstep.StartOptions{Budget: &runlog.Budget{Wall: time.Minute}})
		if out := wait(t, r, err); out.Status != runlog.Paused || out.Short == nil || out.Short.Path != "" {
			t.Errorf("%+v", out)
		}
		e.Close()
	})
}

// A run whose execution time is over pauses in the middle of what it does. What it did in
// earlier executions counts, the time in between does not.
func TestBudgetOfTimePausesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &rig{second: func(ctx context.Context, task *graph.Task) (string, error) {
			for i := range 3 {
				_, err := journal.Do(ctx, task.Scope(), &journal.Effect{Key: fmt.Sprint(i)}, func(ctx context.Context, _ string) (int, error) {
					select {
					case <-time.After(40 * time.Second):
						return 0, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
				if err != nil {
					return "", err
				}
			}
			return "2", nil
		}}
		e := engine(t, runlog.NewMemory(nil), g.workflow(t))
		start := time.Now()
		r, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"x"}`), &superstep.StartOptions{Budget: &runlog.Budget{Wall: time.Minute}})
		out := wait(t, r, err)
		if out.Status != runlog.Paused || out.Err != nil || out.Short == nil || out.Short.What != runlog.BudgetWall || time.Since(start) != time.Minute {
			t.Fatalf("after %s: %+v", time.Since(start), out)
		}
		time.Sleep(time.Hour)
		start = time.Now()
		r, err = e.Resume(t.Context(), r.ID(), nil)
		if out := wait(t, r, err); out.Status != runlog.Paused || time.Since(start) != 0 {
			t.Fatalf("after %s: %+v", time.Since(start), out)
		}
		r, err = e.Resume(t.Context(), r.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Wall: 3 * time.Minute}})
		out = wait(t, r, err)
		if out.Status != runlog.Completed || string(out.Output) != `"x:12"` || time.Since(start) != 80*time.Second {
			t.Fatalf("after %s: %+v", time.Since(start), out)
		}
		e.Close()
	})
}

// While a run does nothing but wait for an answer its time does not run, whether it is answered where it executes or
// later.
func TestWaitingIsNoExecutionTime(t *testing.T) {
	for _, tc := range []struct {
		name  string
		gives bool // the first time it is asked
		limit time.Duration
		want  runlog.Status
	}{
		{"answered", true, 5 * time.Second, runlog.Completed},
		{"answered, and too long", true, 3 * time.Second, runlog.Paused},
		{"paused and answered", false, 5 * time.Second, runlog.Completed},
		{"paused and answered, and too long", false, 3 * time.Second, runlog.Paused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{second: func(ctx context.Context, t *graph.Task) (string, error) {
					if _, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: "before"}, func(context.Context, string) (int, error) {
						time.Sleep(2 * time.Second)
						return 0, nil
					}); err != nil {
						return "", err
					}
					s, err := asksWhich(ctx, t)
					if err == nil {
						select {
						case <-time.After(2 * time.Second):
						case <-ctx.Done():
							err = context.Cause(ctx)
						}
					}
					return s, err
				}}
				e := engine(t, runlog.NewMemory(nil), r.workflow(t))
				asked := 0
				answer := func(context.Context, runlog.Question) (*runlog.Answer, bool) {
					asked++
					time.Sleep(8 * time.Second)
					return answered("x"), tc.gives || asked > 1
				}
				run := start(t, e, &superstep.StartOptions{Budget: &runlog.Budget{Wall: tc.limit}, Answer: answer})
				out, err := run.Wait(t.Context())
				if !tc.gives {
					if err != nil || out.Status != runlog.Paused || out.Short != nil {
						t.Fatalf("got %+v, %v", out, err)
					}
					run = resume(t, e, run.ID(), &superstep.ResumeOptions{Answer: answer})
					out, err = run.Wait(t.Context())
				}
				if err != nil || out.Status != tc.want || (out.Short != nil) != (tc.want == runlog.Paused) {
					t.Errorf("got %+v, %v", out, err)
				}
			})
		})
	}
}
