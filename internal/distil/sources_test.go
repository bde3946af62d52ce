package distil_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

func simple(name string, effect tool.Effect, do func(args string) string) *tool.Tool {
	return &tool.Tool{
		Name: name, Description: "A test tool.", Input: &jsonschema.Schema{Type: "object"}, Effect: effect,
		Run: func(_ context.Context, c *tool.Call) (string, error) { return do(string(c.Args)), nil },
	}
}

// echo is a workflow without agents.
func echo(t testing.TB) *workflow.Workflow {
	t.Helper()
	type words struct {
		Claim string `json:"claim"`
	}
	g := graph.New("echo", func(_, u words) words { return u })
	g.AddNode(graph.Node[words, words]{Name: "say", Run: func(_ context.Context, _ *graph.Task, s words) (words, error) {
		return words{"It was claimed that: " + s.Claim}, nil
	}})
	g.Edge(graph.Start, "say")
	g.Edge("say", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("echo", "Says it", flow, func(in words) (words, error) { return in, nil }, func(s words) (string, error) { return s.Claim, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// What a lead did itself, with tools and workflows, becomes steps too. What changes something is kept,
// and happens in the order in which it did.
func TestChatWithToolsAndWorkflows(t *testing.T) {
	s := &stage{
		tools: []*tool.Tool{
			simple("read", tool.Pure, func(args string) string { return "The text of the file that was read." }),
			simple("peek", tool.Pure, func(args string) string { return "Nothing to be seen here at all." }),
			simple("write", tool.Once, func(args string) string { return "written" }),
		},
		flows: []*workflow.Workflow{echo(t)},
		lead: turns{
			func([]string) model.Response {
				return calls("read", m{"path": "docs/a.md", "lines": 20}, "peek", m{}, "run_workflow", m{})
			},
			func(h []string) model.Response {
				return calls("run_workflow", m{"name": "echo", "inputs": m{"claim": h[0]}}, "run_workflow", m{"name": "nobody"})
			},
			func(h []string) model.Response { return calls("task", task("writer", "Write of this: "+h[3])) },
			func(h []string) model.Response { return calls("write", m{"path": "out.md", "text": last(h)}) },
			func(h []string) model.Response {
				return calls("write", m{"path": "index.md", "text": "see out.md"}, "task", task("checker", "Look at "+h[5]))
			},
			func(h []string) model.Response { return says(last(h)) },
		},
	}
	store, id := s.chat(t, "Make a page of docs/a.md.")
	made := must(t, store, id)
	text := string(made.Text)
	has(t, text, "tool: read\n    args:\n      lines: 20\n      path: \"{{inputs.path}}\"", "workflow: echo\n    depends_on: [read]\n    inputs:\n      claim: \"{{steps.read.output}}\"",
		"Write of this: {{steps.echo.output}}", "depends_on: [write, writer]", "text: \"{{steps.writer.output}}\"", "output: \"{{steps.checker.output}}\"", "id: write-2")
	if strings.Contains(text, "peek") || strings.Contains(text, "nobody") || made.Steps != 6 {
		t.Errorf("%d steps\n%s", made.Steps, text)
	}
	if !strings.Contains(text, "id: write-2\n    tool: write\n    depends_on: [write]") {
		t.Errorf("the order of changes is lost:\n%s", text)
	}
}

// A graph of a program becomes a recipe if what it ends with is what its agents gave.
func TestGraph(t *testing.T) {
	s := &stage{say: map[string]func(string) (string, error){
		"finder": func(string) (string, error) { return "What there is to be found, in full.", nil },
	}}
	type state struct {
		Topic, Found, Said string
		Deep               bool
	}
	type in struct {
		Topic string `json:"topic"`
		Deep  bool   `json:"deep,omitempty"`
	}
	flow := func(shout bool) *workflow.Workflow {
		g := graph.New("pages", func(_, u state) state { return u })
		g.AddNode(node.Agent("find", s.actor("finder"), func(s state) (string, error) { return "Find " + s.Topic, nil }, func(s state, o *agent.Outcome) (state, error) {
			s.Found = o.Text
			return s, nil
		}))
		g.AddNode(node.Func("upper", tool.Pure, func(s state) (string, error) { return s.Found, nil },
			func(_ context.Context, _ string, in string) (string, error) { return strings.ToUpper(in), nil },
			func(s state, up string) (state, error) {
				if shout {
					s.Found = up
				}
				return s, nil
			}))
		g.AddNode(node.Agent("write", s.actor("writer"), func(s state) (string, error) {
			return fmt.Sprintf("Write of %s, deep: %t\n%s", s.Topic, s.Deep, s.Found), nil
		}, func(s state, o *agent.Outcome) (state, error) {
			s.Said = o.Text
			return s, nil
		}))
		g.Edge(graph.Start, "find")
		g.Edge("find", "upper")
		g.Edge("upper", "write")
		g.Edge("write", graph.End)
		f, err := g.Compile()
		if err != nil {
			t.Fatal(err)
		}
		w, err := workflow.New("pages", "", f, func(i in) (state, error) { return state{Topic: i.Topic, Deep: i.Deep}, nil }, func(s state) (any, error) {
			return m{"page": s.Said, "size": len(s.Said)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	store, id := s.perform(t, workflow.Set{flow(false)}, "pages", json.RawMessage(`{"topic":"old ships","deep":true}`))
	made := must(t, store, id)
	has(t, string(made.Text), "id: find\n    subagent: finder\n    prompt: \"Find {{inputs.topic}}\"", "Write of {{inputs.topic}}, deep: true\n      {{steps.find.output}}", `page: "{{steps.write.output}}"`)
	// What a function of the program made of it is nothing that a recipe can have.
	store, id = s.perform(t, workflow.Set{flow(true)}, "pages", json.RawMessage(`{"topic":"old ships"}`))
	if _, err := distilled(t, store, id, nil); err == nil || !strings.Contains(err.Error(), "function upper") {
		t.Errorf("got %v", err)
	}
}

// Results that an agent quotes in part were not passed on as they are.
func TestPartsOfResults(t *testing.T) {
	s := paraphrasing()
	s.lead[1] = func([]string) model.Response {
		return calls("task", task("writer", "Consider that the lease lasts thirty seconds and renewal happens, and go on."))
	}
	store, id := s.chat(t, "Do it.")
	_, err := distilled(t, store, id, nil)
	if err == nil || !strings.Contains(err.Error(), "but not the whole") {
		t.Errorf("got %v", err)
	}
}

// The same tasks in another order make the same recipe but for the order of its steps.
func TestTimeMakesNoDependency(t *testing.T) {
	s := &stage{lead: turns{
		func([]string) model.Response { return calls("task", task("one", "Look for ships")) },
		func([]string) model.Response { return calls("task", task("two", "Look for trees")) },
		func(h []string) model.Response { return calls("task", task("three", h[1]+" and\n"+h[0])) },
		func(h []string) model.Response { return says(last(h)) },
	}}
	store, id := s.chat(t, "Do it.")
	made := must(t, store, id)
	if strings.Count(string(made.Text), "depends_on") != 1 {
		t.Errorf("made\n%s", made.Text)
	}
}

func Example() {
	ctx := context.Background()
	store := runlog.NewMemory(nil)
	rec, err := distil.Read(runlog.Records(ctx, store, "7f3a9c21", 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	made, err := distil.Distil(ctx, rec, &distil.Options{Run: "7f3a9c21", Name: "weekly-brief"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", made.Text)
	// Output: no run "7f3a9c21" in this process's memory
}
