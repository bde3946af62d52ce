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
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/modeltest"
	"github.com/superstep-dev/superstep/model/openai"
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
		case <-time.After(10 * time.Second):
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
