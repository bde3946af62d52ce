package compile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// A step whose time is up has not succeeded, whatever a tool that ignores its context gives after that.
func TestLateSuccess(t *testing.T) {
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("slow", tool.Pure, func(string) (string, error) { time.Sleep(200 * time.Millisecond); return "got", nil })}
	r := k.run(t, `
name: test
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
