package compile_test

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

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kitchen has agents that say what a test wants, and tools, and counts what happens.
type kitchen struct {
	say   map[string]func(prompt string) (string, error) // by agent; others say their prompt in brackets
	tools []*tool.Tool
	gate  tool.Gate
	parts map[string]string
	also  []*recipe.Recipe     // that others call
	hosts []*workflow.Workflow // that are no recipes
	delay func(prompt string) time.Duration
	most  int // steps at once

	mu      sync.Mutex
	prompts []string // of all turns of models, as "agent: prompt"
	calls   []string // of tools
	now     int
	peak    int // how many models were running at once
	opened  int
	closed  int
}

func (k *kitchen) asked(prefix string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.prompts {
		if strings.HasPrefix(p, prefix) {
			n++
		}
	}
	return n
}

// cook is the model of an agent.
type cook struct {
	k    *kitchen
	name string
}

func (c *cook) Name() string { return "test/" + c.name }

func (c *cook) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		prompt := req.Messages[len(req.Messages)-1].Text()
		k := c.k
		k.mu.Lock()
		k.prompts = append(k.prompts, c.name+": "+prompt)
		k.now++
		k.peak = max(k.peak, k.now)
		say := k.say[c.name]
		k.mu.Unlock()
		defer func() { k.mu.Lock(); k.now--; k.mu.Unlock() }()
		if k.delay != nil {
			select {
			case <-time.After(k.delay(prompt)):
			case <-ctx.Done():
				yield(model.Part{}, context.Cause(ctx))
				return
			}
		}
		text, err := "["+prompt+"]", error(nil)
		if say != nil {
			text, err = say(prompt)
		}
		if err != nil {
			yield(model.Part{}, err)
			return
		}
		_ = yield(model.Part{Kind: model.Text, Text: text}, nil) &&
			yield(model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 10, Out: 5}}, nil) &&
			yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

func (k *kitchen) options() *compile.Options {
	return &compile.Options{
		Concurrency: k.most,
		Prepare:     func(n *compile.Needs, s *compile.Setting) error { s.Parts = k.parts; return nil },
		Open: func(context.Context, *compile.Needs, *compile.Setting) (*compile.Crew, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.opened++
			set, err := tool.NewSet(k.tools...)
			return &compile.Crew{
				Agent: func(name, m string) (*agent.Agent, error) {
					if name == "nobody" {
						return nil, errors.New("there is no agent nobody")
					}
					return &agent.Agent{Name: name, Model: &cook{k, name}}, nil
				},
				Tools: set.Guarded(tool.Guard{Gate: k.gate}), Parts: k.parts,
				Close: func() error { k.mu.Lock(); defer k.mu.Unlock(); k.closed++; return nil },
			}, err
		},
	}
}

func parse(t testing.TB, text string) *recipe.Recipe {
	t.Helper()
	r, problems := recipe.Parse("test.yaml", []byte(text))
	if err := problems.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

func (k *kitchen) workflow(t testing.TB, text string) *workflow.Workflow {
	t.Helper()
	w, err := compile.New(&compile.Bundle{Main: parse(t, text), Uses: k.also}, k.options())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (k *kitchen) engine(t testing.TB, store runlog.Store, text string) *superstep.Engine {
	t.Helper()
	e, err := superstep.New(store, &superstep.Options{
		Workflows: append([]*workflow.Workflow{k.workflow(t, text)}, k.hosts...),
		Restore: func(_ string, raw json.RawMessage) (*workflow.Workflow, error) {
			return compile.Restore(raw, k.options())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// result is how a run of a test ended.
type result struct {
	superstep.Outcome
	id     string
	engine *superstep.Engine
	text   string // the output, if that is a text
}

// run runs a recipe named "test" to its end, or its pause.
func (k *kitchen) run(t testing.TB, text, inputs string) *result {
	t.Helper()
	e := k.engine(t, runlog.NewMemory(nil), text)
	if inputs == "" {
		inputs = "{}"
	}
	r, err := e.Start(t.Context(), "test", json.RawMessage(inputs), nil)
	if err != nil {
		t.Fatal(err)
	}
	return ended(t, e, r)
}

func ended(t testing.TB, e *superstep.Engine, r *superstep.Run) *result {
	t.Helper()
	out, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res := &result{Outcome: out, id: r.ID(), engine: e}
	if json.Unmarshal(out.Output, &res.text) != nil {
		res.text = string(out.Output)
	}
	return res
}

// answer answers the one open question of a path and goes on.
func (r *result) answer(t testing.TB, path, answer string) *result {
	t.Helper()
	i := slices.IndexFunc(r.Open, func(q runlog.Question) bool { return q.Path == path })
	if i < 0 {
		t.Fatalf("%s does not ask; %v", path, r.Open)
	}
	if err := r.engine.Answer(t.Context(), r.id, path, &runlog.Answer{Key: r.Open[i].Key, Value: json.RawMessage(answer), By: "person"}); err != nil {
		t.Fatal(err)
	}
	again, err := r.engine.Resume(t.Context(), r.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ended(t, r.engine, again)
}

func (r *result) status(t testing.TB, want runlog.Status) {
	t.Helper()
	if r.Status != want {
		t.Fatalf("the run is %s, want %s: %v %s", r.Status, want, r.Err, r.Output)
	}
}

// replays checks that the run's log is what running it again gives, without any effect.
func (r *result) replays(t testing.TB, k *kitchen) {
	t.Helper()
	k.mu.Lock()
	before := len(k.prompts) + len(k.calls)
	k.mu.Unlock()
	report, err := r.engine.Replay(t.Context(), r.id, &superstep.ReplayOptions{Wait: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if report.Diverged != nil {
		t.Errorf("the replay differs: %v\nrecorded %s\nreplayed %s", report.Diverged, shown(report.Diverged.Recorded), shown(report.Diverged.Replayed))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if after := len(k.prompts) + len(k.calls); after != before {
		t.Errorf("the replay did %d things", after-before)
	}
}

func shown(r *runlog.Record) string {
	if r == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s", r.Kind, r.Path, r.Data)
}

// events are those of a name, as "path data".
func (r *result) events(t testing.TB, name string) []string {
	t.Helper()
	var out []string
	for rec, err := range r.engine.Follow(t.Context(), r.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.Event
		if rec.Kind == runlog.KindEvent && json.Unmarshal(rec.Data, &d) == nil && d.Name == name {
			out = append(out, rec.Path+" "+string(d.Data))
		}
	}
	return out
}

// failures are the texts of the failed attempts of a task.
func (r *result) failures(t testing.TB, path string) (out []string) {
	t.Helper()
	for rec, err := range r.engine.Follow(t.Context(), r.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.TaskFailed
		if rec.Kind == runlog.KindTaskFailed && rec.Path == path && json.Unmarshal(rec.Data, &d) == nil {
			out = append(out, d.Error)
		}
	}
	return out
}

// echo is a tool that gives its arguments back.
func (k *kitchen) echo(name string, effect tool.Effect, do func(args string) (string, error)) *tool.Tool {
	type in struct {
		Text string `json:"text,omitempty"`
		List []int  `json:"list,omitempty"`
	}
	t, err := tool.NewRaw(name, "A test tool.", func(_ context.Context, c *tool.Call, _ in) (string, error) {
		k.mu.Lock()
		k.calls = append(k.calls, name+" "+string(c.Args))
		k.mu.Unlock()
		if do == nil {
			return string(c.Args), nil
		}
		return do(string(c.Args))
	}, &tool.Options{Effect: effect})
	if err != nil {
		panic(err)
	}
	return t
}

func newWorkflow(k *kitchen, r *recipe.Recipe) (*workflow.Workflow, error) {
	return compile.New(&compile.Bundle{Main: r, Uses: k.also}, k.options())
}

type (
	startOptions  = superstep.StartOptions
	resumeOptions = superstep.ResumeOptions
)
