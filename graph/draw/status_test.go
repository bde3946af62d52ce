package draw_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// log reads "kind path data" per line. Kinds that are only live get no number.
func log(t *testing.T, lines string) []runlog.Record {
	t.Helper()
	var out []runlog.Record
	seq := uint64(0)
	for l := range strings.Lines(lines) {
		f := strings.SplitN(strings.TrimSpace(l), " ", 3)
		if f[0] == "" {
			continue
		}
		r := runlog.Record{Kind: runlog.Kind(f[0])}
		if len(f) > 1 {
			r.Path = f[1]
		}
		if len(f) > 2 {
			r.Data = json.RawMessage(f[2])
		} else {
			r.Data = json.RawMessage(`{}`)
		}
		if name := string(r.Kind); strings.HasPrefix(name, "task.started") || strings.HasPrefix(name, "live.") { // live-only, as the engine has it
			r.Kind, r.Data = runlog.KindEvent, json.RawMessage(`{"name":"`+strings.TrimPrefix(name, "live.")+`","data":{}}`)
		} else {
			seq++
			r.Seq = seq
		}
		out = append(out, r)
	}
	return out
}

func sequence(records []runlog.Record, err error) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(runlog.Record{}, err)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, log string
		want      map[string]string
	}{
		{"nothing", "", map[string]string{}},
		{"finished", `
			run.started
			task.done plan
			step.committed
			task.done search[a%2Fb]
			task.done search[c]
			task.done search[c]#1
			run.finished`, map[string]string{"plan": "✓ done", "search": "✓ done ×3"}},
		{"followed", `
			run.started
			task.started plan
			task.done plan
			task.started search[a]
			task.started search[b]
			task.done search[a]`, map[string]string{"plan": "✓ done", "search": "● running ×2, 1 done"}},
		{"tried again", `
			task.started a
			task.failed a {"attempt":1}
			task.failed b {"attempt":1}
			task.failed b {"attempt":2}
			task.done b`, map[string]string{"a": "● running, 1 failed attempt", "b": "✓ done, 2 failed attempts"}},
		{"failed", `
			run.started
			task.started b
			task.failed a {"attempt":1,"final":true}
			run.failed`, map[string]string{"a": "✗ failed", "b": "◌ pending"}},
		{"resumed", `
			run.started
			task.failed a {"attempt":1,"final":true}
			run.failed
			run.resumed`, map[string]string{"a": "◌ pending, 1 failed attempt"}},
		{"resumed and done", `
			task.failed a {"attempt":1,"final":true}
			run.failed
			run.resumed
			task.started a
			task.done a`, map[string]string{"a": "✓ done, 1 failed attempt"}},
		{"a live event beside a question", `
			task.started a
			question.asked a {"key":"q"}
			live.task.started a
			live.agent.works a`, map[string]string{"a": "? waiting"}},
		{"reopened", `
			effect.intended a {"key":"turn-0","kind":"model"}`, map[string]string{"a": "● running"}},
		{"ran on an error", `
			event a {"name":"error_input","data":{"steps":["b"]}}
			task.done a`, map[string]string{"a": "! partly"}},
		{"had no reason to run", `
			event a {"name":"not_run","data":{"why":"x"}}
			task.done a`, map[string]string{"a": "⊘ skipped"}},
		{"skipped", `
			task.failed a {"attempt":1,"final":true}
			task.done a {"error":"no such page"}`, map[string]string{"a": "⊘ skipped"}},
		{"caught", `
			task.failed a {"attempt":1,"final":true}
			task.done a {"error":"no such page","caught":true}
			run.failed
			run.resumed`, map[string]string{"a": "↷ caught"}},
		{"one of many skipped", `
			task.done a[x] {"error":"no such page"}
			task.done a[y]`, map[string]string{"a": "✓ done ×1 of 2"}},
		{"waiting", `
			task.started a
			question.asked a {"key":"1"}
			question.asked a {"key":"2"}
			question.answered a {"key":"1"}
			run.paused`, map[string]string{"a": "? waiting"}},
		{"answered", `
			question.asked a {"key":"1"}
			question.answered a {"key":"1"}`, map[string]string{"a": "● running"}},
		{"answered while nothing runs", `
			question.asked a {"key":"1"}
			run.paused
			question.answered a {"key":"1"}`, map[string]string{"a": "◌ pending"}},
		{"nested", `
			task.started a
			task.started a/b
			task.done a/b
			task.started a/c[k]
			question.asked a/c[k] {"key":"1"}`, map[string]string{"a": "? waiting", "a/b": "✓ done", "a/c": "? waiting"}},
		{"nested and stored", `
			task.done a/b
			question.asked a#1/c/d {"key":"1"}
			task.done a#1/b`, map[string]string{"a": "? waiting ×2", "a/b": "✓ done ×2", "a/c": "? waiting", "a/c/d": "? waiting"}},
		{"nested and running", `
			task.started a/b
			question.asked a/c {"key":"1"}`, map[string]string{"a": "● running", "a/b": "● running", "a/c": "? waiting"}},
		{"nested and failed", `
			task.failed a/b {"final":true}
			run.failed`, map[string]string{"a": "✗ failed", "a/b": "✗ failed"}},
		{"done with it", `
			task.failed a/b {"final":true}
			task.done a`, map[string]string{"a": "✓ done", "a/b": "✗ failed"}},
		{"cancelled", `
			task.started a
			run.cancelled
			task.started a`, map[string]string{"a": "◌ pending"}},
		{"broken", `
			task.done a {"step":"x"}
			task.failed a []
			question.asked a 1
			question.answered a {"key":"1"}
			of.the.future a`, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			records := log(t, c.log)
			status, err := draw.Status(sequence(records, nil))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for path, s := range status {
				got[path] = s.String()
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			var p draw.Progress // that sees the stored ones twice
			for i := range records {
				p.Apply(&records[i])
			}
			for i := range records {
				if records[i].Seq > 0 {
					p.Apply(&records[i])
				}
			}
			if again := p.Status(); !reflect.DeepEqual(again, status) {
				t.Errorf("one by one it is %v, want %v", again, status)
			}
		})
	}
}

func TestStatusOfWhatCanBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	got, err := draw.Status(sequence(log(t, "task.done a"), broken))
	if !errors.Is(err, broken) || got["a"].State != "done" {
		t.Errorf("got %v, %v", got, err)
	}
}

// The log of a real run, stored, tells which nodes it went through.
func TestStatusOfARun(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	g := graph.New("count", func(a, b int) int { return a + b })
	add := func(context.Context, int) (int, error) { return 1, nil }
	g.Add("add", add)
	g.AddNode(graph.Node[int, int]{Name: "flaky", OnError: graph.Skip, Run: func(context.Context, *graph.Task, int) (int, error) { return 0, errors.New("no") }})
	g.AddNode(graph.Node[int, int]{Name: "ask", Run: func(ctx context.Context, task *graph.Task, _ int) (int, error) {
		_, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "go", Text: "Go on?"})
		return 0, err
	}})
	g.Edge(graph.Start, "add")
	g.Branch("add", func(n int) string {
		if n < 3 {
			return "add"
		}
		return "flaky"
	}, "add", "flaky")
	g.Edge("flaky", "ask")
	g.Edge("ask", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	j, err := journal.Open(ctx, store, "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flow.Run(ctx, 0, &graph.RunOptions{Journal: j}); err == nil {
		t.Fatal("it does not wait")
	}
	if err := j.Close(ctx); err != nil {
		t.Fatal(err)
	}
	status, err := draw.Status(runlog.Records(ctx, store, "run", 1))
	if err != nil {
		t.Fatal(err)
	}
	got := draw.Text(flow.Shape(), &draw.Options{Status: status})
	for _, want := range []string{"add: ✓ done ×3\n", "flaky (may be skipped): ⊘ skipped\n", "ask: ? waiting\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

func FuzzProgress(f *testing.F) {
	f.Add("task.done", "a[k]#1/b", `{"error":"x"}`)
	f.Add("question.asked", "/", `{"key":"x"}`)
	f.Add("task.failed", "a//b/", `{"final":true}`)
	f.Add("task.started", "[#", ``)
	f.Fuzz(func(t *testing.T, kind, path, data string) {
		var p draw.Progress
		for range 2 {
			p.Apply(&runlog.Record{Kind: runlog.Kind(kind), Path: path, Data: json.RawMessage(data)})
		}
		for node, s := range p.Status() {
			if s.Visits < 1 || s.Done > s.Visits {
				t.Errorf("%q: %+v", node, s)
			}
		}
	})
}
