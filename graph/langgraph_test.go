package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	reducers "github.com/superstep-dev/superstep/graph/reduce"
)

// The tests in the files langgraph_*_test.go hold what docs/langgraph.md says of us.

func Example_langGraph() {
	type State struct {
		Topic string
		Notes []string
	}
	add := func(s State, note string) State {
		s.Notes = append(s.Notes, note)
		return s
	}
	search := func(_ context.Context, s State) (string, error) { return "a source about " + s.Topic, nil }
	write := func(_ context.Context, s State) (string, error) {
		return fmt.Sprintf("a brief from %d sources", len(s.Notes)), nil
	}
	enough := func(s State) string {
		if len(s.Notes) < 2 {
			return "search"
		}
		return "write"
	}

	g := graph.New("brief", add)
	g.Add("search", search)
	g.Add("write", write)
	g.Edge(graph.Start, "search")
	g.Branch("search", enough, "search", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		panic(err)
	}
	final, err := flow.Run(context.Background(), State{Topic: "Pregel"}, nil)
	fmt.Println(final.Notes[2], err)
	// Output: a brief from 2 sources <nil>
}

// drafts is a state with a field that has no reducer.
type drafts struct {
	Draft string
	Topic string   `reduce:"replace"`
	List  []string `reduce:"append"`
}

// tagged is a graph of nodes that each make one update, with edges as "a b".
func tagged(t *testing.T, names []string, updates map[string]drafts, list ...string) *graph.Flow[drafts, drafts] {
	t.Helper()
	tags, err := reducers.Tags[drafts, drafts]()
	if err != nil {
		t.Fatal(err)
	}
	g := graph.NewTagged("drafts", tags)
	for _, n := range names {
		g.Add(n, func(context.Context, drafts) (drafts, error) { return updates[n], nil })
	}
	for _, e := range list {
		from, to, _ := strings.Cut(e, " ")
		g.Edge(from, to)
	}
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLangGraphFieldsWithoutAReducer(t *testing.T) {
	updates := map[string]drafts{"a": {Draft: "a", Topic: "a", List: []string{"a"}}, "b": {Draft: "b", Topic: "b", List: []string{"b"}}}
	names := []string{"a", "b"}
	got, err := tagged(t, names, updates, "@start a", "a b", "b @end").Run(t.Context(), drafts{Draft: "first", List: []string{"first"}}, nil)
	if err != nil || got.Draft != "b" || strings.Join(got.List, " ") != "first a b" {
		t.Errorf("one after the other: got %+v, %v", got, err)
	}
	var conflict *graph.ConflictError
	got, err = tagged(t, names, updates, "@start a", "@start b", "a @end", "b @end").Run(t.Context(), drafts{Draft: "first"}, nil)
	if !errors.As(err, &conflict) || conflict.Field != "Draft" || conflict.Paths != [2]string{"a", "b"} {
		t.Errorf("side by side: got %v", err)
	}
	if got.Draft != "first" || got.List != nil {
		t.Errorf("the superstep of the conflict left %+v", got)
	}
	updates["b"] = drafts{Topic: "b", List: []string{"b"}}
	got, err = tagged(t, names, updates, "@start a", "@start b", "a @end", "b @end").Run(t.Context(), drafts{}, nil)
	if err != nil || got.Draft != "a" || got.Topic != "b" {
		t.Errorf("a field that says replace: got %+v, %v", got, err)
	}
}

// A reducer that is a function is never told of a conflict: its order decides.
func TestLangGraphReducerFunctionDecides(t *testing.T) {
	g := graph.New("last", func(_, b string) string { return b })
	for _, n := range []string{"a", "b"} {
		g.Add(n, func(context.Context, string) (string, error) { return n, nil })
		g.Edge(graph.Start, n)
		g.Edge(n, graph.End)
	}
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Run(t.Context(), "", nil); err != nil || got != "b" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// Nodes of one superstep fold in the order they were added, whatever they are called.
func TestLangGraphOrderOfUpdates(t *testing.T) {
	g := graph.New("order", reduce)
	for _, n := range []string{"zebra", "mule", "ant"} {
		g.Add(n, visit(n))
		edges(g, "@start "+n, n+" @end")
	}
	for range 20 {
		got, err := compile(t, g).Run(t.Context(), state{}, nil)
		if err != nil || strings.Join(got.Trail, " ") != "zebra mule ant" {
			t.Fatalf("got %v, %v", got, err)
		}
	}
}

// talk is a message; Gone takes the one of its ID away.
type talk struct {
	ID, Text string
	Gone     bool
}

// Messages are merged by their ids with a helper; taking one away is the reducer's own line.
func TestLangGraphMessages(t *testing.T) {
	g := graph.New("messages", func(s, u []talk) []talk {
		s = reducers.MergeByID(s, u, func(m talk) string { return m.ID })
		return slices.DeleteFunc(slices.Clone(s), func(m talk) bool { return m.Gone })
	})
	says := map[string][]talk{
		"one":   {{ID: "1", Text: "hello"}, {ID: "2", Text: "helo"}, {ID: "3", Text: "bye"}},
		"two":   {{ID: "2", Text: "hello back"}, {ID: "4", Text: "well"}},
		"three": {{ID: "3", Gone: true}, {ID: "never was", Gone: true}},
	}
	for _, n := range []string{"one", "two", "three"} {
		g.Add(n, func(context.Context, []talk) ([]talk, error) { return says[n], nil })
	}
	g.Edge(graph.Start, "one")
	g.Edge("one", "two")
	g.Edge("two", "three")
	g.Edge("three", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Run(t.Context(), nil, nil)
	want := []talk{{ID: "1", Text: "hello"}, {ID: "2", Text: "hello back"}, {ID: "4", Text: "well"}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v", got, err)
	}
}

// What a node makes is seen one superstep later, by siblings too; its own branch sees it
// at once, and nothing of theirs.
func TestLangGraphWhoSeesAnUpdate(t *testing.T) {
	saw := make(chan string, 10)
	g := graph.New("sees", reduce)
	for _, n := range []string{"a", "b", "c"} {
		g.Add(n, func(_ context.Context, s state) (update, error) {
			saw <- n + ":" + strings.Join(s.Trail, "")
			return update{Visit: n}, nil
		})
	}
	edges(g, "@start a", "@start b", "b c", "c @end")
	g.Branch("a", func(s state) string {
		if strings.Join(s.Trail, "") == "xa" {
			return "c"
		}
		return graph.End
	}, "c", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{Trail: []string{"x"}}, nil)
	if err != nil || strings.Join(got.Trail, "") != "xabc" {
		t.Fatalf("got %v, %v", got, err)
	}
	close(saw)
	var all []string
	for s := range saw {
		all = append(all, s)
	}
	slices.Sort(all)
	if strings.Join(all, " ") != "a:x b:x c:xab" {
		t.Errorf("got %v", all)
	}
}

func TestLangGraphEntries(t *testing.T) {
	build := func() *graph.Graph[state, update] {
		g := graph.New("entries", reduce)
		for _, n := range []string{"a", "b", "c"} {
			g.Add(n, visit(n))
			g.Edge(n, graph.End)
		}
		return g
	}
	g := build()
	edges(g, "@start a", "@start b")
	g.Branch(graph.Start, func(s state) string { return s.Trail[0] }, "b", "c")
	for first, want := range map[string]string{"c": "cabc", "b": "bab"} {
		got, err := compile(t, g).Run(t.Context(), state{Trail: []string{first}}, nil)
		if err != nil || strings.Join(got.Trail, "") != want {
			t.Errorf("%s: got %v, %v", first, got, err)
		}
	}
	g = build()
	g.Fan(graph.Start, func(s state) (out []graph.Send) {
		for _, to := range s.Trail {
			out = append(out, graph.Send{To: to, Key: "x"})
		}
		return out
	}, "a", "b", "c")
	if got, err := compile(t, g).Run(t.Context(), state{Trail: []string{"c", "b"}}, nil); err != nil || strings.Join(got.Trail, "") != "cbbc" {
		t.Errorf("got %v, %v", got, err)
	}
}

// One branch that ends does not end the others.
func TestLangGraphEndOfOneBranch(t *testing.T) {
	g := graph.New("end", reduce)
	for _, n := range []string{"a", "b", "c", "d"} {
		g.Add(n, visit(n))
	}
	edges(g, "@start a", "@start b", "b c", "c d", "d @end")
	g.Branch("a", func(state) string { return graph.End }, "b", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, "") != "abcd" {
		t.Fatalf("got %v, %v", got, err)
	}
}

// A choice must be among the targets that were listed; the state stays as it was.
func TestLangGraphStrayChoice(t *testing.T) {
	g := graph.New("stray", reduce)
	g.Add("a", visit("a"))
	g.Add("writer", visit("w"))
	edges(g, "@start a", "writer @end")
	g.Branch("a", func(state) string { return "writr" }, "writer", graph.End)
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err == nil || !strings.Contains(err.Error(), `did you mean "writer"`) || got.N != 0 {
		t.Fatalf("got %v, %v", got, err)
	}
}

// A choice of several nodes is a fan without arguments.
func TestLangGraphChooseSeveral(t *testing.T) {
	g := graph.New("several", reduce)
	for _, n := range []string{"a", "b", "c", "d"} {
		g.Add(n, visit(n))
	}
	edges(g, "@start a", "b @end", "c @end", "d @end")
	g.Fan("a", func(state) []graph.Send { return []graph.Send{{To: "b"}, {To: "d"}} }, "b", "c", "d")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, "") != "abd" {
		t.Fatalf("got %v, %v", got, err)
	}
}
