package pregeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
)

var (
	errNo     = errors.New("no")
	errEnough = errors.New("enough")
)

var ruleCases = []testCase{
	{name: "halting", rule: "a vertex computes when a message wakes it or it voted Stay, and the run ends when none is active", run: halting},
	{name: "fold", rule: "updates are folded in path order", run: func(f *fixture) {
		m := pregel.New(program("a", "b", "c", "d", "e"), nil, to(4, 2, 0, 3, 1)...)
		f.check("error", f.run(m, nil), nil)
		f.check("state", m.State(), "[a b c d e]")
	}},
	{name: "state", rule: "a task is given the state of the last commit", run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": always(done("a", to(2)...)), "b": always(done("b")), "c": always(done("c", to(0)...))}
		m := pregel.New(program("a", "b", "c"), State{"s"}, to(0, 1)...)
		f.check("error", f.run(m, nil), nil)
		f.check("states", []State{f.saw["a"], f.saw["b"], f.saw["c"], f.saw["a#1"]}, "[[s] [s] [s a b] [s a b c]]")
	}},
	{name: "reads", rule: "a task of a vertex with declared reads is given what Sees gives", run: func(f *fixture) {
		p := program("a", "b", "c")
		p.Vertices[2].Reads = []int{1}
		f.does = map[string]func(*call) result{"a": always(done("a", to(2)...))}
		f.check("error", f.run(pregel.New(p, State{"s"}, to(0, 1)...), nil), nil)
		f.check("state", f.saw["c"], "[s b]")
	}},
	{name: "inbox", rule: "messages come in the order of their senders", run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": always(done("a", say(3, 1), say(3, 2))), "b": always(done("b", say(3, 3))), "c": always(done("c", say(3, 4)))}
		f.check("error", f.run(pregel.New(program("a", "b", "c", "d"), nil, to(2, 0, 1)...), nil), nil)
		f.check("inbox", f.inbox["d"], "[1 2 3 4]")
	}},
	{name: "join", rule: "a join counts distinct sources", run: join},
	{name: "stalled", rule: "a run that ends with a join that never fired is a *StalledError", run: func(f *fixture) {
		p := program("a", "b", "j")
		p.Vertices[2].Need, p.Vertices[2].Sources = 2, []int{0, 1}
		f.does = map[string]func(*call) result{"a": always(done("a", to(2)...))}
		e := fails[*pregel.StalledError](f, f.run(pregel.New(p, nil, to(0)...), nil))
		f.check("stalled", fmt.Sprint(e.Vertex, e.Missing), "j[b]")
	}},
	{name: "terminal", rule: "a terminal state ends the run, whoever is active, and before the first superstep if need be", run: func(f *fixture) {
		p := program("a")
		p.Terminal = func(s State) bool { return len(s) >= 3 }
		f.does = map[string]func(*call) result{}
		for i := range 5 {
			f.does[pregel.Path("a", "", i)] = always(result{Outcome: pregel.Done, Update: "x", Vote: pregel.Stay})
		}
		m := pregel.New(p, nil, to(0)...)
		f.check("error", f.run(m, nil), nil)
		f.check("steps", m.Step(), 3)
		f.check("error", f.run(pregel.New(p, State{"1", "2", "3"}, to(0)...), nil), nil)
		f.check("computations", f.times("a", "a#1", "a#2", "a#3"), "[1 1 1 0]")
	}},
	{name: "failure", rule: "tasks that fail for good end the run with a *TasksError, in path order, after the others of their superstep, and nothing is committed", run: failure},
	{name: "repair", rule: "a task that failed runs again, with the messages it had, in a machine that recovers the others", run: repair},
	{name: "panic", rule: "a panic is a failure", run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": func(*call) result { panic(errNo) }}
		err := f.run(pregel.New(program("a", "b"), nil, to(0, 1)...), nil)
		f.check("failed", fails[*pregel.TasksError](f, err).Tasks[0].Path, "a")
		if p := fails[*pregel.PanicError](f, err); !errors.Is(p, errNo) || len(p.Stack) == 0 {
			f.Errorf("panic %v with a stack of %d bytes", p, len(p.Stack))
		}
		f.check("computations", f.times("a", "b"), "[1 1]")
	}},
	{name: "skipped", rule: "the messages of a task that is skipped count, its update does not", run: func(f *fixture) {
		f.does = map[string]func(*call) result{
			"a": always(result{Outcome: pregel.Skipped, Update: "x", Sends: []send{say(2, 7)}, Err: errNo}),
			"b": always(result{Outcome: pregel.Caught, Update: "y", Sends: []send{say(2, 8)}, Err: errNo}),
		}
		m := pregel.New(program("a", "b", "c"), nil, to(0, 1)...)
		f.check("error", f.run(m, nil), nil)
		f.check("state and inbox", fmt.Sprint(m.State(), f.inbox["c"]), "[c] [7 8]")
	}},
	{name: "waiting", rule: "when only waiting tasks are left the run is a *WaitingError; those that Ready lets go run again, with the messages they had", run: waiting},
	{name: "step limit", rule: "a run at its step limit is a *StepLimitError, and continues with a higher one", run: stepLimits},
	{name: "timeout", rule: "a run past its Timeout is a *TimeoutError, and goes on", run: timeout},
	{name: "context", rule: "a run whose context has ended returns its cause, and goes on", run: canceled},
	{name: "aborted", rule: "what was stopped before its end has never started: it is not recorded, and runs again with the messages it had", run: aborted},
	{name: "stop", rule: "a run that is stopped starts nothing any more, keeps what has ended, and goes on", run: stopped},
	{name: "started", rule: "Started is told once of every computation", run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": always(done("a", to(0, 1, 2)...)), "a#1": always(done("a", to(1)...))}
		f.check("error", f.run(pregel.New(program("a", "b", "c"), nil, to(0)...), nil), nil)
		slices.Sort(f.started)
		slices.Sort(f.order)
		f.check("started", f.started, f.order)
	}},
	{name: "check", rule: "an error of the program's check ends the run before the commit", run: checked},
	{name: "recovered", rule: "what is recovered is not computed, and a superstep of nothing else is committed", run: recovered},
	{name: "record", rule: "every result and every commit is recorded once, and nothing that follows from it starts before", recorded: true, run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": always(done("a", to(2, 3)...)), "b": always(done("b", to(3, 4)...)), "c": once(result{Outcome: pregel.Skipped}, result{})}
		f.check("error", f.run(pregel.New(program("a", "b", "c", "d", "e"), nil, to(0, 1)...), nil), nil)
		f.check("supersteps on record", f.log.step, 2)
		f.check("tasks on record", len(f.log.known), 5)
	}},
	{name: "lost record", rule: "an error of the recorder ends the run, and nothing starts after it", recorded: true, run: lostRecord},
}

func halting(f *fixture) {
	for _, c := range []struct {
		what string
		does map[string]func(*call) result
		want string
	}{
		{"a chain", map[string]func(*call) result{"a": always(done("a", to(1)...)), "b": always(done("b", to(2)...))}, "[a b c]"},
		{"a message wakes", map[string]func(*call) result{"a": always(done("a", to(1)...)), "b": always(done("b", to(0)...))}, "[a b a#1 b#1 a#2]"},
		{"staying", map[string]func(*call) result{"a": always(result{Outcome: pregel.Done, Update: "s", Vote: pregel.Stay})}, "[s a#1]"},
		{"completed", map[string]func(*call) result{"a": always(result{Outcome: pregel.Done, Update: "c", Vote: pregel.Complete, Sends: to(0, 1)}), "b": always(done("b", to(0)...))}, "[c b]"},
		{"instances", map[string]func(*call) result{"a": always(done("a", send{To: 1, Key: "y"}, send{To: 1, Key: "x"}))}, "[a b[y] b[x]]"},
	} {
		f.does = c.does
		if c.what == "a message wakes" {
			f.does["a#1"] = always(done("a#1", to(1)...))
			f.does["b#1"] = always(done("b#1", to(0)...))
		}
		m := pregel.New(program("a", "b", "c"), nil, to(0)...)
		f.check(c.what, f.run(m, nil), nil)
		f.check(c.what, m.State(), c.want)
		f.check(c.what+": ended", m.Ended(), true)
	}
}

func join(f *fixture) {
	p := program("a", "b", "all", "any")
	p.Vertices[2].Need, p.Vertices[2].Sources = 2, []int{0, 1}
	p.Vertices[3].Need, p.Vertices[3].Sources = 1, []int{0, 1}
	f.does = map[string]func(*call) result{
		"a":   always(done("a", say(2, 1), say(2, 2), say(3, 5), send{To: 0, Bare: true})),
		"a#1": always(done("a#1", to(1)...)),
		"b":   always(done("b", say(2, 3), say(3, 6))),
	}
	m := pregel.New(p, nil, to(0)...)
	f.check("error", f.run(m, nil), nil)
	f.check("state", m.State(), "[a a#1 any b all]")
	f.check("inboxes", fmt.Sprint(f.inbox["all"], f.inbox["any"]), "[1 2 3] [5]")
}

func failure(f *fixture) {
	bad := always(result{Outcome: pregel.Failed, Update: "x", Sends: to(4), Err: errNo})
	f.does = map[string]func(*call) result{"b": bad, "d": bad}
	m := pregel.New(program("a", "b", "c", "d", "e"), State{"s"}, to(0, 1, 2, 3)...)
	for range 2 { // it fails again when it is driven again, and computes nothing
		err := f.run(m, nil)
		e := fails[*pregel.TasksError](f, err)
		if len(e.Tasks) != 2 || e.Tasks[0].Path != "b" || e.Tasks[1].Path != "d" || e.Step != 0 || !errors.Is(err, errNo) {
			f.Errorf("error %v in superstep %d", err, e.Step)
		}
		f.check("state", m.State(), "[s]")
		f.check("step", m.Step(), 0)
		f.check("computations", f.times("a", "b", "c", "d", "e"), "[1 1 1 1 0]")
		for i, want := range []pregel.Outcome{pregel.Done, pregel.Failed, pregel.Done, pregel.Failed} {
			f.check("outcome", m.Outcome(i), want)
		}
	}
}

func repair(f *fixture) {
	p := program("a", "b", "c")
	f.does = map[string]func(*call) result{
		"a": always(done("a", say(1, 7), say(2, 8))),
		"b": once(result{Outcome: pregel.Failed, Update: "x", Sends: []send{say(2, 9)}, Err: errNo}, done("b")),
	}
	m := pregel.New(p, nil, to(0)...)
	fails[*pregel.TasksError](f, f.run(m, nil))
	again := f.reload(p, m, func(o pregel.Outcome) bool { return o == pregel.Done })
	f.inbox["b"] = nil
	f.check("error", f.run(again, nil), nil)
	f.check("state", again.State(), "[a b c]")
	f.check("inbox", f.inbox["b"], "[7]")
	f.check("computations", f.times("a", "b", "c"), "[1 2 1]")
}

// reload sends a machine through JSON, and has the new one recover of its superstep what is kept.
func (f *fixture) reload(p *pregel.Program[State, string, int], m *Machine, keep func(pregel.Outcome) bool) *Machine {
	b, err := json.Marshal(m.Snapshot())
	if err != nil {
		f.Fatalf("%v", err)
	}
	var s pregel.Snapshot[State, string, int]
	if err := json.Unmarshal(b, &s); err != nil {
		f.Fatalf("%v", err)
	}
	again, err := pregel.Restore(p, &s)
	if err != nil {
		f.Fatalf("%v", err)
	}
	for i := range m.Tasks() {
		if !keep(m.Outcome(i)) || again.Outcome(i) != 0 {
			continue
		}
		if err := again.Recover(i, *m.Result(i)); err != nil {
			f.Fatalf("%v", err)
		}
	}
	return again
}

func waiting(f *fixture) {
	wait := result{Outcome: pregel.Waiting}
	f.does = map[string]func(*call) result{"a": always(done("a", say(1, 7), say(2, 8), say(3, 9))), "b": once(wait, done("b")), "d": once(wait, done("d"))}
	m := pregel.New(program("a", "b", "c", "d"), nil, to(0)...)
	f.check("paths", fails[*pregel.WaitingError](f, f.run(m, nil)).Paths, "[b d]")
	f.check("paths", fails[*pregel.WaitingError](f, f.run(m, nil)).Paths, "[b d]")
	f.check("computations", f.times("a", "b", "c", "d"), "[1 1 1 1]")
	f.inbox["b"] = nil
	err := f.run(m, &Options{Ready: func(t *task) bool { return t.Vertex == 1 }})
	f.check("paths", fails[*pregel.WaitingError](f, err).Paths, "[d]")
	f.check("inbox", f.inbox["b"], "[7]")
	f.check("error", f.run(m, &Options{Ready: func(*task) bool { return true }}), nil)
	f.check("computations", f.times("a", "b", "c", "d"), "[1 2 1 2]")
	f.check("state", m.State(), "[a b c d]")
}

func stepLimits(f *fixture) {
	f.does = map[string]func(*call) result{}
	for i := range 8 {
		f.does[pregel.Path("a", "", i)] = always(done("a", to(0, 1)...))
	}
	m := pregel.New(program("a", "b"), nil, to(0)...)
	for _, limit := range []int{5, 5, 7} {
		e := fails[*pregel.StepLimitError](f, f.run(m, &Options{MaxSteps: limit}))
		f.check("limit", fmt.Sprint(e.Limit, e.Frontier, m.Step()), fmt.Sprintf("%d [a#%d b#%d] %d", limit, limit, limit-1, limit))
	}
	f.check("error", f.run(m, &Options{MaxSteps: 9}), nil) // as many as it takes
	f.check("steps", m.Step(), 9)
	f.check("computations", f.times("a", "a#4", "a#5", "a#6", "a#7", "a#8", "a#9"), "[1 1 1 1 1 1 0]")
}

func timeout(f *fixture) {
	slow := func(c *call) result {
		time.Sleep(30 * time.Millisecond)
		return done(c.path, to(0)...)
	}
	f.does = map[string]func(*call) result{}
	for i := range 9 {
		f.does[pregel.Path("a", "", i)] = slow
	}
	start := time.Now()
	m := pregel.New(program("a"), nil, to(0)...)
	err := f.run(m, &Options{Timeout: 100 * time.Millisecond})
	f.check("limit", fails[*pregel.TimeoutError](f, err).After, 100*time.Millisecond)
	f.check("took", time.Since(start), 120*time.Millisecond)
	f.check("error", f.run(m, nil), nil)
	f.check("computations", len(f.order), 10)
	f.check("steps", m.Step(), 10)
	m = pregel.New(program("a"), nil, to(0)...)
	f.does = map[string]func(*call) result{"a": func(*call) result { time.Sleep(time.Second); return done("a") }}
	f.order = nil
	fails[*pregel.TimeoutError](f, f.run(m, &Options{Timeout: 100 * time.Millisecond})) // the last task ends after it
	f.check("state", len(m.State()), 0)
	f.check("error", f.run(m, nil), nil)
	f.check("state and computations", fmt.Sprint(m.State(), len(f.order)), "[a] 1")
}

func canceled(f *fixture) {
	ctx, stop := context.WithCancelCause(f.ctx)
	f.does = map[string]func(*call) result{"a": func(*call) result {
		stop(errEnough)
		return done("a", to(1)...)
	}}
	m := pregel.New(program("a", "b"), nil, to(0)...)
	if err := f.runIn(ctx, m, nil); !errors.Is(err, errEnough) {
		f.Errorf("error %v", err)
	}
	if err := f.runIn(ctx, m, nil); !errors.Is(err, errEnough) {
		f.Errorf("error %v", err)
	}
	f.check("computations", f.times("a", "b"), "[1 0]")
	f.check("error", f.run(m, nil), nil)
	f.check("state", m.State(), "[a b]")
	f.check("computations", f.times("a", "b"), "[1 1]")
}

func aborted(f *fixture) {
	ctx, stop := context.WithCancelCause(f.ctx)
	f.does = map[string]func(*call) result{
		"a": always(done("a", say(1, 7), say(2, 8))),
		"b": func(c *call) result {
			if c.n > 1 {
				return done("b")
			}
			stop(errEnough)
			return result{Outcome: pregel.Aborted, Update: "x", Sends: []send{say(2, 9)}, Err: c.ctx.Err()}
		},
	}
	m := pregel.New(program("a", "b", "c"), nil, to(0)...)
	if err := f.runIn(ctx, m, nil); !errors.Is(err, errEnough) {
		f.Errorf("error %v", err)
	}
	f.inbox["b"] = nil
	f.check("error", f.run(m, nil), nil)
	f.check("state", m.State(), "[a b c]")
	f.check("inbox", f.inbox["b"], "[7]")
	f.check("computations", f.times("a", "b", "c"), "[1 2 1]")
	f.check("stopped in time", f.order[0], "a")
}

func stopped(f *fixture) {
	stop := make(chan struct{})
	f.does = map[string]func(*call) result{"a": func(*call) result {
		close(stop)
		return done("a", to(1)...)
	}}
	m := pregel.New(program("a", "b"), nil, to(0)...)
	for range 2 {
		if err := f.run(m, &Options{Stop: stop}); !errors.Is(err, pregel.ErrStopped) {
			f.Errorf("error %v, want ErrStopped", err)
		}
	}
	f.check("state", m.State(), "[a]")
	f.check("computations", f.times("a", "b"), "[1 0]")
	f.check("error", f.run(m, nil), nil)
	f.check("state", m.State(), "[a b]")
}

func checked(f *fixture) {
	p := program("a", "b")
	asked := ""
	p.Check = func(tasks []task, results []result) error {
		for i := range tasks {
			asked += fmt.Sprint(tasks[i].Vertex, results[i].Update, " ")
		}
		return errNo
	}
	m := pregel.New(p, State{"s"}, to(1, 0)...)
	for range 2 {
		if err := f.run(m, nil); !errors.Is(err, errNo) {
			f.Errorf("error %v", err)
		}
		f.check("state", m.State(), "[s]")
	}
	f.check("asked", asked, "0a 1b 0a 1b ")
	f.check("computations", f.times("a", "b"), "[1 1]")
}

func recovered(f *fixture) {
	p := program("a", "b", "c")
	m := pregel.New(p, nil, to(0, 1)...)
	for i := range 2 {
		if err := m.Recover(i, done(fmt.Sprint("old ", i), say(2, i))); err != nil {
			f.Fatalf("%v", err)
		}
	}
	f.check("error", f.run(m, &Options{MaxSteps: 2}), nil)
	f.check("state and inbox", fmt.Sprint(m.State(), f.inbox["c"]), "[old 0 old 1 c] [0 1]")
	f.check("computed", f.order, "[c]")
	m = pregel.New(p, nil, to(0, 1)...)
	if err := m.Recover(1, done("old")); err != nil {
		f.Fatalf("%v", err)
	}
	f.check("error", f.run(m, nil), nil)
	f.check("state", m.State(), "[a old]")
}

// recorder is a pregel.Recorder of a function.
type recorder func(m *Machine, batch []ended, commit bool) error

func (r recorder) Record(_ context.Context, m *Machine, batch []ended, commit bool) error {
	return r(m, batch, commit)
}

func lostRecord(f *fixture) {
	for lost := range 3 { // a commit ends with the record of it at the latest
		calls := 0
		m := pregel.New(program("a", "b"), nil, to(0)...)
		f.does = map[string]func(*call) result{"a": always(done("a", to(1)...)), "b": always(done("b", to(0)...)), "a#1": always(done("a#1"))}
		f.order = nil
		err := f.run(m, &Options{Recorder: recorder(func(*Machine, []ended, bool) error {
			if calls++; calls > lost {
				return errNo
			}
			return nil
		})})
		if !errors.Is(err, errNo) {
			f.Errorf("error %v", err)
		}
		f.check("calls", calls, lost+1)
		f.check("computed", len(f.order), lost+1)
	}
}
