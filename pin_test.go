package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// versioned is a workflow that asks, and then says which version it is of.
func versioned(t *testing.T, version string) *workflow.Workflow {
	t.Helper()
	g := graph.New("versioned", func(s, u string) string { return s + u })
	g.AddNode(graph.Node[string, string]{Name: "ask-" + version, Run: func(ctx context.Context, t *graph.Task, _ string) (string, error) {
		a, err := graph.Ask[string](ctx, graph.Question{Key: "go", Text: "Go on?"})
		return a + " " + version, err
	}})
	g.Edge(graph.Start, "ask-"+version)
	g.Edge("ask-"+version, graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	type none struct{}
	w, err := workflow.New("versioned", "", flow, func(none) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	w.Aliases = []string{"v"}
	w.Pin = func(json.RawMessage) (json.RawMessage, error) { return json.Marshal(version) }
	w.Restore = func(raw json.RawMessage) (*workflow.Workflow, error) { return restored(t, raw) }
	return w
}

func restored(t *testing.T, raw json.RawMessage) (*workflow.Workflow, error) {
	var version string
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, err
	}
	if version == "gone" {
		return nil, errors.New("nobody knows it any more")
	}
	return versioned(t, version), nil
}

// A run ends on the version that it began with, whatever its workflow has become, and also
// where it is no more; history, forks and replays are of that version too.
func TestPinned(t *testing.T) {
	store := runlog.NewMemory(nil)
	engine := func(opt superstep.Options) *superstep.Engine {
		e, err := superstep.New(store, &opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}
	old := engine(superstep.Options{Workflows: []*workflow.Workflow{versioned(t, "1")}})
	run, err := old.Start(t.Context(), "v", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Paused || out.Open[0].Path != "ask-1" {
		t.Fatal(out, err)
	}
	fork, err := old.Fork(t.Context(), run.ID(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := engine(superstep.Options{Workflows: []*workflow.Workflow{versioned(t, "2")}})
	none := engine(superstep.Options{Restore: func(name string, raw json.RawMessage) (*workflow.Workflow, error) {
		if name != "versioned" {
			t.Error(name)
		}
		return restored(t, raw)
	}})
	for i, e := range []*superstep.Engine{changed, none} {
		id := []string{run.ID(), fork.ID}[i]
		again, err := e.Resume(t.Context(), id, &superstep.ResumeOptions{Answer: func(context.Context, runlog.Question) (*runlog.Answer, bool) {
			return &runlog.Answer{Value: json.RawMessage(`"yes"`)}, true
		}})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := again.Wait(t.Context()); err != nil || string(out.Output) != `"yes 1"` {
			t.Error(i, out, err)
		}
		moments := 0
		for _, err := range e.History(t.Context(), id, "") {
			if err != nil {
				t.Error(i, err)
			}
			moments++
		}
		report, err := e.Replay(t.Context(), id, &superstep.ReplayOptions{Wait: 5 * time.Second})
		if err != nil || report.Diverged != nil || moments != 2 {
			t.Error(i, moments, report, err)
		}
	}
	if _, err := engine(superstep.Options{}).Resume(t.Context(), run.ID(), nil); err != nil {
		t.Error("a run that has ended needs no workflow:", err)
	}
}

// Recover takes up runs whose workflow is known to nobody but their log.
func TestRecoverPinned(t *testing.T) {
	store := runlog.NewMemory(nil)
	old, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{versioned(t, "1"), versioned2(t)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	run, err := old.Start(ctx, "waits", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if out, _ := run.Wait(t.Context()); out.Status != runlog.Interrupted {
		t.Fatal(out)
	}
	old.Close()
	for _, c := range []struct {
		restore func(string, json.RawMessage) (*workflow.Workflow, error)
		want    string
	}{
		{nil, "skipped"},
		{func(string, json.RawMessage) (*workflow.Workflow, error) { return nil, errors.New("no") }, "skipped"},
		{func(string, json.RawMessage) (*workflow.Workflow, error) {
			w := versioned2(t)
			w.Run = quick
			return w, nil
		}, "completed"},
	} {
		e, err := superstep.New(store, &superstep.Options{Restore: c.restore})
		if err != nil {
			t.Fatal(err)
		}
		got := "nothing"
		taken, err := e.Recover(t.Context(), &superstep.RecoverOptions{Skipped: func(string, error) { got = "skipped" }})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range taken {
			out, _ := r.Wait(t.Context())
			got = string(out.Status)
		}
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
		e.Close()
	}
}

func quick(context.Context, *workflow.Exec) (*workflow.Result, error) {
	return &workflow.Result{Output: json.RawMessage("1")}, nil
}

func versioned2(*testing.T) *workflow.Workflow {
	w := &workflow.Workflow{Name: "waits"}
	w.Run = func(ctx context.Context, _ *workflow.Exec) (*workflow.Result, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	w.Pin = func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage("1"), nil }
	w.Restore = func(json.RawMessage) (*workflow.Workflow, error) { return w, nil }
	return w
}

// A workflow within another is pinned when that begins with it.
func TestPinnedWithin(t *testing.T) {
	store := runlog.NewMemory(nil)
	outer := func() *workflow.Workflow {
		g := graph.New("outer", func(s, u string) string { return s + u })
		g.AddNode(graph.Call("call", "versioned", func(string) (any, error) { return map[string]any{}, nil }, func(raw json.RawMessage) (string, error) {
			var s string
			return s, json.Unmarshal(raw, &s)
		}))
		n := graph.Call("call2", "versioned", func(string) (any, error) { return map[string]any{}, nil }, func(raw json.RawMessage) (s string, err error) {
			return s, json.Unmarshal(raw, &s)
		})
		g.AddNode(n)
		g.Edge(graph.Start, "call")
		g.Edge("call", "call2")
		g.Edge("call2", graph.End)
		flow, err := g.Compile()
		if err != nil {
			t.Fatal(err)
		}
		type none struct{}
		w, err := workflow.New("outer", "", flow, func(none) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	yes := func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		return &runlog.Answer{Value: json.RawMessage(`"yes"`)}, true
	}
	e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{versioned(t, "1"), outer()}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := e.Start(t.Context(), "outer", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := run.Wait(t.Context()); out.Status != runlog.Paused || out.Open[0].Path != "call/ask-1" {
		t.Fatal(out)
	}
	e.Close()
	e, err = superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{versioned(t, "2"), outer()}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if run, err = e.Resume(t.Context(), run.ID(), &superstep.ResumeOptions{Answer: yes}); err != nil {
		t.Fatal(err)
	}
	out, _ := run.Wait(t.Context())
	if !strings.Contains(string(out.Output), "yes 2") || out.Status != runlog.Completed {
		t.Error("what begins later is of the version of then:", string(out.Output), out.Err)
	}
}

// The budget of a workflow holds unless the run's own says otherwise.
func TestBudgetOfWorkflow(t *testing.T) {
	w := versioned(t, "1")
	w.Budget = &runlog.Budget{Tokens: 5, Agents: 3}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run, err := e.Start(t.Context(), "versioned", nil, &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 9}})
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.RunStarted
		if err := json.Unmarshal(rec.Data, &d); err != nil || d.Budget == nil || d.Budget.Tokens != 9 || d.Budget.Agents != 3 {
			t.Error(string(rec.Data), err)
		}
		break
	}
}
