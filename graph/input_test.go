package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph"
	reducers "github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

type plans struct {
	Topic string
	Plan  string
	Notes []string
	Used  string
}

type planning struct {
	Plan string
	Note string
	Used string
}

func replan(s plans, u planning) plans {
	if u.Plan != "" {
		s.Plan = u.Plan
	}
	if u.Note != "" {
		s.Notes = append(s.Notes, u.Note)
	}
	if u.Used != "" {
		s.Used = u.Used
	}
	return s
}

// planned is a graph in which what one node makes is checked two nodes later: planner,
// then a note, then a node whose input must be a plan of three letters.
func planned(planner func(t *graph.Task, s plans) (planning, error)) *graph.Graph[plans, planning] {
	g := graph.New("plan", replan)
	g.AddNode(graph.Node[plans, planning]{Name: "planner", Reads: []string{}, Run: func(_ context.Context, t *graph.Task, s plans) (planning, error) {
		return planner(t, s)
	}})
	g.Add("note", func(_ context.Context, s plans) (planning, error) { return planning{Note: "saw " + s.Plan}, nil })
	g.AddNode(graph.Node[plans, planning]{
		Name: "use", Reads: []string{"planner"}, Retry: &graph.Retry{Attempts: 3},
		Input: &graph.Input[plans]{
			Schema: &jsonschema.Schema{Type: "string", Pattern: "^[a-z]{3}$"},
			Of:     func(s plans) (any, error) { return s.Plan, nil },
		},
		Run: func(_ context.Context, t *graph.Task, s plans) (planning, error) {
			return planning{Used: s.Plan}, nil
		},
	})
	g.Edge(graph.Start, "planner")
	g.Edge("planner", "note")
	g.Edge("note", "use")
	g.Edge("use", graph.End)
	return g
}

func TestInputRunsItsProducerAgain(t *testing.T) {
	var heard []string
	flow, err := planned(func(t *graph.Task, s plans) (planning, error) {
		heard = append(heard, strings.Join(t.Feedback(), "|"))
		return planning{Plan: []string{"a", "ab", "abc"}[len(t.Feedback())]}, nil
	}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	got, err := flow.Run(t.Context(), plans{Topic: "x"}, nil)
	want := plans{Topic: "x", Plan: "abc", Notes: []string{"saw a"}, Used: "abc"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if len(heard) != 3 || heard[0] != "" || !strings.Contains(heard[1], "^[a-z]{3}$") || strings.Count(heard[2], "|") != 1 {
		t.Errorf("the producer heard %q", heard)
	}
}

func TestInputThatNeverFits(t *testing.T) {
	flow, err := planned(func(t *graph.Task, s plans) (planning, error) {
		return planning{Plan: fmt.Sprint(len(t.Feedback()))}, nil
	}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	_, err = flow.Run(t.Context(), plans{}, nil)
	var unfit *graph.SchemaError
	if !errors.As(err, &unfit) || unfit.Node != "use" || unfit.Producer != "planner" || len(unfit.Attempts) != 3 {
		t.Fatalf("got %v", err)
	}
	for i, a := range unfit.Attempts {
		if string(a.Input) != fmt.Sprintf("%q", fmt.Sprint(i)) || a.Problem == "" {
			t.Errorf("attempt %d: %s %s", i, a.Input, a.Problem)
		}
	}
}

// Wherever a run is cut off, its producer's better work is not asked for twice once it
// is in the log, and the state is the same.
func TestInputSurvivesACrash(t *testing.T) {
	for after := range 2 {
		for n := range 14 {
			store := runlogtest.NewMortal()
			store.DieAt(n, after == 1)
			var mu sync.Mutex
			calls := map[int]int{}
			flow, err := planned(func(t *graph.Task, s plans) (planning, error) {
				mu.Lock()
				calls[len(t.Feedback())]++
				mu.Unlock()
				return planning{Plan: []string{"a", "ab", "abc"}[len(t.Feedback())]}, nil
			}).Compile()
			if err != nil {
				t.Fatal(err)
			}
			var got plans
			for {
				j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, Reopen: true, SnapshotAfter: 1})
				if err != nil {
					t.Fatal(err)
				}
				if got, err = flow.Run(t.Context(), plans{}, &graph.RunOptions{Journal: j}); err == nil {
					break
				}
				if !errors.Is(err, runlogtest.ErrCrash) {
					t.Fatal(err)
				}
				store.Revive()
			}
			if got.Used != "abc" || got.Plan != "abc" || !slices.Equal(got.Notes, []string{"saw a"}) {
				t.Fatalf("crash %d: got %+v", n, got)
			}
			if sum := calls[0] + calls[1] + calls[2]; sum > 4 {
				t.Errorf("crash %d: the producer ran %v", n, calls)
			}
		}
	}
}

func TestInputWithoutAProducerFails(t *testing.T) {
	g := graph.New("input", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Run: broken, Input: &graph.Input[state]{Schema: &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{"N": {Type: "integer", Minimum: new(3.0)}},
	}}})
	edges(g, "@start a", "a @end")
	_, err := compile(t, g).Run(t.Context(), state{}, nil)
	var unfit *graph.SchemaError
	if !errors.As(err, &unfit) || len(unfit.Attempts) != 1 || !strings.Contains(err.Error(), "name that in Input.From, or as the only one in Reads") {
		t.Fatalf("got %v", err)
	}
}

func TestInputMistakes(t *testing.T) {
	g := graph.New("input", replan)
	nop := func(context.Context, *graph.Task, plans) (planning, error) { return planning{}, nil }
	any := &jsonschema.Schema{}
	g.AddNode(graph.Node[plans, planning]{Name: "a", Run: nop})
	g.AddNode(graph.Node[plans, planning]{Name: "b", Run: nop, Reads: []string{"a", "a", "z"}})
	g.AddNode(graph.Node[plans, planning]{Name: "c", Run: nop, Reads: []string{"a"}, Input: &graph.Input[plans]{Schema: any}})
	g.AddNode(graph.Node[plans, planning]{Name: "d", Run: nop, Reads: []string{"b"}, Input: &graph.Input[plans]{Schema: any}})
	g.AddNode(graph.Node[plans, planning]{Name: "e", Run: nop, Reads: []string{"b"}, Input: &graph.Input[plans]{Schema: any, From: "c"}})
	g.AddNode(graph.Node[plans, planning]{Name: "f", Run: nop, Input: &graph.Input[plans]{}, Err: errors.New("it was made wrongly")})
	_, err := g.Compile()
	if err == nil {
		t.Fatal("no mistake was found")
	}
	for _, want := range []string{
		`node "b" reads "a" twice`, `reads of b: there is no node "z"`, `produced by "a", which reads the whole state`,
		`produced by "b", which reads "a"; the node has to read that too`, `produced by "c", which is not among its reads`,
		`node "f": its input has no schema`, `node "f": it was made wrongly`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in\n%v", want, err)
		}
	}
}

func TestOutputAndStateMustFit(t *testing.T) {
	g := graph.New("output", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Output: &jsonschema.Schema{Required: []string{"Missing"}}, Run: func(context.Context, *graph.Task, state) (update, error) {
		return update{}, nil
	}})
	edges(g, "@start a", "a @end")
	if _, err := compile(t, g).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "does not fit its schema") {
		t.Errorf("got %v", err)
	}
	g = graph.New("state", reduce)
	g.Add("a", visit("a"))
	edges(g, "@start a", "a @end")
	g.Check(func(s state) error {
		if s.N > 0 {
			return errors.New("N is not 0")
		}
		return nil
	})
	if _, err := compile(t, g).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "N is not 0") {
		t.Errorf("got %v", err)
	}
}

func TestTwoWritersOfOneField(t *testing.T) {
	type s struct {
		Best string
		List []string `reduce:"append"`
	}
	tags, err := reducers.Tags[s, s]()
	if err != nil {
		t.Fatal(err)
	}
	g := graph.NewTagged("tags", tags)
	g.Add("a", func(context.Context, s) (s, error) { return s{Best: "a", List: []string{"a"}}, nil })
	g.Add("b", func(context.Context, s) (s, error) { return s{List: []string{"b"}}, nil })
	g.Add("c", func(context.Context, s) (s, error) { return s{Best: "c"}, nil })
	for _, n := range []string{"a", "b", "c"} {
		g.Edge(graph.Start, n)
		g.Edge(n, graph.End)
	}
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	_, err = flow.Run(t.Context(), s{}, nil)
	var conflict *graph.ConflictError
	if !errors.As(err, &conflict) || conflict.Field != "Best" || conflict.Paths != [2]string{"a", "c"} {
		t.Fatalf("got %v", err)
	}
}

func TestWhatCannotBeEncodedIsFound(t *testing.T) {
	type s struct{ Jobs []struct{ Done chan int } }
	g := graph.New("types", func(a s, _ func()) s { return a })
	g.Add("a", func(context.Context, s) (func(), error) { return nil, nil })
	g.Edge(graph.Start, "a")
	g.Edge("a", graph.End)
	_, err := g.Compile()
	if err == nil || !strings.Contains(err.Error(), "s.Jobs[].Done") || !strings.Contains(err.Error(), "func()") {
		t.Fatalf("got %v", err)
	}
}

// Two branches that look at the state with their own update in it do not share the
// spare room of its lists.
func TestPreviewsDoNotShareMemory(t *testing.T) {
	grow := func(s state, u update) state { s.Trail = append(s.Trail, u.Visit); return s }
	g := graph.New("previews", grow)
	seen := make(chan string, 100)
	for i := range 20 {
		n := fmt.Sprint("n", i)
		g.Add(n, visit(n))
		g.Edge(graph.Start, n)
		g.Branch(n, func(s state) string {
			seen <- n + " " + s.Trail[len(s.Trail)-1]
			return graph.End
		}, graph.End)
	}
	first := make([]string, 0, 64)
	if _, err := compile(t, g).Run(t.Context(), state{Trail: first}, nil); err != nil {
		t.Fatal(err)
	}
	close(seen)
	for s := range seen {
		if a, b, _ := strings.Cut(s, " "); a != b {
			t.Errorf("%s saw %s", a, b)
		}
	}
	if first[:1][0] != "" {
		t.Errorf("the caller's list holds %q", first[:1])
	}
}

// shelf is a cache that knows how often it was asked.
type shelf struct {
	mu    sync.Mutex
	kept  map[string][]byte
	ttl   time.Duration
	loads int
}

func (c *shelf) Load(_ context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads++
	b, ok := c.kept[key]
	return b, ok, nil
}

func (c *shelf) Store(_ context.Context, key string, value []byte, ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[key], c.ttl = value, ttl
	return nil
}

func TestCacheSparesWork(t *testing.T) {
	ran := 0
	build := func(version string) *graph.Flow[state, update] {
		g := graph.New("cache", reduce)
		g.AddNode(graph.Node[state, update]{Name: "a", Version: version, Cache: &graph.Caching[state]{TTL: time.Hour, Key: func(s state) any { return s.N }}, Run: func(context.Context, *graph.Task, state) (update, error) {
			ran++
			return update{Add: 1, Visit: "a"}, nil
		}})
		edges(g, "@start a", "a @end")
		return compile(t, g)
	}
	c := &shelf{kept: map[string][]byte{}}
	for _, run := range []struct {
		version string
		n, want int
	}{{"1", 0, 1}, {"1", 0, 1}, {"1", 5, 2}, {"2", 5, 3}, {"2", 5, 3}} {
		got, err := build(run.version).Run(t.Context(), state{N: run.n}, &graph.RunOptions{Cache: c})
		if err != nil || got.N != run.n+1 || ran != run.want {
			t.Fatalf("%+v: got %v after %d, %v", run, got, ran, err)
		}
	}
	if c.ttl != time.Hour {
		t.Errorf("kept for %v", c.ttl)
	}
}

func TestMemoryCache(t *testing.T) {
	now := time.Unix(100, 0)
	c := graph.NewMemoryCache(2, func() time.Time { return now })
	has := func(want ...string) {
		t.Helper()
		var got []string
		for _, k := range []string{"a", "b", "c"} {
			if v, ok, err := c.Load(t.Context(), k); ok && string(v) == k && err == nil {
				got = append(got, k)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("has %v, want %v", got, want)
		}
	}
	put := func(k string, ttl time.Duration) {
		if err := c.Store(t.Context(), k, []byte(k), ttl); err != nil {
			t.Error(err)
		}
	}
	put("a", 0)
	put("b", time.Second)
	has("a", "b")
	now = now.Add(time.Second)
	has("a")
	put("b", time.Minute)
	has("a", "b") // b was used last
	put("c", 0)
	has("b", "c")
	put("c", time.Second)
	now = now.Add(time.Hour)
	has()
}

// A task may send to whom it likes, as long as it has said so.
func TestTaskSends(t *testing.T) {
	g := graph.New("sends", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Sends: []string{"b"}, Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		t.Send(graph.Send{To: "b", Key: "x", Arg: 1})
		t.Send(graph.Send{To: "b", Key: "y", Arg: 2})
		return update{Visit: "a"}, nil
	}})
	g.AddNode(graph.Node[state, update]{Name: "b", Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		m := t.Messages()
		var n int
		if err := json.Unmarshal(m[0].Arg, &n); err != nil || m[0].From != "a" || len(m) != 1 {
			return update{}, fmt.Errorf("it was sent %+v, %w", m, err)
		}
		return update{Add: n, Visit: t.Key()}, nil
	}})
	edges(g, "@start a", "b @end")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || got.N != 3 || strings.Join(got.Trail, "") != "axy" {
		t.Fatalf("got %v, %v", got, err)
	}
	g = graph.New("sends", reduce)
	g.AddNode(graph.Node[state, update]{Name: "a", Sends: []string{"b"}, Run: func(_ context.Context, t *graph.Task, s state) (update, error) {
		t.Send(graph.Send{To: "c"})
		return update{}, nil
	}})
	g.Add("b", visit("b"))
	edges(g, "@start a", "b @end")
	if _, err := compile(t, g).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "not among its Sends") {
		t.Errorf("got %v", err)
	}
}

// What a node has made for another's input counts as written beside its siblings.
func TestBetterInputConflicts(t *testing.T) {
	type s struct{ X string }
	tags, err := reducers.Tags[s, s]()
	if err != nil {
		t.Fatal(err)
	}
	g := graph.NewTagged("fix", tags)
	g.AddNode(graph.Node[s, s]{Name: "p", Run: func(_ context.Context, t *graph.Task, _ s) (s, error) {
		if len(t.Feedback()) > 0 {
			return s{"good"}, nil
		}
		return s{"bad"}, nil
	}})
	g.AddNode(graph.Node[s, s]{Name: "c", Run: func(context.Context, *graph.Task, s) (s, error) { return s{}, nil }, Input: &graph.Input[s]{
		From: "p", Schema: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"X": {Pattern: "^good"}}},
	}})
	g.Add("sibling", func(context.Context, s) (s, error) { return s{"other"}, nil })
	for _, e := range [][2]string{{graph.Start, "p"}, {"p", "c"}, {"p", "sibling"}, {"c", graph.End}, {"sibling", graph.End}} {
		g.Edge(e[0], e[1])
	}
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var conflict *graph.ConflictError
	if got, err := flow.Run(t.Context(), s{}, nil); !errors.As(err, &conflict) || conflict.Paths != [2]string{"c", "sibling"} {
		t.Errorf("got %v, %v", got, err)
	}
}
