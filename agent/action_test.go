package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

func action(name string, run func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error)) *agent.Action {
	return &agent.Action{
		Tool: &tool.Tool{Name: name, Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"text": {Type: "string"}}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}},
		Run:  run,
	}
}

// What an action gives, or how it fails, is what the model is told.
func TestAction(t *testing.T) {
	say := func(text string) (tool.Result, error) { return tool.Result{Text: text}, nil }
	for _, tc := range []struct {
		name string
		args string
		run  func() (tool.Result, error)
		want string
	}{
		{"says", `{}`, func() (tool.Result, error) { return say("hello\x1b[1m") }, "act error=false hello"},
		{"fails", `{}`, func() (tool.Result, error) { return tool.Result{}, errors.New("no") }, "act error=true no"},
		{"says that it failed", `{}`, func() (tool.Result, error) { return tool.Result{Text: "bad", Error: true}, nil }, "act error=true bad"},
		{"panics", `{}`, func() (tool.Result, error) { panic("oh") }, "act error=true it panicked: oh"},
		{"does not fit", `{"txet":1}`, func() (tool.Result, error) { return say("called") }, "act error=true arguments do not fit the tool's schema; correct them and call again:\n- /txet: unknown; did you mean \"text\"?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handle, _ := script(modeltest.Call("act", tc.args), modeltest.Text("ok"))
			m, _ := talk(t, handle)
			runs := 0
			a := &agent.Agent{Name: "tester", Model: m, Actions: []*agent.Action{action("act", func(context.Context, *journal.Scope, *tool.Call) (tool.Result, error) {
				runs++
				return tc.run()
			})}}
			j := openJournal(t, runlogtest.NewMortal(), true)
			for range 2 {
				out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{tc.want}, results(out)); diff != "" {
					t.Error(diff)
				}
			}
			if runs > 1 {
				t.Errorf("it ran %d times", runs)
			}
		})
	}
}

// An error that is about the run is the agent's, and leaves no failure behind.
func TestActionOfTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for name, tc := range map[string]struct {
		err  func() error
		want func(error) bool
	}{
		"budget":    {func() error { return &runlog.BudgetError{What: runlog.BudgetTokens} }, func(err error) bool { var b *runlog.BudgetError; return errors.As(err, &b) }},
		"question":  {func() error { return fmt.Errorf("deep: %w", &journal.WaitError{}) }, journal.Waits},
		"stopped":   {func() error { return fmt.Errorf("deep: %w", pregel.ErrStopped) }, func(err error) bool { return errors.Is(err, pregel.ErrStopped) && !journal.Waits(err) }},
		"diverged":  {func() error { return &journal.DivergedError{} }, func(err error) bool { var d *journal.DivergedError; return errors.As(err, &d) }},
		"cancelled": {func() error { cancel(); return errors.New("cut off") }, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			handle, _ := script(modeltest.Call("act", `{}`), modeltest.Text("ok"))
			m, _ := talk(t, handle)
			fail := true
			a := &agent.Agent{Name: "tester", Model: m, Actions: []*agent.Action{action("act", func(context.Context, *journal.Scope, *tool.Call) (tool.Result, error) {
				if fail {
					return tool.Result{}, tc.err()
				}
				return tool.Result{Text: "fine"}, nil
			})}}
			j := openJournal(t, runlogtest.NewMortal(), true)
			ctx := ctx
			if name != "cancelled" {
				ctx = t.Context()
			}
			if _, err := a.Run(ctx, j.Scope("task"), &agent.Work{}); !tc.want(err) {
				t.Fatal(err)
			}
			fail = false
			out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"act error=false fine"}, results(out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestActionsWrong(t *testing.T) {
	m, _ := talk(t, modeltest.Sequence(modeltest.Text("ok")))
	for want, a := range map[string]*agent.Agent{
		"given twice": {Tools: (&bench{}).tools(t), Actions: []*agent.Action{action("look", func(context.Context, *journal.Scope, *tool.Call) (tool.Result, error) { return tool.Result{}, nil })}},
		"has no tool": {Actions: []*agent.Action{nil}},
		"no function": {Actions: []*agent.Action{{Tool: &tool.Tool{Name: "a"}}}},
		"speak once":  {Finish: "done", Limits: agent.Limits{Single: true}},
	} {
		a.Name, a.Model = "tester", m
		if _, err := a.Run(t.Context(), nil, &agent.Work{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Every call of an action has a part of the log of its own, in which it can ask and act; the
// run goes on from there wherever it is cut off, and what it has done is not done again.
func TestCrashInActions(t *testing.T) {
	handle, _ := script(
		calls(call("interview", "color"), call("interview", "size"), call("look", "a")),
		calls(call("interview", "color")),
		modeltest.Text("ok"),
	)
	run := func(t *testing.T, store *runlogtest.Mortal) (*agent.Outcome, *bench, *modeltest.Server, error) {
		m, server := talk(t, handle)
		b := &bench{}
		interview := action("interview", func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
			var w words
			if err := json.Unmarshal(c.Args, &w); err != nil {
				return tool.Result{}, err
			}
			n, err := journal.Do(ctx, scope, &journal.Effect{Key: "dial", Kind: "phone", Repeat: journal.RepeatByKey}, func(context.Context, string) (int, error) {
				b.did("dial", w.Text, scope.Path())
				return len(w.Text), nil
			})
			if err != nil {
				return tool.Result{}, err
			}
			a, err := scope.Ask(ctx, &runlog.Question{Key: "answer", Text: w.Text})
			return tool.Result{Text: fmt.Sprintf("%d %s", n, a)}, err
		})
		interview.Tool.Effect = tool.Pure
		a := &agent.Agent{Name: "tester", Model: m, Tools: b.tools(t), Actions: []*agent.Action{interview}}
		out, err := drive(t, store, func(q runlog.Question) string { return fmt.Sprintf("%q", q.Text+" at "+q.Path) },
			func(j *journal.Journal) (*agent.Outcome, error) {
				return a.Run(t.Context(), j.Scope("task"), &agent.Work{})
			})
		return out, b, server, err
	}
	want, _, _, err := run(t, runlogtest.NewMortal())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		`interview error=false 5 "color at task/interview[1.1]"`, `interview error=false 4 "size at task/interview[1.2]"`,
		"look error=false look saw a", `interview error=false 5 "color at task/interview[2.1]"`,
	}, results(want)); diff != "" {
		t.Error(diff)
	}
	everywhere(t, 20, run, func(t *testing.T, store runlog.Store, first, again *bench, _ []*modeltest.Server, done map[string]bool) {
		questions, _ := asked(t, store)
		if len(questions) != 3 {
			t.Errorf("asked %v", questions)
		}
		for q, n := range questions {
			if n != 1 {
				t.Errorf("%s was asked %d times", q, n)
			}
		}
		if n := len(first.runs) + len(again.runs); n < 4 || n > 7 { // a death loses what three calls at a time were doing
			t.Errorf("ran %v, then %v", first.runs, again.runs)
		}
	})
}

// A tool knows where it is called from.
func TestToolsKnowTheirPlace(t *testing.T) {
	handle, _ := script(calls(call("spy", "a")), modeltest.Text("ok"))
	m, _ := talk(t, handle)
	var got *tool.Call
	spy, err := tool.NewRaw("spy", "x", func(_ context.Context, c *tool.Call, _ words) (string, error) { got = c; return "", nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(spy)
	if err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, runlogtest.NewMortal(), true)
	w := &agent.Work{State: func() (json.RawMessage, error) { return json.RawMessage(`{"n":1}`), nil }}
	if _, err := (&agent.Agent{Name: "tester", Model: m, Tools: set}).Run(t.Context(), j.Scope("task"), w); err != nil {
		t.Fatal(err)
	}
	if state, err := got.State(); err != nil || string(state) != `{"n":1}` || got.Run != "run" || got.Node != "task" || got.Agent != "tester" || got.Key == "" {
		t.Errorf("%+v %s %v", got, state, err)
	}
}

// A result that is too large is kept in a file, and the model is shown where.
func TestSpill(t *testing.T) {
	big := strings.Repeat("a line of text\n", 10_000) + "the end"
	long := strings.Repeat("\n", clean.MaxLines+1)
	handle, _ := script(calls(call("big", ""), call("long", ""), call("act", "")), modeltest.Text("ok"))
	m, _ := talk(t, handle)
	dir := t.TempDir()
	var spills int
	full := false
	tools := make([]*tool.Tool, 0, 2)
	for name, text := range map[string]string{"big": big, "long": long} {
		w, err := tool.New(name, "x", func(context.Context, words) (string, error) { return text, nil }, &tool.Options{Effect: tool.Pure})
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, w)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "tester", Model: m, Tools: set, Actions: []*agent.Action{action("act", func(context.Context, *journal.Scope, *tool.Call) (tool.Result, error) {
		return tool.Result{Text: big}, nil
	})}, Spill: func(run, name, text string) (string, error) {
		if spills++; full {
			return "", errors.New("the disk is full")
		}
		path := filepath.Join(dir, run+"-"+name)
		return path, os.WriteFile(path, []byte(text), 0o600)
	}}
	j := openJournal(t, runlogtest.NewMortal(), true)
	for range 2 {
		out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range results(out) {
			_, path, _ := strings.Cut(got, "all of it is in ")
			path, _, _ = strings.Cut(path, ",")
			b, err := os.ReadFile(path)
			if want := []string{big, long, big}[i]; err != nil || string(b) != want {
				t.Errorf("%d: %.300s: %v", i, got, err)
			}
			if len(got) > 8000 || i != 1 && !strings.Contains(got, "the end") {
				t.Errorf("%d bytes: %.200s", len(got), got)
			}
		}
	}
	if spills != 3 {
		t.Errorf("%d spills", spills)
	}
	full = true
	out, err := a.Run(t.Context(), j.Scope("other"), &agent.Work{})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range results(out) {
		if !strings.Contains(got, "[truncated:") {
			t.Errorf("%.300s", got)
		}
	}
}

// listening is a model, with what it was asked.
type listening struct {
	model.Model
	requests []model.Request
}

func (l *listening) Generate(ctx context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	l.requests = append(l.requests, *r)
	return l.Model.Generate(ctx, r)
}

// A result that must fit a schema is asked for again until it does, twice at most.
func TestSchema(t *testing.T) {
	s := &jsonschema.Schema{Type: "object", Required: []string{"n"}, Properties: map[string]*jsonschema.Schema{"n": {Type: "integer"}}}
	bad := modeltest.Text(`{"n":"one"}`)
	for name, tc := range map[string]struct {
		replies []modeltest.Reply
		limits  agent.Limits
		args    string
		turns   int
		err     string
	}{
		"at once":         {replies: []modeltest.Reply{modeltest.Text(`{"n":1}`)}, args: `{"n":1}`, turns: 1},
		"in a fence":      {replies: []modeltest.Reply{modeltest.Text("```json\n{\"n\":1}\n```")}, args: `{"n":1}`, turns: 1},
		"in prose":        {replies: []modeltest.Reply{modeltest.Text("Not {\"n\":\"x\"} or {n}, and not {\"n\":1}:\n\n{\"n\":2}\n\nHope it helps. {}")}, args: `{"n":2}`, turns: 1},
		"behind thoughts": {replies: []modeltest.Reply{modeltest.Text("<think>perhaps {\"n\":9}</think>{\"n\":3}")}, args: `{"n":3}`, turns: 1},
		"after a call":    {replies: []modeltest.Reply{calls(call("look", "a")), modeltest.Text(`{"n":1}`)}, args: `{"n":1}`, turns: 2},
		"the third":       {replies: []modeltest.Reply{bad, modeltest.Text("what?"), modeltest.Text(`{"n":3}`)}, limits: agent.Limits{Single: true}, args: `{"n":3}`, turns: 3},
		"never":           {replies: []modeltest.Reply{bad, bad, bad, modeltest.Text(`{"n":3}`)}, err: `3 times over: it does not fit the schema:` + "\n" + `- /n: is the string "one", want integer`},
		"out of turns":    {replies: []modeltest.Reply{calls(call("look", "a"))}, limits: agent.Limits{Turns: 1}, err: "no result after 1 turns"},
		"single, calls":   {replies: []modeltest.Reply{calls(call("look", "a")), modeltest.Text(`{"n":3}`)}, limits: agent.Limits{Single: true}, args: `{"n":3}`, turns: 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			m, server := talk(t, func(*modeltest.ParsedRequest) modeltest.Reply { n++; return tc.replies[n-1] })
			heard := &listening{Model: m}
			a := &agent.Agent{Name: "tester", Model: heard, Tools: (&bench{}).tools(t), Schema: s, Limits: tc.limits}
			j := openJournal(t, runlogtest.NewMortal(), true)
			for range 2 {
				out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
				if tc.err != "" {
					if err == nil || !strings.Contains(err.Error(), tc.err) {
						t.Fatal(err)
					}
					continue
				}
				if err != nil || string(out.Args) != tc.args || out.Turns != tc.turns || out.Stop != agent.StopSaid {
					t.Fatal(out, err)
				}
			}
			for _, r := range heard.requests {
				if r.Schema != s || tc.limits.Single != (len(r.Tools) == 0) {
					t.Errorf("asked without a schema, or with tools: %+v", r)
				}
			}
			if n := len(server.Requests()); tc.turns > 0 && n != tc.turns {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
