package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// Nothing finds, executes or changes a hidden run, whose error names what restores it. Restored, it is answered and goes on.
func TestHidden(t *testing.T) {
	t.Parallel()
	r, store := &rig{second: asksWhich}, runlog.NewMemory(nil)
	w := r.workflow(t)
	e := engine(t, store, w)
	run := start(t, e, nil)
	ends(t, run, runlog.Paused)
	id, ctx := run.ID(), t.Context()
	queued, err := e.Enqueue(ctx, "job", json.RawMessage(`{"task":"q"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	last := start(t, e, nil)
	ends(t, last, runlog.Paused)
	other := engine(t, store, w)
	for _, id := range []string{queued.ID, id} {
		if err := e.Hide(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	for what, try := range map[string]func() error{
		"resume": func() error { _, err := other.Resume(ctx, id, nil); return err },
		"answer": func() error {
			return other.Answer(ctx, id, "second", &runlog.Answer{Value: json.RawMessage(`"b"`)})
		},
		"steer":     func() error { return other.Steer(ctx, id, "second", "faster") },
		"interrupt": func() error { return other.Interrupt(ctx, id, "second") },
		"budget":    func() error { return other.Budget(ctx, id, runlog.Budget{Calls: 1}) },
		"cancel":    func() error { return other.Cancel(ctx, id) },
		"pause":     func() error { return other.Pause(ctx, id, "test") },
		"continue":  func() error { _, err := other.Continue(ctx, id, "more", nil); return err },
		"fork":      func() error { _, err := other.Fork(ctx, id, 3, nil); return err },
		"at":        func() error { _, err := other.At(ctx, id, "1"); return err },
		"hide":      func() error { return other.Hide(ctx, id) },
		"find":      func() error { _, err := other.Find(ctx, id[:7]); return err },
		"children":  func() error { _, err := other.Children(ctx, id); return err },
		"start": func() error {
			_, err := other.Start(ctx, "job", json.RawMessage(`{"task":"a  b"}`), &superstep.StartOptions{ID: id})
			return err
		},
	} {
		err := try()
		if missing, ok := errors.AsType[*runlog.NotFoundError](err); !ok || !missing.Hidden || !strings.Contains(err.Error(), "can be restored") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if i := info(t, e, "@last"); i.ID != last.ID() {
		t.Errorf("the newest run is %s", i.ID)
	}
	if infos, err := e.Runs(ctx, nil); err != nil || len(infos) != 1 {
		t.Errorf("listed are %+v, %v", infos, err)
	}
	if taken, err := other.Recover(context.WithoutCancel(ctx), nil); err != nil || len(taken) > 0 {
		t.Errorf("a worker takes %d, %v", len(taken), err)
	}
	if got, err := other.Restore(ctx, id[:7]); err != nil || got != id {
		t.Fatalf("restored %q: %v", got, err)
	}
	if err := other.Answer(ctx, id, "second", &runlog.Answer{Value: json.RawMessage(`"b"`)}); err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, other, id, nil), runlog.Completed)
	if _, err := other.Restore(ctx, queued.ID); err != nil {
		t.Fatal(err)
	}
	taken, err := other.Recover(context.WithoutCancel(ctx), nil)
	if err != nil || len(taken) != 1 {
		t.Fatalf("a worker takes %d, %v", len(taken), err)
	}
	ends(t, taken[0], runlog.Paused)
}

// Prune deletes what was hidden a day ago, whatever it keeps. Delete deletes a hidden run at once. The children are hidden, restored and deleted with it.
func TestHiddenThenDeleted(t *testing.T) {
	t.Parallel()
	store, now := runlog.NewMemory(nil), time.Now()
	f := &family{child: &graph.Child{}, leaf: func(ctx context.Context, _ *graph.Task, _ int) error {
		_, err := graph.Ask[string](ctx, graph.Question{Text: "Which?"})
		return err
	}}
	e, err := superstep.New(store, &superstep.Options{Workflows: f.workflows(t), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	var ids []string
	for range 3 {
		r := f.start(t, e, "parent", 2, nil)
		ends(t, r, runlog.Paused)
		ids = append(ids, r.ID())
	}
	left := func(want, visible int) {
		t.Helper()
		all, err := store.Runs(t.Context(), nil)
		listed, lerr := e.Runs(t.Context(), nil)
		if err != nil || lerr != nil || len(all) != want || len(listed) != visible {
			t.Fatalf("there are %d runs, and listed are %d: want %d, %d", len(all), len(listed), want, visible)
		}
	}
	for _, id := range ids[:2] {
		if err := e.Hide(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	left(9, 3)
	if removed, err := e.Prune(t.Context(), superstep.Retention{}); !errors.Is(err, superstep.ErrKeepsNothing) || len(removed) > 0 {
		t.Fatalf("early: %+v, %v", removed, err)
	}
	if err := e.Delete(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	left(6, 3)
	now = now.Add(25 * time.Hour)
	if removed, err := e.Prune(t.Context(), superstep.Retention{Newest: 9, Dry: true}); err != nil || len(removed) != 3 {
		t.Fatalf("would remove %+v, %v", removed, err)
	}
	left(6, 3)
	if removed, err := e.Prune(t.Context(), superstep.Retention{Newest: 9}); err != nil || len(removed) != 3 {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	left(3, 3)
	if _, err := e.Restore(t.Context(), ids[1]); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Error(err)
	}
	if rest, err := store.Runs(t.Context(), &runlog.Filter{Prefix: "hidden--", Status: []runlog.Status{runlog.Importing}}); err != nil || len(rest) > 0 {
		t.Errorf("marks are left: %+v, %v", rest, err)
	}
	for _, g := range children(t, e, ids[2]) {
		if g == 0 {
			t.Error("the children of the visible run are gone")
		}
	}
}

// A process that dies while it hides a run has hidden it with its children, or has done nothing, and the next process hides, restores and finishes it.
func TestHidingIsKilled(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		store := runlogtest.NewMortal()
		f := &family{child: &graph.Child{}, leaf: func(ctx context.Context, _ *graph.Task, _ int) error {
			_, err := graph.Ask[string](ctx, graph.Question{Text: "Which?"})
			return err
		}}
		e := engine(t, store, f.workflows(t)...)
		r := f.start(t, e, "parent", 2, nil)
		ends(t, r, runlog.Paused)
		store.DieAt(0, after)
		if err := e.Hide(t.Context(), r.ID()); !errors.Is(err, runlogtest.ErrCrash) {
			t.Fatal(err)
		}
		store.Revive()
		e = engine(t, store, f.workflows(t)...)
		infos, err := e.Runs(t.Context(), nil)
		if err != nil || len(infos) != map[bool]int{false: 3, true: 0}[after] {
			t.Fatalf("dead after %v: listed are %+v, %v", after, infos, err)
		}
		if !after { // it goes on at once, and can be hidden
			if err := e.Cancel(t.Context(), r.ID()); err != nil {
				t.Fatal(err)
			}
			if err := e.Hide(t.Context(), r.ID()); err != nil {
				t.Fatal(err)
			}
		}
		if infos, err := e.Runs(t.Context(), nil); err != nil || len(infos) > 0 {
			t.Fatalf("dead after %v: listed are %+v, %v", after, infos, err)
		}
		if _, err := e.Restore(t.Context(), r.ID()); err != nil {
			t.Fatal(err)
		}
		if infos, err := e.Runs(t.Context(), nil); err != nil || len(infos) != 3 {
			t.Fatalf("dead after %v: restored are %+v, %v", after, infos, err)
		}
	}
}
