package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// counting is a graph that counts to a number, one superstep at a time.
func counting(t testing.TB, name string, to int) *graph.Flow[int, int] {
	t.Helper()
	g := graph.New(name, func(s, u int) int { return s + u })
	g.Add("one", func(context.Context, int) (int, error) { return 1, nil })
	g.Edge(graph.Start, "one")
	g.Branch("one", func(s int) string {
		if s < to {
			return "one"
		}
		return graph.End
	}, "one", graph.End)
	if to < 0 {
		g.Add("more", func(context.Context, int) (int, error) { return 1, nil })
		g.Edge(graph.Start, "more")
		g.Edge("more", graph.End)
	}
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// logOf runs a graph and gives its log, which has many snapshots.
func logOf(t testing.TB, f *graph.Flow[int, int]) iter.Seq2[runlog.Record, error] {
	t.Helper()
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "r1", &journal.Options{Create: &runlog.NewRun{}, SnapshotAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(t.Context(), 0, &graph.RunOptions{Journal: j}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return runlog.Records(t.Context(), store, "r1", 0)
}

func TestHistoryHasEverySuperstep(t *testing.T) {
	t.Parallel()
	f := counting(t, "count", 40)
	recs := logOf(t, f)
	snapshots := 0
	for r := range recs {
		if r.Kind == runlog.KindSnapshot {
			snapshots++
		}
	}
	if snapshots < 2 {
		t.Fatalf("%d snapshots", snapshots)
	}
	var got []string
	for c, err := range f.History(recs) {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%d=%d %v", c.Step, c.State, c.Next)
		for _, r := range c.Tasks {
			line += fmt.Sprintf(" %s%s", r.Path, r.Update)
		}
		got = append(got, line)
		s, err := f.StateAt(recs, c.Seq)
		if err != nil || s != c.State {
			t.Errorf("the state at %d is %d, want %d: %v", c.Seq, s, c.State, err)
		}
	}
	if len(got) != 41 || got[0] != "0=0 [one]" || got[2] != "2=2 [one#2] one#11" || got[40] != "40=40 [] one#391" {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if _, err := f.StateAt(recs, 0); err == nil {
		t.Error("there was a state before the first record")
	}
}

func TestHistoryOfAnotherGraph(t *testing.T) {
	t.Parallel()
	recs := logOf(t, counting(t, "count", 4))
	var changed *graph.ChangedError
	for _, other := range []*graph.Flow[int, int]{counting(t, "tally", 4), counting(t, "count", -1)} {
		for _, err := range other.Checkpoints(recs) {
			if !errors.As(err, &changed) || len(changed.Diff) == 0 {
				t.Errorf("%v", err)
			}
		}
		if _, err := other.Fork(recs, &graph.ForkPoint{At: 100}); !errors.As(err, &changed) {
			t.Errorf("%v", err)
		}
	}
	broken := func(yield func(runlog.Record, error) bool) { yield(runlog.Record{}, errPlanned) }
	for _, err := range counting(t, "count", 4).History(broken) {
		if !errors.Is(err, errPlanned) {
			t.Error(err)
		}
	}
}

var errPlanned = errors.New("planned")

// An edit is checked like an update of a node.
func TestForkChecksEdits(t *testing.T) {
	t.Parallel()
	g := graph.New("count", func(s, u int) int { return s + u })
	g.Check(func(s int) error {
		if s > 9 {
			return errors.New("too much")
		}
		return nil
	})
	g.Add("one", func(context.Context, int) (int, error) { return 1, nil })
	g.Edge(graph.Start, "one")
	g.Edge("one", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	recs := logOf(t, f)
	for update, want := range map[string]string{`100`: "too much", `"x"`: "is no update", `{}`: "is no update"} {
		if _, err := f.Fork(recs, &graph.ForkPoint{At: 100, Edits: []graph.Edit{{Node: "one", Update: json.RawMessage(update)}}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", update, err)
		}
	}
	forked, err := f.Fork(recs, &graph.ForkPoint{At: 1, Edits: []graph.Edit{{Node: "one", Update: json.RawMessage(`3`)}, {Update: json.RawMessage(`4`)}}})
	if err != nil || len(forked.Records) != 1 || forked.Step != 0 || !strings.Contains(string(forked.Records[0].Data), `"state":7`) {
		t.Errorf("%+v %v", forked, err)
	}
}

func ExampleFlow_History() {
	g := graph.New("sum", func(s, u int) int { return s + u })
	g.Add("two", func(context.Context, int) (int, error) { return 2, nil })
	g.Add("three", func(context.Context, int) (int, error) { return 3, nil })
	g.Edge(graph.Start, "two")
	g.Edge("two", "three")
	g.Edge("three", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, store := context.Background(), runlog.NewMemory(nil)
	j, err := journal.Open(ctx, store, "r1", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := flow.Run(ctx, 1, &graph.RunOptions{Journal: j}); err != nil {
		fmt.Println(err)
	}
	for c, err := range flow.History(runlog.Records(ctx, store, "r1", 0)) {
		fmt.Println(c.Step, c.State, c.Next, err)
	}
	fmt.Println(j.Close(ctx))
	// Output:
	// 0 1 [two] <nil>
	// 1 3 [three] <nil>
	// 2 6 [] <nil>
	// <nil>
}

// A change that was not tried names its remedy, one that does not fit says why.
func TestChangedErrorSaysWhy(t *testing.T) {
	t.Parallel()
	untried, tried := (&graph.ChangedError{Graph: "g", Diff: []string{"+ node x"}}).Error(), (&graph.ChangedError{Graph: "g", Why: "it is gone"}).Error()
	if !strings.Contains(untried, "--allow-graph-change") || strings.Contains(untried, "cannot go on") {
		t.Error(untried)
	}
	if strings.Contains(tried, "--allow-graph-change") || !strings.Contains(tried, "cannot go on with this version: it is gone") {
		t.Error(tried)
	}
}
