package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type state struct {
	Topic string          `json:"topic"`
	Items []int           `json:"items,omitempty"`
	Done  bool            `json:"done"`
	Meta  map[string]any  `json:"meta,omitempty"`
	Notes []string        `json:"notes,omitempty"`
	Talk  []model.Message `json:"talk,omitempty"`
}

type update struct {
	Notes []string        `json:"notes,omitempty"`
	Talk  []model.Message `json:"talk,omitempty"`
}

func reduce(s state, u update) state {
	s.Notes = append(s.Notes[:len(s.Notes):len(s.Notes)], u.Notes...)
	if u.Talk != nil {
		s.Talk = u.Talk
	}
	return s
}

func add(_ state, text string) (update, error) { return update{Notes: []string{text}}, nil }

func idle(state) (update, error) { return update{}, nil }

// note is a plain node that leaves a note.
func note(name string) graph.Node[state, update] {
	return graph.Node[state, update]{Name: name, Run: func(_ context.Context, _ *graph.Task, s state) (update, error) { return add(s, name) }}
}

// oneWay compiles nodes that run one after the other.
func oneWay(t testing.TB, nodes ...graph.Node[state, update]) *graph.Flow[state, update] {
	t.Helper()
	g := graph.New("test", reduce)
	from := graph.Start
	for _, n := range nodes {
		g.AddNode(n)
		g.Edge(from, n.Name)
		from = n.Name
	}
	g.Edge(from, graph.End)
	return compile(t, g)
}

func compile(t testing.TB, g *graph.Graph[state, update]) *graph.Flow[state, update] {
	t.Helper()
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mistakes is what Compile says of a node.
func mistakes(n graph.Node[state, update]) string {
	g := graph.New("test", reduce)
	g.AddNode(n)
	g.Edge(graph.Start, n.Name)
	g.Edge(n.Name, graph.End)
	if _, err := g.Compile(); err != nil {
		return err.Error()
	}
	return ""
}

// world counts what nodes do to it. An entry is "path key" of the effect, and may have
// more after another space.
type world struct {
	mu   sync.Mutex
	done []string
}

func (w *world) did(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, what)
}

// always says the same, sequence one thing after the other.
func always(t scripted.Turn) *scripted.Model { return sequence(t) }

func sequence(turns ...scripted.Turn) *scripted.Model {
	m := &scripted.Model{ID: "test/sequence"}
	m.Answer = func(*model.Request) scripted.Turn { return turns[min(len(m.Requests()), len(turns))-1] }
	return m
}

func tools(t testing.TB, list ...*tool.Tool) *tool.Set {
	t.Helper()
	set, err := tool.NewSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

type words struct {
	A string `json:"a,omitempty"`
	B string `json:"b,omitempty"`
	N int    `json:"n,omitempty"`
}

// echo is a tool that says its arguments.
func echo(t testing.TB, name string, effect tool.Effect, hook func(c *tool.Call) error) *tool.Tool {
	t.Helper()
	e, err := tool.NewRaw(name, "Echo.", func(_ context.Context, c *tool.Call, in words) (string, error) {
		if hook != nil {
			if err := hook(c); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%s/%s/%d", in.A, in.B, in.N), nil
	}, &tool.Options{Effect: effect})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// open opens the run of a test, and makes it the first time.
func open(t testing.TB, store runlog.Store) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}, Reopen: true})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// settled are the effects in the log that ended well, as "path key", and the number of those that did not.
func settled(t testing.TB, store runlog.Store) (well map[string]bool, failed int) {
	t.Helper()
	well = map[string]bool{}
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.Settled
		if r.Kind != runlog.KindSettled || json.Unmarshal(r.Data, &d) != nil {
			continue
		}
		if d.Error == "" {
			well[r.Path+" "+d.Key] = true
		} else {
			failed++
		}
	}
	return well, failed
}

// Wherever a run with nodes of each kind is cut off, it ends as one that was not, and does
// nothing again whose outcome is in the log.
func TestCrashAtEveryAppend(t *testing.T) {
	for name, build := range crashing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := state{Topic: "go", Items: []int{1, 2, 3}, Talk: []model.Message{model.UserText("a"), model.UserText("b"), model.UserText("c")}}
			want, err := build(t, &world{}).Run(t.Context(), first, nil)
			if err != nil {
				t.Fatal(err)
			}
			crashes := 0
			for n := 0; ; n++ {
				ended := false
				for _, after := range []bool{false, true} {
					store, w := runlogtest.NewMortal(), &world{}
					store.DieAt(n, after)
					flow := build(t, w)
					_, err := flow.Run(t.Context(), first, &graph.RunOptions{Journal: open(t, store)})
					if err == nil {
						ended = true
						all, _ := settled(t, store)
						for _, did := range w.done {
							if !all[did] {
								t.Errorf("%q is no effect in the log", did)
							}
						}
						continue
					}
					if !errors.Is(err, runlogtest.ErrCrash) {
						t.Fatal(err)
					}
					crashes++
					well, _ := settled(t, store)
					before := slices.Clone(w.done)
					store.Revive()
					got, err := flow.Run(t.Context(), first, &graph.RunOptions{Journal: open(t, store)})
					if err != nil {
						t.Fatalf("append %d, after %v: %v", n, after, err)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("append %d, after %v: %s", n, after, diff)
					}
					for _, did := range w.done[len(before):] {
						if well[did] {
							t.Errorf("append %d, after %v: %q was done again although its outcome is in the log", n, after, did)
						}
					}
				}
				if ended {
					break
				}
			}
			if crashes < 4 {
				t.Errorf("only %d crashes", crashes)
			}
		})
	}
}
