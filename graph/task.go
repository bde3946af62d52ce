package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

// A Task is the handle of a node on its current execution.
type Task struct {
	node     string
	key      string
	visit    int
	attempt  int
	inbox    []message
	sends    []Send
	vote     pregel.Vote
	feedback []string
	inside   []string // what was skipped in graphs inside of it
	uses     []string // the workflows that it may run
	any      bool     // it may run others too
	child    *Child   // see Node.Child
	parts    names
	scope    *journal.Scope // of the attempt
	opt      *RunOptions
}

// again prepares the task for another attempt.
func (t *Task) again(attempt int) {
	t.attempt, t.sends, t.vote, t.inside = attempt, nil, pregel.Halt, nil
	t.parts.clear()
	t.scope = t.scope.Attempt()
}

// names is the set of names in use. Its methods may be called from several goroutines.
type names struct {
	mu    sync.Mutex
	taken map[string]bool
}

// take reserves a name, which must be unused, unless all names are reserved.
func (n *names) take(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken[name] || n.taken[""] {
		return false
	}
	n.put(name)
	return true
}

// whole reserves all names, unless a single one is in use. It may be called again.
func (n *names) whole() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.taken) > 0 {
		return n.taken[""]
	}
	n.put("")
	return true
}

func (n *names) put(name string) {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	n.taken[name] = true
}

func (n *names) free(name string) {
	n.mu.Lock()
	delete(n.taken, name)
	n.mu.Unlock()
}

func (n *names) clear() {
	n.mu.Lock()
	clear(n.taken)
	n.mu.Unlock()
}

// Node returns the name of the node.
func (t *Task) Node() string { return t.node }

// Key returns the key of the Send it runs for, "" for none.
func (t *Task) Key() string { return t.key }

// Visit returns how often the node (of this key) has run before in this run of the graph.
func (t *Task) Visit() int { return t.visit }

// Attempt returns which attempt this is, from 1.
func (t *Task) Attempt() int { return t.attempt }

// Arg decodes the argument of the Send that the task runs for; if there were several, the last one.
func (t *Task) Arg(into any) error {
	for i := len(t.inbox) - 1; i >= 0; i-- {
		if t.inbox[i].Failed {
			continue
		}
		if err := json.Unmarshal(t.inbox[i].Arg, into); err != nil {
			return fmt.Errorf("the argument it was sent: %w", err)
		}
		return nil
	}
	return errors.New("it was not sent anything")
}

// A Message is a value that was sent to a node.
type Message struct {
	From string // the node, or Start
	Arg  json.RawMessage
}

// Messages returns all messages sent to the task, in the order of the senders' paths.
func (t *Task) Messages() []Message {
	var out []Message
	for _, m := range t.inbox {
		if !m.Failed {
			out = append(out, Message{m.From, m.Arg})
		}
	}
	return out
}

// A Failure is how a node failed for good.
type Failure struct {
	Node     string `json:"node"`
	Key      string `json:"key,omitempty"`
	Error    string `json:"error"`
	Attempts int    `json:"attempts"`
}

// Failures returns the failures that the node handles as a Catch, or that its Settled join has
// collected, in path order.
func (t *Task) Failures() []Failure {
	var out []Failure
	for _, m := range t.inbox {
		var f Failure
		if m.Failed && json.Unmarshal(m.Arg, &f) == nil {
			out = append(out, f)
		}
	}
	return out
}

// Feedback returns what was wrong with each attempt so far, for a node that is run again because
// its update did not fit the Input of another node. It is empty otherwise.
func (t *Task) Feedback() []string { return t.feedback }

// Send sends a message to a node named in the Sends of this one. The message is delivered when the
// task is done, after those of its edges and routes.
func (t *Task) Send(s Send) { t.sends = append(t.sends, s) }

// Stay activates the task again in the next superstep, as a message would, but without one. The graph does not end as long as a task stays. Without Stay a
// task halts when it is done, and is activated by an edge or a message. The last call of Stay or Complete counts.
func (t *Task) Stay() { t.vote = pregel.Stay }

// Complete lets the task halt for the rest of the run: nothing activates it again, and messages to it are dropped, also those of this superstep.
func (t *Task) Complete() { t.vote = pregel.Complete }

// Nested returns the options to run a graph within the task: it is kept in the same log and resumed
// with the task. The key distinguishes the graphs of one task; "" is allowed if the graph is the
// only one and the task has no parts. Return the error of the inner run, wrapped or not.
func (t *Task) Nested(key string) *RunOptions {
	o := *t.opt
	if key == "" && !t.parts.whole() {
		o.refused = errors.New("it has parts, so that its graph needs a key in Nested")
	}
	o.MaxSteps, o.Timeout, o.Ended = 0, 0, nil
	if o.space = t.scope.Path(); key != "" {
		o.space += "/" + pregel.Path("~", key, 0)
	}
	return &o
}

// Workflow finds the host's workflow of a name, to be run with the options of Nested. The Uses of
// the node must name it, so that cycles of workflows are found before anything runs.
func (t *Task) Workflow(name string) (Nested, error) {
	if !t.any && !slices.Contains(t.uses, name) {
		return nil, fmt.Errorf("it runs workflow %q, which is not among its Uses", name)
	}
	if t.opt.Workflows == nil {
		return nil, fmt.Errorf("there is no workflow %q here: the run was begun without any", name)
	}
	return t.opt.Workflows(name)
}

// Host returns what the host of the run gave its nodes to work with, nil for nothing.
func (t *Task) Host() any { return t.opt.Host }

// Stopped returns a channel that is closed when the run is told to stop between two tasks. A task
// with a long wait may then return ErrStopped; it is run again when the run is resumed.
func (t *Task) Stopped() <-chan struct{} { return t.opt.halt }

// Doom tells the graphs inside of other tasks to begin nothing new, as the failure of this task will
// do in a moment.
func (t *Task) Doom() { t.opt.cut.close() }

// Emit puts an event into the log. It is durable when Emit returns.
func (t *Task) Emit(ctx context.Context, name string, data any) error {
	return t.scope.Emit(ctx, name, data)
}

// Scope returns the task's part of the log: effects, questions, events. If the run has no log, effects are performed without a record. Each key may be used
// once, see [Do]; an agent uses the key of its Work.
func (t *Task) Scope() *journal.Scope {
	if t == nil {
		return nil
	}
	return t.scope
}

// logged reports whether the run has a log.
func (t *Task) logged() bool { return t.scope.Run() != "" }

// scopeKey is the key of the *journal.Scope in the context of a node.
type scopeKey struct{}

// within returns the context that a node of the task is given, for [Do], [Once] and [Ask].
func (t *Task) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, t.scope)
}

// bare is the context of a node that has no task. It makes a scope when one is needed.
type bare struct {
	context.Context //nolint:containedctx // it is one

	scope atomic.Pointer[journal.Scope]
}

// without returns the context of a node that has no task.
func (x *execution) without(ctx context.Context) *bare {
	b := x.bare.Swap(nil)
	if b == nil || b.Context != ctx {
		b = &bare{Context: ctx}
	}
	return b
}

// spare keeps the context of a node that has ended, unless it was asked for a scope.
func (x *execution) spare(b *bare) {
	if b.scope.Load() == nil {
		x.bare.Store(b)
	}
}

// Value returns the scope of the node, or a value of the context around it.
func (b *bare) Value(key any) any {
	if key != (scopeKey{}) {
		return b.Context.Value(key)
	}
	if b.scope.Load() == nil {
		b.scope.CompareAndSwap(nil, (*journal.Scope)(nil).Attempt())
	}
	return b.scope.Load()
}

// scopeOf returns the scope of the task in whose context a node runs.
func scopeOf(ctx context.Context) (*journal.Scope, error) {
	s, ok := ctx.Value(scopeKey{}).(*journal.Scope)
	if !ok {
		return nil, errors.New("graph: the context is not that of a node; pass on the one that the node was given")
	}
	return s, nil
}

// apart returns a context without the task of the run in which this one is begun.
func apart(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, (*journal.Scope)(nil))
}

// Do performs an effect of a node and records its outcome: when the node is run again, after a
// crash or for another attempt, Do returns that. The context must be the node's. The
// key names the effect within its task, and each effect of a task needs a key of its own: a second
// use in one attempt is a *journal.UsedError, unless the effect has failed. The key passed to fn is
// equally stable, for services that accept idempotency keys. A crash between the effect and its
// record repeats it. In a run without a log Do calls fn. A context that is not a node's is an error.
func Do[T any](ctx context.Context, key string, fn func(ctx context.Context, key string) (T, error)) (T, error) {
	return do(ctx, key, journal.RepeatByKey, fn)
}

// Once is [Do] for what must never happen twice: after a crash between the effect
// and its record the run pauses and asks whether it happened.
func Once[T any](ctx context.Context, key string, fn func(ctx context.Context, key string) (T, error)) (T, error) {
	return do(ctx, key, journal.RepeatNever, fn)
}

func do[T any](ctx context.Context, key string, repeat journal.Repeat, fn func(ctx context.Context, key string) (T, error)) (out T, err error) {
	s, err := scopeOf(ctx)
	if err != nil {
		return out, fmt.Errorf("effect %q: %w", key, err)
	}
	return journal.Do(ctx, s, &journal.Effect{Key: key, Kind: "do", Name: key, Repeat: repeat}, fn)
}
