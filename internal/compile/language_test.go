package compile_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
)

// A value step filters, picks, joins and merges without an agent.
func TestValues(t *testing.T) {
	k := &kitchen{}
	for _, c := range []struct{ value, want string }{
		{`filter(inputs.found, .score > 3)`, `[{"score":5,"t":"b"},{"score":4,"t":"c"}]`},
		{`map(filter(inputs.found, .score > 3), .t)`, `["b","c"]`},
		{`join(map(inputs.found, .t), ", ")`, `a, b, c`},
		{`concat([1], [2, 3])`, `[1,2,3]`},
		{`flatten([1, [2, [3]], []])`, `[1,2,3]`},
		{`{"best": first(inputs.found).t, "n": len(inputs.found)}`, `{"best":"a","n":3}`},
		{`inputs.found[1].t`, `b`},
		{`1 + 2`, `3`},
		{`inputs.none`, ``},
		{`"{" + "{inputs.found}}"`, `{{inputs.found}}`}, // what it gives is never looked at again
	} {
		r := k.run(t, "name: test\ninputs: {found: {type: list, default: [{t: a, score: 1}, {t: b, score: 5}, {t: c, score: 4}]}, none: {type: object}}\n"+
			"steps:\n  - {id: v, value: '"+c.value+"'}\n  - {id: end, depends_on: [v], subagent: x, prompt: '{{steps.v.output}}'}\noutput: '{{steps.v.output}}'", "")
		r.status(t, runlog.Completed)
		if r.text != c.want {
			t.Errorf("%s gives %s, want %s", c.value, r.text, c.want)
		}
		r.replays(t, k)
	}
	r := k.run(t, "name: test\nsteps: [{id: v, value: 'int(\"x\")'}]", "")
	r.status(t, runlog.Partial)
	if !strings.Contains(r.text, "Error: step 'v' failed: value: ") {
		t.Errorf("what fails says %s", r.text)
	}
	r = k.run(t, "name: test\nsteps: [{id: v, value: '[1, 2]', output: {type: array, items: {type: string}}}]", "")
	r.status(t, runlog.Partial)
	for text, want := range map[string]string{
		`{id: v, value: "{{inputs.a}}"}`: "no braces in an expression",
		`{id: v, value: ""}`:             "filter(steps.rate.output",
		`{id: v, value: "steps.w.output", depends_on: []}, {id: w, subagent: x, prompt: p}`: "add depends_on: [w]",
		`{id: v, value: "nofunction(1)"}`:             "no function `nofunction`",
		`{id: v, value: "1", subagent: x, prompt: p}`: "a step is one thing",
		`{id: v, subagent: x, prompt: p, output: {}, on_error: skip}, {id: w, parallel: [{id: i, value: "1"}], output_retries: 3}`: "`output_retries` goes with `subagent`",
	} {
		if _, problems := recipe.Parse("test.yaml", []byte("name: test\ninputs: [a]\nsteps: ["+text+"]")); problems.Err() == nil || !strings.Contains(problems.Err().Error(), want) {
			t.Errorf("%s: %v, want %q", text, problems.Err(), want)
		}
	}
}

// What can never have an effect is refused; what lacks something to have one is warned of.
func TestUselessOptions(t *testing.T) {
	for text, want := range map[string]string{
		`{id: v, value: "1", retry: 3}`:                         "`retry` does nothing for `value`",
		`{id: v, value: "1", timeout: 3s}`:                      "`timeout` does nothing for `value`",
		`{id: v, ask: "Q?", retry: 3}`:                          "`retry` does nothing for `ask`",
		`{id: v, tool: t, effects: once, retry: 3}`:             "`retry` does nothing beside `effects: once`",
		`{id: v, tool: t, retry: {attempts: 2, backoff: 2}}`:    "`backoff` does nothing without a `delay`",
		`{id: v, tool: t, retry: {attempts: 2, max_delay: 2s}}`: "`max_delay` does nothing without a `backoff`",
		`{id: v, tool: t, retry: {attempts: 2, delay: 1s}}`:     "",
	} {
		_, problems := recipe.Parse("test.yaml", []byte("name: test\nsteps: ["+text+"]"))
		got := ""
		for _, p := range problems {
			got += p.Text
		}
		if refused := strings.Contains(want, "`retry`") || strings.Contains(want, "`timeout`"); (problems.Err() != nil) != refused || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// What depends only on skipped steps is skipped too, unless its own condition looks at them.
func TestSkipsPassOn(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, `
name: test
inputs: [kind]
steps:
  - {id: fix, when: inputs.kind == "bug", subagent: x, prompt: fix}
  - {id: test, depends_on: [fix], subagent: x, prompt: test}
  - {id: ship, depends_on: [test], when: inputs.kind != "draft", subagent: x, prompt: ship}
  - {id: other, when: inputs.kind != "bug", subagent: x, prompt: other}
  - {id: looks, depends_on: [fix], when: steps.fix.status == "skipped", subagent: x, prompt: looks}
  - {id: none, depends_on: [test, ship], tool: nothing}
  - {id: both, depends_on: [ship, other], subagent: x, prompt: "both {{steps.ship.output}}{{steps.other.output}}"}
`, `{"kind": "docs"}`)
	r.status(t, runlog.Completed)
	var asked []string
	for _, p := range k.prompts {
		asked = append(asked, strings.Fields(p)[1])
	}
	slices.Sort(asked)
	if got := strings.Join(asked, " "); got != "both looks other" || r.text != "[both [other]]" {
		t.Errorf("asked %s, the output is %s", got, r.text)
	}
	if got := r.events(t, "not_run"); len(got) != 4 {
		t.Errorf("not run: %v", got)
	}
	r.replays(t, k)
}

// A container with a retry is tried again if something in it failed: in a foreach the items, in a loop the rounds from
// the one in which it did, else the steps and what depends on them.
func TestRetryOfContainers(t *testing.T) {
	called := parse(t, "name: called\nsteps: [{id: a, subagent: x, prompt: a}, {id: b, subagent: x, prompt: b}]")
	for _, c := range []struct{ name, step, asked string }{
		{"depends", `{id: p, retry: 3, parallel: [{id: a, subagent: x, prompt: a}, {id: b, depends_on: [a], subagent: x, prompt: b}, {id: c, depends_on: [b], subagent: x, prompt: "c{{steps.b.output}}"}]}`, "a b b cb cb cError:"},
		{"parallel", `{id: p, retry: 2, parallel: [{id: a, subagent: x, prompt: a}, {id: b, subagent: x, prompt: b}]}`, "a b b"},
		{"foreach", `{id: p, retry: 2, foreach: {in: [a, b, c], steps: [{id: i, subagent: x, prompt: "{{item}}"}]}}`, "a b c b"},
		{"loop", `{id: p, retry: 3, loop: {max: 3, steps: [{id: i, value: 'loop.round == 2 ? "b" : "a"'}, {id: j, depends_on: [i], subagent: x, prompt: "{{steps.i.output}}"}]}}`, "a b a b a"},
		{"workflow", `{id: p, retry: 2, workflow: called}`, "a b b"},
		{"inside", `{id: p, foreach: {in: [1, 2], steps: [{id: q, retry: 2, parallel: [{id: i, subagent: x, prompt: "{{index}}b"}]}]}}`, "0b 1b 0b 1b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := map[string]bool{}
			k := &kitchen{also: []*recipe.Recipe{called}}
			k.say = map[string]func(string) (string, error){"x": func(p string) (string, error) {
				k.mu.Lock()
				defer k.mu.Unlock()
				if strings.HasSuffix(p, "b") && !failed[p] {
					failed[p] = true
					return "", errors.New("no")
				}
				return p, nil
			}}
			r := k.run(t, "name: test\nsteps: ["+c.step+"]", "")
			r.status(t, runlog.Completed)
			var asked []string
			for _, p := range k.prompts {
				asked = append(asked, strings.TrimPrefix(strings.TrimSuffix(p, " step 'b' failed: agent x: no"), "x: "))
			}
			want := strings.Fields(c.asked)
			slices.Sort(asked)
			slices.Sort(want)
			if !slices.Equal(asked, want) {
				t.Errorf("asked %v, want %v", asked, want)
			}
			r.replays(t, k)
		})
	}
	t.Run("and a fork", func(t *testing.T) { // what it could not do in all its attempts is done again alone
		broken := true
		k := &kitchen{say: map[string]func(string) (string, error){"x": func(p string) (string, error) {
			if broken && p == "b" {
				return "", errors.New("no")
			}
			return p, nil
		}}}
		r := k.run(t, `
name: test
steps:
  - {id: p, retry: 2, foreach: {in: [a, b, c], steps: [{id: i, subagent: x, prompt: "{{item}}"}]}}
  - {id: l, retry: 2, loop: {max: 3, steps: [{id: j, value: 'loop.round == 2 ? "b" : "r" + string(loop.round)'}, {id: k, depends_on: [j], subagent: x, prompt: "{{steps.j.output}}"}]}}
`, "")
		r.status(t, runlog.Partial)
		broken = false
		got := r.again(t, k, "b", "b", "r3")
		got.status(t, runlog.Completed)
		got.replays(t, k)
	})
}

// A step without depends_on depends on what it refers to, also from inside of it; one that has it only on that.
func TestDependenciesAreInferred(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, `
name: test
steps:
  - id: last
    foreach: {in: [1, 2], steps: [{id: each, subagent: x, prompt: "{{item}} {{steps.second.output}}"}]}
    when: steps.first.status == "done"
  - {id: second, subagent: x, prompt: "two {{steps.first.output}}"}
  - {id: first, subagent: x, prompt: one}
  - {id: apart, subagent: x, prompt: apart, depends_on: []}
output: {last: "{{steps.last.output}}"}
`, "")
	r.status(t, runlog.Completed)
	if want := `{"last":["[1 [two [one]]]","[2 [two [one]]]"]}`; r.text != want {
		t.Errorf("%s, want %s", r.text, want)
	}
	r.replays(t, k)
	made, problems := recipe.Parse("test.yaml", []byte("name: test\nsteps:\n  - {id: c, subagent: x, prompt: '{{steps.b.output}}{{steps.a.output}}'}\n  - {id: a, tool: t}\n  - {id: b, tool: t}\n"))
	if problems != nil || !slices.Equal(made.Steps[0].DependsOn, []string{"a", "b"}) || len(made.Steps[1].DependsOn) > 0 {
		t.Error(made, problems)
	}
}

// A step's max_turns takes the place of its agent's limit.
func TestMaxTurns(t *testing.T) {
	k, store := &kitchen{}, runlog.NewMemory(nil)
	e := k.engine(t, store, `{name: test, steps: [{id: a, subagent: x, prompt: p, max_turns: 3}]}`)
	run, err := e.Start(t.Context(), "test", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended(t, e, run).status(t, runlog.Completed)
	limited := false
	for r, err := range runlog.Records(t.Context(), store, run.ID(), 0) {
		limited = limited || err == nil && r.Kind == runlog.KindSettled && (strings.Contains(string(r.Data), `"turns":3}`) || strings.Contains(string(r.Data), `"turns":3,`))
	}
	if !limited {
		t.Error("the agent has another limit")
	}
}
