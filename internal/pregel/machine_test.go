package pregel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/pregel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	trail  = []string
	result = pregel.Result[string, int]
	task   = pregel.Task[int]
)

func program(names ...string) *pregel.Program[trail, string, int] {
	p := &pregel.Program[trail, string, int]{Reduce: func(s trail, u string) trail { return append(s[:len(s):len(s)], u) }}
	for _, n := range names {
		p.Vertices = append(p.Vertices, pregel.Vertex{Name: n})
	}
	return p
}

func to(v int) pregel.Send[int]            { return pregel.Send[int]{To: v, Bare: true} }
func say(v, msg int) pregel.Send[int]      { return pregel.Send[int]{To: v, Msg: msg} }
func key(v int, k string) pregel.Send[int] { return pregel.Send[int]{To: v, Key: k, Bare: true} }
func done(u string, s ...pregel.Send[int]) result {
	return result{Outcome: pregel.Done, Update: u, Sends: s}
}

// drive runs a machine with a table of what each path does, and gives the paths by superstep.
func drive(t *testing.T, m *pregel.Machine[trail, string, int], does map[string]result) [][]string {
	t.Helper()
	var steps [][]string
	for !m.Ended() {
		var step []string
		for _, x := range m.Plan() {
			path := m.Path(&x)
			step = append(step, path)
			r, ok := does[path]
			if !ok {
				r = done(path)
			}
			if err := m.Apply(x.Index, r); err != nil {
				t.Fatal(err)
			}
		}
		steps = append(steps, step)
		m.Commit()
	}
	return steps
}

func TestSupersteps(t *testing.T) {
	for name, c := range map[string]struct {
		entries []pregel.Send[int]
		does    map[string]result
		want    string
	}{
		"entry only":                {[]pregel.Send[int]{to(0)}, nil, "[[a]]"},
		"chain":                     {[]pregel.Send[int]{to(0)}, map[string]result{"a": done("a", to(1)), "b": done("b", to(2))}, "[[a] [b] [c]]"},
		"all active":                {[]pregel.Send[int]{to(2), to(0), to(1)}, nil, "[[a b c]]"},
		"messages of a step join":   {[]pregel.Send[int]{to(0), to(1)}, map[string]result{"a": done("a", to(2)), "b": done("b", to(2))}, "[[a b] [c]]"},
		"halted wakes by message":   {[]pregel.Send[int]{to(0), to(1)}, map[string]result{"b": done("b", to(0)), "a": done("a")}, "[[a b] [a#1]]"},
		"stay":                      {[]pregel.Send[int]{to(0)}, map[string]result{"a": {Outcome: pregel.Done, Vote: pregel.Stay}}, "[[a] [a#1]]"},
		"complete drops messages":   {[]pregel.Send[int]{to(0)}, map[string]result{"a": {Outcome: pregel.Done, Vote: pregel.Complete, Sends: []pregel.Send[int]{to(0), to(1)}}}, "[[a] [b]]"},
		"keys are instances":        {[]pregel.Send[int]{to(0)}, map[string]result{"a": done("a", key(1, "z"), key(1, "y"), key(1, "z"))}, "[[a] [b[z] b[y]]]"},
		"keys are counted apart":    {[]pregel.Send[int]{key(1, "x"), to(1)}, map[string]result{"b[x]": done("x", to(1))}, "[[b[x] b] [b#1]]"},
		"skipped still sends":       {[]pregel.Send[int]{to(0)}, map[string]result{"a": {Outcome: pregel.Skipped, Sends: []pregel.Send[int]{to(1)}, Err: errors.New("no")}}, "[[a] [b]]"},
		"ambiguous keys are quoted": {[]pregel.Send[int]{key(0, "a]#1/%")}, nil, "[[a[a%5D%231%2F%25]]]"},
	} {
		m := pregel.New[trail, string, int](program("a", "b", "c"), nil, c.entries...)
		if got := fmt.Sprint(drive(t, m, c.does)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestInboxKeepsTheOrderOfSenders(t *testing.T) {
	m := pregel.New[trail, string, int](program("a", "b", "c"), nil, to(1), to(0))
	tasks := slices.Clone(m.Plan())
	slices.Reverse(tasks) // the last one ends first
	for _, x := range tasks {
		if err := m.Apply(x.Index, done("", say(2, x.Vertex*10), say(2, x.Vertex*10+1))); err != nil {
			t.Fatal(err)
		}
	}
	m.Commit()
	if got := m.Plan()[0].Inbox; !slices.Equal(got, []int{0, 1, 10, 11}) {
		t.Errorf("inbox %v", got)
	}
}

// A failed task's update and its messages are dropped whole, and it can be run again with its inbox.
func TestFailureBlocksTheCommit(t *testing.T) {
	m := pregel.New[trail, string, int](program("a", "b"), nil, say(0, 7), to(1))
	m.Plan()
	_ = m.Apply(0, result{Outcome: pregel.Failed, Update: "x", Sends: []pregel.Send[int]{to(1)}, Err: errors.New("no")})
	_ = m.Apply(1, done("b"))
	if m.Complete() || !slices.Equal(m.Failures(), []int{0}) || m.State() != nil {
		t.Errorf("complete %v, failures %v, state %v", m.Complete(), m.Failures(), m.State())
	}
	if err := m.Apply(1, done("b")); err == nil || !strings.Contains(err.Error(), "b has a result already") {
		t.Errorf("got %v", err)
	}
}

func TestTerminalStateTakesNoStep(t *testing.T) {
	p := &pregel.Program[int, int, int]{Vertices: []pregel.Vertex{{Name: "a"}}, Reduce: func(s, u int) int { return s + u }, Terminal: func(s int) bool { return s >= 10 }}
	m := pregel.New[int, int, int](p, 10, pregel.Send[int]{Bare: true})
	if !m.Ended() || m.Step() != 0 {
		t.Errorf("ended %v after %d steps", m.Ended(), m.Step())
	}
	exec := func(context.Context, *pregel.Task[int], int) pregel.Result[int, int] {
		return pregel.Result[int, int]{Outcome: pregel.Done, Update: 3, Vote: pregel.Stay}
	}
	m = pregel.New[int, int, int](p, 0, pregel.Send[int]{Bare: true})
	if err := pregel.Run(t.Context(), m, exec, nil); err != nil || m.State() != 12 || m.Step() != 4 {
		t.Errorf("state %d after %d steps, %v", m.State(), m.Step(), err)
	}
}

func TestAllJoinNeedsDistinctSources(t *testing.T) {
	p := program("a", "b", "j")
	p.Vertices[2] = pregel.Vertex{Name: "j", Need: 2, Sources: []int{0, 1}}
	m := pregel.New[trail, string, int](p, nil, to(0))
	got := drive(t, m, map[string]result{"a": done("a", to(2), to(2), to(0)), "a#1": done("a", to(2), to(1)), "b": done("b", to(2))})
	if want := "[[a] [a#1] [b] [j]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	m = pregel.New[trail, string, int](p, nil, to(0))
	drive(t, m, map[string]result{"a": done("a", to(2))})
	if got := m.Stalled(); !reflect.DeepEqual(got, map[int][]int{2: {1}}) {
		t.Errorf("stalled: %v", got)
	}
	m = pregel.New[trail, string, int](p, nil, to(0))
	var stalled *pregel.StalledError
	err := pregel.Run(t.Context(), m, func(_ context.Context, x *task, _ trail) result { return done("a", to(2)) }, nil)
	if !errors.As(err, &stalled) || stalled.Vertex != "j" || !slices.Equal(stalled.Missing, []string{"b"}) {
		t.Errorf("got %v", err)
	}
}

// A join that has fired hides none that never will.
func TestStalledBesideFired(t *testing.T) {
	p := program("a", "b", "all", "any1", "any2", "any3", "any4", "any5", "any6", "any7")
	p.Vertices[2] = pregel.Vertex{Name: "all", Need: 2, Sources: []int{0, 1}}
	sends := []pregel.Send[int]{to(2)}
	for i := 3; i < len(p.Vertices); i++ {
		p.Vertices[i] = pregel.Vertex{Name: p.Vertices[i].Name, Need: 1, Sources: []int{0, 1}}
		sends = append(sends, to(i))
	}
	m := pregel.New[trail, string, int](p, nil, to(0))
	drive(t, m, map[string]result{"a": done("a", sends...)})
	for range 20 { // its rounds are in no order
		if got := m.Stalled(); !reflect.DeepEqual(got, map[int][]int{2: {1}}) {
			t.Fatalf("stalled: %v", got)
		}
	}
}

// A random program: what a task does depends on nothing but its path and the state's length.
func random(seed uint64) func(path string, s trail) result {
	return func(path string, s trail) result {
		h := seed
		for _, c := range []byte(path) {
			h = h*31 + uint64(c)
		}
		r := rand.New(rand.NewPCG(h, uint64(len(s))))
		out := done(fmt.Sprint(path, "@", len(s)))
		if len(s) > 60 {
			return out
		}
		for range r.IntN(4) {
			send := say(r.IntN(5), r.IntN(100))
			if r.IntN(3) == 0 {
				send.Key = string(rune('p' + r.IntN(3)))
			}
			send.Bare = r.IntN(2) == 0
			out.Sends = append(out.Sends, send)
		}
		switch r.IntN(12) {
		case 0:
			out.Vote = pregel.Stay
		case 1:
			out.Vote = pregel.Complete
		}
		return out
	}
}

// The order in which tasks end decides nothing; and a machine restored from JSON
// between any two steps, with any part of a step recovered, goes on as if it had never stopped.
func TestCompletionOrderDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		does := random(seed)
		p := program("a", "b", "c", "d", "e")
		run := func(r *rand.Rand, restore bool) (trail, string) {
			m := pregel.New[trail, string, int](p, nil, to(0), to(3))
			var log strings.Builder
			for !m.Ended() && m.Step() < 40 {
				if restore {
					m = reload(t, p, m, r, does)
				}
				tasks := slices.Clone(m.Plan())
				r.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
				for _, x := range tasks {
					if err := m.Apply(x.Index, does(m.Path(&x), m.State())); err != nil {
						t.Fatal(err)
					}
				}
				for _, x := range m.Tasks() {
					fmt.Fprint(&log, m.Path(&x), x.Inbox, " ")
				}
				log.WriteString("\n")
				m.Commit()
			}
			return m.State(), log.String()
		}
		want, log := run(rand.New(rand.NewPCG(1, 1)), false)
		for i := range 4 {
			got, l := run(rand.New(rand.NewPCG(seed, uint64(i))), i%2 == 1)
			if !slices.Equal(got, want) || l != log {
				t.Fatalf("state %v, want %v\n%s\nwant\n%s", got, want, l, log)
			}
		}
	})
}

// reload sends a machine through JSON and recovers a random part of its step.
func reload(t *rapid.T, p *pregel.Program[trail, string, int], m *pregel.Machine[trail, string, int], r *rand.Rand, does func(string, trail) result) *pregel.Machine[trail, string, int] {
	b, err := json.Marshal(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var s pregel.Snapshot[trail, string, int]
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	again, err := pregel.Restore(p, &s)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range again.Tasks() {
		if r.IntN(3) == 0 && len(again.Tasks()) > 1 && x.Index > 0 {
			if err := again.Recover(x.Index, does(again.Path(&x), again.State())); err != nil {
				t.Fatal(err)
			}
		}
	}
	return again
}

func TestRestoreNamesWhatIsMissing(t *testing.T) {
	s := &pregel.Snapshot[trail, string, int]{}
	if err := json.Unmarshal([]byte(`{"frontier":[{"vertex":"gone"}]}`), s); err != nil {
		t.Fatal(err)
	}
	if _, err := pregel.Restore(program("a"), s); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v", err)
	}
}

func TestRunBoundsParallelism(t *testing.T) {
	for _, limit := range []int{1, 3, 100} {
		var busy, peak atomic.Int32
		p := program("s", "w")
		m := pregel.New[trail, string, int](p, nil, to(0))
		err := pregel.Run(t.Context(), m, func(_ context.Context, x *task, _ trail) result {
			if x.Vertex == 0 {
				r := done("s")
				for i := range 20 {
					r.Sends = append(r.Sends, key(1, fmt.Sprint(i)))
				}
				return r
			}
			n := busy.Add(1)
			for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
			}
			time.Sleep(2 * time.Millisecond)
			busy.Add(-1)
			return done("w")
		}, &pregel.RunOptions[trail, string, int]{Parallelism: limit})
		if err != nil || int(peak.Load()) > limit || limit > 1 && peak.Load() < 2 || len(m.State()) != 21 {
			t.Errorf("limit %d: peak %d, %d updates, %v", limit, peak.Load(), len(m.State()), err)
		}
	}
}

// Four tasks that wait 50 ms each take little more than one.
func TestTasksOfAStepRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := pregel.New[trail, string, int](program("a", "b", "c", "d"), nil, to(0), to(1), to(2), to(3))
		err := pregel.Run(t.Context(), m, func(context.Context, *task, trail) result {
			time.Sleep(50 * time.Millisecond)
			return done("x")
		}, nil)
		if took := time.Since(start); err != nil || took != 50*time.Millisecond {
			t.Errorf("took %s, %v", took, err)
		}
	})
}

// When a run is stopped, what has ended counts, what has not is run again, and no goroutine stays.
func TestStopKeepsWhatEnded(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	m := pregel.New[trail, string, int](program("a", "b", "c"), nil, to(0), to(1), to(2))
	ended := make(chan struct{})
	exec := func(ctx context.Context, x *task, _ trail) result {
		switch x.Vertex {
		case 0:
			defer close(ended)
			return done("a")
		case 1:
			<-ended
			stop(why)
			return done("b")
		}
		<-ctx.Done()
		return result{Outcome: pregel.Aborted, Err: ctx.Err()}
	}
	if err := pregel.Run(ctx, m, exec, nil); !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
	var again []string
	err := pregel.Run(t.Context(), m, func(_ context.Context, x *task, _ trail) result {
		again = append(again, m.Path(x))
		return done("c")
	}, nil)
	if err != nil || !slices.Equal(again, []string{"c"}) || !slices.Equal(m.State(), trail{"a", "b", "c"}) {
		t.Errorf("ran %v again, state %v, %v", again, m.State(), err)
	}
}

func TestWaitingTasksGoOnWhenWoken(t *testing.T) {
	m := pregel.New[trail, string, int](program("a", "b"), nil, to(0), to(1))
	answered := false
	exec := func(_ context.Context, x *task, _ trail) result {
		if x.Vertex == 0 && !answered {
			return result{Outcome: pregel.Waiting}
		}
		return done(m.Path(x))
	}
	var wait *pregel.WaitingError
	if err := pregel.Run(t.Context(), m, exec, nil); !errors.As(err, &wait) || !slices.Equal(wait.Paths, []string{"a"}) {
		t.Fatalf("got %v", err)
	}
	answered = true
	ready := func(x *task) bool { return x.Vertex == 0 }
	if err := pregel.Run(t.Context(), m, exec, &pregel.RunOptions[trail, string, int]{Ready: ready}); err != nil || !slices.Equal(m.State(), trail{"a", "b"}) {
		t.Errorf("state %v, %v", m.State(), err)
	}
}

func TestFailingRecorderStopsTheRun(t *testing.T) {
	broken := errors.New("disk on fire")
	m := pregel.New[trail, string, int](program("a", "b", "c"), nil, to(0), to(1), to(2))
	ran := 0
	exec := func(_ context.Context, x *task, _ trail) result { ran++; return done("x", to(0)) }
	err := pregel.Run(t.Context(), m, exec, &pregel.RunOptions[trail, string, int]{Parallelism: 1, Recorder: recorder(func() error { return broken })})
	if !errors.Is(err, broken) || ran > 3 {
		t.Errorf("got %v after %d tasks", err, ran)
	}
}

type recorder func() error

func (r recorder) Record(context.Context, *pregel.Machine[trail, string, int], []pregel.Ended[string, int], bool) error {
	return r()
}

// The greatest of some numbers spreads to every vertex: the first example of the Pregel paper.
func Example() {
	neighbours := [][]int{{1}, {0, 3}, {1, 3}, {2}}
	type values = [4]int
	type update struct{ vertex, value int }
	p := &pregel.Program[values, update, int]{Reduce: func(s values, u update) values { s[u.vertex] = u.value; return s }}
	var all []pregel.Send[int]
	for i := range neighbours {
		p.Vertices = append(p.Vertices, pregel.Vertex{Name: fmt.Sprint("v", i)})
		all = append(all, pregel.Send[int]{To: i, Bare: true})
	}
	m := pregel.New[values, update, int](p, values{3, 6, 2, 1}, all...)
	_ = pregel.Run(context.Background(), m, func(_ context.Context, t *pregel.Task[int], s values) pregel.Result[update, int] {
		best := s[t.Vertex]
		for _, v := range t.Inbox {
			best = max(best, v)
		}
		r := pregel.Result[update, int]{Outcome: pregel.Done, Update: update{t.Vertex, best}}
		if t.Step == 0 || best > s[t.Vertex] {
			for _, n := range neighbours[t.Vertex] {
				r.Sends = append(r.Sends, pregel.Send[int]{To: n, Msg: best})
			}
		}
		return r
	}, nil)
	fmt.Println(m.State(), "after", m.Step(), "supersteps")
	// Output: [6 6 6 6] after 4 supersteps
}

// firing is what wakes a join, in the first superstep or a later one.
type firing struct {
	step  int
	inbox []int
}

// firings are those of a join of some sources, of which sends lists who sends in each superstep. The
// sources are added in an order.
func firings(t *rapid.T, need int, order []int, sends [][]int) []firing {
	p := program()
	at := make([]int, len(order)) // by source: its vertex
	join := pregel.Vertex{Name: "join", Need: need}
	var entries []pregel.Send[int]
	for i, s := range order {
		at[s] = i
		p.Vertices = append(p.Vertices, pregel.Vertex{Name: fmt.Sprint(s)})
		join.Sources = append(join.Sources, i)
		entries = append(entries, to(i))
	}
	p.Vertices = append(p.Vertices, join)
	m := pregel.New(p, nil, entries...)
	var out []firing
	for step := 0; !m.Ended(); step++ {
		for _, x := range m.Plan() {
			r := done("")
			if x.Vertex == len(order) {
				out = append(out, firing{step, slices.Sorted(slices.Values(x.Inbox))})
			} else if r.Vote = pregel.Stay; step == len(sends) {
				r.Vote = pregel.Complete
			} else if s := order[x.Vertex]; slices.Contains(sends[step], s) {
				r.Sends = []pregel.Send[int]{say(len(order), 10*step+s)}
			}
			if err := m.Apply(x.Index, r); err != nil {
				t.Fatal(err)
			}
		}
		m.Commit()
	}
	return out
}

// What belongs to one round of a join does not depend on the order of its sources.
func TestRoundsOfJoins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "sources")
		order := rapid.Permutation([]int{0, 1, 2, 3}[:n])
		sends := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, n-1), 0, n), 1, 8).Draw(t, "sends")
		need := rapid.IntRange(1, n).Draw(t, "need")
		one, other := firings(t, need, order.Draw(t, "order"), sends), firings(t, need, order.Draw(t, "other"), sends)
		if !reflect.DeepEqual(one, other) {
			t.Fatalf("%v in one order, %v in another", one, other)
		}
	})
	rapid.Check(t, func(t *rapid.T) { // all that comes with what begins a round belongs to it
		order := rapid.Permutation([]int{0, 1}).Draw(t, "order")
		if got := fmt.Sprint(firings(t, 1, order, [][]int{{0}, {0, 1}})); got != "[{1 [0]} {2 [10 11]}]" {
			t.Fatalf("in the order %v: %s", order, got)
		}
		if got := fmt.Sprint(firings(t, 1, order, [][]int{{0}, {1}, {1}})); got != "[{1 [0]} {3 [21]}]" {
			t.Fatalf("in the order %v: %s", order, got)
		}
	})
}

// What does not fit is refused, and changes nothing.
func TestMisuse(t *testing.T) {
	p := program("a", "b", "c")
	p.Vertices[0].Targets, p.Vertices[1].Targets, p.Vertices[2].Reads = []int{2}, []int{1}, []int{0}
	early := *p
	early.AllowEarly()
	for name, p := range map[string]*pregel.Program[trail, string, int]{"plain": p, "early": &early} {
		t.Run(name, func(t *testing.T) {
			m := pregel.New[trail, string, int](p, nil, to(0), to(1))
			m.Plan()
			if err := m.Apply(0, result{Outcome: pregel.Waiting}); err != nil {
				t.Fatal(err)
			}
			for _, bad := range []result{{}, {Outcome: 99}, done("x", to(3)), done("x", to(-1)), {Outcome: pregel.Done, Fix: &pregel.Fix[string]{Vertex: 3}}} {
				if err := m.Apply(0, bad); err == nil {
					t.Errorf("%v was taken", bad)
				}
				if got := m.Waits(); len(got) != 1 {
					t.Errorf("after %v %v wait", bad, got)
				}
			}
			for _, i := range []int{-100, -1, 2, 100} {
				m.Wake(i)
				if err := m.Apply(i, done("x")); err == nil {
					t.Errorf("a result of task %d was taken", i)
				}
			}
			if err := m.RecoverEarly(9, "", 1, done("x")); err == nil {
				t.Error("a result of vertex 9 was taken")
			}
			m.Wake(1) // it does not wait
			m.Wake(0)
			if got := m.Plan(); len(got) != 1 || m.Waits() != nil {
				t.Errorf("ready: %v, waiting: %v", got, m.Waits())
			}
		})
	}
	early2 := pregel.New[trail, string, int](&early, nil, to(0), to(1))
	early2.Plan()
	_ = early2.Apply(0, done("a", to(2)))
	c := early2.Plan()
	if len(c) != 1 || c[0].Index >= 0 {
		t.Fatalf("%v", c)
	}
	if err := early2.Apply(c[0].Index, done("c", to(7))); err == nil {
		t.Error("a message to vertex 7 was taken")
	}
}

// A reducer that panics ends the run at once: what is still running is stopped.
func TestPanicOfTheReducerStopsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := program("a", "b", "c")
		p.Vertices[0].Targets, p.Vertices[2].Reads = []int{2}, []int{0}
		p.Reduce = func(s trail, u string) trail {
			if u == "b" {
				panic("no")
			}
			return append(s[:len(s):len(s)], u)
		}
		p.AllowEarly()
		start := time.Now()
		defer func() {
			v, took := recover(), time.Since(start)
			if p, is := v.(*pregel.PanicError); !is || p.Value != "no" || took != time.Minute {
				t.Errorf("it took %s to end with %v", took, v)
			}
		}()
		m := pregel.New(p, nil, to(0), to(1))
		err := pregel.Run(t.Context(), m, func(ctx context.Context, x *task, _ trail) result {
			switch x.Vertex {
			case 0:
				return done("a", to(2))
			case 1:
				time.Sleep(time.Minute)
				return done("b")
			}
			select {
			case <-time.After(1000 * time.Hour):
			case <-ctx.Done():
			}
			return result{Outcome: pregel.Aborted, Err: ctx.Err()}
		}, nil)
		t.Errorf("it ended with %v", err)
	})
}
