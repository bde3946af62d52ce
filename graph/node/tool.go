package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Func returns a node that calls a function of the caller's once: its result is recorded. The
// effect describes the consequence of a second call, and so decides how an interrupted call is
// handled after a crash. The default is tool.Once; see [Tool]. The function is called with the same
// key whenever the call is repeated. In and Out encode as JSON.
func Func[S, U, In, Out any](name string, effect tool.Effect, args func(S) (In, error), call func(ctx context.Context, key string, in In) (Out, error),
	update func(S, Out) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "tool"}
	repeat, err := repeats(effect)
	n.Err = errors.Join(err, missing("args", args == nil), missing("call", call == nil), missing("update", update == nil))
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		in, err := args(s)
		if err != nil {
			return u, err
		}
		hash, err := journal.Hash(in)
		if err != nil {
			return u, fmt.Errorf("its arguments cannot be encoded: %w", err)
		}
		e := &journal.Effect{Key: "call", Kind: "tool", Name: name, Repeat: repeat, Hash: hash, Input: in}
		out, err := journal.Do(ctx, t.Scope(), e, func(ctx context.Context, key string) (Out, error) { return call(ctx, key, in) })
		if err != nil {
			return u, err
		}
		return update(s, out)
	}
	return n
}

func repeats(effect tool.Effect) (journal.Repeat, error) {
	switch effect {
	case tool.Pure:
		return journal.RepeatFreely, nil
	case tool.Idempotent:
		return journal.RepeatByKey, nil
	case tool.Once, "":
		return journal.RepeatNever, nil
	}
	return journal.RepeatNever, fmt.Errorf("there is no effect %q; use pure, idempotent or once", effect)
}

// Args are the arguments of a tool: the values of Static, overridden by the values that Paths finds
// in the state, overridden by the values that From returns.
type Args[S any] struct {
	Static map[string]any
	// Paths maps arguments to paths in the state's JSON: field names and list indexes from 0,
	// separated by dots. An argument whose path is missing is left out.
	Paths map[string]string
	From  func(S) (map[string]any, error) // nil for none
}

func (a *Args[S]) of(state S) (json.RawMessage, error) {
	args := maps.Clone(a.Static)
	if args == nil {
		args = map[string]any{}
	}
	if len(a.Paths) > 0 {
		v, err := decoded(state)
		if err != nil {
			return nil, err
		}
		for arg, path := range a.Paths {
			if found, ok := at(v, path); ok {
				args[arg] = found
			}
		}
	}
	if a.From != nil {
		from, err := a.From(state)
		if err != nil {
			return nil, err
		}
		maps.Copy(args, from)
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("its arguments cannot be encoded: %w", err)
	}
	return b, nil
}

// Tool returns a node that calls a tool of a set by its name. Update gets all that the tool
// returned. If the tool fails, the node fails. The Guard of the set decides on the call: where it
// asks, the run pauses for the user's answer, and a denial fails the node with an
// *agent.DeniedError. The tool's Effect decides what happens to a call that a crash interrupted, as
// it does for agents. For a call that must not be repeated the user is asked whether it happened.
// If it did, the node fails with a *journal.HappenedError, which a Catch can handle. The tool
// receives the state at the start of the node.
func Tool[S, U any](name string, tools *tool.Set, which string, args Args[S], update func(S, string) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "tool"}
	one, err := tools.Select(which)
	_, encodes := json.Marshal(args.Static)
	n.Err = errors.Join(err, encodes, missing("update", update == nil))
	if n.Err != nil {
		return n
	}
	def, _ := one.Get(which)
	repeat, err := repeats(def.Effect)
	n.Err = err
	caller := &agent.Agent{Name: name, Tools: one}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		input, err := args.of(s)
		if err != nil {
			return u, err
		}
		hash, err := journal.Hash(input)
		if err != nil {
			return u, err
		}
		w := &agent.Work{State: snapshot(s), Stopped: stopped(t)}
		use, err := caller.Permit(ctx, t.Scope(), w, "call", model.Call{ID: name, Name: which, Args: input})
		if err != nil {
			return u, err
		}
		e := &journal.Effect{Key: "call", Kind: "tool", Name: which, Repeat: repeat, Hash: hash, Input: input, Told: func(text string) any { return text }}
		out, err := journal.Do(ctx, t.Scope(), e, func(ctx context.Context, key string) (string, error) {
			use.Key, use.Raw = key, true
			r, err := hook.Tool(ctx, &hook.At{Run: t.Scope().Run(), Path: t.Scope().Path(), Name: which, Agent: tool.Workflow}, input, func(ctx context.Context) (tool.Result, error) {
				return one.CallWhole(ctx, which, use), nil
			})
			if err != nil {
				return "", err
			}
			if r.Error {
				return "", fmt.Errorf("tool %s: %s", which, r.Text)
			}
			return r.Text, nil
		})
		if err != nil {
			return u, err
		}
		return update(s, out)
	}
	return n
}
