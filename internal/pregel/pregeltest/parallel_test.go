package pregeltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
)

var parallelCases = []testCase{
	{name: "side by side", rule: "tasks of a superstep compute side by side", run: func(f *fixture) {
		start := time.Now()
		f.does = map[string]func(*call) result{"a": after(50, done("a")), "b": after(50, done("b")), "c": after(50, done("c")), "d": after(50, done("d"))}
		f.check("error", f.run(pregel.New(program("a", "b", "c", "d"), nil, to(0, 1, 2, 3)...), nil), nil)
		f.check("took", time.Since(start), 50*time.Millisecond)
	}},
	{name: "parallelism", rule: "at most Parallelism tasks compute at once, and so many if there are", run: parallelism},
	{name: "arrival", rule: "the order in which tasks end decides nothing", run: func(f *fixture) {
		f.does = map[string]func(*call) result{
			"a": after(30, done("a", say(3, 1), say(3, 2))), "b": after(20, done("b", say(3, 3))), "c": after(10, done("c", say(3, 4))),
		}
		m := pregel.New(program("a", "b", "c", "d"), nil, to(0, 1, 2)...)
		f.check("error", f.run(m, nil), nil)
		f.check("state and inbox", fmt.Sprint(m.State(), f.inbox["d"]), "[a b c d] [1 2 3 4]")
	}},
	{name: "at once", rule: "what has ended is recorded while others compute", recorded: true, run: func(f *fixture) {
		start := time.Now()
		f.does = map[string]func(*call) result{"a": after(1000, done("a")), "b": after(10, done("b"))}
		var at []time.Duration
		f.check("error", f.run(pregel.New(program("a", "b"), nil, to(0, 1)...), &Options{Recorder: recorder(func(*Machine, []ended, bool) error {
			at = append(at, time.Since(start))
			return nil
		})}), nil)
		f.check("recorded", at, "[10ms 1s]")
		f.check("record", f.log.lines, "[b a commit]")
	}},
	{name: "lost record beside", rule: "after an error of the recorder nothing more is recorded, whoever is running", recorded: true, run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": after(10, done("a")), "b": after(1000, done("b"))}
		calls := 0
		err := f.run(pregel.New(program("a", "b"), nil, to(0, 1)...), &Options{Recorder: recorder(func(*Machine, []ended, bool) error {
			calls++
			return errNo
		})})
		if !errors.Is(err, errNo) {
			f.Errorf("error %v", err)
		}
		f.check("calls", calls, 1)
	}},
	{name: "failure beside", rule: "tasks beside one that failed end, and what they came to counts", run: func(f *fixture) {
		f.does = map[string]func(*call) result{"a": always(result{Outcome: pregel.Failed, Err: errNo}), "b": after(1000, done("b"))}
		m := pregel.New(program("a", "b"), nil, to(0, 1)...)
		fails[*pregel.TasksError](f, f.run(m, nil))
		f.check("outcome", m.Outcome(1), pregel.Done)
	}},
	{name: "stopped beside", rule: "the tasks running learn that the run is to end, it waits for them, and what has ended counts", run: stoppedBeside},
	{name: "stop beside", rule: "a run that is stopped waits for the tasks running, and their contexts go on", run: func(f *fixture) {
		stop, begun := make(chan struct{}), make(chan struct{})
		f.does = map[string]func(*call) result{
			"a": func(*call) result { <-begun; close(stop); return done("a") },
			"b": func(c *call) result {
				close(begun)
				time.Sleep(time.Second)
				return done("b", to(c.ended()...)...)
			},
		}
		m := pregel.New(program("a", "b"), nil, to(0, 1)...)
		if err := f.run(m, &Options{Stop: stop}); err != nil && !errors.Is(err, pregel.ErrStopped) {
			f.Errorf("error %v", err)
		}
		f.check("state", m.State(), "[a b]")
	}},
	{name: "waking", rule: "a waiting task goes on while others compute", run: waking},
	{name: "woken at once", rule: "a task goes on while others compute, though it is woken before it is known to wait", run: wokenAtOnce},
	{name: "woken at once and early", rule: "so does one that has started before its superstep", run: wokenAtOnceEarly},
	{name: "early", rule: "a task whose reads are final starts before its superstep, unless Barrier says no", run: early},
	{name: "early at the limit", rule: "a run that ends at its step limit leaves what has started early to be done", run: earlyAtLimit},
}

// ended gives a vertex to send to, so that it shows, if the context has ended.
func (c *call) ended() []int {
	if c.ctx.Err() != nil {
		return []int{0}
	}
	return nil
}

// after is a task that takes so many milliseconds.
func after(ms int, r result) func(*call) result {
	return func(*call) result {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return r
	}
}

func parallelism(f *fixture) {
	for _, limit := range []int{1, 3, 100} {
		at, peak := 0, 0
		f.does = map[string]func(*call) result{}
		var entries []send
		for i := range 20 {
			k := fmt.Sprint(i)
			entries = append(entries, send{To: 0, Key: k, Bare: true})
			f.does[pregel.Path("a", k, 0)] = func(*call) result {
				f.mu.Lock()
				at++
				peak = max(peak, at)
				f.mu.Unlock()
				time.Sleep(time.Millisecond)
				f.mu.Lock()
				at--
				f.mu.Unlock()
				return done("a")
			}
		}
		f.check("error", f.run(pregel.New(program("a"), nil, entries...), &Options{Parallelism: limit}), nil)
		f.check("at once", peak, min(limit, 20))
	}
}

func stoppedBeside(f *fixture) {
	ctx, stop := context.WithCancelCause(f.ctx)
	f.does = map[string]func(*call) result{
		"a": always(done("a")),
		"b": func(*call) result { time.Sleep(time.Millisecond); stop(errEnough); return done("b") },
		"c": func(c *call) result {
			if c.n > 1 {
				return done("c")
			}
			<-c.ctx.Done()
			time.Sleep(time.Millisecond)
			return result{Outcome: pregel.Aborted, Err: context.Cause(c.ctx)}
		},
	}
	m := pregel.New(program("a", "b", "c"), nil, to(0, 1, 2)...)
	if err := f.runIn(ctx, m, nil); !errors.Is(err, errEnough) {
		f.Errorf("error %v", err)
	}
	f.check("error", f.run(m, nil), nil)
	f.check("state", m.State(), "[a b c]")
	f.check("computations", f.times("a", "b", "c"), "[1 1 2]")
}

func waking(f *fixture) {
	start := time.Now()
	wake := make(chan struct{}, 1)
	var woken time.Duration
	f.does = map[string]func(*call) result{
		"a": func(c *call) result {
			if c.n == 1 {
				return result{Outcome: pregel.Waiting}
			}
			woken = time.Since(start)
			return done("a")
		},
		"b": func(*call) result {
			time.Sleep(10 * time.Millisecond)
			wake <- struct{}{}
			time.Sleep(time.Second)
			return done("b")
		},
	}
	m := pregel.New(program("a", "b"), nil, to(0, 1)...)
	f.check("error", f.run(m, &Options{Wake: wake, Ready: func(*task) bool { return true }}), nil)
	f.check("woken after", woken, 10*time.Millisecond)
	f.check("state", m.State(), "[a b]")
}

func wokenAtOnce(f *fixture) {
	start := time.Now()
	wake := make(chan struct{})
	var woken time.Duration
	f.does = map[string]func(*call) result{
		"a": func(c *call) result {
			if c.n == 1 {
				wake <- struct{}{}
				time.Sleep(10 * time.Millisecond)
				return result{Outcome: pregel.Waiting}
			}
			woken = time.Since(start)
			return done("a")
		},
		"b": after(1000, done("b")),
	}
	m := pregel.New(program("a", "b"), nil, to(0, 1)...)
	f.check("error", f.run(m, &Options{Wake: wake, Ready: func(*task) bool { return true }}), nil)
	f.check("woken after", woken, 10*time.Millisecond)
	f.check("state", m.State(), "[a b]")
}

func wokenAtOnceEarly(f *fixture) {
	start := time.Now()
	wake := make(chan struct{})
	var woken time.Duration
	p := hurried(f)
	f.does["c"] = func(c *call) result {
		if c.n == 1 {
			wake <- struct{}{}
			time.Sleep(10 * time.Millisecond)
			return result{Outcome: pregel.Waiting}
		}
		woken = time.Since(start)
		return done("c", say(3, 8))
	}
	m := pregel.New(p, nil, to(0, 1)...)
	f.check("error", f.run(m, &Options{Wake: wake, Ready: func(*task) bool { return true }}), nil)
	f.check("woken after", woken, 60*time.Millisecond)
}

// hurried is a chain a → c → d whose links read no more than the one before, beside a slow b.
func hurried(f *fixture) *pregel.Program[State, string, int] {
	p := program("a", "b", "c", "d")
	p.Vertices[0].Targets, p.Vertices[2].Targets = []int{2}, []int{3}
	p.Vertices[2].Reads, p.Vertices[3].Reads = []int{0}, []int{2}
	p.AllowEarly()
	f.does = map[string]func(*call) result{"a": after(50, done("a", say(2, 7))), "b": after(400, done("b")), "c": after(50, done("c", say(3, 8))), "d": after(50, done("d"))}
	return p
}

func early(f *fixture) {
	for _, barrier := range []bool{false, true} {
		p := hurried(f)
		start, at := time.Now(), map[string]time.Duration{}
		for _, path := range []string{"c", "d"} {
			do := f.does[path]
			f.does[path] = func(c *call) result {
				f.mu.Lock()
				at[path] = time.Since(start)
				f.mu.Unlock()
				return do(c)
			}
		}
		m := pregel.New(p, nil, to(0, 1)...)
		f.check("error", f.run(m, &Options{Barrier: barrier}), nil)
		want := "map[c:50ms d:100ms]"
		if barrier {
			want = "map[c:400ms d:450ms]"
		}
		f.check("started", at, want)
		f.check("state", m.State(), "[a b c d]")
		f.check("inboxes", fmt.Sprint(f.inbox["c"], f.inbox["d"]), "[7] [8]")
		f.check("states seen", fmt.Sprint(f.saw["c"], f.saw["d"]), "[a] [c]")
	}
}

func earlyAtLimit(f *fixture) {
	for _, took := range []int{0, 1000} { // c has ended when the superstep before its own does, or not
		f.order = nil
		p := hurried(f)
		f.does["c"] = after(took, done("c", say(3, 8)))
		m := pregel.New(p, nil, to(0, 1)...)
		fails[*pregel.StepLimitError](f, f.run(m, &Options{MaxSteps: 1}))
		f.check("state", m.State(), "[a b]")
		f.check("error", f.run(m, nil), nil)
		f.check("state", m.State(), "[a b c d]")
		slices.Sort(f.order)
		if got := slices.Compact(f.order); len(got) != 4 {
			f.Errorf("computed %v", got)
		}
	}
}
