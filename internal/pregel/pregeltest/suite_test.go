// Package pregeltest has what every driver of a [pregel.Machine] must do, as a suite in
// the manner of testing/slogtest, and two drivers for tests: [Sequential] and [Shuffled].
//
// A driver has the signature of [pregel.Run] and its contract. The one there is passes the suite in
// TestLocal; another is tested beside it. The suite itself is tested with broken drivers.
//
// Each case names the rule it checks.
package pregeltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// A State is that of the suite's machines: the updates in the order of the fold.
type State = []string

// A Machine is one of the suite's.
type Machine = pregel.Machine[State, string, int]

// An Exec computes the tasks of the suite's machines.
type Exec = pregel.Exec[State, string, int]

// Options are the settings of a run of theirs.
type Options = pregel.RunOptions[State, string, int]

// A Driver runs a machine to its end, with the contract of [pregel.Run].
type Driver func(ctx context.Context, m *Machine, exec Exec, opt *Options) error

// Run runs the cases that any driver must pass, each in a bubble of testing/synctest, with and
// without a recorder. A goroutine that a driver leaves behind for good ends the test with a panic
// that shows it.
func Run(t *testing.T, drive Driver) { runCases(t, drive, slices.Concat(ruleCases, randomCases)) }

// RunParallel runs the cases about tasks that compute side by side, for drivers that have them do so.
func RunParallel(t *testing.T, drive Driver) { runCases(t, drive, parallelCases) }

func runCases(t *testing.T, drive Driver, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Logf("rule: %s", c.rule)
			for _, mistake := range c.check(t, drive) {
				t.Error(mistake)
			}
		})
	}
}

type testCase struct {
	name, rule string
	run        func(*fixture)
	recorded   bool // it is about the recorder
}

// check gives what a driver does wrong.
func (c *testCase) check(t *testing.T, drive Driver) (mistakes []string) {
	for _, recorded := range []bool{true, false} {
		if c.recorded && !recorded {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			f := &fixture{ctx: t.Context(), drive: drive, recorded: recorded, computed: map[string]int{}, inbox: map[string][]int{}, saw: map[string]State{}}
			defer func() {
				if v := recover(); v != nil && v != errGivenUp {
					f.Errorf("panic: %v", v)
				}
				time.Sleep(time.Hour) // what a driver has left behind shows by then, and ends
				f.mu.Lock()
				defer f.mu.Unlock()
				mistakes = append(mistakes, f.mistakes...)
			}()
			c.run(f)
		})
	}
	return mistakes
}

var errGivenUp = errors.New("the case was given up")

type (
	task   = pregel.Task[int]
	result = pregel.Result[string, int]
	send   = pregel.Send[int]
	ended  = pregel.Ended[string, int]
)

// A fixture is a case running with a driver.
type fixture struct {
	ctx      context.Context
	drive    Driver
	recorded bool
	does     map[string]func(c *call) result // by path; the update of others is their path
	any      func(t *task, c *call) result   // of all tasks, instead

	at      atomic.Int32 // tasks that compute
	barrier atomic.Int64 // how many supersteps are on record

	mu       sync.Mutex
	mistakes []string
	order    []string         // the paths that computed, as they started
	started  []string         // the same, as Started was told
	computed map[string]int   // by path: how often
	inbox    map[string][]int // by path: of the last time
	saw      map[string]State // by path: of the last time
	log      *audit           // of the last run
}

// call is one computation of a task.
type call struct {
	ctx   context.Context
	path  string
	n     int // which of this path, from 1
	inbox []int
	state State
	step  int
}

func (f *fixture) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mistakes) < 10 {
		f.mistakes = append(f.mistakes, fmt.Sprintf(format, args...))
	}
}

func (f *fixture) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(errGivenUp)
}

// run drives a machine. The recorder of the options, if any, is asked after the suite's own.
func (f *fixture) run(m *Machine, opt *Options) error { return f.runIn(f.ctx, m, opt) }

func (f *fixture) runIn(ctx context.Context, m *Machine, opt *Options) error {
	var o Options
	if opt != nil {
		o = *opt
	}
	f.log = newAudit(f, m, o.Recorder)
	f.barrier.Store(int64(m.Step()))
	if f.recorded {
		o.Recorder = f.log
	}
	o.Started = func(t *task) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.started = append(f.started, m.Path(t))
	}
	var over atomic.Bool
	err := f.drive(ctx, m, func(ctx context.Context, t *task, s State) result {
		if f.at.Add(1); over.Load() {
			f.Errorf("%s computes after the run has returned", m.Path(t))
		}
		defer f.at.Add(-1)
		return f.exec(ctx, m, t, s)
	}, &o)
	if n := f.at.Load(); n > 0 {
		f.Errorf("%d tasks compute when the run returns", n)
	}
	over.Store(true)
	if f.log.at.Load() {
		f.Errorf("the recorder is running when the run returns")
	}
	return err
}

func (f *fixture) exec(ctx context.Context, m *Machine, t *task, s State) result {
	c := &call{ctx: ctx, path: m.Path(t), inbox: t.Inbox, state: s, step: t.Step}
	f.mu.Lock()
	f.computed[c.path]++
	c.n = f.computed[c.path]
	f.order = append(f.order, c.path)
	f.inbox[c.path], f.saw[c.path] = slices.Clone(t.Inbox), slices.Clone(s)
	if !slices.Contains(f.started, c.path) {
		f.mistakes = append(f.mistakes, c.path+" computes before Started was told")
	}
	do := f.does[c.path]
	f.mu.Unlock()
	if f.recorded && t.Index >= 0 && f.barrier.Load() != int64(t.Step) {
		f.Errorf("%s of superstep %d starts with %d supersteps on record", c.path, t.Step, f.barrier.Load())
	}
	switch {
	case f.any != nil:
		return f.any(t, c)
	case do == nil:
		return done(c.path)
	}
	return do(c)
}

// check compares what a driver did with what it had to do.
func (f *fixture) check(what string, got, want any) {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		f.Errorf("%s: %s, want %s", what, g, w)
	}
}

// fails checks that an error is a T and returns it.
func fails[T error](f *fixture, err error) T {
	var e T
	if !errors.As(err, &e) {
		f.Fatalf("got error %v, want a %T", err, e)
	}
	return e
}

// times is how often paths computed.
func (f *fixture) times(paths ...string) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var n []int
	for _, p := range paths {
		n = append(n, f.computed[p])
	}
	return n
}

func program(names ...string) *pregel.Program[State, string, int] {
	p := &pregel.Program[State, string, int]{Reduce: func(s State, u string) State { return append(s[:len(s):len(s)], u) }}
	for _, n := range names {
		p.Vertices = append(p.Vertices, pregel.Vertex{Name: n})
	}
	return p
}

func to(v ...int) (s []send) {
	for _, x := range v {
		s = append(s, send{To: x, Bare: true})
	}
	return s
}

func say(v, msg int) send { return send{To: v, Msg: msg} }

func done(u string, s ...send) result { return result{Outcome: pregel.Done, Update: u, Sends: s} }

// always is a task that does the same each time.
func always(r result) func(*call) result { return func(*call) result { return r } }

// once is a task that does something else the first time.
func once(first, then result) func(*call) result {
	return func(c *call) result {
		if c.n == 1 {
			return first
		}
		return then
	}
}
