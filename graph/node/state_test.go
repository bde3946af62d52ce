package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// Tools are handed the state as it is when their node begins, and where they are, whether a
// node calls them or an agent; what they do to it reaches nobody.
func TestToolsSeeTheState(t *testing.T) {
	type seen struct{ state, run, node, agent string }
	var got []seen
	set := tools(t, echo(t, "spy", tool.Pure, func(c *tool.Call) error {
		s, err := c.State()
		if err != nil {
			return err
		}
		got = append(got, seen{string(s), c.Run, c.Node, c.Agent})
		for i := range s {
			s[i] = 'x'
		}
		again, err := c.State()
		if err == nil && strings.HasPrefix(string(again), "x") {
			err = errors.New("it can be written")
		}
		return err
	}))
	m := &scripted.Model{ID: "test/m"}
	m.Answer = func(r *model.Request) scripted.Turn {
		if len(r.Messages) == 1 {
			return scripted.Call("spy", `{}`)
		}
		return scripted.Say("ok")
	}
	a := &agent.Agent{Name: "spying", Model: m, Tools: set}
	jobs := func(state) ([]node.Job, error) { return []node.Job{{Prompt: "a"}}, nil }
	merge := func(_ state, r []node.Result[*agent.Outcome]) (update, error) { return update{}, nil }
	flow := oneWay(t,
		node.Tool("tool", set, "spy", node.Args[state]{}, add),
		node.Agent("agent", a, topic, said),
		node.Subagents("subagents", []*agent.Agent{a}, jobs, merge, &node.SubagentsOptions{Settled: true}),
	)
	final, err := flow.Run(t.Context(), state{Topic: "go"}, &graph.RunOptions{Journal: open(t, runlogtest.NewMortal())})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || len(final.Notes) != 2 {
		t.Fatal(got, final)
	}
	for i, want := range []seen{{node: "tool", agent: tool.Workflow}, {node: "agent", agent: "spying"}, {node: "subagents", agent: "spying"}} {
		var s state
		if err := json.Unmarshal([]byte(got[i].state), &s); err != nil || s.Topic != "go" || len(s.Notes) != min(i, 2) {
			t.Errorf("%s: state %s: %v", want.node, got[i].state, err)
		}
		if got[i].node != want.node || got[i].agent != want.agent || got[i].run == "" {
			t.Errorf("%+v", got[i])
		}
	}
	got = nil
	if _, err := flow.Run(t.Context(), state{Topic: "go"}, nil); err != nil || len(got) != 3 || got[0].run != "" || got[0].node != "" {
		t.Error(got, err)
	}
}

// A run that is told to stop does not wait for an agent that waits for a rate limit, and
// continues with it when it is resumed.
func TestStopDuringRateLimit(t *testing.T) {
	busy := true
	m := &scripted.Model{ID: "test/m"}
	m.Answer = func(*model.Request) scripted.Turn {
		if busy {
			busy = false
			return scripted.Fail(&model.Error{Provider: "m", Model: "m", Status: 429, RetryAfter: time.Hour, Temporary: true, Err: errors.New("slow down")})
		}
		return scripted.Say("ok")
	}
	now, stop := time.Unix(1000, 0), make(chan struct{})
	a := &agent.Agent{Name: "a", Model: m, Clock: &agent.Clock{Now: func() time.Time { return now }, After: func(time.Duration) <-chan time.Time {
		close(stop)
		return nil
	}}}
	flow := oneWay(t, node.Agent("agent", a, topic, said))
	store := runlogtest.NewMortal()
	j := open(t, store)
	if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, Stop: stop}); !errors.Is(err, graph.ErrStopped) {
		t.Fatal(err)
	}
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	j, err := journal.Open(t.Context(), store, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	final, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil || fmt.Sprint(final.Notes) != "[ok]" {
		t.Fatal(final, err)
	}
}
