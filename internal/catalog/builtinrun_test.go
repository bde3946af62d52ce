package catalog_test

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

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// cook is the model of all agents. It answers with the largest value that is wanted.
type cook struct {
	t     *testing.T
	yes   bool
	fails string                                 // the agent that always fails, "" for none
	says  func(agent, prompt string) (any, bool) // what is said instead; an error fails

	mu      sync.Mutex
	prompts []string // the first of each agent that began
}

type dish struct {
	*cook
	agent string
}

func (*dish) Name() string { return "test/model" }

func (d *dish) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		prompt := req.Messages[0].Text()
		d.mu.Lock()
		d.prompts = append(d.prompts, prompt)
		d.mu.Unlock()
		if d.agent == d.fails {
			yield(model.Part{}, errors.New("there is no network"))
			return
		}
		text, said := "It is {{so}}, says "+d.agent+".", any(nil)
		if req.Schema != nil {
			said = largest(d.t, req.Schema, d.yes)
		}
		if d.says != nil {
			if other, ok := d.says(d.agent, prompt); ok {
				said = other
			}
		}
		if err, ok := said.(error); ok {
			yield(model.Part{}, err)
			return
		}
		if said != nil {
			b, err := json.Marshal(said)
			if err != nil {
				d.t.Error(err)
			}
			text = string(b)
		}
		_ = yield(model.Part{Kind: model.Text, Text: text}, nil) &&
			yield(model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 10, Out: 5}}, nil) &&
			yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

// run runs a recipe to its end; its questions are answered with their defaults.
func (c *cook) run(r *recipe.Recipe) superstep.Outcome {
	c.t.Helper()
	w, err := compile.New(&compile.Bundle{Main: r}, &compile.Options{
		Open: func(context.Context, *compile.Needs, *compile.Setting) (*compile.Crew, error) {
			return &compile.Crew{Agent: func(name, _ string) (*agent.Agent, error) {
				return &agent.Agent{Name: name, Model: &dish{c, name}}, nil
			}}, nil
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(e.Close)
	inputs := map[string]string{}
	for _, in := range r.Inputs {
		if in.Required {
			inputs[in.Name] = "anything"
		}
	}
	raw, err := json.Marshal(inputs)
	if err != nil {
		c.t.Fatal(err)
	}
	run, err := e.Start(c.t.Context(), r.Name, raw, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for range 3 {
		out, err := run.Wait(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		if len(out.Open) == 0 {
			return out
		}
		for _, q := range out.Open {
			if err := e.Answer(c.t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: q.Default, By: "nobody"}); err != nil {
				c.t.Fatal(err)
			}
		}
		if run, err = e.Resume(c.t.Context(), run.ID(), nil); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Fatal("it asks again and again")
	return superstep.Outcome{}
}

// Each built-in recipe comes to its end: if its agents find all that they may and are never content, which takes
// the number of agents that is stated; if they say yes to everything; and, partly, if one of them fails wherever it works.
func TestBuiltinRecipesRun(t *testing.T) {
	t.Parallel()
	for _, b := range builtins {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			r := parsed(t, b.name)
			for _, c := range []*cook{{t: t}, {t: t, yes: true}, {t: t, fails: b.part}} {
				out := c.run(r)
				want := runlog.Completed
				if c.fails != "" || b.name == "loop-until-done" && !c.yes {
					want = runlog.Partial
				}
				if out.Status != want || len(out.Output) == 0 || string(out.Output) == "null" {
					t.Errorf("yes %t, %s fails: it is %s, want %s: %v %s", c.yes, c.fails, out.Status, want, out.Err, out.Output)
				}
				most := b.agents
				if b.name == "classify-and-act" {
					most = 3 // of its branches one is taken
				}
				if n := len(c.prompts); n > most || !c.yes && c.fails == "" && n != most {
					t.Errorf("yes %t, %s fails: %d agents, want %d", c.yes, c.fails, n, most)
				}
				for _, p := range c.prompts {
					if strings.Contains(strings.ReplaceAll(p, "{{so}}", ""), "{{") {
						t.Errorf("a prompt with braces:\n%s", p)
					}
				}
			}
		})
	}
}

// Where there is nothing to go on with, a built-in recipe fails at once.
func TestBuiltinRecipesStop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, fails string
		agents      int // that began until then, at most
	}{
		{"adversarial-verification", "synthesizer", 1},
		{"classify-and-act", "synthesizer", 1},
		{"code-review", "synthesizer", 6},
		{"due-diligence", "synthesizer", 5},
		{"fan-out-and-synthesize", "planner", 1},
		{"generate-and-filter", "planner", 6},
		{"generate-and-filter", "synthesizer", 6},
		{"research-and-brief", "synthesizer", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := &cook{t: t, fails: c.fails}
			out := k.run(parsed(t, c.name))
			if out.Status != runlog.Failed || len(k.prompts) > c.agents {
				t.Errorf("without %s it is %s after %d agents: %v", c.fails, out.Status, len(k.prompts), out.Err)
			}
		})
	}
}

// A claim is kept if more than half of those who were asked say that it holds.
func TestAdversarialMajority(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		votes string // of the three angles: holds, refuted or none
		kept  bool
	}{
		{"hhh", true}, {"hhr", true}, {"hrh", true}, {"hrr", false}, {"rrr", false},
		{"hhn", true}, {"hnn", false}, {"hnr", false}, {"nnn", false},
	} {
		t.Run(c.votes, func(t *testing.T) {
			t.Parallel()
			k := &cook{t: t, says: func(agent, prompt string) (any, bool) {
				if agent != "researcher" {
					if strings.HasPrefix(prompt, "List the claims") {
						return map[string]any{"claims": []string{"a claim"}}, true
					}
					return nil, false
				}
				angle := slices.IndexFunc([]string{"the facts:", "the reasoning:", "the limits:"}, func(a string) bool { return strings.Contains(prompt, a) })
				if c.votes[angle] == 'n' {
					return errors.New("there is no network"), true
				}
				return map[string]any{"refuted": c.votes[angle] == 'r', "why": "w", "holds": "h"}, true
			}}
			out := k.run(parsed(t, "adversarial-verification"))
			var got struct{ Claims []struct{ Kept *string } }
			if err := json.Unmarshal(out.Output, &got); err != nil || len(got.Claims) != 1 {
				t.Fatalf("%v: %s", err, out.Output)
			}
			kept := got.Claims[0].Kept
			if (kept != nil) != c.kept || kept != nil && *kept != "It is {{so}}, says synthesizer." {
				t.Errorf("kept %v: %s", kept, out.Output)
			}
		})
	}
}

// A loop tells the next round what is missing, and ends when its judge says so.
func TestLoopTellsTheNextRound(t *testing.T) {
	t.Parallel()
	judged := 0
	k := &cook{t: t, says: func(agent, _ string) (any, bool) {
		if agent != "reviewer" {
			return nil, false
		}
		if judged++; judged == 1 {
			return errors.New("there is no network"), true
		}
		return map[string]any{"done": judged == 3, "evidence": "e", "missing": []string{fmt.Sprint("thing ", judged)}}, true
	}}
	k.run(parsed(t, "loop-until-done"))
	if len(k.prompts) != 6 || judged != 3 {
		t.Fatalf("%d prompts, judged %d times", len(k.prompts), judged)
	}
	for i, want := range map[int]string{0: "<before>\n\n</before>", 2: "no network", 4: "thing 2"} {
		if !strings.Contains(k.prompts[i], want) {
			t.Errorf("round %d is not told %q:\n%s", i/2+1, want, k.prompts[i])
		}
	}
}
