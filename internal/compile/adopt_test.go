package compile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

const edits = `
name: test
inputs: [{name: topic, default: owls}, {name: tone, default: plain}]
steps:
  - {id: a, subagent: x, prompt: "a {{inputs.topic}}"}
  - {id: b, depends_on: [a], subagent: x, prompt: "b {{steps.a.output}}"}
  - {id: c, subagent: x, prompt: "c {{inputs.tone}}"}
  - {id: sub, workflow: called}
  - {id: bad, subagent: bad, prompt: bad}
  - {id: d, depends_on: [b, c, sub, bad], subagent: x, prompt: "d {{steps.b.output}} {{steps.c.output}} {{steps.sub.output}} {{steps.bad.output}}"}
`

// A run of an edited recipe takes over what is the same with all that it depends on, and nothing that failed.
func TestForkToAnEditedRecipe(t *testing.T) {
	called := "name: called\nsteps: [{id: in, subagent: x, prompt: in}]"
	for _, c := range []struct {
		name     string
		old, new string
		called   string
		parts    map[string]string
		kept     string
	}{
		{"nothing", "", "", called, nil, "a c sub b"},
		{"how it is written", "- {id: a, subagent: x, prompt: \"a {{inputs.topic}}\"}", "# a comment\n  - id: a\n    prompt: a {{inputs.topic}}\n    subagent: x", called, nil, "a c sub b"},
		{"a step", "prompt: \"a {{", "prompt: \"A {{", called, nil, "c sub"},
		{"a later step", "prompt: \"b {{", "prompt: \"B {{", called, nil, "a c sub"},
		{"a default", "default: plain", "default: warm", called, nil, "a sub b"},
		{"the model", "name: test", "name: test\nmodel: other/model", called, nil, ""},
		{"a recipe that is called", "", "", "name: called\nsteps: [{id: in, subagent: x, prompt: other}]", nil, "a c b"},
		{"an agent", "", "", called, map[string]string{"agent x": "2"}, ""},
		{"an order", "depends_on: [a], ", "depends_on: [a, c], ", called, nil, "a c sub"},
		{"a step less", "  - {id: c, subagent: x, prompt: \"c {{inputs.tone}}\"}\n", "", called, nil, "a sub b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &kitchen{
				parts: map[string]string{"agent x": "1"}, also: []*recipe.Recipe{parse(t, called)},
				say: map[string]func(string) (string, error){"bad": func(string) (string, error) { return "", errors.New("no") }},
			}
			r := k.run(t, edits, "")
			r.status(t, runlog.Partial)
			k.say = nil
			text := strings.Replace(edits, c.old, c.new, 1)
			if c.name == "a step less" {
				text = strings.ReplaceAll(strings.ReplaceAll(text, "b, c, sub", "b, sub"), " {{steps.c.output}}", "")
			}
			if c.parts != nil {
				k.parts = c.parts
			}
			w, err := compile.New(&compile.Bundle{Main: parse(t, text), Uses: []*recipe.Recipe{parse(t, c.called)}}, k.options())
			if err != nil {
				t.Fatal(err)
			}
			k.prompts = nil
			f, err := r.engine.ForkTo(t.Context(), r.id, w)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(f.Kept, " "); got != c.kept {
				t.Errorf("kept %q, want %q", got, c.kept)
			}
			run, err := r.engine.Resume(t.Context(), f.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ended(t, r.engine, run)
			got.status(t, runlog.Completed)
			steps := len(parse(t, text).Steps)
			if len(k.prompts) != steps-len(f.Kept) || len(f.Next) != len(k.prompts) {
				t.Errorf("asked %v of %d steps, kept %v, anew %v", k.prompts, steps, f.Kept, f.Next)
			}
			whole := (&kitchen{also: []*recipe.Recipe{parse(t, c.called)}}).run(t, text, "")
			if got.text != whole.text {
				t.Errorf("the output is %s, want %s", got.text, whole.text)
			}
			got.replays(t, k)
			again, err := got.engine.ForkTo(t.Context(), got.id, w) // what a fork has is known as well
			if err != nil || len(again.Kept) != steps {
				t.Errorf("a fork of the fork keeps %v (%v)", again.Kept, err)
			}
		})
	}
}

// Inputs that the edited recipe no longer has go, and one that it needs and nobody gave is an error.
func TestForkToOtherInputs(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, "name: test\ninputs: [x, y]\nsteps: [{id: a, subagent: x, prompt: \"{{inputs.x}}\"}]", `{"x": "1", "y": "2"}`)
	less := k.workflow(t, "name: test\ninputs: [x]\nsteps: [{id: a, subagent: x, prompt: \"{{inputs.x}}\"}]")
	f, err := r.engine.ForkTo(t.Context(), r.id, less)
	if err != nil || !slices.Equal(f.Kept, []string{"a"}) {
		t.Errorf("with an input less it keeps %v (%v)", f, err)
	}
	more := k.workflow(t, "name: test\ninputs: {x: {}, z: {required: true}}\nsteps: [{id: a, subagent: x, prompt: \"{{inputs.x}}\"}]")
	if _, err := r.engine.ForkTo(t.Context(), r.id, more); err == nil || !strings.Contains(err.Error(), "z") {
		t.Errorf("without a required input: %v", err)
	}
	var none *superstep.PointError
	plain := *less
	plain.Adopt = nil
	if _, err := r.engine.ForkTo(t.Context(), r.id, &plain); !errors.As(err, &none) {
		t.Errorf("a workflow that is no recipe: %v", err)
	}
}

// A fork to an edited recipe names the effects that it repeats, with whether they may happen twice, and counts the turns.
func TestForkToNamesWhatItRepeats(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("pay", tool.Once, nil)}
	text := `
name: test
steps:
  - {id: a, tool: pay, args: {text: kept}}
  - {id: b, tool: pay, args: {text: old}}
  - {id: c, depends_on: [b], subagent: x, prompt: "c {{steps.b.output}}"}
`
	r := k.run(t, text, "")
	r.status(t, runlog.Completed)
	f, err := r.engine.ForkTo(t.Context(), r.id, k.workflow(t, strings.Replace(text, "old", "new", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Repeats) != 1 || f.Repeats[0].Path != "b" || f.Repeats[0].Name != "pay" || !f.Repeats[0].Once || f.Turns != 1 {
		t.Errorf("repeats %+v and %d turns, want the once effect of b and one turn", f.Repeats, f.Turns)
	}
}
