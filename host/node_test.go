package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// writing is a graph of one node that writes a file with the tools of a session.
func writing(t *testing.T, s *Session) *graph.Flow[string, string] {
	t.Helper()
	g := graph.New("test", func(_, u string) string { return u })
	g.AddNode(node.Tool("w", s.Tools(), "write_file", node.Args[string]{Static: map[string]any{"path": "x", "content": "x"}}, func(_, text string) (string, error) { return text, nil }))
	g.Edge(graph.Start, "w")
	g.Edge("w", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestNodesObeyRules: a node that calls a tool of a session obeys the rules of the user, as agents and recipes do.
func TestNodesObeyRules(t *testing.T) {
	for name, c := range map[string]struct {
		rules    string
		headless bool
		answer   string // "" if nothing may be asked
		want     string // in the error; "" if the file is written
	}{
		"denied":          {"deny: [write_file]\n", false, "", "denied"},
		"allowed":         {"allow: [write_file]\n", false, "", ""},
		"asked, once":     {"", false, `"once"`, ""},
		"asked, always":   {"", false, `"always"`, ""},
		"asked, denied":   {"", false, `"deny: not now"`, "not now"},
		"nobody to ask":   {"", true, "", "nobody is there to ask"},
		"allowed, denied": {"allow: [write_file]\ndeny: [\"write_file(*)\"]\n", false, "", "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlace(t, map[string]string{"~/.config/superstep/permissions.yaml": c.rules})
			w.opt.Headless = c.headless
			s, err := w.open(t).start(t.Context(), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			store, flow := runlogtest.NewMortal(), writing(t, s)
			run := func() error {
				j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}, Reopen: true})
				if err != nil {
					t.Fatal(err)
				}
				_, err = flow.Run(t.Context(), "", &graph.RunOptions{Journal: j})
				if !journal.Waits(err) || c.answer == "" {
					return errors.Join(err, j.Close(t.Context()))
				}
				q := j.Open()[0]
				if !agent.Permission(&q) || !strings.Contains(q.Text, "May w call write_file?") {
					t.Errorf("asked %+v", q)
				}
				if err := j.Answer(t.Context(), "w", &runlog.Answer{Key: q.Key, Value: json.RawMessage(c.answer)}); err != nil {
					t.Fatal(err)
				}
				c.answer = ""
				_, err = flow.Run(t.Context(), "", &graph.RunOptions{Journal: j})
				return errors.Join(err, j.Close(t.Context()))
			}
			err = run()
			if c.answer != "" {
				t.Errorf("nothing was asked: %v", err)
			}
			_, missing := os.Stat(filepath.Join(w.dir, "x"))
			switch {
			case c.want == "" && (err != nil || missing != nil):
				t.Errorf("%v, %v", err, missing)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, journal.ErrDenied) || missing == nil):
				t.Errorf("%v, %v", err, missing)
			}
			policy, err := w.open(t).policy()
			if err != nil {
				t.Fatal(err)
			}
			rules := policy.List()
			remembered := slices.ContainsFunc(rules, func(r permit.Rule) bool { return r.Layer == permit.Granted && r.Tool == "write_file" })
			if remembered != (name == "asked, always") {
				t.Errorf("remembered: %v", rules)
			}
		})
	}
}

// TestSetsObeyRules: whoever calls the tools of a session past agents and nodes is held by the rules, too.
func TestSetsObeyRules(t *testing.T) {
	w := newPlace(t, map[string]string{"~/.config/superstep/permissions.yaml": "deny: [\"write_file(no)\"]\n"})
	s, err := w.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	call := func(path string, permitted bool) tool.Result {
		return s.Tools().Call(t.Context(), "write_file", &tool.Call{Args: json.RawMessage(`{"path":"` + path + `","content":"x"}`), Permitted: permitted})
	}
	if r := call("no", true); !r.Error || !strings.Contains(r.Text, "denied") {
		t.Errorf("%+v", r)
	}
	if r := call("yes", false); !r.Error || !strings.Contains(r.Text, "permission") {
		t.Errorf("%+v", r)
	}
	if r := call("yes", true); r.Error {
		t.Errorf("%+v", r)
	}
}
