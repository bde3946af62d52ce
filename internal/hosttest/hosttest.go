// Package hosttest holds the rules that every host of an engine keeps: a process, a pool of workers, and Temporal. The same runs are killed, paused,
// answered, steered and cancelled on each, and have the same outputs, effects and decisions as in one process.
package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A Host executes runs.
type Host interface {
	// Serve executes runs with that engine from now on. The process of the engine before is dead.
	Serve(e *superstep.Engine)
	// Start has a run executed, which exists or not. It does not wait for its end.
	Start(ctx context.Context, id, workflow string, inputs json.RawMessage, budget *runlog.Budget) error
	// Tell tells a run something, whatever it does.
	Tell(ctx context.Context, id string, m *Message) error
	// Stop ends what Serve and Start began.
	Stop()
}

// A Message is what a run is told. One field is set.
type Message struct {
	Path   string // of the task, for Answer
	Answer *runlog.Answer
	Budget *runlog.Budget
	Steer  string // to the first agent
	Pause  bool
	Resume bool // what was paused
	Cancel bool
}

// Tell carries out a message by an engine, all but Resume.
func Tell(ctx context.Context, e *superstep.Engine, id string, m *Message) error {
	switch {
	case m.Answer != nil:
		return e.Answer(ctx, id, m.Path, m.Answer)
	case m.Budget != nil:
		return e.Budget(ctx, id, *m.Budget)
	case m.Steer != "":
		return e.Steer(ctx, id, "", m.Steer)
	case m.Pause:
		return e.Pause(ctx, id, "tester")
	case m.Cancel:
		return e.Cancel(ctx, id)
	}
	return nil
}

// Run holds a host to the rules. Kills is how often a process is killed, spread over all courses and all the points where one can die; 0 is at each.
func Run(t *testing.T, kills int, open func(t *testing.T) Host) {
	for _, c := range cases() {
		t.Run(c.rule, func(t *testing.T) {
			w := begin(t, open(t))
			c.act(w)
			if c.crashes {
				return
			}
			local := begin(t, InProcess())
			c.act(local)
			if got, want := w.decisions(), local.decisions(); !slices.Equal(got, want) {
				t.Errorf("its logs have\n%s\nand in one process\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
	t.Run("a kill loses nothing and repeats nothing", func(t *testing.T) { killed(t, kills, open) })
}

// A ruling is a rule and what shows it.
type ruling struct {
	rule    string
	act     func(w *world)
	crashes bool // its logs differ from run to run
}

func cases() []ruling {
	return []ruling{
		{rule: "a run completes", act: func(w *world) {
			w.start("r", "job", input{})
			w.ends("r", runlog.Completed, `"begin end"`)
			w.once("begin", "end")
		}},
		{rule: "a fan-out joins in the order of its tasks", act: func(w *world) {
			w.start("r", "job", input{Items: 12})
			w.ends("r", runlog.Completed, `"begin item/0 item/1 item/2 item/3 item/4 item/5 item/6 item/7 item/8 item/9 item/10 item/11 end"`)
			w.once("item/0", "item/11")
		}},
		{rule: "a second start of the same run changes nothing", act: func(w *world) {
			w.start("r", "job", input{Items: 1})
			w.ends("r", runlog.Completed, `"begin item/0 end"`)
			w.start("r", "job", input{Items: 1})
			w.ends("r", runlog.Completed, `"begin item/0 end"`)
			w.once("begin", "item/0", "end")
		}},
		{rule: "a question pauses the run, and an answer continues it", act: func(w *world) {
			w.start("r", "job", input{Ask: []string{"q"}})
			w.asks("r", "q")
			w.tell("r", &Message{Path: "middle", Answer: answer("q", "yes")})
			w.ends("r", runlog.Completed, `"begin yes end"`)
			w.once("begin", "end")
		}},
		{rule: "questions are answered one after the other", act: func(w *world) {
			w.start("r", "job", input{Ask: []string{"a", "b", "c"}})
			for _, key := range []string{"a", "b", "c"} {
				w.asks("r", key)
				w.tell("r", &Message{Path: "middle", Answer: answer(key, key)})
			}
			w.ends("r", runlog.Completed, `"begin a b c end"`)
		}},
		{rule: "an answer that does not fit is refused, and so is one to another question", act: func(w *world) {
			w.start("r", "job", input{Ask: []string{"q"}})
			w.asks("r", "q")
			if w.try("r", &Message{Path: "middle", Answer: &runlog.Answer{Key: "q", Value: json.RawMessage("7")}}) == nil {
				w.t.Error("a number is accepted as a text")
			}
			if w.try("r", &Message{Path: "middle", Answer: answer("p", "yes")}) == nil {
				w.t.Error("an answer to no question is accepted")
			}
			w.tell("r", &Message{Path: "middle", Answer: answer("q", "yes")})
			w.ends("r", runlog.Completed, `"begin yes end"`)
			if w.try("r", &Message{Path: "middle", Answer: answer("q", "no")}) == nil {
				w.t.Error("an answer to a finished run is accepted")
			}
		}},
		{rule: "a run that failed is resumed", act: func(w *world) {
			w.fails.Store(true)
			w.start("r", "job", input{Items: 2, Fail: true})
			w.status("r", runlog.Failed)
			w.fails.Store(false)
			w.start("r", "job", input{Items: 2, Fail: true})
			w.ends("r", runlog.Completed, `"begin item/0 item/1 end"`)
			w.once("begin", "item/0", "item/1", "end")
		}},
		{rule: "a user pauses and resumes a run", act: func(w *world) {
			w.start("r", "job", input{Gate: true})
			w.enters()
			told := w.telling("r", &Message{Pause: true})
			w.mailed("r")
			w.leave <- struct{}{}
			w.status("r", runlog.Paused)
			if err := <-told; err != nil {
				w.t.Error(err)
			}
			w.tell("r", &Message{Resume: true})
			w.ends("r", runlog.Completed, `"begin gate end"`)
			w.once("begin", "end")
		}},
		{rule: "a running run is cancelled", crashes: true, act: func(w *world) {
			w.start("r", "job", input{Gate: true})
			w.enters()
			w.tell("r", &Message{Cancel: true})
			w.status("r", runlog.Cancelled)
			w.once("begin")
		}},
		{rule: "a paused run is cancelled", act: func(w *world) {
			w.start("r", "job", input{Ask: []string{"q"}})
			w.asks("r", "q")
			w.tell("r", &Message{Cancel: true})
			w.status("r", runlog.Cancelled)
		}},
		{rule: "a budget pauses the run, and a larger one continues it", act: func(w *world) {
			w.budget = &runlog.Budget{Tokens: 15}
			w.start("r", "job", input{Items: 3})
			w.waits("r", summary.Budget)
			w.tell("r", &Message{Budget: &runlog.Budget{Tokens: 1000}})
			w.ends("r", runlog.Completed, `"begin item/0 item/1 item/2 end"`)
			w.once("begin", "item/0", "item/1", "item/2", "end")
		}, crashes: true}, // which item is first is left to chance
		{rule: "an agent is steered once", act: func(w *world) {
			w.start("r", "job", input{Talk: true})
			w.enters()
			told := w.telling("r", &Message{Steer: "now"})
			w.mailed("r")
			close(w.leave)
			w.ends("r", runlog.Completed, `"begin now end"`)
			if err := <-told; err != nil {
				w.t.Error(err)
			}
		}, crashes: true}, // the agent's turns are those of its time
		{rule: "child runs answer their parent", act: func(w *world) {
			w.start("r", "family", input{Items: 4})
			w.ends("r", runlog.Completed, `"begin item/0 end, begin item/0 item/1 end, begin item/0 item/1 item/2 end, begin item/0 item/1 item/2 item/3 end"`)
			w.all(5)
		}},
		{rule: "child runs have child runs", act: func(w *world) {
			w.start("r", "grand", input{Items: 2})
			w.ends("r", runlog.Completed, `"begin item/0 end, begin item/0 end, begin item/0 item/1 end"`)
			w.all(6)
		}},
		{rule: "a child run asks, and its parent waits for it", act: func(w *world) {
			w.start("r", "family", input{Items: 1, Ask: []string{"q"}})
			id := w.child("r", "q")
			w.tell(id, &Message{Path: "middle", Answer: answer("q", "yes")})
			w.resumes("r")
			w.ends("r", runlog.Completed, `"begin item/0 yes end"`)
		}, crashes: true}, // the parent may be paused or not
		{rule: "a failed child run fails its parent", act: func(w *world) {
			w.fails.Store(true)
			w.start("r", "family", input{Items: 1, Fail: true})
			w.status("r", runlog.Failed)
		}},
		{rule: "no child run outlives a cancelled parent", act: func(w *world) {
			w.start("r", "family", input{Items: 2, Gate: true})
			w.enters()
			w.enters()
			w.tell("r", &Message{Cancel: true})
			w.status("r", runlog.Cancelled)
			w.childrenAre("r", runlog.Cancelled, 2)
		}, crashes: true},
		{rule: "a process with another version leaves the run to one that has its own", crashes: true, act: func(w *world) {
			w.start("r", "job", input{Items: 2, Ask: []string{"q"}})
			w.asks("r", "q")
			w.store.Die()
			w.live(2)
			w.start("r", "job", input{Items: 2, Ask: []string{"q"}})
			w.tell("r", &Message{Path: "middle", Answer: answer("q", "yes")})
			for range 20 { // looks of the host, of which each could do damage
				w.pause()
				if i, ok := w.look("r"); ok && i.Status.Ended() {
					w.t.Fatalf("it is %s", i.Status)
				}
			}
			w.store.Die()
			w.live(1)
			w.start("r", "job", input{Items: 2, Ask: []string{"q"}})
			w.ends("r", runlog.Completed, `"begin item/0 item/1 yes end"`)
			w.once("begin", "item/0", "item/1", "end")
		}},
		{rule: "a killed parent and its killed child runs go on", crashes: true, act: func(w *world) {
			w.start("r", "family", input{Items: 3, Gate: true})
			w.enters()
			w.store.Die()
			w.live(1)
			w.start("r", "family", input{Items: 3, Gate: true})
			close(w.leave)
			w.drain()
			w.ends("r", runlog.Completed, `"begin item/0 gate end, begin item/0 item/1 gate end, begin item/0 item/1 item/2 gate end"`)
			w.childrenAre("r", runlog.Completed, 3)
		}},
	}
}

func answer(key, text string) *runlog.Answer {
	b, _ := json.Marshal(text)
	return &runlog.Answer{Key: key, Value: b, By: "person"}
}

func asks(i *runlog.Info, key string) bool {
	s := summary.Of(i)
	return i.Status == runlog.Paused && s != nil && slices.ContainsFunc(s.Questions, func(q summary.Question) bool { return q.Key == key })
}

// InProcess returns the host that is the engine itself, with a user who resumes what was paused.
func InProcess() Host { return &inProcess{} }

type inProcess struct {
	mu sync.Mutex
	e  *superstep.Engine
}

func (h *inProcess) engine() *superstep.Engine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.e
}

func (h *inProcess) Serve(e *superstep.Engine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.e = e
}

func (h *inProcess) Start(ctx context.Context, id, name string, inputs json.RawMessage, budget *runlog.Budget) error {
	_, err := h.engine().Start(context.WithoutCancel(ctx), name, inputs, &superstep.StartOptions{ID: id, Budget: budget})
	return err
}

func (h *inProcess) Tell(ctx context.Context, id string, m *Message) error {
	e := h.engine()
	if err := Tell(ctx, e, id, m); err != nil || m.Steer != "" || m.Pause || m.Cancel {
		return err
	}
	_, err := e.Resume(context.WithoutCancel(ctx), id, nil)
	if errors.As(err, new(*runlog.BusyError)) {
		err = nil // it runs
	}
	return err
}

func (h *inProcess) Stop() {}

// Pool returns the host that is a worker.
func Pool() Host { return &pool{} }

type pool struct {
	inProcess
	stop func()
	work sync.WaitGroup
}

func (h *pool) Serve(e *superstep.Engine) {
	h.Stop()
	h.inProcess.Serve(e)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.work.Go(func() { _ = e.Serve(ctx, &superstep.RecoverOptions{Every: 20 * time.Millisecond}) })
}

func (h *pool) Start(ctx context.Context, id, name string, inputs json.RawMessage, budget *runlog.Budget) error {
	i, err := h.engine().Enqueue(ctx, name, inputs, &superstep.StartOptions{ID: id, Budget: budget})
	if err == nil && i.Status == runlog.Failed {
		_, err = h.engine().Resume(context.WithoutCancel(ctx), id, nil)
	}
	return err
}

func (h *pool) Tell(ctx context.Context, id string, m *Message) error {
	if m.Resume {
		return h.inProcess.Tell(ctx, id, m)
	}
	return Tell(ctx, h.engine(), id, m)
}

func (h *pool) Stop() {
	if h.stop != nil {
		h.stop()
		h.work.Wait()
		h.stop = nil
	}
}

// A world is a store, a host over it, and what its runs did.
type world struct {
	t      *testing.T
	host   Host
	store  *runlogtest.Mortal
	budget *runlog.Budget
	deeds
	lives   int
	process *process // of this life
	death   death
}

// A process is the store of one process, which acquires nothing after the next one has begun.
type process struct {
	*runlogtest.Mortal
	over atomic.Bool
}

// Acquire implements runlog.Store.
func (p *process) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if p.over.Load() {
		return nil, runlog.Info{}, runlogtest.ErrCrash
	}
	return p.Mortal.Acquire(ctx, id, opt)
}

func begin(t *testing.T, h Host) *world {
	w := &world{t: t, host: h, store: runlogtest.NewMortal(), deeds: newDeeds()}
	w.dead = w.store.Dead
	t.Cleanup(h.Stop)
	w.live(1)
	return w
}

// live begins a process with a version of the workflows, in the place of one that has died.
func (w *world) live(version int) {
	if w.lives++; w.lives > 1 {
		w.process.over.Store(true)
		w.store.Revive()
	}
	w.process = &process{Mortal: w.store}
	e, err := superstep.New(w.process, &superstep.Options{Workflows: w.workflows(w.t, version), Failpoint: w.reach})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.host.Stop()
		e.Close()
	})
	w.host.Serve(e)
}

func (w *world) start(id, name string, in input) {
	w.t.Helper()
	raw, err := json.Marshal(in)
	if err == nil {
		err = w.host.Start(w.t.Context(), id, name, raw, w.budget)
	}
	if w.lives > 1 && errors.As(err, new(*runlog.EndedError)) {
		return // it was cancelled when a process died
	}
	if err != nil && !w.store.Dead() {
		w.t.Fatal(err)
	}
}

func (w *world) try(id string, m *Message) error { return w.host.Tell(w.t.Context(), id, m) }

func (w *world) tell(id string, m *Message) {
	w.t.Helper()
	if err := w.try(id, m); err != nil {
		w.t.Fatal(err)
	}
}

// telling tells a run something that it hears later.
func (w *world) telling(id string, m *Message) <-chan error {
	out := make(chan error, 1)
	go func() { out <- w.try(id, m) }()
	return out
}

func (w *world) look(id string) (runlog.Info, bool) {
	infos, err := w.store.Runs(w.t.Context(), &runlog.Filter{ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return one(infos)
}

func one(infos []runlog.Info) (runlog.Info, bool) {
	if len(infos) == 0 {
		return runlog.Info{}, false
	}
	return infos[0], true
}

func (w *world) pause() { time.Sleep(2 * time.Millisecond) }

// until waits for a run about which something is true.
func (w *world) until(id, what string, ok func(*runlog.Info) bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; w.pause() {
		i, found := w.look(id)
		if found && ok(&i) {
			return
		}
		if time.Now().After(end) {
			for r := range runlog.Records(w.t.Context(), w.store, id, 0) {
				w.t.Logf("%d %s %s %.200s", r.Seq, r.Kind, r.Path, r.Data)
			}
			w.t.Fatalf("run %s is %s, held by %q, %s; want %s", id, i.Status, i.Owner, i.Summary, what)
		}
	}
}

// status waits for a run that nobody holds and that has a status.
func (w *world) status(id string, want runlog.Status) {
	w.t.Helper()
	w.until(id, string(want), func(i *runlog.Info) bool { return i.Status == want && i.Owner == "" })
}

func (w *world) asks(id, key string) {
	w.t.Helper()
	w.until(id, "the question "+key, func(i *runlog.Info) bool { return asks(i, key) && i.Owner == "" })
}

func (w *world) waits(id, what string) {
	w.t.Helper()
	w.until(id, what, func(i *runlog.Info) bool {
		s := summary.Of(i)
		return i.Status == runlog.Paused && s != nil && s.Waits == what && i.Owner == ""
	})
}

// mailed waits until the mailbox of a run has a request.
func (w *world) mailed(id string) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !w.hasMail(id); w.pause() {
		if time.Now().After(end) {
			w.t.Fatalf("the mailbox of %s is empty", id)
		}
	}
}

func (w *world) ends(id string, want runlog.Status, output string) {
	w.t.Helper()
	w.status(id, want)
	if got := w.output(id); got != output {
		w.t.Errorf("its output is %s, want %s", got, output)
	}
}

func (w *world) output(id string) (out string) {
	for r := range runlog.Records(w.t.Context(), w.store, id, 0) {
		var d runlog.RunFinished
		if r.Kind == runlog.KindRunFinished && json.Unmarshal(r.Data, &d) == nil {
			out = string(d.Output)
		}
	}
	return out
}

// family lists a run and those below it.
func (w *world) family() []runlog.Info {
	infos, err := w.store.Runs(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.Status == runlog.Importing })
}

// all waits until that many runs have completed, and nobody holds one.
func (w *world) all(n int) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; w.pause() {
		all := w.family()
		if len(all) == n && !slices.ContainsFunc(all, func(i runlog.Info) bool { return i.Status != runlog.Completed || i.Owner != "" }) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("there are %+v, want %d that completed", all, n)
		}
	}
}

func (w *world) childrenAre(id string, status runlog.Status, n int) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; w.pause() {
		all := slices.DeleteFunc(w.family(), func(i runlog.Info) bool { return i.Parent != id })
		if len(all) == n && !slices.ContainsFunc(all, func(i runlog.Info) bool { return i.Status != status }) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("there are the children %+v, want %d, %s", all, n, status)
		}
	}
}

// child waits for a child of a run that asks a question, and returns its ID.
func (w *world) child(id, key string) (child string) {
	w.t.Helper()
	w.until(id, "a child that asks "+key, func(*runlog.Info) bool {
		for _, i := range w.family() {
			if i.Parent == id && asks(&i, key) && i.Owner == "" {
				child = i.ID
			}
		}
		return child != ""
	})
	return child
}

// resumes resumes a parent that was paused for its children, in a host that leaves this to the user.
func (w *world) resumes(id string) {
	if h, ok := w.host.(*inProcess); ok {
		w.until(id, "its child answered", func(i *runlog.Info) bool {
			if i.Status == runlog.Interrupted && i.Owner == "" {
				_, err := h.engine().Resume(context.WithoutCancel(w.t.Context()), id, nil)
				return err == nil
			}
			return i.Status.Ended()
		})
	}
}

// decisions returns what the logs of all runs say, without what the time, the epoch and the host are reasons for.
func (w *world) decisions() (out []string) {
	w.t.Helper()
	for _, i := range w.family() {
		for r, err := range runlog.Records(w.t.Context(), w.store, i.ID, 0) {
			if err != nil {
				w.t.Fatal(err)
			}
			switch r.Kind {
			case runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused, runlog.KindSnapshot, runlog.KindEvent:
				continue
			}
			out = append(out, fmt.Sprintf("%s %s %s %s", i.ID, r.Kind, r.Path, timeless(r.Data)))
		}
	}
	slices.Sort(out) // tasks of a superstep end in any order
	return out
}

// timeless returns JSON without what a clock or chance decides.
func timeless(data json.RawMessage) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	b, _ := json.Marshal(without(v))
	return string(b)
}

func without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			switch key {
			case "took_ms", "first_ms", "waited", "request", "time", "spent", "idempotency", "worked", "after":
				delete(v, key)
			default:
				v[key] = without(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	}
	return v
}
