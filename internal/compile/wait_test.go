package compile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// unhurried returns a kitchen whose agent "slow" ends once its agent "quick" has been asked, and fails if that takes too long.
func unhurried() *kitchen {
	quick := make(chan struct{})
	hurry := sync.OnceFunc(func() { close(quick) })
	return &kitchen{say: map[string]func(string) (string, error){
		"quick": func(p string) (string, error) { hurry(); return p, nil },
		"slow": func(p string) (string, error) {
			select {
			case <-quick:
				return p, nil
			case <-time.After(10 * time.Second):
				return "", errors.New("what was answered did not continue beside it")
			}
		},
	}}
}

// asks starts a run of the recipe "test" and waits until it has asked all of the questions.
func (k *kitchen) asks(t *testing.T, store runlog.Store, text string, paths ...string) (*superstep.Engine, *superstep.Run) {
	t.Helper()
	e := k.engine(t, store, text)
	run, err := e.Start(t.Context(), "test", json.RawMessage("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for r, err := range e.Follow(ctx, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindAsked {
			paths = slices.DeleteFunc(paths, func(p string) bool { return p == r.Path })
		}
		if len(paths) == 0 {
			break
		}
	}
	return e, run
}

// order returns the places of the first records of a kind and path, and fails if one is missing.
func (r *result) order(t *testing.T, of ...string) []uint64 {
	t.Helper()
	out := make([]uint64, len(of))
	for rec, err := range r.engine.Follow(t.Context(), r.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range of {
			if kind, path, _ := strings.Cut(name, " "); out[i] == 0 && string(rec.Kind) == kind && rec.Path == path {
				out[i] = rec.Seq
			}
		}
	}
	if slices.Contains(out, 0) {
		t.Fatalf("%v: records %v", of, out)
	}
	return out
}

// forks forks a run at every record, and checks that each fork ends as the run did, and replays.
func (r *result) forks(t *testing.T, k *kitchen) {
	t.Helper()
	info, err := r.engine.Find(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(2); seq < info.Head; seq++ {
		f, err := r.engine.Fork(t.Context(), r.id, seq, nil)
		if err != nil {
			t.Fatalf("from %d: %v", seq, err)
		}
		run, err := r.engine.Resume(t.Context(), f.ID, &resumeOptions{Answer: replies})
		if err != nil {
			t.Fatalf("from %d: %v", seq, err)
		}
		got := ended(t, r.engine, run)
		if got.status(t, r.Status); got.text == "" {
			t.Errorf("from %d: %s", seq, got.Output)
		}
		got.replays(t, k)
	}
}

// An item that is answered continues, whatever the other items wait for, while another step works, or an item of another foreach around it does.
func TestAnsweredItemsContinue(t *testing.T) {
	const items = `{id: f, foreach: {in: [a, b], steps: [{id: q, ask: "Which {{item}}?"}, {id: g, depends_on: [q], subagent: quick, prompt: "{{item}} {{steps.q.output}}"}]}}`
	for name, c := range map[string]struct{ text, item, other, slow string }{
		"beside a step": {"steps:\n  - " + items + "\n  - {id: s, subagent: slow, prompt: s}\n", "f/1", "f/2", "s"},
		"beside an item": {"steps:\n  - {id: o, foreach: {in: [1, 2], as: row, steps: [" + strings.Replace(items, "{id: f,", "{id: f, when: row == 1,", 1) +
			", {id: s, when: row == 2, subagent: slow, prompt: s}]}}\n", "o/1/f/1", "o/1/f/2", "o/2/s"},
		"in a parallel": {"steps:\n  - {id: p, parallel: [" + items + ", {id: s, subagent: slow, prompt: s}]}\n", "p/f/1", "p/f/2", "p/s"},
	} {
		t.Run(name, func(t *testing.T) {
			k := unhurried()
			e, run := k.asks(t, runlog.NewMemory(nil), "name: test\n"+c.text, c.item+"/q", c.other+"/q")
			if err := e.Answer(t.Context(), run.ID(), c.item+"/q", &runlog.Answer{Value: json.RawMessage(`"x"`)}); err != nil {
				t.Fatal(err)
			}
			r := ended(t, e, run)
			r.status(t, runlog.Paused)
			r = r.answer(t, c.other+"/q", `"y"`)
			r.status(t, runlog.Completed)
			if at := r.order(t, string(runlog.KindIntended)+" "+c.item+"/g", "task.done "+c.slow); at[0] > at[1] {
				t.Errorf("the answered item continued at record %d, the slow step at %d", at[0], at[1])
			}
			r.replays(t, k)
			r.forks(t, k)
			r.cuts(t, func() *kitchen { return &kitchen{} }, "name: test\n"+c.text, 1)
		})
	}
}

// An item whose child run has ended continues while another child works, and while another step does.
func TestItemsWithChildrenContinue(t *testing.T) {
	for name, also := range map[string]string{"beside a child": "", "beside a step": "  - {id: s, subagent: slow, prompt: s}\n"} {
		t.Run(name, func(t *testing.T) {
			k := unhurried()
			k.also = []*recipe.Recipe{parse(t, "name: child\ninputs: [n]\nsteps: [{id: q, when: \"inputs.n == '1'\", subagent: x, prompt: q}, {id: s, when: \"inputs.n == '2'\", subagent: slow, prompt: s}]\n")}
			r := k.run(t, "name: test\nsteps:\n  - {id: f, foreach: {in: [\"1\", \"2\"], steps: [{id: c, workflow: {name: child, detach: true}, inputs: {n: \"{{item}}\"}}, "+
				"{id: g, depends_on: [c], subagent: quick, prompt: \"{{item}}\"}]}}\n"+also, "")
			r.status(t, runlog.Completed)
			if at := r.order(t, string(runlog.KindIntended)+" f/1/g", "task.done f/2/c"); at[0] > at[1] {
				t.Errorf("the first item continued at record %d, the child of the second at %d", at[0], at[1])
			}
			r.replays(t, k)
			r.forks(t, k)
		})
	}
}

// A run with many children replays, also if it was cut off anywhere and resumed.
func TestReplayOfManyChildren(t *testing.T) {
	kin := func(t *testing.T) *kitchen {
		return &kitchen{also: []*recipe.Recipe{parse(t, "name: child\ninputs: [n]\nsteps: [{id: w, subagent: x, prompt: \"{{inputs.n}}\"}]\n")}}
	}
	text := func(n int) string {
		var in []string
		for i := range n {
			in = append(in, fmt.Sprintf("\"%d\"", i))
		}
		return "name: test\nsteps:\n  - {id: f, foreach: {in: [" + strings.Join(in, ", ") + "], steps: [{id: c, workflow: {name: child, detach: true}, inputs: {n: \"{{item}}\"}}, " +
			"{id: g, depends_on: [c], subagent: x, prompt: \"{{steps.c.output}}\"}]}}\n"
	}
	k := kin(t)
	r := k.run(t, text(200), "")
	r.status(t, runlog.Completed)
	r.replays(t, k)
	for _, n := range []int{2, 20} {
		k := kin(t)
		r := k.run(t, text(n), "")
		r.status(t, runlog.Completed)
		r.cuts(t, func() *kitchen { return kin(t) }, text(n), 1+n*n/30)
	}
}

// cuts cuts a run off after the records of its first execution, each or some, and checks that the run that is resumed ends, too, and replays.
func (r *result) cuts(t *testing.T, kin func() *kitchen, text string, by int) {
	t.Helper()
	var all []runlog.Record
	for rec, err := range r.engine.Follow(t.Context(), r.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == runlog.KindRunPaused {
			break
		}
		if rec.Seq > 0 { // else it is not in the log
			all = append(all, rec)
		}
	}
	for cut := 2; cut < len(all); cut += by {
		again := runlog.NewMemory(nil)
		j, err := journal.Open(t.Context(), again, r.id, &journal.Options{Create: &runlog.NewRun{Workflow: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range all[:cut] {
			if err := j.Append(t.Context(), "", runlog.Record{Kind: rec.Kind, Path: rec.Path, Data: rec.Data, Time: rec.Time}); err != nil {
				t.Fatal(err)
			}
		}
		_ = j.Close(t.Context())
		k := kin()
		e := k.engine(t, again, text)
		run, err := e.Resume(t.Context(), r.id, &resumeOptions{Answer: replies})
		if err != nil {
			t.Fatal(err)
		}
		got := ended(t, e, run)
		got.status(t, r.Status)
		got.replays(t, k)
		e.Close()
	}
}

// A step that reads what has failed says so once, however often it runs again while it waits.
func TestFailedInputIsToldOnce(t *testing.T) {
	k := unhurried()
	k.say["bad"] = func(string) (string, error) { return "", errors.New("no") }
	e, run := k.asks(t, runlog.NewMemory(nil), `name: test
steps:
  - {id: f, foreach: {in: [a, b], steps: [{id: bad, subagent: bad, prompt: bad}, {id: q, ask: "Which {{item}}? {{steps.bad.output}}"}, {id: g, depends_on: [q], subagent: quick, prompt: g}]}}
  - {id: s, subagent: slow, prompt: s}
`, "f/1/q", "f/2/q")
	if err := e.Answer(t.Context(), run.ID(), "f/1/q", &runlog.Answer{Value: json.RawMessage(`"x"`)}); err != nil {
		t.Fatal(err)
	}
	r := ended(t, e, run)
	r.status(t, runlog.Paused)
	r = r.answer(t, "f/2/q", `"y"`)
	r.status(t, runlog.Partial)
	if got := r.events(t, "error_input"); len(got) != 2 {
		t.Error(got)
	}
	r.replays(t, k)
}
