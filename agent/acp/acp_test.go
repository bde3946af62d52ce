//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) {
	maps.Copy(scripts, toolScripts)
	maps.Copy(scripts, hostileScripts)
	acptest.Main(scripts)
	os.Exit(m.Run())
}

// stage is a workflow of one agent, which is a scripted one.
type stage struct {
	script string
	state  string // of the scripted agent
	dir    string // where it works
	store  runlog.Store
	pool   *acp.Pool
	opt    acp.Options
	mode   string
	cmd    *acp.Command // nil for the script
	head   bool         // nobody can be asked
	tools  *tool.Set    // of ours
	gate   tool.Gate
	beside bool // another agent works at the same time
	budget *runlog.Budget
	trace  string // of who starts the run
	engine *superstep.Engine
}

func open(t *testing.T, script string) *stage {
	t.Helper()
	s := &stage{script: script, state: t.TempDir(), dir: t.TempDir(), store: runlog.NewMemory(nil)}
	s.opt = acp.Options{Environ: os.Environ(), Silence: time.Minute, Limit: 2 * time.Minute}
	t.Cleanup(func() {
		if s.engine != nil {
			s.engine.Close()
		}
		if s.pool != nil {
			s.pool.Close()
		}
		s.gone(t)
	})
	return s
}

// gone fails the test if a process of the scripted agent is left.
func (s *stage) gone(t *testing.T) {
	t.Helper()
	for _, line := range acptest.Log(s.state) {
		if s.opt.Sandbox != nil {
			return // it does not know its process ID
		}
		word, n, _ := strings.Cut(line, " ")
		pid, err := strconv.Atoi(n)
		if word == "start" && err == nil && syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left", pid)
		}
	}
}

// logged returns the lines of the agent's log that begin with a word.
func (s *stage) logged(word string) []string {
	return slices.DeleteFunc(acptest.Log(s.state), func(l string) bool { return !strings.HasPrefix(l, word) })
}

type inputs struct {
	Prompt string `json:"prompt"`
}

// begin opens the engine, as a process does.
func (s *stage) begin(t *testing.T) *superstep.Engine {
	t.Helper()
	s.pool = acp.NewPool(&s.opt)
	cmd := acp.Command{Name: "scripted", Argv: []string{os.Args[0]}, Env: acptest.Env(s.script, s.state), Mode: s.mode, Login: "scripted login"}
	if s.cmd != nil {
		cmd = *s.cmd
	}
	return s.engineOf(t, &agent.Agent{Name: "worker", Model: s.pool.Model(cmd, s.dir), Headless: s.head, Tools: s.tools, Gate: s.gate})
}

// engineOf opens the engine of a workflow of one agent.
func (s *stage) engineOf(t *testing.T, a *agent.Agent) *superstep.Engine {
	t.Helper()
	g := graph.New("test", reduce.Replace[string])
	g.AddNode(node.Agent("work", a, func(s string) (string, error) { return s, nil }, func(_ string, o *agent.Outcome) (string, error) { return o.Text, nil }))
	g.Edge(graph.Start, "work")
	if s.beside {
		g.AddNode(node.Agent("other", a, func(s string) (string, error) { return s, nil }, func(was string, _ *agent.Outcome) (string, error) { return was, nil }))
		g.Edge(graph.Start, "other")
		g.Edge("other", graph.End)
	}
	g.Edge("work", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("test", "A test.", f, func(in inputs) (string, error) { return in.Prompt, nil }, func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	if s.engine, err = superstep.New(s.store, &superstep.Options{Workflows: []*workflow.Workflow{w}, Propagate: s.trace != ""}); err != nil {
		t.Fatal(err)
	}
	return s.engine
}

// start starts the run and waits for its end or pause.
func (s *stage) start(t *testing.T) (*superstep.Run, superstep.Outcome) {
	t.Helper()
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), &superstep.StartOptions{Budget: s.budget, Trace: s.trace})
	if err != nil {
		t.Fatal(err)
	}
	return run, wait(t, run)
}

func wait(t *testing.T, run *superstep.Run) superstep.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := run.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fold is the run as people see it.
func (s *stage) fold(t *testing.T, id string) *transcript.Run {
	t.Helper()
	r := &transcript.Run{}
	for rec, err := range runlog.Records(t.Context(), s.store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		r.Apply(rec)
	}
	return r
}

// replayed fails the test if a replay differs, or starts a process.
func (s *stage) replayed(t *testing.T, id string) {
	t.Helper()
	before := len(s.logged("start"))
	report, err := s.engine.Replay(t.Context(), id, &superstep.ReplayOptions{Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if report.Diverged != nil {
		t.Errorf("%v: recorded %+v, replayed %+v", report.Diverged, report.Diverged.Recorded, report.Diverged.Replayed)
	}
	if n := len(s.logged("start")); n != before {
		t.Errorf("the replay started %d processes", n-before)
	}
}

// parts are the parts of the agent's task, in words.
func parts(r *transcript.Run) []string {
	var out []string
	for _, task := range r.Tasks {
		for _, p := range task.Parts {
			line := fmt.Sprintf("%s %s", p.Kind, p.Text)
			if p.Tool != nil {
				line = fmt.Sprintf("%s %s %s: %s", p.Kind, p.Tool.Name, p.Tool.Arg, p.Tool.Result)
			}
			if p.Question != nil {
				line = fmt.Sprintf("%s %s: %s", p.Kind, p.Question.Question, p.Question.Answer)
			}
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

var scripts = map[string]*acptest.Script{
	"plain": {Prompt: func(a *acptest.Agent, _ string) string {
		a.Think("I look first.")
		a.Say("I will ")
		a.Say("look.")
		a.Update(map[string]any{"sessionUpdate": "plan", "entries": []any{map[string]any{"content": "look", "status": "in_progress", "priority": "high"}}})
		a.Begin("c1", "read", "read", map[string]any{"filePath": "a.txt"})
		time.Sleep(20 * time.Millisecond)
		a.End("c1", "what is in it")
		a.Say("Done.")
		return "end_turn"
	}},
	// Trap 1: a call that never ends, whose permission request never came.
	"hangs": {Prompt: func(a *acptest.Agent, _ string) string {
		a.Begin("c1", "task", "other", map[string]any{"prompt": "x"})
		<-a.Cancelled()
		return "end_turn"
	}},
	// Trap 2: the usage is that of the last model call, and the cost that of the session.
	"usage": {Usage: map[string]any{"inputTokens": 50, "outputTokens": 5}, Prompt: func(a *acptest.Agent, text string) string {
		cost := 0.002
		if strings.Contains(text, "again") {
			cost = 0.005
		}
		for _, c := range []float64{cost / 2, cost, 0, cost} { // as after a cancellation
			a.Live(map[string]any{"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": map[string]any{"amount": c, "currency": "USD"}})
		}
		a.Say("ok")
		return "end_turn"
	}},
	// Traps 3 and 8: permission requests, several at once, and a rejection that ends the turn as if all were well.
	"asks": {Prompt: func(a *acptest.Agent, text string) string {
		if strings.Contains(text, "denied this") || strings.Contains(text, "Continue") {
			a.Say("I could not do all of it.")
			return "end_turn"
		}
		got := make(chan string, 2)
		for i, command := range []string{"make one", "make two"} {
			go func() {
				id := fmt.Sprintf("c%d", i+1)
				call := map[string]any{"toolCallId": id, "title": command, "kind": "execute", "status": "pending", "rawInput": map[string]any{"command": command}}
				answer := a.Ask(call)
				if answer == "yes" {
					a.End(id, "made")
				} else {
					a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"})
				}
				got <- answer
			}()
		}
		if one, two := <-got, <-got; one+two == "yesyes" {
			a.Say("Both are made.")
		}
		return "end_turn"
	}},
	// Trap 3: a turn that is cancelled ends as if all were well.
	"endless": {Prompt: func(a *acptest.Agent, text string) string {
		if strings.Contains(text, "Continue") {
			a.Say("and on.")
			return "end_turn"
		}
		a.Say("On ")
		<-a.Cancelled()
		a.Log("cancelled")
		return "end_turn"
	}},
	// Trap 4: a model that cannot be reached is not told.
	"silent": {Prompt: func(a *acptest.Agent, _ string) string {
		select {
		case <-a.Cancelled():
		case <-time.After(600 * time.Millisecond):
		}
		a.Say("back")
		return "end_turn"
	}},
	// Trap 5: it writes files through a client that said it cannot.
	"writes": {Prompt: func(a *acptest.Agent, _ string) string {
		raw := a.Request("fs/write_text_file", map[string]any{"sessionId": "s", "path": "/tmp/acp-written", "content": "x"})
		a.Say(string(raw))
		return "end_turn"
	}},
	// Trap 7: updates of unknown kinds, and lines that are too long.
	"unknown": {Prompt: func(a *acptest.Agent, _ string) string {
		for _, kind := range []string{"compaction_summary_chunk", "_x", "subagent_update", "_x"} {
			a.Update(map[string]any{"sessionUpdate": kind, "toolCallId": "t", "content": map[string]any{"type": "text", "text": "not said by the user"}})
		}
		a.Raw("this is no JSON")
		a.Begin("c1", "cat", "execute", map[string]any{"command": "cat big"})
		a.End("c1", strings.Repeat("0123456789abcdef", 12<<16)) // 12 MiB
		a.Say("fine")
		return "end_turn"
	}},
	"diff": {Prompt: func(a *acptest.Agent, _ string) string {
		diff := []any{map[string]any{"type": "diff", "path": "a.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n"}}
		call := map[string]any{"toolCallId": "e1", "title": "edit", "kind": "edit", "rawInput": map[string]any{"filePath": "a.txt", "oldString": "two", "newString": "2"}, "content": diff}
		if a.Ask(call) == "yes" {
			a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "e1", "status": "completed", "content": diff})
		}
		a.Say("edited")
		return "end_turn"
	}},
	// A command's output comes in pieces, as Codex sends it, and the costs and tokens come while it runs, as Qwen Code tells tokens. Nothing is said after it.
	"printed": {Prompt: func(a *acptest.Agent, _ string) string {
		used := func(in, out, cached, thought, total int) {
			a.Update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": ""}, "_meta": map[string]any{
				"usage": map[string]any{"inputTokens": in, "outputTokens": out, "cachedReadTokens": cached, "thoughtTokens": thought, "totalTokens": total}}})
		}
		a.Begin("c1", "make", "execute", map[string]any{"command": "make"})
		time.Sleep(20 * time.Millisecond)
		a.Live(map[string]any{"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": map[string]any{"amount": 0.001, "currency": "USD"}})
		used(100, 20, 0, 0, 120)
		used(100, 20, 60, 10, 120) // which are within the others
		used(100, 20, 60, 10, 190) // which are not
		for _, piece := range []string{"made ", "it\n"} {
			a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "_meta": map[string]any{"terminal_output_delta": map[string]any{"data": piece}}})
		}
		a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": map[string]any{"exit_code": 0}})
		return "end_turn"
	}},
	// It uses a second turn of the model after a call.
	"turns": {Prompt: func(a *acptest.Agent, text string) string {
		if !strings.Contains(text, "interrupted") {
			a.Begin("c1", "read", "read", map[string]any{"filePath": "a.txt"})
			a.End("c1", "what is in it")
			<-a.Cancelled()
			return "end_turn" // trap 3
		}
		a.Say("Done.")
		return "end_turn"
	}},
	"working": {Prompt: working},
	"probe":   {Prompt: prober},
	"calls": {Prompt: func(a *acptest.Agent, text string) string {
		switch {
		case strings.Contains(text, "The outcome of this call is not known"):
			a.Say("I look whether it is made.")
			return "end_turn"
		case strings.Contains(text, "interrupted"):
			a.Say("I was told nothing of the call.")
			return "end_turn"
		}
		a.Ask(map[string]any{"toolCallId": "c1", "title": "make", "kind": "execute", "rawInput": map[string]any{"command": "make"}})
		a.Begin("c1", "make", "execute", map[string]any{"command": "make"})
		a.Log("did")
		<-a.Cancelled()
		return "end_turn"
	}},
	"spoken": {Prompt: spoken},
	// It keeps no sessions.
	"forgets": {Forgets: true, Prompt: func(a *acptest.Agent, text string) string {
		switch {
		case strings.Contains(text, "make it again: bash"):
			a.Say("It was allowed.")
		case strings.Contains(text, "The user denied this"):
			a.Say("It was denied.")
		default:
			a.Ask(map[string]any{"toolCallId": "c1", "title": "make", "kind": "execute", "rawInput": map[string]any{"command": "make"}})
			<-a.Cancelled()
		}
		return "end_turn"
	}},
	// It goes on when all others are at the same point.
	"together": {Prompt: func(a *acptest.Agent, text string) string {
		name, _, _ := strings.Cut(text, "\n")
		a.Say("I am ")
		a.Begin("c-"+name, "make "+name, "execute", map[string]any{"command": "make " + name})
		a.Log("at " + name)
		for range 1000 {
			if a.Logged("at one")*a.Logged("at two")*a.Logged("at three")*a.Logged("at four")*a.Logged("at five") > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		a.End("c-"+name, "made "+name)
		a.Say(name)
		return "end_turn"
	}},
	"version":    {Version: 2},
	"signed out": {NewError: -32000},
	"modes":      {Modes: []string{"auto", "default"}, Prompt: func(a *acptest.Agent, _ string) string { a.Say(a.Mode()); return "end_turn" }},
	"stubborn":   {Stubborn: true, Prompt: func(a *acptest.Agent, _ string) string { a.Say("ok"); return "end_turn" }},
	// It dies in the middle of its first turn, and continues after that.
	"dies": {Prompt: func(a *acptest.Agent, text string) string {
		if a.Logged("died") == 0 {
			a.Say("half")
			if a.Logged("in a call") == 0 {
				a.Log("died")
				a.Die()
			}
			a.Begin("c1", "make", "execute", map[string]any{"command": "make"})
			a.Log("died")
			a.Die()
		}
		a.Say("whole")
		return "end_turn"
	}},
}

// prober does in the world what its environment says, and leaves a process behind that has left its group.
func prober(a *acptest.Agent, text string) string {
	out, _ := exec.Command("sh", "-c", os.Getenv("PROBE")).CombinedOutput()
	a.Log("probed")
	a.Say(string(out))
	if strings.Contains(text, "stay") {
		<-a.Cancelled()
	}
	return "end_turn"
}

func TestSteps(t *testing.T) {
	t.Parallel()
	s := open(t, "plain")
	run, out := s.start(t)
	if out.Status != runlog.Completed || string(out.Output) != `"Done."` {
		t.Fatalf("got %+v", out)
	}
	r := s.fold(t, run.ID())
	want := []string{"note scripted works with your rights, outside of the sandbox", "reasoning I look first.", "text I will look.", "tool todo :", "tool read_file a.txt: what is in it", "text Done."}
	got := parts(r)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	task := r.Tasks[0]
	if len(task.Todos) != 1 || task.Todos[0].Status != "in_progress" {
		t.Errorf("todos %+v", task.Todos)
	}
	s.replayed(t, run.ID())
}

// Trap 1, and trap 6: what hangs is cancelled, and a missing folder is told before anything starts.
func TestHangs(t *testing.T) {
	t.Parallel()
	s := open(t, "hangs")
	s.opt.Silence, s.opt.Limit = 50*time.Millisecond, 400*time.Millisecond
	_, out := s.start(t)
	if out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), "scripted has been silent for") {
		t.Errorf("got %+v", out)
	}
	if len(s.logged("session/cancel")) == 0 {
		t.Error("the turn is not cancelled")
	}
	for _, c := range acp.Known() {
		if c.Name == "opencode" && !strings.Contains(strings.Join(c.Env, " "), `"task":"deny"`) {
			t.Error("opencode has sub-agents, whose questions nobody gets")
		}
	}
}

func TestMissingFolder(t *testing.T) {
	t.Parallel()
	s := open(t, "plain")
	s.dir += "/gone"
	if _, out := s.start(t); out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), "there is no folder "+s.dir) {
		t.Errorf("got %+v", out)
	}
	if len(s.logged("start")) > 0 {
		t.Error("it was started")
	}
}

// Trap 2: cost is counted by how it changes, and only upwards, and is marked as too little; the tokens are what is reported.
func TestUsage(t *testing.T) {
	t.Parallel()
	s := open(t, "usage")
	run, _ := s.start(t)
	r := s.fold(t, run.ID())
	if r.Spent.Money != 2000 || r.Spent.Tokens != 55 || r.Spent.Turns != 1 || !r.Cost().More {
		t.Errorf("spent %+v, %s", r.Spent, r.Cost())
	}
	s.replayed(t, run.ID())
}

// Five sessions work in one process at once, and what happens in each is told of it alone.
func TestFiveSessions(t *testing.T) {
	t.Parallel()
	s := open(t, "together")
	e := s.begin(t)
	runs := map[string]*superstep.Run{}
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		run, err := e.Start(t.Context(), "test", json.RawMessage(fmt.Sprintf(`{"prompt":%q}`, name)), nil)
		if err != nil {
			t.Fatal(err)
		}
		runs[name] = run
	}
	for name, run := range runs {
		if out := wait(t, run); string(out.Output) != strconv.Quote(name) {
			t.Errorf("%s: got %+v, %s", name, out, out.Output)
		}
		want := []string{"text I am", "tool bash make " + name + ": made " + name, "text " + name}
		if got := parts(s.fold(t, run.ID())); !slices.Equal(got[1:], want) {
			t.Errorf("%s: parts %q", name, got)
		}
		s.replayed(t, run.ID())
	}
	if starts, sessions := len(s.logged("start")), len(s.logged("session/new")); starts != 1 || sessions != 5 {
		t.Errorf("%d processes, %d sessions", starts, sessions)
	}
}

// What must hold in a configuration is added to what the user has in it.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	s := open(t, "probe")
	s.opt.Environ = append(s.opt.Environ, `CODEX_CONFIG={"features":{"web":true,"multi_agent":true},"model":"m"}`, "PROBE=printf %s \"$CODEX_CONFIG\"")
	c := known("codex")
	c.Argv, c.Mode, c.Keys, c.Env = []string{os.Args[0]}, "", append(c.Keys, "PROBE"), append(c.Env, acptest.Env(s.script, s.state)...)
	s.cmd = &c
	if _, out := s.start(t); string(out.Output) != strconv.Quote(`{"features":{"multi_agent":false,"web":true},"model":"m"}`) {
		t.Errorf("got %+v, %s", out, out.Output)
	}
}

// A prompt carries its place in the trace of the run, if that is to be passed on.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for caller, want := range map[string]string{"00-" + trace + "-00f067aa0ba902b7-01": "trace 00-" + trace + "-", "": ""} {
		s := open(t, "printed")
		s.trace = caller
		s.start(t)
		if got := s.logged("trace"); len(got) != len(want)/len("trace 00-"+trace+"-") || len(got) == 1 && (!strings.HasPrefix(got[0], want) || strings.Contains(got[0], caller)) {
			t.Errorf("it gets %q, want one that begins with %q", got, want)
		}
	}
}

// What is used and printed while a call runs counts and shows as well.
func TestPrinted(t *testing.T) {
	t.Parallel()
	s := open(t, "printed")
	run, _ := s.start(t)
	r := s.fold(t, run.ID())
	if got := parts(r); len(got) != 2 || got[1] != "tool bash make: made it" {
		t.Errorf("parts %q", got)
	}
	if r.Spent.Tokens != 120+120+190 || r.Spent.Money != 1000 {
		t.Errorf("spent %+v", r.Spent)
	}
	s.replayed(t, run.ID())
}

// Traps 3 and 8: both requests are questions at once, each with its call; a denial is known by what was answered, and nothing is allowed for ever.
func TestAsks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers []string
		output  string
		chosen  []string
	}{
		{[]string{"once", "run"}, `"Both are made."`, []string{"answer yes", "answer yes"}},
		{[]string{"once", "deny: not that"}, `"I could not do all of it."`, []string{"answer no", "answer yes"}},
	} {
		s := open(t, "asks")
		run, out := s.start(t)
		if len(out.Open) != 2 {
			t.Fatalf("got %+v", out)
		}
		for i, q := range out.Open {
			if q.Kind != runlog.QuestionPermission || q.Call.Tool != "bash" || q.Call.Cwd != s.dir {
				t.Errorf("question %+v, %+v", q, q.Call)
			}
			if err := s.engine.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(strconv.Quote(c.answers[i]))}); err != nil {
				t.Fatal(err)
			}
		}
		again, err := s.engine.Resume(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out = wait(t, again); string(out.Output) != c.output {
			t.Errorf("got %+v, %s", out, out.Output)
		}
		chosen := s.logged("answer")
		if slices.Sort(chosen); !slices.Equal(chosen, c.chosen) {
			t.Errorf("chosen %q", chosen)
		}
		if n := len(s.logged("start")); n != 1 {
			t.Errorf("%d processes", n)
		}
		s.replayed(t, run.ID())
	}
}

// Where nobody can be asked, the calls are denied, and the run tells so.
func TestHeadless(t *testing.T) {
	t.Parallel()
	s := open(t, "asks")
	s.head = true
	run, out := s.start(t)
	if string(out.Output) != `"I could not do all of it."` {
		t.Errorf("got %+v", out)
	}
	if r := s.fold(t, run.ID()); len(r.Denied) != 2 || r.Denied[0].Tool != "bash" {
		t.Errorf("denied %+v", r.Denied)
	}
	s.replayed(t, run.ID())
}

// A process that ends while a question is open takes the turn with it. The next one is told what was allowed, and is not asked again.
func TestAnswerAfterExit(t *testing.T) {
	t.Parallel()
	s := open(t, "asks")
	run, out := s.start(t)
	s.engine.Close()
	s.pool.Close()
	e := s.begin(t)
	for _, q := range out.Open {
		if err := e.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"once"`)}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := e.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out = wait(t, again); string(out.Output) != `"I could not do all of it."` {
		t.Errorf("got %+v", out)
	}
	if got := s.logged("prompt"); len(got) != 2 || !strings.Contains(got[1], "interrupted") {
		t.Errorf("prompts %q", got)
	}
	s.replayed(t, run.ID())
}

// A new session, of an agent that has lost the one before, is told what was decided there.
func TestDecidedBeforeNewSession(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"once": `"It was allowed."`, "deny": `"It was denied."`} {
		s := open(t, "forgets")
		run, out := s.start(t)
		s.engine.Close()
		s.pool.Close()
		s.begin(t)
		s.allow(t, run, out, answer)
		again, err := s.engine.Resume(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out = wait(t, again); string(out.Output) != want {
			t.Errorf("%s: got %+v", answer, out)
		}
		s.replayed(t, run.ID())
	}
}

// Trap 3: what is cancelled is told by us. A run that is stopped and resumed continues in its session, and asks nothing twice.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	s := open(t, "endless")
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(s.logged("prompt")) == 1 })
	time.Sleep(50 * time.Millisecond)
	s.engine.Close()
	s.pool.Close()
	if len(s.logged("cancelled")) == 0 {
		t.Error("the turn is not cancelled")
	}
	again, err := s.begin(t).Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, again); string(out.Output) != `"and on."` {
		t.Errorf("got %+v", out)
	}
	if got := s.logged("prompt"); len(got) != 2 || !strings.HasPrefix(got[1], "prompt You were interrupted") {
		t.Errorf("prompts %q", got)
	}
	s.replayed(t, run.ID())
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for range 6000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("that takes too long")
}

// Trap 4: silence is told while it lasts.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := open(t, "silent")
	s.opt.Silence = 100 * time.Millisecond
	e := s.begin(t)
	run, err := e.Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for rec, err := range e.Follow(t.Context(), run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		told = told || strings.Contains(string(rec.Data), "scripted has been silent for 0 s")
	}
	if out := wait(t, run); !told || string(out.Output) != `"back"` {
		t.Errorf("told: %v, got %+v", told, out)
	}
}

// A turn has a limit, however much the agent says.
func TestTurnLimit(t *testing.T) {
	t.Parallel()
	s := open(t, "endless")
	s.opt.Turn = 300 * time.Millisecond
	if _, out := s.start(t); out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), "scripted has worked on its turn for 0s, which is the limit") {
		t.Errorf("got %+v", out)
	}
	if len(s.logged("cancelled")) == 0 {
		t.Error("the turn is not cancelled")
	}
}

// Trap 5: files are not written for it.
func TestWrites(t *testing.T) {
	t.Parallel()
	s := open(t, "writes")
	_, out := s.start(t)
	if !strings.Contains(string(out.Output), "-32601") {
		t.Errorf("got %s", out.Output)
	}
	if _, err := os.Stat("/tmp/acp-written"); err == nil {
		t.Error("the file is written")
	}
}

// Trap 7: what is unknown is noted, and not taken for something else; a line of 12 MiB does not end the connection.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := open(t, "unknown")
	run, out := s.start(t)
	if string(out.Output) != `"fine"` {
		t.Fatalf("got %+v", out)
	}
	got := strings.Join(parts(s.fold(t, run.ID())), "\n")
	if strings.Contains(got, "not said by the user") || strings.Count(got, "unknown kind") != 3 || !strings.Contains(got, "tool bash cat big: 0123") {
		t.Errorf("got %.1000s", got)
	}
	s.replayed(t, run.ID())
}

// A change is shown before it is allowed.
func TestDiff(t *testing.T) {
	t.Parallel()
	s := open(t, "diff")
	run, out := s.start(t)
	if len(out.Open) != 1 || out.Open[0].Call.Tool != "edit_file" || !strings.Contains(out.Open[0].Call.Diff, "+2") {
		t.Fatalf("got %+v", out)
	}
	q := out.Open[0]
	if err := s.engine.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"once"`)}); err != nil {
		t.Fatal(err)
	}
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out = wait(t, again); string(out.Output) != `"edited"` {
		t.Errorf("got %+v", out)
	}
	if got := parts(s.fold(t, run.ID())); !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "tool edit_file a.txt") && strings.Contains(l, "-two") }) {
		t.Errorf("got %q", got)
	}
	s.replayed(t, run.ID())
}

// An agent that ends at its start is started again, twice; what it says at last is the reason.
func TestStartsAgain(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		ends int
		want string
	}{{2, ""}, {3, "scripted has ended (exit status 3): locked"}} {
		s := open(t, "plain")
		program := fmt.Sprintf(`echo >>"$0"; if [ $(wc -l <"$0") -le %d ]; then exec 0<&-; sleep 0.1; echo locked >&2; exit 3; fi; exec "$1"`, x.ends)
		s.cmd = &acp.Command{Name: "scripted", Argv: []string{"/bin/sh", "-c", program, t.TempDir() + "/starts", os.Args[0]}, Env: acptest.Env(s.script, s.state)}
		switch _, out := s.start(t); {
		case x.want == "" && out.Status != runlog.Completed, x.want != "" && (out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), x.want)):
			t.Errorf("%d ends: got %v", x.ends, out.Err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, mode, want string }{
		{"version", "", "speaks version 2"},
		{"signed out", "", "scripted is not signed in; sign in with: scripted login"},
		{"modes", "careful", `has no mode "careful"`},
	} {
		s := open(t, c.script)
		s.mode = c.mode
		if _, out := s.start(t); out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), c.want) {
			t.Errorf("%s: got %v", c.script, out.Err)
		}
	}
	s := open(t, "modes")
	s.mode = "default"
	if _, out := s.start(t); string(out.Output) != `"default"` {
		t.Errorf("got %+v", out)
	}
}

// An agent that crashes is started again and continues.
func TestAgentCrashes(t *testing.T) {
	t.Parallel()
	s := open(t, "dies")
	run, out := s.start(t)
	if string(out.Output) != `"whole"` {
		t.Errorf("got %+v", out)
	}
	if n := len(s.logged("session/load")); n != 1 {
		t.Errorf("loaded %d times", n)
	}
	s.replayed(t, run.ID())
}

// A process that ignores everything is killed.
func TestStubborn(t *testing.T) {
	t.Parallel()
	s := open(t, "stubborn")
	_, out := s.start(t)
	if string(out.Output) != `"ok"` {
		t.Errorf("got %+v", out)
	}
	began := time.Now()
	s.pool.Close()
	if s.gone(t); time.Since(began) > faults.Bound(8*time.Second) {
		t.Errorf("it took %s", time.Since(began))
	}
}

// A conversation continues in the session that it began in. Outside of a run, too.
func TestConversation(t *testing.T) {
	t.Parallel()
	s := open(t, "usage")
	s.pool = acp.NewPool(&s.opt)
	cmd := acp.Command{Name: "scripted", Argv: []string{os.Args[0]}, Env: acptest.Env(s.script, s.state)}
	a := &agent.Agent{Name: "worker", Prompt: "Be brief.", Model: s.pool.Model(cmd, s.dir)}
	out, err := a.Run(t.Context(), nil, &agent.Work{Prompt: "go"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.Run(t.Context(), nil, &agent.Work{Messages: out.Messages, Prompt: "again"})
	if err != nil || again.Text != "ok" || len(again.Messages) != 4 {
		t.Fatal(again, err)
	}
	if got := s.logged("prompt"); !slices.Equal(got, []string{"prompt <instructions>", "prompt again"}) || len(s.logged("session/new")) != 1 {
		t.Errorf("prompts %q", got)
	}
	s.pool.Close()
	s.pool = acp.NewPool(&s.opt)
	a.Model = s.pool.Model(cmd, s.dir)
	if again, err = a.Run(t.Context(), nil, &agent.Work{Messages: again.Messages, Prompt: "once more"}); err != nil || len(s.logged("session/load")) != 1 {
		t.Fatal(again, err)
	}
}

// What a user says while the agent works is its next prompt.
func TestSteer(t *testing.T) {
	t.Parallel()
	s := open(t, "silent")
	e := s.begin(t)
	run, err := e.Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(s.logged("prompt")) == 1 })
	if err := e.Steer(t.Context(), run.ID(), "", "and this"); err != nil {
		t.Fatal(err)
	}
	wait(t, run)
	if got := s.logged("prompt"); !slices.Equal(got, []string{"prompt go", "prompt and this"}) {
		t.Errorf("prompts %q", got)
	}
	s.replayed(t, run.ID())
}

// A budget that is used up pauses the run before the next turn, and a larger one lets it continue.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := open(t, "turns")
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), &superstep.StartOptions{Budget: &runlog.Budget{Turns: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, run); out.Status != runlog.Paused || out.Short == nil {
		t.Fatalf("got %+v", out)
	}
	again, err := s.engine.Resume(t.Context(), run.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Turns: 9}})
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, again); string(out.Output) != `"Done."` {
		t.Errorf("got %+v", out)
	}
	if got := s.logged("prompt"); len(got) != 2 || !strings.HasPrefix(got[1], "prompt You were interrupted") { // the first turn was cancelled
		t.Errorf("prompts %q", got)
	}
	s.replayed(t, run.ID())
}
