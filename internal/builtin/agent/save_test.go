package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

const brief = `name: brief
inputs:
  - {name: topic, required: true}
steps:
  - id: gather
    subagent: researcher
    prompt: "Research {{inputs.topic}}."
  - id: write
    subagent: writer
    depends_on: [gather]
    prompt: "Write it up: {{steps.gather.output}}"
`

// drafts is where drafts are kept.
type drafts struct {
	kept   []string // names and texts, in order
	fail   error
	looked int // recipes that were checked for what is around them
}

func (d *drafts) setup() *setup {
	return &setup{
		options: func(o *delegate.Options) {
			o.SaveDraft = func(_ context.Context, name string, text []byte) (string, error) {
				if d.fail != nil {
					err := d.fail
					d.fail = nil
					return "", err
				}
				d.kept = append(d.kept, name+": "+string(text))
				return "drafts/" + name + ".yaml", nil
			}
		},
		crew: func(c *delegate.Crew) {
			c.Check = func(r *recipe.Recipe) recipe.Problems {
				d.looked++
				var out recipe.Problems
				r.Walk(func(s *recipe.Step, _ int) bool {
					if s.Agent != nil && s.Agent.Name == "resercher" {
						out = append(out, &recipe.Problem{File: r.File, Pos: s.Agent.Pos, Code: "unknown-subagent", Text: `no agent "resercher"; did you mean "researcher"?`})
					}
					return true
				})
				return out
			}
		},
	}
}

func save(t *testing.T, name, text string) [2]string {
	t.Helper()
	args, err := json.Marshal(map[string]string{"name": name, "yaml": text})
	if err != nil {
		t.Fatal(err)
	}
	return [2]string{delegate.SaveTool, string(args)}
}

// A lead writes a recipe, is told what is wrong with it and where, and hands in what is right, as
// a draft that is kept once.
func TestSaveWorkflow(t *testing.T) {
	d := &drafts{fail: errors.New("the disk is full")}
	b := newBench(t, runlog.NewMemory(nil), d.setup())
	b.say = calls(
		save(t, "brief", ""),
		save(t, "brief", strings.Replace(brief, "inputs.topic", "inputs.topci", 1)),
		save(t, "brief", strings.Replace(brief, "subagent: researcher", "subagent: resercher", 1)),
		save(t, "bref", brief),
		save(t, "../brief", brief),
		save(t, "brief", brief),
		save(t, "brief", brief),
		save(t, "brief", brief),
		save(t, "brief", brief+"output: \"{{steps.gather.output}}\"\n"),
		save(t, "slow", strings.Replace(brief, "name: brief", "name: slow", 1)),
	)
	run := b.start(t, nil)
	b.ends(t, run, runlog.Completed)
	contains(t, b.last(),
		"recipe is empty", "brief.yaml:7:", "brief.yaml:6:15: no agent \"resercher\"", `the name "brief", and you save it as "bref"`, `you save it as "../brief"`,
		"could not be kept: the disk is full", "drafts/brief.yaml", "superstep workflows approve brief", "drafts/brief.yaml", "There is a workflow of that name already")
	results := b.last()
	for i, want := range []string{1: "^^^", 2: "\n    " + "    subagent: resercher\n" + "    " + "              ^"} {
		if !strings.Contains(results[i], want) {
			t.Errorf("result %d shows no place: %s", i, results[i])
		}
	}
	for i, r := range results[:6] {
		if strings.Contains(r, "approve") {
			t.Errorf("result %d: %s", i, r)
		}
	}
	if len(d.kept) != 3 || d.kept[0] != "brief: "+brief {
		t.Errorf("kept %q", d.kept)
	}
	looked := d.looked
	b.replays(t, run.ID())
	if len(d.kept) != 3 || d.looked != looked {
		t.Error("the replay has kept something, or looked at what there is now")
	}
}

// Wherever a run is cut off in which a draft is kept, it is kept under the same name and with the
// same text, and no more often than the crash has to have it.
func TestCrashWhileSaving(t *testing.T) {
	for n, ended := 1, false; !ended; n++ {
		for _, after := range []bool{false, true} {
			store := runlogtest.NewMortal()
			store.DieAt(n, after)
			d := &drafts{}
			first := newBench(t, store, d.setup())
			first.say = calls(save(t, "brief", brief))
			run := first.start(t, nil)
			if _, err := run.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !store.Dead() {
				ended = true
				continue
			}
			before := record(t, store, run.ID())
			store.Revive()
			kept := len(d.kept)
			second := newBench(t, store, d.setup())
			second.say = first.say
			second.ends(t, second.resume(t, run.ID(), nil), runlog.Completed)
			recordedOnce := false
			for key := range before.outputs {
				recordedOnce = recordedOnce || strings.Contains(key, "draft/")
			}
			if recordedOnce && len(d.kept) > kept {
				t.Errorf("append %d: what was kept was kept again", n)
			}
			if len(d.kept) == 0 || len(d.kept) > 2 || d.kept[0] != d.kept[len(d.kept)-1] {
				t.Errorf("append %d: kept %q", n, d.kept)
			}
			second.replays(t, run.ID())
		}
	}
}

// What a model is told of the language is right, and nobody is offered the tool where drafts
// cannot be kept.
func TestLanguageIsTold(t *testing.T) {
	for _, from := range []string{"the options", "the crew", "nobody"} {
		s := (&drafts{}).setup()
		if from != "the options" {
			s.options = nil
		}
		if from == "the crew" {
			s.crew = func(c *delegate.Crew) {
				c.SaveDraft = func(context.Context, string, []byte) (string, error) { return "", nil }
			}
		}
		b := newBench(t, runlog.NewMemory(nil), s)
		b.say = func([]string) modeltest.Reply { return modeltest.Text("done") }
		b.ends(t, b.start(t, nil), runlog.Completed)
		description := ""
		for _, spec := range b.server.Requests()[0].Tools {
			if spec.Name == delegate.SaveTool {
				description = spec.Description
			}
		}
		if from == "nobody" {
			if description != "" {
				t.Error("the tool is offered")
			}
			continue
		}
		_, rest, found := strings.Cut(description, "Example, with every kind of step:\n")
		example, _, ends := strings.Cut(rest, "\nInputs: ")
		if !found || !ends {
			t.Fatal(description)
		}
		r, problems := recipe.Parse("example.yaml", []byte(example))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		kinds := map[string]bool{}
		r.Walk(func(s *recipe.Step, _ int) bool { kinds[s.Kind()] = true; return true })
		if len(kinds) != 7 {
			t.Errorf("the example has steps of kinds %v", kinds)
		}
		if n := len(description); n > 5000 {
			t.Errorf("the description has %d bytes", n)
		}
	}
}
