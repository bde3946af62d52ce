package compile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
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
		f, err := r.engine.Fork(t.Context(), r.id, m.Seq, &superstep.ForkOptions{From: c.from, Edits: c.edits})
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
