package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestRouter(t *testing.T) {
	choose := func(to string) node.Chooser[state] {
		return func(context.Context, *graph.Task, state, []string) (string, error) { return to, nil }
	}
	for _, tc := range []struct {
		name     string
		choose   node.Chooser[state]
		fallback string
		targets  []string
		want     string
		fails    string
	}{
		{"a target", choose("b"), "a", []string{"a", "b"}, "[b b]", ""},
		{"nothing", choose(""), "a", []string{"b"}, "[a a]", ""},
		{"nothing, without a fallback", choose(""), "", []string{"a", "b"}, "", "nothing was chosen out of a, b, and there is no fallback"},
		{"a stranger", choose("bb"), "a", []string{"a", "b"}, "", `the choice "bb" is not among the targets; did you mean "b"?`},
		{"the end", choose(graph.End), "", []string{"a", "b", graph.End}, "[" + graph.End + "]", ""},
		{"an error", func(context.Context, *graph.Task, state, []string) (string, error) { return "", errors.New("no idea") }, "a", []string{"a", "b"}, "", "no idea"},
	} {
		got, err := routed(t, node.Router("route", tc.choose, add, tc.fallback, tc.targets...)).Run(t.Context(), state{}, nil)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: %v", tc.name, err)
			}
		} else if err != nil || fmt.Sprint(got.Notes) != tc.want {
			t.Errorf("%s: got %v, %v", tc.name, got.Notes, err)
		}
	}
}

func TestByModel(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replies []scripted.Turn
		want    string
		turns   int
	}{
		{"at once", []scripted.Turn{scripted.Call("choose", `{"to":"b"}`)}, "[b b]", 1},
		{"after saying something", []scripted.Turn{scripted.Say("b"), scripted.Call("choose", `{"to":"b"}`)}, "[b b]", 2},
		{"after a stranger", []scripted.Turn{scripted.Call("choose", `{"to":"B"}`), scripted.Call("choose", `{"to":"b"}`)}, "[b b]", 2},
		{"never", []scripted.Turn{scripted.Call("chose", `{"to":"b"}`)}, "[a a]", 3},
	} {
		m := sequence(tc.replies...)
		got, err := routed(t, node.Router("route", node.ByModel(m, "Choose.", topic), add, "a", "a", "b")).Run(t.Context(), state{Topic: "go"}, nil)
		if err != nil || fmt.Sprint(got.Notes) != tc.want || len(m.Requests()) != tc.turns {
			t.Errorf("%s: got %v, %v after %d turns", tc.name, got.Notes, err, len(m.Requests()))
		}
		req := m.Requests()[len(m.Requests())-1]
		enum := req.Tools[0].Input.Properties["to"].Enum
		if req.Choice != "choose" || req.System != "Choose." || cmp.Diff([]any{"a", "b"}, enum) != "" || len(req.Messages) != 2*tc.turns-1 {
			t.Errorf("%s: asked %+v", tc.name, req)
		}
	}
}

func TestSplitTakesTurns(t *testing.T) {
	items := func(s state) []int { return s.Items }
	got := node.Split(items, "a", "b")(state{Items: []int{1, 2, 3, 4}})
	if diff := cmp.Diff([]graph.Send{{To: "a", Arg: []int{1, 3}}, {To: "b", Arg: []int{2, 4}}}, got); diff != "" {
		t.Error(diff)
	}
	rapid.Check(t, func(t *rapid.T) {
		all, to := rapid.SliceOf(rapid.Int()).Draw(t, "items"), rapid.SliceOfNDistinct(rapid.StringN(1, 3, -1), 1, 5, rapid.ID[string]).Draw(t, "to")
		shares := node.Split(items, to...)(state{Items: all})
		var back []int
		for i := range all {
			s := shares[i%len(to)]
			back = append(back, s.Arg.([]int)[i/len(to)])
			if s.To != to[i%len(to)] {
				t.Fatalf("share %d goes to %s", i%len(to), s.To)
			}
		}
		sum := 0
		for _, s := range shares {
			sum += len(s.Arg.([]int))
		}
		if sum != len(all) || len(back) > 0 && cmp.Diff(all, back) != "" {
			t.Fatalf("%v is not %v", shares, all)
		}
	})
}

// Items are mapped side by side, and what came of them is gathered in their order.
func TestMapAndGather(t *testing.T) {
	g := graph.New("test", reduce)
	g.AddNode(note("begin"))
	g.AddNode(graph.Node[state, update]{Name: "work", Sends: []string{"gather"}, Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
		var n int
		if err := t.Arg(&n); err != nil {
			return update{}, err
		}
		t.Send(graph.Send{To: "gather", Arg: []string{fmt.Sprintf("%s:%d", t.Key(), n*n)}})
		return update{}, nil
	}})
	g.AddNode(node.Gather("gather", graph.Any, func(_ state, rs []node.Result[[]string]) (update, error) {
		return update{Notes: slices.Concat(node.Values(rs)...)}, nil
	}))
	g.Edge(graph.Start, "begin")
	g.Fan("begin", node.Map("work", func(s state) []int { return s.Items }, nil), "work")
	g.Edge("gather", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{Items: []int{3, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9}}, nil)
	if err != nil || fmt.Sprint(got.Notes) != "[begin 01:9 02:1 03:4 04:0 05:0 06:0 07:0 08:0 09:0 10:0 11:81]" {
		t.Errorf("got %v, %v", got.Notes, err)
	}
	keyed := node.Map("work", func(s state) []int { return s.Items }, func(n int) string { return fmt.Sprintf("k%d", n) })(state{Items: []int{5}})
	if diff := cmp.Diff([]graph.Send{{To: "work", Key: "k5", Arg: 5}}, keyed); diff != "" {
		t.Error(diff)
	}
}

// What several nodes send is waited for: so many distinct ones, or all, of which some may fail.
func TestGatherJoins(t *testing.T) {
	build := func(join graph.Join, broken bool, slow bool) *graph.Graph[state, update] {
		g := graph.New("test", reduce)
		g.AddNode(note("a"))
		g.AddNode(note("b"))
		g.AddNode(note("later"))
		b := &[]graph.Node[state, update]{note("c")}[0]
		if broken {
			b.Run = func(context.Context, *graph.Task, state) (update, error) { return update{}, errors.New("it is broken") }
		}
		g.AddNode(*b)
		g.AddNode(node.Gather("gather", join, func(_ state, rs []node.Result[string]) (update, error) {
			var u update
			for _, r := range rs {
				u.Notes = append(u.Notes, fmt.Sprintf("%s=%s%s", r.Name, r.Value, r.Error))
			}
			return u, nil
		}))
		for _, name := range []string{"a", "b"} {
			g.Edge(graph.Start, name)
		}
		if slow {
			g.Edge("b", "later")
			g.Edge("later", "c")
		} else {
			g.Edge(graph.Start, "c")
			g.Edge(graph.Start, "later")
			g.Edge("later", graph.End)
		}
		for _, name := range []string{"a", "b", "c"} {
			g.Edge(name, "gather")
		}
		g.Edge("gather", graph.End)
		return g
	}
	got, err := compile(t, build(graph.Settled, true, true)).Run(t.Context(), state{}, nil)
	if err != nil || fmt.Sprint(got.Notes) != "[a b later c=it is broken]" {
		t.Errorf("settled: got %v, %v", got.Notes, err)
	}
	sending := build(graph.Quorum(2), false, false)
	tell := func(s state) []graph.Send { return []graph.Send{{To: "gather", Arg: strings.Join(s.Notes, "")}} }
	sending.Fan("a", tell, "gather")
	sending.Fan("b", tell, "gather")
	got, err = compile(t, sending).Run(t.Context(), state{}, nil)
	if err != nil || fmt.Sprint(got.Notes) != "[a b later c a=a b=b]" {
		t.Errorf("quorum: got %v, %v", got.Notes, err)
	}
	bad := graph.New("test", reduce)
	bad.AddNode(note("a"))
	bad.AddNode(node.Gather("gather", graph.Any, func(state, []node.Result[int]) (update, error) { return update{}, nil }))
	bad.Edge(graph.Start, "a")
	bad.Fan("a", func(state) []graph.Send { return []graph.Send{{To: "gather", Arg: "x"}} }, "gather")
	bad.Edge("gather", graph.End)
	if _, err := compile(t, bad).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "what a sent: ") {
		t.Errorf("got %v", err)
	}
}

func TestValues(t *testing.T) {
	ok, bad := node.Result[int]{Name: "ok", Value: 1}, node.Result[int]{Name: "bad", Error: "it is broken"}
	if diff := cmp.Diff([]int{1, 2}, node.Values([]node.Result[int]{ok, bad, {Name: "two", Value: 2}})); diff != "" {
		t.Error(diff)
	}
}
