package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// input is what a run does.
type input struct {
	Items int      `json:"items,omitempty"` // tasks side by side, or child runs
	Ask   []string `json:"ask,omitempty"`   // questions
	Gate  bool     `json:"gate,omitempty"`  // wait for leave
	Talk  bool     `json:"talk,omitempty"`  // an agent takes a turn at the gate, and says what it hears
	Fail  bool     `json:"fail,omitempty"`  // fail while fails is set
}

type state struct {
	input
	Log []string `json:"log,omitempty"`
}

// deeds are what the runs of a world do outside their logs.
type deeds struct {
	mu    *sync.Mutex
	did   map[string]int // effects
	enter chan struct{}  // receives a value for each task at a gate
	leave chan struct{}
	fails *atomic.Bool
	dead  func() bool // whether the process is
}

func newDeeds() deeds {
	return deeds{mu: &sync.Mutex{}, did: map[string]int{}, enter: make(chan struct{}, 100), leave: make(chan struct{}), fails: &atomic.Bool{}}
}

// do performs an effect that happens once, which takes 10 tokens.
func (d *deeds) do(ctx context.Context, t *graph.Task, name string) ([]string, error) {
	e := &journal.Effect{Key: name, Kind: "tool", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: 10}}
	_, err := journal.Do(ctx, t.Scope(), e, func(_ context.Context, key string) (int, error) {
		if d.dead() {
			return 0, runlogtest.ErrCrash
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.did[t.Scope().Run()+" "+name+" "+key]++
		return 0, nil
	})
	return []string{name}, err
}

// once checks that effects have happened once in run "r". One that a crash cut off is repeated with the same key, which counts as once.
func (w *world) once(names ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		n := 0
		for key := range w.did {
			if strings.HasPrefix(key, "r "+name+" ") {
				n++
			}
		}
		if n != 1 {
			w.t.Errorf("effect %s happened under %d keys, want 1: %v", name, n, w.did)
		}
	}
}

// enters waits for a task at a gate.
func (w *world) enters() {
	w.t.Helper()
	select {
	case <-w.enter:
	case <-time.After(time.Minute):
		w.t.Fatal("no task comes to the gate")
	}
}

// drain forgets who came to the gate.
func (w *world) drain() {
	for len(w.enter) > 0 {
		<-w.enter
	}
}

// at waits at the gate.
func (d *deeds) at(ctx context.Context) error {
	d.enter <- struct{}{}
	select {
	case <-d.leave:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// workflows returns "job", "family", whose child runs are jobs, and "grand", whose child runs are families.
func (d *deeds) workflows(t testing.TB, version int) []*workflow.Workflow {
	t.Helper()
	fold := func(s state, u []string) state { s.Log = append(s.Log[:len(s.Log):len(s.Log)], u...); return s }
	g := graph.New("job", fold)
	g.AddNode(graph.Node[state, []string]{Name: "begin", Run: func(ctx context.Context, t *graph.Task, _ state) ([]string, error) { return d.do(ctx, t, "begin") }})
	g.AddNode(graph.Node[state, []string]{Name: "item", Run: func(ctx context.Context, t *graph.Task, _ state) ([]string, error) {
		var name string
		if err := t.Arg(&name); err != nil {
			return nil, err
		}
		return d.do(ctx, t, name)
	}})
	g.AddNode(graph.Node[state, []string]{Name: "middle", Run: d.middle})
	g.AddNode(graph.Node[state, []string]{Name: "end", Run: func(ctx context.Context, t *graph.Task, _ state) ([]string, error) { return d.do(ctx, t, "end") }})
	g.Edge(graph.Start, "begin")
	g.Fan("begin", func(s state) (out []graph.Send) {
		if s.Items == 0 {
			return []graph.Send{{To: "middle"}}
		}
		for i := range s.Items {
			out = append(out, graph.Send{To: "item", Key: fmt.Sprint(i), Arg: fmt.Sprint("item/", i)})
		}
		return out
	}, "item", "middle")
	g.Edge("item", "middle")
	if version == 1 {
		g.Edge("middle", "end")
	} else {
		g.Add("other", func(context.Context, state) ([]string, error) { return []string{"other"}, nil })
		g.Edge("middle", "other")
		g.Edge("other", "end")
	}
	g.Edge("end", graph.End)
	text := func(sep string) func(state) (string, error) {
		return func(s state) (string, error) { return strings.Join(s.Log, sep), nil }
	}
	read := func(in input) (state, error) { return state{input: in}, nil }
	jobs, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	job, err := workflow.New("job", "Does what its inputs say.", jobs, read, text(" "))
	if err != nil {
		t.Fatal(err)
	}
	family := func(name, child string) *workflow.Workflow {
		f := graph.New(name, fold)
		f.Add("plan", func(context.Context, state) ([]string, error) { return nil, nil })
		f.AddNode(graph.Node[state, []string]{Name: "child", Uses: []string{child}, Run: begets(child)})
		f.Edge(graph.Start, "plan")
		f.Fan("plan", func(s state) (out []graph.Send) {
			for i := range s.Items {
				out = append(out, graph.Send{To: "child", Key: fmt.Sprint(i), Arg: i + 1})
			}
			return out
		}, "child")
		f.Edge("child", graph.End)
		flow, err := f.Compile()
		if err != nil {
			t.Fatal(err)
		}
		w, err := workflow.New(name, "Has child runs.", flow, read, text(", "))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	return []*workflow.Workflow{job, family("family", "job"), family("grand", "family")}
}

// begets runs a workflow as a child run with as many items as its place among its siblings.
func begets(name string) func(context.Context, *graph.Task, state) ([]string, error) {
	return func(ctx context.Context, t *graph.Task, s state) ([]string, error) {
		in := s.input
		if err := t.Arg(&in.Items); err != nil {
			return nil, err
		}
		w, err := t.Workflow(name)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		end, err := t.Child(ctx, "", w, raw, &graph.Child{})
		if err == nil {
			err = graph.ChildError(name, end)
		}
		if err != nil {
			return nil, err
		}
		var out string
		return []string{out}, json.Unmarshal(end.Output, &out)
	}
}

func (d *deeds) middle(ctx context.Context, t *graph.Task, s state) (out []string, err error) {
	for _, key := range s.Ask {
		a, err := graph.Ask[string](ctx, graph.Question{Key: key, Text: "What about " + key + "?"})
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	switch {
	case s.Fail && d.fails.Load():
		return nil, errors.New("it fails")
	case s.Gate:
		return append(out, "gate"), d.at(ctx)
	case s.Talk:
		said, err := d.talk(ctx, t)
		return append(out, said), err
	}
	return out, nil
}

// talk is an agent that looks once, at the gate, and then says what it was told.
func (d *deeds) talk(ctx context.Context, t *graph.Task) (string, error) {
	look, err := tool.New("look", "Looks.", func(context.Context, struct{}) (string, error) { return "nothing", nil }, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return "", err
	}
	set, err := tool.NewSet(look)
	if err != nil {
		return "", err
	}
	m := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		turns, heard := 0, []string{}
		for _, m := range r.Messages {
			switch {
			case m.Role == model.Assistant:
				turns++
			case m.Text() == "now":
				heard = append(heard, "now")
			}
		}
		if turns == 0 {
			_ = d.at(ctx)
			return scripted.Call("look", "{}")
		}
		return scripted.Say(strings.Join(heard, " "))
	}}
	out, err := (&agent.Agent{Name: "talker", Model: m, Tools: set}).Run(ctx, t.Scope(), &agent.Work{Prompt: "go", Stopped: t.Stopped()})
	if err != nil {
		return "", err
	}
	return out.Text, nil
}
