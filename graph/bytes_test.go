package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

type held struct {
	Text string            `json:",omitempty"`
	List []string          `json:",omitempty"`
	Any  any               `json:",omitempty"`
	Map  map[string]string `json:",omitempty"`
	Seen []string          `json:",omitempty"`
	N    int64             `json:",omitempty"`
}

func hold(s, u held) held {
	u.Seen = append(s.Seen[:len(s.Seen):len(s.Seen)], u.Seen...)
	return u
}

// A value that would be another one after a resume is an error with its field, before anything that depends on it runs, with a store and without.
// Every other value is the same after a resume.
func TestBytesAndNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		update held
		want   string // in the error; "" for none
	}{
		"a text":              {held{Text: "a\xff"}, `held.Text: "a\xff" is not UTF-8`},
		"a list":              {held{List: []string{"a", "\xe9"}}, `held.List[1]: "\xe9" is not UTF-8`},
		"a key":               {held{Map: map[string]string{"\xe9": "x"}}, `held.Map: "\xe9" is not UTF-8`},
		"below an any":        {held{Any: map[string]any{"x": []any{"\xe9"}}}, `held.Any[x][0]: "\xe9" is not UTF-8`},
		"a large number":      {held{Any: int64(9007199254740993)}, "held.Any: 9007199254740993 would be another number after a resume"},
		"a large number deep": {held{Any: map[string]any{"id": uint64(1 << 60)}}, "held.Any[id]: 1152921504606846976"},
		"the mark itself":     {held{Text: "a\uFFFD\\ufffd"}, ""},
		"a number of its own": {held{N: 9007199254740993}, ""},
		"digits in a text":    {held{Text: "9007199254740993", Any: "9007199254740993"}, ""},
		"any script":          {held{Text: "größe 節点 \u202e\u0000", Map: map[string]string{"節点": "größe"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, opt func() *graph.RunOptions) {
				o, after := opt(), 0
				stop, once := make(chan struct{}), sync.Once{}
				if o == nil {
					o = &graph.RunOptions{}
				} else {
					o.Stop = stop
				}
				g := graph.New("bytes", hold)
				g.Add("a", func(context.Context, held) (held, error) {
					if o.Stop != nil {
						once.Do(func() { close(stop) })
					}
					return c.update, nil
				})
				var got held
				g.Add("b", func(_ context.Context, s held) (held, error) { after++; got = s; return s, nil })
				g.Edge(graph.Start, "a")
				g.Edge("a", "b")
				g.Edge("b", graph.End)
				flow, err := g.Compile()
				if err != nil {
					t.Fatal(err)
				}
				final, err := flow.Run(t.Context(), held{}, o)
				if errors.Is(err, graph.ErrStopped) {
					final, err = flow.Run(t.Context(), held{}, opt())
				}
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) || after != 0 {
						t.Fatalf("got %+v, %v, %d runs of what follows; want %q", final, err, after, c.want)
					}
					return
				}
				if err != nil || !cmp.Equal(got, c.update) || !cmp.Equal(final, c.update) {
					t.Fatalf("got %+v and %+v, %v; want %+v", got, final, err, c.update)
				}
			})
		})
	}
}

// Names that are no text are refused before a task of theirs runs: after a resume they would be others, and two of them one. Other keys are the same
// after a resume, in any script.
func TestKeysInAnyScript(t *testing.T) {
	everywhere(t, func(t *testing.T, opt func() *graph.RunOptions) {
		for _, keys := range [][]string{{"r\xe9sum\xe9", "r\xe8sum\xe8"}, {"größe", "節点", "a/[b]#%", "\u0000\u007f", "\uFFFD"}} {
			o, ran := opt(), 0
			if o != nil {
				o.ID = fmt.Sprintf("x%d", len(keys))
			}
			g := graph.New("keys", hold)
			g.AddNode(graph.Node[held, held]{Name: "w", Run: func(ctx context.Context, t *graph.Task, _ held) (held, error) {
				ran++
				var arg string
				_, err := graph.Do(ctx, t.Key(), func(context.Context, string) (int, error) { return 0, nil })
				return held{Seen: []string{t.Key()}}, errors.Join(err, t.Arg(&arg))
			}})
			g.Fan(graph.Start, func(held) (out []graph.Send) {
				for _, k := range keys {
					out = append(out, graph.Send{To: "w", Key: k, Arg: strings.ToValidUTF8(k, "")})
				}
				return out
			}, "w")
			g.Edge("w", graph.End)
			flow, err := g.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if o == nil {
				o = &graph.RunOptions{}
			}
			o.Parallelism = 1
			for range 2 {
				got, err := flow.Run(t.Context(), held{}, o)
				if len(keys) == 2 {
					if want := `the key "r\xe9sum\xe9" for w is not UTF-8`; err == nil || !strings.Contains(err.Error(), want) || ran != 0 {
						t.Fatalf("got %+v, %v after %d tasks; want %q", got, err, ran, want)
					}
				} else if err != nil || len(got.Seen) != len(keys) {
					t.Fatalf("got %+v, %v", got, err)
				}
			}
		}
	})
	flow := single(t, graph.Node[string, string]{Run: func(ctx context.Context, _ *graph.Task, _ string) (string, error) {
		return graph.Do(ctx, "\xff", func(context.Context, string) (string, error) { return "", nil })
	}})
	if _, err := flow.Run(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), `the key "\xff" of the effect is not UTF-8`) {
		t.Errorf("got %v", err)
	}
}

// A run whose state does not fit into a record has no snapshots, and is resumed from the whole log.
func TestStateLargerThanARecord(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 100 MB")
	}
	const steps, size = 24, 3 << 20
	for _, at := range []int{0, 20, 40} { // appends before it dies; 0 is never
		store := runlogtest.NewMortal()
		if at > 0 {
			store.DieAt(at, false)
		}
		g := graph.New("large", func(s, u held) held { u.List = append(s.List[:len(s.List):len(s.List)], u.List...); return u })
		g.Add("a", func(context.Context, held) (held, error) { return held{List: []string{strings.Repeat("x", size)}}, nil })
		g.Edge(graph.Start, "a")
		g.Branch("a", func(s held) string {
			if len(s.List) < steps {
				return "a"
			}
			return graph.End
		}, "a", graph.End)
		flow, err := g.Compile()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := flow.Run(t.Context(), held{}, &graph.RunOptions{Store: store, ID: "large", SnapshotEvery: 5})
			if errors.Is(err, runlogtest.ErrCrash) {
				store.Revive()
				continue
			}
			if err != nil || len(got.List) != steps {
				t.Fatalf("dying at %d: %d of %d steps, %v", at, len(got.List), steps, err)
			}
		}
		infos, err := store.Runs(t.Context(), nil)
		if err != nil || len(infos) != 1 || infos[0].Status != runlog.Completed {
			t.Errorf("got %+v, %v", infos, err)
		}
	}
}
