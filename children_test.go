package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/workflow"
)

// family is a workflow "parent" that fans out to children of a workflow "leaf".
type family struct {
	child  *graph.Child
	leaf   func(ctx context.Context, t *graph.Task, n int) error // what a leaf does besides; nil for nothing
	mu     sync.Mutex
	worked map[string]int // how often each run of leaf has done its work, by ID
}

type brood struct {
	N     int `json:"n"`
	Depth int `json:"depth,omitempty"`
}

type pups struct {
	brood
	Sum int `json:"sum"`
}

// leafCost is what the work of a leaf uses.
const leafCost = 7

func (f *family) workflows(t testing.TB) []*workflow.Workflow {
	t.Helper()
	f.worked = map[string]int{}
	g := graph.New("leaf", func(s, u int) int { return s + u })
	g.AddNode(graph.Node[int, int]{Name: "work", Run: func(ctx context.Context, t *graph.Task, n int) (int, error) {
		if f.leaf != nil {
			if err := f.leaf(ctx, t, n); err != nil {
				return 0, err
			}
		}
		e := &journal.Effect{Key: "work", Kind: "tool", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: leafCost}}
		return journal.Do(ctx, t.Scope(), e, func(context.Context, string) (int, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.worked[t.Scope().Run()]++
			return n, nil
		})
	}})
	g.Edge(graph.Start, "work")
	g.Edge("work", graph.End)
	leaf, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	lw, err := workflow.New("leaf", "A leaf.", leaf, func(in brood) (int, error) { return in.N, nil }, func(n int) (int, error) { return n / 2, nil })
	if err != nil {
		t.Fatal(err)
	}
	return []*workflow.Workflow{f.parent(t, "parent", "leaf"), f.parent(t, "grand", "parent"), lw}
}

func (f *family) parent(t testing.TB, name, child string) *workflow.Workflow {
	t.Helper()
	g := graph.New(name, func(s pups, u int) pups { s.Sum += u; return s })
	g.Add("begin", func(context.Context, pups) (int, error) { return 0, nil })
	g.AddNode(graph.Node[pups, int]{Name: "child", Uses: []string{child}, Run: func(ctx context.Context, t *graph.Task, s pups) (n int, err error) {
		w, err := t.Workflow(child)
		if err != nil {
			return 0, err
		}
		var in brood
		if err := t.Arg(&in); err != nil {
			return 0, err
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		end, err := t.Child(ctx, "", w, raw, f.child)
		if err == nil {
			err = graph.ChildError(child, end)
		}
		if err != nil {
			return 0, err
		}
		return n, json.Unmarshal(end.Output, &n)
	}})
	g.Edge(graph.Start, "begin")
	g.Fan("begin", func(s pups) (out []graph.Send) {
		for i := range s.N {
			out = append(out, graph.Send{To: "child", Key: fmt.Sprintf("c%d", i), Arg: brood{N: i + 1}})
		}
		return out
	}, "child")
	g.Edge("child", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New(name, "A parent.", flow, func(in brood) (pups, error) { return pups{brood: in}, nil }, func(s pups) (int, error) { return s.Sum, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (f *family) start(t testing.TB, e *superstep.Engine, name string, n int, opt *superstep.StartOptions) *superstep.Run {
	t.Helper()
	r, err := e.Start(context.WithoutCancel(t.Context()), name, json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// once checks that each child has done its work once.
func (f *family) once(t testing.TB, runs int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.worked) != runs {
		t.Errorf("%d runs worked, want %d", len(f.worked), runs)
	}
	for id, n := range f.worked {
		if n != 1 {
			t.Errorf("run %s worked %d times", id, n)
		}
	}
}

// children returns the children of a run, by status.
func children(t testing.TB, e *superstep.Engine, id string) map[runlog.Status]int {
	t.Helper()
	infos, err := e.Children(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	out := map[runlog.Status]int{}
	for i := range infos {
		out[infos[i].Status]++
	}
	return out
}

func spent(t testing.TB, store runlog.Store, id string) runlog.Amount {
	t.Helper()
	infos, err := store.Runs(t.Context(), &runlog.Filter{ID: id})
	if err != nil || len(infos) != 1 {
		t.Fatalf("%v %v", infos, err)
	}
	a, err := journal.SpentBy(t.Context(), store, &infos[0])
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A process without a worker runs the children of its run itself, nested ones too; their cost is counted once, and a replay starts none.
func TestChildrenOfOneProcess(t *testing.T) {
	for _, tc := range []struct {
		name       string
		n, leaves  int
		sum, depth string
	}{{"parent", 5, 5, "15", ""}, {"grand", 3, 6, "10", ""}} {
		t.Run(tc.name, func(t *testing.T) {
			store, f := runlog.NewMemory(nil), &family{child: &graph.Child{}}
			e := engine(t, store, f.workflows(t)...)
			r := f.start(t, e, tc.name, tc.n, nil)
			out := ends(t, r, runlog.Completed)
			if string(out.Output) != tc.sum {
				t.Errorf("output %s, want %s", out.Output, tc.sum)
			}
			f.once(t, tc.leaves)
			if got := children(t, e, r.ID()); got[runlog.Completed] != tc.n || len(got) != 1 {
				t.Errorf("children %v", got)
			}
			if got := spent(t, store, r.ID()).Tokens; got != int64(tc.leaves*leafCost) {
				t.Errorf("spent %d", got)
			}
			before, _ := store.Runs(t.Context(), nil)
			report, err := e.Replay(t.Context(), r.ID(), nil)
			if err != nil || report.Diverged != nil {
				for rec := range runlog.Records(t.Context(), store, r.ID(), 0) {
					t.Logf("%d %s %s %.150s", rec.Seq, rec.Kind, rec.Path, rec.Data)
				}
				t.Fatalf("%+v %v", report, err)
			}
			if after, _ := store.Runs(t.Context(), nil); len(after) != len(before) {
				t.Errorf("a replay started %d runs", len(after)-len(before))
			}
		})
	}
}

// What the parent has left is reserved for a child that states no limit: such children run one after another. Others get what they state.
func TestChildrenWithinBudget(t *testing.T) {
	for name, child := range map[string]*graph.Child{"what is left": {}, "stated": {Budget: &runlog.Budget{Tokens: 10}}} {
		t.Run(name, func(t *testing.T) {
			store, f := runlog.NewMemory(nil), &family{child: child}
			e := engine(t, store, f.workflows(t)...)
			r := f.start(t, e, "parent", 5, &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 5*leafCost + 3}})
			ends(t, r, runlog.Completed)
			f.once(t, 5)
			if got := spent(t, store, r.ID()).Tokens; got != 5*leafCost {
				t.Errorf("spent %d", got)
			}
		})
	}
	store, f := runlog.NewMemory(nil), &family{child: &graph.Child{}}
	e := engine(t, store, f.workflows(t)...)
	r := f.start(t, e, "parent", 5, &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 3*leafCost + 3}})
	out := ends(t, r, runlog.Paused)
	if n := len(out.Children); n < 1 || n > 2 || len(f.worked) != 3 { // the fifth may have begun before the budget was spent
		t.Fatalf("%+v, %v", out, f.worked)
	}
	r = resume(t, e, r.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Tokens: 5 * leafCost}})
	ends(t, r, runlog.Completed)
	f.once(t, 5)
	if got := spent(t, store, r.ID()).Tokens; got != 5*leafCost {
		t.Errorf("spent %d", got)
	}
}

// Cancelling a run cancels its children, whoever runs them, and theirs.
func TestChildrenAreCancelled(t *testing.T) {
	store := runlog.NewMemory(nil)
	f := &family{child: &graph.Child{}, leaf: func(ctx context.Context, _ *graph.Task, _ int) error { <-ctx.Done(); return context.Cause(ctx) }}
	e := engine(t, store, f.workflows(t)...)
	r := f.start(t, e, "grand", 3, nil)
	for children(t, e, r.ID())[runlog.Running] < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := e.Cancel(t.Context(), r.ID()); err != nil {
		t.Fatal(err)
	}
	ends(t, r, runlog.Cancelled)
	for {
		infos, err := store.Runs(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for i := range infos {
			if infos[i].Status != runlog.Cancelled {
				left++
			}
		}
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if len(f.worked) > 0 {
		t.Errorf("%v", f.worked)
	}
}

// A process that dies between the cancellation of a run and those of its children leaves them. Cancelling the run again reaches them.
func TestChildrenAreCancelledAgain(t *testing.T) {
	t.Parallel()
	store := runlogtest.NewMortal()
	f := &family{child: &graph.Child{}, leaf: func(ctx context.Context, _ *graph.Task, _ int) error {
		_, err := graph.Ask[string](ctx, graph.Question{Text: "Which?"})
		return err
	}}
	e := engine(t, store, f.workflows(t)...)
	r := f.start(t, e, "parent", 2, nil)
	ends(t, r, runlog.Paused)
	store.DieAt(1, true)
	_ = e.Cancel(t.Context(), r.ID())
	store.Revive()
	e = engine(t, store, f.workflows(t)...)
	if got := children(t, e, r.ID()); got[runlog.Paused] == 0 || info(t, e, r.ID()).Status != runlog.Cancelled {
		t.Fatalf("%v", got)
	}
	if err := e.Cancel(t.Context(), r.ID()); !errors.As(err, new(*runlog.EndedError)) {
		t.Errorf("%v", err)
	}
	if got := children(t, e, r.ID()); got[runlog.Cancelled] != 2 {
		t.Errorf("%v", got)
	}
}

// Pausing a run pauses its children, and resuming it resumes them.
func TestChildrenArePaused(t *testing.T) {
	store, release := runlog.NewMemory(nil), make(chan struct{})
	f := &family{child: &graph.Child{}, leaf: func(_ context.Context, t *graph.Task, _ int) error {
		select {
		case <-release:
			return nil
		case <-t.Stopped():
			return graph.ErrStopped
		}
	}}
	e := engine(t, store, f.workflows(t)...)
	r := f.start(t, e, "parent", 3, nil)
	for children(t, e, r.ID())[runlog.Running] < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := e.Pause(t.Context(), r.ID(), "test"); err != nil {
		t.Fatal(err)
	}
	ends(t, r, runlog.Paused)
	if got := children(t, e, r.ID()); got[runlog.Paused] != 3 {
		t.Fatalf("%v", got)
	}
	close(release)
	ends(t, resume(t, e, r.ID(), nil), runlog.Completed)
	f.once(t, 3)
}

// A question of a child pauses the child, and the parent once no child moves. Answered, the child ends, and a worker resumes the parent.
func TestChildrenAskQuestions(t *testing.T) {
	store := runlog.NewMemory(nil)
	f := &family{child: &graph.Child{}, leaf: func(ctx context.Context, _ *graph.Task, n int) error {
		if n != 2 {
			return nil
		}
		_, err := graph.Ask[string](ctx, graph.Question{Text: "Which?"})
		return err
	}}
	e := engine(t, store, f.workflows(t)...)
	r := f.start(t, e, "parent", 3, nil)
	out := ends(t, r, runlog.Paused)
	if len(out.Open) != 0 || len(out.Children) != 1 {
		t.Fatalf("%+v", out)
	}
	child := out.Children[0]
	if err := e.Answer(t.Context(), r.ID(), "child[c1]", &runlog.Answer{Value: json.RawMessage(`"mine"`), By: "person"}); !errors.As(err, new(*journal.UnfitError)) {
		t.Errorf("a user's answer in place of a child: %v", err)
	}
	if err := e.Answer(t.Context(), child, "work", &runlog.Answer{Value: json.RawMessage(`"this"`), By: "person"}); err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, child, nil), runlog.Completed)
	taken, err := e.Recover(t.Context(), nil)
	if err != nil || len(taken) != 1 || taken[0].ID() != r.ID() {
		t.Fatalf("%v %v", taken, err)
	}
	ends(t, taken[0], runlog.Completed)
	f.once(t, 3)
}

// A supervised parent leaves its children to others, and pauses when it only waits for them.
func TestSupervisedParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, f := runlog.NewMemory(nil), &family{child: &graph.Child{}}
		e := engine(t, store, f.workflows(t)...)
		if _, err := e.Enqueue(t.Context(), "parent", json.RawMessage(`{"n":3}`), &superstep.StartOptions{ID: "r"}); err != nil {
			t.Fatal(err)
		}
		out, err := resume(t, e, "r", &superstep.ResumeOptions{Supervised: true}).Wait(t.Context())
		if err != nil || out.Status != runlog.Paused || len(out.Children) != 3 {
			t.Fatalf("%+v %v", out, err)
		}
		if got := children(t, e, "r"); got[runlog.Queued] != 3 || len(f.worked) != 0 {
			t.Errorf("children %v", got)
		}
		for _, id := range out.Children {
			ends(t, resume(t, e, id, &superstep.ResumeOptions{Supervised: true}), runlog.Completed)
		}
		ends(t, resume(t, e, "r", &superstep.ResumeOptions{Supervised: true}), runlog.Completed)
		f.once(t, 3)
	})
}

// A child run that waits for storage is resumed by its parent in the same process, however long that takes, and also if that is a child run itself.
func TestGrandchildIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := &fullStore{Store: runlog.NewMemory(nil), reserve: true}, &family{child: &graph.Child{}}
		s.left.Store(-1)
		var full sync.Once
		f.leaf = func(context.Context, *graph.Task, int) error {
			full.Do(func() {
				s.left.Store(0)
				time.AfterFunc(time.Second, func() { s.left.Store(-1) })
			})
			return nil
		}
		e := engine(t, s, f.workflows(t)...)
		r := f.start(t, e, "grand", 1, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if out, err := r.Wait(ctx); err != nil || out.Status != runlog.Completed {
			t.Errorf("%+v %v", out, err)
		}
	})
}

// A child is raised within its parent's budget: what it is to have is set aside there, whoever holds the parent, or it is refused with what it may have. A
// parent that only waits for such a child says for what.
func TestChildIsRaisedWithinItsParent(t *testing.T) {
	for name, raise := range map[string]func(t *testing.T, e *superstep.Engine, child string, b *runlog.Budget) error{
		"budget": func(t *testing.T, e *superstep.Engine, child string, b *runlog.Budget) error {
			return e.Budget(t.Context(), child, *b)
		},
		"resume": func(t *testing.T, e *superstep.Engine, child string, b *runlog.Budget) error {
			r, err := e.Resume(t.Context(), child, &superstep.ResumeOptions{Budget: b})
			if err == nil {
				_, err = r.Wait(t.Context())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, f := runlog.NewMemory(nil), &family{child: &graph.Child{Budget: &runlog.Budget{Tokens: leafCost - 1}}}
			e := engine(t, store, f.workflows(t)...)
			r := f.start(t, e, "parent", 2, &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 3 * leafCost}})
			out := ends(t, r, runlog.Paused)
			if len(out.Children) != 2 || out.Short == nil || out.Short.Run != out.Children[0] || out.Short.Limit != leafCost-1 {
				t.Fatalf("%+v, %v", out, out.Short)
			}
			var refused error
			for _, tokens := range []int64{1_000_000, -1} {
				refused = raise(t, e, out.Children[0], &runlog.Budget{Tokens: tokens})
				if want := fmt.Sprintf("may have at most %d tokens", 2*leafCost+1); refused == nil || !strings.Contains(refused.Error(), want) {
					t.Fatalf("%v, want %s", refused, want)
				}
			}
			if err := raise(t, e, out.Children[0], &runlog.Budget{Tokens: 2*leafCost + 1}); err != nil {
				t.Fatal(err)
			}
			ends(t, resume(t, e, out.Children[0], nil), runlog.Completed) // it may have ended
			second := ends(t, resume(t, e, r.ID(), nil), runlog.Paused)
			if second.Short == nil || second.Short.Run != out.Children[1] {
				t.Fatalf("%+v", second)
			}
			if err := raise(t, e, out.Children[1], &runlog.Budget{Tokens: leafCost}); err != nil {
				t.Fatal(err)
			}
			ends(t, resume(t, e, out.Children[1], nil), runlog.Completed)
			ends(t, resume(t, e, r.ID(), nil), runlog.Completed)
			f.once(t, 2)
			if got := spent(t, store, r.ID()).Tokens; got != 2*leafCost {
				t.Errorf("spent %d", got)
			}
			if report, err := e.Replay(t.Context(), r.ID(), nil); err != nil || report.Diverged != nil {
				t.Errorf("the replay: %+v, %v", report, err)
			}
		})
	}
}

// A child is raised while its parent is executed.
func TestChildIsRaisedBesideItsParent(t *testing.T) {
	blocked := make(chan struct{})
	store, f := runlog.NewMemory(nil), &family{child: &graph.Child{Budget: &runlog.Budget{Tokens: leafCost - 1}}}
	f.leaf = func(ctx context.Context, _ *graph.Task, n int) error {
		if n == 2 {
			select {
			case <-blocked:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	e := engine(t, store, f.workflows(t)...)
	r := f.start(t, e, "parent", 2, &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 3 * leafCost}})
	var low []runlog.Info
	for len(low) == 0 {
		infos, err := e.Children(t.Context(), r.ID())
		if err != nil {
			t.Fatal(err)
		}
		low = slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.Status != runlog.Paused })
	}
	if err := e.Budget(t.Context(), low[0].ID, runlog.Budget{Tokens: 1_000_000}); err == nil || !strings.Contains(err.Error(), "may have at most 15 tokens") {
		t.Fatal(err)
	}
	if err := e.Budget(t.Context(), low[0].ID, runlog.Budget{Tokens: leafCost}); err != nil {
		t.Fatal(err)
	}
	for info(t, e, low[0].ID).Status != runlog.Completed { // without anybody's resuming it
		time.Sleep(time.Millisecond)
	}
	close(blocked)
	out := ends(t, r, runlog.Paused)
	if err := e.Budget(t.Context(), out.Short.Run, runlog.Budget{Tokens: leafCost}); err != nil {
		t.Fatal(err)
	}
	ends(t, resume(t, e, r.ID(), nil), runlog.Completed)
	f.once(t, 2)
}
