// Package graphtest tests graphs of yours: whether a run comes to the same state whenever it is
// killed, and whatever its tasks wait for.
//
//	func TestMyFlow(t *testing.T) { graphtest.KillEverywhere(t, flow, MyState{Topic: "Raft"}, nil) }
package graphtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// Options are the settings of KillEverywhere. Nil means the defaults.
type Options struct {
	Seed      uint64 // of the schedules; if 0, one that is printed
	Schedules int    // defaults to 200
	// Answer returns the answer to a question; defaults to the default of the question.
	Answer func(q runlog.Question) any
}

// KillEverywhere runs a graph without a store, and then with one: killed at each of its appends,
// before and after the store took it, and under random schedules with up to three kills each. Each
// run is resumed to its end. The test fails if the run without a store fails, and at the first that ends
// in another state, with an error, that does an effect of graph.Do or graph.Once again
// after it was recorded, or that passes a question without an answer. Nodes without such effects are named in the log of the test: what they do
// outside of their state is not seen. The state encodes as JSON, and nodes depend on it alone.
//
// A run that asks whether an effect of graph.Once happened has done right, and is left there.
func KillEverywhere[S, U any](t testing.TB, flow *graph.Flow[S, U], state S, opt *Options) {
	t.Helper()
	k := &killing[S, U]{flow: flow, state: encode(t, state)}
	if opt != nil {
		k.Options = *opt
	}
	if k.Seed == 0 {
		k.Seed = rand.Uint64()
	}
	if k.Schedules == 0 {
		k.Schedules = 200
	}
	Reducers(t, flow, state)
	first := &dying{Store: runlog.NewMemory(nil)}
	got := k.run(t, first, &graph.RunOptions{})
	if k.want = k.alone(t, got); k.want.err != "" {
		t.Errorf("graphtest: the run fails: %s", k.want.err)
	} else {
		k.check(t, "undisturbed", first, got)
	}
	k.unseen(t, first)
	for n := 1; n <= first.appends && !t.Failed(); n++ {
		for _, taken := range []bool{false, true} {
			s := &dying{Store: runlog.NewMemory(nil), at: []int{n}, taken: taken}
			k.check(t, fmt.Sprintf("killed at append %d of %d (taken: %v)", n, first.appends, taken), s, k.run(t, s, &graph.RunOptions{}))
		}
	}
	for i := 0; i < k.Schedules && !t.Failed(); i++ {
		r := rand.New(rand.NewPCG(k.Seed, uint64(i)))
		s := &dying{Store: runlog.NewMemory(nil), taken: r.IntN(2) == 0, chance: r}
		for range r.IntN(4) {
			s.at = append(s.at, 1+r.IntN(first.appends+2))
		}
		o := &graph.RunOptions{Parallelism: 1 + r.IntN(8), Barrier: r.IntN(3) == 0, SnapshotEvery: r.IntN(3)}
		k.check(t, fmt.Sprintf("schedule %d of seed %d", i, k.Seed), s, k.run(t, s, o))
	}
	if !t.Failed() {
		t.Logf("killed at each of %d appends; %d schedules of seed %d", first.appends, k.Schedules, k.Seed)
	}
}

type killing[S, U any] struct {
	Options
	flow  *graph.Flow[S, U]
	state json.RawMessage
	want  outcome
}

// outcome is how a run ended.
type outcome struct {
	state json.RawMessage
	err   string
	asked bool // it asks what became of an effect
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("graphtest: %v", err)
	}
	return b
}

func (k *killing[S, U]) first(t testing.TB) (s S) {
	t.Helper()
	if err := json.Unmarshal(k.state, &s); err != nil {
		t.Fatalf("graphtest: the state does not come back from JSON: %v", err)
	}
	return s
}

// alone runs the graph without a store. A graph that asks needs one, and is compared with itself.
func (k *killing[S, U]) alone(t testing.TB, stored outcome) outcome {
	t.Helper()
	s, err := k.flow.Run(t.Context(), k.first(t), nil)
	if errors.Is(err, journal.ErrNoLog) {
		return stored
	}
	return outcome{state: encode(t, s), err: said(err)}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// run runs the graph to its end, however often its store dies.
func (k *killing[S, U]) run(t testing.TB, store *dying, o *graph.RunOptions) outcome {
	t.Helper()
	for range 100 {
		ctx, die := context.WithCancel(t.Context())
		opt := *o
		opt.Store, opt.ID = store, "run"
		store.live(die)
		s, err := k.flow.Run(ctx, k.first(t), &opt)
		die()
		var paused *graph.Paused
		switch {
		case store.died():
			continue
		case errors.As(err, &paused):
			for _, q := range paused.Questions {
				if q.Kind == runlog.QuestionUnknown {
					return outcome{asked: true}
				}
				answer := any(q.Default)
				if k.Answer != nil {
					answer = k.Answer(q)
				}
				if err := k.flow.Answer(t.Context(), store.Store, "run", q, answer); err != nil {
					t.Fatalf("graphtest: %s asks %q, and the answer is not taken; give Options an Answer: %v", q.Path, q.Text, err)
				}
			}
			continue
		}
		return outcome{state: encode(t, s), err: said(err)}
	}
	t.Fatal("graphtest: after 100 resumptions the run has not ended")
	return outcome{}
}

// check compares a run with the first, and looks for effects that were done again.
func (k *killing[S, U]) check(t testing.TB, what string, store *dying, got outcome) {
	t.Helper()
	done, asks := map[string]bool{}, map[string]map[string]string{} // questions without an answer, by path and key
	for r, err := range runlog.Records(t.Context(), store.Store, "run", 0) {
		var d struct{ Key, Kind, Error, Text string }
		if err != nil || json.Unmarshal(r.Data, &d) != nil {
			t.Fatalf("graphtest: %s: record %d: %v", what, r.Seq, err)
		}
		if id := r.Path + " " + d.Key; d.Kind == "do" && (r.Kind == runlog.KindIntended || r.Kind == runlog.KindSettled) {
			if done[id] {
				t.Errorf("graphtest: %s: effect %q of %s is done again after it was recorded", what, d.Key, r.Path)
				return
			}
			done[id] = r.Kind == runlog.KindSettled && d.Error == ""
		}
		switch {
		case r.Kind == runlog.KindAsked && asks[r.Path] == nil:
			asks[r.Path] = map[string]string{d.Key: d.Text}
		case r.Kind == runlog.KindAsked:
			asks[r.Path][d.Key] = d.Text
		case r.Kind == runlog.KindAnswered:
			delete(asks[r.Path], d.Key)
		case r.Kind == runlog.KindTaskDone && d.Error == "" && len(asks[r.Path]) > 0:
			t.Errorf("graphtest: %s: %s is done, and has no answer to %q; return the error of graph.Ask", what, r.Path, slices.Sorted(maps.Values(asks[r.Path]))[0])
			return
		}
	}
	switch {
	case got.asked:
	case got.err != k.want.err:
		t.Errorf("graphtest: %s: the run ends with %q, and without a store with %q", what, got.err, k.want.err)
	case !bytes.Equal(got.state, k.want.state):
		t.Errorf("graphtest: %s: the state is another one than without a store: %s", what, difference(k.want.state, got.state))
	}
}

// unseen logs the nodes of which no effect is in the log.
func (k *killing[S, U]) unseen(t testing.TB, store *dying) {
	t.Helper()
	var seen, nodes []string
	for r, err := range runlog.Records(t.Context(), store.Store, "run", 0) {
		if err == nil && r.Kind == runlog.KindSettled {
			seen = append(seen, r.Path)
		}
		if err == nil && r.Kind == runlog.KindTaskDone && !strings.Contains(r.Path, "/") {
			name, _, _ := strings.Cut(r.Path, "#")
			name, _, _ = strings.Cut(name, "[")
			if !slices.Contains(nodes, name) && !slices.ContainsFunc(seen, func(p string) bool { return p == r.Path || strings.HasPrefix(p, r.Path+"/") }) {
				nodes = append(nodes, name)
			}
		}
	}
	if len(nodes) > 0 {
		t.Logf("no effects of graph.Do or graph.Once are seen in: %s", strings.Join(nodes, ", "))
	}
}

// Reducers runs a graph and folds each update of it twice into a copy of the state that it was
// folded into. The test fails if the reducer changes the state that it is given, such as by writing
// into one of its maps, or does not give the same twice.
func Reducers[S, U any](t testing.TB, flow *graph.Flow[S, U], state S) {
	t.Helper()
	k := &killing[S, U]{flow: flow, state: encode(t, state)}
	store := runlog.NewMemory(nil)
	_, _ = flow.Run(t.Context(), k.first(t), &graph.RunOptions{Store: store, ID: "run"}) // as far as it comes
	before := k.state
	for c, err := range flow.History(runlog.Records(t.Context(), store, "run", 0)) {
		if err != nil {
			t.Fatalf("graphtest: %v", err)
		}
		for _, r := range c.Tasks {
			if len(r.Update) == 0 {
				continue
			}
			fold := func(s S) json.RawMessage {
				var u U
				if err := json.Unmarshal(r.Update, &u); err != nil {
					t.Fatalf("graphtest: the update of %s: %v", r.Path, err)
				}
				return encode(t, flow.Reduce(s, u))
			}
			var given S
			if err := json.Unmarshal(before, &given); err != nil {
				t.Fatalf("graphtest: %v", err)
			}
			was := encode(t, given)
			once := fold(given)
			if now := encode(t, given); !bytes.Equal(was, now) {
				t.Errorf("graphtest: with the update of %s the reducer changes the state that it is given: %s; copy what it writes into", r.Path, difference(was, now))
				return
			}
			if twice := fold(given); !bytes.Equal(once, twice) {
				t.Errorf("graphtest: with the update of %s the reducer does not give the same twice: %s", r.Path, difference(once, twice))
				return
			}
			before = once
		}
		before = encode(t, c.State)
	}
}

// difference describes the first field in which two states differ.
func difference(was, is json.RawMessage) string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(was, &a) == nil && json.Unmarshal(is, &b) == nil {
		names := make([]string, 0, len(a)+len(b))
		for _, m := range []map[string]json.RawMessage{a, b} {
			for name := range m {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if !reflect.DeepEqual(a[name], b[name]) {
				return fmt.Sprintf("%s was %s and is %s", name, a[name], b[name])
			}
		}
	}
	return fmt.Sprintf("it was %s and is %s", was, is)
}

var errDied = errors.New("the process has died")

// dying is a store that dies at some of its appends: it takes nothing more, and the context of the
// run ends, until the run is begun anew.
type dying struct {
	runlog.Store
	mu      sync.Mutex
	appends int
	at      []int // the appends at which it dies, counted from the start of the process
	taken   bool  // it dies after the append, rather than before
	chance  *rand.Rand
	since   int // appends of this process
	dead    bool
	die     func()
}

func (d *dying) live(die func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.dead, d.die = 0, false, die
}

func (d *dying) died() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *dying) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	log, info, err := d.Store.Acquire(ctx, id, opt)
	return &dyingLog{log, d}, info, err
}

type dyingLog struct {
	runlog.Log
	d *dying
}

func (l *dyingLog) Append(ctx context.Context, b *runlog.Batch) error {
	d := l.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errDied
	}
	d.appends++
	if d.since++; d.chance != nil {
		for range d.chance.IntN(20) {
			runtime.Gosched()
		}
	}
	if len(d.at) == 0 || d.since < d.at[0] {
		return l.Log.Append(ctx, b)
	}
	d.at, d.dead = d.at[1:], true
	if d.taken {
		_ = l.Log.Append(ctx, b)
	}
	d.die()
	return errDied
}
