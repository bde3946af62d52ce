package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// A run whose process died at any append, and that was resumed, is replayed: with the
// deaths.
func TestReplayAfterAnyCrash(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	for name, w := range map[string]*workflow.Workflow{"deep": deep(t, &did), "wide": (&wide{}).workflow(t)} {
		for _, after := range []bool{false, true} {
			died := 0
			for n := 1; ; n++ {
				store := runlogtest.NewMortal()
				store.DieAt(n, after)
				first := engine(t, store, w)
				run := start(t, first, nil)
				if _, err := run.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !store.Dead() {
					break
				}
				died++
				store.Revive()
				second := engine(t, store, w)
				ends(t, resume(t, second, run.ID(), nil), runlog.Completed)
				did.Store(0)
				report := replays(t, second, run.ID())
				if did.Load() != 0 {
					t.Fatalf("%s: the replay did %d effects", name, did.Load())
				}
				// Of a process that died after its last record nothing is left to resume.
				if report.Epochs != 2 && uint64(report.Records) != info(t, second, run.ID()).Head {
					t.Errorf("%s, %d: %+v", name, n, report)
				}
			}
			if died < 10 {
				t.Errorf("%s: it died only %d times", name, died)
			}
		}
	}
}

// agents is a workflow of agents side by side, over a model on a socket.
func agents(t testing.TB, m model.Model, called *atomic.Int32) *workflow.Workflow {
	t.Helper()
	look, err := tool.New("look", "Look something up.", func(_ context.Context, in struct {
		At string `json:"at"`
	}) (string, error) {
		called.Add(1)
		return "seen " + in.At, nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet(look)
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New("agents", merge)
	g.AddNode(graph.Node[facts, facts]{Name: "ask", Retry: &graph.Retry{Backoff: 1, If: func(err error) bool {
		var m *model.Error
		return errors.As(err, &m) && m.Temporary
	}}, Run: func(ctx context.Context, task *graph.Task, _ facts) (facts, error) {
		a := &agent.Agent{Name: task.Key(), Model: m, Tools: tools}
		out, err := a.Run(ctx, task.Scope(), &agent.Work{Prompt: task.Key()})
		if err != nil {
			return facts{}, err
		}
		return facts{[]string{out.Text}}, nil
	}})
	g.Fan(graph.Start, func(facts) []graph.Send {
		return []graph.Send{{To: "ask", Key: "one"}, {To: "ask", Key: "two"}, {To: "ask", Key: "three"}, {To: "ask", Key: "four"}}
	}, "ask")
	g.Edge("ask", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "Agents.", flow, func(job) (facts, error) { return facts{}, nil }, func(s facts) (string, error) { return strings.Join(s.Words, ","), nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestReplayCallsNoModel(t *testing.T) {
	t.Parallel()
	var asked, called atomic.Int32
	server := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		switch n := asked.Add(1); {
		case n == 3:
			return modeltest.Failure(http.StatusServiceUnavailable, "0")
		case r.Messages[len(r.Messages)-1].Role == model.Tool:
			return modeltest.Text("it is there")
		}
		reply := modeltest.Call("look", `{"at":"here"}`)
		return reply
	}, nil)
	m, err := openai.New(&openai.Options{BaseURL: server.URL, Model: "m", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, runlog.NewMemory(nil), agents(t, m, &called))
	run := start(t, e, nil)
	out := ends(t, run, runlog.Completed)
	if string(out.Output) != `"it is there,it is there,it is there,it is there"` || called.Load() != 4 {
		t.Fatalf("%s, %d", out.Output, called.Load())
	}
	server.Close()
	before := asked.Load()
	replays(t, e, run.ID())
	if asked.Load() != before || called.Load() != 4 {
		t.Error("a model or a tool was called")
	}
}

func TestReplayAndForkOfResearch(t *testing.T) {
	t.Parallel()
	docs := t.TempDir()
	for name, text := range map[string]string{
		"queue.md": "# Queue\n\nThe queue keeps jobs on disk before it answers.\nA job is removed after it has been acknowledged.\n",
		"log.md":   "# Log\n\nThe log of jobs is flushed to disk for each job.\nA lost job is found by reading the log again.\n",
	} {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var off atomic.Bool
	w, err := research.New(&research.Options{Dir: t.TempDir(), CacheDir: t.TempDir(), Note: func() string { return "nobody has chosen a model" }, Model: func(string) (model.Model, error) {
		return silent{offline.New(), &off}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, runlog.NewMemory(nil), w)
	in, err := json.Marshal(research.Inputs{Question: "How are jobs kept from being lost?", Docs: docs, Report: filepath.Join(t.TempDir(), "brief.md")})
	if err != nil {
		t.Fatal(err)
	}
	run, err := e.Start(t.Context(), research.Name, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := ends(t, run, runlog.Completed)
	off.Store(true)
	replays(t, e, run.ID())
	m, err := e.At(t.Context(), run.ID(), "synthesizer")
	if err != nil {
		t.Fatal(err)
	}
	off.Store(false)
	fork, err := e.Fork(t.Context(), run.ID(), m.Seq, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(fork.Repeats) != 1 || fork.Repeats[0].Name != "report" {
		t.Errorf("%+v", fork.Repeats)
	}
	if out := ends(t, resume(t, e, fork.ID, nil), runlog.Completed); string(out.Output) != string(want.Output) {
		t.Errorf("the fork ended with %s, want %s", out.Output, want.Output)
	}
	if err := os.RemoveAll(docs); err != nil {
		t.Fatal(err)
	}
	replays(t, e, fork.ID)
	if d, err := e.Diff(t.Context(), run.ID(), fork.ID); err != nil || len(d.Tasks)+len(d.State) > 0 {
		t.Errorf("%+v %v", d, err)
	}
	d, err := e.Diff(t.Context(), run.ID(), "nope")
	var missing *runlog.NotFoundError
	if !errors.As(err, &missing) {
		t.Errorf("%+v %v", d, err)
	}
}

// silent is a model that fails the test when it is asked at the wrong time.
type silent struct {
	model.Model
	off *atomic.Bool
}

func (s silent) Generate(ctx context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	if s.off.Load() {
		panic("a model was called")
	}
	return s.Model.Generate(ctx, r)
}

// A run that met a limit of its budget, and went on with a larger one, is replayed.
func TestReplayOfARunThatWasShort(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	server := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		if r.Messages[len(r.Messages)-1].Role == model.Tool {
			return modeltest.Text("it is there")
		}
		return modeltest.Call("look", `{"at":"here"}`)
	}, nil)
	m, err := openai.New(&openai.Options{BaseURL: server.URL, Model: "m", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, runlog.NewMemory(nil), agents(t, m, &called))
	run := start(t, e, &superstep.StartOptions{Budget: &runlog.Budget{Turns: 5, Soft: 0.5}})
	ends(t, run, runlog.Paused)
	replays(t, e, run.ID())
	ends(t, resume(t, e, run.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Turns: 50}}), runlog.Completed)
	server.Close()
	if report := replays(t, e, run.ID()); report.Epochs != 2 {
		t.Errorf("%+v", report)
	}
}
