package team_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// speaker is a model that says what a function of a test makes of a request, and takes a
// little while for it.
type speaker struct {
	say func(r *model.Request, turn int) any // a string, parts, or an error

	mu    sync.Mutex
	asked int
}

func (s *speaker) Name() string        { return "acme/m1" }
func (s *speaker) Window() (int, bool) { return 3000, true }

func (s *speaker) Generate(ctx context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	turn, bytes := 0, 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			turn++
		}
		for _, p := range m.Parts {
			bytes += len(p.Text)
		}
	}
	return func(yield func(model.Part, error) bool) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			yield(model.Part{}, ctx.Err())
			return
		}
		stop := model.StopEnd
		var parts []model.Part
		switch v := s.say(r, turn).(type) {
		case error:
			yield(model.Part{}, v)
			return
		case string:
			parts = []model.Part{{Kind: model.Text, Text: v}}
		case []model.Part:
			parts, stop = v, model.StopCalls
			for i := range parts {
				parts[i].Call.ID = fmt.Sprintf("c%d-%d", turn, i)
			}
		}
		parts = append(parts, model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 1 + bytes/4, Out: 5}}, model.Part{Kind: model.Stop, Stop: stop})
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// continued counts the answers after which an agent continued while one beside it was at work, by the paths of all records.
func continued(paths []string, answered []int) (n int) {
	for _, at := range answered {
		next := slices.Index(paths[at+1:], paths[at])
		around, _, within := cutLast(paths[at])
		if !within || next < 0 {
			continue
		}
		if slices.ContainsFunc(paths[at+1+next:], func(p string) bool {
			beside, _, _ := cutLast(p)
			return beside == around && p != paths[at] && slices.Contains(paths[:at], p)
		}) {
			n++
		}
	}
	return n
}

func cutLast(path string) (around, name string, within bool) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(0, i)], path[i+1:], i >= 0
}

// A run of a team in which all happens that can is replayed from its log to the same
// records, with nothing done to the world: questions, grants and denials, a cancelled agent
// and one that waits in the queue, rate limits, and conversations that are cut down.
func TestReplay(t *testing.T) {
	resumed := 0
	defer func() {
		if resumed == 0 {
			t.Error("nobody went on while others were running")
		}
	}()
	for round := range 8 {
		var tm *team.Team
		var mu sync.Mutex
		limited := map[string]int{}
		did := 0
		cancelled := make(chan struct{})
		var once sync.Once
		m := &speaker{say: func(r *model.Request, turn int) any {
			prompt := r.Messages[0].Text()
			mu.Lock()
			limited[prompt]++
			n := limited[prompt]
			mu.Unlock()
			switch {
			case strings.HasPrefix(r.System, "Sum up"):
				return "what was"
			case r.System == "lead" && turn == 0:
				return []model.Part{batch(task("explorer", "a"), task("explorer", "b"), task("explorer", "limited"), task("explorer", "stuck"), task("chief", "c")), call("task", task("explorer", "d"))}
			case r.System == "lead" && turn == 1:
				return []model.Part{call("put", words{"e"}), call("note", words{"f"})}
			case r.System == "lead" && turn < 6 && len(r.Messages) < 20:
				return []model.Part{call("look", words{strings.Repeat("long ", 400)})}
			case r.System == "chief" && turn == 0:
				return []model.Part{call("task", task("explorer", "deep"))}
			case prompt == "limited" && n <= 2:
				return &model.Error{Provider: "acme", Model: "m1", Status: 429, RetryAfter: 3 * time.Millisecond, Temporary: true, Err: errors.New("slow down")}
			case r.System == "explorer" && turn == 0:
				return []model.Part{call("look", words{prompt}), call("put", words{prompt})}
			}
			return "did " + prompt
		}}
		var tools []*tool.Tool
		for name, effect := range map[string]tool.Effect{"look": tool.Pure, "put": tool.Once} {
			w, err := tool.New(name, "x", func(ctx context.Context, in words) (string, error) {
				mu.Lock()
				did++
				mu.Unlock()
				if in.Text == "stuck" {
					once.Do(func() { close(cancelled) })
					<-ctx.Done()
					return "", ctx.Err()
				}
				return name + " saw " + in.Text + strings.Repeat(" and more", 100), nil
			}, &tool.Options{Effect: effect})
			if err != nil {
				t.Fatal(err)
			}
			tools = append(tools, w)
		}
		set, err := tool.NewSet(tools...)
		if err != nil {
			t.Fatal(err)
		}
		note := &agent.Action{
			Tool: &tool.Tool{Name: "note", Input: &jsonschema.Schema{Type: "object"}},
			Run: func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
				answer, err := scope.Ask(ctx, &runlog.Question{Key: "q", Text: "why?"})
				return tool.Result{Text: string(answer) + strings.Repeat("x", clean.MaxBytes)}, err
			},
		}
		clock := &agent.Clock{Now: time.Now, After: time.After}
		define := func(name string) (*agent.Agent, error) {
			a := &agent.Agent{Name: name, Prompt: name, Model: m, Tools: set, Clock: clock, Gate: asks{}}
			if name == "chief" {
				a.Actions = tm.Actions()
			}
			if name == "lead" {
				a.Actions = append(tm.Actions(), note)
				a.Headless = true
				a.Limits.Turns = 12
				a.Spill = func(run, name, text string) (string, error) { return "/spill/" + name, nil }
			}
			return a, nil
		}
		tm, err = team.New(&team.Options{
			Agents: define, List: func() []team.Info { return []team.Info{{"explorer", "x"}, {"chief", "x"}} }, Limit: 2, Clock: clock,
			Save: func(context.Context, string, team.Result) error { return errors.New("no folder") },
		})
		if err != nil {
			t.Fatal(err)
		}
		lead, _ := define("lead")
		g := graph.New("test", func(s, u string) string { return s + u })
		g.AddNode(node.Agent("work", lead, func(s string) (string, error) { return s, nil }, func(_ string, o *agent.Outcome) (string, error) { return o.Text, nil }))
		g.Edge(graph.Start, "work")
		g.Edge("work", graph.End)
		flow, err := g.Compile()
		if err != nil {
			t.Fatal(err)
		}
		type inputs struct {
			Topic string `json:"topic"`
		}
		w, err := workflow.New("test", "A test.", flow, func(in inputs) (string, error) { return in.Topic, nil }, func(s string) (string, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		store := runlog.NewMemory(nil)
		e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{w}})
		if err != nil {
			t.Fatal(err)
		}
		other := e
		if round == 0 { // another process
			if other, err = superstep.New(store, nil); err != nil {
				t.Fatal(err)
			}
		}
		answer := func(q *runlog.Question) *runlog.Answer {
			a := &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"once"`), By: "test"}
			if strings.Contains(q.Text, `"b"`) {
				a.Value = json.RawMessage(`"deny: not b"`)
			} else if strings.Contains(q.Text, `"d"`) {
				a.Value = json.RawMessage(`"run"`)
			}
			return a
		}
		ids := make(chan string, 1)
		opt := &superstep.StartOptions{Answer: func(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
			return answer(&q), true
		}}
		if round%2 == 1 { // people answer while others run
			id := ""
			opt.Observe = func(r runlog.Record, _ error) {
				var q runlog.Question
				if r.Kind != runlog.KindAsked || json.Unmarshal(r.Data, &q) != nil || strings.Contains(q.Text, "stuck") {
					return
				}
				if id == "" {
					id = <-ids
				}
				if round%4 == 3 && strings.Contains(q.Text, `"a"`) && e.CancelAgent(t.Context(), id, r.Path) == nil {
					return // while it waits, or on its way there
				}
				var before *journal.AnsweredError
				var ended *runlog.EndedError // with the other answer
				if err := e.Answer(t.Context(), id, r.Path, answer(&q)); err != nil && !errors.As(err, &before) && !errors.As(err, &ended) {
					t.Error(err)
				}
			}
		}
		run, err := e.Start(t.Context(), "test", json.RawMessage(`{"topic":"go"}`), opt)
		if err != nil {
			t.Fatal(err)
		}
		ids <- run.ID()
		<-cancelled
		const stuck = "work/task_batch[1.1]/explorer[4]"
		if err := other.CancelAgent(t.Context(), run.ID(), stuck+"x"); err == nil || !strings.Contains(err.Error(), `did you mean "`+stuck) {
			t.Error(err)
		}
		if err := other.CancelAgent(t.Context(), run.ID(), stuck); err != nil {
			t.Error(err)
		}
		out, err := run.Wait(t.Context())
		if err != nil || out.Status != runlog.Completed {
			t.Fatal(out, err)
		}
		members, err := other.Agents(t.Context(), run.ID())
		if err != nil || !slices.Contains(members, team.Member{ID: stuck, Agent: "explorer", State: "cancelled"}) {
			t.Errorf("agents %v: %v", members, err)
		}
		if err := other.CancelAgent(t.Context(), run.ID(), stuck); err == nil || !strings.Contains(err.Error(), "is completed") {
			t.Error(err)
		}
		turns, acts := m.asked, did
		var log strings.Builder
		var paths []string
		var answered []int
		for r, err := range e.Follow(t.Context(), run.ID(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if paths = append(paths, r.Path); r.Kind == runlog.KindAnswered {
				answered = append(answered, len(paths)-1)
			}
			fmt.Fprintf(&log, "%d %s %s %.150s\n", r.Seq, r.Kind, r.Path, r.Data)
		}
		for _, want := range []string{`"name":"denied"`, `"action":"c`, "rate limited by acme", "could not be kept outside of the log: no folder", `"kind":"cancel"`, `"kind":"spill"`, `"name":"granted"`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %s\n%s", want, log.String())
			}
		}
		resumed += continued(paths, answered)
		report, err := e.Replay(t.Context(), run.ID(), &superstep.ReplayOptions{Wait: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if report.Diverged != nil {
			t.Fatalf("%v\n%s", report.Diverged, log.String())
		}
		if m.asked != turns || did != acts {
			t.Errorf("the replay asked for %d turns and called %d tools", m.asked-turns, did-acts)
		}
		e.Close()
	}
}
