package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// An Action is a tool that is part of the run itself: it may ask the user, start sub-agents or run workflows. It is a value, like a Tool.
type Action struct {
	// Tool describes the action to the model; its Run is nil. If its effect is tool.Pure, the action runs in parallel with the other calls of its turn.
	Tool *tool.Tool
	// Run performs the action. The scope is the action's own part of the log, nil without a log: its keys never collide with those of other calls. Run is
	// called again after a crash or a pause, so it must do everything that changes the world as an effect in that scope.
	//
	// To show the model a failure, return a result with Error set, or an error. An error that waits (see journal.Waits), or that concerns the run and not
	// the call, ends the agent for now; when the agent runs again, so does the action.
	Run func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error)
	// Scoped is set if Run writes to the log only within its scope, so that a replay can tell that
	// it did nothing.
	Scoped bool

	to string // the agent that the action hands the conversation to; see Handoff
}

// equip creates the set of all tools and actions that the agent may call.
func (r *run) equip() error {
	r.all = r.Tools
	if len(r.Actions) == 0 {
		return nil
	}
	r.acts = make(map[string]*Action, len(r.Actions))
	tools := r.Tools.Tools()
	for i, a := range r.Actions {
		if a == nil || a.Tool == nil || a.Run == nil {
			return fmt.Errorf("action %d of %d: has no tool, or no function", i+1, len(r.Actions))
		}
		looks := *a.Tool
		looks.Run = func(context.Context, *tool.Call) (string, error) {
			return "", errors.New("only an agent can do that")
		}
		tools = append(tools, &looks)
		r.acts[looks.Name] = a
	}
	var err error
	r.all, err = tool.NewSet(tools...)
	r.all = r.all.Guarded(r.Tools.Guard())
	return err
}

// place returns the scope of a call.
func (r *run) place(name string, turn, i int) *journal.Scope {
	return r.scope.Inner(pregel.Path(name, fmt.Sprintf("%s%d.%d", r.prefix, turn+1, i+1), 0))
}

// act performs an action.
func (r *run) act(ctx context.Context, a *Action, place *journal.Scope, key string, c *tool.Call) (tool.Result, error) {
	if why, refuses := r.all.Refuses(a.Tool.Name, c.Args); refuses {
		return why, nil
	}
	var rules tool.Verdict
	if r.Gate != nil { // what was allowed once may be forbidden by now
		_ = r.scope.Afresh(func() error { rules = r.Gate.Check(a.Tool, c); return nil })
	}
	if rules.Decision == tool.Deny {
		return denied(rules.Reason), nil
	}
	if len(bytes.TrimSpace(c.Args)) == 0 {
		c.Args = json.RawMessage("{}")
	}
	res, err := safely(func() (tool.Result, error) {
		return a.Run(ctx, place, c)
	})
	switch {
	case ctx.Err() != nil && (err != nil || res.Error):
		return res, errors.Join(ctx.Err(), err)
	case err != nil && OfRun(err):
		return res, err
	case err != nil:
		return tool.Failed(err.Error()), nil
	case res.Error:
		return tool.Failed(res.Text), nil
	}
	res.Text = clean.Text(res.Text)
	if a.Tool.Output != nil {
		if err := strict.CheckJSON(a.Tool.Output, res.Text); err != nil {
			return tool.Failed(fmt.Sprintf("the result of %s is not what it promises: %v", a.Tool.Name, err)), nil
		}
	}
	if !tooLarge(a.Tool, res.Text) || !r.scope.Does(key+"/spill", r.Spill != nil) {
		return cut(a.Tool, res), nil
	}
	// A replay runs actions too, but changes nothing in the world.
	e := &journal.Effect{Key: key + "/spill", Kind: "spill", Name: a.Tool.Name}
	path, err := journal.Do(ctx, r.scope, e, func(context.Context, string) (string, error) {
		return r.Spill(r.scope.Run(), spillName(r.scope.Path(), key, a.Tool.Name), res.Text)
	})
	if err != nil && (ctx.Err() != nil || OfRun(err)) {
		return res, err
	}
	return spilled(a.Tool, res, path, err), nil
}

// OfRun reports whether an error is about the run itself. Such an error must end the task and must
// never be shown to a model as the failure of a call.
func OfRun(err error) bool {
	var diverged *journal.DivergedError
	var storage *runlog.StorageError
	var over *runlog.EndedError
	return journal.Waits(err) || errors.Is(err, pregel.ErrStopped) || errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrUnknown) ||
		errors.As(err, &diverged) || errors.As(err, &storage) || errors.As(err, &over)
}

// Do performs an effect as [journal.Do] does. An error about the run (see [OfRun]) that ends it leaves no trace in the log.
func Do[T any](ctx context.Context, scope *journal.Scope, e *journal.Effect, do func(ctx context.Context, key string) (T, error)) (T, error) {
	out, err := journal.Do(ctx, scope, e, func(ctx context.Context, key string) (T, error) {
		out, err := do(ctx, key)
		if err != nil && !journal.Waits(err) && OfRun(err) {
			err = &untracedError{err}
		}
		return out, err
	})
	var untraced *untracedError
	if errors.As(err, &untraced) {
		err = untraced.err
	}
	return out, err
}

// untracedError carries an error out of an effect without a record. It hides the cause and reports
// that it waits, so that nothing is recorded.
type untracedError struct{ err error }

func (e *untracedError) Error() string { return e.err.Error() }

// Waits reports that nothing has failed.
func (e *untracedError) Waits() bool { return true }

func safely(f func() (tool.Result, error)) (res tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = tool.Result{}, fmt.Errorf("it panicked: %v", p)
		}
	}()
	return f()
}
