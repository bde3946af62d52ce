package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// askNode is a flow of one node, which asks q and visits what the answer is worth.
func askNode[A any](t *testing.T, q graph.Question, worth func(A) string, check ...func(A) error) *graph.Flow[state, update] {
	t.Helper()
	g := graph.New("asking", reduce)
	g.Add("ask", func(ctx context.Context, _ state) (update, error) {
		answer, err := graph.Ask(ctx, q, check...)
		if err != nil {
			return update{}, err
		}
		return update{Visit: worth(answer)}, nil
	})
	edges(g, "@start ask", "ask @end")
	return compile(t, g)
}

func itself(s string) string { return s }

func TestAsk(t *testing.T) {
	four := func(a string) error {
		if a != "4" {
			return errors.New("count again")
		}
		return nil
	}
	yes := json.RawMessage(`"yes"`)
	for name, c := range map[string]struct {
		q       graph.Question
		check   []func(string) error
		answers []string // null is a denial
		want    string
		fails   error
	}{
		"an answer":              {graph.Question{Text: "Well?"}, nil, []string{`"no"`}, "no", nil},
		"denied":                 {graph.Question{Text: "Well?"}, nil, []string{"null"}, "", journal.ErrDenied},
		"denied, with a default": {graph.Question{Text: "Well?", Default: yes}, nil, []string{"null"}, "yes", nil},
		"checked":                {graph.Question{Text: "Well?"}, []func(string) error{four}, []string{`"3"`, `"5"`, `"4"`}, "4", nil},
		"checked twice":          {graph.Question{Text: "Well?"}, []func(string) error{four, four}, []string{`"3"`, `"4"`}, "4", nil},
	} {
		t.Run(name, func(t *testing.T) {
			flow := askNode(t, c.q, itself, c.check...)
			j := open(t, runlog.NewMemory(nil), true)
			opt := &graph.RunOptions{Journal: j}
			for i, a := range c.answers {
				var paused *graph.Paused
				if _, err := flow.Run(t.Context(), state{}, opt); !errors.As(err, &paused) || len(paused.Questions) != 1 {
					t.Fatal(err)
				}
				q := paused.Questions[0]
				if strings.Contains(q.Text, "count again") != (i > 0) || !strings.HasPrefix(q.Text, "Well?") {
					t.Errorf("asked %q", q.Text)
				}
				if err := j.Answer(t.Context(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(a), Denied: a == "null"}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := flow.Run(t.Context(), state{}, opt)
			if !errors.Is(err, c.fails) || err == nil && strings.Join(got.Trail, " ") != c.want {
				t.Errorf("got %v, %v", got.Trail, err)
			}
		})
	}
}

// What a question takes follows from the type of its answer and from its options.
func TestAskTypes(t *testing.T) {
	type words struct {
		A string `json:"a"`
	}
	for name, c := range map[string]struct {
		flow    *graph.Flow[state, update]
		several bool
		bad     []any
		good    any
		want    string
	}{
		"an object":       {askNode(t, graph.Question{}, func(w words) string { return w.A }), false, []any{words{}.A, map[string]int{"a": 1}}, words{"x"}, "x"},
		"an option":       {askNode(t, graph.Question{Options: []string{"yes", "no"}, About: map[string]string{"yes": "go on"}}, itself), false, []any{"perhaps"}, "yes", "yes"},
		"several options": {askNode(t, graph.Question{Options: []string{"a", "b", "c"}}, func(all []string) string { return strings.Join(all, "+") }), true, []any{"a", []string{"a", "d"}, []string{"a", "a"}}, []string{"a", "c"}, "a+c"},
		"anything":        {askNode(t, graph.Question{}, func(raw json.RawMessage) string { return string(raw) }), false, nil, []int{1}, "[1]"},
		"a schema":        {askNode(t, graph.Question{Schema: json.RawMessage(`{"enum":[3]}`)}, func(n int) string { return strings.Repeat("x", n) }), false, []any{2}, 3, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			store := runlog.NewMemory(nil)
			opt := &graph.RunOptions{Store: store, ID: "r"}
			var paused *graph.Paused
			if _, err := c.flow.Run(t.Context(), state{}, opt); !errors.As(err, &paused) || len(paused.Questions) != 1 {
				t.Fatal(err)
			}
			q := paused.Questions[0]
			if q.Several() != c.several {
				t.Errorf("several: %v", q.Several())
			}
			for _, bad := range c.bad {
				var unfit *journal.UnfitError
				if err := c.flow.Answer(t.Context(), store, "r", q, bad); !errors.As(err, &unfit) {
					t.Errorf("%v: got %v", bad, err)
				}
			}
			if err := c.flow.Answer(t.Context(), store, "r", q, c.good); err != nil {
				t.Fatal(err)
			}
			got, err := c.flow.Run(t.Context(), state{}, opt)
			if err != nil || strings.Join(got.Trail, " ") != c.want {
				t.Errorf("got %v, %v", got.Trail, err)
			}
		})
	}
}

func TestAskMistakes(t *testing.T) {
	g := graph.New("twice", reduce)
	g.Add("ask", func(ctx context.Context, _ state) (update, error) {
		_, err := graph.Ask[string](ctx, graph.Question{Text: "one?"})
		_, again := graph.Ask[string](ctx, graph.Question{Text: "two?"})
		return update{}, errors.Join(again, err)
	})
	edges(g, "@start ask", "ask @end")
	for name, c := range map[string]struct {
		flow *graph.Flow[state, update]
		want string
	}{
		"two without keys":    {compile(t, g), `question "answer" is used twice`},
		"about no option":     {askNode(t, graph.Question{Options: []string{"a"}, About: map[string]string{"b": "B"}}, itself), `describes "b"`},
		"options of a number": {askNode(t, graph.Question{Options: []string{"1"}}, func(int) string { return "" }), "its answer is of type int"},
		"no JSON":             {askNode(t, graph.Question{}, func(chan int) string { return "" }), "chan"},
	} {
		_, err := c.flow.Run(t.Context(), state{}, &graph.RunOptions{Store: runlog.NewMemory(nil), ID: "r"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAskWithoutALog(t *testing.T) {
	yes := json.RawMessage(`"yes"`)
	if _, err := askNode(t, graph.Question{}, itself).Run(t.Context(), state{}, nil); !errors.Is(err, journal.ErrNoLog) {
		t.Errorf("got %v", err)
	}
	if got, err := askNode(t, graph.Question{Default: yes}, itself).Run(t.Context(), state{}, nil); err != nil || strings.Join(got.Trail, "") != "yes" {
		t.Errorf("got %v, %v", got.Trail, err)
	}
	never := func(string) error { return errors.New("never") }
	if _, err := askNode(t, graph.Question{Default: yes}, itself, never).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "never") {
		t.Errorf("got %v", err)
	}
}

// An effect or a question with a context that is not the node's would leave no record.
func TestContextOfNoNode(t *testing.T) {
	happened := false
	fn := func(context.Context, string) (string, error) { happened = true; return "", nil }
	node := func(do func() error) *graph.Flow[state, update] {
		g := graph.New("astray", reduce)
		g.Add("node", func(context.Context, state) (update, error) { return update{}, do() })
		edges(g, "@start node", "node @end")
		return compile(t, g)
	}
	for name, do := range map[string]func() error{
		"do":   func() error { _, err := graph.Do(t.Context(), "k", fn); return err },
		"once": func() error { _, err := graph.Once(t.Context(), "k", fn); return err },
		"ask":  func() error { _, err := graph.Ask[string](t.Context(), graph.Question{Text: "?"}); return err },
	} {
		for _, opt := range []*graph.RunOptions{nil, {Store: runlog.NewMemory(nil), ID: "r"}} {
			_, err := node(do).Run(t.Context(), state{}, opt)
			if err == nil || !strings.Contains(err.Error(), "not that of a node") || happened {
				t.Errorf("%s, durable %t: got %v, happened %t", name, opt != nil, err, happened)
			}
		}
	}
}
