package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// busy is a graph with fans, a join, a loop, retries, events and an inner graph.
func busy(t testing.TB) *graph.Flow[state, update] {
	inner := graph.New("inner", reduce)
	inner.Add("x", visit("x"))
	inner.Add("y", visit("y"))
	edges(inner, "@start x", "@start y", "x @end", "y @end")
	innerFlow := compile(t, inner)
	g := graph.New("busy", reduce)
	g.Add("split", visit("split"))
	g.AddNode(graph.Node[state, update]{Name: "worker", Retry: &graph.Retry{Backoff: -1}, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		n, err := graph.Do(ctx, "n", func(context.Context, string) (int, error) { return len(t.Key()), nil })
		if err != nil {
			return update{}, err
		}
		if err := t.Emit(ctx, "progress", map[string]int{"attempt": t.Attempt()}); err != nil {
			return update{}, err
		}
		if t.Attempt() == 1 && t.Key() == "k1" {
			return update{}, errBroken
		}
		return update{Add: n, Visit: t.Key()}, nil
	}})
	g.AddNode(graph.Sub("sub", innerFlow, func(s state) (state, error) { return state{}, nil }, func(s state) (update, error) {
		return update{Add: s.N}, nil
	}))
	g.AddNode(graph.Node[state, update]{Name: "j", Join: graph.All, Run: func(context.Context, *graph.Task, state) (update, error) {
		return update{Visit: "j"}, nil
	}})
	edges(g, "@start split", "@start sub", "worker j", "sub j")
	g.Fan("split", func(state) []graph.Send {
		var out []graph.Send
		for i := range 8 {
			out = append(out, graph.Send{To: "worker", Key: fmt.Sprint("k", i), Arg: i})
		}
		return out
	}, "worker")
	g.Branch("j", func(s state) string { return graph.End }, graph.End)
	return compile(t, g)
}

// frames is a log as it is stored, made by a clock that stands still.
func frames(t testing.TB, parallelism int, inOrder bool) []byte {
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: func() time.Time { return time.Unix(7, 0) }})
	j, err := journal.Open(context.Background(), store, "run", &journal.Options{
		Create: &runlog.NewRun{}, Now: func() time.Time { return time.Unix(7, 0) }, SnapshotAfter: 300,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close(context.Background()) }()
	if _, err := busy(t).Run(context.Background(), state{}, &graph.RunOptions{Journal: j, Parallelism: parallelism}); err != nil {
		t.Fatal(err)
	}
	if inOrder {
		return []byte(strings.Join(canonical(t, store, "run"), "\n"))
	}
	var out []byte
	var hash runlog.FrameHash
	for r, err := range runlog.Records(context.Background(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if out, hash, err = runlog.AppendFrame(out, hash, &r); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A hundred runs give one log: byte for byte where one task is running at a time, and
// up to the order of those that are running at once otherwise.
func TestAHundredRunsGiveOneLog(t *testing.T) {
	for _, parallelism := range []int{1, 8} {
		want := frames(t, parallelism, parallelism > 1)
		if len(want) < 1000 {
			t.Fatalf("a log of %d bytes", len(want))
		}
		for i := range 100 {
			if got := frames(t, parallelism, parallelism > 1); !slices.Equal(got, want) {
				t.Fatalf("parallelism %d, run %d: the log differs:\n%s\nwant\n%s", parallelism, i, got, want)
			}
		}
	}
}

func TestStreams(t *testing.T) {
	store := runlog.NewMemory(nil)
	j := open(t, store, true)
	flow := busy(t)
	all := func() iter.Seq2[runlog.Record, error] { return runlog.Records(t.Context(), store, "run", 0) }
	live := make(chan []string)
	ready := make(chan struct{})
	go func() {
		var started []string
		once := false
		seq := j.Follow(context.Background(), 0)
		for e, err := range graph.Events(func(yield func(runlog.Record, error) bool) {
			for r, err := range seq {
				if !once {
					once = true
					close(ready)
				}
				if !yield(r, err) {
					return
				}
			}
		}) {
			if err == nil && e.Kind == "started" {
				started = append(started, e.Path)
			}
		}
		live <- started
	}()
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{}); err != nil {
		t.Fatal(err)
	}
	<-ready
	got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var sum int
	kinds := map[string]int{}
	for u, err := range graph.Events(all()) {
		if err != nil {
			t.Fatal(err)
		}
		if kinds[u.Kind]++; u.Kind == "emitted" && u.Name != "progress" {
			t.Errorf("%+v", u)
		}
		if u.Kind != "done" {
			continue
		}
		var v update
		if err := json.Unmarshal(u.Update, &v); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(u.Path, "/") {
			sum += v.Add
		}
	}
	if sum != got.N {
		t.Errorf("the updates add up to %d, the state has %d", sum, got.N)
	}
	if want := map[string]int{"done": 13, "failed": 1, "emitted": 9}; !maps.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	started := <-live
	slices.Sort(started)
	if len(started) != 13 || started[0] != "j" || !slices.Contains(started, "sub/x") {
		t.Errorf("followed the start of %v", started)
	}
}

// The values of a run that is followed: History is lazy, and so a stream of states.
func TestValuesAreFollowed(t *testing.T) {
	j := open(t, runlog.NewMemory(nil), true)
	flow := busy(t)
	values := make(chan []state)
	go func() {
		var seen []state
		for c, err := range flow.History(j.Follow(context.Background(), 0)) {
			if err == nil {
				seen = append(seen, c.State)
			}
		}
		values <- seen
	}()
	final, err := flow.Execute(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := <-values
	if len(seen) != final.Steps+1 || !reflect.DeepEqual(seen[len(seen)-1], final.State) {
		t.Errorf("followed %d states of %d supersteps, the last %v", len(seen), final.Steps, seen[len(seen)-1])
	}
}
