package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type words struct {
	Text string `json:"text"`
}

// shout is a workflow for agents to run.
func shout(t *testing.T, ran *atomic.Int64) *workflow.Workflow {
	t.Helper()
	g := graph.New("shout", func(_, u words) words { return u })
	g.AddNode(graph.Node[words, words]{Name: "up", Run: func(_ context.Context, _ *graph.Task, s words) (words, error) {
		ran.Add(1)
		return words{strings.ToUpper(s.Text)}, nil
	}})
	g.Edge(graph.Start, "up")
	g.Edge("up", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("shout", "Says it loudly", flow, func(in words) (words, error) { return in, nil }, func(s words) (words, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A lead runs workflows by name within its own run: it is told what there is, what is wrong with a
// name or with inputs, and what came of it.
func TestRunWorkflow(t *testing.T) {
	calls := []string{`{}`, `{"name":"shuot"}`, `{"name":"shout","inputs":{"txt":"a"}}`, `{"name":"shout","inputs":{"text":"hello"}}`, `{"name":"shout","inputs":{"text":"again"}}`}
	var results []string
	server := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		results = nil
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Kind == model.Result {
					results = append(results, p.Text)
				}
			}
		}
		if n := len(results); n < len(calls) {
			return modeltest.Call("run_workflow", calls[n])
		}
		return modeltest.Text("done")
	}, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{Model: "gpt-test", APIKey: "key", BaseURL: server.URL, HTTPClient: &http.Client{Transport: transport}, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	closed := 0
	inner := shout(t, &ran)
	w, err := delegate.New(&delegate.Options{
		Workflows: []*workflow.Workflow{inner},
		Prepare:   func(in *delegate.Inputs) error { in.Model = "openai/gpt-test"; return nil },
		Open: func(_ context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
			return &delegate.Crew{
				Agent: &agent.Agent{Name: in.Agent, Prompt: "You lead.", Model: m}, Definition: map[string]string{"agent x": "1"},
				Close: func() error { closed++; return nil },
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	set := workflow.Set{w, inner}
	if err := set.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Settle(json.RawMessage(`{"prompt":" "}`)); err == nil {
		t.Error("an empty prompt passes")
	}
	inputs, err := w.Settle(json.RawMessage(`{"prompt":"Shout."}`))
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	res, err := w.Run(t.Context(), &workflow.Exec{Inputs: inputs, Journal: j, Graph: graph.RunOptions{Journal: j, Workflows: set.Nested}})
	if err != nil {
		t.Fatal(err)
	}
	var out delegate.Output
	if err := json.Unmarshal(res.Output, &out); err != nil || out.Text != "done" || out.Agent != delegate.Lead {
		t.Errorf("%s, %v", res.Output, err)
	}
	for i, want := range []string{"text (string, required)", `did you mean "shout"`, "txt", "HELLO", "AGAIN"} {
		if !strings.Contains(results[i], want) {
			t.Errorf("call %d gave %q, want %q", i, results[i], want)
		}
	}
	if ran.Load() != 2 || closed != 1 {
		t.Errorf("the workflow ran %d times, the crew was closed %d times", ran.Load(), closed)
	}
	nested, settled := 0, 0
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindTaskDone && strings.HasSuffix(r.Path, "/up") {
			nested++
		}
		var d runlog.Settled
		if r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &d) == nil && d.Kind == "inputs" && d.Name == "shout" && d.Error == "" {
			settled++
		}
	}
	if settled != 2 {
		t.Errorf("the log has %d times the inputs of the inner workflow", settled)
	}
	if nested != 2 {
		t.Errorf("the log has %d tasks of the inner workflow", nested)
	}
}

// Workflows come and go without making the agent's graph another one, so that its runs go on.
func TestOtherWorkflowsChangeNothing(t *testing.T) {
	shape := func(names ...string) string {
		opt := &delegate.Options{
			Prepare: func(*delegate.Inputs) error { return nil },
			Open:    func(context.Context, *delegate.Inputs) (*delegate.Crew, error) { return nil, nil },
		}
		for _, name := range names {
			opt.Workflows = append(opt.Workflows, &workflow.Workflow{Name: name})
		}
		w, err := delegate.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		flow, err := w.Flow(nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(flow.Shape())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if a, b := shape("one"), shape("one", "two"); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

// An imported run has the folder of whoever imported it, and neither rules nor a model of the file.
func TestImported(t *testing.T) {
	var got delegate.Inputs
	stop := errors.New("it is enough")
	w, err := delegate.New(&delegate.Options{
		Prepare: func(*delegate.Inputs) error { return nil },
		Open: func(_ context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
			got = *in
			return nil, stop
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	started := runlog.RunStarted{Workflow: w.Name, Imported: &runlog.Imported{Dir: "/mine", Digest: "d", Nonce: "n"}}
	if err := j.Write(t.Context(), runlog.Running, runlog.KindRunStarted, "", started); err != nil {
		t.Fatal(err)
	}
	inputs := json.RawMessage(`{"prompt":"Go.","agent":"a","model":"dear/one","dir":"/theirs","rules":["allow bash"],"on_ask":"deny","definition":{"agent a":"1"}}`)
	if _, err := w.Run(t.Context(), &workflow.Exec{Inputs: inputs, Journal: j, Graph: graph.RunOptions{Journal: j}}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if got.Dir != "/mine" || got.Rules != nil || got.Model != "" || got.OnAsk != "" || got.Agent != "a" || got.Definition["agent a"] != "1" {
		t.Errorf("it is opened with %+v", got)
	}
}
