//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// Agents that call tools of ours over MCP.
var toolScripts = map[string]*acptest.Script{
	"looks": {Prompt: func(a *acptest.Agent, _ string) string {
		a.Say("I look.")
		got := a.Call("c1", "look", map[string]string{"at": "x"})
		a.Say("It is " + got + ".")
		return "end_turn"
	}},
	"makes": {Prompt: makes},
	// It has tools of its own, too.
	"mixed": {Prompt: func(a *acptest.Agent, text string) string {
		id := fmt.Sprintf("own-%d-", time.Now().UnixNano())
		a.Begin(id+"1", "read", "read", map[string]any{"filePath": "a.txt"})
		a.End(id+"1", "what is in it")
		makes(a, text)
		a.Begin(id+"2", "read", "read", map[string]any{"filePath": "b.txt"})
		a.End(id+"2", "what is in that")
		a.Say("It is made.")
		return "end_turn"
	}},
	"makes two": {Prompt: func(a *acptest.Agent, text string) string {
		n := len(a.Lines("heard number"))
		n += strings.Count(text, "This call of yours was made")
		for ; n < 2; n++ {
			select {
			case <-a.Cancelled():
				return "cancelled"
			default:
			}
			a.Log("heard " + a.Call(fmt.Sprintf("c%d", time.Now().UnixNano()), "make", map[string]string{}))
		}
		a.Say("Two are made.")
		return "end_turn"
	}},
	"unknown tool": {Prompt: func(a *acptest.Agent, _ string) string {
		a.Say(a.Call("c1", "run_workflow", map[string]string{}))
		return "end_turn"
	}},
	"three at once": {Prompt: func(a *acptest.Agent, _ string) string {
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { a.Log("got " + a.Call(fmt.Sprintf("c%d", i), "meet", map[string]int{"n": i})) })
		}
		all.Wait()
		a.Say("Done.")
		return "end_turn"
	}},
	// It gives up waiting, and makes the same call again.
	"impatient": {Prompt: func(a *acptest.Agent, _ string) string {
		s, err := a.Connect(nil)
		if err != nil {
			a.Say(err.Error())
			return "end_turn"
		}
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "make"})
		a.Log("first " + strconv.FormatBool(errors.Is(err, context.DeadlineExceeded)))
		a.Log("heard " + a.Call("c2", "make", map[string]string{}))
		a.Say("It is made.")
		return "end_turn"
	}},
	"strangers": {Prompt: func(a *acptest.Agent, _ string) string {
		s := a.Server()
		a.Log("url " + s.URL)
		for _, change := range []func(r *http.Request){
			func(*http.Request) {},
			func(r *http.Request) { r.Header.Del("Authorization") },
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", 52)) },
			func(r *http.Request) { r.Host = "rebound.example" },
			func(r *http.Request) { r.Header.Set("Origin", "http://rebound.example") },
		} {
			r, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				return "end_turn"
			}
			r.Header.Set("Authorization", s.Headers[0].Value)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			change(r)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				a.Log("status " + err.Error())
				continue
			}
			_ = resp.Body.Close()
			a.Log(fmt.Sprintf("status %d", resp.StatusCode))
		}
		a.Say("Done.")
		return "end_turn"
	}},
	// It asks for permission to call a tool of ours, and for a command that calls itself so.
	"asks for ours": {Prompt: func(a *acptest.Agent, _ string) string {
		a.Ask(map[string]any{"toolCallId": "c1", "title": "superstep_look", "kind": "other", "rawInput": map[string]string{"at": "x"}})
		a.Call("c1", "look", map[string]string{"at": "x"})
		a.Ask(map[string]any{"toolCallId": "c2", "title": "superstep_look", "kind": "execute", "rawInput": map[string]string{"command": "superstep_look"}})
		a.Say("Done.")
		return "end_turn"
	}},
	"no tools": {NoTools: true, Prompt: func(a *acptest.Agent, _ string) string { a.Say("url " + a.Server().URL); return "end_turn" }},
	"reports": {Prompt: func(a *acptest.Agent, _ string) string {
		a.Begin("c1", "superstep_look", "other", map[string]string{"at": "x"}) // and it never gets through
		a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed", "rawOutput": map[string]string{"error": "no connection"}})
		a.Say("Done.")
		return "end_turn"
	}},
}

// makes is an agent that has something made by a tool of ours. What it has heard is in its session.
func makes(a *acptest.Agent, text string) string {
	told := strings.Contains(text, "This call of yours was made, so do not repeat it: make")
	if told {
		a.Log("told " + text[strings.Index(text, "Its result:\n")+12:])
	}
	if !told && len(a.Lines("heard number")) == 0 {
		a.Say("I make it.")
		a.Log("heard " + a.Call(fmt.Sprintf("c%d", time.Now().UnixNano()), "make", map[string]string{}))
	}
	a.Say("It is made.")
	return "end_turn"
}

// rules decides on calls by the names of their tools.
type rules map[string]tool.Decision

func (r rules) Check(t *tool.Tool, _ *tool.Call) tool.Verdict {
	return tool.Verdict{Decision: r[t.Name], Rule: "rule about " + t.Name, Reason: "the test wants it"}
}

// equip opens a stage with tools of ours: look changes nothing, make must not be repeated, and meet waits for two others. Made counts what was made.
func equip(t *testing.T, script string, gate tool.Gate, during func()) (s *stage, made *atomic.Int32) {
	t.Helper()
	s = open(t, script)
	s.gate, made = gate, &atomic.Int32{}
	three := make(chan struct{})
	var met atomic.Int32
	input := &jsonschema.Schema{Type: "object"}
	set, err := tool.NewSet(
		&tool.Tool{Name: "look", Description: "Look at something", Input: input, Effect: tool.Pure, Run: func(context.Context, *tool.Call) (string, error) { return "blue", nil }},
		&tool.Tool{Name: "make", Description: "Make it", Input: input, Effect: tool.Once, Dir: s.dir, Run: func(context.Context, *tool.Call) (string, error) {
			if during != nil {
				during()
			}
			return fmt.Sprintf("number %d", made.Add(1)), nil
		}},
		&tool.Tool{Name: "meet", Description: "Wait for two others", Input: input, Effect: tool.Pure, Run: func(ctx context.Context, _ *tool.Call) (string, error) {
			if met.Add(1) == 3 {
				close(three)
			}
			select {
			case <-three:
				return "three", nil
			case <-time.After(time.Minute):
				return "", errors.New("alone")
			}
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	s.tools = set
	return s, made
}

var freely = rules{"look": tool.Allow, "make": tool.Allow, "meet": tool.Allow}

// heeding is a gate that notes what the values of calls come from.
type heeding struct {
	rules
	seen *[]string
}

func (h heeding) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	*h.seen = append(*h.seen, c.Seen...)
	return h.rules.Check(t, c)
}

// Whatever an agent of another program does with our tools comes of what strangers wrote, and so do its words and all files that it may have written.
func TestExternalAgentIsAStranger(t *testing.T) {
	t.Parallel()
	var seen []string
	s, _ := equip(t, "looks", heeding{freely, &seen}, nil)
	run, _ := s.start(t)
	var marks []string
	for r, err := range runlog.Records(t.Context(), s.store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"seen ", "within "} {
			if strings.Contains(string(r.Data), mark+tool.ExternalAgent) {
				marks = append(marks, mark)
			}
		}
		if strings.Contains(string(r.Data), "written *") {
			marks = append(marks, "written")
		}
	}
	for _, mark := range []string{"seen ", "within ", "written"} {
		if !slices.Contains(marks, mark) {
			t.Errorf("there is no mark %q: %q", mark, marks)
		}
	}
	if !slices.Contains(seen, tool.ExternalAgent) || !tool.Stranger(tool.ExternalAgent) {
		t.Errorf("its calls come of %q", seen)
	}
	s.replayed(t, run.ID())
}

// A call of ours is an effect of the run, in one row, with its result in the agent's next words; and a replay makes none.
func TestOurTools(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "looks", freely, nil)
	run, out := s.start(t)
	if string(out.Output) != `"It is blue."` {
		t.Errorf("got %+v, %s", out, out.Output)
	}
	r := s.fold(t, run.ID())
	want := []string{"note scripted works with your rights, outside of the sandbox; it has Superstep's tools beside its own", "text I look.", "tool look x: blue", "text It is blue."}
	if got := parts(r); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if r.Spent.Calls != 1 || r.Spent.Turns != 2 {
		t.Errorf("spent %+v", r.Spent)
	}
	s.replayed(t, run.ID())
	for rec, err := range runlog.Records(t.Context(), s.store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Data), "Bearer") {
			t.Errorf("the log holds the token: %s", rec.Data)
		}
	}
}

// What it is not offered it cannot call, and what never arrives is shown as what the agent says of it.
func TestOurToolsOnly(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "unknown tool", freely, nil)
	if _, out := s.start(t); !strings.Contains(string(out.Output), `unknown tool \"run_workflow\"`) {
		t.Errorf("got %+v, %s", out, out.Output)
	}
	s, _ = equip(t, "reports", freely, nil)
	run, _ := s.start(t)
	if got := parts(s.fold(t, run.ID())); !slices.Contains(got, "tool scripted_superstep_look x: no connection") {
		t.Errorf("got %q", got)
	}
	s, _ = equip(t, "no tools", freely, nil)
	run, out := s.start(t)
	if string(out.Output) != `"url "` {
		t.Errorf("got %+v, %s", out, out.Output)
	}
	if got := parts(s.fold(t, run.ID())); !strings.HasSuffix(got[0], "it has its own tools, since it takes none from a server on HTTP") {
		t.Errorf("got %q", got)
	}
}

// Rules decide, and where nobody can be asked the call is denied, recorded, and told to the agent.
func TestOurToolsDenied(t *testing.T) {
	t.Parallel()
	for _, d := range []tool.Decision{tool.Deny, tool.Ask} {
		s, made := equip(t, "makes", rules{"make": d}, nil)
		s.head = true
		run, _ := s.start(t)
		if heard := s.logged("heard"); len(heard) != 1 || !strings.HasPrefix(heard[0], "heard denied: ") || made.Load() != 0 {
			t.Errorf("%s: heard %q, made %d", d, heard, made.Load())
		}
		if r := s.fold(t, run.ID()); len(r.Denied) != map[tool.Decision]int{tool.Deny: 0, tool.Ask: 1}[d] || r.Spent.Calls != 0 {
			t.Errorf("%s: denied %+v, spent %+v", d, r.Denied, r.Spent)
		}
		s.replayed(t, run.ID())
	}
}

// A call that must be asked about waits, in the agent, for the answer of another process. If the agent has ended by then, the next one is told.
func TestOurToolsAsk(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		s, made := equip(t, "makes", rules{"make": tool.Ask}, nil)
		run, out := s.start(t)
		if len(out.Open) != 1 || out.Open[0].Kind != runlog.QuestionPermission || out.Open[0].Call.Tool != "make" || out.Open[0].Call.Cwd != s.dir {
			t.Fatalf("got %+v", out)
		}
		if dies {
			s.engine.Close()
			s.pool.Close()
			s.begin(t)
		}
		other, err := superstep.New(s.store, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := out.Open[0]
		if err := other.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"once"`)}); err != nil {
			t.Fatal(err)
		}
		other.Close()
		again, err := s.engine.Resume(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out = wait(t, again); string(out.Output) != `"It is made."` || made.Load() != 1 {
			t.Errorf("got %+v, %s; made %d", out, out.Output, made.Load())
		}
		prompts, word := 1, "heard"
		if dies {
			prompts, word = 2, "told"
		}
		if got := s.logged("prompt"); len(got) != prompts {
			t.Errorf("prompts %q", got)
		}
		if got := s.logged(word + " number 1"); len(got) != 1 {
			t.Errorf("it was not told: %q", acptest.Log(s.state))
		}
		s.replayed(t, run.ID())
	}
}

// Calls that come together are made together. On a busy machine one may come too late for that, and is made after the others.
func TestOurToolsTogether(t *testing.T) {
	t.Parallel()
	var s *stage
	var run *superstep.Run
	for try := 1; ; try++ {
		s, _ = equip(t, "three at once", freely, nil)
		var out superstep.Outcome
		run, out = s.start(t)
		if got := s.logged("got three"); len(got) == 3 && out.Status == runlog.Completed {
			break
		} else if try == 5 {
			t.Fatalf("got %+v; %q", out, acptest.Log(s.state))
		}
	}
	if r := s.fold(t, run.ID()); r.Spent.Calls != 3 || len(r.Tasks[0].Parts) != 5 {
		t.Errorf("spent %+v, %q", r.Spent, parts(r))
	}
	s.replayed(t, run.ID())
}

// An agent that has stopped waiting and makes the same call again gets the result of the first: it is asked about and made once.
func TestOurToolsImpatient(t *testing.T) {
	t.Parallel()
	s, made := equip(t, "impatient", rules{"make": tool.Ask}, nil)
	run, out := s.start(t)
	until(t, func() bool { return len(s.logged("first true")) == 1 })
	time.Sleep(100 * time.Millisecond) // it calls again meanwhile, or later
	s.allow(t, run, out, "once")
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out = wait(t, again); string(out.Output) != `"It is made."` || made.Load() != 1 || len(s.logged("heard number 1")) != 1 {
		t.Errorf("got %+v, %s; made %d; %q", out, out.Output, made.Load(), acptest.Log(s.state))
	}
	s.replayed(t, run.ID())
}

// Only who has the token of the session gets in, by the right name, and nobody once the task has ended.
func TestOurToolsStrangers(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "strangers", freely, nil)
	s.start(t)
	if got := s.logged("status"); !slices.Equal(got, []string{"status 200", "status 401", "status 401", "status 403", "status 403"}) {
		t.Errorf("got %q", got)
	}
	_, url, _ := strings.Cut(s.logged("url")[0], " ")
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("it is at %s", url)
	}
	if resp, err := http.Get(url); err == nil {
		_ = resp.Body.Close()
		t.Errorf("it still answers: %s", resp.Status)
	}
}

// At the budget's limit the run pauses. Once it has more, the agent hears of the call that was made, and the next one is made.
func TestOurToolsBudget(t *testing.T) {
	t.Parallel()
	for limit, want := range map[runlog.Budget]int32{{Turns: 1}: 1, {Calls: 1}: 1} {
		s, made := equip(t, "makes two", freely, nil)
		s.budget = &limit
		run, out := s.start(t)
		if out.Status != runlog.Paused || made.Load() != want {
			t.Fatalf("got %+v, made %d", out, made.Load())
		}
		again, err := s.engine.Resume(t.Context(), run.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Turns: 9, Calls: 9}})
		if err != nil {
			t.Fatal(err)
		}
		if out = wait(t, again); string(out.Output) != `"Two are made."` || made.Load() != 2 || len(s.logged("start")) != 1 {
			t.Errorf("%+v: got %+v, %s; made %d; %q", limit, out, out.Output, made.Load(), acptest.Log(s.state))
		}
		if r := s.fold(t, run.ID()); r.Spent.Calls != 2 {
			t.Errorf("spent %+v", r.Spent)
		}
		s.replayed(t, run.ID())
	}
}

// The agent's own question about a call of ours is not the user's, who is asked by the run; a command is none of ours, whatever it is called.
func TestOurToolsAskedTwice(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "asks for ours", freely, nil)
	_, out := s.start(t)
	if len(out.Open) != 1 || out.Open[0].Call.Tool != "bash" {
		t.Errorf("got %+v", out)
	}
	if got := s.logged("answer"); !slices.Equal(got, []string{"answer yes"}) {
		t.Errorf("answers %q", got)
	}
}

// Two agents that work at the same time have a process each: some agents show the tools of one session to all sessions of their process.
func TestOurToolsBeside(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "looks", freely, nil)
	s.beside = true
	_, out := s.start(t)
	if n := len(s.logged("start")); n != 2 || out.Status != runlog.Completed {
		t.Errorf("got %+v with %d processes", out, n)
	}
	run, err := s.engine.Start(t.Context(), "test", json.RawMessage(`{"prompt":"again"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out = wait(t, run); len(s.logged("start")) != 2 || len(s.logged("session/new")) != 4 || out.Status != runlog.Completed {
		t.Errorf("got %+v; %q", out, acptest.Log(s.state))
	}
}

// With room for one process they work one after the other. One that waits for a call of ours gives its place to another, such as one that works for it,
// and continues in a new process.
func TestOurToolsOneProcess(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "looks", freely, nil)
	s.opt.Processes, s.beside = 1, true
	if _, out := s.start(t); out.Status != runlog.Completed {
		t.Errorf("got %+v", out)
	}
	var nested superstep.Outcome
	s, made := equip(t, "makes", freely, nil)
	set, err := s.tools.With(&tool.Tool{Name: "make", Description: "Make it", Input: &jsonschema.Schema{Type: "object"}, Run: func(ctx context.Context, _ *tool.Call) (string, error) {
		if made.Add(1) == 1 {
			run, err := s.engine.Start(ctx, "test", json.RawMessage(`{"prompt":"nested"}`), nil)
			if err != nil {
				return "", err
			}
			nested, err = run.Wait(ctx)
			return "number 1", err
		}
		return "number 2", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.tools, s.opt.Processes = set, 1
	if _, out := s.start(t); string(out.Output) != `"It is made."` || nested.Status != runlog.Completed {
		t.Errorf("got %+v; nested %+v; %q", out, nested, acptest.Log(s.state))
	}
}

// Wherever Superstep is killed, what a tool of ours makes is made once, unless a user was asked before it was made again.
func TestOurToolsKilledAtEveryAppend(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"makes", "mixed"} {
		t.Run(script, func(t *testing.T) { t.Parallel(); killedAtEveryAppend(t, script) })
	}
}

func killedAtEveryAppend(t *testing.T, script string) {
	asked := map[string]int{}
	for n := 1; ; n++ {
		ended := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %v", n, after), func(t *testing.T) {
				s, made := equip(t, script, rules{"make": tool.Ask}, nil)
				kinds, over := s.killedAt(t, n, after)
				ended = over
				for _, kind := range kinds {
					asked[kind]++
				}
				if n := made.Load(); n != 1 && !slices.Contains(kinds, string(runlog.QuestionUnknown)) || n > 2 {
					t.Errorf("it was made %d times, asked %q; the agent's log: %q", n, kinds, acptest.Log(s.state))
				}
			})
		}
		if ended || t.Failed() {
			break
		}
	}
	if asked[string(runlog.QuestionUnknown)] == 0 {
		t.Error("no crash left an unknown outcome")
	}
	t.Log("questions", asked)
}

// Wherever the agent is killed, the run ends with the same result.
func TestOurToolsAgentKilled(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s, made := equip(t, "makes", freely, nil)
		if err := acptest.DieAt(s.state, n); err != nil {
			t.Fatal(err)
		}
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, asked := s.finish(t, run)
		if string(out.Output) != `"It is made."` || made.Load() != 1 || len(asked) > 0 {
			t.Errorf("message %d: got %+v; made %d, asked %q; %q", n, out, made.Load(), asked, acptest.Log(s.state))
		}
		s.replayed(t, run.ID())
		if len(s.logged("start")) == 1 { // it lived longer
			if n < 6 {
				t.Errorf("it has sent %d messages", n)
			}
			break
		}
	}
	// In the call, and so before it hears the result; also where it has said nothing yet.
	for _, script := range []string{"makes", "makes two"} {
		var s *stage
		var made *atomic.Int32
		s, made = equip(t, script, freely, func() {
			if made.Load() == 0 {
				s.killed()
			}
		})
		run, out := s.start(t)
		if want := int32(len(strings.Fields(script))); !strings.HasSuffix(string(out.Output), `made."`) || made.Load() != want || len(s.logged("start")) != 2 {
			t.Errorf("got %+v; made %d; %q", out, made.Load(), acptest.Log(s.state))
		}
		s.replayed(t, run.ID())
	}
}

// killedAt kills Superstep at an append, lets the run finish, and returns what users were asked after that. Over reports that there are fewer appends.
func (s *stage) killedAt(t *testing.T, n int, after bool) (asked []string, over bool) {
	t.Helper()
	store := runlogtest.NewMortal()
	s.store = store
	store.DieAt(n, after)
	e := s.begin(t)
	run, err := e.Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
	if err != nil {
		t.Skip("it did not begin: ", err)
	}
	out := wait(t, run)
	if out.Status == runlog.Paused && !store.Dead() { // at its permission request
		_, _ = s.finish(t, run) // which may be cut off
	}
	over = !store.Dead()
	s.killed()
	e.Close()
	s.pool.Close()
	store.Revive()
	s.begin(t)
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	final, asked := s.finish(t, again)
	if !strings.HasSuffix(string(final.Output), `It is made."`) {
		t.Errorf("got %+v, %s; the agent's log: %q", final, final.Output, acptest.Log(s.state))
	}
	s.replayed(t, run.ID())
	return asked, over
}
