package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// limping is a chain a, b, c of which b fails at every attempt, and has something to show all the same.
func limping(t *testing.T, attempts *int, set func(*graph.Node[state, update])) *graph.Flow[state, update] {
	g := graph.New("limping", reduce)
	g.Add("a", visit("a"))
	b := graph.Node[state, update]{Name: "b", Retry: &graph.Retry{Attempts: 2, Backoff: -1}, OnError: graph.Skip,
		Instead: func(s state, err error) update {
			return update{Visit: strings.Join(s.Trail, "") + " failed: " + err.Error()}
		},
		Run: func(context.Context, *graph.Task, state) (update, error) {
			*attempts++
			return update{}, errBroken
		}}
	if set != nil {
		set(&b)
	}
	g.AddNode(b)
	g.Add("c", visit("c"))
	edges(g, "@start a", "a b", "b c", "c @end")
	return compile(t, g)
}

// A node that is skipped gives what stands in for its update, and the run ends partial; a run that
// is resumed knows both.
func TestInstead(t *testing.T) {
	const want = "a|a failed: it is broken|c"
	attempts := 0
	flow := limping(t, &attempts, nil)
	final, err := flow.Execute(t.Context(), state{}, nil)
	if err != nil || strings.Join(final.State.Trail, "|") != want || strings.Join(final.Skipped, " ") != "b" || attempts != 2 {
		t.Errorf("without a log: %q, skipped %v, %d attempts, %v", final.State.Trail, final.Skipped, attempts, err)
	}
	attempts = 0
	store := runlog.NewMemory(nil)
	j := open(t, store, true)
	final, err = flow.Execute(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil || strings.Join(final.State.Trail, "|") != want || strings.Join(final.Skipped, " ") != "b" || attempts != 2 {
		t.Fatalf("with a log: %q, skipped %v, %d attempts, %v", final.State.Trail, final.Skipped, attempts, err)
	}
	var moments []graph.Checkpoint[state]
	var updates []graph.Event[struct{}]
	for c, err := range flow.History(runlog.Records(t.Context(), store, j.ID(), 0)) {
		if err != nil {
			t.Fatal(err)
		}
		moments = append(moments, c)
	}
	for u, err := range graph.Events(runlog.Records(t.Context(), store, j.ID(), 0)) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Kind == "done" {
			updates = append(updates, u)
		}
	}
	last := moments[len(moments)-1]
	b := moments[2].Tasks[0]
	if strings.Join(last.State.Trail, "|") != want || b.Error != "it is broken" || !strings.Contains(string(b.Update), "a failed") || updates[1].Error == "" || updates[1].Update == nil {
		t.Errorf("history %q, result %+v, update %+v", last.State.Trail, b, updates[1])
	}
	// every prefix of the log leads to the same end
	var all []runlog.Record
	for r, err := range runlog.Records(t.Context(), store, j.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	_ = j.Close(t.Context())
	for n := 1; n < len(all); n++ {
		again := runlog.NewMemory(nil)
		j := open(t, again, true)
		for _, r := range all[:n] {
			if err := j.Append(t.Context(), "", runlog.Record{Kind: r.Kind, Path: r.Path, Data: r.Data, Time: r.Time}); err != nil {
				t.Fatal(err)
			}
		}
		_ = j.Close(t.Context())
		j = open(t, again, false)
		final, err := flow.Execute(t.Context(), state{}, &graph.RunOptions{Journal: j})
		if err != nil || strings.Join(final.State.Trail, "|") != want || strings.Join(final.Skipped, " ") != "b" {
			t.Errorf("cut after %d records: %q, skipped %v, %v", n, final.State.Trail, final.Skipped, err)
		}
		_ = j.Close(t.Context())
	}
}

// What takes the place of an update is checked as that is: by the graph, and by the node's Output.
func TestInsteadIsChecked(t *testing.T) {
	for want, set := range map[string]func(*graph.Graph[state, update], *graph.Node[state, update]){
		"leads to a state that does not hold: 7 is too much": func(g *graph.Graph[state, update], _ *graph.Node[state, update]) {
			g.Check(func(s state) error {
				if s.N > 6 {
					return fmt.Errorf("%d is too much", s.N)
				}
				return nil
			})
		},
		"does not fit its schema": func(_ *graph.Graph[state, update], n *graph.Node[state, update]) {
			n.Output = &jsonschema.Schema{Required: []string{"nothing"}}
		},
	} {
		for _, j := range []*journal.Journal{nil, open(t, runlog.NewMemory(nil), true)} {
			g := graph.New("checked", reduce)
			a := graph.Node[state, update]{
				Name: "a", OnError: graph.Skip, Instead: func(state, error) update { return update{Add: 7} },
				Run: func(context.Context, *graph.Task, state) (update, error) { return update{}, errBroken },
			}
			set(g, &a)
			g.AddNode(a)
			g.Add("b", visit("b"))
			edges(g, "@start a", "a b", "b @end")
			got, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
			if err == nil || !strings.HasPrefix(err.Error(), "node a: it is broken\nwhat Instead puts in its place: its update "+want) || !errors.Is(err, errBroken) || got.N != 0 {
				t.Errorf("got %v, %v\nwant %s", got, err, want)
			}
			if j != nil && j.Scope("a").GivenUp() != 1 {
				t.Error("its attempt is not recorded")
			}
		}
	}
}

// What halts a run is not skipped, retried, or forgiven by the node that it is inside of.
func TestHalt(t *testing.T) {
	attempts := 0
	flow := limping(t, &attempts, func(n *graph.Node[state, update]) {
		n.Run = func(context.Context, *graph.Task, state) (update, error) {
			attempts++
			return update{}, graph.Halt(errBroken)
		}
	})
	outer := graph.New("outer", reduce)
	sub := graph.Sub("sub", flow, func(s state) (state, error) { return s, nil }, func(s state) (update, error) { return update{}, nil })
	sub.OnError, sub.Retry = graph.Skip, &graph.Retry{Attempts: 3, Backoff: -1}
	outer.AddNode(sub)
	edges(outer, "@start sub", "sub @end")
	for name, f := range map[string]*graph.Flow[state, update]{"itself": flow, "inside": compile(t, outer)} {
		attempts = 0
		_, err := f.Execute(t.Context(), state{}, nil)
		var tasks *graph.TasksError
		if !errors.As(err, &tasks) || !errors.Is(err, errBroken) || attempts != 1 {
			t.Errorf("%s: %v after %d attempts", name, err, attempts)
		}
	}
}

// A task can say of itself that it has less to give than was wanted.
func TestPassOverItself(t *testing.T) {
	g := graph.New("less", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
		t.PassOver("")
		return update{Visit: "a"}, nil
	}, OnError: graph.Skip})
	edges(g, "@start a", "a @end")
	flow := compile(t, g)
	outer := graph.New("outer", reduce)
	sub := graph.Sub("sub", flow, func(s state) (state, error) { return s, nil }, func(s state) (update, error) { return update{Visit: s.Trail[0]}, nil })
	sub.OnError = graph.Skip
	outer.AddNode(sub)
	edges(outer, "@start sub", "sub @end")
	for want, f := range map[string]*graph.Flow[state, update]{"a": flow, "sub/a": compile(t, outer)} {
		for _, opt := range []*graph.RunOptions{nil, {Journal: open(t, runlog.NewMemory(nil), true)}} {
			final, err := f.Execute(t.Context(), state{}, opt)
			if err != nil || strings.Join(final.Skipped, " ") != want || final.State.Trail[0] != "a" {
				t.Errorf("%s: %+v, %v", want, final, err)
			}
		}
	}
}

func TestInsteadNeedsSkip(t *testing.T) {
	g := graph.New("g", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: func(context.Context, *graph.Task, state) (update, error) { return update{}, nil }, Instead: func(state, error) update { return update{} }})
	edges(g, "@start a", "a @end")
	if _, err := g.Compile(); err == nil || !strings.Contains(err.Error(), "OnError") {
		t.Error(err)
	}
}
