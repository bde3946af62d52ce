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
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

type zin struct {
	X string `json:"x,omitempty"`
}

func zflow(t *testing.T, run graph.TaskFunc[int, int]) *workflow.Workflow {
	t.Helper()
	g := graph.New("z", func(s, u int) int { return s + u })
	g.AddNode(graph.Node[int, int]{Name: "a", Run: run})
	g.Edge(graph.Start, "a")
	g.Edge("a", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("z", "z", f, func(zin) (int, error) { return 0, nil }, func(s int) (int, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// hookStore runs before at the first Acquire of an existing run.
type hookStore struct {
	runlog.Store
	before func()
}

func (h *hookStore) Acquire(ctx context.Context, id string, o *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if o == nil || o.Create == nil {
		if f := h.before; f != nil {
			h.before = nil
			f()
		}
	}
	return h.Store.Acquire(ctx, id, o)
}

func kinds(t *testing.T, s runlog.Store, id string) (out []runlog.Kind) {
	for r, err := range runlog.Records(context.Background(), s, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Kind)
	}
	return
}

func asks(ctx context.Context, t *graph.Task, s int) (int, error) {
	if _, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "ok?"}); err != nil {
		return 0, err
	}
	return 1, nil
}

func yes(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
	return &runlog.Answer{Value: json.RawMessage(`"y"`)}, true
}

// A run that is cancelled between looking and taking it is not resumed.
func TestResumeLosesToACancellation(t *testing.T) {
	ctx := context.Background()
	mem := runlog.NewMemory(nil)
	w := zflow(t, asks)
	e1, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	r, err := e1.Start(ctx, "z", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	h := &hookStore{Store: mem, before: func() {
		if err := e1.Cancel(ctx, r.ID()); err != nil {
			t.Fatal(err)
		}
	}}
	e2, _ := superstep.New(h, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	r2, err := e2.Resume(ctx, r.ID(), &superstep.ResumeOptions{Answer: yes})
	if err == nil {
		o, _ := r2.Wait(ctx)
		t.Errorf("resumed a cancelled run: %s %s; log %v", o.Status, o.Output, kinds(t, mem, r.ID()))
	}
}

// A run that ends between looking and taking it is not cancelled any more.
func TestCancelLosesToTheEnd(t *testing.T) {
	ctx := context.Background()
	mem := runlog.NewMemory(nil)
	w := zflow(t, asks)
	e1, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	r, _ := e1.Start(ctx, "z", nil, nil)
	r.Wait(ctx)
	h := &hookStore{Store: mem, before: func() {
		r, err := e1.Resume(ctx, r.ID(), &superstep.ResumeOptions{Answer: yes})
		if err != nil {
			t.Fatal(err)
		}
		r.Wait(ctx)
	}}
	e2, _ := superstep.New(h, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	err := e2.Cancel(ctx, r.ID())
	infos, _ := mem.Runs(ctx, nil)
	if infos[0].Status != runlog.Completed {
		t.Errorf("a completed run is now %s (err %v); log %v", infos[0].Status, err, kinds(t, mem, r.ID()))
	}
}

// A cancellation while a person is asked is carried out.
func TestCancelAtAQuestion(t *testing.T) {
	ctx := context.Background()
	mem := runlog.NewMemory(nil)
	w := zflow(t, asks)
	e1, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	id := make(chan string, 1)
	r, _ := e1.Start(ctx, "z", nil, &superstep.StartOptions{Answer: func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		if err := e1.Cancel(ctx, <-id); err != nil {
			t.Error(err)
		}
		return nil, false
	}})
	id <- r.ID()
	o, _ := r.Wait(ctx)
	if o.Status != runlog.Cancelled {
		t.Errorf("Cancel gave nil, and the run is %s", o.Status)
	}
}

// So is one that another process asks for.
func TestCancelRequestAtAQuestion(t *testing.T) {
	ctx := context.Background()
	mem := runlog.NewMemory(nil)
	w := zflow(t, asks)
	e1, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	e2, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	id := make(chan string, 1)
	r, _ := e1.Start(ctx, "z", nil, &superstep.StartOptions{Answer: func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		if err := e2.Cancel(ctx, <-id); err != nil { // another process
			t.Error(err)
		}
		return nil, false
	}})
	id <- r.ID()
	o, _ := r.Wait(ctx)
	if o.Status != runlog.Cancelled {
		t.Errorf("the cancellation was accepted, and the run is %s", o.Status)
	}
	var ended *runlog.EndedError
	if _, err := e2.Resume(ctx, r.ID(), &superstep.ResumeOptions{Answer: yes}); !errors.As(err, &ended) {
		t.Errorf("resume: %v", err)
	}
}

// A request that the holder did not live to see is carried out by whoever takes the run up.
func TestCancelRequestOutlivesItsHolder(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1, 0)
	mem := runlog.NewMemory(&runlog.MemoryOptions{Now: func() time.Time { return now }})
	w := zflow(t, asks)
	e, err := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(ctx, "z", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := mem.Acquire(ctx, r.ID(), nil); err != nil { // a holder that dies
		t.Fatal(err)
	}
	if err := mem.RequestCancel(ctx, r.ID()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	var ended *runlog.EndedError
	if _, err := e.Resume(ctx, r.ID(), &superstep.ResumeOptions{Answer: yes}); !errors.As(err, &ended) || ended.Status != runlog.Cancelled {
		t.Errorf("resume: %v", err)
	}
}

// What a workflow does before its graph begins is found again, past any snapshot.
func TestEffectBeforeTheGraphHappensOnce(t *testing.T) {
	ctx := context.Background()
	mem := runlog.NewMemory(nil)
	n := 0
	w, err := workflow.Func("z", "z", func(ctx context.Context, in struct{}, e *workflow.Exec) (int, error) {
		_, err := e.Journal.Scope("setup").Do(ctx, &journal.Effect{Key: "charge", Kind: "tool", Name: "charge", Repeat: journal.RepeatNever, Do: func(context.Context, string) (json.RawMessage, error) {
			n++
			return json.RawMessage(`1`), nil
		}})
		if err != nil {
			return 0, err
		}
		g := graph.New("z", func(s, u int) int { return s + u })
		g.AddNode(graph.Node[int, int]{Name: "a", Run: func(ctx context.Context, t *graph.Task, s int) (int, error) {
			_, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "?"})
			return 1, err
		}})
		g.Edge(graph.Start, "a")
		g.Edge("a", graph.End)
		f, err := g.Compile()
		if err != nil {
			return 0, err
		}
		return f.Run(ctx, 0, &e.Graph)
	})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	r, _ := e.Start(ctx, "z", nil, nil)
	r.Wait(ctx)
	r, err = e.Resume(ctx, r.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Wait(ctx)
	if n != 1 {
		t.Errorf("an effect that must never be repeated, with a recorded outcome, happened %d times", n)
	}
}

// A journal takes one graph: a second one would find the first one's end.
func TestTwoGraphsAreRefused(t *testing.T) {
	ctx := context.Background()
	mem := runlog.NewMemory(nil)
	mk := func(name string) *graph.Flow[int, int] {
		g := graph.New(name, func(s, u int) int { return s + u })
		g.Add("a", func(context.Context, int) (int, error) { return 1, nil })
		g.Edge(graph.Start, "a")
		g.Edge("a", graph.End)
		f, _ := g.Compile()
		return f
	}
	w, _ := workflow.Func("z", "z", func(ctx context.Context, in struct{}, e *workflow.Exec) (int, error) {
		f1, err := mk("one").Run(ctx, 0, &e.Graph)
		if err != nil {
			return 0, err
		}
		f2, err := mk("one").Run(ctx, 100, &e.Graph)
		return f1*1000 + f2, err
	})
	e, _ := superstep.New(mem, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	r, _ := e.Start(ctx, "z", nil, nil)
	o, _ := r.Wait(ctx)
	if o.Err == nil || !strings.Contains(o.Err.Error(), "a graph was run there already") {
		t.Errorf("%s %s %v", o.Status, o.Output, o.Err)
	}
}
