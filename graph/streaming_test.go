package graph_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/file"
)

// speaking is a graph of an agent, a node with a graph inside and an event, and a last node.
func speaking(t *testing.T, last graph.Func[state, update]) *graph.Flow[state, update] {
	t.Helper()
	says := &scripted.Model{Answer: func(*model.Request) scripted.Turn { return scripted.Say("one ", "two") }}
	inner := graph.New("inner", reduce)
	inner.AddNode(graph.Node[state, update]{Name: "x", Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		return update{Visit: "x"}, t.Emit(ctx, "half", 50)
	}})
	edges(inner, "@start x", "x @end")
	g := graph.New("speaking", reduce)
	g.AddNode(node.Agent("speak", &agent.Agent{Name: "speaker", Model: says}, func(state) (string, error) { return "Speak.", nil },
		func(_ state, out *agent.Outcome) (update, error) { return update{Visit: out.Text}, nil }))
	g.AddNode(graph.Sub("sub", compile(t, inner), func(s state) (state, error) { return s, nil }, func(state) (update, error) { return update{Visit: "sub"}, nil }))
	g.Add("last", last)
	edges(g, "@start speak", "speak sub", "sub last", "last @end")
	return compile(t, g)
}

// streamed runs a flow and describes its events.
func streamed(t *testing.T, f *graph.Flow[state, update], opt *graph.RunOptions) (got []string, last state, err error) {
	t.Helper()
	for e, failed := range f.Stream(t.Context(), state{}, opt) {
		if text := e.Kind + " " + e.Path + e.Text + e.Name; e.Kind == "step" {
			got = append(got, fmt.Sprint("step ", e.Step, " ", strings.Join(e.State.Trail, ",")))
		} else if e.Kind == "text" && len(got) > 0 && strings.HasPrefix(got[len(got)-1], "text ") {
			got[len(got)-1] += "|" + e.Text
		} else {
			got = append(got, text)
		}
		last, err = e.State, failed
	}
	return got, last, err
}

// A stream has what Run does, token by token and step by step, and ends with what Run returns, with a store and without one.
func TestStream(t *testing.T) {
	f := speaking(t, visit("last"))
	want, err := f.Run(t.Context(), state{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := file.Open(t.Context(), filepath.Join(t.TempDir(), "runs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]*graph.RunOptions{"nil": nil, "without": {Parallelism: 1}, "with": {Store: store, ID: "a"}} {
		got, last, err := streamed(t, f, opt)
		steps := []string{
			"step 0 ", "started speak", "text speakone |two", "done speak", "step 1 one two", "started sub", "started sub/x",
			"emitted sub/xhalf", "done sub/x", "done sub", "step 2 one two,sub", "started last", "done last", "step 3 one two,sub,last", "ended ",
		}
		if err != nil || !slices.Equal(got, steps) || !slices.Equal(last.Trail, want.Trail) {
			t.Errorf("%s a store: %v, ends with %v\ngot  %q\nwant %q", name, err, last, got, steps)
		}
	}
	// a finished run does nothing more
	if got, last, err := streamed(t, f, &graph.RunOptions{Store: store, ID: "a"}); err != nil || !slices.Equal(got, []string{"ended "}) || !slices.Equal(last.Trail, want.Trail) {
		t.Errorf("%q, %v, %v", got, last, err)
	}
}

// Whoever stops reading stops the run, which has returned by then; the next stream has only what is new.
func TestStreamStops(t *testing.T) {
	first, store := true, runlog.NewMemory(nil)
	f := speaking(t, func(ctx context.Context, _ state) (update, error) {
		if first {
			first = false
			<-ctx.Done()
		}
		return update{Visit: "last"}, ctx.Err()
	})
	for e, err := range f.Stream(t.Context(), state{}, &graph.RunOptions{Store: store, ID: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "started" && e.Path == "last" {
			break
		}
	}
	if infos, err := store.Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Owner != "" || infos[0].Status.Ended() {
		t.Fatalf("%+v, %v", infos, err)
	}
	got, last, err := streamed(t, f, &graph.RunOptions{Store: store, ID: "a"})
	if err != nil || slices.Contains(got, "done speak") || slices.Contains(got, "done sub/x") || got[len(got)-2] != "step 3 one two,sub,last" || len(last.Trail) != 3 {
		t.Errorf("%q, %v, %v", got, last, err)
	}
}

// Errors are those of Run, and come last.
func TestStreamErrors(t *testing.T) {
	f := speaking(t, func(ctx context.Context, _ state) (update, error) {
		answer, err := graph.Ask[string](ctx, graph.Question{Text: "Well?"})
		return update{Visit: answer}, err
	})
	if got, _, err := streamed(t, f, nil); !errors.Is(err, journal.ErrNoLog) || !errors.As(err, new(*graph.TasksError)) || got[len(got)-1] != "ended " {
		t.Errorf("a question without a store: %q, %v", got, err)
	}
	store, paused := runlog.NewMemory(nil), new(graph.Paused)
	got, _, err := streamed(t, f, &graph.RunOptions{Store: store, ID: "a"})
	if !errors.As(err, &paused) || !slices.Contains(got, "asks lastWell?") {
		t.Fatalf("%q, %v", got, err)
	}
	if err := f.Answer(t.Context(), store, "a", paused.Questions[0], "yes"); err != nil {
		t.Fatal(err)
	}
	if got, last, err := streamed(t, f, &graph.RunOptions{Store: store, ID: "a"}); err != nil || strings.Join(last.Trail, ",") != "one two,sub,yes" {
		t.Errorf("%q, %v, %v", got, last, err)
	}
	if got, _, err := streamed(t, f, &graph.RunOptions{ID: "b"}); err == nil || !strings.Contains(err.Error(), "needs a Store") || len(got) != 1 {
		t.Errorf("an ID without a store: %q, %v", got, err)
	}
	j := open(t, store, true)
	if got, _, err := streamed(t, f, &graph.RunOptions{Journal: j}); err == nil || !strings.Contains(err.Error(), "graph.Events") || len(got) != 1 {
		t.Errorf("a journal: %q, %v", got, err)
	}
}
