package compile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// feast has every kind of step, and every container in another.
const feast = `
name: test
inputs: [{name: topic, default: go}]
max_concurrency: 3
steps:
  - {id: gather, subagent: x, prompt: "gather {{inputs.topic}}"}
  - {id: broken, subagent: bad, prompt: broken, retry: 2}
  - {id: note, tool: echo, args: {text: "{{steps.gather.output}}"}, depends_on: [gather], effects: idempotent}
  - id: views
    depends_on: [gather]
    parallel:
      - {id: pro, subagent: x, prompt: "pro {{steps.gather.output}}"}
      - id: contra
        loop:
          max: 3
          until: loop.round == 2
          steps:
            - {id: dig, subagent: x, prompt: "dig {{loop.round}} {{loop.output}}"}
            - {id: inner, workflow: inner, inputs: {what: "{{steps.dig.output}}"}, depends_on: [dig]}
  - id: each
    depends_on: [views, broken]
    foreach:
      in: [p, q, r]
      width: 2
      steps:
        - {id: find, subagent: x, prompt: "find {{item}} {{steps.broken.output}}"}
        - {id: weigh, subagent: x, prompt: "weigh {{steps.find.output}}", depends_on: [find], when: index != 1}
      output: ["{{steps.find.output}}", "{{steps.weigh.output}}"]
  - {id: who, ask: "Who?", depends_on: [each]}
  - {id: end, subagent: x, prompt: "{{steps.who.output}} {{steps.each.output}} {{steps.note.output}} {{steps.views.output}}", depends_on: [who, each, note, views], gate: human}
`

func feasting(t testing.TB) *kitchen {
	k := &kitchen{say: map[string]func(string) (string, error){"bad": func(string) (string, error) { return "", fmt.Errorf("it is bad") }}}
	k.tools = []*tool.Tool{k.echo("echo", tool.Pure, nil)}
	k.also = []*recipe.Recipe{parse(t, "name: inner\ninputs: [what]\nsteps: [{id: in1, subagent: x, prompt: \"in {{inputs.what}}\"}]\n")}
	return k
}

func replies(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
	if q.Key == "gate" {
		return &runlog.Answer{Value: json.RawMessage(`"approve"`)}, true
	}
	return &runlog.Answer{Value: json.RawMessage(`"me"`)}, true
}

// Wherever a process dies, the run that is resumed gives the same, and no turn of a model that is
// in the log is paid for again.
func TestAnyCrashGivesOneResult(t *testing.T) {
	k := feasting(t)
	store := runlog.NewMemory(nil)
	e := k.engine(t, store, feast)
	run, err := e.Start(t.Context(), "test", json.RawMessage("{}"), &startOptions{Answer: replies})
	if err != nil {
		t.Fatal(err)
	}
	want := ended(t, e, run)
	want.status(t, runlog.Partial)
	want.replays(t, k)
	var all []runlog.Record
	for r, err := range runlog.Records(t.Context(), store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	e.Close()
	for n := 2; n < len(all); n++ {
		again := runlog.NewMemory(nil)
		j, err := journal.Open(t.Context(), again, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		said := map[string]bool{} // the answers that are in the log
		for _, r := range all[:n] {
			if err := j.Append(t.Context(), "", runlog.Record{Kind: r.Kind, Path: r.Path, Data: r.Data, Time: r.Time}); err != nil {
				t.Fatal(err)
			}
			var d struct{ Kind, Input, Output json.RawMessage }
			if r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &d) == nil && string(d.Kind) == `"model"` {
				said[string(d.Output)] = true
			}
		}
		_ = j.Close(t.Context())
		k := feasting(t)
		e := k.engine(t, again, feast)
		run, err := e.Resume(t.Context(), "run", &resumeOptions{Answer: replies})
		if err != nil {
			t.Fatal(err)
		}
		got := ended(t, e, run)
		if got.Status != want.Status || string(got.Output) != string(want.Output) || !slices.Equal(got.Skipped, want.Skipped) {
			t.Errorf("cut after %d records (%s %s): %s %s %v %v", n, all[n-1].Kind, all[n-1].Path, got.Status, got.Output, got.Skipped, got.Err)
		}
		for _, p := range k.prompts {
			_, prompt, _ := strings.Cut(p, ": ")
			b, _ := json.Marshal("[" + prompt + "]")
			for out := range said {
				if strings.Contains(out, string(b)) {
					t.Errorf("cut after %d records: %q was in the log and is asked for again", n, prompt)
				}
			}
		}
		e.Close()
	}
}
