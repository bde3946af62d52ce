package superstep_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// silence is what a talker says that has heard nothing: an agent that says nothing is asked again.
const silence = "-"

// A talker is an agent that takes so many turns, in each of which it looks, and then says what it has heard.
type talker struct {
	turns int
	enter chan int      // the number of each turn that begins, if non-nil
	leave chan struct{} // let a turn end, if non-nil
	after func(ctx context.Context, t *graph.Task, said string) (string, error)
	limit int
}

func (k *talker) run(ctx context.Context, t *graph.Task) (string, error) {
	look, err := tool.New("look", "Looks.", func(context.Context, struct{}) (string, error) { return "nothing", nil }, &tool.Options{Effect: tool.Pure})
	if err != nil {
		return "", err
	}
	set, err := tool.NewSet(look)
	if err != nil {
		return "", err
	}
	m := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		n, heard := 0, []string{}
		for _, m := range r.Messages {
			if m.Role == model.Assistant {
				n++
			}
			if rest, ok := strings.CutPrefix(m.Text(), "say "); ok {
				heard = append(heard, fmt.Sprint(n, rest))
			}
		}
		if k.enter != nil {
			select {
			case k.enter <- n:
			case <-ctx.Done():
			}
		}
		if k.leave != nil {
			select {
			case <-k.leave:
			case <-ctx.Done():
			}
		}
		if n+1 < k.turns {
			return scripted.Call("look", "{}")
		}
		return scripted.Say(cmp.Or(strings.Join(heard, ","), silence))
	}}
	a := &agent.Agent{Name: "talker", Model: m, Tools: set, Limits: agent.Limits{Turns: k.limit}}
	out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "go", Stopped: t.Stopped()})
	if err != nil {
		return "", err
	}
	if k.after != nil {
		return k.after(ctx, t, strings.TrimPrefix(out.Text, silence))
	}
	return strings.TrimPrefix(out.Text, silence), nil
}

// steers says something and reports the outcome.
func steers(t *testing.T, e *superstep.Engine, id, agent, text string) <-chan error {
	out := make(chan error, 1)
	go func() { out <- e.Steer(t.Context(), id, agent, text) }()
	return out
}

// posted waits until the mailbox of a run has n requests.
func posted(t *testing.T, store runlog.Store, id string, n int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		infos, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
		if err == nil && len(infos) == 1 && infos[0].Parent == id && infos[0].Head == uint64(n) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the mailbox is %+v, %v; want %d requests", infos, err, n)
		}
	}
}

// What is said to an agent it reads before its next turn, whoever executes the run. One that is about to end, or has no turns left, takes one more.
func TestSteer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turns, limit, at int
		want             string
	}{
		"in the middle":      {3, 0, 0, "1now"},
		"in its last turn":   {3, 0, 2, "3now"},
		"in its only turn":   {1, 0, 0, "1now"},
		"out of turns":       {9, 2, 1, ""}, // it has one more, in which it looks again
		"just before an end": {2, 2, 1, "2now"},
	} {
		for _, by := range []string{"here", "elsewhere"} {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				k := &talker{turns: c.turns, limit: c.limit, enter: make(chan int), leave: make(chan struct{})}
				r := &rig{second: k.run}
				store := runlog.NewMemory(nil)
				e := engine(t, store, r.workflow(t))
				other := e
				if by == "elsewhere" {
					other = engine(t, store, r.workflow(t))
				}
				run := start(t, e, nil)
				var told <-chan error
				turns := 0
				go func() {
					for n := range k.enter {
						if n == c.at && told == nil {
							told = steers(t, other, run.ID(), "", "say now")
							posted(t, store, run.ID(), 1)
						}
						turns = n + 1
						k.leave <- struct{}{}
					}
				}()
				out, err := run.Wait(t.Context())
				close(k.enter)
				if err != nil || out.Status != runlog.Completed || string(out.Output) != `"a  b:1`+c.want+`"` {
					t.Fatalf("got %+v, %v", out, err)
				}
				if err := <-told; err != nil {
					t.Error(err)
				}
				if want := max(c.turns, c.at+2); name != "out of turns" && turns != want || name == "out of turns" && turns != 3 {
					t.Errorf("%d turns", turns)
				}
				if n := len(said(t, store, run.ID())); n != 1 {
					t.Errorf("it was told %d times", n)
				}
				replays(t, other, run.ID())
			})
		}
	}
}

// A sub-agent is spoken to by its own path, and its siblings hear nothing. One that has ended is not among those that run.
func TestSteerASubAgent(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan int, 9), make(chan struct{})
	r := &rig{second: func(ctx context.Context, tk *graph.Task) (string, error) {
		heard := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
			if r.Messages[0].Text() != "quick" && len(r.Messages) == 1 {
				enter <- 0
				select {
				case <-leave:
				case <-ctx.Done():
				}
			}
			return scripted.Say(fmt.Sprint(len(r.Messages)))
		}}
		crew, err := team.New(&team.Options{
			Agents: func(name string) (*agent.Agent, error) { return &agent.Agent{Name: name, Model: heard}, nil },
			List:   func() []team.Info { return []team.Info{{Name: "explorer", Description: "looks"}} }, Limit: 3,
		})
		if err != nil {
			return "", err
		}
		defer crew.Close()
		results, err := crew.SpawnAll(ctx, tk.Scope(), []team.Job{{Agent: "explorer", Prompt: "a"}, {Agent: "explorer", Prompt: "b"}, {Agent: "explorer", Prompt: "quick"}})
		if err != nil {
			return "", err
		}
		return results[0].Output + results[1].Output + results[2].Output, nil
	}}
	store := runlog.NewMemory(nil)
	e, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
	run := start(t, e, nil)
	<-enter
	<-enter
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if mail.Ends(&rec, "second/explorer[3]") {
			break
		}
	}
	err := there.Steer(t.Context(), run.ID(), "second/explorer[3]", "x")
	if err == nil {
		t.Fatal("an agent that has ended was told something")
	}
	_, known, _ := strings.Cut(err.Error(), "Those that run are: ")
	names := strings.Split(known, ", ") // in the order in which they began
	if slices.Sort(names); !slices.Equal(names, []string{"second/explorer[1]", "second/explorer[2]"}) {
		t.Error(err)
	}
	told := steers(t, there, run.ID(), "second/explorer[2]", "say now")
	posted(t, store, run.ID(), 1)
	close(leave)
	if out, err := run.Wait(t.Context()); err != nil || string(out.Output) != `"a  b:1131"` {
		t.Fatalf("%s, %+v, %v", out.Output, out, err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	replays(t, there, run.ID())
}

// said lists the requests that agents were told, by the keys of their effects.
func said(t *testing.T, store runlog.Store, id string) (keys []string) {
	t.Helper()
	seen := map[string]bool{}
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if d := mail.Settled(&r); d != nil {
			for _, m := range mail.SteeringOf(d) {
				if seen[m.Request] {
					t.Errorf("%s was told twice", m.Text)
				}
				seen[m.Request] = true
				keys = append(keys, d.Key)
			}
		}
	}
	return keys
}

// An agent that has ended, one that there is not, no text and too much of it are refused.
func TestSteerRefused(t *testing.T) {
	t.Parallel()
	ended, goOn := make(chan struct{}), make(chan struct{})
	k := &talker{turns: 1, after: func(context.Context, *graph.Task, string) (string, error) { close(ended); <-goOn; return "", nil }}
	r := &rig{second: k.run}
	store := runlog.NewMemory(nil)
	e, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
	run := start(t, e, nil)
	<-ended
	for text, want := range map[string]string{"": "give a text", strings.Repeat("x", 65<<10): "put it into a file"} {
		if err := there.Steer(t.Context(), run.ID(), "", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	if err := there.Steer(t.Context(), run.ID(), "secon", "x"); err == nil || !strings.Contains(err.Error(), `did you mean "second"? Those that run are: second`) {
		t.Error(err)
	}
	told := steers(t, there, run.ID(), "second", "say x") // the log does not say yet that it has ended
	posted(t, store, run.ID(), 1)
	close(goOn)
	if err := <-told; err == nil || !strings.Contains(err.Error(), "agent second has ended, and has not read it") {
		t.Error(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Status != runlog.Completed {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := there.Steer(t.Context(), run.ID(), "", "x"); !errors.As(err, new(*runlog.EndedError)) {
		t.Error(err)
	}
	if err := there.Steer(t.Context(), "gone", "", "x"); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Error(err)
	}
}

// What is said to an agent of a run that nobody executes is read when the run is resumed, also by one that had ended but for its
// task; unless the task has done more since then, for which it would be too late.
func TestSteerWaitsForTheNextHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more bool
		want string
	}{"that had ended": {false, "2now"}, "whose task has gone on": {true, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var died sync.Once
			k := &talker{turns: 2}
			k.after = func(ctx context.Context, tk *graph.Task, text string) (string, error) {
				if c.more {
					if _, err := journal.Do(ctx, tk.Scope(), &journal.Effect{Key: "use", Kind: "do", Hash: text}, func(context.Context, string) (string, error) { return "", nil }); err != nil {
						return "", err
					}
				}
				stop := false
				died.Do(func() { stop = true })
				if stop {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return text, nil
			}
			r := &rig{second: k.run}
			store := runlog.NewMemory(nil)
			e, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
			run := start(t, e, nil)
			for rec, err := range run.Follow(t.Context(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if d := mail.Settled(&rec); d != nil && (d.Key == "turn-1" && !c.more || d.Key == "use") {
					break
				}
			}
			e.Close()
			if err := there.Steer(t.Context(), run.ID(), "", "say now"); err != nil {
				t.Fatal(err)
			}
			out, err := resume(t, there, run.ID(), nil).Wait(t.Context())
			if err != nil || out.Status != runlog.Completed || string(out.Output) != `"a  b:1`+c.want+`"` {
				t.Fatalf("got %+v, %v", out, err)
			}
			replays(t, there, run.ID())
		})
	}
}

// Wherever a run is cut off, each message is told once, before the same turn as in the replay.
func TestSteerAtEveryAppend(t *testing.T) {
	t.Parallel()
	crashes, posts := 0, 0
	for n, ended := 0, false; !ended; n++ {
		for _, after := range []bool{false, true} {
			k := &talker{turns: 3}
			r := &rig{second: k.run}
			mortal := runlogtest.NewMortal()
			posting := &postOnce{Store: mortal}
			mortal.DieAt(n, after)
			e := engine(t, posting, r.workflow(t))
			want := 0
			posting.post = func(id string) {
				if unlisted.Post(t.Context(), mortal, id, &unlisted.Request{Kind: unlisted.KindSteer, Path: "second", Time: time.Now(), Data: []byte(`"say now"`)}) == nil {
					want = 1
					posts++
				}
			}
			run, err := e.Start(t.Context(), "job", []byte(`{"task":"a  b"}`), nil)
			if err != nil {
				continue
			}
			out, err := run.Wait(t.Context())
			e.Close()
			if err == nil && out.Status == runlog.Completed {
				ended = true
			} else {
				crashes++
				mortal.Revive()
				e = engine(t, mortal, r.workflow(t))
				if out, err = resume(t, e, run.ID(), nil).Wait(t.Context()); err != nil || out.Status != runlog.Completed {
					t.Fatalf("%d, %v: %+v, %v", n, after, out, err)
				}
			}
			e = engine(t, mortal, r.workflow(t))
			if keys := said(t, mortal, run.ID()); len(keys) != want && (want == 1 || len(keys) > 1) {
				t.Fatalf("%d, %v: told as %q", n, after, keys)
			}
			replays(t, e, run.ID())
		}
	}
	if crashes < 10 || posts < 10 {
		t.Errorf("only %d crashes and %d messages", crashes, posts)
	}
}

// postOnce posts when the agent's first turn is recorded.
type postOnce struct {
	runlog.Store
	once sync.Once
	post func(id string)
}

func (p *postOnce) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := p.Store.Acquire(ctx, id, opt)
	if err == nil && !strings.HasPrefix(id, "requests-") {
		l = &postLog{l, p, id}
	}
	return l, info, err
}

type postLog struct {
	runlog.Log
	p  *postOnce
	id string
}

func (l *postLog) Append(ctx context.Context, b *runlog.Batch) error {
	err := l.Log.Append(ctx, b)
	if slices.ContainsFunc(b.Records, func(r runlog.Record) bool { d := mail.Settled(&r); return d != nil && d.Kind == "agent" }) {
		l.p.once.Do(func() { l.p.post(l.id) })
	}
	return err
}

// A larger budget reaches a run that another process executes: what waits goes on while the rest is running.
func TestBudgetOfARunElsewhere(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	busy, free := make(chan struct{}), make(chan struct{})
	flow := func() *workflow.Workflow {
		g := graph.New("job", func(s, u string) string { return s + u })
		costs := func(name string, tokens int64) {
			g.AddNode(graph.Node[string, string]{Name: name, Run: func(ctx context.Context, t *graph.Task, _ string) (string, error) {
				if name == "b" { // it comes after what is refused
					select {
					case <-busy:
					case <-ctx.Done():
						return "", ctx.Err()
					}
				}
				return journal.Do(ctx, t.Scope(), &journal.Effect{Key: "e", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: tokens}},
					func(ctx context.Context, _ string) (string, error) {
						if name == "a" {
							select {
							case <-free:
							case <-ctx.Done():
							}
						}
						return name, nil
					})
			}})
			g.Edge(graph.Start, name)
			g.Edge(name, graph.End)
		}
		costs("a", 10)
		costs("b", 50)
		f, err := g.Compile()
		if err != nil {
			t.Fatal(err)
		}
		w, err := workflow.New("job", "A job.", f, func(job) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	e, there := engine(t, store, flow()), engine(t, store, flow())
	run := start(t, e, &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 30, Turns: 7}})
	close(busy)
	time.Sleep(200 * time.Millisecond) // b is refused
	begun := time.Now()
	if err := there.Budget(t.Context(), run.ID(), runlog.Budget{Tokens: 100}); err != nil {
		t.Fatal(err)
	}
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == runlog.KindSettled && rec.Path == "b" {
			break // while a is running
		}
	}
	if took := time.Since(begun); took > faults.Bound(2*time.Second) {
		t.Errorf("it took %v", took)
	}
	close(free)
	if out, err := run.Wait(t.Context()); err != nil || string(out.Output) != `"ab"` {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := budgets(t, store, run.ID()); len(got) != 1 || got[0] != (runlog.Budget{Tokens: 100, Turns: 7}) {
		t.Errorf("the log has %+v", got)
	}
	replays(t, there, run.ID())
	if err := there.Budget(t.Context(), run.ID(), runlog.Budget{Tokens: 1}); !errors.As(err, new(*runlog.EndedError)) {
		t.Error(err)
	}
}

func budgets(t *testing.T, store runlog.Store, id string) (all []runlog.Budget) {
	t.Helper()
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if b := mail.BudgetOf(&r); b != nil {
			all = append(all, b.Budget)
		}
	}
	return all
}

// slowStore lets its user look at runs again only when a run has ended, once there is a request.
type slowStore struct {
	runlog.Store
	ended func()
}

func (s *slowStore) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	if boxes, err := s.Store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Importing}}); err == nil && len(boxes) > 0 && boxes[0].Head > 0 {
		s.ended()
	}
	return s.Store.Runs(ctx, f)
}

// A request that is carried out and ends the run before its sender looks again has succeeded.
func TestRequestThatEndsTheRun(t *testing.T) {
	t.Parallel()
	r := &rig{second: asksWhich}
	store, asked := runlog.NewMemory(nil), make(chan struct{})
	here := engine(t, store, r.workflow(t))
	run := start(t, here, &superstep.StartOptions{Answer: func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) {
		close(asked)
		<-ctx.Done()
		return nil, false
	}})
	<-asked
	there := engine(t, &slowStore{store, func() { _, _ = run.Wait(t.Context()) }}, r.workflow(t))
	if err := there.Answer(t.Context(), run.ID(), "second", answered("x")); err != nil {
		t.Error(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || string(out.Output) != `"a  b:1x"` {
		t.Fatalf("%+v, %v", out, err)
	}
	if left, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}}); err != nil || len(left) > 0 {
		t.Errorf("left are %+v, %v", left, err)
	}
}

// A run that is paused for want of budget has the larger one when it is resumed, without being told again; a limit that is given then counts
// instead, and a later change counts more than that.
func TestBudgetOfAPausedRun(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	e := engine(t, store, fleet(t, 4, func(string) {}))
	run, err := e.Start(t.Context(), "fleet", []byte(`{}`), &superstep.StartOptions{Budget: &runlog.Budget{Tokens: 25}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Short == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := e.Budget(t.Context(), run.ID(), runlog.Budget{Tokens: 70}); err != nil {
		t.Fatal(err)
	}
	if got := info(t, e, run.ID()).Status; got != runlog.Paused {
		t.Errorf("it is %s", got)
	}
	if out, err := resume(t, e, run.ID(), nil).Wait(t.Context()); err != nil || out.Short == nil || out.Short.Limit != 70 {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err := resume(t, e, run.ID(), &superstep.ResumeOptions{Budget: &runlog.Budget{Tokens: 90}}).Wait(t.Context()); err != nil || out.Short == nil || out.Short.Limit != 90 {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := e.Budget(t.Context(), run.ID(), runlog.Budget{Tokens: 1000}); err != nil {
		t.Fatal(err)
	}
	if out, err := resume(t, e, run.ID(), nil).Wait(t.Context()); err != nil || out.Status != runlog.Completed {
		t.Fatalf("%+v, %v", out, err)
	}
	replays(t, e, run.ID())
}

// More time is given to a run that executes, and less.
func TestBudgetOfTime(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	free := make(chan struct{})
	r := &rig{second: func(ctx context.Context, _ *graph.Task) (string, error) {
		select {
		case <-free:
			return "2", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}}
	e, there := engine(t, store, r.workflow(t)), engine(t, store, r.workflow(t))
	run := start(t, e, &superstep.StartOptions{Budget: &runlog.Budget{Wall: time.Second}})
	<-r.entered
	if err := there.Budget(t.Context(), run.ID(), runlog.Budget{Wall: time.Hour}); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer stop()
	if out, err := run.Wait(short); err == nil {
		t.Fatalf("%+v", out)
	}
	if err := there.Budget(t.Context(), run.ID(), runlog.Budget{Wall: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if out, err := run.Wait(t.Context()); err != nil || out.Short == nil || out.Short.What != runlog.BudgetWall {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := there.Budget(t.Context(), run.ID(), runlog.Budget{Wall: -1}); err != nil {
		t.Fatal(err)
	}
	close(free)
	if out, err := resume(t, there, run.ID(), nil).Wait(t.Context()); err != nil || out.Status != runlog.Completed {
		t.Fatalf("%+v, %v", out, err)
	}
	replays(t, there, run.ID())
}

// A message to a conversation that waits for its next one is that one; whoever resumes the run has it.
func TestSteerAnswersMessage(t *testing.T) {
	t.Parallel()
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: workflow.Set{hosttest.Asks(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	for beside, fits := range map[string]bool{"message": true, "": false} {
		r, err := e.Start(t.Context(), "asks", json.RawMessage(`{"beside":"`+beside+`"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Steer(t.Context(), r.ID(), "", "blue"); (err == nil) != fits {
			t.Fatalf("a message beside %q: %v", beside, err)
		}
		if !fits {
			continue
		}
		if r, err = e.Resume(t.Context(), r.ID(), nil); err != nil {
			t.Fatal(err)
		}
		if out, err := r.Wait(t.Context()); err != nil || string(out.Output) != `["blue"]` {
			t.Errorf("%s: %v", out.Output, err)
		}
	}
}
