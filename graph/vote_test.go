package graph_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// voting is a graph of a clock that stays for five supersteps, and a listener that sleeps until it is called, and wants no third call.
func voting(t *testing.T) *graph.Flow[state, update] {
	t.Helper()
	g := graph.New("voting", reduce)
	g.AddNode(graph.Node[state, update]{Name: "clock", Sends: []string{"listener"}, Run: func(_ context.Context, task *graph.Task, s state) (update, error) {
		now := strings.Count(strings.Join(s.Trail, " "), "tick") + 1
		if now < 5 {
			task.Stay()
		}
		if now != 2 {
			task.Send(graph.Send{To: "listener", Arg: now})
		}
		return update{Visit: fmt.Sprint("tick", now)}, nil
	}})
	g.AddNode(graph.Node[state, update]{Name: "listener", Run: func(_ context.Context, task *graph.Task, s state) (update, error) {
		var now int
		if err := task.Arg(&now); err != nil {
			return update{}, err
		}
		if slices.Contains(s.Trail, "heard1") {
			task.Complete()
		}
		return update{Visit: fmt.Sprint("heard", now)}, nil
	}})
	edges(g, "@start clock", "listener @end")
	return compile(t, g)
}

// A task that stays is activated again without a message, one that halts by a message, and one that is complete by nothing. It is all in the history.
func TestVotes(t *testing.T) {
	flow := voting(t)
	const want = "tick1 tick2 heard1 tick3 tick4 heard3 tick5"
	plain, err := flow.Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(plain.Trail, " ") != want {
		t.Fatalf("without a log it is %q, %v; want %q", plain.Trail, err, want)
	}
	store := runlog.NewMemory(nil)
	got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Store: store, ID: "r"})
	if err != nil || strings.Join(got.Trail, " ") != want {
		t.Fatalf("with a log it is %q, %v; want %q", got.Trail, err, want)
	}
	var history []string
	for c, err := range flow.History(runlog.Records(t.Context(), store, "r", 0)) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Tasks {
			history = append(history, strings.TrimSuffix(r.Node+" "+r.Vote, " "))
		}
		history = append(history, "→ "+strings.Join(c.Next, " "))
	}
	const past = "→ clock, clock stay, → clock#1 listener, clock stay, listener, → clock#2, clock stay, → clock#3 listener#1, clock stay, listener complete, → clock#4, clock, → "
	if got := strings.Join(history, ", "); got != past {
		t.Errorf("its history is\n%s\nwant\n%s", got, past)
	}
}

// A cached result would repeat no vote.
func TestCachedVote(t *testing.T) {
	g := graph.New("cached", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Cache: &graph.Caching[state]{}, Run: func(_ context.Context, task *graph.Task, _ state) (update, error) {
		task.Stay()
		return update{}, nil
	}})
	edges(g, "@start a", "a @end")
	store := runlog.NewMemory(nil)
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Store: store, ID: "r"}); err == nil || !strings.Contains(err.Error(), "Cache") {
		t.Errorf("got %v", err)
	}
}

// wildVotes is a graph in which the votes, messages and branches of each task are drawn by its path and the state.
func wildVotes(t *testing.T, seed uint64) *graph.Flow[state, update] {
	t.Helper()
	g := graph.New("wild", reduce)
	names := []string{"a", "b", "c", "d"}
	for i, name := range names {
		n := graph.Node[state, update]{Name: name, Sends: names}
		if seed%3 == 0 && i > 0 {
			n.Reads = names[:i]
		}
		n.Run = func(_ context.Context, task *graph.Task, s state) (update, error) {
			h := fnv.New64a()
			fmt.Fprint(h, task.Node(), task.Key(), task.Visit(), s.Trail, len(task.Messages()))
			r := rand.New(rand.NewPCG(h.Sum64(), seed))
			if task.Visit() < 5 {
				switch r.IntN(3) {
				case 0:
					task.Stay()
				case 1:
					if r.IntN(3) == 0 {
						task.Complete()
					}
				}
				for range r.IntN(3) {
					task.Send(graph.Send{To: names[r.IntN(len(names))], Key: []string{"", "", "k"}[r.IntN(3)], Arg: r.IntN(9)})
				}
			}
			return update{Visit: fmt.Sprint(task.Node(), task.Key(), task.Visit(), ":", len(s.Trail))}, nil
		}
		g.AddNode(n)
	}
	edges(g, "@start a", "@start b", "d @end")
	return compile(t, g)
}

// Wherever a process dies, a run with votes comes to the same end as without a log.
func TestVotesSurvive(t *testing.T) {
	deaths, votes := 0, map[string]int{}
	for seed := range uint64(12) {
		flow := wildVotes(t, seed)
		want, err := flow.Run(t.Context(), state{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; ; at++ {
			store := runlogtest.NewMortal()
			store.DieAt(at, at%2 == 0)
			opt := &graph.RunOptions{Store: store, ID: "r", SnapshotEvery: 1 + int(seed%4)}
			got, err := flow.Run(t.Context(), state{}, opt)
			died := store.Dead()
			if died {
				deaths++
				store.Revive()
				got, err = flow.Run(t.Context(), state{}, opt)
			}
			if err != nil || !slices.Equal(got.Trail, want.Trail) {
				t.Fatalf("seed %d, append %d: %q, %v; want %q", seed, at, got.Trail, err, want.Trail)
			}
			if !died {
				for c := range flow.History(runlog.Records(t.Context(), store, "r", 0)) {
					for _, r := range c.Tasks {
						votes[r.Vote]++
					}
				}
				break
			}
		}
	}
	if deaths < 50 || votes["stay"] < 10 || votes["complete"] < 3 || votes[""] < 10 {
		t.Errorf("%d deaths, and the votes %v, are too few", deaths, votes)
	}
}
