package redact_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

// A workflow whose name is a secret's value is the same one afterwards, and its run goes on
// wherever its process dies.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	const name = "quarterly-report"
	g := graph.New(name, func(s, u []string) []string { return append(s, u...) })
	for _, node := range []string{"first", "second"} {
		g.Add(node, func(context.Context, []string) ([]string, error) { return []string{node + " of " + name}, nil })
	}
	g.Edge(graph.Start, "first")
	g.Edge("first", "second")
	g.Edge("second", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New(name, "A job.", flow, func(in struct {
		Task string `json:"task"`
	}) ([]string, error) {
		return []string{in.Task}, nil
	}, func(s []string) (string, error) { return strings.Join(s, "; "), nil })
	if err != nil {
		t.Fatal(err)
	}
	deaths := 0
	for n := 0; ; n++ {
		m := runlogtest.NewMortal()
		e, err := superstep.New(redact.Store(m, redact.New(redact.Secret{Name: "PW", Value: name})), &superstep.Options{
			Workflows: []*workflow.Workflow{w}, NewID: func() string { return "r" },
		})
		if err != nil {
			t.Fatal(err)
		}
		m.DieAt(n, true)
		r, err := e.Start(t.Context(), name, json.RawMessage(`{"task":"the `+name+`"}`), &superstep.StartOptions{SnapshotEvery: 1})
		if err == nil {
			_, _ = r.Wait(t.Context())
		}
		died := m.Dead()
		if died {
			deaths++
			m.Revive()
			if r, err = e.Resume(t.Context(), "r", nil); err != nil {
				t.Fatalf("died at %d: %v", n, err)
			}
		}
		out, err := r.Wait(t.Context())
		if err != nil || out.Status != runlog.Completed || strings.Contains(string(out.Output), name) || strings.Count(string(out.Output), "[redacted:PW]") != 3 {
			t.Fatalf("died at %d: %+v, error %v", n, out, err)
		}
		e.Close()
		infos, err := m.Runs(t.Context(), nil)
		if err != nil || infos[0].Workflow != name || strings.Contains(infos[0].Title, name) {
			t.Errorf("listed %+v, error %v", infos, err)
		}
		graphs := 0
		for rec, err := range runlog.Records(t.Context(), m, "r", 1) {
			if err != nil {
				t.Fatal(err)
			}
			var d struct{ Workflow, Graph string }
			_ = json.Unmarshal(rec.Data, &d)
			own := 0
			if d.Workflow == name || d.Graph == name {
				own = 1
				graphs++
			}
			if strings.Count(string(rec.Data), name) != own {
				t.Errorf("record %d is %s", rec.Seq, rec.Data)
			}
		}
		if graphs < 2 {
			t.Errorf("died at %d: %d records have the name", n, graphs)
		}
		if !died {
			break
		}
	}
	if deaths < 3 {
		t.Errorf("it died %d times only", deaths)
	}
}

// What a run finds its work by is never rewritten: the record is refused.
func TestIdentities(t *testing.T) {
	t.Parallel()
	s := redact.Store(runlog.NewMemory(nil), redact.New(secrets...))
	l, _, err := s.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(kind runlog.Kind, data string) (string, error) {
		b := &runlog.Batch{Records: []runlog.Record{{Kind: kind, Path: "a", Time: time.Unix(1, 0), Data: json.RawMessage(data)}}}
		err := l.Append(t.Context(), b)
		return string(b.Records[0].Data), err
	}
	const x = "hunter2hunter2"
	for kind, all := range map[runlog.Kind][]string{
		runlog.KindRunStarted: {`{"workflow":"w","parent":"x-X"}`},
		runlog.KindTaskDone: {
			`{"node":"X","step":1}`, `{"node":"n","key":"k X","step":1}`, `{"node":"n","step":1,"sends":[{"to":"m"},{"to":"X"}]}`, `{"node":"n","step":1,"sends":[{"to":"m","key":"X"}]}`,
			`{"node":"n","step":1,"fixed":"X"}`, `{"node":"n","step":1,"inside":["X/a"]}`, `{"node":"n","step":1,"vote":"X"}`,
			`{"node":"n","key":"\u0068unter2hunter2","step":1}`,
		},
		runlog.KindTaskFailed: {`{"node":"X","step":1,"attempt":1,"error":"e"}`, `{"node":"n","key":"X","step":1,"attempt":1,"error":"e"}`},
		runlog.KindIntended:   {`{"key":"X","kind":"tool"}`, `{"key":"k","kind":"X"}`, `{"key":"k","kind":"tool","hash":"X"}`},
		runlog.KindSettled:    {`{"key":"X","kind":"tool"}`},
		runlog.KindAsked:      {`{"key":"X","question":"?"}`},
		runlog.KindAnswered:   {`{"key":"X","answer":1}`},
		runlog.KindSnapshot: {
			`{"graph":"g","shape":{"nodes":[{"name":"X"}]}}`, `{"graph":"g","machine":{"step":1,"frontier":[{"vertex":"v","key":"X"}]}}`,
			`{"graph":"g","machine":{"visits":[{"vertex":"X"}]}}`, `{"graph":"g","machine":{"completed":[{"vertex":"X"}]}}`,
			`{"graph":"g","machine":{"arrived":[{"vertex":"v","sources":["X"]}]}}`, `{"graph":"g","machine":{"kept":[{"vertex":"X"}]}}`,
			`{"graph":"g","machine":{"early":[{"vertex":"v","sends":[{"to":"X"}]}]}}`, `{"graph":"g","machine":{"early":[{"vertex":"v","inside":["X"]}]}}`,
			`{"graph":"g","machine":{"frontier":[{"vertex":"v","inbox":[{"from":"X"}]}]}}`,
		},
		runlog.KindInner: {`{"graph":"g","machine":{"frontier":[{"vertex":"X"}]}}`},
		carry.Kind: {
			`{"scopes":[{"path":"X"}]}`, `{"scopes":[{"path":"p","settled":[{"key":"X"}]}]}`, `{"scopes":[{"path":"p","intents":[{"key":"X"}]}]}`,
			`{"scopes":[{"path":"p","asked":[{"key":"X"}]}]}`, `{"scopes":[{"path":"p","answers":[{"key":"X"}]}]}`,
			`{"scopes":[],"inner":[{"kind":"task.done","path":"X"}]}`, `{"scopes":[],"inner":[{"kind":"task.done","path":"p","data":{"node":"X"}}]}`,
		},
	} {
		for _, data := range all {
			if _, err := add(kind, strings.ReplaceAll(data, "X", x)); err == nil || !strings.Contains(err.Error(), "run r: a "+string(kind)) || !strings.Contains(err.Error(), "[redacted:PLAIN]") || strings.Contains(err.Error(), x) {
				t.Errorf("%s with %s: %v", kind, data, err)
			}
		}
	}

	// What was said is rewritten, wherever it is, and the names of workflow and graph are not.
	const put = "[redacted:PLAIN]"
	for kind, all := range map[runlog.Kind][][2]string{
		runlog.KindRunStarted: {{`{"title":"X", "workflow" : "X" ,"inputs":{"workflow":"X"}}`, `{"title":"R", "workflow" : "X" ,"inputs":{"workflow":"R"}}`}},
		runlog.KindSnapshot:   {{`{"graph":"a X","digest":"d","machine":{"state":{"graph":"X","key":"X"}}}`, `{"graph":"a X","digest":"d","machine":{"state":{"graph":"R","key":"R"}}}`}},
		carry.Kind: {
			{
				`{"scopes":[{"path":"p","settled":[{"key":"k","output":"X"}]}],"inner":[{"kind":"snapshot.inner","path":"p","data":{"graph":"X","machine":{"state":"X"}}},{"kind":"step.committed"}],"ledger":"X"}`,
				`{"scopes":[{"path":"p","settled":[{"key":"k","output":"R"}]}],"inner":[{"kind":"snapshot.inner","path":"p","data":{"graph":"X","machine":{"state":"R"}}},{"kind":"step.committed"}],"ledger":"R"}`,
			},
			{`{"scopes":[{"path":"p","settled":[{"key":"k","output":"X"}]}]}`, `{"scopes":[{"path":"p","settled":[{"key":"k","output":"R"}]}]}`},
		},
		runlog.KindTaskDone:  {{`{"node":"n","key":"k","step":1,"update":{"node":"X","key":"X"},"sends":[{"to":"m","arg":{"key":"X"}}],"error":"X"}`, `{"node":"n","key":"k","step":1,"update":{"node":"R","key":"R"},"sends":[{"to":"m","arg":{"key":"R"}}],"error":"R"}`}},
		runlog.KindSettled:   {{`{"key":"k","kind":"tool","output":{"key":"X"},"hint":"X"}`, `{"key":"k","kind":"tool","output":{"key":"R"},"hint":"R"}`}},
		runlog.KindAnswered:  {{`{"key":"k","answer":"X"}`, `{"key":"k","answer":"R"}`}},
		runlog.KindRunFailed: {{`{"error":"X","tasks":["X"]}`, `{"error":"R","tasks":["R"]}`}}, // that it failed must not fail
		runlog.KindEvent:     {{`{"name":"note","data":{"key":"X"}}`, `{"name":"note","data":{"key":"R"}}`}, {`["X"]`, `["R"]`}, {`X`, `R`}},
	} {
		for _, c := range all {
			got, err := add(kind, strings.ReplaceAll(c[0], "X", x))
			if want := strings.NewReplacer("X", x, "R", put).Replace(c[1]); err != nil || got != want {
				t.Errorf("%s became %s, want %s, error %v", c[0], got, want, err)
			}
		}
	}
}
