package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// halting is a model that calls a function before its nth part, from 0.
type halting struct {
	model.Model
	before func(ctx context.Context, n int) error
}

func (m halting) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		n := 0
		for p, err := range m.Model.Generate(ctx, req) {
			if failed := m.before(ctx, n); failed != nil {
				yield(model.Part{}, failed)
				return
			}
			if n++; !yield(p, err) {
				return
			}
		}
	}
}

func (m halting) Effort() string { return "high" }

func recordsOf(t *testing.T, store runlog.Store) (all []runlog.Record) {
	t.Helper()
	for r, err := range runlog.Records(t.Context(), store, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Of a turn that is interrupted, the log keeps what the model had said. The turn has no outcome, so it is taken again, and a replay of both executions
// gives the same log.
func TestInterruptedTurnIsKept(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	turns := 0
	execute := func(ctx context.Context, j *journal.Journal, m model.Model) error {
		turns++
		a := &agent.Agent{Name: "a", Model: m}
		_, err := a.Run(ctx, j.Scope("work"), &agent.Work{Prompt: "Look."})
		return err
	}
	ctx, interrupt := context.WithCancel(t.Context())
	first := halting{&scripted.Model{Turns: []scripted.Turn{scripted.Think("Let ", "me see.").And(scripted.Say("It ", "is ", "so."))}}, func(ctx context.Context, n int) error {
		if n == 4 {
			interrupt()
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	if err := execute(ctx, j, first); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	recs := recordsOf(t, store)
	last := &recs[len(recs)-1]
	d := cut.Of(last)
	var said model.Response
	if d == nil || last.Path != "work" || d.Key != "turn-0" || d.Kind != "model" || json.Unmarshal(d.Partial, &said) != nil || len(said.Message.Parts) != 2 ||
		said.Message.Parts[0].Text != "Let me see." || said.Message.Parts[1].Text != "It is " {
		t.Fatalf("the last record is %s of %q: %s", last.Kind, last.Path, last.Data)
	}
	if j, err = journal.Open(t.Context(), store, "r", nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunResumed, "", runlog.RunResumed{}); err != nil {
		t.Fatal(err)
	}
	second := &scripted.Model{Turns: []scripted.Turn{scripted.Say("It is so.")}}
	if err := execute(t.Context(), j, second); err != nil || len(second.Requests()) != 1 {
		t.Fatal(err, len(second.Requests()))
	}
	if err := j.Write(t.Context(), runlog.Completed, runlog.KindRunFinished, "", runlog.RunFinished{}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := journal.Replay(t.Context(), store, "r", &journal.ReplayOptions{Started: runlog.RunStarted{Workflow: "w"}, Wait: 5 * time.Second,
		Run: func(ctx context.Context, j *journal.Journal) (journal.Ending, error) {
			return journal.Ending{Finished: &runlog.RunFinished{}, Failed: &runlog.RunFailed{}}, execute(ctx, j, nil)
		}})
	if err != nil || report.Diverged != nil || report.Records != len(recordsOf(t, store)) {
		t.Errorf("the replay: %+v, %v, of %d records", report, err, len(recordsOf(t, store)))
	}
}

// The log says how long the first token of a turn took, and the effort of the model.
func TestFirstTokenAndEffort(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	now := time.Unix(1e9, 0)
	j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	m := halting{&scripted.Model{Turns: []scripted.Turn{scripted.Say("It ", "is.")}}, func(_ context.Context, n int) error {
		now = now.Add(time.Duration(n+1) * 100 * time.Millisecond)
		return nil
	}}
	a := &agent.Agent{Name: "a", Model: m}
	if _, err := a.Run(t.Context(), j.Scope("work"), &agent.Work{Prompt: "Look."}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	recs := recordsOf(t, store)
	i := slices.IndexFunc(recs, func(r runlog.Record) bool {
		return r.Kind == runlog.KindSettled && strings.Contains(string(r.Data), `"kind":"model"`)
	})
	var d runlog.Settled
	if i < 0 || json.Unmarshal(recs[i].Data, &d) != nil || d.First != 100 || d.Took != 600 {
		t.Errorf("first after %d ms, %d in all", d.First, d.Took)
	}
	if i = slices.IndexFunc(recs, func(r runlog.Record) bool { return strings.Contains(string(r.Data), `"effort":"high"`) }); i < 0 || recs[i].Kind != runlog.KindSettled {
		t.Error("no record has the effort")
	}
}

// The turn of an agent that works for another is kept once, where it was taken.
func TestInterruptedTurnWithinAnAction(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	worker := &agent.Agent{Name: "worker", Model: halting{&scripted.Model{Turns: []scripted.Turn{scripted.Say("It ", "is.")}}, func(ctx context.Context, n int) error {
		if n == 1 {
			interrupt()
			return ctx.Err()
		}
		return nil
	}}}
	delegate := action("delegate", func(ctx context.Context, s *journal.Scope, _ *tool.Call) (tool.Result, error) {
		_, err := worker.Run(ctx, s, &agent.Work{Prompt: "Look."})
		return tool.Result{}, err
	})
	lead := &agent.Agent{Name: "lead", Model: &scripted.Model{Turns: []scripted.Turn{scripted.Call("delegate", "{}")}}, Actions: []*agent.Action{delegate}}
	if _, err := lead.Run(ctx, j.Scope("work"), &agent.Work{Prompt: "Look."}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var paths []string
	for _, r := range recordsOf(t, store) {
		if d := cut.Of(&r); d != nil {
			paths = append(paths, r.Path+" "+d.Key)
		}
	}
	if len(paths) != 1 || paths[0] != "work/delegate[1.1] turn-0" {
		t.Errorf("it is kept at %q", paths)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// No task emits the event that keeps such a turn, which a replay would take for one.
func TestReservedEvent(t *testing.T) {
	t.Parallel()
	j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Scope("work").Emit(t.Context(), cut.Event, nil); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Error(err)
	}
}
