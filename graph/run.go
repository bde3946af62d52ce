package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// RunOptions are the settings of a run. Nil means the defaults.
type RunOptions struct {
	// Journal keeps the run: every finished task is durable before anything follows
	// from it, and a journal that holds an unfinished run of the same graph is
	// continued, in which case the state given to Run is ignored. Defaults to none: the
	// run leaves nothing behind.
	Journal     *runlog.Journal
	Parallelism int           // tasks at work at once; defaults to 16
	MaxSteps    int           // supersteps before a *pregel.StepLimitError; defaults to 100, or to the number of nodes where that is more
	Timeout     time.Duration // of the whole run, from this call on; defaults to none
}

// A Final is what a run ended with.
type Final[S any] struct {
	State   S
	Steps   int      // supersteps the run took, from its start
	Skipped []string // the paths of the tasks that failed and were passed over, in path order by step
}

// Run runs the graph from a state to its end. It fails with a *pregel.TasksError, a
// *pregel.WaitingError while questions are open, a *pregel.StepLimitError, a
// *pregel.TimeoutError, a *ChangedError if the journal is of another version of the graph,
// the cause of ctx, or an error of the journal. In all of these cases a run with a
// journal can be continued.
func (f *Flow[S, U]) Run(ctx context.Context, state S, opt *RunOptions) (S, error) {
	final, err := f.Execute(ctx, state, opt)
	return final.State, err
}

// Execute is Run for those who want to know more of the end than the state. On an
// error Final is as of the last superstep.
func (f *Flow[S, U]) Execute(ctx context.Context, state S, opt *RunOptions) (Final[S], error) {
	var o RunOptions
	if opt != nil {
		o = *opt
	}
	if o.MaxSteps <= 0 {
		o.MaxSteps = max(100, len(f.nodes))
	}
	x := &execution[S, U]{flow: f, journal: o.Journal}
	ro := &pregel.RunOptions[S, U, message]{Parallelism: o.Parallelism, MaxSteps: o.MaxSteps, Timeout: o.Timeout}
	var m *pregel.Machine[S, U, message]
	var err error
	switch {
	case o.Journal != nil:
		m, err = x.open(ctx, state)
		ro.Recorder, ro.Started = x, x.started
	case f.skips:
		m, err = f.begin(state)
		ro.Recorder = x // to know what was passed over
	default:
		m, err = f.begin(state)
	}
	if err != nil {
		return Final[S]{State: state}, err
	}
	x.state, x.steps = m.State(), m.Step()
	err = pregel.Run(ctx, m, x.exec, ro)
	if x.journal == nil {
		x.state, x.steps = m.State(), m.Step()
	} else if err == nil {
		x.journal.End()
	}
	return Final[S]{State: x.state, Steps: x.steps, Skipped: x.skipped}, err
}

// begin makes a machine at the start of a run.
func (f *Flow[S, U]) begin(state S) (*pregel.Machine[S, U, message], error) {
	entries := f.entries
	for i := range f.starts {
		sends, err := f.starts[i].choose(f, state)
		if err != nil {
			return nil, fmt.Errorf("graph %q: %w", f.name, err)
		}
		entries = append(entries[:len(entries):len(entries)], sends...)
	}
	return pregel.New[S, U, message](&f.program, state, entries...), nil
}

// execution is one run.
type execution[S, U any] struct {
	flow    *Flow[S, U]
	journal *runlog.Journal // nil for a run that leaves nothing behind
	skipped []string        // of the supersteps that are committed, in order
	skips   []skip          // of the one that is under way
	state   S               // with a journal: as of the last superstep that is in it
	steps   int
}

// exec runs a node until an attempt succeeds or there are no more.
func (x *execution[S, U]) exec(ctx context.Context, t *pregel.Task[message], s S) pregel.Result[U, message] {
	n := &x.flow.nodes[t.Vertex]
	var task *Task
	first := 1
	if x.journal != nil || n.fn == nil {
		task = &Task{node: n.Name, key: t.Key, visit: t.Visit, inbox: t.Inbox}
		if x.journal != nil {
			task.scope = x.journal.Scope(pregel.Path(n.Name, t.Key, t.Visit))
			first += task.scope.Attempts()
		}
	}
	for attempt := first; ; attempt++ {
		if task != nil {
			task.attempt = attempt
		}
		r, err := x.attempt(ctx, n, task, s)
		if err == nil {
			return r
		}
		var wait *runlog.WaitError
		if errors.As(err, &wait) {
			return pregel.Result[U, message]{Outcome: pregel.Waiting, Err: err}
		}
		if ctx.Err() != nil {
			return pregel.Result[U, message]{Outcome: pregel.Aborted, Err: err}
		}
		if errors.Is(err, runlog.ErrFenced) {
			return pregel.Result[U, message]{Outcome: pregel.Failed, Err: err}
		}
		pause, again := n.Retry.after(attempt, err)
		record := &runlog.TaskFailed{Node: n.Name, Key: t.Key, Step: t.Step, Attempt: attempt, Error: err.Error(), Final: !again}
		if !again && n.OnError == Skip {
			return x.passOver(n, s, record, err)
		}
		if werr := x.failed(ctx, record, task.Scope().Path()); werr != nil {
			return pregel.Result[U, message]{Outcome: pregel.Failed, Err: errors.Join(err, werr)}
		}
		if !again {
			return pregel.Result[U, message]{Outcome: pregel.Failed, Err: err}
		}
		if !sleep(ctx, pause) {
			return pregel.Result[U, message]{Outcome: pregel.Aborted, Err: err}
		}
	}
}

// attempt runs a node once and chooses who is next.
func (x *execution[S, U]) attempt(ctx context.Context, n *node[S, U], task *Task, s S) (r pregel.Result[U, message], err error) {
	if n.Timeout > 0 {
		var stop context.CancelFunc
		limit := &pregel.TimeoutError{What: "node " + n.Name, After: n.Timeout}
		parent := ctx
		ctx, stop = context.WithTimeoutCause(ctx, n.Timeout, limit)
		defer stop()
		defer func() {
			if err != nil && parent.Err() == nil && ctx.Err() != nil {
				err = limit
			}
		}()
	}
	defer func() {
		if v := recover(); v != nil {
			err = &pregel.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	var u U
	if n.fn != nil {
		u, err = n.fn(ctx, s)
	} else {
		u, err = n.Run(ctx, task, s)
	}
	if err != nil {
		return r, err
	}
	r = pregel.Result[U, message]{Outcome: pregel.Done, Update: u, Sends: n.sends}
	if len(n.routes) > 0 {
		if r.Sends, err = n.next(x.flow, x.flow.reduce(s, u)); err != nil {
			return r, err
		}
	}
	if x.journal != nil {
		update, err := json.Marshal(u)
		if err != nil {
			return r, fmt.Errorf("its update cannot be encoded: %w", err)
		}
		r.Note = json.RawMessage(update)
	}
	return r, nil
}

// passOver is the result of a node whose attempts are used up and that may be skipped.
// Its last attempt is recorded together with that, so that a crash leaves both or neither.
func (x *execution[S, U]) passOver(n *node[S, U], s S, last *runlog.TaskFailed, err error) pregel.Result[U, message] {
	sends, rerr := n.next(x.flow, s)
	if rerr != nil {
		return pregel.Result[U, message]{Outcome: pregel.Failed, Err: errors.Join(err, rerr)}
	}
	return pregel.Result[U, message]{Outcome: pregel.Skipped, Sends: sends, Err: err, Note: last}
}

// next is who runs after a node: over its edges, then over its routes in the order they were added.
func (n *node[S, U]) next(f *Flow[S, U], after S) ([]pregel.Send[message], error) {
	if len(n.routes) == 0 {
		return n.sends, nil
	}
	if len(n.routes) == 1 && len(n.sends) == 0 {
		return n.routes[0].choose(f, after)
	}
	out := n.sends[:len(n.sends):len(n.sends)]
	for i := range n.routes {
		sends, err := n.routes[i].choose(f, after)
		if err != nil {
			return nil, err
		}
		out = append(out, sends...)
	}
	return out, nil
}

// choosable is the part of a flow that routes need, whatever its types.
type choosable interface{ node(name string) (int, bool) }

func (f *Flow[S, U]) node(name string) (int, bool) { i, ok := f.index[name]; return i, ok }

func (r *compiledRoute[S]) choose(f choosable, s S) ([]pregel.Send[message], error) {
	if r.branch != nil {
		to := r.branch(s)
		sends, ok := r.sends[to]
		if !ok {
			return nil, r.stray(to)
		}
		return sends, nil
	}
	split := r.fan(s)
	out := make([]pregel.Send[message], 0, len(split))
	for _, d := range split {
		if _, ok := r.sends[d.To]; !ok {
			return nil, r.stray(d.To)
		}
		to, _ := f.node(d.To)
		send := pregel.Send[message]{To: to, Key: d.Key, Bare: d.Arg == nil}
		if d.Arg != nil {
			arg, err := json.Marshal(d.Arg)
			if err != nil {
				return nil, fmt.Errorf("the argument for %s cannot be encoded: %w", pregel.Path(d.To, d.Key, 0), err)
			}
			send.Msg = arg
		}
		out = append(out, send)
	}
	return out, nil
}

func (r *compiledRoute[S]) stray(to string) error {
	return fmt.Errorf("the %s from %s chose %q, which is not among its targets%s", r.kind(), r.from, to, suggest.Hint(to, r.to))
}

// after gives the pause before the next attempt, and whether there is one.
func (r *Retry) after(attempt int, err error) (time.Duration, bool) {
	if r == nil {
		return 0, false
	}
	attempts, pause, factor, most, jitter := r.Attempts, r.Backoff, r.Factor, r.Max, r.Jitter
	if attempts == 0 {
		attempts = 3
	}
	if attempt >= attempts || r.If != nil && !r.If(err) {
		return 0, false
	}
	if pause == 0 {
		pause = 500 * time.Millisecond
	}
	if factor == 0 {
		factor = 2
	}
	if most == 0 {
		most = 30 * time.Second
	}
	if jitter == 0 {
		jitter = 0.1
	}
	d := float64(pause)
	for range attempt - 1 {
		d = min(d*factor, float64(most))
	}
	d = min(d, float64(most))
	if jitter > 0 {
		d *= 1 - jitter*rand.Float64()
	}
	return time.Duration(d), true
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A ChangedError says that a run was begun with another version of its graph.
type ChangedError struct {
	Graph string
	Diff  []string // "+ node x", "- edge a → b"
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("graph %q changed since the run began:\n  %s\nfinish the run with the version that began it, or start a new one", e.Graph, strings.Join(e.Diff, "\n  "))
}
