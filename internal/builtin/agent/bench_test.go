package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// bench is an engine with the workflow "agent", whose lead says what a test wants, and with
// workflows for it.
type bench struct {
	server *modeltest.Server
	engine *superstep.Engine

	// say gives what the lead says, by the results that it has.
	say func(results []string) modeltest.Reply
	// hold is called by the steps of the workflow "slow" with what they are to do.
	hold func(ctx context.Context, what string) error

	mu      sync.Mutex
	did     []string   // effects of workflows, in order
	results [][]string // that the lead had in its conversation, at each of its requests
	prompts []string   // that it was asked with
}

// handedOver is how the prompt of a turn begins that has results which nobody collected.
const handedOver = "You were asked:"

// setup changes what the bench is made of.
type setup struct {
	options func(*delegate.Options)
	crew    func(*delegate.Crew)
}

func newBench(t *testing.T, store runlog.Store, s *setup) *bench {
	t.Helper()
	b := &bench{}
	b.server = modeltest.NewServer(t, b.answer, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{Model: "gpt-test", APIKey: "key", BaseURL: b.server.URL, HTTPClient: &http.Client{Transport: transport}, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	flows := []*workflow.Workflow{b.slow(t), b.quiz(t), b.study(t, m), b.broken(t), b.panics(t)}
	opt := &delegate.Options{
		Workflows: flows,
		Prepare:   func(in *delegate.Inputs) error { in.Model = "openai/gpt-test"; return nil },
		Open: func(_ context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
			c := &delegate.Crew{Agent: &agent.Agent{Name: in.Agent, Prompt: "You lead.", Model: m, Limits: agent.Limits{Turns: 40}}}
			if s != nil && s.crew != nil {
				s.crew(c)
			}
			return c, nil
		},
	}
	if s != nil && s.options != nil {
		s.options(opt)
	}
	w, err := delegate.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	if b.engine, err = superstep.New(store, &superstep.Options{Workflows: append([]*workflow.Workflow{w}, opt.Workflows...)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.engine.Close)
	return b
}

// answer is the model of all agents.
func (b *bench) answer(r *modeltest.ParsedRequest) modeltest.Reply {
	var results []string
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result {
				results = append(results, p.Text)
			}
		}
	}
	if !strings.HasPrefix(r.System, "You lead.") {
		return modeltest.Text(r.System + " " + r.Messages[0].Text())
	}
	prompt := r.Messages[0].Text()
	b.mu.Lock()
	if !strings.HasPrefix(prompt, handedOver) {
		b.results = append(b.results, results)
	}
	b.prompts = append(b.prompts, prompt)
	b.mu.Unlock()
	if strings.HasPrefix(prompt, handedOver) {
		return modeltest.Text("with all of it")
	}
	return b.say(results)
}

// calls has the lead make calls one after the other, and then say that it is done.
func calls(list ...[2]string) func(results []string) modeltest.Reply {
	return func(results []string) modeltest.Reply {
		if n := len(results); n < len(list) {
			return modeltest.Call(list[n][0], list[n][1])
		}
		return modeltest.Text("done")
	}
}

func (b *bench) effect(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did = append(b.did, what)
}

func (b *bench) done() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.did...)
}

func (b *bench) last() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.results[len(b.results)-1]
}

// flow is a workflow of a graph whose nodes run one after the other.
func flow(t *testing.T, name string, nodes ...graph.Node[words, words]) *workflow.Workflow {
	t.Helper()
	g := graph.New(name, func(_, u words) words { return u })
	before := graph.Start
	for _, n := range nodes {
		g.AddNode(n)
		g.Edge(before, n.Name)
		before = n.Name
	}
	g.Edge(before, graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New(name, "The workflow "+name, f, func(in words) (words, error) { return in, nil }, func(s words) (words, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// slow does an effect in each of three steps.
func (b *bench) slow(t *testing.T) *workflow.Workflow {
	var nodes []graph.Node[words, words]
	for _, step := range []string{"a", "b", "c"} {
		nodes = append(nodes, graph.Node[words, words]{Name: step, Run: func(ctx context.Context, task *graph.Task, s words) (words, error) {
			if b.hold != nil {
				if err := b.hold(ctx, s.Text+step); err != nil {
					return s, err
				}
			}
			text, err := graph.Do(ctx, "do", func(context.Context, string) (string, error) {
				b.effect(s.Text + step)
				return s.Text + step, nil
			})
			return words{text}, err
		}})
	}
	return flow(t, "slow", nodes...)
}

// quiz asks a person.
func (b *bench) quiz(t *testing.T) *workflow.Workflow {
	return flow(t, "quiz", graph.Node[words, words]{Name: "ask", Run: func(ctx context.Context, task *graph.Task, s words) (words, error) {
		answer, err := graph.Ask[string](ctx, graph.Question{Key: "q", Text: "Which " + s.Text + "?"})
		if err != nil {
			return s, err
		}
		text, err := graph.Do(ctx, "do", func(context.Context, string) (string, error) {
			b.effect("quiz " + answer)
			return s.Text + " is " + answer, nil
		})
		return words{text}, err
	}})
}

// study has an agent work.
func (b *bench) study(t *testing.T, m model.Model) *workflow.Workflow {
	a := &agent.Agent{Name: "student", Prompt: "You study.", Model: m}
	return flow(t, "study", node.Agent("learn", a, func(s words) (string, error) { return s.Text, nil }, func(_ words, o *agent.Outcome) (words, error) { return words{o.Text}, nil }))
}

func (b *bench) broken(t *testing.T) *workflow.Workflow {
	return flow(t, "broken", graph.Node[words, words]{Name: "fail", Run: func(context.Context, *graph.Task, words) (words, error) { return words{}, errors.New("it is broken") }})
}

func (b *bench) panics(t *testing.T) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Func("panics", "", func(context.Context, words, *workflow.Exec) (words, error) { panic("oh no") })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (b *bench) start(t *testing.T, opt *superstep.StartOptions) *superstep.Run {
	t.Helper()
	run, err := b.engine.Start(t.Context(), delegate.Name, json.RawMessage(`{"prompt":"Go."}`), opt)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (b *bench) resume(t *testing.T, id string, opt *superstep.ResumeOptions) *superstep.Run {
	t.Helper()
	run, err := b.engine.Resume(t.Context(), id, opt)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// until waits until an effect of a run is in its log.
func (b *bench) until(t *testing.T, run *superstep.Run, key string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for r, err := range run.Follow(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.Settled
		if r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &d) == nil && d.Key == key {
			return
		}
	}
	t.Fatalf("there is no %s", key)
}

// ends waits for the end of a run and gives what the lead said last.
func (b *bench) ends(t *testing.T, run *superstep.Run, want runlog.Status) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := run.Wait(ctx)
	if err != nil || out.Status != want {
		t.Fatalf("the run is %s (%v, %v), want %s\n%s", out.Status, out.Err, err, want, b.log(t, run.ID()))
	}
	if want != runlog.Completed {
		return ""
	}
	var o delegate.Output
	if err := json.Unmarshal(out.Output, &o); err != nil {
		t.Fatal(err)
	}
	return o.Text
}

func (b *bench) log(t *testing.T, id string) string {
	t.Helper()
	var out strings.Builder
	for r, err := range b.engine.Follow(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d/%d %s %q %.200s\n", r.Seq, r.Epoch, r.Kind, r.Path, r.Data)
	}
	return out.String()
}

// replays checks that a replay of a run is equal and does nothing.
func (b *bench) replays(t *testing.T, id string) {
	t.Helper()
	asked, did := len(b.server.Requests()), len(b.done())
	report, err := b.engine.Replay(t.Context(), id, &superstep.ReplayOptions{Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if report.Diverged != nil {
		t.Fatalf("%v\n%s", report.Diverged, b.log(t, id))
	}
	if n := strings.Count(b.log(t, id), "\n"); n != report.Records {
		t.Errorf("%d of %d records were replayed", report.Records, n)
	}
	if n := len(b.server.Requests()) - asked; n != 0 {
		t.Errorf("the replay asked for %d turns", n)
	}
	if n := len(b.done()) - did; n != 0 {
		t.Errorf("the replay did %d effects", n)
	}
}

// turns checks that no turn was asked for that had been had.
func (b *bench) turns(t *testing.T) {
	t.Helper()
	for key, n := range b.server.Asked() {
		if n > 1 {
			t.Errorf("a turn was asked for %d times: %s", n, key)
		}
	}
}
