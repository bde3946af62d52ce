package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A traveller is a run whose past is looked at: of three nodes, one of them an effect,
// where the last is chosen by the second.
type traveller struct {
	flow  *graph.Flow[state, update]
	store runlog.Store
	ran   map[string]int
}

func travel(t *testing.T) *traveller {
	t.Helper()
	v := &traveller{store: runlog.NewMemory(nil), ran: map[string]int{}}
	g := graph.New("travel", reduce)
	for _, n := range []string{"a", "b", "low", "high"} {
		g.AddNode(graph.Node[state, update]{Name: n, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
			_, err := graph.Do(ctx, "work", func(context.Context, string) (int, error) { v.ran[n]++; return 0, nil })
			return update{Add: 1, Visit: fmt.Sprint(n, s.N)}, err
		}})
	}
	edges(g, "@start a", "a b", "low @end", "high @end")
	g.Branch("b", func(s state) string {
		if s.N < 10 {
			return "low"
		}
		return "high"
	}, "low", "high")
	v.flow = compile(t, g)
	got, err := v.flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, v.store, true)})
	if err != nil || strings.Join(got.Trail, " ") != "a0 b1 low2" {
		t.Fatalf("got %v, %v", got, err)
	}
	return v
}

func (v *traveller) records(t *testing.T) iter.Seq2[runlog.Record, error] {
	return runlog.Records(t.Context(), v.store, "run", 0)
}

func (v *traveller) history(t *testing.T) (all []graph.Checkpoint[state]) {
	t.Helper()
	for c, err := range v.flow.History(v.records(t)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// fork runs what a fork of the run at a record comes to.
func (v *traveller) fork(t *testing.T, name string, at uint64, edits ...graph.Edit) state {
	t.Helper()
	forked, err := v.flow.Fork(v.records(t), &graph.ForkPoint{At: at, Edits: edits})
	if err != nil {
		t.Fatal(err)
	}
	for _, create := range []*runlog.NewRun{{Workflow: "fork"}, nil} {
		j, err := journal.Open(t.Context(), v.store, name, &journal.Options{Create: create})
		if err != nil {
			t.Fatal(err)
		}
		if create == nil {
			got, err := v.flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			return got
		}
		started, err := j.New(runlog.KindRunStarted, "", runlog.RunStarted{})
		if err != nil {
			t.Fatal(err)
		}
		batch := append([]runlog.Record{started}, forked.Records...)
		for i := range batch {
			batch[i].Time = started.Time
		}
		if err := j.Append(t.Context(), runlog.Running, batch...); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	panic("unreachable")
}

// There is a checkpoint for the beginning and for every superstep, the oldest first.
func TestLangGraphHistory(t *testing.T) {
	v := travel(t)
	var got []string
	for _, c := range v.history(t) {
		got = append(got, fmt.Sprint(c.Step, c.State.Trail, c.Next))
		s, err := v.flow.StateAt(v.records(t), c.Seq)
		if err != nil || fmt.Sprint(s) != fmt.Sprint(c.State) {
			t.Errorf("at %d: got %v, %v, want %v", c.Seq, s, err, c.State)
		}
	}
	if want := "0 [] [a]|1 [a0] [b]|2 [a0 b1] [low]|3 [a0 b1 low2] []"; strings.Join(got, "|") != want {
		t.Errorf("got %s", strings.Join(got, "|"))
	}
}

// What was before a checkpoint is not run again, what comes after it is, and the run that
// was forked stays as it was.
func TestLangGraphReplayFromACheckpoint(t *testing.T) {
	v := travel(t)
	before := v.history(t)
	got := v.fork(t, "fork", before[1].Seq)
	if strings.Join(got.Trail, " ") != "a0 b1 low2" || v.ran["a"] != 1 || v.ran["b"] != 2 || v.ran["low"] != 2 {
		t.Errorf("got %v, ran %v", got, v.ran)
	}
	if after := v.history(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the parent is %v, was %v", after, before)
	}
}

// Within a superstep, what had happened by the record at which a run is forked is kept.
func TestLangGraphForkKeepsWhatHappened(t *testing.T) {
	v := travel(t)
	var settled uint64 // the effect of b, before b ended
	for r, err := range v.records(t) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindSettled && r.Path == "b" {
			settled = r.Seq
		}
	}
	got := v.fork(t, "fork", settled)
	if strings.Join(got.Trail, " ") != "a0 b1 low2" || v.ran["b"] != 1 || v.ran["low"] != 2 {
		t.Errorf("got %v, ran %v", got, v.ran)
	}
}

// An edit goes through the reducer, like an update of the node it is said to be of. It
// does not choose anew who is next: that takes an edit before the node that chooses.
func TestLangGraphUpdateState(t *testing.T) {
	v := travel(t)
	past := v.history(t)
	edit := graph.Edit{Node: "a", Update: json.RawMessage(`{"Add":10,"Visit":"edited"}`)}
	if got := v.fork(t, "late", past[2].Seq, edit); strings.Join(got.Trail, " ") != "a0 b1 edited low12" {
		t.Errorf("behind the choice: got %v", got)
	}
	if got := v.fork(t, "early", past[1].Seq, edit); strings.Join(got.Trail, " ") != "a0 edited b11 high12" {
		t.Errorf("before the choice: got %v", got)
	}
	for _, bad := range []graph.Edit{{Node: "c", Update: json.RawMessage(`{}`)}, {Update: json.RawMessage(`{"Nothing":1}`)}} {
		if _, err := v.flow.Fork(v.records(t), &graph.ForkPoint{At: past[1].Seq, Edits: []graph.Edit{bad}}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
