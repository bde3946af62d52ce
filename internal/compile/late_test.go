package compile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// A step whose time is up has not succeeded, whatever a tool that ignores its context gives after that.
func TestLateSuccess(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("slow", tool.Pure, func(string) (string, error) { time.Sleep(200 * time.Millisecond); return "got", nil })}
	r := k.run(t, `
name: test
max_concurrency: 16
steps:
  - {id: get, tool: slow, timeout: 20ms}
  - {id: each, foreach: {in: [1], steps: [{id: in, tool: slow, timeout: 20ms}]}}
output: "{{steps.get.status}}: {{steps.get.output}}"
`, "")
	r.status(t, runlog.Partial)
	if !strings.HasPrefix(r.text, "degraded: Step 'get' is incomplete: it did not end within 20ms") {
		t.Errorf("the output is %s", r.text)
	}
	r.replays(t, k)
}

// A replay repeats the failure of a step whose tool was not there, or that it refused to call, also if the tool is there by then.
func TestReplayWithoutTheTool(t *testing.T) {
	k := &kitchen{}
	r := k.run(t, `
name: test
max_concurrency: 16
steps:
  - {id: gone, tool: gone, retry: 2, args: {text: a}}
  - {id: strict, tool: gone, on_error: skip}
  - {id: after, depends_on: [gone], value: steps.gone.status}
`, "")
	r.status(t, runlog.Partial)
	r.replays(t, k)
	k.tools = []*tool.Tool{k.echo("gone", tool.Once, nil)}
	r.replays(t, k)
	again, err := r.engine.Start(t.Context(), "test", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ended(t, r.engine, again)
	got.status(t, runlog.Completed)
	got.replays(t, k)
}

// dawdling has containers that run out of time after a part of them: a delay is in each prompt, in seconds.
const dawdling = `
name: test
max_concurrency: 16
steps:
  - {id: f, timeout: 700ms, foreach: {in: [0.3, 0.3, 3600, 0.3], width: 1, steps: [{id: s, subagent: y, prompt: "{{item}}"}]}}
  - {id: two, timeout: 1s, foreach: {in: [0.1, 3600], steps: [{id: a, subagent: y, prompt: "{{item}} a"}, {id: b, depends_on: [a], subagent: y, prompt: 0.2 b}], output: "{{steps.b.output}}"}}
  - id: p
    timeout: 1s
    parallel: [{id: x, subagent: y, prompt: 0.1 x}, {id: y, depends_on: [x], subagent: y, prompt: 0.1 y}, {id: z, subagent: y, prompt: 3600 z}]
  - id: q
    timeout: 1s
    retry: 2
    parallel:
      steps: [{id: q1, subagent: y, prompt: 0.1 q1}, {id: q2, subagent: y, prompt: 3600 q2}]
      output: "{{steps.q1.output}}; {{steps.q2.output}}; {{steps.q2.status}}"
  - {id: l, timeout: 1s, loop: {max: 9, steps: [{id: r, subagent: y, prompt: "0.005e{{loop.round}}"}]}}
  - {id: none, timeout: 1s, loop: {max: 9, steps: [{id: n, subagent: y, prompt: "3600"}]}}
  - {id: after, depends_on: [f], foreach: {in: "{{steps.f.output}}", steps: [{id: v, value: item}]}}
output: ["{{steps.f.output}}", "{{steps.two.output}}", "{{steps.p.output}}", "{{steps.q.output}}", "{{steps.l.output}}", "{{steps.none.output}}", "{{steps.f.status}}", "{{steps.after.output}}"]
`

// A container whose time is up gives what it has, and texts for the rest: also wherever the run is killed before, and in a replay.
func TestLateContainers(t *testing.T) {
	f := `["[0.3]","[0.3]","f/3 is missing: step 'f' did not end within 700ms.","f/4 is missing: step 'f' did not end within 700ms."]`
	want := `[` + f + `,["[0.2 b]","two/2 is missing: step 'two' did not end within 1s."],` +
		`{"x":"[0.1 x]","y":"[0.1 y]","z":"p/z is missing: step 'p' did not end within 1s."},` +
		`"[0.1 q1]; q/q2 is missing: step 'q' did not end within 1s.; degraded","[0.005e2]",` +
		`"Step 'none' is incomplete: it did not end within 1s. What it would have given is missing here.","degraded",` + f + `]`
	synctest.Test(t, func(t *testing.T) {
		k, _ := slowly()
		r := k.run(t, dawdling, "")
		r.status(t, runlog.Partial)
		if string(r.Output) != want {
			t.Errorf("the output is\n%s, want\n%s", r.Output, want)
		}
		if fails := r.failures(t, "f"); len(fails) != 1 || fails[0] != "it did not end within 700ms; 2 of 4 items did" {
			t.Errorf("the failure is %q", fails)
		}
		r.replays(t, k)
		r.engine.Close()
	})
	killed(t, func() *kitchen { k, _ := slowly(); return k }, dawdling, func(t *testing.T, r *result) {
		r.status(t, runlog.Partial)
		if got := string(r.Output); got != want {
			t.Errorf("the output is\n%s, want\n%s", got, want)
		}
	})
}

// killed runs a recipe in processes that die at an append, each before or after it, and resumes it in another. The runs replay.
func killed(t *testing.T, kin func() *kitchen, text string, check func(t *testing.T, r *result)) {
	t.Helper()
	by := 1
	if testing.Short() {
		by = 9
	}
	for n, dead := 0, true; dead; n += by {
		synctest.Test(t, func(t *testing.T) {
			store, k := runlogtest.NewMortal(), kin()
			e := k.engine(t, store, text)
			run, err := e.Start(t.Context(), "test", json.RawMessage("{}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			store.DieAt(n/2, n%2 == 1)
			r := ended(t, e, run)
			if dead = store.Dead(); dead {
				e.Close()
				store.Revive()
				k = kin()
				e = k.engine(t, store, text)
				if run, err = e.Resume(t.Context(), r.id, nil); err != nil {
					t.Fatal(err)
				}
				r = ended(t, e, run)
			}
			check(t, r)
			r.replays(t, k)
			e.Close()
			if t.Failed() {
				t.Fatalf("it died at append %d", n/2)
			}
		})
	}
}

// What ends between the end of the time and the end of a tool that does not look at its context has ended: a replay and a killed run agree.
func TestLateItemsOfDeafTools(t *testing.T) {
	const text = `
name: test
max_concurrency: 16
steps:
  - {id: f, timeout: 1s, foreach: {in: [300, 1500, 300], width: 2, steps: [{id: s, tool: deaf, args: {list: ["{{item}}"]}}]}}
  - {id: two, timeout: 1s, foreach: {in: [1500], steps: [{id: a, tool: deaf, args: {list: ["{{item}}"]}}, {id: b, depends_on: [a], value: "1"}]}}
  - {id: p, timeout: 1s, parallel: [{id: x, tool: deaf, args: {list: [1500]}}, {id: y, tool: deaf, args: {list: [300]}}]}
output: ["{{steps.f.output}}", "{{steps.two.output}}", "{{steps.p.output}}"]
`
	deaf := func() *kitchen {
		k := &kitchen{}
		k.tools = []*tool.Tool{k.echo("deaf", tool.Pure, func(args string) (string, error) {
			var in struct{ List []int }
			err := json.Unmarshal([]byte(args), &in)
			time.Sleep(time.Duration(in.List[0]) * time.Millisecond)
			return args, err
		})}
		return k
	}
	var outputs [2]string
	synctest.Test(t, func(t *testing.T) {
		k := deaf()
		r := k.run(t, text, "")
		r.status(t, runlog.Partial)
		first := `[["{\"list\":[300]}","{\"list\":[1500]}","{\"list\":[300]}"],[`
		last := `],{"x":"{\"list\":[1500]}","y":"{\"list\":[300]}"}]`
		if want := first + `"two/1 is missing: step 'two' did not end within 1s."` + last; string(r.Output) != want {
			t.Errorf("the output is\n%s, want\n%s", r.Output, want)
		}
		r.replays(t, k)
		r.engine.Close()
		outputs[0], outputs[1] = string(r.Output), first+"1"+last // with b, for which a resumed attempt has time
	})
	killed(t, deaf, text, func(t *testing.T, r *result) {
		got := string(r.Output)
		if got == outputs[0] { // else a resumed attempt has had time for everything, perhaps
			r.status(t, runlog.Partial)
		}
		if !slices.Contains(outputs[:], got) {
			t.Errorf("the output is\n%s, want\n%s", got, strings.Join(outputs[:], " or\n"))
		}
	})
}
