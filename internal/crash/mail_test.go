//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// mailName is the name of a workflow that needs its mail: one task asks, one lacks budget, one is an agent that says what it has
// heard, and then there is another superstep.
const mailName = "mail"

// gate is called before the agent's second turn.
func mailWorkflow(gate func()) (*workflow.Workflow, error) {
	look, err := tool.New("look", "Looks.", func(context.Context, struct{}) (string, error) { return "nothing", nil }, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return nil, err
	}
	set, err := tool.NewSet(look)
	if err != nil {
		return nil, err
	}
	talker := &agent.Agent{Name: "talker", Tools: set, Model: &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		n, heard := 0, []string{}
		for _, m := range r.Messages {
			if m.Role == model.Assistant {
				n++
			}
			if rest, ok := strings.CutPrefix(m.Text(), "say "); ok {
				heard = append(heard, rest)
			}
		}
		if n == 1 {
			gate()
		}
		if n < 4 {
			return scripted.Call("look", "{}")
		}
		return scripted.Say("heard " + strings.Join(heard, ","))
	}}}
	g := graph.New("mail", func(s, u []string) []string { return append(s[:len(s):len(s)], u...) })
	nodes := map[string]func(context.Context, *graph.Task) (string, error){
		"ask": func(ctx context.Context, _ *graph.Task) (string, error) {
			return graph.Ask[string](ctx, graph.Question{Key: "q", Text: "Which?"})
		},
		"spend": func(ctx context.Context, t *graph.Task) (string, error) {
			e := &journal.Effect{Key: "spend", Kind: "do", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Calls: 100}}
			return journal.Do(ctx, t.Scope(), e, func(context.Context, string) (string, error) { return "spent", nil })
		},
		"talk": func(ctx context.Context, t *graph.Task) (string, error) {
			out, err := talker.Run(ctx, t.Scope(), &agent.Work{Prompt: "go", Stopped: t.Stopped()})
			if err != nil {
				return "", err
			}
			return out.Text, nil
		},
		"end": func(context.Context, *graph.Task) (string, error) { return "end", nil },
	}
	for _, name := range []string{"ask", "spend", "talk", "end"} {
		n := graph.Node[[]string, []string]{Name: name, Run: func(ctx context.Context, t *graph.Task, _ []string) ([]string, error) {
			s, err := nodes[name](ctx, t)
			return []string{s}, err
		}}
		if name == "end" {
			n.Join = graph.All
		}
		g.AddNode(n)
		if name != "end" {
			g.Edge(graph.Start, name)
			g.Edge(name, "end")
		}
	}
	g.Edge("end", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New(mailName, "Reads its mail.", flow, func(struct{}) ([]string, error) { return nil, nil }, func(s []string) ([]string, error) { return s, nil })
}

// The gate of a worker opens when the mail is posted; its failpoints count from then on.
func (w *worker) gate() {
	w.say("gate")
	for {
		if _, err := os.Stat(filepath.Join(w.world.Dir, w.run+".posted")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hits, w.early = map[string]int{}, false
}

// The requests of the test, which come all at once.
func mailRequests(t *testing.T) []unlisted.Request {
	t.Helper()
	raw := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	now := time.Now()
	return []unlisted.Request{
		{ID: "answer", Kind: unlisted.KindReply, Path: "ask", Time: now, Data: raw(runlog.Answer{Key: "q", Value: raw("this"), Request: "answer"})},
		{ID: "budget", Kind: unlisted.KindBudget, Time: now, Data: raw(runlog.Budget{Calls: 1000})},
		{ID: "steer", Kind: unlisted.KindSteer, Path: "talk", Time: now, Data: raw("say now")},
		{ID: "pause", Kind: unlisted.KindPause, Time: now, Data: raw(runlog.RunPaused{By: "test"})},
	}
}

// A worker is killed with SIGKILL at each failpoint between the posting of an answer, a budget, a message and a pause, and what comes of
// them. Each is carried out once, by it or by the next, and the run can be replayed.
func TestCrashMail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		p := b.open(t)
		store := p.open(t, nil)
		rnd, _ := faults.Rand(t)
		points := slices.Concat(journalPoints, b.points)
		flow, err := mailWorkflow(func() {})
		if err != nil {
			t.Fatal(err)
		}
		e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{flow}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		begin, killed, runs := time.Now(), 0, faults.N(400)
		reached := map[string]int{}
		for n := range runs {
			point := points[n%len(points)]
			world := t.TempDir()
			id := fmt.Sprintf("m-%d", n)
			die := fmt.Sprintf("%s:%d", point, 1+rnd.IntN(16))
			args := []string{"-store", p.url, "-world", world, "-run", id, "-lease", b.lease.String(), "-mail", "-early"}
			at := make(chan struct{}, 9)
			w := start(t, func(l line) {
				if l.what == "gate" {
					at <- struct{}{}
				}
			}, append(args, "-die", die)...)
			select {
			case <-at:
			case <-w.read:
				_, err := w.wait()
				t.Fatalf("run %s, %s: it ended before the gate: %v", id, die, err)
			}
			awaitQuestion(t, store, id)
			for _, r := range mailRequests(t) {
				if err := unlisted.Post(t.Context(), store, id, &r); err != nil {
					t.Fatalf("run %s, %s: %v", id, die, err)
				}
			}
			if err := os.WriteFile(filepath.Join(world, id+".posted"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			late := false // one was killed between the end of the run and that of its mailbox, which a prune removes
			for try := 0; ; try++ {
				dead, err := w.wait()
				if err != nil || try > 20 {
					t.Fatalf("run %s, %s, try %d: %v", id, die, try, err)
				}
				if dead {
					killed++
					reached[point]++
					infos, err := store.Runs(t.Context(), &runlog.Filter{ID: id})
					if err != nil {
						t.Fatal(err)
					}
					late = infos[0].Status.Ended()
				} else if w.ended() == runlog.Completed {
					break
				}
				next := args
				if try == 0 && rnd.IntN(2) == 0 { // the next one dies too, from its first record on
					next = append(slices.Clone(args[:len(args)-1]), "-die", fmt.Sprintf("%s:%d", points[rnd.IntN(len(points))], 1+rnd.IntN(12)))
				}
				w = start(t, nil, next...)
			}
			checkMail(t, e, store, id, die, late)
		}
		for _, point := range points {
			if reached[point] == 0 && runs >= 10*len(points) {
				t.Errorf("nobody died at %s", point)
			}
		}
		faults.Report(t, "kill -9 of the worker between post and acknowledgement", b.name, killed, begin, "%d runs, each answer, budget, message and pause carried out once, all replayed", runs)
	})
}

func awaitQuestion(t *testing.T, store runlog.Store, id string) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		open, err := crash.Questions(t.Context(), store, id)
		if err == nil && len(open) == 1 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("run %s: it does not ask: %v", id, err)
		}
	}
}

// checkMail looks at a run that has ended, and whose mailbox is gone, unless a worker was killed too late for that.
func checkMail(t *testing.T, e *superstep.Engine, store runlog.Store, id, die string, late bool) {
	t.Helper()
	var recs []runlog.Record
	times := map[string]int{}
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
		if b := mail.BudgetOf(&r); b != nil {
			times[b.Request]++
		}
		if d := mail.Settled(&r); d != nil {
			for _, m := range mail.SteeringOf(d) {
				times[m.Request]++
			}
		}
		var d struct {
			Request string `json:"request"`
			Paused  string `json:"request_id"`
		}
		if r.Kind == runlog.KindAnswered || r.Kind == runlog.KindRunPaused {
			if err := json.Unmarshal(r.Data, &d); err != nil {
				t.Fatal(err)
			}
			times[d.Request+d.Paused]++
		}
	}
	for _, r := range mailRequests(t) {
		if times[r.ID] != 1 {
			t.Errorf("run %s, %s: the %s was carried out %d times", id, die, r.ID, times[r.ID])
		}
	}
	var out struct{ Output []string }
	last := recs[len(recs)-1]
	if err := json.Unmarshal(last.Data, &out); err != nil || strings.Join(out.Output, "|") != "this|spent|heard now|end" {
		t.Errorf("run %s, %s: it ended with %s %s", id, die, last.Kind, last.Data)
	}
	if _, err := store.Read(t.Context(), unlisted.RequestsID(id), 1, 1); !late && !errors.As(err, new(*runlog.NotFoundError)) {
		t.Errorf("run %s, %s: its mailbox is still there: %v", id, die, err)
	}
	if t.Failed() {
		t.Fatal("\n" + outline(recs))
	}
	replays(t, e, id, recs)
}

// A sender is killed with SIGKILL at each failpoint. Whoever posts the request again makes it one, and is not kept waiting.
func TestCrashSender(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		p := b.open(t)
		store := p.open(t, nil)
		begin, killed := time.Now(), 0
		for _, point := range b.points {
			for n := range 4 {
				id := strings.ReplaceAll(fmt.Sprintf("s-%s-%d", point, n), ".", "-")
				if err := create(t.Context(), store, id, crash.Job{Width: 2, Rounds: 1}); err != nil {
					t.Fatal(err)
				}
				w := start(t, nil, "-store", p.url, "-world", t.TempDir(), "-run", id, "-lease", b.lease.String(), "-send", "-die", fmt.Sprintf("%s:%d", point, n+1))
				dead, err := w.wait()
				if err != nil {
					t.Fatal(err)
				}
				if dead {
					killed++
				}
				r := unlisted.Request{ID: "a", Kind: unlisted.KindPause, Time: time.Now()}
				if err := unlisted.Post(t.Context(), store, id, &r); err != nil {
					t.Fatal(err)
				}
				if all, err := unlisted.Read(t.Context(), store, id, 0); err != nil || len(all) != 1 || all[0].ID != "a" || r.Seq != 1 {
					t.Fatalf("killed at %s:%d: the mailbox has %+v, %v", point, n+1, all, err)
				}
			}
		}
		if killed < len(b.points) {
			t.Errorf("%d were killed", killed)
		}
		faults.Report(t, "kill -9 of a sender", b.name, killed, begin, "posted again, each request is there once")
	})
}

// A request reaches a run that another engine executes soon, on a store without any notification: p95 is to be 250 ms, the test takes
// ten times that for a failure.
func TestCrashMailSoon(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		p := b.open(t)
		at, free := make(chan struct{}, 1), make(chan struct{})
		engineOn := func(store crash.Store) *superstep.Engine {
			flow, err := mailWorkflow(func() { at <- struct{}{}; <-free })
			if err != nil {
				t.Fatal(err)
			}
			e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{flow}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			return e
		}
		store := p.open(t, nil)
		holder, sender := engineOn(store), engineOn(p.open(t, nil))
		run, err := holder.Start(t.Context(), mailName, json.RawMessage("{}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-at
		begin, posts := time.Now(), faults.N(400)
		var took []time.Duration
		for i := range posts {
			if err := sender.Budget(t.Context(), run.ID(), runlog.Budget{Calls: int64(1000 + i)}); err != nil {
				t.Fatal(err)
			}
		}
		posted := map[string]time.Time{}
		for after := uint64(0); ; {
			page, err := unlisted.Read(t.Context(), store, run.ID(), after)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				posted[r.ID] = r.Time
			}
			after += uint64(len(page))
		}
		for r, err := range runlog.Records(t.Context(), store, run.ID(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if m := mail.BudgetOf(&r); m != nil {
				took = append(took, r.Time.Sub(posted[m.Request]))
			}
		}
		close(free)
		run.Stop(t.Context())
		slices.Sort(took)
		if len(took) != posts {
			t.Fatalf("%d of %d requests were carried out", len(took), posts)
		}
		p50, p95 := took[len(took)/2], took[len(took)*95/100]
		if p95 > 2500*time.Millisecond {
			t.Errorf("p95 from post to effect is %v", p95)
		}
		faults.Report(t, "requests to a run of another engine", b.name, posts, begin, "from post to effect p50 %v, p95 %v", p50.Round(time.Millisecond), p95.Round(time.Millisecond))
	})
}
