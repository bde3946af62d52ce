package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talk makes a model of a server that says what handle says.
func talk(t testing.TB, handle modeltest.Handler) (model.Model, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, handle, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{
		Model: "gpt-test", APIKey: "key", BaseURL: server.URL, HTTPClient: &http.Client{Transport: transport},
		Retries: 2, Backoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, server
}

// bench is what the tools of a test did.
type bench struct {
	mu   sync.Mutex
	runs []string // name and arguments
	keys []string
	hook func(name string)
}

func (b *bench) did(name, args, key string) {
	b.mu.Lock()
	b.runs = append(b.runs, name+" "+args)
	b.keys = append(b.keys, key)
	b.mu.Unlock()
	if b.hook != nil {
		b.hook(name)
	}
}

// sort puts what ran side by side into an order.
func (b *bench) sort(do bool) {
	if do {
		slices.Sort(b.runs)
	}
}

type words struct {
	Text string `json:"text"`
}

// tools are "look", which is pure, "put", which is idempotent, "send", which must not
// happen twice, "break", which fails, and "done", to finish with.
func (b *bench) tools(t testing.TB) *tool.Set {
	t.Helper()
	var list []*tool.Tool
	for name, effect := range map[string]tool.Effect{"look": tool.Pure, "put": tool.Idempotent, "send": tool.Once, "break": tool.Pure, "done": tool.Pure} {
		w, err := tool.NewRaw(name, "A tool.", func(_ context.Context, c *tool.Call, in words) (string, error) {
			b.did(name, in.Text, c.Key)
			if name == "break" {
				return "", errors.New("it is broken")
			}
			if in.Text == "bad" && name == "done" {
				return "", errors.New("text: must not be bad")
			}
			return name + " saw " + in.Text, nil
		}, &tool.Options{Effect: effect})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b *tool.Tool) int { return strings.Compare(a.Name, b.Name) })
	set, err := tool.NewSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func call(name, text string) model.Part {
	args, _ := json.Marshal(words{text})
	return model.Part{Kind: model.ToolCall, Call: &model.Call{Name: name, Args: args}}
}

func calls(parts ...model.Part) modeltest.Reply { return modeltest.Reply{Parts: parts} }

// results are what the tools answered, in order.
func results(out *agent.Outcome) []string {
	var list []string
	for _, m := range out.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result {
				list = append(list, fmt.Sprintf("%s error=%v %s", p.Call.Name, p.Error, p.Text))
			}
		}
	}
	return list
}

func TestLoop(t *testing.T) {
	cut := modeltest.Text("half a sent")
	cut.Stop = model.StopLength
	for _, tc := range []struct {
		name    string
		finish  string
		limits  agent.Limits
		replies []modeltest.Reply
		stop    agent.Stop
		text    string
		args    string
		turns   int
		limit   bool // a LimitError is wanted
		results []string
		ran     []string
	}{
		{name: "says something", replies: []modeltest.Reply{modeltest.Text("hello")}, stop: agent.StopSaid, text: "hello", turns: 1},
		{name: "cut off", replies: []modeltest.Reply{cut}, stop: agent.StopCut, text: "half a sent", turns: 1},
		{
			name: "calls, then says", replies: []modeltest.Reply{calls(call("look", "a")), modeltest.Text("I looked")},
			stop: agent.StopSaid, text: "I looked", turns: 2, results: []string{"look error=false look saw a"}, ran: []string{"look a"},
		},
		{
			name: "finishes", finish: "done", replies: []modeltest.Reply{calls(call("done", "x"))},
			stop: agent.StopFinished, args: `{"text":"x"}`, turns: 1, results: []string{"done error=false done saw x"}, ran: []string{"done x"},
		},
		{
			name: "a finish that fails is none", finish: "done", replies: []modeltest.Reply{calls(call("done", "bad")), calls(call("done", "good"))},
			stop: agent.StopFinished, args: `{"text":"good"}`, turns: 2,
			results: []string{"done error=true text: must not be bad", "done error=false done saw good"}, ran: []string{"done bad", "done good"},
		},
		{
			name: "is reminded", finish: "done", replies: []modeltest.Reply{modeltest.Text("I am done"), calls(call("done", "x"))},
			stop: agent.StopFinished, text: "I am done", args: `{"text":"x"}`, turns: 2, results: []string{"done error=false done saw x"}, ran: []string{"done x"},
		},
		{
			name: "is reminded after saying nothing", finish: "done", replies: []modeltest.Reply{{}, calls(call("done", "x"))},
			stop: agent.StopFinished, args: `{"text":"x"}`, turns: 2, results: []string{"done error=false done saw x"}, ran: []string{"done x"},
		},
		{
			name: "never finishes", finish: "done", limits: agent.Limits{Turns: 3}, replies: []modeltest.Reply{modeltest.Text("hm")},
			stop: agent.StopLimit, text: "hm", turns: 3, limit: true,
		},
		{
			name: "never stops", limits: agent.Limits{Turns: 2}, replies: []modeltest.Reply{calls(call("look", "a"))},
			stop: agent.StopLimit, turns: 2, results: []string{"look error=false look saw a", "look error=false look saw a"}, ran: []string{"look a", "look a"},
		},
		{
			name: "a failing tool", replies: []modeltest.Reply{calls(call("break", "a")), modeltest.Text("oh")},
			stop: agent.StopSaid, text: "oh", turns: 2, results: []string{"break error=true it is broken"}, ran: []string{"break a"},
		},
		{
			name: "arguments that do not fit", replies: []modeltest.Reply{modeltest.Call("look", `{"txet":"a"}`), modeltest.Text("oh")},
			stop: agent.StopSaid, text: "oh", turns: 2,
			results: []string{"look error=true arguments do not fit the tool's schema; correct them and call again:\n- /text: missing; it is required\n- /txet: unknown; did you mean \"text\"?"},
		},
		{
			name: "an unknown tool", replies: []modeltest.Reply{calls(call("loko", "a")), modeltest.Text("oh")},
			stop: agent.StopSaid, text: "oh", turns: 2, results: []string{`loko error=true no tool "loko"; did you mean "look"? the tools are: break, done, look, put, send`},
		},
		{
			name: "a quota", limits: agent.Limits{Calls: []agent.Quota{{Tools: []string{"look", "put"}, Calls: 2}}},
			replies: []modeltest.Reply{calls(call("look", "a"), call("put", "b"), call("look", "c"), call("send", "d")), modeltest.Text("ok")},
			stop:    agent.StopSaid, text: "ok", turns: 2,
			results: []string{"look error=false look saw a", "put error=false put saw b", "look error=true look and put: no more of 2 calls are left; go on with what you have", "send error=false send saw d"},
			ran:     []string{"look a", "put b", "send d"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, server := talk(t, modeltest.Sequence(tc.replies...))
			b := &bench{}
			a := &agent.Agent{Name: "tester", Prompt: "Be brief.", Model: m, Tools: b.tools(t), Finish: tc.finish, Limits: tc.limits}
			out, err := a.Run(t.Context(), nil, &agent.Work{Prompt: "go"})
			var limit *agent.LimitError
			if errors.As(err, &limit) != tc.limit || err != nil && limit == nil {
				t.Fatalf("error %v", err)
			}
			if tc.limit && (limit.Turns != tc.turns || limit.Agent != "tester") {
				t.Errorf("%+v", limit)
			}
			if out.Stop != tc.stop || out.Text != tc.text || string(out.Args) != tc.args || out.Turns != tc.turns {
				t.Errorf("stop %q, text %q, args %s, turns %d", out.Stop, out.Text, out.Args, out.Turns)
			}
			if diff := cmp.Diff(tc.results, results(out)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.ran, b.runs); diff != "" {
				t.Error(diff)
			}
			if got := server.Requests()[0]; got.System != "Be brief." || got.Messages[0].Text() != "go" {
				t.Errorf("asked %+v", got.Request)
			}
		})
	}
}

// A reminder names the tool, and the last turn leaves the model no choice but it.
func TestLastTurn(t *testing.T) {
	m, server := talk(t, modeltest.Sequence(modeltest.Text("hm")))
	a := &agent.Agent{Name: "tester", Model: m, Tools: (&bench{}).tools(t), Finish: "done", Limits: agent.Limits{Turns: 3, MaxTokens: 77}}
	_, _ = a.Run(t.Context(), nil, &agent.Work{Prompt: "go"})
	var choices []string
	for i, r := range server.Requests() {
		choices = append(choices, r.Choice)
		if last := r.Messages[len(r.Messages)-1]; i > 0 && !strings.Contains(last.Text(), "done") {
			t.Errorf("turn %d: reminded with %q", i, last.Text())
		}
		if r.MaxTokens != 77 {
			t.Errorf("turn %d: %d tokens", i, r.MaxTokens)
		}
	}
	if diff := cmp.Diff([]string{"", "", "done"}, choices); diff != "" {
		t.Error(diff)
	}
}

// Calls of one turn that change nothing run side by side; their results keep the order.
func TestParallelCalls(t *testing.T) {
	m, _ := talk(t, modeltest.Sequence(calls(call("look", "a"), call("look", "b"), call("look", "c")), modeltest.Text("ok")))
	var together sync.WaitGroup
	together.Add(3)
	met := make(chan struct{})
	go func() { together.Wait(); close(met) }()
	b := &bench{hook: func(string) {
		together.Done()
		select {
		case <-met:
		case <-time.After(time.Minute):
			t.Error("the calls do not run side by side")
		}
	}}
	a := &agent.Agent{Name: "tester", Model: m, Tools: b.tools(t)}
	out, err := a.Run(t.Context(), nil, &agent.Work{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"look error=false look saw a", "look error=false look saw b", "look error=false look saw c"}, results(out)); diff != "" {
		t.Error(diff)
	}
}

// Calls that change something run one after the other, and not after one that stopped.
func TestSerialCalls(t *testing.T) {
	m, _ := talk(t, modeltest.Sequence(calls(call("put", "a"), call("look", "b"), call("put", "c")), modeltest.Text("ok")))
	ctx, stop := context.WithCancel(t.Context())
	b := &bench{}
	b.hook = func(name string) {
		if name == "look" {
			stop()
		}
	}
	a := &agent.Agent{Name: "tester", Model: m, Tools: b.tools(t)}
	if _, err := a.Run(ctx, nil, &agent.Work{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"put a", "look b"}, b.runs); diff != "" {
		t.Error(diff)
	}
}

func TestModelError(t *testing.T) {
	m, _ := talk(t, modeltest.Sequence(modeltest.Failure(401, "")))
	_, err := (&agent.Agent{Name: "tester", Model: m}).Run(t.Context(), nil, &agent.Work{})
	var fail *model.Error
	if !errors.As(err, &fail) || fail.Status != 401 || !strings.HasPrefix(err.Error(), "agent tester: ") {
		t.Fatal(err)
	}
}

// An agent continues with a conversation, and refuses one that no model would take.
func TestWorkMessages(t *testing.T) {
	asks := model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look", Args: []byte(`{}`)}}}}
	result := model.ToolResult(model.Call{ID: "1", Name: "look"}, "seen", false)
	peek := model.Call{ID: "2", Name: "peek", Args: []byte(`{}`)}
	both := model.Message{Role: model.Assistant, Parts: append(asks.Parts[:1:1], model.Part{Kind: model.ToolCall, Call: &peek})}
	second := model.ToolResult(peek, "peeked", false)
	results := model.Message{Role: model.Tool, Parts: append(second.Parts[:1:1], result.Parts...)}
	answer := model.Message{ID: "mine", Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: "so"}}}
	hi := model.UserText("hi")
	for name, tc := range map[string]struct {
		before []model.Message
		prompt string
		err    string
	}{
		"a prompt":          {[]model.Message{hi, asks, result, answer}, "and?", ""},
		"no prompt":         {[]model.Message{hi}, "", ""},
		"a result":          {[]model.Message{hi, asks, result}, "", ""},
		"an answer":         {[]model.Message{hi, answer}, "", "ends with an answer"},
		"a call":            {[]model.Message{hi, asks}, "and?", "message 2 of its conversation calls look, and the result is missing"},
		"a call, gone over": {[]model.Message{hi, asks, hi}, "", "the result is missing"},
		"a result, lost":    {[]model.Message{hi, result}, "", "a result without its call"},
		"a stranger":        {[]model.Message{{Role: "removed", ID: "x"}}, "and?", `the role "removed"`},
		"two results":       {[]model.Message{hi, both, results}, "", ""},
		"results apart":     {[]model.Message{hi, both, second, result}, "", ""},
		"one of two":        {[]model.Message{hi, both, result}, "and?", "message 2 of its conversation calls peek, and the result is missing"},
		"one of two, so":    {[]model.Message{hi, both, result, answer}, "and?", "message 2 of its conversation calls peek, and the result is missing"},
		"one twice":         {[]model.Message{hi, asks, result, result}, "and?", "message 4 of its conversation has a result without its call"},
		"that of another":   {[]model.Message{hi, asks, second}, "and?", "message 3 of its conversation has a result without its call"},
		"no result":         {[]model.Message{hi, asks, {Role: model.Tool}}, "and?", "message 3 of its conversation has a result without its call"},
	} {
		m := &scripted.Model{Turns: []scripted.Turn{scripted.Say("fine")}}
		j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}})
		if err != nil {
			t.Fatal(err)
		}
		a := &agent.Agent{Name: "a", Model: m}
		out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Messages: tc.before, Prompt: tc.prompt})
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := len(tc.before)
		if tc.prompt != "" {
			want++
		}
		if got := m.Requests()[0].Messages; len(got) != want || len(out.Messages) != want+1 || out.Messages[want].ID != fmt.Sprintf("run/task/message-%d", want+1) {
			t.Errorf("%s: asked %+v, got %+v", name, got, out.Messages)
		}
		if name == "a prompt" && (out.Messages[3].ID != "mine" || m.Requests()[0].Messages[3].ID != "") {
			t.Errorf("%s: %+v", name, out.Messages)
		}
		// Another conversation is other work.
		_, err = a.Run(t.Context(), j.Scope("task"), &agent.Work{Messages: append(tc.before[:1:1], hi), Prompt: "then"})
		var diverged *journal.DivergedError
		if !errors.As(err, &diverged) {
			t.Errorf("%s: with another conversation: %v", name, err)
		}
	}
}

// A conversation that is cut down and goes on in another run has no ID twice. A run that was begun by an older version keeps
// to its IDs.
func TestMessageIDs(t *testing.T) {
	talk := func(run string, before []model.Message, older bool) []model.Message {
		t.Helper()
		j, err := journal.Open(t.Context(), runlog.NewMemory(nil), run, &journal.Options{Create: &runlog.NewRun{}})
		if err != nil {
			t.Fatal(err)
		}
		if older {
			if _, err := j.Scope("chat").Do(t.Context(), &journal.Effect{Key: "agent", Kind: "agent", Name: "a", Do: func(context.Context, string) (json.RawMessage, error) {
				return json.RawMessage(`{}`), nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		a := &agent.Agent{Name: "a", Model: &scripted.Model{Turns: []scripted.Turn{scripted.Say("fine")}}}
		out, err := a.Run(t.Context(), j.Scope("chat"), &agent.Work{Messages: before, Prompt: "go on"})
		if err != nil {
			t.Fatal(err)
		}
		return out.Messages
	}
	first := talk("one", nil, false)
	seen := map[string]bool{first[0].ID: true}
	for _, m := range talk("two", first[1:], false) {
		if m.ID == "" || seen[m.ID] {
			t.Errorf("%q is the ID of two messages", m.ID)
		}
		seen[m.ID] = true
	}
	if got := talk("three", nil, true); got[0].ID != "chat/message-1" || got[1].ID != "chat/message-2" {
		t.Errorf("in an older run: %+v", got)
	}
}

// What an agent calls may have agents and models work in its place: the pool does not lock up.
func TestAgentInTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		j, err := journal.Open(ctx, runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}, Agents: 1})
		if err != nil {
			t.Fatal(err)
		}
		scope := j.Scope("task")
		help := &tool.Tool{Name: "help", Input: &jsonschema.Schema{Type: "object"}, Run: func(ctx context.Context, _ *tool.Call) (string, error) {
			inner := &agent.Agent{Name: "inner", Model: &scripted.Model{Turns: []scripted.Turn{scripted.Say("seen")}}}
			out, err := inner.Run(ctx, scope.Inner("inner"), &agent.Work{Prompt: "look"})
			if err != nil {
				return "", err
			}
			m := &scripted.Model{Turns: []scripted.Turn{scripted.Say("asked")}}
			resp, err := agent.Ask(ctx, scope.Inner("asked"), m, "ask", &model.Request{Messages: out.Messages})
			if err != nil {
				return "", err
			}
			return out.Text + " and " + resp.Message.Text(), nil
		}}
		tools, err := tool.NewSet(help)
		if err != nil {
			t.Fatal(err)
		}
		outer := &agent.Agent{Name: "outer", Tools: tools, Model: &scripted.Model{Turns: []scripted.Turn{scripted.Call("help", `{}`), scripted.Say("done")}}}
		out, err := outer.Run(ctx, scope, &agent.Work{Prompt: "go"})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Messages[2].Parts[0].Text; got != "seen and asked" {
			t.Errorf("the tool gave %q", got)
		}
		if err := j.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A tool that no agent calls is told that the workflow does, and each call has a key of its own.
func TestCallsOfTheWorkflow(t *testing.T) {
	var told []string
	look := &tool.Tool{Name: "look", Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Pure, Run: func(_ context.Context, c *tool.Call) (string, error) {
		told = append(told, c.Agent, c.Key)
		return "seen", nil
	}}
	tools, err := tool.NewSet(look)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "step", Tools: tools}
	for _, key := range []string{"one", "two"} {
		if _, err := a.Call(t.Context(), nil, &agent.Work{Key: key}, model.Call{ID: "step", Name: "look", Args: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 4 || told[0] != tool.Workflow || told[2] != tool.Workflow || told[1] == told[3] {
		t.Errorf("told %q", told)
	}
}
