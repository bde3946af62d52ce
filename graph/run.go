package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/internal/encodable"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// RunOptions are the settings of a run. Nil means the defaults.
type RunOptions struct {
	// Store keeps the run, under its ID: every finished task is durable before later tasks depend
	// on it. If the store has an unfinished run of that ID, it is resumed; of a finished one Run
	// returns the last state. The state given to Run must then be the one that the run began with,
	// or the zero state. If nil, the run leaves nothing behind.
	Store runlog.Store
	ID    string // of the run in the Store; an ID without a Store is an error
	// Journal is for hosts that open runs themselves, as an engine does. It replaces Store and ID,
	// and the host records how the run ended.
	Journal     *journal.Journal
	Parallelism int // tasks of the graph running at once, those of graphs inside of it not counted; defaults to 16
	// supersteps before a *StepLimitError; defaults to what the graph says, or to 100 rounds: 100 for each node on a loop and 1 for any other, at least 100
	MaxSteps int
	Timeout  time.Duration // of the whole run, from this call on; defaults to none
	// Barrier makes every node wait for its superstep, even if what it reads is final.
	// The state that a run ends with is the same.
	Barrier bool
	// Once Stop is closed, nothing new starts, and the run ends with ErrStopped when the running
	// tasks have ended. If nil, the run is never stopped.
	Stop <-chan struct{}
	// FailFast makes every failure that fails the run, or a graph inside of it, stop what is
	// running, as if each node had OnError Abort. Which tasks have ended by then is a matter of time.
	FailFast bool
	// Cache holds earlier results for nodes with a Caching. If nil, nothing is cached.
	Cache Cache
	// SnapshotEvery is the number of supersteps between snapshots, counted from the start of the
	// run. Snapshots are also written whenever the log has grown enough; if zero, only then.
	SnapshotEvery int
	// AllowChange resumes a run that was begun by another version of the graph, if its next nodes
	// still exist and its state still fits. If false, such a run fails with a *ChangedError.
	AllowChange bool
	// Admit is called before the task of a path sends to tasks that begin so many agents in all. An
	// error fails the attempt or makes the task wait, see journal.Waits. If nil, everything is
	// admitted.
	Admit func(path string, agents int) error
	// Workflows finds the workflows that nodes run by name. If nil, there are none.
	Workflows func(name string) (Nested, error)
	// Children creates the run of a workflow that a task runs as a child, unless that run exists; see [Child]. An engine sets it. If nil, such workflows
	// run within their tasks.
	Children func(ctx context.Context, c *ChildRun) error
	// Ended is called once before Run returns, also with an error, with the supersteps that the run
	// took from its start and the paths of the tasks that failed and were skipped, ordered by
	// superstep and then by path. It may be nil.
	Ended func(steps int, skipped []string)
	// Host provides nodes with values that are known only when the run starts, such as agents and
	// tools; see Task.Host. It may be nil.
	Host any

	opened  func(*journal.Journal) // called with the journal of the Store before anything is done
	alone   bool                   // the Store is nobody else's, so that nobody can answer a question
	space   string                 // the path of the task that runs the graph, "" for a run's own
	refused error                  // why there is no such place
	halt    <-chan struct{}        // closed once the graph begins nothing new any more
	cut     *closing               // what is inside of the tasks of the graph, or of that around it before it has begun; nil for none
}

// A Nested is something that a node can run by name within its own run.
type Nested interface {
	// Settle checks inputs, a JSON object, and returns the inputs to run with. It is called once
	// per task, however often the task is run again.
	Settle(inputs json.RawMessage) (json.RawMessage, error)
	// RunNested runs the workflow with settled inputs and returns its output. The options come from [Task.Nested].
	RunNested(ctx context.Context, inputs json.RawMessage, opt *RunOptions) (json.RawMessage, error)
}

// An outcome holds the arguments of RunOptions.Ended. After an error it describes the last
// superstep.
type outcome[S any] struct {
	State   S
	Steps   int
	Skipped []string
}

// Run runs the graph from a state to its end. It fails with a *TasksError, a
// *Paused while questions are open, a *StepLimitError, a
// *TimeoutError, a *ChangedError if the run was begun with another version of the graph,
// a *ConflictError, ErrStopped, the cause of ctx, or an error of the store. In all of these cases a run with a
// store can be resumed; after a *ConflictError only once the field has a reducer, or by a fork. With
// an error the state is that of the last superstep. If the context of a graph inside of a task has
// ended, it also has what the tasks gave that ended after that.
func (f *Flow[S, U]) Run(ctx context.Context, state S, opt *RunOptions) (S, error) {
	final, err := f.execute(ctx, state, opt)
	if opt != nil && opt.Ended != nil {
		opt.Ended(final.Steps, final.Skipped)
	}
	return final.State, err
}

// execute is Run and returns the whole outcome.
func (f *Flow[S, U]) execute(ctx context.Context, state S, opt *RunOptions) (outcome[S], error) {
	final, err := f.engine.run(ctx, &state, opt)
	return outcome[S]{State: *final.State.(*S), Steps: final.Steps, Skipped: final.Skipped}, err //nolint:forcetypeassert,errcheck // a state is a *S
}

func (f *core) run(ctx context.Context, state any, opt *RunOptions) (final outcome[any], err error) {
	final.State = state
	defer func() {
		if p, is := err.(*PanicError); is { //nolint:errorlint // one within another has its name
			err = fmt.Errorf("graph %q: %w", f.name, p)
		}
	}()
	defer caught(&err) // a panic of the reducer, or of a route from Start; those of nodes fail their tasks
	x := &execution{flow: f}
	if opt != nil {
		x.opt = *opt
	}
	o := &x.opt
	if o.refused != nil {
		return outcome[any]{State: state}, o.refused
	}
	if o.Store != nil {
		return f.durable(ctx, state, *o)
	}
	if o.ID != "" && o.Journal == nil {
		return final, fmt.Errorf("run %s needs a Store: without one nothing of it is kept; set RunOptions.Store, or leave the ID out", o.ID)
	}
	if o.MaxSteps <= 0 {
		o.MaxSteps = f.steps
	}
	x.journal = o.Journal
	ctx, x.abort = context.WithCancelCause(apart(ctx))
	defer x.abort(nil)
	outer := o.cut
	var end func()
	o.cut, end = closingIn(outer, o.Stop)
	defer end()
	ro := &pregel.RunOptions[any, any, message]{Parallelism: o.Parallelism, MaxSteps: o.MaxSteps, Barrier: o.Barrier, Stop: o.Stop, Cut: outer.over(), Doomed: o.cut.close}
	o.halt = outer.orElse(o.Stop)
	var m *machine
	switch {
	case x.journal != nil:
		if m, err = x.open(ctx, state); err == nil {
			ended := false
			defer func() { x.journal.End(o.space, ended) }()
			defer func() { ended = m.Ended() }()
		}
		x.began = x.journal.Head()
		answered, stop := x.journal.Scope(o.space).Listen()
		defer stop()
		ro.Recorder, ro.Started, ro.Wake, ro.Ready = x, x.started, answered, x.ready
	case f.skips:
		m, err = x.begin(state)
		ro.Recorder = x // to know what was skipped
	default:
		m, err = x.begin(state)
	}
	if err != nil {
		return outcome[any]{State: state}, err
	}
	x.state, x.steps = m.State(), m.Step()
	if x.journal != nil {
		x.state = f.types.copied(x.state) // as of the last superstep that is in the log
	}
	if o.Timeout > 0 {
		var over context.CancelFunc
		ctx, over = context.WithTimeoutCause(ctx, o.Timeout, &TimeoutError{What: "the run", After: o.Timeout})
		defer over()
	}
	err = public(pregel.Run(ctx, m, x.inTurn(), ro))
	if x.journal == nil {
		x.state, x.steps = m.State(), m.Step()
	}
	if outer != nil && err != nil && ctx.Err() != nil {
		x.state = m.Known()
	}
	var waiting *pregel.WaitingError
	if x.journal != nil && o.space == "" && errors.As(err, &waiting) {
		err = &Paused{Run: x.journal.ID(), Questions: x.journal.Open(), err: waiting}
	}
	if outer != nil && errors.Is(err, ErrStopped) {
		err = &haltedError{err}
	}
	return outcome[any]{State: x.state, Steps: x.steps, Skipped: x.skipped}, err
}

// begin creates a machine at the start of a run.
func (x *execution) begin(state any) (*machine, error) {
	f := x.flow
	state = f.types.apart(state) // its lists are the caller's
	if f.variesState {
		if err := unencodable("the initial state", state, nil); err != nil {
			return nil, fmt.Errorf("graph %q: %w", f.name, err)
		}
	}
	entries := f.entries
	for i := range f.starts {
		sends, err := f.starts[i].choose(f, Start, 0, state)
		if err == nil {
			err = x.admit(x.opt.space, sends)
		}
		if err != nil {
			return nil, fmt.Errorf("graph %q: %w", f.name, err)
		}
		entries = append(entries[:len(entries):len(entries)], sends...)
	}
	return pregel.New(&f.program, state, entries...), nil
}

// execution is one run.
type execution struct {
	flow    *core
	opt     RunOptions
	journal *journal.Journal // nil for a run that leaves nothing behind
	abort   context.CancelCauseFunc
	skipped []string          // of the supersteps that are committed, in order
	began   uint64            // the head of the log then
	woken   map[string]uint64 // by path of a waiting task: the head of the log when it was ready last
	asking  map[string]bool   // the paths of tasks with open questions, as of the head asked
	asked   uint64
	state   any // with a journal: as of the last superstep that is in it
	steps   int
	large   bool                 // the state is too large for a snapshot
	bare    atomic.Pointer[bare] // the context of a node that has ended and has not asked it for anything, for the next one; nil for none
}

func (x *execution) path(t *pregel.Task[message]) string {
	return x.flow.path(x.opt.space, t)
}

// ready reports whether a waiting task may continue: an answer has come with which something in it
// can, or it contains no open question and the log has grown since the last call.
func (x *execution) ready(t *pregel.Task[message]) bool {
	path, head := x.path(t), x.journal.Head()
	if x.woken[path] == head {
		return false
	}
	if x.asking == nil || x.asked != head {
		x.asking, x.asked = x.journal.Asking(), head
	}
	if x.asking[path] && !x.journal.Scope(path).News(max(x.began, x.woken[path])) {
		return false
	}
	if x.woken == nil {
		x.woken = map[string]uint64{}
	}
	x.woken[path] = head
	return true
}

// task creates the handle of a task, or returns nil if nothing will use it.
func (x *execution) task(n *node, t *pregel.Task[message]) *Task {
	if x.journal == nil && n.fn != nil && n.input == nil {
		return nil
	}
	return &Task{node: n.Name, key: t.Key, visit: t.Visit, inbox: t.Inbox, uses: n.Uses, any: n.UsesAny, child: n.Child, opt: &x.opt, scope: x.journal.Scope(x.path(t))}
}

// exec runs a node until an attempt succeeds or no attempts are left.
func (x *execution) exec(ctx context.Context, t *pregel.Task[message], s any) (r result) {
	n := &x.flow.nodes[t.Vertex]
	task := x.task(n, t)
	defer func() {
		if r.Outcome == pregel.Failed && (x.opt.FailFast || n.OnError == Abort) {
			x.abort(&TasksError{Step: t.Step, Tasks: []TaskError{{Path: x.path(t), Err: r.Err}}})
		}
	}()
	for attempt := 1 + task.Scope().Attempts(); ; attempt++ {
		if task != nil {
			task.again(attempt)
		}
		r, err := x.attempt(ctx, n, task, t.Visit, attempt, s)
		if err == nil {
			return r
		}
		if end, over := x.missed(ctx, n, t, attempt, s, err); over {
			return end
		}
	}
}

// missed handles an attempt that failed: it waits for the next attempt, or returns the result if
// none is left.
func (x *execution) missed(ctx context.Context, n *node, t *pregel.Task[message], attempt int, s any, err error) (end result, over bool) {
	ended := func(o pregel.Outcome, err error) (result, bool) {
		return result{Outcome: o, Err: err}, true
	}
	switch {
	case journal.Waits(err):
		return ended(pregel.Waiting, err)
	case ctx.Err() != nil, errors.Is(err, pregel.ErrStopped):
		return ended(pregel.Aborted, err)
	case errors.Is(err, runlog.ErrFenced):
		return ended(pregel.Failed, err)
	}
	pause, again := x.pause(n, x.path(t), attempt, err)
	var unfit *SchemaError
	halt := Halts(err)
	again = again && !halt && !errors.As(err, &unfit) && !errors.As(err, new(*journal.UsedError)) // whose attempts are used up, or would end alike
	scope := x.journal.Scope(x.path(t))
	took, _ := scope.Took()
	record := &runlog.TaskFailed{Node: n.Name, Key: t.Key, Step: t.Step, Attempt: attempt, Error: err.Error(), Final: !again, Late: n.isLate(err), Took: took}
	if again {
		record.Next = pause.Milliseconds()
	}
	if !again && !halt && (n.caught || len(n.settled) > 0 || n.OnError == Skip) {
		r := x.passOver(n, x.path(t), t.Visit, s, record, err)
		if r.Outcome == pregel.Failed {
			record.Error = r.Err.Error()
			if werr := x.failed(ctx, record, x.path(t)); werr != nil {
				r.Err = errors.Join(r.Err, werr)
			}
		}
		return r, true
	}
	if werr := x.failed(ctx, record, x.path(t)); werr != nil {
		return ended(pregel.Failed, errors.Join(err, werr))
	}
	if !again {
		if attempt > 1 {
			err = fmt.Errorf("after %d attempts: %w", attempt, err)
		}
		return ended(pregel.Failed, err)
	}
	if !sleep(ctx, x.opt.halt, pause) {
		return ended(pregel.Aborted, err)
	}
	scope.Begin()
	return end, false
}

// attempt runs a node once and chooses who is next.
func (x *execution) attempt(ctx context.Context, n *node, task *Task, visit, attempt int, s any) (r result, err error) {
	if n.Timeout > 0 {
		parent := ctx
		var stop context.CancelFunc
		ctx, stop = task.Scope().WithTimeout(parent, n.Timeout, n.timeout(nil))
		defer stop()
		defer func() {
			late, _ := task.Scope().Late(ctx, attempt)
			err = n.late(err, late && parent.Err() == nil)
		}()
	}
	defer caught(&err)
	if task != nil {
		ctx = task.within(ctx)
	} else {
		b := x.without(ctx)
		defer x.spare(b)
		ctx = b
	}
	if n.input != nil {
		if s, r.Fix, err = x.fit(ctx, n, task, s); err != nil {
			return r, err
		}
	}
	var kept string
	if n.Cache != nil && (x.opt.Cache != nil || x.journal != nil) { // in a log it says so either way, for a replay
		r.Update, kept, err = x.cached(ctx, n, task, s)
	} else {
		r.Update, err = x.flow.hooked(ctx, n, task, s)
	}
	if err := task.Scope().Unwaited(err); err != nil {
		return r, err
	}
	r.Outcome, r.Sends = pregel.Done, n.sends
	if task != nil {
		r.Inside = task.inside
	}
	if err = x.finish(n, task, visit, s, &r); err == nil && kept != "" {
		x.keep(ctx, kept, n, task, r.Update)
	}
	return r, err
}

// hooked runs a node within the hooks of the run.
func (f *core) hooked(ctx context.Context, n *node, task *Task, s any) (any, error) {
	if !hook.Around(ctx) {
		return n.run(ctx, task, s)
	}
	out, err := hook.Node(ctx, &hook.At{Run: task.Scope().Run(), Path: task.Scope().Path(), Name: n.Name}, f.types.value(s), func(ctx context.Context) (any, error) {
		return n.run(ctx, task, s)
	})
	if err == nil && (out == nil || !reflect.TypeOf(out).AssignableTo(f.types.update)) {
		err = fmt.Errorf("a hook of node %s returned an update of type %T, want %v", n.Name, out, f.types.update)
	}
	return out, err
}

func (n *node) run(ctx context.Context, task *Task, s any) (any, error) {
	if n.fn != nil {
		return n.fn(ctx, s)
	}
	return n.Run(ctx, task, s)
}

// finish checks the result of a node, and adds the resulting sends and updates.
func (x *execution) finish(n *node, task *Task, visit int, s any, r *result) (err error) {
	f := x.flow
	if r.Update, err = x.clean(r.Update); err != nil {
		return err
	}
	if len(n.routes) > 0 || f.types.check != nil {
		after, err := f.after(s, r.Update)
		if err != nil {
			return err
		}
		if r.Sends, err = n.next(f, visit, after); err != nil {
			return err
		}
		f.spare.Put(after)
	}
	if task != nil && len(task.sends) > 0 {
		direct, err := n.directed(task.sends)
		if err != nil {
			return err
		}
		r.Sends = append(r.Sends[:len(r.Sends):len(r.Sends)], direct...)
	}
	if task != nil && task.vote != pregel.Halt {
		if n.Cache != nil {
			return errors.New("its results are cached, so it cannot call Stay or Complete, which a cached result would not repeat; remove its Cache")
		}
		r.Vote = task.vote
	}
	x.cleanSends(r)
	if err := x.admit(task.Scope().Path(), r.Sends); err != nil {
		return err
	}
	if x.journal == nil && n.output == nil {
		if f.varies {
			return unencodable("its update", f.types.pointer(r.Update), nil)
		}
		return nil
	}
	said := r.Update
	if x.journal.Attaches(runlog.KindTaskDone, task.Scope().Path()) {
		if said, _, err = f.types.detachUpdate(r.Update); err != nil {
			return err
		}
	}
	update, err := encoded(said, n.output)
	if err != nil {
		return err
	}
	r.Note = update
	return nil
}

// after returns the state with an update applied. The new state must pass the graph's check.
func (f *core) after(s, u any) (any, error) {
	k := &f.types
	after := f.spare.Get()
	if after == nil {
		after = k.newState()
	}
	k.set(after, s)
	if k.clip != nil {
		k.clip(after)
	}
	k.fold(after, u)
	if k.check != nil {
		if err := k.check(after); err != nil {
			return nil, fmt.Errorf("its update leads to a state that does not hold: %w", err)
		}
	}
	return after, nil
}

// clean returns the recorded form of an update if it differs from the node's update, so that the
// run continues exactly as after a crash.
func (x *execution) clean(u any) (any, error) {
	if x.journal == nil || !x.journal.Cleans() {
		return u, nil
	}
	k := &x.flow.types
	small, part, err := k.detachUpdate(u)
	if err != nil {
		return u, err
	}
	said, err := encoded(small, nil)
	if err != nil {
		return u, err
	}
	kept := x.journal.Clean(said)
	if bytes.Equal(said, kept) {
		return u, nil
	}
	clean, err := k.readUpdate(kept, false)
	if err != nil {
		return u, fmt.Errorf("its update without the secrets in it: %w", err)
	}
	return k.attachUpdate(clean, part)
}

// cleanSends is clean for the values of the sends.
func (x *execution) cleanSends(r *result) {
	if x.journal == nil || !x.journal.Cleans() {
		return
	}
	r.Sends = slices.Clone(r.Sends) // those of an edge are shared
	for i := range r.Sends {
		r.Sends[i].Msg.Arg = x.journal.Clean(r.Sends[i].Msg.Arg)
	}
}

// unencodable returns why a value cannot be encoded, with the field that cannot. Err is the error
// of json.Marshal. If err is nil and no field is to blame, unencodable returns nil.
func unencodable(what string, v any, err error) error {
	root := reflect.Indirect(reflect.ValueOf(v)).Type()
	if field := encodable.Value(v, cmp.Or(root.Name(), root.String())); field != nil {
		err = field
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s cannot be encoded: %w", what, err)
}

// encoded returns an update as JSON and checks it against a schema, if non-nil.
func encoded(u any, schema *jsonschema.Resolved) (json.RawMessage, error) {
	b, err := json.Marshal(u)
	if err != nil || encodable.Suspect(b) {
		if err := unencodable("its update", u, err); err != nil {
			return nil, err
		}
	}
	if schema != nil {
		if err := fits(schema, b); err != nil {
			return nil, fmt.Errorf("its update does not fit its schema: %w", err)
		}
	}
	return b, nil
}

// caught turns a panic into an error. It must be deferred.
func caught(err *error) {
	if v := recover(); v != nil { //nolint:revive // it is what is deferred
		if p, is := v.(*pregel.PanicError); is {
			*err = public(p)
			return
		}
		*err = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// admit checks how many tasks are sent to each node.
func (x *execution) admit(path string, sends []pregel.Send[message]) error {
	var wide map[int]int
	for i := range sends {
		if sends[i].Key != "" {
			if wide == nil {
				wide = map[int]int{}
			}
			wide[sends[i].To]++
		}
	}
	if wide == nil {
		return nil
	}
	for _, to := range slices.Sorted(maps.Keys(wide)) {
		n, tasks := &x.flow.nodes[to], wide[to]
		if n.Most > 0 && tasks > n.Most {
			return fmt.Errorf("it sends to %d tasks of %s, which may have %d; send less, or raise its Most", tasks, n.Name, n.Most)
		}
		if x.opt.Admit != nil && n.Agents > 0 {
			if err := x.opt.Admit(path, n.Agents*tasks); err != nil {
				return err
			}
		}
	}
	return nil
}

// passOver returns the result of a node that has no attempts left and whose failure is handled, or
// that may be skipped. Its last attempt is recorded together with that result, so that a crash
// leaves both or neither.
func (x *execution) passOver(n *node, path string, visit int, s any, last *runlog.TaskFailed, err error) result {
	arg, _ := json.Marshal(Failure{Node: n.Name, Key: last.Key, Error: last.Error, Attempts: last.Attempt}) // strings and numbers encode
	tell := func(to int) pregel.Send[message] {
		return pregel.Send[message]{To: to, Msg: message{From: n.Name, Arg: arg, Failed: true}}
	}
	if n.OnError == Skip && !n.caught {
		stand, after, rerr := x.instead(n, s, last, err)
		if rerr != nil {
			return result{Outcome: pregel.Failed, Err: errors.Join(err, rerr)}
		}
		next, rerr := n.next(x.flow, visit, after)
		if rerr == nil {
			rerr = x.admit(path, next)
		}
		if journal.Waits(rerr) {
			return result{Outcome: pregel.Waiting, Err: rerr}
		}
		if rerr != nil {
			return result{Outcome: pregel.Failed, Err: errors.Join(err, rerr)}
		}
		sends := slices.Clone(next)
		for i := range sends {
			if slices.Contains(n.settled, sends[i].To) {
				sends[i] = tell(sends[i].To)
			}
		}
		if stand != nil {
			return result{Outcome: pregel.Done, Update: stand.update, Sends: sends, Err: err, Note: stand, Inside: []string{path}}
		}
		return result{Outcome: pregel.Skipped, Sends: sends, Err: err, Note: last}
	}
	r := result{Outcome: pregel.Caught, Err: err, Note: last}
	for _, to := range slices.Concat(n.settled, n.catch) {
		r.Sends = append(r.Sends, tell(to))
	}
	return r
}

// standIn is the Note of a task that was skipped but still has an update.
type standIn struct {
	last    *runlog.TaskFailed
	update  any
	encoded json.RawMessage
}

// instead returns the replacement for the update of a failed node, or nil without a replacement, and the state after it. The new update is checked like
// any other update of the node.
func (x *execution) instead(n *node, s any, last *runlog.TaskFailed, why error) (stand *standIn, after any, err error) {
	if n.Instead == nil {
		return nil, s, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("what Instead puts in its place: %w", err)
		}
	}()
	defer caught(&err)
	stand = &standIn{last: last, update: n.Instead(s, why)}
	if stand.update, err = x.clean(stand.update); err == nil {
		after, err = x.flow.after(s, stand.update)
	}
	if err != nil {
		return nil, s, err
	}
	stand.encoded, err = encoded(stand.update, n.output)
	return stand, after, err
}

// next returns the nodes that run after a node: over its edges, then over its routes in the order
// they were added.
func (n *node) next(f *core, visit int, after any) ([]pregel.Send[message], error) {
	if len(n.routes) == 0 {
		return n.sends, nil
	}
	if len(n.routes) == 1 && len(n.sends) == 0 {
		return n.routes[0].choose(f, n.Name, visit, after)
	}
	out := n.sends[:len(n.sends):len(n.sends)]
	for i := range n.routes {
		sends, err := n.routes[i].choose(f, n.Name, visit, after)
		if err != nil {
			return nil, err
		}
		out = append(out, sends...)
	}
	return out, nil
}

func (r *compiledRoute) choose(f *core, from string, visit int, s any) ([]pregel.Send[message], error) {
	if r.branch != nil {
		to := r.branch(s, visit)
		sends, ok := r.sends[to]
		if !ok {
			return nil, r.stray(to)
		}
		return sends, nil
	}
	split := r.fan(s)
	if _, may := r.sends[End]; len(split) == 0 && !may {
		return nil, fmt.Errorf("the fan from %s sends nothing, so that what it leads to would not run; name graph.End among its targets if it may", r.from)
	}
	out := make([]pregel.Send[message], 0, len(split))
	var before map[Send]bool
	if len(split) > 1 {
		before = make(map[Send]bool, len(split))
	}
	for _, d := range split {
		if id := (Send{To: d.To, Key: d.Key}); before[id] {
			return nil, fmt.Errorf("the fan from %s sends to %s twice; give each of its tasks a Key", r.from, pregel.Path(d.To, d.Key, 0))
		} else if before != nil {
			before[id] = true
		}
		if _, ok := r.sends[d.To]; !ok || d.To == End {
			return nil, r.stray(d.To)
		}
		send, err := directed(&d, from, f.index[d.To])
		if err != nil {
			return nil, err
		}
		out = append(out, send)
	}
	return out, nil
}

// directed creates a message from a Send.
func directed(d *Send, from string, to int) (pregel.Send[message], error) {
	send := pregel.Send[message]{To: to, Key: d.Key, Bare: d.Arg == nil}
	if !utf8.ValidString(d.Key) {
		return send, fmt.Errorf("the key %q for %s is not UTF-8, and would be another one after a resume; quote it, such as with url.PathEscape", d.Key, d.To)
	}
	if d.Arg != nil {
		arg, err := json.Marshal(d.Arg)
		if err == nil && encodable.Suspect(arg) {
			err = encodable.Value(d.Arg, "Arg")
		}
		if err != nil {
			return send, fmt.Errorf("the argument for %s cannot be encoded: %w", pregel.Path(d.To, d.Key, 0), err)
		}
		send.Msg = message{From: from, Arg: arg}
	}
	return send, nil
}

// directed converts the sends of a task into messages. Messages to the end are dropped.
func (n *node) directed(sends []Send) ([]pregel.Send[message], error) {
	out := make([]pregel.Send[message], 0, len(sends))
	for i := range sends {
		to, ok := n.direct[sends[i].To]
		if !ok {
			return nil, fmt.Errorf("it sent to %q, which is not among its Sends%s", sends[i].To, suggest.Hint(sends[i].To, n.Sends))
		}
		if to < 0 {
			continue
		}
		send, err := directed(&sends[i], n.Name, to)
		if err != nil {
			return nil, err
		}
		out = append(out, send)
	}
	return out, nil
}

func (r *compiledRoute) stray(to string) error {
	return fmt.Errorf("the %s from %s chose %q, which is not among its targets%s", r.kind(), r.from, to, suggest.Hint(to, r.to))
}

// pause returns how long to wait before the next attempt, if there is one.
func (n *node) pause(attempt int, err error) (time.Duration, bool) {
	return (*pregel.Retry)(n.Retry).After(attempt, err, rand.Float64())
}

// sleep waits, and reports whether the run should continue afterwards.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop:
		return false
	case <-ctx.Done():
		return false
	case <-t.C:
	}
	select {
	case <-stop:
		return false
	default:
		return ctx.Err() == nil
	}
}
