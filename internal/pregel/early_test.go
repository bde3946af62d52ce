package pregel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// world is a random program and what its vertices do: a function of what they are given.
type world struct {
	prog  *pregel.Program[trail, string, int]
	may   [][]pregel.Send[int] // by vertex: what it may send
	edges [][]pregel.Send[int] // by vertex: what it always sends
	limit int                  // visits, after which it sends nothing but its edges
	seed  uint64
}

func drawWorld(t *rapid.T) *world {
	n := rapid.IntRange(2, 9).Draw(t, "vertices")
	w := &world{prog: program(), seed: rapid.Uint64().Draw(t, "seed"), limit: rapid.IntRange(0, 3).Draw(t, "visits")}
	w.prog.Branch = func(s trail) trail { return s[:len(s):len(s)] }
	w.prog.Reduce = func(s trail, u string) trail { return append(s, u) }
	w.may, w.edges = make([][]pregel.Send[int], n), make([][]pregel.Send[int], n)
	w.prog.Vertices = make([]pregel.Vertex, n)
	sources := make([][]int, n)
	for i := range n {
		v := &w.prog.Vertices[i]
		v.Name = fmt.Sprint("v", i)
		for range rapid.IntRange(0, 3).Draw(t, "edges") {
			if j := rapid.IntRange(i, n).Draw(t, "to"); j > i && j < n { // edges alone make no cycle
				w.edges[i] = append(w.edges[i], to(j))
				sources[j] = append(sources[j], i)
				v.Targets = append(v.Targets, j)
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "choices") {
			s := pregel.Send[int]{To: rapid.IntRange(0, n-1).Draw(t, "choice"), Bare: rapid.Bool().Draw(t, "bare")}
			if rapid.IntRange(0, 3).Draw(t, "keyed") == 0 {
				s.Key = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			}
			w.may[i] = append(w.may[i], s)
			v.Targets = append(v.Targets, s.To)
		}
		if rapid.IntRange(0, 3).Draw(t, "reads") > 0 {
			v.Reads = []int{}
			for r := range n {
				if rapid.IntRange(0, 3).Draw(t, "read") == 0 {
					v.Reads = append(v.Reads, r)
				}
			}
		}
		if rapid.IntRange(0, 5).Draw(t, "corrects") == 0 {
			v.Corrects = []int{rapid.IntRange(0, n-1).Draw(t, "corrected")}
		}
	}
	for i := range n {
		slices.Sort(sources[i])
		if src := slices.Compact(sources[i]); len(src) > 0 && rapid.IntRange(0, 2).Draw(t, "join") == 0 {
			w.prog.Vertices[i].Sources = src
			w.prog.Vertices[i].Need = len(src)
			if rapid.Bool().Draw(t, "quorum") {
				w.prog.Vertices[i].Need = rapid.IntRange(1, len(src)).Draw(t, "need")
			}
		}
	}
	return w
}

// does is what a task does: all of it depends on its identity and what it is given.
func (w *world) does(m *pregel.Machine[trail, string, int], t *pregel.Task[int], s trail) result {
	h := fnv.New64a()
	given := fmt.Sprint(w.seed, m.Path(t), t.Step, t.Inbox, strings.Join(s, ","))
	h.Write([]byte(given))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	res := done(fmt.Sprintf("%s@%d:%x", m.Path(t), t.Step, uint16(h.Sum64())))
	if r.IntN(8) == 0 {
		res.Outcome = pregel.Skipped
	}
	if c := w.prog.Vertices[t.Vertex].Corrects; len(c) > 0 && r.IntN(2) == 0 {
		res.Fix = &pregel.Fix[string]{Vertex: c[0], Update: "fix " + res.Update}
	}
	res.Sends = append(res.Sends, w.edges[t.Vertex]...)
	if t.Visit < w.limit {
		for _, s := range w.may[t.Vertex] {
			if r.IntN(2) == 0 {
				s.Msg = r.IntN(100)
				res.Sends = append(res.Sends, s)
			}
		}
	}
	return res
}

// trace is what a run computes, as far as anybody can tell.
type trace struct {
	State trail
	Steps int
	Tasks map[string]string // what each was given, by path and superstep
}

const longest = 40 // supersteps of a run

// inOrder runs a world superstep by superstep.
func (w *world) inOrder(prog *pregel.Program[trail, string, int], entries []pregel.Send[int]) *trace {
	m := pregel.New(prog, nil, entries...)
	tr := &trace{Tasks: map[string]string{}}
	for !m.Ended() && m.Step() < longest {
		for _, t := range m.Plan() {
			s := m.Sees(&t)
			tr.Tasks[fmt.Sprint(m.Path(&t), t.Step)] = fmt.Sprint(t.Inbox, s)
			if err := m.Apply(t.Index, w.does(m, &t, s)); err != nil {
				panic(err)
			}
		}
		m.Commit()
	}
	tr.State, tr.Steps = m.State(), m.Step()
	return tr
}

// work is a task that was handed out and has not ended.
type work struct {
	task pregel.Task[int]
	sees trail
}

// early runs a world with tasks that end in any order, and starts it anew from a
// snapshot now and then. It gives how many tasks started before their superstep.
func (w *world) early(t *rapid.T, entries []pregel.Send[int], r *rand.Rand) (*trace, int) {
	m := pregel.New(w.prog, nil, entries...)
	tr := &trace{Tasks: map[string]string{}}
	var out []work
	ahead := 0
	for !m.Ended() && m.Step() < longest {
		for _, x := range m.Plan() {
			if x.Index < 0 {
				ahead++
			}
			out = append(out, work{x, slices.Clone(m.Sees(&x))})
		}
		if m.Complete() {
			m.Commit()
			if r.IntN(6) == 0 {
				m, out = w.reload(t, m), nil
			}
			continue
		}
		if len(out) == 0 {
			t.Fatalf("nothing running in superstep %d", m.Step())
		}
		i := r.IntN(len(out))
		x := out[i]
		out = slices.Delete(out, i, i+1)
		if r.IntN(10) == 0 {
			if err := m.Apply(x.task.Index, result{Outcome: pregel.Aborted}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if x.task.Step < longest {
			tr.Tasks[fmt.Sprint(m.Path(&x.task), x.task.Step)] = fmt.Sprint(x.task.Inbox, x.sees)
		}
		if err := m.Apply(x.task.Index, w.does(m, &x.task, x.sees)); err != nil {
			t.Fatal(err)
		}
	}
	tr.State, tr.Steps = m.State(), m.Step()
	return tr, ahead
}

func (w *world) reload(t *rapid.T, m *pregel.Machine[trail, string, int]) *pregel.Machine[trail, string, int] {
	b, err := json.Marshal(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var s pregel.Snapshot[trail, string, int]
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	again, err := pregel.Restore(w.prog, &s)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestEarlyStartChangesNothing(t *testing.T) {
	total, cases := 0, 0 // rapid tries 100, or 20 with -short
	rapid.Check(t, func(t *rapid.T) {
		cases++
		w := drawWorld(t)
		entries := []pregel.Send[int]{to(0)}
		if rapid.Bool().Draw(t, "two entries") {
			entries = append(entries, to(1))
		}
		want := w.inOrder(w.prog, entries)
		w.prog.AllowEarly()
		for range 4 {
			got, ahead := w.early(t, entries, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 2)))
			total += ahead
			if got.Steps != want.Steps || !slices.Equal(got.State, want.State) {
				t.Fatalf("got  %d steps %v\nwant %d steps %v\n%v\n%v", got.Steps, got.State, want.Steps, want.State, got.Tasks, want.Tasks)
			}
			for path, given := range want.Tasks {
				if got.Tasks[path] != given {
					t.Fatalf("%s was given %s\nwant %s", path, got.Tasks[path], given)
				}
			}
			if want.Steps < longest && !reflect.DeepEqual(got.Tasks, want.Tasks) {
				t.Fatalf("got tasks %v\nwant %v", got.Tasks, want.Tasks)
			}
		}
	})
	if total < cases {
		t.Errorf("only %d tasks started early in %d cases", total, cases)
	}
}

// inOrderUntil runs a world superstep by superstep until tasks fail. It gives why it ended.
func (w *world) inOrderUntil(prog *pregel.Program[trail, string, int], entries []pregel.Send[int]) (*trace, string) {
	m := pregel.New(prog, nil, entries...)
	tr := &trace{Tasks: map[string]string{}}
	for !m.Ended() && m.Step() < longest {
		for _, t := range m.Plan() {
			s := m.Sees(&t)
			tr.Tasks[fmt.Sprint(m.Path(&t), t.Step)] = fmt.Sprint(t.Inbox, s)
			if err := m.Apply(t.Index, w.mayFail(m, &t, s)); err != nil {
				panic(err)
			}
		}
		if !m.Complete() {
			tr.State, tr.Steps = m.State(), m.Step()
			return tr, m.Stuck().Error()
		}
		m.Commit()
	}
	tr.State, tr.Steps = m.State(), m.Step()
	return tr, ""
}

// mayFail is does, and some tasks fail.
func (w *world) mayFail(m *pregel.Machine[trail, string, int], t *pregel.Task[int], s trail) result {
	res := w.does(m, t, s)
	h := fnv.New64a()
	h.Write([]byte("fails" + res.Update))
	if h.Sum64()%9 == 0 {
		return result{Outcome: pregel.Failed, Err: errors.New("at " + res.Update)}
	}
	return res
}

// A run with failures comes to the same on both schedules: the same state, the same failures, by tasks that were given the same. Once
// a failure is known, no task of a superstep after it begins.
func TestEarlyStartFailsAlike(t *testing.T) {
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		entries := []pregel.Send[int]{to(0), to(1)}
		want, why := w.inOrderUntil(w.prog, entries)
		w.prog.AllowEarly()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 2))
		m := pregel.New(w.prog, nil, entries...)
		tasks := map[string]string{}
		var out []work
		doom, got := longest, ""
		for !m.Ended() && m.Step() < longest {
			for _, x := range m.Plan() {
				if x.Step > doom {
					t.Fatalf("%s of superstep %d begins after a failure in %d", m.Path(&x), x.Step, doom)
				}
				out = append(out, work{x, slices.Clone(m.Sees(&x))})
			}
			if m.Complete() {
				m.Commit()
				continue
			}
			if len(out) == 0 {
				got = m.Stuck().Error()
				break
			}
			i := r.IntN(len(out))
			x := out[i]
			out = slices.Delete(out, i, i+1)
			if x.task.Step > doom { // it had not begun
				if err := m.Apply(x.task.Index, result{Outcome: pregel.Aborted}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			res := w.mayFail(m, &x.task, x.sees)
			tasks[fmt.Sprint(m.Path(&x.task), x.task.Step)] = fmt.Sprint(x.task.Inbox, x.sees)
			if err := m.Apply(x.task.Index, res); err != nil {
				t.Fatal(err)
			}
			if res.Outcome == pregel.Failed {
				doom = min(doom, x.task.Step)
			}
		}
		if got != why || m.Step() != want.Steps || !slices.Equal(m.State(), want.State) {
			t.Fatalf("got  %d steps %v: %s\nwant %d steps %v: %s", m.Step(), m.State(), got, want.Steps, want.State, why)
		}
		for path, given := range want.Tasks {
			if tasks[path] != given {
				t.Fatalf("%s was given %s, want %s", path, tasks[path], given)
			}
		}
		if why != "" {
			failed++
		}
	})
	if failed == 0 {
		t.Error("no run failed")
	}
}

func TestEarlyTaskWokenAsItsSuperstepOpens(t *testing.T) {
	p := &pregel.Program[trail, string, int]{Reduce: func(s trail, u string) trail { return append(s[:len(s):len(s)], u) }}
	p.Vertices = []pregel.Vertex{{Name: "a", Targets: []int{2}}, {Name: "b"}, {Name: "c", Reads: []int{0}}}
	p.AllowEarly()
	m := pregel.New(p, nil, to(0), to(1))
	x := m.Plan()
	b := x[1]
	_ = m.Apply(x[0].Index, done("a", to(2)))
	c := m.Plan()
	if len(c) != 1 || c[0].Index >= 0 {
		t.Fatalf("%v", c)
	}
	_ = m.Apply(c[0].Index, result{Outcome: pregel.Waiting})
	_ = m.Apply(b.Index, done("b"))
	m.Commit()
	w := m.Waits()
	if len(w) != 1 {
		t.Fatal(w)
	}
	m.Wake(w[0].Index)
	if got := m.Plan(); len(got) != 1 {
		t.Errorf("woken before the first Plan, and never handed out: %v", got)
	}
}

// A run that is stopped when its superstep is complete ends, also while a task is running
// that started before its superstep.
func TestEarlyTaskAtWorkWhenStopped(t *testing.T) {
	p := &pregel.Program[trail, string, int]{Reduce: func(s trail, u string) trail { return append(s[:len(s):len(s)], u) }}
	p.Vertices = []pregel.Vertex{{Name: "a", Targets: []int{2}}, {Name: "b"}, {Name: "c", Reads: []int{0}}}
	p.AllowEarly()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	early, over := make(chan struct{}), make(chan struct{})
	exec := func(ctx context.Context, task *pregel.Task[int], _ trail) result {
		switch task.Vertex {
		case 0:
			return done("a", to(2))
		case 1:
			<-early
			stop()
			return done("b")
		default:
			close(early)
			<-over
			return result{Outcome: pregel.Aborted, Err: ctx.Err()}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- pregel.Run(ctx, pregel.New(p, nil, to(0), to(1)), exec, nil) }()
	<-ctx.Done()
	time.AfterFunc(50*time.Millisecond, func() { close(over) }) // b is collected before c ends
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}
