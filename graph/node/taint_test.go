package node_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// Whoever a conversation is handed to has seen what strangers wrote, whether that stands in it or is what the agent before was given.
func TestTaintOfHandoff(t *testing.T) {
	hand := scripted.Call("transfer_to_b", "{}")
	for name, c := range map[string]struct {
		turns   []scripted.Turn
		tainted bool
	}{
		"a page":                         {[]scripted.Turn{scripted.Call("web_fetch", "{}"), hand}, true},
		"a tool that the next lacks":     {[]scripted.Turn{scripted.Call("issues", "{}"), hand}, true},
		"a server":                       {[]scripted.Turn{scripted.Call("mcp__x__y", "{}"), hand}, true},
		"in the turn of the hand-off":    {[]scripted.Turn{scripted.Call("issues", "{}").And(hand)}, true},
		"nothing of strangers":           {[]scripted.Turn{scripted.Call("read_file", "{}"), hand}, false},
		"an answer that failed":          {[]scripted.Turn{scripted.Call("web_fetch", `{"n":7}`), hand}, true},
		"an answer of two agents before": {[]scripted.Turn{scripted.Call("issues", "{}"), scripted.Call("transfer_to_c", "{}")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []string
			issues := echo(t, "issues", tool.Pure, nil)
			issues.Network = true
			fetch := echo(t, "web_fetch", tool.Pure, func(c *tool.Call) error {
				if strings.Contains(string(c.Args), "7") {
					return errors.New("no")
				}
				return nil
			})
			all := tools(t, issues, fetch, echo(t, "mcp__x__y", tool.Pure, nil), echo(t, "read_file", tool.Pure, nil), echo(t, "forget", tool.Pure, nil))
			sends := tools(t, echo(t, "send", tool.Pure, func(c *tool.Call) error { seen = slices.Clone(c.Seen); return nil }))
			conv := conversation()
			chat := func(name string, set *tool.Set, acts []*agent.Action, turns ...scripted.Turn) graph.Node[state, update] {
				return node.Chat(name, &agent.Agent{Name: name, Model: &scripted.Model{ID: "test/m", Turns: turns}, Tools: set, Actions: acts}, conv, nil)
			}
			a := chat("a", all, []*agent.Action{agent.Handoff("b", ""), agent.Handoff("c", "")}, c.turns...)
			between := chat("c", nil, []*agent.Action{agent.Handoff("b", "")}, hand)
			b := chat("b", sends, nil, scripted.Call("send", "{}"), scripted.Say("done"))
			nodes := []graph.Node[state, update]{a, b}
			if strings.HasPrefix(name, "an answer of two") {
				nodes = []graph.Node[state, update]{a, between, b}
			}
			_, run := runs(t, oneWay(t, nodes...))
			if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed {
				t.Fatal(out, err)
			}
			if slices.ContainsFunc(seen, tool.Stranger) != c.tainted {
				t.Errorf("it sends after %q", seen)
			}
		})
	}
}

// What an agent has seen of files is the same in each replay, though others write them at the same time.
func TestSeenBeside(t *testing.T) {
	for _, before := range []bool{true, false} {
		read, written := make(chan bool), make(chan bool)
		first, second := sync.OnceFunc(func() { close(read) }), sync.OnceFunc(func() { close(written) })
		waits := func(name string, effect tool.Effect, c chan bool, network bool) *tool.Tool {
			x := echo(t, name, effect, func(*tool.Call) error {
				if c != nil {
					<-c
				}
				return nil
			})
			x.Network = network
			return x
		}
		reader, writer := waits("read_file", tool.Pure, nil, false), waits("fetch", tool.Pure, read, true)
		if !before {
			reader, writer = waits("read_file", tool.Pure, written, false), waits("fetch", tool.Pure, nil, true)
		}
		works := func(name string, set *tool.Set, done func(), turns ...scripted.Turn) graph.Node[state, update] {
			a := &agent.Agent{Name: name, Model: &scripted.Model{ID: "test/m", Turns: append(turns, scripted.Say("done"))}, Tools: set}
			return node.Agent(name, a, topic, func(s state, o *agent.Outcome) (update, error) { done(); return add(s, strings.Join(o.Seen, ",")) })
		}
		both := node.Parallel("both", []graph.Node[state, update]{
			works("reader", tools(t, reader), first, scripted.Call("read_file", "{}")),
			works("writer", tools(t, writer, echo(t, "write_file", tool.Idempotent, nil)), second, scripted.Call("fetch", "{}"), scripted.Call("write_file", "{}")),
		}, notes, nil)
		e, run := runs(t, oneWay(t, both))
		out, err := run.Wait(t.Context())
		if err != nil || strings.Contains(string(out.Output), tool.WrittenFile) == before {
			t.Fatalf("read before: %v: %s, %v", before, out.Output, err)
		}
		for range 100 {
			report, err := e.Replay(t.Context(), run.ID(), &superstep.ReplayOptions{Wait: 5 * time.Second})
			if err != nil || report.Diverged != nil {
				t.Fatalf("read before: %v: %+v, %v", before, report, err)
			}
		}
	}
}

// runs starts a run of a flow.
func runs(t *testing.T, flow *graph.Flow[state, update]) (*superstep.Engine, *superstep.Run) {
	t.Helper()
	f, err := workflow.New("test", "A test.", flow, func(struct{}) (state, error) { return state{Talk: []model.Message{model.UserText("Go.")}}, nil },
		func(s state) (string, error) { return strings.Join(s.Notes, " "), nil })
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{f}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	run, err := e.Start(t.Context(), "test", json.RawMessage(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return e, run
}
