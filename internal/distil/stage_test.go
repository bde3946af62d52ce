package distil_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage has agents that say what a test wants, a lead that follows a script, and tools.
type stage struct {
	say   map[string]func(prompt string) (string, error) // by agent; others say their prompt in brackets
	lead  []func(heard []string) model.Response          // its turns, by the results it has heard so far
	tools []*tool.Tool
	flows []*workflow.Workflow

	mu      sync.Mutex
	prompts []string // as "agent: prompt"
}

// player is the model of an agent.
type player struct {
	s    *stage
	name string
}

func (p *player) Name() string { return "test/" + p.name }

func (p *player) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		resp, err := p.answer(req)
		if err != nil {
			yield(model.Part{}, err)
			return
		}
		for _, part := range resp.Message.Parts {
			if !yield(part, nil) {
				return
			}
		}
		_ = yield(model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 10, Out: 5}}, nil) &&
			yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

func (p *player) answer(req *model.Request) (model.Response, error) {
	if p.name == delegate.Lead {
		turn := 0
		var heard []string
		for _, m := range req.Messages {
			if m.Role == model.Assistant {
				turn++
			}
			for _, part := range m.Parts {
				if part.Kind == model.Result {
					heard = append(heard, part.Text)
				}
			}
		}
		if turn >= len(p.s.lead) {
			return model.Response{}, fmt.Errorf("the lead has no turn %d", turn)
		}
		return p.s.lead[turn](heard), nil
	}
	prompt := req.Messages[len(req.Messages)-1].Text()
	p.s.mu.Lock()
	p.s.prompts = append(p.s.prompts, p.name+": "+prompt)
	say := p.s.say[p.name]
	p.s.mu.Unlock()
	if say == nil {
		return says("[" + prompt + "]"), nil
	}
	text, err := say(prompt)
	return says(text), err
}

func says(text string) model.Response {
	return model.Response{Message: model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: text}}}}
}

// calls is a turn of calls: pairs of a tool's name and its arguments.
func calls(pairs ...any) model.Response {
	r := model.Response{Message: model.Message{Role: model.Assistant}}
	for i := 0; i < len(pairs); i += 2 {
		args, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err)
		}
		r.Message.Parts = append(r.Message.Parts, model.Part{Kind: model.ToolCall, Call: &model.Call{ID: fmt.Sprint("c", i), Name: pairs[i].(string), Args: args}})
	}
	return r
}

type m = map[string]any

func task(agent, prompt string) m { return m{"agent": agent, "prompt": prompt} }

func batch(tasks ...m) m { return m{"tasks": tasks} }

func (s *stage) actor(name string) *agent.Agent {
	return &agent.Agent{Name: name, Model: &player{s, name}}
}

// chat runs the workflow "agent" with the lead of the script, and gives its log.
func (s *stage) chat(t testing.TB, prompt string) (store runlog.Store, id string) {
	t.Helper()
	crew, err := team.New(&team.Options{
		Agents: func(name string) (*agent.Agent, error) {
			if name == "nobody" {
				return nil, fmt.Errorf("there is no agent nobody")
			}
			return s.actor(name), nil
		},
		List: func() []team.Info { return []team.Info{{Name: "researcher", Description: "Researches."}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer crew.Close()
	w, err := delegate.New(&delegate.Options{
		Workflows: s.flows,
		Prepare:   func(in *delegate.Inputs) error { in.Model = "test/lead"; return nil },
		Open: func(_ context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
			set, err := tool.NewSet(s.tools...)
			lead := s.actor(in.Agent)
			lead.Tools, lead.Actions = set, crew.Actions()
			return &delegate.Crew{Agent: lead}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := json.Marshal(m{"prompt": prompt})
	if err != nil {
		t.Fatal(err)
	}
	return s.perform(t, append(workflow.Set{w}, s.flows...), "agent", inputs)
}

// perform runs a workflow of a set to its end.
func (s *stage) perform(t testing.TB, set workflow.Set, name string, inputs json.RawMessage) (store runlog.Store, id string) {
	t.Helper()
	w, err := set.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if inputs, err = w.Settle(inputs); err != nil {
		t.Fatal(err)
	}
	id = "0a1b2c3d"
	mem := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), mem, id, &journal.Options{Create: &runlog.NewRun{Workflow: name, Title: "A test"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	started := runlog.RunStarted{Workflow: name, Inputs: inputs, Title: "A test"}
	if w.Pin != nil {
		if started.Pinned, err = w.Pin(inputs); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", started); err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(t.Context(), &workflow.Exec{Inputs: inputs, Journal: j, Graph: graph.RunOptions{Journal: j, Workflows: set.Nested}})
	if err != nil {
		t.Fatal(err)
	}
	status := runlog.Completed
	if len(res.Skipped) > 0 {
		status = runlog.Partial
	}
	rec, err := j.New(runlog.KindRunFinished, "", runlog.RunFinished{Output: res.Output, Steps: res.Steps, Skipped: res.Skipped})
	if err == nil {
		err = j.Append(t.Context(), status, rec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return mem, id
}

// recipe runs a recipe.
func (s *stage) recipe(t testing.TB, text, inputs string) (store runlog.Store, id string) {
	t.Helper()
	r, problems := recipe.Parse("test.yaml", []byte(text))
	if err := problems.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	w, err := compile.New(&compile.Bundle{Main: r}, &compile.Options{
		Open: func(context.Context, *compile.Needs, *compile.Setting) (*compile.Crew, error) {
			set, err := tool.NewSet(s.tools...)
			return &compile.Crew{Agent: func(name, _ string) (*agent.Agent, error) { return s.actor(name), nil }, Tools: set}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.perform(t, append(workflow.Set{w}, s.flows...), r.Name, json.RawMessage(inputs))
}

func sorted(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)
	return strings.Join(list, "\n")
}

func dump(t testing.TB, store runlog.Store, id string) string {
	t.Helper()
	var b strings.Builder
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %s %s\n", r.Seq, r.Kind, r.Path, r.Data)
	}
	return b.String()
}
