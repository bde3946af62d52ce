package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// A session is a run of random work, as one that followed it from the beginning saw it, live-only records included.
type session struct {
	followed []runlog.Record
	stored   []runlog.Record
}

// work is what a node does: some of several things, in an order.
type work struct {
	Do    []int
	Fails int // attempts, before it succeeds
	Ask   bool
}

func anyWork(t *rapid.T) work {
	return work{
		Do:    rapid.SliceOfN(rapid.IntRange(0, 6), 0, 4).Draw(t, "do"),
		Fails: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "fails"),
		Ask:   rapid.IntRange(0, 3).Draw(t, "asks") == 0,
	}
}

// perform does the work of a node.
func (w work) perform(ctx context.Context, t *graph.Task, helper *agent.Agent) (int, error) {
	for i, what := range w.Do {
		key := fmt.Sprintf("do-%d", i)
		switch what {
		case 0:
			if _, err := graph.Do(ctx, key, func(context.Context, string) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		case 1:
			time.Sleep(2 * time.Millisecond)
		case 2:
			if err := t.Emit(ctx, "note", map[string]string{"text": "noted " + key}); err != nil {
				return 0, err
			}
		case 3: // a graph within the task
			flow, err := inner.Compile()
			if err != nil {
				return 0, err
			}
			if _, err := flow.Run(ctx, 0, t.Nested(key)); err != nil {
				return 0, err
			}
		case 4: // agents that work for others
			crew, err := team.New(&team.Options{
				Agents: func(string) (*agent.Agent, error) { return helper, nil },
				List:   func() []team.Info { return []team.Info{{Name: "helper", Description: "helps"}} }, Limit: 2,
			})
			if err != nil {
				return 0, err
			}
			_, err = crew.SpawnAll(ctx, t.Scope().Inner(key), []team.Job{{Agent: "helper", Prompt: "a"}, {Agent: "helper", Prompt: "b"}})
			if crew.Close(); err != nil {
				return 0, err
			}
		default:
			out, err := helper.Run(ctx, t.Scope(), &agent.Work{Key: key, Prompt: "Look at " + t.Scope().Path()})
			if err != nil {
				return 0, err
			}
			if out.Text == "" {
				return 0, errors.New("it said nothing")
			}
		}
	}
	if w.Ask {
		if _, err := graph.Ask[string](ctx, graph.Question{Key: "which", Text: "Which?", Options: []string{"this", "that"}}); err != nil {
			return 0, err
		}
	}
	if t.Attempt() <= w.Fails {
		return 0, fmt.Errorf("attempt %d fails", t.Attempt())
	}
	return 1, nil
}

// inner is a graph of two nodes that are run side by side.
var inner = func() *graph.Graph[int, int] {
	g := graph.New("inner", func(s, u int) int { return s + u })
	for _, name := range []string{"x", "y"} {
		g.Add(name, func(ctx context.Context, _ int) (int, error) {
			return graph.Do(ctx, "did", func(context.Context, string) (int, error) { return 1, nil })
		})
		g.Edge(graph.Start, name)
		g.Edge(name, graph.End)
	}
	return g
}()

// helper is an agent that thinks, calls tools side by side and answers; its model breaks off now and then.
func helper() *agent.Agent {
	var broken atomic.Int64
	var tools []*tool.Tool
	for name, effect := range map[string]tool.Effect{"look": tool.Pure, "write": tool.Idempotent, "send": tool.Once} {
		one, err := tool.New(name, "Does it.", func(_ context.Context, in struct{ N int }) (string, error) {
			time.Sleep(time.Duration(in.N) * time.Millisecond)
			return strings.Repeat("result ", in.N), nil
		}, &tool.Options{Effect: effect})
		if err != nil {
			panic(err)
		}
		tools = append(tools, one)
	}
	sort.Slice(tools, func(i, j int) bool { return tools[i].Name < tools[j].Name })
	set, err := tool.NewSet(tools...)
	if err != nil {
		panic(err)
	}
	m := &scripted.Model{Cost: &model.Price{In: 1, Out: 2}, Tokens: 10_000, Answer: func(req *model.Request) scripted.Turn {
		if last := req.Messages[len(req.Messages)-1]; last.Role == model.Tool {
			return scripted.Say("Done: ", "all ", "of it.").Using(100, 20)
		}
		if broken.Add(1)%5 == 0 {
			turn := scripted.Say("I shall ", "lo")
			turn.Err = errors.New("the connection broke")
			return turn
		}
		return scripted.Think("Let me ", "see.").And(scripted.Say("I shall ", "look.")).And(scripted.Call("look", `{"N":3}`)).
			And(scripted.Call("write", `{"N":1}`)).And(scripted.Call("look", `{"N":2}`)).And(scripted.Call("send", `{"N":0}`)).Using(50, 10)
	}}
	return &agent.Agent{Name: "helper", Prompt: "Help.", Model: halting{m}, Tools: set}
}

// halting is a model that takes its time for each part, and stops there if it must.
type halting struct{ *scripted.Model }

func (m halting) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		for p, err := range m.Model.Generate(ctx, req) {
			if !yield(p, err) {
				return
			}
			select {
			case <-time.After(500 * time.Microsecond):
			case <-ctx.Done():
				yield(model.Part{}, ctx.Err())
				return
			}
		}
	}
}

// play executes a random run, stops it once in the middle now and then, and follows it.
func play(t *rapid.T) session {
	works := rapid.SliceOfN(rapid.Custom(anyWork), 1, 4).Draw(t, "works")
	stopAfter := rapid.SampledFrom([]int{0, 0, 5, 12}).Draw(t, "stop after")
	stopAt := rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "stop at the delta")
	g := graph.New("random", func(s, u int) int { return s + u })
	g.Add("plan", func(context.Context, int) (int, error) { return 0, nil })
	help := helper()
	g.AddNode(graph.Node[int, int]{Name: "work", Retry: &graph.Retry{Attempts: 3, Backoff: time.Millisecond}, Run: func(ctx context.Context, task *graph.Task, _ int) (int, error) {
		var n int
		if err := task.Arg(&n); err != nil {
			return 0, err
		}
		return works[n].perform(ctx, task, help)
	}})
	g.Add("last", func(context.Context, int) (int, error) { return 1, nil })
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func(int) (out []graph.Send) {
		for i := range works {
			out = append(out, graph.Send{To: "work", Key: fmt.Sprintf("w%d", i), Arg: i})
		}
		return out
	}, "work")
	g.Edge("work", "last")
	g.Edge("last", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("random", "Random.", flow, func(struct{}) (int, error) { return 0, nil }, func(n int) (int, error) { return n, nil })
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	answer := func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		time.Sleep(3 * time.Millisecond)
		return &runlog.Answer{Value: json.RawMessage(`"this"`), By: "person"}, true
	}
	var s session
	execute := func(e *superstep.Engine, begin func() (*superstep.Run, error), cut bool) {
		run, err := begin()
		if err != nil {
			t.Fatal(err)
		}
		from := uint64(1)
		for i := range s.followed {
			from = max(from, s.followed[i].Seq+1)
		}
		seen, deltas := 0, 0
		for rec, err := range run.Follow(context.Background(), from) {
			if err != nil {
				t.Fatal(err)
			}
			s.followed = append(s.followed, rec)
			if rec.Kind == runlog.KindEvent && rec.Seq == 0 && strings.Contains(string(rec.Data), `"agent":"helper","text"`) {
				deltas++
			}
			if seen++; cut && (seen == stopAfter || deltas > 0 && deltas == stopAt) {
				go e.Close()
			}
		}
		if _, err := run.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	opt := &superstep.Options{Workflows: []*workflow.Workflow{w}, NewID: func() string { return "r" }}
	first, err := superstep.New(store, opt)
	if err != nil {
		t.Fatal(err)
	}
	execute(first, func() (*superstep.Run, error) {
		return first.Start(context.Background(), "random", json.RawMessage("{}"), &superstep.StartOptions{Answer: answer})
	}, true)
	first.Close()
	second, err := superstep.New(store, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if infos, err := second.Runs(context.Background(), nil); err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	} else if !infos[0].Status.Ended() {
		execute(second, func() (*superstep.Run, error) {
			return second.Resume(context.Background(), "r", &superstep.ResumeOptions{Answer: answer})
		}, false)
	}
	if report, err := second.Replay(context.Background(), "r", nil); err != nil || report.Diverged != nil { // of what was interrupted too
		t.Errorf("the replay: %+v, %v", report, err)
	}
	for rec, err := range runlog.Records(context.Background(), store, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		s.stored = append(s.stored, rec)
	}
	return s
}

// A shown is what a reader of changes knows, by what names it.
type shown struct {
	Things map[string]any
	Tails  map[string]string
	denied int
}

func (v *shown) apply(t interface{ Fatalf(string, ...any) }, c *transcript.Change) {
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var got transcript.Change
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v", err)
	}
	set := func(key string, x any) {
		b, _ := json.Marshal(x)
		var plain any
		_ = json.Unmarshal(b, &plain)
		v.Things[key] = plain
	}
	switch {
	case got.Type == "snapshot":
		*v = shown{Things: map[string]any{}, Tails: map[string]string{}}
	case got.Run != nil:
		set("run", got.Run)
	case got.Nodes != nil:
		set("nodes", got.Nodes)
	case got.Step != nil:
		set(fmt.Sprint("step ", got.Step.Number), got.Step)
	case got.Denied != nil:
		v.denied++
		set(fmt.Sprint("denied ", v.denied), got.Denied)
	case got.Task != nil:
		set("task "+got.Task.Path, got.Task)
	case got.Part != nil:
		set("part "+got.Part.Task+" "+got.Part.ID, got.Part)
	case got.Question != nil:
		set("question "+got.Question.Path+" "+got.Question.Key, got.Question)
	case got.Type == "drop" && got.ID == "":
		maps.DeleteFunc(v.Things, func(key string, _ any) bool { return strings.HasPrefix(key, "part "+got.Path+" ") })
	case got.Type == "drop":
		delete(v.Things, "part "+got.Path+" "+got.ID)
	case got.Type == "tail":
		if n := len(utf16.Encode([]rune(v.Tails[got.Path]))); got.At != 0 && got.At != n {
			t.Fatalf("a tail at %d goes on after %d", got.At, n)
		} else if got.At == 0 {
			v.Tails[got.Path] = ""
		}
		if v.Tails[got.Path] += got.Text; v.Tails[got.Path] == "" {
			delete(v.Tails, got.Path)
		}
	}
}

// Convention 36: what was seen live, what the store has afterwards, and a snapshot with the changes since, are the same.
// Live-only is what is under way: text of a turn, calls of pure tools, places that are waited for, and the clocks of what runs.
func TestConvention36(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := play(rt)
		live := &transcript.Run{Window: rapid.SampledFrom([]int{0, 0, 200}).Draw(rt, "window")}
		cut := rapid.IntRange(0, len(s.followed)).Draw(rt, "cut")
		var early, late transcript.Feed
		first, second := &shown{}, &shown{}
		read := func(f *transcript.Feed, v *shown) {
			for _, c := range f.Next(live) {
				v.apply(rt, &c)
			}
		}
		for i, rec := range s.followed {
			live.Apply(rec)
			if i%3 == 0 { // a reader takes several records at once
				read(&early, first)
			}
			if i >= cut {
				read(&late, second)
			}
			if i == cut || i == len(s.followed)-1 { // the changes and the whole are the same, also under way
				read(&early, first)
				var now transcript.Feed
				whole := &shown{}
				read(&now, whole)
				if d := cmp.Diff(whole, first, cmpopts.IgnoreUnexported(shown{})); d != "" {
					rt.Fatalf("a snapshot after %d of %d records (-), and the changes until then (+):\n%s", i, len(s.followed), d)
				}
			}
		}
		read(&early, first)
		read(&late, second)
		if live.Window > 0 { // which parts are dropped depends on what is under way, too
			return
		}
		stored := &transcript.Run{}
		for _, rec := range s.stored {
			stored.Apply(rec)
		}
		var whole transcript.Feed
		third := &shown{}
		for _, c := range whole.Next(stored) {
			third.apply(rt, &c)
		}
		if !live.Status.Ended() {
			rt.Fatalf("it has not ended: %s", live.Status)
		}
		if d := cmp.Diff(first, second, cmpopts.IgnoreUnexported(shown{})); d != "" {
			rt.Errorf("changes from the beginning, and a snapshot after %d of %d records with the changes since:\n%s", cut, len(s.followed), d)
		}
		if d := cmp.Diff(third, first, cmpopts.IgnoreUnexported(shown{})); d != "" {
			rt.Errorf("the store (-), and what was followed (+):\n%s", d)
		}
		if len(first.Tails) > 0 {
			rt.Errorf("left of turns: %v", first.Tails)
		}
	})
}

// What a fold says of any beginning of a log is the same whether the log is read at once or followed, but for what is live-only.
func TestPrefixesFoldAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := play(rt)
		at := rapid.IntRange(0, len(s.stored)).Draw(rt, "at")
		whole, again := &transcript.Run{}, &transcript.Run{}
		for _, rec := range s.stored[:at] {
			whole.Apply(rec)
			again.Apply(rec)
			again.Apply(rec) // the same once more
		}
		whole.Rev, again.Rev = 0, 0
		var a, b transcript.Feed
		x, y := &shown{}, &shown{}
		for _, c := range a.Next(whole) {
			x.apply(rt, &c)
		}
		for _, c := range b.Next(again) {
			y.apply(rt, &c)
		}
		if !reflect.DeepEqual(x, y) {
			rt.Errorf("%s", cmp.Diff(x, y, cmpopts.IgnoreUnexported(shown{})))
		}
	})
}
