package compile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

const chain = `
name: test
inputs:
  - name: topic
    required: true
  - name: depth
    default: deep
steps:
  - id: gather
    subagent: researcher
    prompt: "Research {{inputs.topic}} ({{inputs.depth}})."
  - id: brief
    subagent: writer
    depends_on: [gather]
    prompt: "Write: {{steps.gather.output}}"
`

func TestStepsFeedEachOther(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, chain, `{"topic":"Go"}`)
	r.status(t, runlog.Completed)
	if want := "[Write: [Research Go (deep).]]"; r.text != want {
		t.Errorf("%s, want %s", r.text, want)
	}
	if k.opened != 1 || k.closed != 1 {
		t.Errorf("opened %d times, closed %d times", k.opened, k.closed)
	}
	r.replays(t, k)
}

// Outputs are put in once: what looks like a template in them is text.
func TestOutputsAreNoTemplates(t *testing.T) {
	k := &kitchen{say: map[string]func(string) (string, error){"researcher": func(string) (string, error) { return "{{inputs.topic}} {{steps.x.output}} {{", nil }}}
	r := k.run(t, chain, `{"topic":"{{inputs.depth}}"}`)
	r.status(t, runlog.Completed)
	if want := "[Write: {{inputs.topic}} {{steps.x.output}} {{]"; r.text != want {
		t.Errorf("%s, want %s", r.text, want)
	}
	if k.prompts[0] != "researcher: Research {{inputs.depth}} (deep)." {
		t.Error(k.prompts[0])
	}
}

const three = `
name: test
max_concurrency: %d
steps:
  - {id: a, subagent: x, prompt: a}
  - {id: b, subagent: x, prompt: b}
  - {id: c, subagent: x, prompt: c}
output: {all: ["{{steps.a.output}}", "{{steps.b.output}}", "{{steps.c.output}}"]}
`

// A step starts when its own dependencies are done: c does while b, which it has nothing to do with, still runs.
func TestStepsWaitForTheirDependenciesAlone(t *testing.T) {
	begun := make(chan struct{})
	k := &kitchen{say: map[string]func(string) (string, error){
		"slow": func(string) (string, error) {
			select {
			case <-begun:
				return "late", nil
			case <-time.After(time.Minute):
				return "", errors.New("c did not start while b ran")
			}
		},
		"last": func(string) (string, error) { close(begun); return "early", nil },
	}}
	r := k.run(t, `
name: test
steps:
  - {id: step-a, subagent: x, prompt: a}
  - {id: b, subagent: slow, prompt: b}
  - {id: c, subagent: last, prompt: "{{steps.step-a.output}}", depends_on: [step-a]}
output: "{{steps.c.output}} {{steps.b.output}}"
`, "")
	r.status(t, runlog.Completed)
	if r.text != "early late" {
		t.Error(r.text)
	}
}

func TestIndependentStepsRunSideBySide(t *testing.T) {
	for width, peak := range map[int]int{4: 3, 2: 2, 1: 1} {
		k := &kitchen{delay: func(string) time.Duration { return 30 * time.Millisecond }}
		r := k.run(t, fmt.Sprintf(three, width), "")
		r.status(t, runlog.Completed)
		if r.text != `{"all":["[a]","[b]","[c]"]}` || k.peak != peak {
			t.Errorf("width %d: %s, peak %d", width, r.text, k.peak)
		}
		r.replays(t, k)
	}
	k := &kitchen{most: 2, delay: func(string) time.Duration { return 30 * time.Millisecond }}
	if k.run(t, fmt.Sprintf(three, 1000), "").status(t, runlog.Completed); k.peak != 2 {
		t.Errorf("the host allows 2 steps at once, and %d were", k.peak)
	}
}

func failing(why string) map[string]func(string) (string, error) {
	return map[string]func(string) (string, error){"researcher": func(string) (string, error) { return "", errors.New(why) }}
}

// A step that fails gives its error to its dependents, which are marked, and the run ends partial.
func TestFailureBecomesInput(t *testing.T) {
	k := &kitchen{say: failing("no network")}
	r := k.run(t, chain, `{"topic":"Go"}`)
	r.status(t, runlog.Partial)
	if !strings.HasPrefix(r.text, "[Write: Error: step 'gather' failed: ") || !strings.Contains(r.text, "no network") {
		t.Error(r.text)
	}
	if diff := cmp.Diff([]string{"gather"}, r.Skipped); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`brief {"steps":["gather"]}`}, r.events(t, "error_input")); diff != "" {
		t.Error(diff)
	}
	r.replays(t, k)
}

func TestOnErrorFail(t *testing.T) {
	k := &kitchen{say: failing("no network")}
	r := k.run(t, strings.Replace(chain, "    subagent: researcher", "    on_error: fail\n    subagent: researcher", 1), `{"topic":"Go"}`)
	r.status(t, runlog.Failed)
	if k.asked("writer") != 0 || !strings.Contains(r.Err.Error(), "no network") {
		t.Error(k.prompts, r.Err)
	}
	// it goes on when the reason is gone
	k.say = nil
	again, err := r.engine.Resume(t.Context(), r.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	r = ended(t, r.engine, again)
	r.status(t, runlog.Completed)
	if r.text != "[Write: [Research Go (deep).]]" {
		t.Error(r.text)
	}
}

func TestOnErrorSkip(t *testing.T) {
	const text = `
name: test
steps:
  - {id: a, subagent: researcher, prompt: a, on_error: skip}
  - {id: b, subagent: x, prompt: "b {{steps.a.output}}", depends_on: [a]}
  - {id: c, subagent: x, prompt: "c {{steps.b.output}}", depends_on: [b]}
  - {id: d, subagent: x, prompt: d}
  - {id: e, subagent: x, prompt: "{{steps.d.output}}", depends_on: [d]}
output: "{{steps.c.status}} {{steps.e.output}} {{steps.a.status}}"
`
	k := &kitchen{say: failing("no")}
	r := k.run(t, text, "")
	r.status(t, runlog.Partial)
	if r.text != "skipped [[d]] failed" || k.asked("x") != 2 || len(r.events(t, "not_run")) != 2 {
		t.Error(r.text, k.prompts, r.events(t, "not_run"))
	}
	r.replays(t, k)
}

func TestRetry(t *testing.T) {
	n := 0
	k := &kitchen{say: map[string]func(string) (string, error){"researcher": func(string) (string, error) {
		if n++; n < 3 {
			return "", errors.New("not yet")
		}
		return "got it", nil
	}}}
	r := k.run(t, strings.Replace(chain, "    subagent: researcher", "    retry: 3\n    subagent: researcher", 1), `{"topic":"Go"}`)
	r.status(t, runlog.Completed)
	if r.text != "[Write: got it]" || n != 3 {
		t.Error(r.text, n)
	}
	r.replays(t, k)
	n = 0
	k2 := &kitchen{say: k.say}
	r = k2.run(t, strings.Replace(chain, "    subagent: researcher", "    retry: {attempts: 2, delay: 1ms}\n    subagent: researcher", 1), `{"topic":"Go"}`)
	r.status(t, runlog.Partial)
	if n != 2 {
		t.Error(n)
	}
}

// A step that is out of time states its gap, and what depends on it goes on.
func TestTimeout(t *testing.T) {
	k := &kitchen{delay: func(prompt string) time.Duration {
		if strings.HasPrefix(prompt, "Research") {
			return time.Minute
		}
		return 0
	}}
	r := k.run(t, strings.Replace(chain, "    subagent: researcher", "    timeout: 50ms\n    subagent: researcher", 1)+`output: "{{steps.gather.status}}: {{steps.brief.output}}"`+"\n", `{"topic":"Go"}`)
	r.status(t, runlog.Partial)
	if !strings.HasPrefix(r.text, "degraded: [Write: Step 'gather' is incomplete: it did not end within 50ms") {
		t.Error(r.text)
	}
	if got := r.events(t, "error_input"); len(got) != 1 {
		t.Error(got)
	}
	r.replays(t, k)
}

// The time of a step does not count what it waits for a place.
func TestTimeoutDoesNotCountQueueing(t *testing.T) {
	k := &kitchen{delay: func(string) time.Duration { return 60 * time.Millisecond }}
	var b strings.Builder
	b.WriteString("name: test\nmax_concurrency: 1\nsteps:\n")
	for i := range 5 {
		fmt.Fprintf(&b, "  - {id: s%d, subagent: x, prompt: p, timeout: 200ms}\n", i)
	}
	k.run(t, b.String(), "").status(t, runlog.Completed)
}

func TestWhen(t *testing.T) {
	const text = `
name: test
inputs: [{name: kind, required: true}]
steps:
  - {id: classify, subagent: c, prompt: "{{inputs.kind}}"}
  - {id: bug, subagent: x, prompt: bug, depends_on: [classify], when: 'steps.classify.output contains "bug"'}
  - {id: idea, subagent: x, prompt: idea, depends_on: [classify], when: 'inputs.kind == "idea"'}
  - {id: report, subagent: x, prompt: "{{steps.bug.output}}{{steps.idea.output}}|{{steps.idea.status}}", depends_on: [bug, idea]}
`
	k := &kitchen{}
	r := k.run(t, text, `{"kind":"bug"}`)
	r.status(t, runlog.Completed)
	if r.text != "[[bug]|skipped]" || k.asked("x") != 2 {
		t.Error(r.text, k.prompts)
	}
	if got := r.events(t, "not_run"); len(got) != 1 || !strings.HasPrefix(got[0], "idea ") {
		t.Error(got)
	}
	r.replays(t, k)
}

func TestForeach(t *testing.T) {
	const text = `
name: test
inputs: [{name: files, type: list, required: true}]
steps:
  - id: each
    foreach:
      in: "{{inputs.files}}"
      as: file
      width: 2
      steps:
        - {id: find, subagent: f, prompt: "{{file.name}} {{index}}"}
        - {id: check, subagent: c, prompt: "{{steps.find.output}} of {{file}}", depends_on: [find]}
  - {id: sum, subagent: s, prompt: "{{steps.each.output.1}}", depends_on: [each]}
output: {each: "{{steps.each.output}}", sum: "{{steps.sum.output}}"}
`
	k := &kitchen{}
	r := k.run(t, text, `{"files":[{"name":"a"},{"name":"b"},{"name":"c"}]}`)
	r.status(t, runlog.Completed)
	var out struct {
		Each []string
		Sum  string
	}
	if err := json.Unmarshal(r.Output, &out); err != nil {
		t.Fatal(err)
	}
	want := []string{`[[a 0] of {"name":"a"}]`, `[[b 1] of {"name":"b"}]`, `[[c 2] of {"name":"c"}]`}
	if diff := cmp.Diff(want, out.Each); diff != "" || out.Sum != "["+want[1]+"]" {
		t.Error(diff, out.Sum)
	}
	r.replays(t, k)
	r = k.run(t, text, `{"files":[]}`)
	r.status(t, runlog.Partial) // there is no item 1 to speak of
	if !strings.Contains(r.text, `"each":[]`) {
		t.Error(r.text)
	}
}

// Items do not wait for each other between their steps.
func TestForeachIsAPipeline(t *testing.T) {
	second := make(chan struct{})
	k := &kitchen{delay: func(p string) time.Duration {
		switch p {
		case "second 0":
			close(second)
		case "first 1":
			select {
			case <-second:
			case <-time.After(time.Minute):
				t.Error("the items have waited for each other")
			}
		}
		return 0
	}}
	r := k.run(t, `
name: test
steps:
  - id: each
    foreach:
      in: [x, y]
      steps:
        - {id: a, subagent: x, prompt: "first {{index}}"}
        - {id: b, subagent: x, prompt: "second {{index}}", depends_on: [a]}
`, "")
	r.status(t, runlog.Completed)
}

func TestForeachWantsAList(t *testing.T) {
	const text = `
name: test
steps:
  - {id: find, subagent: f, prompt: p}
  - {id: each, depends_on: [find], foreach: {in: "{{steps.find.output}}", steps: [{id: a, subagent: x, prompt: "{{item}}"}]}}
`
	for said, want := range map[string]string{`just text`: "Error: step 'each' failed: in: want a list", `["p", 2]`: `["[p]","[2]"]`, `{"a":1}`: "want a list"} {
		k := &kitchen{say: map[string]func(string) (string, error){"f": func(string) (string, error) { return said, nil }}}
		if r := k.run(t, text, ""); !strings.Contains(r.text, want) {
			t.Errorf("%s: %s", said, r.text)
		}
	}
}

const loops = `
name: test
steps:
  - {id: topic, subagent: t, prompt: topic}
  - id: refine
    depends_on: [topic]
    loop:
      max: %d
      until: 'steps.judge.output == "good"'
      steps:
        - {id: draft, subagent: d, prompt: "{{steps.topic.output}} round {{loop.round}} after {{loop.output}}"}
        - {id: judge, subagent: j, prompt: "{{steps.draft.output}}", depends_on: [draft]}
      output: "{{steps.draft.output}}"
  - {id: end, subagent: e, prompt: "{{steps.refine.status}} {{steps.refine.output}}", depends_on: [refine]}
`

func TestLoop(t *testing.T) {
	judge := func(p string) (string, error) {
		if strings.Contains(p, "round 3") {
			return "good", nil
		}
		return "bad", nil
	}
	k := &kitchen{say: map[string]func(string) (string, error){"j": judge}}
	r := k.run(t, fmt.Sprintf(loops, 5), "")
	r.status(t, runlog.Completed)
	if want := "[done [[topic] round 3 after [[topic] round 2 after [[topic] round 1 after ]]]]"; r.text != want || k.asked("d: ") != 3 {
		t.Errorf("%s, want %s; %d drafts", r.text, want, k.asked("d: "))
	}
	r.replays(t, k)
	k = &kitchen{say: map[string]func(string) (string, error){"j": judge}}
	r = k.run(t, fmt.Sprintf(loops, 2), "")
	r.status(t, runlog.Partial)
	if !strings.HasPrefix(r.text, "[degraded [[topic] round 2 after") || strings.Join(r.Skipped, " ") != "refine" {
		t.Error(r.text, r.Skipped)
	}
	r.replays(t, k)
}

func TestParallel(t *testing.T) {
	const text = `
name: test
steps:
  - {id: seed, subagent: x, prompt: seed}
  - id: views
    depends_on: [seed]
    parallel:
      - {id: a, subagent: x, prompt: "a {{steps.seed.output}}"}
      - {id: b, subagent: researcher, prompt: b}
      - id: deep
        parallel: [{id: c, subagent: x, prompt: c}, {id: d, subagent: x, prompt: "{{steps.c.output}}", depends_on: [c]}]
  - {id: end, subagent: x, prompt: "{{steps.views.output.a}} {{steps.views.output.deep.d}} {{steps.views.output.b}}", depends_on: [views]}
`
	k := &kitchen{}
	r := k.run(t, text, "")
	r.status(t, runlog.Completed)
	if r.text != "[[a [seed]] [[c]] [b]]" {
		t.Error(r.text)
	}
	r.replays(t, k)
	k = &kitchen{say: failing("broken")}
	r = k.run(t, text, "")
	r.status(t, runlog.Partial)
	if strings.Join(r.Skipped, " ") != "views/b" || !strings.Contains(r.text, "Error: step 'b' failed") {
		t.Error(r.text, r.Skipped)
	}
	if got := r.events(t, "error_input"); len(got) != 1 || !strings.HasPrefix(got[0], "end ") {
		t.Error(got)
	}
	r.replays(t, k)
}

func TestOutputSchema(t *testing.T) {
	const text = `
name: test
steps:
  - id: find
    subagent: f
    prompt: p
    output: {type: array, items: {type: string}}
    output_retries: 1
  - {id: each, depends_on: [find], foreach: {in: "{{steps.find.output}}", steps: [{id: a, subagent: x, prompt: "{{item}}"}]}}
`
	answers := []string{"no JSON", `{"result":["a","b"]}`}
	n := 0
	k := &kitchen{say: map[string]func(string) (string, error){"f": func(string) (string, error) { n++; return answers[min(n, len(answers))-1], nil }}}
	r := k.run(t, text, "")
	r.status(t, runlog.Completed)
	if r.text != `["[a]","[b]"]` || n != 2 {
		t.Error(r.text, n)
	}
	if !strings.Contains(k.prompts[1], "cannot be used") {
		t.Error("it is not told what is wrong:", k.prompts[1])
	}
	r.replays(t, k)
	n, answers = 0, []string{"no"}
	r = k.run(t, text, "")
	r.status(t, runlog.Partial)
	if n != 2 || !strings.Contains(r.text, "want a list") {
		t.Error(n, r.text)
	}
}

func TestTool(t *testing.T) {
	const text = `
name: test
inputs: [{name: list, type: list, default: [1, 2]}]
steps:
  - {id: call, tool: echo, args: {text: "x {{inputs.list}}", list: "{{inputs.list}}"}}
  - {id: parsed, tool: echo, args: {list: [3]}, output: {type: object}}
output: ["{{steps.call.output}}", "{{steps.parsed.output.list.0}}"]
`
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("echo", tool.Pure, nil)}
	r := k.run(t, text, "")
	r.status(t, runlog.Completed)
	var out []any
	_ = json.Unmarshal(r.Output, &out)
	if len(out) != 2 || out[1] != 3.0 || !strings.Contains(out[0].(string), `"list":[1,2]`) || !strings.Contains(out[0].(string), `x [1,2]`) {
		t.Error(r.text)
	}
	r.replays(t, k)
	// a failure of it is one of the step, and each attempt calls it again
	n := 0
	k = &kitchen{}
	k.tools = []*tool.Tool{k.echo("echo", tool.Once, func(string) (string, error) {
		if n++; n < 2 {
			return "", errors.New("busy")
		}
		return "ok", nil
	})}
	r = k.run(t, "name: test\nsteps: [{id: call, tool: echo, retry: 2}]\n", "")
	r.status(t, runlog.Completed)
	if r.text != "ok" || n != 2 {
		t.Error(r.text, n)
	}
	r.replays(t, k)
	r = k.run(t, "name: test\nsteps: [{id: call, tool: echo, args: {text: 7}}]\n", "")
	r.status(t, runlog.Partial)
	if n != 2 || !strings.Contains(r.text, "text") {
		t.Error(n, r.text)
	}
}

type deny struct{ tool.Verdict }

func (d deny) Check(*tool.Tool, *tool.Call) tool.Verdict { return d.Verdict }

// The rules about what agents may do hold for tool steps too.
func TestToolIsGated(t *testing.T) {
	const text = "name: test\nsteps: [{id: call, tool: echo}]\n"
	k := &kitchen{gate: deny{tool.Verdict{Decision: tool.Deny, Reason: "not here"}}}
	k.tools = []*tool.Tool{k.echo("echo", tool.Pure, nil)}
	r := k.run(t, text, "")
	r.status(t, runlog.Partial)
	if len(k.calls) > 0 || !strings.Contains(r.text, "not here") {
		t.Error(k.calls, r.text)
	}
	k.gate = deny{tool.Verdict{Decision: tool.Ask, Subject: "echo"}}
	r = k.run(t, text, "")
	r.status(t, runlog.Paused)
	r = r.answer(t, "call", `"once"`)
	r.status(t, runlog.Completed)
	if len(k.calls) != 1 {
		t.Error(k.calls)
	}
	r.replays(t, k)
}

func TestAsk(t *testing.T) {
	const text = `
name: test
steps:
  - {id: who, ask: {question: "For whom is {{steps.a.output}}?", options: [experts, all], default: all}, depends_on: [a]}
  - {id: a, subagent: x, prompt: a}
  - {id: more, ask: {question: More?, form: [{name: n, type: integer, required: true}, {name: why, default: none}]}}
  - {id: end, subagent: x, prompt: "{{steps.who.output}} {{steps.more.output.n}} {{steps.more.output.why}}", depends_on: [who, more]}
`
	k := &kitchen{}
	r := k.run(t, text, "")
	r.status(t, runlog.Paused)
	if len(r.Open) != 2 || r.Open[1].Text != "For whom is [a]?" {
		t.Fatal(r.Open)
	}
	if err := r.engine.Answer(t.Context(), r.id, "who", &runlog.Answer{Key: "answer", Value: json.RawMessage(`"nobody"`)}); err == nil {
		t.Error("an answer that is not offered is taken")
	}
	if err := r.engine.Answer(t.Context(), r.id, "more", &runlog.Answer{Key: "answer", Value: json.RawMessage(`{"n":"x"}`)}); err == nil {
		t.Error("an answer of the wrong type is taken")
	}
	r = r.answer(t, "who", `"experts"`)
	r.status(t, runlog.Paused)
	r = r.answer(t, "more", `{"n":3}`)
	r.status(t, runlog.Completed)
	if r.text != "[experts 3 none]" || k.asked("x: a") != 1 {
		t.Error(r.text, k.prompts)
	}
	r.replays(t, k)
}

const gated = `
name: test
steps:
  - {id: first, subagent: x, prompt: one%s}
  - {id: second, subagent: y, prompt: "two {{steps.first.output}}", depends_on: [first], gate: human}
  - {id: third, subagent: z, prompt: "three {{steps.second.output}}", depends_on: [second]}
`

func TestGate(t *testing.T) {
	text := fmt.Sprintf(gated, "")
	k := &kitchen{}
	r := k.run(t, text, "")
	r.status(t, runlog.Paused)
	if k.asked("y") != 0 || len(r.Open) != 1 || !strings.Contains(r.Open[0].Text, "two [one]") || strings.Contains(r.Open[0].Text, "{{") {
		t.Fatal(k.prompts, r.Open)
	}
	if err := r.engine.Answer(t.Context(), r.id, "second", &runlog.Answer{Key: "gate", Value: json.RawMessage(`"perhaps"`)}); err == nil {
		t.Error("an unknown decision is taken")
	}
	done := r.answer(t, "second", `"approve"`)
	done.status(t, runlog.Completed)
	if done.text != "[three [two [one]]]" || k.asked("x") != 1 {
		t.Error(done.text, k.prompts)
	}
	if err := r.engine.Answer(t.Context(), r.id, "second", &runlog.Answer{Key: "gate", Value: json.RawMessage(`"approve"`)}); err == nil {
		t.Error("a second answer is taken")
	}
	done.replays(t, k)
	for _, answer := range []string{`"edit: other {{inputs.x}}"`, `{"decision":"edit","text":"other {{inputs.x}}"}`} {
		k = &kitchen{}
		r = k.run(t, text, "").answer(t, "second", answer)
		r.status(t, runlog.Completed)
		if r.text != "[three [other {{inputs.x}}]]" {
			t.Error(r.text)
		}
	}
	for answer, why := range map[string]string{`"reject"`: "rejected by operator", `"reject: too dear"`: "rejected by operator: too dear", `{"decision":"reject","reason":"no"}`: "rejected by operator: no"} {
		k = &kitchen{}
		r = k.run(t, text, "").answer(t, "second", answer)
		r.status(t, runlog.Failed)
		if k.asked("y")+k.asked("z") != 0 || !strings.Contains(r.Err.Error(), why) {
			t.Error(k.prompts, r.Err)
		}
		r.replays(t, k)
	}
}

func TestGateOnTheFirstStep(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, fmt.Sprintf(gated, ", gate: {message: Begin?}"), "")
	r.status(t, runlog.Paused)
	if len(k.prompts) != 0 || !strings.Contains(r.Open[0].Text, "Begin?") {
		t.Error(k.prompts, r.Open)
	}
	r = r.answer(t, "first", `"approve"`)
	r.status(t, runlog.Paused) // two gates stop in turn
	r = r.answer(t, "second", `"approve"`)
	r.status(t, runlog.Completed)
	r.replays(t, k)
}

func TestGateEditsArguments(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("echo", tool.Once, nil)}
	r := k.run(t, "name: test\nsteps: [{id: call, tool: echo, args: {text: a}, gate: human}]\n", "")
	r.status(t, runlog.Paused)
	r = r.answer(t, "call", `"edit: {\"text\":\"b\"}"`)
	r.status(t, runlog.Completed)
	if r.text != `{"text":"b"}` {
		t.Error(r.text)
	}
}

// A failure before a pause is still reported after it.
func TestFailureBeforeAPause(t *testing.T) {
	k := &kitchen{say: failing("no")}
	r := k.run(t, `
name: test
steps:
  - {id: a, subagent: researcher, prompt: a}
  - {id: b, subagent: x, prompt: "{{steps.a.output}}", depends_on: [a], gate: human}
`, "")
	r.status(t, runlog.Paused)
	r = r.answer(t, "b", `"approve"`)
	r.status(t, runlog.Partial)
	if strings.Join(r.Skipped, " ") != "a" {
		t.Error(r.Skipped)
	}
	r.replays(t, k)
}

func TestRecipeWithinRecipe(t *testing.T) {
	inner := parse(t, `
name: inner
inputs: [{name: topic, required: true}, {name: n, type: integer, default: 2}]
steps:
  - {id: a, subagent: i, prompt: "{{inputs.topic}} {{inputs.n}}"}
`)
	const text = `
name: test
steps:
  - {id: a, subagent: x, prompt: a}
  - {id: call, workflow: inner, inputs: {topic: "{{steps.a.output}}"}, depends_on: [a]}
  - id: each
    depends_on: [a]
    foreach: {in: [p, q], steps: [{id: one, workflow: inner, inputs: {topic: "{{item}}", n: "{{index}}"}}]}
output: ["{{steps.call.output}}", "{{steps.each.output}}"]
`
	k := &kitchen{also: []*recipe.Recipe{inner}}
	r := k.run(t, text, "")
	r.status(t, runlog.Completed)
	if r.text != `["[[a] 2]",["[p 0]","[q 1]"]]` {
		t.Error(r.text)
	}
	r.replays(t, k)
	r = k.run(t, "name: test\nsteps: [{id: call, workflow: inner, inputs: {topic: x, n: many}}]\n", "")
	r.status(t, runlog.Partial)
	if !strings.Contains(r.text, "is the string \"many\", want integer") {
		t.Error(r.text)
	}
}

func TestWorkflowOfTheHost(t *testing.T) {
	type in struct {
		Q string `json:"q"`
	}
	g := graph.New("host", func(s, u string) string { return s + u })
	g.Add("n", func(_ context.Context, s string) (string, error) { return "!", nil })
	g.Edge(graph.Start, "n")
	g.Edge("n", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	host, err := workflow.New("host", "", flow, func(i in) (string, error) { return i.Q, nil }, func(s string) (map[string]string, error) { return map[string]string{"said": s}, nil })
	if err != nil {
		t.Fatal(err)
	}
	k := &kitchen{hosts: []*workflow.Workflow{host}}
	r := k.run(t, `
name: test
steps:
  - id: each
    foreach: {in: [p, q], steps: [{id: call, workflow: host, inputs: {q: "{{item}}"}}]}
output: "{{steps.each.output.1.said}}"
`, "")
	r.status(t, runlog.Completed)
	if r.text != "q!" {
		t.Error(r.text)
	}
	r.replays(t, k)
}

// An older version of a recipe finishes what it has begun.
func TestOldRunsFinishOnTheirVersion(t *testing.T) {
	k := &kitchen{}
	store := runlog.NewMemory(nil)
	e := k.engine(t, store, fmt.Sprintf(gated, ""))
	run, err := e.Start(t.Context(), "test", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := ended(t, e, run)
	r.status(t, runlog.Paused)
	e.Close()
	r.engine = k.engine(t, store, "name: test\nsteps: [{id: other, subagent: x, prompt: other}]\n")
	r = r.answer(t, "second", `"approve"`)
	r.status(t, runlog.Completed)
	if r.text != "[three [two [one]]]" {
		t.Error(r.text)
	}
	r.replays(t, k)
	// but not with other agents
	k.parts = map[string]string{"agent x": "sha256:1"}
	e2 := k.engine(t, store, fmt.Sprintf(gated, ""))
	if run, err = e2.Start(t.Context(), "test", json.RawMessage("{}"), nil); err != nil {
		t.Fatal(err)
	}
	r = ended(t, e2, run)
	k.parts = map[string]string{"agent x": "sha256:2"}
	again, err := e2.Resume(t.Context(), r.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r = ended(t, e2, again); r.Err == nil || !strings.Contains(r.Err.Error(), "~ agent x") {
		t.Error(r.Status, r.Err)
	}
}

func TestInputs(t *testing.T) {
	k := &kitchen{}
	w := k.workflow(t, `
name: test
inputs:
  - {name: topic, required: true}
  - {name: count, type: integer}
  - {name: dry, type: boolean}
  - {name: style, enum: [short, long], default: short}
steps: [{id: a, subagent: x, prompt: "{{inputs.topic}}|{{inputs.count}}|{{inputs.style}}"}]
`)
	err := w.Check(json.RawMessage(`{"count":"three","dry":"true","propmt":1,"style":"wide"}`))
	for _, want := range []string{`count: is the string "three", want integer`, `dry: is the string "true", want boolean`, `unknown input "propmt"`, "topic is required", "style"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	engine := k.engine(t, runlog.NewMemory(nil), "name: test\ninputs: [{name: n, type: integer}]\nsteps: [{id: a, subagent: x, prompt: '{{inputs.n}}'}]\n")
	if _, err := engine.Start(t.Context(), "test", json.RawMessage(`{"n":"three"}`), nil); err == nil || !strings.Contains(err.Error(), `n: is the string "three", want integer`) {
		t.Error(err)
	}
	if runs, err := engine.Runs(t.Context(), nil); err != nil || len(runs) != 0 {
		t.Error("a run that could not begin is recorded", runs, err)
	}
	settled, err := w.Settle(json.RawMessage(`{"topic":"x"}`))
	if err != nil || string(settled) != `{"style":"short","topic":"x"}` {
		t.Error(string(settled), err)
	}
}

// What must not happen twice does not, whatever retry says: what is cut off by the clock has an outcome that nobody
// knows.
func TestOnceIsOnce(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("pay", tool.Once, func(string) (string, error) { time.Sleep(200 * time.Millisecond); return "", errors.New("late") })}
	r := k.run(t, "name: test\nsteps: [{id: pay, tool: pay, retry: 2, timeout: 20ms}]\n", "")
	if r.Status == runlog.Paused { // the call did not end in time: whether it happened is asked
		r = r.answer(t, "pay", `"it happened"`)
	}
	if len(k.calls) != 1 {
		t.Errorf("it was paid %d times; %s %s", len(k.calls), r.Status, r.Output)
	}
}

// Arguments that cannot be used are asked for again.
func TestGateWantsAnObject(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("echo", tool.Once, nil)}
	r := k.run(t, "name: test\nsteps: [{id: call, tool: echo, args: {text: a}, gate: human}]\n", "")
	if err := r.engine.Answer(t.Context(), r.id, "call", &runlog.Answer{Key: "gate", Value: json.RawMessage(`"edit: …"`)}); err == nil {
		t.Error("the placeholder is taken for an answer")
	}
	r = r.answer(t, "call", `"edit: not json"`)
	r.status(t, runlog.Paused)
	if !strings.Contains(r.Open[0].Text, "no JSON object") {
		t.Error(r.Open[0].Text)
	}
	r = r.answer(t, "call", `{"decision":"edit","text":"{\"text\":\"c\"}"}`)
	r.status(t, runlog.Completed)
	if r.text != `{"text":"c"}` || len(k.calls) != 1 {
		t.Error(r.text, k.calls)
	}
	r.replays(t, k)
}

// A step that is to fail the run does so from wherever it is.
func TestOnErrorFailWithin(t *testing.T) {
	for name, container := range map[string]string{
		"parallel": `parallel: [{id: in, subagent: researcher, prompt: p, on_error: fail}]`,
		"foreach":  `foreach: {in: [1, 2], steps: [{id: in, subagent: researcher, prompt: p, on_error: fail}]}`,
		"loop":     `loop: {max: 2, steps: [{id: deep, parallel: [{id: in, subagent: researcher, prompt: p, on_error: fail}]}]}`,
	} {
		k := &kitchen{say: failing("no network")}
		r := k.run(t, "name: test\nsteps: [{id: box, retry: 2, "+container+"}]\n", "")
		if r.Status != runlog.Failed || !strings.Contains(r.Err.Error(), "no network") {
			t.Error(name, r.Status, r.Err)
		}
	}
}

// A denied call that the run cannot do without fails it as a denial.
func TestDeniedAndNeeded(t *testing.T) {
	k := &kitchen{gate: deny{tool.Verdict{Decision: tool.Deny, Reason: "not here"}}}
	k.tools = []*tool.Tool{k.echo("echo", tool.Pure, nil)}
	r := k.run(t, "name: test\nsteps: [{id: call, tool: echo, on_error: fail}]\n", "")
	r.status(t, runlog.Failed)
	if superstep.FailureCode(r.Err) != superstep.CodeDenied || !strings.Contains(r.Err.Error(), "not here") {
		t.Error(superstep.FailureCode(r.Err), r.Err)
	}
}

// What a tool says does not make its failure a denial.
func TestFailsWithTheWordDenied(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("publish", tool.Pure, func(string) (string, error) { return "", errors.New("denied by the server") })}
	r := k.run(t, "name: test\nsteps: [{id: call, tool: publish, on_error: fail}]\n", "")
	r.status(t, runlog.Failed)
	if superstep.FailureCode(r.Err) != superstep.CodeTask || !strings.Contains(r.Err.Error(), "denied by the server") {
		t.Error(superstep.FailureCode(r.Err), r.Err)
	}
}
