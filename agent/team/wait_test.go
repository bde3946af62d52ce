package team_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// asksAbout is a gate that asks about one tool.
type asksAbout string

func (name asksAbout) Check(t *tool.Tool, _ *tool.Call) tool.Verdict {
	if t.Name == string(name) {
		return tool.Verdict{Decision: tool.Ask}
	}
	return tool.Verdict{Decision: tool.Allow}
}

// A call, and an agent of a team, continues with its answer while the others of its turn work or wait.
func TestAnsweredCallsContinue(t *testing.T) {
	ask, slow := call("ask", words{"x"}), call("slow", words{"x"})
	for name, c := range map[string]struct {
		calls  []model.Part            // of the lead's first turn
		agents map[string][]model.Part // the first turns of agents
		asks   string                  // the place that is answered
		others string                  // one that is answered last
	}{
		"an action":     {calls: []model.Part{ask, slow}, asks: "work/ask[1.1]"},
		"a permission":  {calls: []model.Part{call("quick", words{"x"}), slow}, asks: "work"},
		"one of three":  {calls: []model.Part{ask, call("ask", words{"y"}), slow}, asks: "work/ask[1.1]", others: "work/ask[1.2]"},
		"tasks":         {calls: []model.Part{call("task", task("asker", "a")), call("task", task("worker", "b"))}, asks: "work/task[1.1]/asker/ask[1.1]"},
		"a batch":       {calls: []model.Part{batch(task("asker", "a"), task("worker", "b"))}, asks: "work/task_batch[1.1]/asker[1]/ask[1.1]"},
		"two askers":    {calls: []model.Part{batch(task("asker", "a"), task("worker", "b"), task("asker", "c"))}, asks: "work/task_batch[1.1]/asker[1]/ask[1.1]", others: "work/task_batch[1.1]/asker[3]/ask[1.1]"},
		"batch by slow": {calls: []model.Part{batch(task("asker", "a"), task("asker", "c")), slow}, asks: "work/task_batch[1.1]/asker[1]/ask[1.1]", others: "work/task_batch[1.1]/asker[2]/ask[1.1]"},
	} {
		t.Run(name, func(t *testing.T) {
			quick := make(chan struct{})
			hurry := sync.OnceFunc(func() { close(quick) })
			m := &speaker{say: func(r *model.Request, turn int) any {
				switch {
				case turn > 0:
				case r.System == "lead":
					return c.calls
				case r.System == "asker":
					return []model.Part{call("ask", words{"x"})}
				case r.System == "worker":
					return []model.Part{call("slow", words{"x"})}
				}
				return "done"
			}}
			var tools []*tool.Tool
			for name, do := range map[string]func() error{
				"quick": func() error { hurry(); return nil },
				"slow": func() error {
					select {
					case <-quick:
						return nil
					case <-time.After(10 * time.Second):
						t.Error("what was answered did not continue beside it")
						return errors.New("too late")
					}
				},
			} {
				w, err := tool.New(name, "x", func(context.Context, words) (string, error) { return name, do() }, &tool.Options{Effect: tool.Pure})
				if err != nil {
					t.Fatal(err)
				}
				tools = append(tools, w)
			}
			set, err := tool.NewSet(tools...)
			if err != nil {
				t.Fatal(err)
			}
			ask := &agent.Action{
				Tool:   &tool.Tool{Name: "ask", Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Pure},
				Scoped: true,
				Run: func(ctx context.Context, scope *journal.Scope, _ *tool.Call) (tool.Result, error) {
					answer, err := scope.Ask(ctx, &runlog.Question{Key: "q", Text: "which?"})
					if err != nil {
						return tool.Result{}, err
					}
					_, err = journal.Do(ctx, scope, &journal.Effect{Key: "quick", Kind: "tool", Name: "quick"}, func(context.Context, string) (bool, error) { hurry(); return true, nil })
					return tool.Result{Text: string(answer)}, err
				},
			}
			var tm *team.Team
			define := func(name string) (*agent.Agent, error) {
				a := &agent.Agent{Name: name, Prompt: name, Model: m, Tools: set, Gate: asksAbout("quick"), Actions: []*agent.Action{ask}}
				if name == "lead" {
					a.Actions = append(a.Actions, tm.Actions()...)
				}
				return a, nil
			}
			tm, err = team.New(&team.Options{Agents: define, List: func() []team.Info { return []team.Info{{"asker", "x"}, {"worker", "x"}} }})
			if err != nil {
				t.Fatal(err)
			}
			lead, _ := define("lead")
			g := graph.New("test", func(s, u string) string { return s + u })
			g.AddNode(node.Agent("work", lead, func(s string) (string, error) { return s, nil }, func(_ string, o *agent.Outcome) (string, error) { return o.Text, nil }))
			g.Edge(graph.Start, "work")
			g.Edge("work", graph.End)
			flow, err := g.Compile()
			if err != nil {
				t.Fatal(err)
			}
			w, err := workflow.New("test", "A test.", flow, func(words) (string, error) { return "go", nil }, func(s string) (string, error) { return s, nil })
			if err != nil {
				t.Fatal(err)
			}
			e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			run, err := e.Start(t.Context(), "test", json.RawMessage(`{"text":"x"}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer := func(path string) {
				t.Helper()
				if err := e.Answer(t.Context(), run.ID(), path, &runlog.Answer{Value: json.RawMessage(`"once"`), By: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			open := map[string]bool{c.asks: true, c.others: true}
			delete(open, "")
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			var log []string
			answered, ended := 0, false
			for r, err := range e.Follow(ctx, run.ID(), 0) {
				if err != nil {
					t.Fatalf("%v\n%s", err, strings.Join(log, "\n"))
				}
				log = append(log, string(r.Kind)+" "+r.Path)
				if delete(open, r.Path); r.Kind == runlog.KindAsked && len(open) == 0 && answered == 0 {
					answered++
					answer(c.asks)
				}
				if ended = ended || r.Kind == runlog.KindRunFinished; ended || r.Kind == runlog.KindRunPaused {
					break
				}
			}
			out, err := run.Wait(t.Context())
			if err == nil && c.others != "" {
				if out.Status != runlog.Paused {
					t.Fatal(out)
				}
				answer(c.others)
				if run, err = e.Resume(t.Context(), run.ID(), nil); err == nil {
					out, err = run.Wait(t.Context())
				}
			}
			if err != nil || out.Status != runlog.Completed {
				t.Fatal(out, err, "\n"+strings.Join(log, "\n"))
			}
			report, err := e.Replay(t.Context(), run.ID(), &superstep.ReplayOptions{Wait: 5 * time.Second})
			if err != nil || report.Diverged != nil {
				t.Errorf("%v %v\n%s", err, report.Diverged, strings.Join(log, "\n"))
			}
		})
	}
}
