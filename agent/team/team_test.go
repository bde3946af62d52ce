package team_test

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
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func talk(t testing.TB, handle modeltest.Handler) (model.Model, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, handle, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{
		Model: "gpt-test", APIKey: "key", BaseURL: server.URL, HTTPClient: &http.Client{Transport: transport},
		Retries: -1, Backoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, server
}

// turnOf is how far a conversation is.
func turnOf(r *modeltest.ParsedRequest) int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

func call(name string, args any) model.Part {
	b, _ := json.Marshal(args)
	return model.Part{Kind: model.ToolCall, Call: &model.Call{Name: name, Args: b}}
}

func calls(parts ...model.Part) modeltest.Reply { return modeltest.Reply{Parts: parts} }

type job = map[string]any

func task(name, prompt string) job { return job{"agent": name, "prompt": prompt} }

func batch(jobs ...job) model.Part { return call("task_batch", job{"tasks": append([]job{}, jobs...)}) }

// results are what tools answered, in order.
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

// crew is a lead and a team of whom a test says what they say: by who they are and what
// they are told.
type crew struct {
	*team.Team
	lead   *agent.Agent
	server *modeltest.Server

	mu    sync.Mutex
	ran   []string
	peak  int
	now   int
	saved []string
	hook  func(text string)
	gate  tool.Gate
}

type words struct {
	Text string `json:"text"`
}

func (c *crew) tools(t *testing.T) *tool.Set {
	t.Helper()
	var list []*tool.Tool
	for name, effect := range map[string]tool.Effect{"look": tool.Pure, "put": tool.Idempotent} {
		w, err := tool.New(name, "x", func(_ context.Context, in words) (string, error) {
			c.mu.Lock()
			c.ran = append(c.ran, name+" "+in.Text)
			c.mu.Unlock()
			if c.hook != nil {
				c.hook(in.Text)
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

// gather makes a crew. Everybody in it says what say says, by name, the prompt, and the turn.
func gather(t *testing.T, opt *team.Options, say func(name, prompt string, turn int) modeltest.Reply) *crew {
	t.Helper()
	c := &crew{}
	m, server := talk(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		c.mu.Lock()
		c.now++
		c.peak = max(c.peak, c.now)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.now--
			c.mu.Unlock()
		}()
		return say(r.System, r.Messages[0].Text(), turnOf(r))
	})
	c.server = server
	set := c.tools(t)
	o := team.Options{}
	if opt != nil {
		o = *opt
	}
	o.List = func() []team.Info {
		return []team.Info{{"explorer", "looks at things"}, {"chief", "has others look"}, {"loner", "has nobody"}}
	}
	o.Agents = func(name string) (*agent.Agent, error) {
		a := &agent.Agent{Name: name, Prompt: name, Model: m, Tools: set, Limits: agent.Limits{Turns: 4}, Gate: c.gate}
		switch name {
		case "explorer", "loner":
		case "chief":
			a.Actions = c.Actions()
		default:
			return nil, errors.New("no such agent")
		}
		return a, nil
	}
	o.Save = func(_ context.Context, run string, r team.Result) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.saved = append(c.saved, run+" "+r.ID)
		return nil
	}
	var err error
	if c.Team, err = team.New(&o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.lead = &agent.Agent{Name: "lead", Prompt: "lead", Model: m, Tools: set, Actions: c.Actions()}
	return c
}

func openJournal(t testing.TB, store runlog.Store) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}, Reopen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close(context.Background()) })
	return j
}

func TestTask(t *testing.T) {
	long := strings.Repeat("word ", 2*clean.MaxBytes)
	for _, tc := range []struct {
		name string
		call model.Part
		want []string // parts of the result
		fail bool
	}{
		{name: "one", call: call("task", task("explorer", "go")), want: []string{"explorer: go"}},
		{name: "one is never truncated", call: call("task", task("explorer", "long")), want: []string{strings.TrimSpace(long)}},
		{name: "an unknown agent", call: call("task", task("explorre", "go")), want: []string{`there is no agent "explorre"; did you mean "explorer"? The agents are: explorer, chief, loner`}, fail: true},
		{name: "one without a prompt", call: call("task", job{"agent": "explorer"}), want: []string{"/prompt: missing"}, fail: true},
		{name: "one that fails", call: call("task", task("explorer", "fail")), want: []string{"failed: agent explorer: openai/gpt-test: unauthorized"}, fail: true},
		{name: "one that never ends", call: call("task", task("explorer", "loop")), want: []string{"failed: it was out of its 4 turns before it was done"}, fail: true},
		{name: "a batch", call: batch(task("explorer", "a"), task("loner", "b"), task("explorer", "c")), want: []string{"1/3 explorer: explorer: a\n\n2/3 loner: loner: b\n\n3/3 explorer: explorer: c"}},
		{
			name: "a batch of which some fail", call: batch(task("explorer", "fail"), job{"agent": "explorer"}, task("nobody", "x"), task("explorer", "go")),
			want: []string{"1/4 explorer: failed: agent explorer: ", "2/4 explorer: failed: it has no prompt", "3/4 nobody: failed: there is no agent", "4/4 explorer: explorer: go"},
		},
		{name: "a batch of which all fail", call: batch(job{"agent": "explorer"}), want: []string{"1/1 explorer: failed: it has no prompt"}, fail: true},
		{name: "a batch of nothing", call: batch(), want: []string{"empty task list"}, fail: true},
		{name: "a batch of too many", call: batch(slices.Repeat([]job{task("explorer", "go")}, 21)...), want: []string{"21 tasks are too many for one call, which takes 20"}, fail: true},
		{name: "with a description", call: batch(job{"agent": "explorer", "prompt": "go", "description": "have a look"}), want: []string{"1/1 explorer (have a look): explorer: go"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := gather(t, nil, func(name, prompt string, turn int) modeltest.Reply {
				switch {
				case name == "lead" && turn == 0:
					return calls(tc.call)
				case name == "lead":
					return modeltest.Text("done")
				case prompt == "fail":
					return modeltest.Failure(401, "")
				case prompt == "long":
					return modeltest.Text(strings.TrimSpace(long))
				case prompt == "loop":
					return calls(call("look", words{"x"}))
				}
				return modeltest.Text(name + ": " + prompt)
			})
			j := openJournal(t, runlog.NewMemory(nil))
			var first []string
			n := 0
			for range 2 { // again, from the log
				out, err := c.lead.Run(t.Context(), j.Scope("work"), &agent.Work{Prompt: "go"})
				if err != nil {
					t.Fatal(err)
				}
				got := results(out)
				if first == nil {
					first, n = got, len(c.server.Requests())
				}
				if diff := cmp.Diff(first, got); diff != "" || len(c.server.Requests()) != n {
					t.Error(diff, len(c.server.Requests()), n)
				}
				if strings.Count(strings.Join(got, ""), "there is no agent") > 1 {
					t.Errorf("%q says it twice", got)
				}
				for _, w := range tc.want {
					if len(got) != 1 || !strings.Contains(got[0], w) || strings.Contains(got[0], "error=true") != tc.fail {
						t.Errorf("%.500q, want %.500q", got, w)
					}
				}
			}
		})
	}
}

// A lead is told who there is.
func TestListing(t *testing.T) {
	c := gather(t, nil, nil)
	for _, a := range c.Actions() {
		if !strings.Contains(a.Tool.Description, "\n- explorer: looks at things\n- chief: has others look") {
			t.Errorf("%s: %s", a.Tool.Name, a.Tool.Description)
		}
	}
}

// The tree of agents is in the paths of the log; each has its tokens, and its result is saved.
func TestTree(t *testing.T) {
	c := gather(t, nil, func(name, prompt string, turn int) modeltest.Reply {
		switch {
		case name == "lead" && turn == 0:
			return calls(batch(task("chief", "x"), task("explorer", "y")), call("task", task("loner", "z")))
		case name == "chief" && turn == 0:
			return calls(call("task", task("explorer", "deep")))
		}
		return modeltest.Text(name + " " + prompt)
	})
	store := runlog.NewMemory(nil)
	if _, err := c.lead.Run(t.Context(), openJournal(t, store).Scope("work"), &agent.Work{Prompt: "go"}); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var s runlog.Settled
		if r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &s) == nil && s.Kind == "agent" {
			paths = append(paths, r.Path)
		}
	}
	slices.Sort(paths)
	deep := "work/task_batch[1.1]/chief[1]/task[1.1]/explorer"
	if diff := cmp.Diff([]string{"work", "work/task[1.2]/loner", "work/task_batch[1.1]/chief[1]", deep, "work/task_batch[1.1]/explorer[2]"}, paths); diff != "" {
		t.Error(diff)
	}
	slices.Sort(c.saved)
	if diff := cmp.Diff([]string{"run work/task[1.2]/loner", "run work/task_batch[1.1]/chief[1]", "run " + deep, "run work/task_batch[1.1]/explorer[2]"}, c.saved); diff != "" {
		t.Error(diff)
	}
}

// No more agents are running at once than may be, in all of the run, also where agents have
// agents work; and with a limit of one, all of it comes to an end.
func TestLimit(t *testing.T) {
	for _, limit := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			c := gather(t, &team.Options{Limit: limit, Depth: 3}, func(name, prompt string, turn int) modeltest.Reply {
				time.Sleep(2 * time.Millisecond)
				switch {
				case name == "lead" && turn == 0:
					return calls(batch(task("chief", "1"), task("chief", "2"), task("explorer", "3"), task("chief", "4"), task("explorer", "5"), task("explorer", "6")), call("task", task("chief", "7")))
				case name == "chief" && turn == 0:
					return calls(batch(task("explorer", prompt+"a"), task("explorer", prompt+"b")), call("task", task("explorer", prompt+"c")))
				}
				return modeltest.Text("<" + prompt + ">")
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			out, err := c.lead.Run(ctx, openJournal(t, runlog.NewMemory(nil)).Scope("work"), &agent.Work{Prompt: "go"})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"task_batch error=false 1/6 chief: <1>\n\n2/6 chief: <2>\n\n3/6 explorer: <3>\n\n4/6 chief: <4>\n\n5/6 explorer: <5>\n\n6/6 explorer: <6>", "task error=false <7>"}
			if diff := cmp.Diff(want, results(out)); diff != "" {
				t.Error(diff)
			}
			if n := len(c.saved); n != 7+4*3 {
				t.Errorf("%d agents", n)
			}
			if c.peak > limit || limit > 1 && c.peak < 2 {
				t.Errorf("%d at once", c.peak)
			}
		})
	}
}

// Work within work comes to an end with a single place, and no deeper than it may.
func TestNested(t *testing.T) {
	for _, depth := range []int{1, 3} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			c := gather(t, &team.Options{Limit: 1, Depth: depth}, func(name, prompt string, turn int) modeltest.Reply {
				if turn == 0 && (name == "lead" || name == "chief") {
					return calls(call("task", task("chief", prompt+"a")), batch(task("chief", prompt+"b"), task("explorer", prompt+"c")))
				}
				return modeltest.Text(prompt)
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			out, err := c.lead.Run(ctx, openJournal(t, runlog.NewMemory(nil)).Scope("work"), &agent.Work{Prompt: "p"})
			if err != nil || out.Text != "p" {
				t.Fatal(out, err)
			}
			deepest, refused := 0, 0
			for _, r := range c.server.Requests() {
				if r.System != "lead" {
					deepest = max(deepest, len(r.Messages[0].Text())-1)
				}
				for _, m := range r.Messages {
					for _, p := range m.Parts {
						if p.Kind == model.Result && strings.Contains(p.Text, `no tool "task`) {
							refused++
						}
					}
				}
			}
			if deepest != depth || refused == 0 {
				t.Errorf("%d deep, refused %d", deepest, refused)
			}
			if c.peak > 1 {
				t.Errorf("%d at once", c.peak)
			}
		})
	}
}

// The sixth waits until one of five has ended, and then it is its turn, in order; who is
// cancelled in the queue never begins; after the end there is nothing.
func TestQueue(t *testing.T) {
	release := make(chan struct{})
	began := make(chan string, 10)
	c := gather(t, nil, func(name, prompt string, turn int) modeltest.Reply {
		if turn == 0 {
			return calls(call("look", words{prompt}))
		}
		return modeltest.Text("done " + prompt)
	})
	c.hook = func(text string) { began <- text; <-release }
	var jobs []team.Job
	for i := range 8 {
		jobs = append(jobs, team.Job{Agent: "explorer", Prompt: fmt.Sprint(i)})
	}
	store := runlog.NewMemory(nil)
	j := openJournal(t, store)
	var got []team.Result
	var err error
	var all sync.WaitGroup
	all.Go(func() { got, err = c.SpawnAll(t.Context(), j.Scope("work"), jobs) })
	for range 5 {
		<-began
	}
	for len(states(t, store)) < len(jobs) { // those in the queue too
		time.Sleep(time.Millisecond)
	}
	if !j.CancelPart("work/explorer[7]") || j.CancelPart("nobody") {
		t.Error("cancelled who is not there, or not who is")
	}
	release <- struct{}{}
	if sixth := <-began; sixth != "5" {
		t.Errorf("the next was %s", sixth)
	}
	close(release)
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.saved) != len(jobs) {
		t.Errorf("%d of %d results were saved", len(c.saved), len(jobs))
	}
	for i, r := range got {
		want := team.Result{ID: fmt.Sprintf("work/explorer[%d]", i+1), Agent: "explorer", Success: true, Output: fmt.Sprintf("done %d", i), ToolUses: 1}
		if i == 6 {
			want = team.Result{ID: want.ID, Agent: "explorer", Error: "cancelled"}
		}
		if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(team.Result{}, "Usage")); diff != "" {
			t.Error(diff)
		}
	}
	for id, state := range states(t, store) {
		if want := map[bool]string{true: "cancelled", false: "ended"}[id == "work/explorer[7]"]; state != want {
			t.Errorf("%s is %s", id, state)
		}
	}
	again, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs)
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Error(diff, err)
	}
	jobs[0].Prompt = "something else"
	var diverged *journal.DivergedError
	if _, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs); !errors.As(err, &diverged) {
		t.Errorf("a job that has changed: %v", err)
	}
	c.Close()
	if _, err := c.Spawn(t.Context(), j.Scope("work"), team.Job{Agent: "explorer", Prompt: "late"}); !errors.Is(err, pregel.ErrStopped) {
		t.Error(err)
	}
}

// states are those of the agents that the run's log lists.
func states(t *testing.T, store runlog.Store) map[string]string {
	t.Helper()
	members, err := team.List(runlog.Records(t.Context(), store, "run", 0))
	if err != nil {
		t.Error(err)
	}
	out := map[string]string{}
	for _, m := range members {
		out[m.ID] = m.State
	}
	return out
}

// Who is cancelled has failed, for good. What was closed goes on in the next team.
func TestCancelAndClose(t *testing.T) {
	say := func(name, prompt string, turn int) modeltest.Reply {
		if turn == 0 {
			return calls(call("look", words{prompt}))
		}
		return modeltest.Text("done " + prompt)
	}
	jobs := []team.Job{{Agent: "explorer", Prompt: "stuck"}, {Agent: "explorer", Prompt: "fine"}}
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprint(closes), func(t *testing.T) {
			c := gather(t, nil, say)
			stuck := make(chan struct{})
			began := make(chan struct{})
			c.hook = func(text string) {
				if text == "stuck" {
					close(began)
					<-stuck
				}
			}
			store := runlog.NewMemory(nil)
			j := openJournal(t, store)
			go func() {
				<-began
				if !closes {
					j.CancelPart("work/explorer[1]")
					close(stuck)
					return
				}
				go c.Close()
				time.Sleep(20 * time.Millisecond)
				close(stuck)
			}()
			got, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs)
			if closes {
				if !errors.Is(err, pregel.ErrStopped) || journal.Waits(err) {
					t.Fatal(err)
				}
			} else if err != nil || got[0].Error != "cancelled" {
				t.Fatal(got, err)
			}
			next := gather(t, nil, say)
			again, err := next.SpawnAll(t.Context(), j.Scope("work"), jobs)
			if err != nil || again[0].Success != closes {
				t.Fatal(again, err)
			}
			for r, err := range runlog.Records(t.Context(), store, "run", 0) {
				var s runlog.Settled
				if err == nil && r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &s) == nil && s.Error != "" {
					t.Errorf("failed: %s %+v", r.Path, s)
				}
			}
		})
	}
}

// While one waits for an answer the others go on, and it continues with them when it comes.
func TestAnswerWhileOthersWork(t *testing.T) {
	c := gather(t, nil, func(name, prompt string, turn int) modeltest.Reply {
		switch {
		case turn == 0 && prompt == "asks":
			return calls(call("put", words{"x"}))
		case turn == 0:
			return calls(call("look", words{"slow"}))
		}
		return modeltest.Text("did " + prompt)
	})
	c.gate = asks{}
	put := make(chan struct{})
	c.hook = func(text string) {
		if text == "x" {
			close(put)
			return
		}
		select {
		case <-put: // the one that has asked went on while this one was running
		case <-time.After(time.Minute):
			t.Error("the answer was not used")
		}
	}
	j := openJournal(t, runlog.NewMemory(nil))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for r := range j.Follow(ctx, 0) {
			var q runlog.Question
			if r.Kind == runlog.KindAsked && json.Unmarshal(r.Data, &q) == nil {
				if err := j.Answer(t.Context(), r.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"once"`)}); err != nil {
					t.Error(err)
				}
				return
			}
		}
	}()
	got, err := c.SpawnAll(t.Context(), j.Scope("work"), []team.Job{{Agent: "explorer", Prompt: "asks"}, {Agent: "explorer", Prompt: "works"}})
	if err != nil || got[0].Output != "did asks" || got[1].Output != "did works" {
		t.Fatal(got, err)
	}
}

// An agent that waits for an answer can be cancelled while others run, and nobody
// is asked for it any more.
func TestCancelWhileWaiting(t *testing.T) {
	c := gather(t, nil, func(name, prompt string, turn int) modeltest.Reply {
		switch {
		case turn == 0 && prompt == "asks":
			return calls(call("put", words{"x"}))
		case turn == 0:
			return calls(call("look", words{"slow"}))
		}
		return modeltest.Text("did " + prompt)
	})
	c.gate = asks{}
	store := runlog.NewMemory(nil)
	j := openJournal(t, store)
	c.hook = func(string) {
		for len(j.Open()) == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		if !j.CancelPart("work/explorer[1]") {
			t.Errorf("not there: %v", states(t, store))
		}
		for states(t, store)["work/explorer[1]"] == team.Running {
			time.Sleep(time.Millisecond)
		}
	}
	jobs := []team.Job{{Agent: "explorer", Prompt: "asks"}, {Agent: "explorer", Prompt: "works"}}
	for range 2 {
		got, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs)
		if err != nil || got[0].Error != "cancelled" || got[1].Output != "did works" || len(j.Open()) != 0 {
			t.Fatal(got, err, j.Open())
		}
	}
	if strings.Join(c.ran, ",") != "look slow" {
		t.Errorf("ran %v", c.ran)
	}
}

// How long an agent took is recorded, without its time in the queue.
func TestDuration(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	tick := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
	c := gather(t, &team.Options{Limit: 1, Clock: &agent.Clock{Now: tick}}, func(_, prompt string, _ int) modeltest.Reply { return modeltest.Text(prompt) })
	j := openJournal(t, runlog.NewMemory(nil))
	for range 2 {
		got, err := c.SpawnAll(t.Context(), j.Scope("work"), []team.Job{{Agent: "explorer", Prompt: "a"}, {Agent: "explorer", Prompt: "b"}, {Agent: "explorer", Prompt: "c", ID: "1"}})
		if err != nil || got[0].Duration != time.Second || got[1].Duration != time.Second || !strings.Contains(got[2].Error, "two jobs") {
			t.Fatal(got, err)
		}
	}
}

// A job is named once in an attempt; the next attempt gets its result.
func TestOneNameOneJob(t *testing.T) {
	c := gather(t, nil, func(_, prompt string, _ int) modeltest.Reply { return modeltest.Text("did " + prompt) })
	j := openJournal(t, runlog.NewMemory(nil))
	var used *journal.UsedError
	for range 2 {
		scope := j.Scope("work").Attempt()
		if got, err := c.Spawn(t.Context(), scope, team.Job{Agent: "explorer", Prompt: "a"}); err != nil || got.Output != "did a" {
			t.Fatal(got, err)
		}
		_, err := c.Spawn(t.Context(), scope, team.Job{Agent: "explorer", Prompt: "b"})
		if !errors.As(err, &used) || !strings.HasPrefix(err.Error(), "job/explorer is a second job of one name in one attempt; give each an ID") {
			t.Fatal(err)
		}
		if got, err := c.Spawn(t.Context(), scope.Inner("2"), team.Job{Agent: "explorer", Prompt: "b"}); err != nil || got.Output != "did b" {
			t.Fatal(got, err)
		}
	}
	if n := len(c.server.Requests()); n != 2 {
		t.Fatal(n, "requests")
	}
}

// Agents of a team keep to the budget of the run.
func TestBudget(t *testing.T) {
	c := gather(t, nil, func(_, prompt string, _ int) modeltest.Reply { return modeltest.Text(prompt) })
	store := runlog.NewMemory(nil)
	open := func(agents int64) *journal.Journal {
		j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, Reopen: true, Budget: &runlog.Budget{Agents: agents}})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	jobs := []team.Job{{Agent: "explorer", Prompt: "a"}, {Agent: "explorer", Prompt: "b"}, {Agent: "explorer", Prompt: "c"}}
	j := open(2)
	_, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs)
	var short *runlog.BudgetError
	if !errors.As(err, &short) || short.What != runlog.BudgetAgents || len(c.server.Requests()) != 0 {
		t.Fatalf("%v, after %d requests", err, len(c.server.Requests()))
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	j = open(3)
	got, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs)
	if err != nil || !got[0].Success || !got[1].Success || !got[2].Success || len(c.server.Requests()) != 3 {
		t.Fatal(got, err)
	}
	if _, err := c.SpawnAll(t.Context(), j.Scope("work"), jobs); err != nil {
		t.Error("those that began are counted again:", err)
	}
	_ = j.Close(t.Context())
}

// Agents may be given folders of their own, and are not given workflows.
func TestIsolate(t *testing.T) {
	var ids []string
	c := gather(t, &team.Options{Isolate: func(run, id string, a *agent.Agent) (*agent.Agent, error) {
		ids = append(ids, run+" "+id)
		b := *a
		b.Prompt = "isolated"
		return &b, nil
	}}, func(name, prompt string, _ int) modeltest.Reply { return modeltest.Text(name + " " + prompt) })
	r, err := c.Spawn(t.Context(), openJournal(t, runlog.NewMemory(nil)).Scope("work"), team.Job{Agent: "explorer", Prompt: "a", ID: "x/y"})
	if err != nil || r.Output != "isolated a" || strings.Join(ids, ",") != "run work/explorer[x%2Fy]" || r.ID != "work/explorer[x%2Fy]" {
		t.Fatal(r, err, ids)
	}
	without, err := c.Spawn(t.Context(), nil, team.Job{Agent: "explorer", Prompt: "a"})
	if err != nil || !without.Success || without.ID != "explorer-1" {
		t.Fatal(without, err)
	}
}
