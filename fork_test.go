package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// facts is the state and the update of the workflow below.
type facts struct {
	Words []string `json:"words"`
}

func merge(s, u facts) facts { return facts{append(s.Words, u.Words...)} }

// deep is a workflow with all that a fork has to carry: parts side by side, a graph inside
// of a node, a node that starts early, effects and events. Effects are counted by path and
// key; what they give depends on nothing else.
func deep(t testing.TB, did *atomic.Int32) *workflow.Workflow {
	t.Helper()
	effect := func(ctx context.Context, task *graph.Task, key string) (string, error) {
		return graph.Do(ctx, key, func(context.Context, string) (string, error) {
			did.Add(1)
			return task.Scope().Path() + "." + key, nil
		})
	}
	inner := graph.New("inner", merge)
	for _, name := range []string{"x", "y", "z"} {
		inner.AddNode(graph.Node[facts, facts]{Name: name, Run: func(ctx context.Context, task *graph.Task, s facts) (facts, error) {
			v, err := effect(ctx, task, "in")
			return facts{[]string{fmt.Sprint(len(s.Words)), v}}, err
		}})
	}
	inner.Edge(graph.Start, "x")
	inner.Edge("x", "y")
	inner.Edge("y", "z")
	inner.Edge("z", graph.End)
	sub, err := inner.Compile()
	if err != nil {
		t.Fatal(err)
	}
	two := func(ctx context.Context, task *graph.Task, s facts) (facts, error) {
		out := facts{[]string{fmt.Sprint(len(s.Words))}}
		for _, key := range []string{"one", "two"} {
			v, err := effect(ctx, task, key)
			if err != nil {
				return out, err
			}
			out.Words = append(out.Words, v)
		}
		return out, task.Emit(ctx, "note", "done")
	}
	g := graph.New("deep", merge)
	g.AddNode(graph.Node[facts, facts]{Name: "a", Run: two})
	g.AddNode(graph.Node[facts, facts]{Name: "b", Run: two})
	g.AddNode(graph.Sub[facts, facts]("sub", sub, func(s facts) (facts, error) { return s, nil }, func(s facts) (facts, error) { return facts{s.Words[len(s.Words)-2:]}, nil }))
	g.AddNode(graph.Node[facts, facts]{Name: "early", Run: two, Reads: []string{"a"}})
	g.AddNode(graph.Node[facts, facts]{Name: "later", Run: two, Reads: []string{"early"}})
	g.AddNode(graph.Node[facts, facts]{Name: "end", Run: two, Join: graph.All})
	g.Edge(graph.Start, "a")
	g.Edge(graph.Start, "b")
	g.Edge("a", "early")
	g.Edge("b", "sub")
	g.Edge("early", "later")
	g.Edge("sub", "end")
	g.Edge("later", "end")
	g.Edge("end", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "Deep.", flow, func(in job) (facts, error) { return facts{[]string{in.Task}}, nil }, func(s facts) (facts, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func records(t testing.TB, e *superstep.Engine, id string) []runlog.Record {
	t.Helper()
	var out []runlog.Record
	for r, err := range e.Follow(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// A run forked at any of its records ends as its parent did, does again only what had no
// outcome there, and is replayed like any other.
func TestForkAtAnyRecord(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	e := engine(t, runlog.NewMemory(nil), deep(t, &did))
	run := start(t, e, nil)
	want := ends(t, run, runlog.Completed)
	total := did.Load()
	replays(t, e, run.ID())
	recs := records(t, e, run.ID())
	for _, r := range recs {
		settled := int32(0)
		for _, s := range recs[:r.Seq] {
			if s.Kind == runlog.KindSettled {
				settled++
			}
		}
		did.Store(0)
		fork, err := e.Fork(t.Context(), run.ID(), r.Seq, nil)
		if r.Seq == 1 {
			if err == nil || !strings.Contains(err.Error(), "had not begun") {
				t.Errorf("a fork before there is a state: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if i := info(t, e, fork.ID); i.Status != runlog.Paused || i.Title != "a b" {
			t.Errorf("%+v", i)
		}
		out := ends(t, resume(t, e, fork.ID, nil), runlog.Completed)
		if diff := cmp.Diff(want, out); diff != "" {
			t.Fatalf("fork at %s:\n%s", show(&r), diff)
		}
		if did.Load() != total-settled || int(did.Load()) > len(fork.Repeats) {
			t.Errorf("fork at %s: %d effects were done, want %d; %v", show(&r), did.Load(), total-settled, fork.Repeats)
		}
		replays(t, e, fork.ID)
	}
	if got := records(t, e, run.ID()); !slices.EqualFunc(got, recs, func(a, b runlog.Record) bool { return show(&a) == show(&b) }) {
		t.Error("the parent was changed")
	}
}

func TestForkWithEdits(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	store := runlog.NewMemory(nil)
	e := engine(t, store, deep(t, &did))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	edit := func(node, update string) *superstep.ForkOptions {
		return &superstep.ForkOptions{Title: "other", Edits: []graph.Edit{{Node: node, Update: json.RawMessage(update)}}}
	}
	m, err := e.At(t.Context(), run.ID(), "later")
	if err != nil || m.Step != 2 || !slices.Equal(m.Next, []string{"later"}) && !slices.Contains(m.Next, "later") {
		t.Fatalf("%+v %v", m, err)
	}
	for _, c := range []struct{ node, update, want string }{
		{"nobdy", `{}`, `graph "deep" has no node "nobdy"`},
		{"a", `{"wrods":["x"]}`, `unknown field "wrods"`},
		{"a", `{"words":"x"}`, "no update of graph"},
		{"a", `{`, "no update of graph"},
	} {
		if _, err := e.Fork(t.Context(), run.ID(), m.Seq, edit(c.node, c.update)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	fork, err := e.Fork(t.Context(), run.ID(), m.Seq, edit("early", `{"words":["edited"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if fork.Step != 2 || fork.Seq != m.Seq || len(fork.Repeats) == 0 || fork.Repeats[0].Kind != "do" {
		t.Errorf("%+v", fork)
	}
	nobody, err := e.Fork(t.Context(), run.ID(), m.Seq, edit("", `{"words":["edited"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Delete(t.Context(), run.ID()); err != nil {
		t.Fatal(err)
	}
	did.Store(0)
	out := ends(t, resume(t, e, fork.ID, nil), runlog.Completed)
	var got facts
	if err := json.Unmarshal(out.Output, &got); err != nil {
		t.Fatal(err)
	}
	// "later" reads "early" and nothing else: the first word, three of "early", and the edit.
	at := slices.Index(got.Words, "edited")
	if at < 0 || !slices.Equal(got.Words[at+1:at+4], []string{"5", "later.one", "later.two"}) && !slices.Contains(got.Words[at:], "5") {
		t.Errorf("%v", got.Words)
	}
	replays(t, e, fork.ID)
	out = ends(t, resume(t, e, nobody.ID, nil), runlog.Completed)
	if !strings.Contains(string(out.Output), `"5","later.one"`) {
		t.Errorf("a reader of one node did not see what nobody's edit put there: %s", out.Output)
	}
	replays(t, e, nobody.ID)
	began, err := e.At(t.Context(), fork.ID, "")
	if err != nil || began.Step != out.Steps {
		t.Errorf("%+v %v", began, err)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	e := engine(t, runlog.NewMemory(nil), deep(t, &did))
	run := start(t, e, nil)
	out := ends(t, run, runlog.Completed)
	var steps []string
	var last graph.Checkpoint[json.RawMessage]
	for m, err := range e.History(t.Context(), run.ID(), "") {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprint(m.Step, ":")
		for _, r := range m.Tasks {
			line += " " + r.Path
		}
		steps = append(steps, line+" → "+strings.Join(m.Next, " "))
		last = m
	}
	want := []string{"0: → a b", "1: a b → sub early", "2: sub early → later", "3: later → end", "4: end → "}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	if string(last.State) != string(out.Output) {
		t.Errorf("the last state is %s, the output %s", last.State, out.Output)
	}
	for ref, want := range map[string]int{"": 4, "0": 0, "3": 3, "b": 0, "end": 3, "seq:2": 0, "seq:9999": 4} {
		if m, err := e.At(t.Context(), run.ID(), ref); err != nil || m.Step != want {
			t.Errorf("%q is superstep %d, want %d: %v", ref, m.Step, want, err)
		}
	}
	for ref, want := range map[string]string{"5": "its last is 4", "edn": `did you mean "end"`, "seq:1": "had not begun", "seq:x": "is no record"} {
		if _, err := e.At(t.Context(), run.ID(), ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1,"b":[1,2],"c":"x"}`, `{"a":1,"b":[1,3,4],"d":null}`, `/b/1 2 3, /b/2 - 4, /c "x" -, /d - null`},
		{`1`, `1.0`, ` 1 1.0`},
		{`{"a/b~":{"x":1}}`, `{"a/b~":{}}`, `/a~1b~0/x 1 -`},
		{`[1]`, `{"0":1}`, ` [1] {"0":1}`},
		{`null`, `[]`, ` null []`},
		{`{"a":[{}]}`, `{"a":[{}]}`, ``},
	} {
		changes, err := superstep.Diff(json.RawMessage(c.a), json.RawMessage(c.b))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		word := func(v json.RawMessage) string {
			if v == nil {
				return "-"
			}
			return string(v)
		}
		for _, x := range changes {
			got = append(got, x.Path+" "+word(x.Before)+" "+word(x.After))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s to %s: %s, want %s", c.a, c.b, s, c.want)
		}
	}
	if _, err := superstep.Diff(json.RawMessage(`{`), json.RawMessage(`{}`)); err == nil {
		t.Error("what is no JSON was compared")
	}
}

func TestDiffOfRuns(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	e := engine(t, runlog.NewMemory(nil), deep(t, &did))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	m, err := e.At(t.Context(), run.ID(), "later")
	if err != nil {
		t.Fatal(err)
	}
	fork, err := e.Fork(t.Context(), run.ID(), m.Seq, &superstep.ForkOptions{Edits: []graph.Edit{{Update: json.RawMessage(`{"words":["more"]}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, fork.ID, nil), runlog.Completed)
	d, err := e.Diff(t.Context(), run.ID(), fork.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.Same != 4 || len(d.Tasks) != 2 || d.Tasks[0].Path != "later" || d.Tasks[0].How != superstep.Changed || d.Tasks[0].Changes[0].Path != "/update/words/0" || len(d.State) == 0 {
		t.Errorf("%+v", d)
	}
	if d, err = e.Diff(t.Context(), run.ID(), run.ID()); err != nil || d.Same != 6 || len(d.Tasks)+len(d.State) > 0 {
		t.Errorf("%+v %v", d, err)
	}
}

// A preview tells what a fork would be, with its edited state, and creates none.
func TestForkPreview(t *testing.T) {
	t.Parallel()
	var did atomic.Int32
	store := runlog.NewMemory(nil)
	e := engine(t, store, deep(t, &did))
	run := start(t, e, nil)
	ends(t, run, runlog.Completed)
	for _, edits := range [][]graph.Edit{nil, {{Update: json.RawMessage(`{"words":["mine"]}`)}}} {
		for m, err := range e.History(t.Context(), run.ID(), "") {
			if err != nil {
				t.Fatal(err)
			}
			opt := superstep.ForkOptions{Edits: edits, Preview: true}
			seen, err := e.Fork(t.Context(), run.ID(), m.Seq, &opt)
			if err != nil {
				t.Fatal(err)
			}
			infos, err := store.Runs(t.Context(), &runlog.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			before := len(infos)
			opt.Preview = false
			fork, err := e.Fork(t.Context(), run.ID(), m.Seq, &opt)
			if err != nil {
				t.Fatal(err)
			}
			if infos, _ = store.Runs(t.Context(), &runlog.Filter{}); len(infos) != before+1 {
				t.Fatalf("a preview and a fork made %d runs", len(infos)-before)
			}
			begins, err := e.At(t.Context(), fork.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			if string(seen.State) != string(begins.State) || (edits == nil) != (string(seen.State) == string(m.State)) {
				t.Errorf("after step %d the preview has the state %s, the fork %s", m.Step, seen.State, begins.State)
			}
			if seen.ID != "" {
				t.Errorf("the preview is run %s", seen.ID)
			}
			seen.ID, seen.State = fork.ID, nil
			if diff := cmp.Diff(fork, seen); diff != "" {
				t.Error(diff)
			}
		}
	}
}
