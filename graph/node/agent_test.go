package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

func named(name string, m model.Model) *agent.Agent { return &agent.Agent{Name: name, Model: m} }

func TestSubagentByName(t *testing.T) {
	list := []*agent.Agent{named("reader", always(scripted.Say("I read"))), named("writer", always(scripted.Say("I wrote")))}
	n := node.Subagent("step", "writer", list, topic, said)
	if n.Kind != "subagent" {
		t.Errorf("kind %q", n.Kind)
	}
	got, err := oneWay(t, n).Run(t.Context(), state{}, nil)
	if err != nil || cmp.Diff([]string{"I wrote"}, got.Notes) != "" {
		t.Errorf("got %v, %v", got, err)
	}
	want := `graph "test": node "step": there is no agent "writter"; did you mean "writer"?`
	if got := mistakes(node.Subagent("step", "writter", list, topic, said)); got != want {
		t.Errorf("got %s", got)
	}
}

// What is wrong with a node is reported by Compile, all of it at once.
func TestMistakesAreReported(t *testing.T) {
	a := named("a", always(scripted.Say("")))
	set := tools(t, echo(t, "echo", "", nil))
	conv := conversation()
	for name, tc := range map[string]struct {
		node graph.Node[state, update]
		want []string
	}{
		"agent":        {node.Agent[state, update]("n", &agent.Agent{Name: "x"}, nil, said), []string{"agent x has no model", "its prompt is nil"}},
		"no agent":     {node.Agent("n", nil, topic, said), []string{"its agent is nil"}},
		"typed":        {node.Typed("n", &agent.Agent{Name: "x"}, topic, func(state, []int) (update, error) { return update{}, nil }), []string{"agent x has no model", "a []int is none"}},
		"subagents":    {node.Subagents("n", []*agent.Agent{a, a}, jobs, texts, nil), []string{`agent "a" is there twice`}},
		"no agents":    {node.Subagents("n", nil, jobs, texts, nil), []string{"it has no agents"}},
		"tool":         {node.Tool("n", set, "eco", node.Args[state]{}, add), []string{`no tool "eco"; did you mean "echo"?`}},
		"static args":  {node.Tool("n", set, "echo", node.Args[state]{Static: map[string]any{"a": func() {}}}, add), []string{"unsupported type: func()"}},
		"func":         {node.Func("n", "twice", topic, func(context.Context, string, string) (string, error) { return "", nil }, add), []string{`there is no effect "twice"`}},
		"router":       {node.Router[state, update]("n", nil, add, ""), []string{"its chooser is nil", "it has no targets"}},
		"branches":     {node.Parallel("n", []graph.Node[state, update]{note("x"), note("x"), note("a b")}, notes, nil), []string{`"x" is added twice`, `"a b"`}},
		"no branches":  {node.Parallel("n", nil, notes, nil), []string{"has no nodes"}},
		"branch joins": {node.Parallel("n", []graph.Node[state, update]{{Name: "x", Join: graph.All}}, notes, nil), []string{`branch "x": a branch has no Join`}},
		"strategy":     {node.Parallel("n", []graph.Node[state, update]{note("x")}, notes, &node.ParallelOptions{Strategy: 9}), []string{"there is no strategy 9"}},
		"wait":         {node.Wait("n", agent.Clock{}, func(state) (time.Duration, error) { return 0, nil }, idle), []string{"its clock's Now is nil", "its clock's After is nil"}},
		"until":        {node.Until("n", agent.Clock{Now: time.Now, After: time.After}, 0, nil, idle), []string{"its condition is nil", "its interval is 0s"}},
		"gather":       {node.Gather[state, update, int]("n", graph.Any, nil), []string{"its merge is nil"}},
		"clear":        {node.Clear("n", conv, &node.ClearOptions{Keep: -1}), []string{"it is to keep -1 messages"}},
		"monitor": {
			node.Monitor("n", conv, node.MonitorOptions[state]{Keep: -1, Warn: 2, Recreate: 0.2}),
			[]string{"its window is not given", "-1 messages", "2 is no part of its window", "it wants a Summary"},
		},
	} {
		got := mistakes(tc.node)
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q does not say %q", name, got, want)
			}
		}
	}
}

// An agent that is run again for a better input of another node is told what was wrong.
func TestAgentHearsFeedback(t *testing.T) {
	m := sequence(scripted.Say("bad"), scripted.Say("good"))
	a := node.Agent("draft", named("a", m), topic, said)
	a.Reads = []string{}
	check := note("check")
	check.Reads = []string{"draft"}
	check.Input = &graph.Input[state]{
		Schema: &jsonschema.Schema{Enum: []any{"good"}},
		Of:     func(s state) (any, error) { return s.Notes[len(s.Notes)-1], nil },
	}
	got, err := oneWay(t, a, check).Run(t.Context(), state{Topic: "write"}, &graph.RunOptions{Journal: open(t, runlogtest.NewMortal())})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bad", "good", "check"}, got.Notes); diff != "" {
		t.Error(diff)
	}
	first, second := m.Requests()[0].Messages[0].Text(), m.Requests()[1].Messages[0].Text()
	if first != "write" || !strings.HasPrefix(second, "write\n\nWhat you gave for this before could not be used:\n- ") {
		t.Errorf("asked %q, then %q", first, second)
	}
}

// A conversation that has come to nothing is not had again from the log, but anew; one
// that a model broke off is continued with.
func TestAgentBeginsAnewAfterALimit(t *testing.T) {
	set := tools(t, echo(t, "done", "pure", nil))
	m := sequence(scripted.Say("hm"), scripted.Say("hm"), scripted.Call("done", `{"a":"x"}`))
	a := &agent.Agent{Name: "a", Model: m, Tools: set, Finish: "done", Limits: agent.Limits{Turns: 2}}
	n := node.Agent("work", a, topic, func(s state, o *agent.Outcome) (update, error) { return add(s, string(o.Args)) })
	store := runlogtest.NewMortal()
	flow := oneWay(t, n)
	var limit *agent.LimitError
	if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)}); !errors.As(err, &limit) {
		t.Fatal(err)
	}
	store.Revive()
	got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)})
	if err != nil || cmp.Diff([]string{`{"a":"x"}`}, got.Notes) != "" || len(m.Requests()) != 3 {
		t.Fatalf("got %v, %v after %d turns", got, err, len(m.Requests()))
	}
}

// Results come in the order of the jobs, however long each takes, and no more agents are
// running than may be.
func TestSubagentsInOrderAndCapped(t *testing.T) {
	var mu sync.Mutex
	working, peak := 0, 0
	both := make(chan struct{}, 2)
	m := &scripted.Model{ID: "test/m"}
	m.Answer = func(req *model.Request) scripted.Turn {
		mu.Lock()
		working++
		peak = max(peak, working)
		mu.Unlock()
		select { // until there are two, or the other one of this pair has gone on
		case both <- struct{}{}:
		case <-both:
		}
		mu.Lock()
		working--
		mu.Unlock()
		return scripted.Say("did " + req.Messages[0].Text())
	}
	n := node.Subagents("work", []*agent.Agent{named("a", m)}, jobs, texts, &node.SubagentsOptions{Width: 2})
	got, err := oneWay(t, n).Run(t.Context(), state{Items: []int{6, 5, 4, 3, 2, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 did 6", "2 did 5", "3 did 4", "4 did 3", "5 did 2", "6 did 1"}, got.Notes); diff != "" {
		t.Error(diff)
	}
	if peak > 2 {
		t.Errorf("%d agents at once", peak)
	}
}

func TestSubagentsFailures(t *testing.T) {
	broken := true
	m := &scripted.Model{ID: "test/m"}
	m.Answer = func(req *model.Request) scripted.Turn {
		switch p := req.Messages[0].Text(); {
		case p == "panic":
			panic("out of paper")
		case p == "2" && broken:
			return scripted.Fail(errors.New("no answer"))
		default:
			return scripted.Say("did " + p)
		}
	}
	list := []*agent.Agent{named("a", m)}
	t.Run("settled", func(t *testing.T) {
		got, err := oneWay(t, node.Subagents("work", list, jobs, texts, &node.SubagentsOptions{Settled: true})).Run(t.Context(), state{Items: []int{1, 2, 3}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 did 1", "2 failed: agent a: no answer", "3 did 3"}, got.Notes); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("settled stays settled", func(t *testing.T) {
		store, merges := runlogtest.NewMortal(), 0
		flow := oneWay(t, node.Subagents("work", list, jobs, func(s state, rs []node.Result[*agent.Outcome]) (update, error) {
			if merges++; merges == 1 {
				store.Die()
			}
			return texts(s, rs)
		}, &node.SubagentsOptions{Settled: true}))
		if _, err := flow.Run(t.Context(), state{Items: []int{1, 2}}, &graph.RunOptions{Journal: open(t, store)}); !errors.Is(err, runlogtest.ErrCrash) {
			t.Fatal(err)
		}
		store.Revive()
		broken = false
		got, err := flow.Run(t.Context(), state{Items: []int{1, 2}}, &graph.RunOptions{Journal: open(t, store)})
		if diff := cmp.Diff([]string{"1 did 1", "2 failed: agent a: no answer"}, got.Notes); diff != "" || err != nil {
			t.Error(diff, err)
		}
		broken = true
	})
	t.Run("nothing is begun after a failure", func(t *testing.T) {
		before := len(m.Requests())
		flow := oneWay(t, node.Subagents("work", list, jobs, texts, &node.SubagentsOptions{Width: 1}))
		if _, err := flow.Run(t.Context(), state{Items: []int{2, 1, 1}}, nil); err == nil || len(m.Requests()) != before+1 {
			t.Errorf("got %v, asked %d times", err, len(m.Requests())-before)
		}
	})
	t.Run("fail, and again", func(t *testing.T) {
		store := runlogtest.NewMortal()
		flow := oneWay(t, node.Subagents("work", list, jobs, texts, &node.SubagentsOptions{Width: 1}))
		_, err := flow.Run(t.Context(), state{Items: []int{1, 2}}, &graph.RunOptions{Journal: open(t, store)})
		if err == nil || !strings.Contains(err.Error(), `job "2": agent a: no answer`) {
			t.Fatal(err)
		}
		broken = false
		before := len(m.Requests())
		store.Revive()
		got, err := flow.Run(t.Context(), state{Items: []int{1, 2}}, &graph.RunOptions{Journal: open(t, store)})
		if err != nil || cmp.Diff([]string{"1 did 1", "2 did 2"}, got.Notes) != "" || len(m.Requests()) != before+1 {
			t.Errorf("got %v, %v, asked %d times more", got, err, len(m.Requests())-before)
		}
	})
	for name, tc := range map[string]struct {
		jobs []node.Job
		want string
	}{
		"panic":   {[]node.Job{{Prompt: "panic"}}, "out of paper"},
		"unknown": {[]node.Job{{Agent: "aa"}, {Agent: "b"}}, `job "1": there is no agent "aa"; did you mean "a"?` + "\n" + `job "2": there is no agent "b"; known: a`},
		"twice":   {[]node.Job{{Key: "x"}, {Key: "x"}}, `job "x" is there twice`},
	} {
		t.Run(name, func(t *testing.T) {
			n := node.Subagents("work", list, func(state) ([]node.Job, error) { return tc.jobs, nil }, texts, nil)
			_, err := oneWay(t, n).Run(t.Context(), state{}, nil)
			var tasks *graph.TasksError
			if !errors.As(err, &tasks) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if got, err := oneWay(t, node.Subagents("work", list, jobs, texts, nil)).Run(t.Context(), state{}, nil); err != nil || got.Notes != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// Several agents are chosen among by name.
func TestSubagentsOfSeveralKinds(t *testing.T) {
	list := []*agent.Agent{named("reader", always(scripted.Say("read"))), named("writer", always(scripted.Say("wrote")))}
	n := node.Subagents("work", list, func(state) ([]node.Job, error) {
		return []node.Job{{Key: "w", Agent: "writer"}, {Key: "r", Agent: "reader"}}, nil
	}, texts, nil)
	got, err := oneWay(t, n).Run(t.Context(), state{}, nil)
	if err != nil || fmt.Sprint(got.Notes) != "[w wrote r read]" {
		t.Errorf("got %v, %v", got, err)
	}
}
