package redact_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

const seen = "hunter2hunter2"

// leaky is a workflow with a secret in its inputs, in what a node computes, and in what
// the tool of an agent says.
func leaky(t testing.TB, plain string) *workflow.Workflow {
	t.Helper()
	search, err := tool.New("search", "Search the notes.", func(context.Context, struct {
		Query string `json:"query"`
	}) (string, error) {
		return "## notes.md:3-3\n3\tA run survives a crash because every step is in its log, says " + seen + ".\n", nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet(search)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "reader", Prompt: "Answer from the notes.", Model: offline.New(), Tools: tools}
	g := graph.New("job", func(s, u []string) []string { return append(s, u...) })
	g.Add("plain", func(context.Context, []string) ([]string, error) {
		return []string{"no effect, and says " + plain}, nil
	})
	g.AddNode(graph.Node[[]string, []string]{Name: "told", Run: func(ctx context.Context, task *graph.Task, _ []string) ([]string, error) {
		var what string
		if err := task.Arg(&what); err != nil {
			return nil, err
		}
		hash, err := journal.Hash(what)
		if err != nil {
			return nil, err
		}
		v, err := journal.Do(ctx, task.Scope(), &journal.Effect{Key: "look", Kind: "tool", Hash: hash}, func(context.Context, string) (string, error) { return "seen", nil })
		return []string{v}, err
	}})
	g.AddNode(graph.Node[[]string, []string]{Name: "read", Run: func(ctx context.Context, task *graph.Task, s []string) ([]string, error) {
		out, err := a.Run(ctx, task.Scope(), &agent.Work{Prompt: "How does a run survive a crash? " + strings.Join(s, " ")})
		if err != nil {
			return nil, err
		}
		again, err := a.Run(ctx, task.Scope(), &agent.Work{Key: "again", Prompt: out.Text})
		if err != nil {
			return nil, err
		}
		return []string{out.Text, again.Text}, nil
	}})
	g.Edge(graph.Start, "plain")
	g.Fan("plain", func([]string) []graph.Send { return []graph.Send{{To: "told", Key: "k", Arg: plain}} }, "told")
	g.Edge("told", "read")
	g.Edge("read", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "A job.", flow, func(in struct {
		Task string `json:"task"`
	}) ([]string, error) {
		return []string{in.Task}, nil
	}, func(s []string) (string, error) { return strings.Join(s, "\n"), nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A task that has seen a secret goes on after a crash, wherever that was: it was told no more
// than what is recorded.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]string{"effects": "nothing", "nodes": seen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testResume(t, plain)
		})
	}
}

func testResume(t *testing.T, plain string) {
	w := leaky(t, plain)
	deaths, whole := 0, ""
	for n := 0; ; n++ {
		m := runlogtest.NewMortal()
		store := redact.Store(m, redact.New(redact.Secret{Name: "PW", Value: seen}))
		e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{w}, NewID: func() string { return "r" }})
		if err != nil {
			t.Fatal(err)
		}
		m.DieAt(n, true)
		r, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"use `+seen+`"}`), nil)
		if err == nil {
			_, _ = r.Wait(t.Context())
		}
		died := m.Dead()
		if died {
			deaths++
			m.Revive()
			r, err = e.Resume(t.Context(), "r", nil)
			if err != nil {
				t.Fatalf("died at %d: %v", n, err)
			}
		}
		out, err := r.Wait(t.Context())
		if want := string(out.Output); whole == "" {
			whole = want
		} else if want != whole {
			t.Errorf("died at %d: it ends with %s, and should with %s", n, want, whole)
		}
		if err != nil || out.Status != runlog.Completed {
			t.Fatalf("died at %d: %+v, error %v", n, out, err)
		}
		if plain != seen { // a replay computes what has no effects again, and tells what it finds
			replays(t, e)
		}
		e.Close()
		for rec, err := range runlog.Records(t.Context(), m, "r", 1) {
			if err != nil || strings.Contains(string(rec.Data), seen) {
				t.Fatalf("record %d: %s, error %v", rec.Seq, rec.Data, err)
			}
		}
		if !died {
			break
		}
	}
	if deaths < 6 {
		t.Errorf("it died %d times only", deaths)
	}
}

func replays(t *testing.T, e *superstep.Engine) {
	t.Helper()
	report, err := e.Replay(t.Context(), "r", &superstep.ReplayOptions{Wait: 10 * time.Second})
	if err != nil || report.Diverged != nil {
		t.Errorf("%+v, error %v", report, err)
	}
}
