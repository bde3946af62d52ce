package superstep_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A run whose process died before its first record is not listed, blocks nothing and is offered to
// nobody, since it cannot be resumed.
func TestKilledBeforeTheFirstRecord(t *testing.T) {
	m := runlogtest.NewMortal()
	r := &rig{second: asksWhich}
	opt := &superstep.Options{NewID: func() string { return "same" }}
	opt.Workflows = append(opt.Workflows, r.workflow(t))
	begin := func() (*superstep.Run, error) {
		e, err := superstep.New(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e.Start(t.Context(), "job", json.RawMessage(`{"task":"a"}`), nil)
	}
	m.DieAt(0, false)
	if _, err := begin(); !errors.Is(err, runlogtest.ErrCrash) {
		t.Fatal(err)
	}
	m.Revive()
	if infos, err := m.Runs(t.Context(), nil); len(infos) > 0 || err != nil {
		t.Fatalf("listed are %+v, %v", infos, err)
	}
	run, err := begin() // of the same ID
	if err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
}

// A process that dies between the last answer to a paused run and its resumption leaves a run that is
// recovered: nobody would be asked anything about it.
func TestKilledAfterTheLastAnswer(t *testing.T) {
	m := runlogtest.NewMortal()
	r := &rig{second: asksWhich}
	run := start(t, engine(t, m, r.workflow(t)), nil)
	out := ends(t, run, runlog.Paused)
	m.Revive()
	e := engine(t, m, r.workflow(t))
	q := out.Open[0]
	if err := e.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"left"`)}); err != nil {
		t.Fatal(err)
	}
	m.Revive()
	infos, err := m.Runs(t.Context(), nil)
	if err != nil || infos[0].Status != runlog.Interrupted {
		t.Fatalf("it is listed as %+v, %v", infos, err)
	}
	taken, err := engine(t, m, r.workflow(t)).Recover(t.Context(), nil)
	if err != nil || len(taken) != 1 {
		t.Fatalf("resumed are %v, %v", taken, err)
	}
	ends(t, taken[0], runlog.Completed)
}
