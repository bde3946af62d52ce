package graph

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/runlog"
)

// A Task is a node's handle on the one run of it that is under way.
type Task struct {
	node    string
	key     string
	visit   int
	attempt int
	inbox   []json.RawMessage
	scope   *runlog.Scope
}

// Node is the name of the node.
func (t *Task) Node() string { return t.node }

// Key is the key of the Send it runs for, "" for none.
func (t *Task) Key() string { return t.key }

// Visit is how often the node (of this key) has run before in this run of the graph.
func (t *Task) Visit() int { return t.visit }

// Attempt is which attempt this is, from 1.
func (t *Task) Attempt() int { return t.attempt }

// Arg decodes the argument of the Send it runs for.
func (t *Task) Arg(into any) error {
	if len(t.inbox) == 0 {
		return fmt.Errorf("node %s: it was not sent anything", t.node)
	}
	if err := json.Unmarshal(t.inbox[len(t.inbox)-1], into); err != nil {
		return fmt.Errorf("node %s: the argument it was sent: %w", t.node, err)
	}
	return nil
}

// Scope is the task's way into the log: effects, questions, events. It is nil, and
// may be used all the same, when the run has no journal.
func (t *Task) Scope() *runlog.Scope {
	if t == nil {
		return nil
	}
	return t.scope
}

// Ask gives the answer to a question. While there is none it gives an error that the
// node returns: the run goes on with its other tasks and pauses, and the node is run
// again from its top with the answer. What must not be repeated until then belongs in [Do].
func (t *Task) Ask(ctx context.Context, q *runlog.Asked) (json.RawMessage, error) {
	return t.scope.Ask(ctx, q)
}

// Do makes an effect of a task happen once: when the task is run again, after a crash
// or for another attempt, Do gives the outcome it has recorded. The key names the
// effect within the task. The key that fn is given is stable in the same way, for
// services that take idempotency keys. A crash between the effect and its record
// repeats it.
func Do[T any](ctx context.Context, t *Task, key string, fn func(ctx context.Context, key string) (T, error)) (T, error) {
	return runlog.Do(ctx, t.scope, &runlog.Effect{Key: key, Kind: "do", Name: key, Repeat: runlog.RepeatByKey}, fn)
}

// DoOnce is [Do] for what must never happen twice: after a crash between the effect
// and its record the run pauses and asks a person whether it happened.
func DoOnce[T any](ctx context.Context, t *Task, key string, fn func(ctx context.Context, key string) (T, error)) (T, error) {
	return runlog.Do(ctx, t.scope, &runlog.Effect{Key: key, Kind: "do", Name: key, Repeat: runlog.RepeatNever}, fn)
}
