package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
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

// crowded is a store on a full disk: runs cannot be created, or not get their first record.
type crowded struct {
	runlog.Store
	creates bool
}

type crowdedLog struct{ runlog.Log }

func (f crowded) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if !f.creates {
		return nil, runlog.Info{}, &runlog.StorageError{Store: "s", Err: syscall.ENOSPC}
	}
	log, info, err := f.Store.Acquire(ctx, id, opt)
	return crowdedLog{log}, info, err
}

func (crowdedLog) Append(context.Context, *runlog.Batch) error {
	return &runlog.StorageError{Store: "s", Err: syscall.ENOSPC}
}

// Who is told that a run could not be created is not told to resume it.
func TestUnbegunOnAFullDisk(t *testing.T) {
	for _, creates := range []bool{false, true} {
		m := runlog.NewMemory(nil)
		e := engine(t, crowded{m, creates}, (&rig{}).workflow(t))
		_, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"a"}`), nil)
		if short := (*runlog.StorageError)(nil); !errors.As(err, &short) || !errors.Is(err, syscall.ENOSPC) ||
			!strings.Contains(err.Error(), "start it again") || strings.Contains(err.Error(), "resume") {
			t.Errorf("created %v: %v", creates, err)
		}
		if infos, err := m.Runs(t.Context(), nil); len(infos) > 0 || err != nil {
			t.Errorf("created %v: listed are %+v, %v", creates, infos, err)
		}
	}
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
