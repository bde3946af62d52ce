package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A plan is a random graph that can be built again and again.
type plan struct {
	layers [][]string
	edges  [][2]string
	joins  map[string]bool
	fans   map[string]int // width of the fan from a node to its worker
	loops  int            // how often the last layer goes back to the first
	delays map[string]time.Duration
	reads  map[string][]string   // of those that declare them
	subs   map[string]bool       // run a graph of their own
	fails  map[string]bool       // fail, and are skipped or met by a settled join
	kinds  map[string]graph.Join // of those in joins; All by default
}

func drawPlan(t *rapid.T) plan {
	p := plan{joins: map[string]bool{}, fans: map[string]int{}, delays: map[string]time.Duration{}, reads: map[string][]string{}, subs: map[string]bool{}, fails: map[string]bool{}, kinds: map[string]graph.Join{}, loops: rapid.IntRange(0, 2).Draw(t, "loops")}
	for i := range rapid.IntRange(1, 4).Draw(t, "layers") {
		var layer []string
		for j := range rapid.IntRange(1, 4).Draw(t, "width") {
			n := fmt.Sprintf("n%d-%d", i, j)
			layer = append(layer, n)
			p.delays[n] = time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * 100 * time.Microsecond
			if i == 0 {
				continue
			}
			above := p.layers[i-1]
			picked := 0
			for k, from := range above {
				if rapid.Bool().Draw(t, "edge") || k == len(above)-1 && picked == 0 {
					p.edges = append(p.edges, [2]string{from, n})
					picked++
				}
			}
			p.joins[n] = picked > 1 && p.loops == 0 && rapid.Bool().Draw(t, "join")
			p.kinds[n] = rapid.SampledFrom([]graph.Join{graph.All, graph.Settled, graph.Quorum(1), graph.Quorum(2)}).Draw(t, "kind of join")
			if rapid.IntRange(0, 3).Draw(t, "fan") == 0 {
				p.fans[n] = rapid.IntRange(1, 5).Draw(t, "fan width")
			}
		}
		p.layers = append(p.layers, layer)
	}
	all := slices.Concat(p.layers...)
	for _, n := range all {
		if rapid.Bool().Draw(t, "declares") {
			p.reads[n] = []string{}
			for _, r := range all {
				if rapid.IntRange(0, 3).Draw(t, "read") == 0 {
					p.reads[n] = append(p.reads[n], r)
				}
			}
		}
		p.subs[n] = rapid.IntRange(0, 5).Draw(t, "sub") == 0
		p.fails[n] = rapid.IntRange(0, 7).Draw(t, "fails") == 0
	}
	return p
}

// inner is a small graph with effects, a join and a loop.
func (p *plan) inner(ran func(path string), delay bool) (*graph.Flow[state, update], error) {
	g := graph.New("inner", reduce)
	for _, name := range []string{"x", "y", "z"} {
		n := graph.Node[state, update]{Name: name, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
			if delay {
				time.Sleep(100 * time.Microsecond)
			}
			a, err := graph.Do(ctx, "a", func(context.Context, string) (int, error) { return s.N % 3, nil })
			ran(t.Scope().Path())
			return update{Add: a + 1, Visit: t.Node()}, err
		}}
		if name == "z" {
			n.Join = graph.All
		}
		g.AddNode(n)
	}
	g.Edge(graph.Start, "x")
	g.Edge(graph.Start, "y")
	g.Edge("x", "z")
	g.Edge("y", "z")
	g.Edge("z", graph.End)
	return g.Compile()
}

// build makes the graph of a plan. Ran is called whenever a node runs.
func (p *plan) build(ran func(path string), delay bool) *graph.Graph[state, update] {
	g := graph.New("random", reduce)
	inner, err := p.inner(ran, delay)
	if err != nil {
		panic(err)
	}
	node := func(name string, all bool) {
		n := graph.Node[state, update]{Name: name, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
			path := pregel.Path(t.Node(), t.Key(), t.Visit())
			if delay {
				time.Sleep(p.delays[name])
			}
			// Two effects and something that depends on all that came before.
			a, err := graph.Do(ctx, "a", func(context.Context, string) (int, error) { return s.N % 7, nil })
			if err != nil {
				return update{}, err
			}
			if p.subs[name] {
				last, err := inner.Run(ctx, state{N: s.N}, t.Nested(""))
				if err != nil {
					return update{}, err
				}
				a += last.N
			}
			ran(t.Scope().Path())
			if p.fails[name] {
				return update{}, errors.New("it fails")
			}
			return update{Add: a + len(s.Trail) + 1 + 10*len(t.Failures()), Visit: path}, nil
		}, OnError: graph.Skip, Reads: p.reads[name]}
		if all {
			n.Join = p.kinds[name]
		}
		g.AddNode(n)
	}
	out := map[string]bool{}
	for _, layer := range p.layers {
		for _, n := range layer {
			node(n, p.joins[n])
		}
	}
	for _, n := range p.layers[0] {
		g.Edge(graph.Start, n)
	}
	for _, e := range p.edges {
		g.Edge(e[0], e[1])
		out[e[0]] = true
	}
	node("last", false)
	for _, layer := range p.layers {
		for _, n := range layer {
			if w := p.fans[n]; w > 0 {
				node(n+"-worker", false)
				g.Fan(n, func(s state) []graph.Send {
					var sends []graph.Send
					for i := range w + s.N%2 {
						sends = append(sends, graph.Send{To: n + "-worker", Key: fmt.Sprint("k", i), Arg: i})
					}
					return sends
				}, n+"-worker")
				g.Edge(n+"-worker", "last")
				out[n] = true
			}
			if !out[n] {
				g.Edge(n, "last")
			}
		}
	}
	first := p.layers[0][0]
	g.Branch("last", func(s state) string {
		rounds := 0
		for _, v := range s.Trail {
			if strings.HasPrefix(v, "last") {
				rounds++
			}
		}
		if rounds <= p.loops {
			return first
		}
		return graph.End
	}, first, graph.End)
	return g
}

func (p *plan) flow(t interface{ Fatalf(string, ...any) }, ran func(string), delay bool) *graph.Flow[state, update] {
	f, err := p.build(ran, delay).Compile()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return f
}

// canonical is a log without what may differ between two runs of the same work: times,
// epochs, snapshots, and the order of tasks that are running at once.
func canonical(t interface{ Fatalf(string, ...any) }, store runlog.Store, id string) []string {
	var recs []runlog.Record
	for r, err := range runlog.Records(context.Background(), store, id, 0) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		switch r.Kind {
		case runlog.KindSnapshot, runlog.KindInner, carry.Kind:
		default:
			recs = append(recs, r)
		}
	}
	slices.SortStableFunc(recs, func(a, b runlog.Record) int { return strings.Compare(a.Path, b.Path) })
	var out []string
	for _, r := range recs {
		out = append(out, fmt.Sprintf("%s %s %s", r.Path, r.Kind, lengths.ReplaceAll(r.Data, nil)))
	}
	return out
}

// However tasks are delayed and however many run at once, a graph comes to the same
// state by the same log.
func TestAnyScheduleGivesOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		var want state
		var log []string
		for i, parallelism := range []int{1, 2, 16, 16} {
			barrier := i == 0 || i == 3
			store := runlogtest.NewMortal()
			j, err := journal.Open(context.Background(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
			if err != nil {
				t.Fatal(err)
			}
			f := p.flow(t, func(string) {}, i > 0)
			got, err := f.Run(context.Background(), state{}, &graph.RunOptions{Journal: j, Parallelism: parallelism, Barrier: barrier})
			if err != nil {
				t.Fatal(err)
			}
			plain, err := f.Run(context.Background(), state{}, &graph.RunOptions{Parallelism: parallelism, Barrier: barrier})
			if err != nil || !reflect.DeepEqual(plain, got) {
				t.Fatalf("without a journal: %v, %v; with one: %v", plain, err, got)
			}
			l := canonical(t, store, "run")
			if i == 0 {
				want, log = got, l
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("parallelism %d: state %v, want %v", parallelism, got, want)
			}
			if !slices.Equal(l, log) {
				t.Fatalf("parallelism %d: log\n%s\nwant\n%s", parallelism, strings.Join(l, "\n"), strings.Join(log, "\n"))
			}
		}
	})
}

// Wherever a run is cut off, it comes to the state of a run that was not, and no task
// whose result was acknowledged runs again.
func TestAnyCrashGivesOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		want, err := p.flow(t, func(string) {}, false).Run(context.Background(), state{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		store := runlogtest.NewMortal()
		runs := map[string]int{}
		var mu sync.Mutex
		ran := func(path string) { mu.Lock(); runs[path]++; mu.Unlock() }
		f := p.flow(t, ran, true)
		options := &journal.Options{Create: &runlog.NewRun{}, SnapshotAfter: rapid.SampledFrom([]int{1, 500, 0}).Draw(t, "snapshots")}
		for crash := 0; ; crash++ {
			store.Revive()
			if n, after := rapid.IntRange(0, 12).Draw(t, "append"), rapid.Bool().Draw(t, "after"); crash <= 30 {
				store.DieAt(n, after)
			}
			j, err := journal.Open(context.Background(), store, "run", options)
			if err != nil {
				t.Fatal(err)
			}
			options.Create = nil
			done := finished(t, store)
			mu.Lock()
			before := map[string]int{}
			for path, n := range runs {
				before[path] = n
			}
			mu.Unlock()
			got, err := f.Run(context.Background(), state{}, &graph.RunOptions{Journal: j})
			for path := range done {
				if path != "" && runs[path] != before[path] {
					t.Fatalf("%s ran again although its result was recorded", path)
				}
			}
			if errors.Is(err, runlogtest.ErrCrash) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("after %d crashes: state %v, want %v", crash, got, want)
			}
			return
		}
	})
}

// finished are the tasks whose results are in the log.
func finished(t *rapid.T, store runlog.Store) map[string]bool {
	done := map[string]bool{}
	for r, err := range runlog.Records(context.Background(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindTaskDone {
			done[r.Path] = true
		}
	}
	return done
}

func open(t *testing.T, store runlog.Store, create bool) *journal.Journal {
	t.Helper()
	var opt journal.Options
	if create {
		opt.Create = &runlog.NewRun{Workflow: "test"}
	}
	j, err := journal.Open(t.Context(), store, "run", &opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close(context.Background()) })
	return j
}

// A finished task's result is kept when a sibling fails: the run that goes on repeats
// only the sibling.
func TestFailureKeepsSiblings(t *testing.T) {
	store := runlog.NewMemory(nil)
	runs := map[string]int{}
	var mu sync.Mutex
	broken := true
	g := graph.New("siblings", reduce)
	for _, n := range []string{"good", "bad", "ugly"} {
		g.Add(n, func(context.Context, state) (update, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[n]++
			if broken && n != "good" {
				return update{Visit: "never"}, fmt.Errorf("%s luck", n)
			}
			return update{Visit: n}, nil
		})
		g.Edge(graph.Start, n)
		g.Edge(n, graph.End)
	}
	f := compile(t, g)
	j := open(t, store, true)
	got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	var failed *graph.TasksError
	if !errors.As(err, &failed) || len(failed.Tasks) != 2 || err.Error() != "node bad: bad luck\nnode ugly: ugly luck" || len(got.Trail) != 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	_ = j.Close(t.Context())
	broken = false
	got, err = f.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store, false)})
	if err != nil || strings.Join(got.Trail, " ") != "good bad ugly" {
		t.Fatalf("got %v, %v", got, err)
	}
	if runs["good"] != 1 || runs["bad"] != 2 || runs["ugly"] != 2 {
		t.Errorf("runs: %v", runs)
	}
}

// A pause keeps what came before the question, other branches go on, and each answer counts once.
func TestPauseAndResume(t *testing.T) {
	store := runlog.NewMemory(nil)
	effects, others := 0, 0
	g := graph.New("pause", reduce)
	g.AddNode(graph.Node[state, update]{Name: "ask", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		n, err := graph.Do(ctx, "count", func(context.Context, string) (int, error) { effects++; return effects, nil })
		if err != nil {
			return update{}, err
		}
		answer, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "go", Text: "Go on?", Options: []string{"yes", "no"}})
		if err != nil {
			return update{}, fmt.Errorf("asking: %w", err)
		}
		return update{Add: n, Visit: string(answer)}, nil
	}})
	g.Add("other", func(context.Context, state) (update, error) { others++; return update{Visit: "other"}, nil })
	g.Edge(graph.Start, "ask")
	g.Edge(graph.Start, "other")
	g.Edge("ask", graph.End)
	g.Edge("other", graph.End)
	f := compile(t, g)
	j := open(t, store, true)
	for range 2 { // running again without an answer changes nothing
		_, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
		var wait *pregel.WaitingError
		if !errors.As(err, &wait) || !slices.Equal(wait.Paths, []string{"ask"}) {
			t.Fatalf("got %v", err)
		}
	}
	_ = j.Close(t.Context())
	j = open(t, store, false)
	if q := j.Open(); len(q) != 1 || q[0].Path != "ask" || q[0].Text != "Go on?" {
		t.Fatalf("open questions: %v", q)
	}
	if err := j.Answer(t.Context(), "ask", &runlog.Answer{Key: "go", Value: json.RawMessage(`"maybe"`)}); err == nil || !strings.Contains(err.Error(), "must be one of") {
		t.Fatalf("got %v", err)
	}
	if err := j.Answer(t.Context(), "ask", &runlog.Answer{Key: "go", Value: json.RawMessage(`"yes"`)}); err != nil {
		t.Fatal(err)
	}
	var twice *journal.AnsweredError
	if err := j.Answer(t.Context(), "ask", &runlog.Answer{Key: "go", Value: json.RawMessage(`"no"`)}); !errors.As(err, &twice) {
		t.Fatalf("got %v", err)
	}
	got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	if err != nil || strings.Join(got.Trail, " ") != `"yes" other` || got.N != 1 || effects != 1 || others != 1 {
		t.Fatalf("got %v, %v; %d effects, %d others", got, err, effects, others)
	}
}

// What must happen once is never repeated unasked.
func TestUnknownOutcomeAsks(t *testing.T) {
	for _, c := range []struct {
		answer string
		paid   int
		fails  bool
	}{{"do it again", 2, false}, {"it happened", 1, true}} {
		store := runlogtest.NewMortal()
		paid := 0
		f := compile(t, one(graph.Node[state, update]{Name: "pay", Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
			n, err := graph.Once(ctx, "pay", func(context.Context, string) (int, error) { paid++; return paid, nil })
			return update{Add: n}, err
		}}))
		store.DieAt(2, false) // the snapshot and the intent are kept, the outcome is not
		j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !errors.Is(err, runlogtest.ErrCrash) || paid != 1 {
			t.Fatalf("got %v, paid %d", err, paid)
		}
		store.Revive()
		j = open(t, store, false)
		_, err = f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
		var wait *pregel.WaitingError
		if !errors.As(err, &wait) || paid != 1 {
			t.Fatalf("got %v, paid %d", err, paid)
		}
		q := j.Open()[0]
		b, _ := json.Marshal(c.answer)
		if err := j.Answer(t.Context(), q.Path, &runlog.Answer{Key: q.Key, Value: b}); err != nil {
			t.Fatal(err)
		}
		_, err = f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
		if paid != c.paid || (err != nil) != c.fails {
			t.Errorf("%s: paid %d, %v", c.answer, paid, err)
		}
	}
}

func TestChangedGraphIsRefused(t *testing.T) {
	store := runlog.NewMemory(nil)
	build := func(extra string) *graph.Flow[state, update] {
		g := graph.New("versions", reduce)
		g.Add("a", func(context.Context, state) (update, error) { return update{}, errors.New("not yet") })
		g.Add(extra, visit(extra))
		g.Edge(graph.Start, "a")
		g.Edge("a", extra)
		g.Edge(extra, graph.End)
		return compile(t, g)
	}
	j := open(t, store, true)
	_, _ = build("b").Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	_ = j.Close(t.Context())
	j = open(t, store, false)
	_, err := build("c").Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
	var changed *graph.ChangedError
	if !errors.As(err, &changed) || !strings.Contains(err.Error(), "- node b") || !strings.Contains(err.Error(), "+ edge a → c") {
		t.Fatalf("got %v", err)
	}
}

// A run continues with another version of its graph if that is wanted and what it does next
// is still there, and from then on the log is of that version.
func TestAllowedChange(t *testing.T) {
	build := func(fails bool, nodes ...string) *graph.Flow[state, update] {
		g := graph.New("versions", reduce)
		prev := graph.Start
		for _, name := range nodes {
			do := visit(name)
			if fails && name == "c" {
				do = func(context.Context, state) (update, error) { return update{}, errors.New("not yet") }
			}
			g.Add(name, do)
			g.Edge(prev, name)
			prev = name
		}
		g.Add("beside", visit("beside"))
		g.Edge(nodes[1], "beside")
		g.Edge("beside", graph.End)
		g.Edge(prev, graph.End)
		return compile(t, g)
	}
	first := build(true, "a", "b", "c", "d")
	for _, every := range []int{0, 1, 2} {
		store := runlog.NewMemory(nil)
		j := open(t, store, true)
		_, err := first.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, SnapshotEvery: every})
		var failed *graph.TasksError
		if !errors.As(err, &failed) {
			t.Fatal(err)
		}
		_ = j.Close(t.Context())

		var changed *graph.ChangedError
		gone := build(false, "a", "b", "x", "y")
		j = open(t, store, false)
		_, err = gone.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, AllowChange: true})
		if !errors.As(err, &changed) || !strings.Contains(changed.Why, "c") || len(changed.Diff) == 0 {
			t.Fatalf("every %d: a run whose next node is gone gave %v", every, err)
		}
		_ = j.Close(t.Context())
		head := info(t, store).Head

		second := build(false, "a", "b", "c", "e", "d") // c is computed again, beside is not
		j = open(t, store, false)
		if _, err = second.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); !errors.As(err, &changed) || info(t, store).Head != head {
			t.Fatalf("every %d: without leave it gave %v", every, err)
		}
		_ = j.Close(t.Context())
		store2 := crashed(t, store)
		j = open(t, store2, false)
		got, err := second.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, AllowChange: true})
		want, werr := build(false, "a", "b", "c", "e", "d").Run(t.Context(), state{}, nil)
		if err != nil || werr != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("every %d: it ended with %+v (%v), want %+v", every, got, err, want)
		}
		_ = j.Close(t.Context())
		j = open(t, store2, false)
		if again, err := second.Run(t.Context(), state{}, &graph.RunOptions{Journal: j}); err != nil || !reflect.DeepEqual(again, want) {
			t.Fatalf("every %d: read again it gave %+v, %v", every, again, err)
		}
		_ = j.Close(t.Context())
		var last graph.Checkpoint[state]
		for c, err := range second.History(runlog.Records(t.Context(), store2, "run", 0)) {
			if err != nil {
				t.Fatal(err)
			}
			last = c
		}
		if !reflect.DeepEqual(last.State, want) {
			t.Errorf("every %d: its history ends with %+v", every, last.State)
		}
		old := 0
		for _, err = range first.History(runlog.Records(t.Context(), store2, "run", 0)) {
			old++
		}
		if !errors.As(err, &changed) || old < 2 {
			t.Errorf("every %d: the first version reads %d moments and then %v", every, old, err)
		}
	}
}

// crashed copies a store's run as it would be after a crash.
func crashed(t *testing.T, from runlog.Store) runlog.Store {
	t.Helper()
	to := runlog.NewMemory(nil)
	l, _, err := to.Acquire(t.Context(), "run", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range runlog.Records(t.Context(), from, "run", 0) {
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{r}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return to
}

func info(t *testing.T, store runlog.Store) runlog.Info {
	t.Helper()
	infos, err := store.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 {
		t.Fatalf("%d runs, %v", len(infos), err)
	}
	return infos[0]
}

// A snapshot is written after every so many supersteps, counted from the beginning.
func TestSnapshotEvery(t *testing.T) {
	store := runlog.NewMemory(nil)
	g := graph.New("count", reduce)
	g.Add("n", visit("n"))
	g.Edge(graph.Start, "n")
	g.Branch("n", func(s state) string {
		if len(s.Trail) < 13 {
			return "n"
		}
		return graph.End
	}, "n", graph.End)
	j := open(t, store, true)
	if _, err := compile(t, g).Run(t.Context(), state{}, &graph.RunOptions{Journal: j, SnapshotEvery: 5}); err != nil {
		t.Fatal(err)
	}
	var at []int
	step := 0
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case runlog.KindStepCommitted:
			step++
		case runlog.KindSnapshot:
			at = append(at, step)
		}
	}
	if !slices.Equal(at, []int{0, 5, 10}) {
		t.Errorf("snapshots after the supersteps %v", at)
	}
}

// A long run is recovered from its last snapshot, and its log stays linear in what it produced.
func TestSnapshotsBoundTheLog(t *testing.T) {
	store := runlog.NewMemory(nil)
	g := graph.New("grow", func(s state, u update) state { return reduce(s, u) })
	blob := strings.Repeat("x", 1000)
	g.Add("grow", func(context.Context, state) (update, error) { return update{Add: 1, Visit: blob}, nil })
	g.Edge(graph.Start, "grow")
	stop := 300
	g.Branch("grow", func(s state) string {
		if s.N < stop {
			return "grow"
		}
		return graph.End
	}, "grow", graph.End)
	f := compile(t, g)
	j := open(t, store, true)
	var limit *graph.StepLimitError
	if _, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, MaxSteps: 290}); !errors.As(err, &limit) {
		t.Fatal(err)
	}
	_ = j.Close(t.Context())
	j = open(t, store, false)
	if j.Info().Snapshot < 100 {
		t.Errorf("the last snapshot is record %d of %d", j.Info().Snapshot, j.Info().Head)
	}
	got, err := f.Run(t.Context(), state{}, &graph.RunOptions{Journal: j, MaxSteps: 1000})
	if err != nil || got.N != 300 || len(got.Trail) != 300 {
		t.Fatalf("got %d, %v", got.N, err)
	}
	bytes := 0
	for r := range j.Since(t.Context(), 0) {
		bytes += len(r.Data)
	}
	if bytes > 300*1000*5/2 {
		t.Errorf("the log has %d bytes for %d produced", bytes, 300*1000)
	}
}

// lengths are what no execution repeats: how long things took.
var lengths = regexp.MustCompile(`,"(took|queued|next|first)_ms":\d+`)
