package graph

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

// Part runs a node as a part of a task, for nodes that are made of others. The part has its own
// path in the log, below the task's and under the part's name, so the effects, questions and inner
// graphs of several parts stay apart. Part names are unique within a task. Only the Timeout, Retry
// and Output settings of the node are used. Its attempts are counted anew after a crash. The node
// must not send. If it panics, Part returns an error.
func Part[S, U any](ctx context.Context, t *Task, n *Node[S, U], state S) (u U, err error) {
	one := Node[any, any]{Name: n.Name, Retry: n.Retry, Timeout: n.Timeout, Output: n.Output, Uses: n.Uses, UsesAny: n.UsesAny, Err: n.Err}
	if n.Run != nil {
		one.Run = func(ctx context.Context, t *Task, _ any) (any, error) { return n.Run(ctx, t, state) }
	}
	out, err := partOf(ctx, t, &one)
	return of[U](out), err
}

// partOf runs a node as a part of a task.
func partOf(ctx context.Context, t *Task, one *Node[any, any]) (u any, err error) {
	n := &node{Node: *one}
	if n.Err != nil {
		return u, fmt.Errorf("%s: %w", n.Name, n.Err)
	}
	if n.Run == nil || !nodeName.MatchString(n.Name) {
		return u, fmt.Errorf("its part %q has no function, or its name is none of a node", n.Name)
	}
	if isClosed(t.opt.Stop) || isClosed(t.opt.cut.over()) {
		return u, &haltedError{pregel.ErrStopped}
	}
	if !t.parts.take(n.Name) {
		return u, fmt.Errorf("it has two parts %q, or parts beside a graph without a key; give them names of their own", n.Name)
	}
	inner := Task{node: n.Name, key: t.key, visit: t.visit, inbox: t.inbox, feedback: t.feedback, scope: t.scope.Inner(n.Name), uses: n.Uses,
		any: n.UsesAny, opt: t.opt}
	if u, err = n.parts(ctx, &inner, nil); err != nil {
		err = fmt.Errorf("%s: %w", n.Name, err)
	}
	if journal.Waits(err) { // it may run again in the same attempt
		t.parts.free(n.Name)
	}
	return u, err
}

// parts runs a node within a task until an attempt succeeds or no attempt is left.
func (n *node) parts(ctx context.Context, t *Task, state any) (u any, err error) {
	for attempt := 1; ; attempt++ {
		t.again(max(attempt, t.attempt))
		if u, err = n.part(ctx, t, state); err == nil || journal.Waits(err) || ctx.Err() != nil || errors.Is(err, pregel.ErrStopped) || Halts(err) || errors.Is(err, journal.ErrDenied) {
			return u, err
		}
		pause, again := n.pause(attempt, err)
		if !again {
			return u, err
		}
		if !sleep(ctx, t.opt.halt, pause) {
			return u, errors.Join(pregel.ErrStopped, err)
		}
	}
}

// part makes one attempt.
func (n *node) part(ctx context.Context, t *Task, state any) (u any, err error) {
	if n.Timeout > 0 {
		parent := ctx
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(parent, n.Timeout, n.timeout(nil))
		defer stop()
		defer func() { err = n.latePart(parent, ctx, t, err) }()
	}
	defer caught(&err)
	u, err = n.Run(t.within(ctx), t, state)
	if err := t.scope.Unwaited(err); err != nil {
		return u, err
	}
	if len(t.sends) > 0 {
		return u, fmt.Errorf("it sent to %q; a part of a node cannot send", t.sends[0].To)
	}
	if n.Output == nil {
		return u, nil
	}
	schema, err := n.Output.Resolve(nil)
	if err != nil {
		return u, fmt.Errorf("the schema of its output: %w", err)
	}
	_, err = encoded(u, schema)
	return u, err
}

// latePart is late for a part. A timeout is recorded so that a replay repeats it; the part's own
// failures are not recorded.
func (n *node) latePart(ctx, limited context.Context, t *Task, err error) error {
	late, noted := t.scope.Late(limited, t.attempt)
	if !late || ctx.Err() != nil || journal.Waits(err) {
		return err
	}
	err = n.late(err, late)
	if !noted {
		return err
	}
	effect := &journal.Effect{Key: journal.LateKey(t.attempt), Kind: "timer", Name: n.Name}
	_, rerr := journal.Do(ctx, t.scope, effect, func(context.Context, string) (bool, error) { return true, nil })
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	return err
}
