package compile_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
)

const beside = `
name: test
steps:
  - {id: slow, subagent: x, prompt: slow}
  - {id: one, subagent: x, prompt: one}
  - {id: two, subagent: x, prompt: "two {{steps.one.output}}", depends_on: [one]}
  - {id: three, subagent: x, prompt: "three {{steps.two.output}} {{steps.slow.output}}", depends_on: [two, slow]}
`

// A step that began before its superstep, since something slow held that up, is run again when a run is
// forked from it, and so is what follows from it; what does not is not.
func TestForkFromAnEarlyStep(t *testing.T) {
	k := &kitchen{delay: func(p string) time.Duration {
		if p == "slow" {
			return 150 * time.Millisecond
		}
		return 0
	}}
	r := k.run(t, beside, "")
	r.status(t, runlog.Completed)
	for _, c := range []struct {
		from  string
		edits []graph.Edit
		again []string
		want  string
	}{
		{from: "two", again: []string{"two", "three"}, want: r.text},
		{from: "three", again: []string{"three"}, want: r.text},
		{from: "two", edits: []graph.Edit{{Node: "one", Update: json.RawMessage(`{"status":"new"}`)}}, again: []string{"two", "three"}, want: `[three [two {"status":"new"}] [slow]]`},
		{from: "three", edits: []graph.Edit{{Node: "two", Update: json.RawMessage(`"other"`)}}, again: []string{"three"}, want: `[three other [slow]]`},
	} {
		k.prompts = nil
		m, err := r.engine.At(t.Context(), r.id, c.from)
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.engine.Fork(t.Context(), r.id, m.Seq, &superstep.ForkOptions{Again: []string{c.from}, Edits: c.edits})
		if err != nil {
			t.Fatal(err)
		}
		run, err := r.engine.Resume(t.Context(), f.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ended(t, r.engine, run)
		got.status(t, runlog.Completed)
		var again []string
		for _, p := range k.prompts {
			again = append(again, strings.Fields(p)[1])
		}
		if strings.Join(again, " ") != strings.Join(c.again, " ") || got.text != c.want {
			t.Errorf("from %s: %v run again, want %v; %s, want %s", c.from, again, c.again, got.text, c.want)
		}
		got.replays(t, k)
	}
}

// A fork asks nobody again whose work does not depend on the step it is made from, whenever that ended; what it repeats
// it says, and the numbers of steps that it keeps.
func TestForkKeepsWhatDoesNotDepend(t *testing.T) {
	k := &kitchen{say: map[string]func(string) (string, error){"bad": func(string) (string, error) { return "", errors.New("no") }}}
	r := k.run(t, `
name: test
steps:
  - {id: bad, subagent: bad, prompt: bad}
  - {id: all, foreach: {in: [1, 2, 3], steps: [{id: one, subagent: x, prompt: "item {{item}}"}]}}
  - {id: late, depends_on: [all], subagent: x, prompt: late}
  - {id: end, depends_on: [bad, late], subagent: x, prompt: "end {{steps.bad.output}} {{steps.late.output}}"}
`, "")
	r.status(t, runlog.Partial)
	k.say = nil
	got := r.again(t, k, "bad", "end")
	got.status(t, runlog.Completed)
	if got.text != "[end [bad] [late]]" {
		t.Errorf("the output is %s", got.text)
	}
	got.replays(t, k)
}

// again resumes a partial run and checks which prompts were asked again, by their first words.
func (r *result) again(t *testing.T, k *kitchen, want ...string) *result {
	t.Helper()
	k.prompts = nil
	f, err := r.engine.ForkFailed(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	run, err := r.engine.Resume(t.Context(), f.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ended(t, r.engine, run)
	var again []string
	for _, p := range k.prompts {
		again = append(again, strings.Join(strings.Fields(p)[1:2], " "))
	}
	slices.Sort(again)
	slices.Sort(want)
	if !slices.Equal(again, want) {
		t.Errorf("asked again: %v, want %v", k.prompts, want)
	}
	return got
}

// What failed inside of a container is done again with what follows from it there; its other items, rounds and steps are not.
func TestForkOfWhatFailedInside(t *testing.T) {
	broken := true
	fails := func(words ...string) func(string) (string, error) {
		return func(p string) (string, error) {
			for _, w := range words {
				if broken && strings.HasPrefix(p, w+" ") {
					return "", errors.New("no")
				}
			}
			return "[" + p + "]", nil
		}
	}
	called := parse(t, `
name: called
inputs: [x]
steps:
  - {id: in, subagent: x, prompt: "in {{inputs.x}}"}
  - {id: out, depends_on: [in], subagent: x, prompt: "out {{steps.in.output}}"}
`)
	for _, c := range []struct {
		name, steps string
		fails       []string
		again       []string
	}{
		{"foreach", `
  - id: all
    foreach:
      in: [1, 2, 3]
      steps:
        - {id: a, subagent: x, prompt: "a{{item}} ."}
        - {id: b, subagent: x, prompt: "b{{item}} ."}
        - {id: c, depends_on: [a], subagent: x, prompt: "c{{item}} {{steps.a.output}}"}
  - {id: beside, subagent: x, prompt: beside .}
  - {id: end, depends_on: [all, beside], subagent: x, prompt: "end {{steps.all.output}}"}`, []string{"a2"}, []string{"a2", "c2", "end"}},
		{"parallel", `
  - id: all
    parallel:
      - {id: a, subagent: x, prompt: "a ."}
      - {id: b, subagent: x, prompt: "b ."}
  - {id: end, depends_on: [all], subagent: x, prompt: "end {{steps.all.output}}"}`, []string{"a"}, []string{"a", "end"}},
		{"loop", `
  - id: all
    loop:
      max: 3
      steps:
        - {id: a, subagent: x, prompt: "a{{loop.round}} ."}
        - {id: b, depends_on: [a], subagent: x, prompt: "b{{loop.round}} ."}`, []string{"b2"}, []string{"b2", "a3", "b3"}},
		{"workflow", `
  - {id: one, workflow: called, inputs: {x: y}}
  - {id: end, depends_on: [one], subagent: x, prompt: "end {{steps.one.output}}"}`, []string{"out"}, []string{"out", "end"}},
		{"deep", `
  - id: all
    foreach:
      in: [1, 2]
      as: x
      steps:
        - id: again
          loop:
            max: 2
            steps:
              - id: both
                parallel:
                  - {id: a, subagent: x, prompt: "a{{x}}{{loop.round}} ."}
                  - {id: b, subagent: x, prompt: "b{{x}}{{loop.round}} ."}`, []string{"b21"}, []string{"b21", "a22", "b22"}},
		{"two", `
  - {id: a, subagent: x, prompt: "a ."}
  - {id: b, depends_on: [a], subagent: x, prompt: "b ."}
  - {id: c, depends_on: [b], subagent: x, prompt: "c ."}
  - {id: d, depends_on: [a], subagent: x, prompt: "d ."}
  - {id: e, depends_on: [d], subagent: x, prompt: "e ."}`, []string{"c", "e"}, []string{"c", "e"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken = true
			k := &kitchen{say: map[string]func(string) (string, error){"x": fails(c.fails...)}, also: []*recipe.Recipe{called}}
			text := "name: test\nsteps:" + c.steps
			r := k.run(t, text, "")
			r.status(t, runlog.Partial)
			broken = false
			whole := k.run(t, text, "")
			whole.status(t, runlog.Completed)
			got := r.again(t, k, c.again...)
			got.status(t, runlog.Completed)
			if got.text != whole.text {
				t.Errorf("the output is %s, want %s", got.text, whole.text)
			}
			got.replays(t, k)
		})
	}
}

// A fork of a partial run that fails again can be resumed once more, and a named step is done again alone.
func TestForkOfAForkThatFailed(t *testing.T) {
	broken := true
	k := &kitchen{say: map[string]func(string) (string, error){"x": func(p string) (string, error) {
		if broken && strings.HasPrefix(p, "a2") {
			return "", errors.New("no")
		}
		return "[" + p + "]", nil
	}}}
	r := k.run(t, `
name: test
steps:
  - {id: first, subagent: x, prompt: first}
  - {id: all, depends_on: [first], foreach: {in: [1, 2, 3], steps: [{id: a, subagent: x, prompt: "a{{item}} ."}]}}
  - {id: beside, subagent: x, prompt: beside}
`, "")
	r.status(t, runlog.Partial)
	twice := r.again(t, k, "a2")
	twice.status(t, runlog.Partial)
	broken = false
	got := twice.again(t, k, "a2")
	got.status(t, runlog.Completed)
	got.replays(t, k)
	if _, err := got.engine.ForkFailed(t.Context(), got.id); err == nil || !strings.Contains(err.Error(), "is completed") {
		t.Errorf("forking what failed in a completed run gives %v", err)
	}
}

// A step beside the one that a fork is made from, or after it in time, can be given another output, too.
func TestForkEditsWhatEndedLater(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, `
name: test
steps:
  - {id: a, subagent: x, prompt: a}
  - {id: b, subagent: x, prompt: b}
  - {id: c, depends_on: [b], subagent: x, prompt: "c {{steps.b.output}}"}
  - {id: d, depends_on: [c], subagent: x, prompt: "d {{steps.c.output}}"}
  - {id: e, depends_on: [a, d], subagent: x, prompt: "e {{steps.a.output}} {{steps.d.output}}"}
`, "")
	r.status(t, runlog.Completed)
	for _, c := range []struct {
		edits []graph.Edit
		want  string
		again int
	}{
		{[]graph.Edit{{Node: "c", Update: json.RawMessage(`"other"`)}}, "[e [a] [d other]]", 3},
	} {
		k.prompts = nil
		f, err := r.engine.Fork(t.Context(), r.id, 0, &superstep.ForkOptions{Again: []string{"a"}, Edits: c.edits})
		if err != nil {
			t.Fatal(err)
		}
		run, err := r.engine.Resume(t.Context(), f.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ended(t, r.engine, run)
		got.status(t, runlog.Completed)
		if got.text != c.want || len(k.prompts) != c.again {
			t.Errorf("%v: gives %s after %v, want %s after %d prompts", c.edits, got.text, k.prompts, c.want, c.again)
		}
		got.replays(t, k)
	}
	both := []graph.Edit{{Node: "b", Update: json.RawMessage(`"B"`)}, {Node: "d", Update: json.RawMessage(`"D"`)}}
	if _, err := r.engine.Fork(t.Context(), r.id, 0, &superstep.ForkOptions{Again: []string{"a"}, Edits: both}); err == nil || !strings.Contains(err.Error(), "the edit of d has no effect") {
		t.Errorf("an edit of what depends on another one gives %v", err)
	}
}

// A fork made after a step had failed cannot do that step again: it names the run that can, and makes no empty fork.
func TestForkOfAForkAfterTheFailure(t *testing.T) {
	broken := true
	k := &kitchen{say: map[string]func(string) (string, error){"bad": func(p string) (string, error) {
		if broken {
			return "", errors.New("no")
		}
		return "[" + p + "]", nil
	}}}
	r := k.run(t, `
name: test
steps:
  - {id: x, subagent: bad, prompt: x}
  - {id: y, subagent: x, prompt: y}
  - {id: z, depends_on: [x, y], subagent: x, prompt: "z {{steps.x.output}} {{steps.y.output}}"}
  - {id: q, depends_on: [z], subagent: x, prompt: "q {{steps.z.output}}"}
`, "")
	r.status(t, runlog.Partial)
	forks := func(id string) *result {
		t.Helper()
		m, err := r.engine.At(t.Context(), id, "q")
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.engine.Fork(t.Context(), id, m.Seq, &superstep.ForkOptions{Again: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		run, err := r.engine.Resume(t.Context(), f.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ended(t, r.engine, run)
	}
	once := forks(r.id)
	twice := forks(once.id)
	broken = false
	for _, late := range []*result{once, twice} {
		late.status(t, runlog.Partial)
		in, tasks, err := r.engine.Failed(t.Context(), late.id)
		if err != nil || in != r.id || !slices.Equal(tasks, []string{"x"}) {
			t.Errorf("%v failed in %s, want x in %s: %v", tasks, in, r.id, err)
		}
		var none *superstep.PointError
		if f, err := r.engine.ForkFailed(t.Context(), late.id); !errors.As(err, &none) || !strings.Contains(err.Error(), "fork run "+r.id+" from x") {
			t.Errorf("forked as %+v: %v", f, err)
		}
		if f, err := r.engine.Fork(t.Context(), late.id, 0, &superstep.ForkOptions{Again: []string{"x"}}); err == nil {
			t.Errorf("an empty fork: %+v", f)
		}
	}
	got := r.again(t, k, "x", "z", "q")
	got.status(t, runlog.Completed)
	got.replays(t, k)
	if err := r.engine.Delete(t.Context(), r.id); err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine.ForkFailed(t.Context(), once.id); err == nil || !strings.Contains(err.Error(), "start a new run") {
		t.Errorf("without its parent: %v", err)
	}
}
