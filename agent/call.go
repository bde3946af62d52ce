package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// mostUnfit is for how many consecutive turns the arguments of a tool may be invalid before the agent loses the tool.
const mostUnfit = 2

func callKey(prefix string, turn, i int) string {
	return fmt.Sprintf("%sturn-%d/call-%d", prefix, turn, i)
}

// fate is the decision on a call before it is made.
type fate struct {
	result *tool.Result // it does not happen; this is what the model is told
	free   bool         // and nothing is recorded of it
	waits  error        // a person has to decide on it
	seen   string       // the change that a person has allowed, see tool.Call.Approved
}

// callAll runs the calls of a turn: in parallel if none of them changes anything, else one after the other, in the model's order. It asks all questions
// of the calls before it waits for an answer, and calls that need no answer proceed. From is the number of calls that the turn had before these.
func (r *run) callAll(ctx context.Context, turn, from int, calls []model.Call) ([]tool.Result, error) {
	r.out.Calls += len(calls)
	r.rise() // others may work for what it calls
	fates, err := r.decide(ctx, turn, from, calls)
	if err != nil {
		return nil, err
	}
	results, errs := make([]tool.Result, len(calls)), make([]error, len(calls))
	beside := len(calls) > 1
	for _, c := range calls {
		beside = beside && r.beside(c.Name)
	}
	branches, work := journal.NewBranches(len(calls)), sync.WaitGroup{}
	for i, c := range calls {
		f := fates[i]
		switch {
		case f.free:
			results[i] = *f.result
			branches.End()
			continue
		case beside:
			work.Go(func() { results[i], errs[i] = r.callBeside(ctx, turn, from+i, c, &f, branches) })
		case f.waits != nil:
			errs[i] = f.waits
		default:
			results[i], errs[i] = r.call(ctx, turn, from+i, c, &f)
		}
		if !beside && errs[i] != nil {
			break // what comes after it may build on it
		}
	}
	work.Wait()
	for i, f := range fates {
		if !beside && errs[i] == nil {
			errs[i] = f.waits
		}
	}
	return results, errors.Join(errs...)
}

// callBeside makes a call beside others. If it waits for an answer that comes while others run, it continues with the answer.
func (r *run) callBeside(ctx context.Context, turn, i int, c model.Call, f *fate, all *journal.Branches) (res tool.Result, err error) {
	place := r.scope
	if a := r.acts[c.Name]; a != nil && a.Scoped && f.waits == nil {
		place = r.place(c.Name, turn, i)
	}
	err = all.Run(ctx, place, r.work.Stopped, func(bool) (err error) {
		if f.waits != nil { // by now, perhaps not any more
			f.result, f.seen, f.waits = r.permit(ctx, callKey(r.prefix, turn, i), c)
		}
		if err = f.waits; err == nil {
			res, err = r.call(ctx, turn, i, c, f)
		}
		return err
	})
	return res, err
}

// FirstCall is the key of the effect that Call makes, below the key of the work.
const FirstCall = "turn-0/call-0"

// Call performs one call of a tool as the agent would: its Gate decides, the user may be asked, and the call is an effect in the log, under the key of
// the work. It needs no model. The tool learns that the workflow calls it. The error is a *DeniedError if the call is denied, else an error of the run,
// like those of Run. A failure of the tool is a result, not an error.
func (a *Agent) Call(ctx context.Context, scope *journal.Scope, w *Work, c model.Call) (tool.Result, error) {
	r, err := a.begin(scope, w)
	if err == nil {
		_, err = scope.Use("call", callKey(r.prefix, 0, 0))
	}
	if err != nil {
		return tool.Result{}, err
	}
	r.caller = tool.Workflow
	if err := r.begins(ctx); err != nil {
		return tool.Result{}, err
	}
	results, err := r.callAll(ctx, 0, 0, []model.Call{c})
	if err != nil {
		return tool.Result{}, err
	}
	if results[0].Denied {
		return tool.Result{}, refusal(c.Name, results[0])
	}
	r.took(c, results[0].Text, results[0].Error)
	if err := r.tell(ctx, "seen-after"); err != nil {
		return tool.Result{}, err
	}
	return results[0], r.publish(ctx, "links", results[0].Text)
}

// A DeniedError is the error of a call that was not allowed.
type DeniedError struct {
	Tool   string
	Reason string // in full, with "denied"
}

func (e *DeniedError) Error() string { return fmt.Sprintf("tool %s: %s", e.Tool, e.Reason) }

// Unwrap returns journal.ErrDenied.
func (e *DeniedError) Unwrap() error { return journal.ErrDenied }

// toModels is the text that is added to a denial for models.
const toModels = "; go on without it, and say what you could not do"

func refusal(name string, no tool.Result) *DeniedError {
	return &DeniedError{Tool: name, Reason: strings.TrimSuffix(no.Text, toModels)}
}

// Permit checks the permission of a call that the caller makes itself, in the same way as for calls of the agent: the Gate decides, and the user may be
// asked. It returns the permitted call, a *DeniedError if the call is denied, or an error that waits while the question is open. Key is the key of the
// call's effect. Permit needs no model.
func (a *Agent) Permit(ctx context.Context, scope *journal.Scope, w *Work, key string, c model.Call) (*tool.Call, error) {
	r, err := a.begin(scope, w)
	if err != nil {
		return nil, err
	}
	r.caller = tool.Workflow
	if err := r.begins(ctx); err != nil {
		return nil, err
	}
	out := r.toolCall(c, "")
	out.Permitted = true
	if _, refuses := r.all.Refuses(c.Name, c.Args); refuses {
		return out, nil // the call itself reports it
	}
	r.unasked = map[string]bool{}
	no, approved, err := r.permit(ctx, key, c)
	if err != nil {
		return nil, err
	}
	if a.Gate == nil && r.unasked[key] {
		out.Permitted = false // the guard of the tools, whose gate it was, looks at it again
	}
	if out.Approved = approved; no == nil {
		if err := r.beforeCall(ctx, key, c); err != nil {
			return nil, err
		}
		r.took(c, "", true)
		if err := r.tell(ctx, "seen-after"); err != nil {
			return nil, err
		}
		out.Ask, err = r.asker(ctx, scope.Inner(key))
		return out, err
	}
	return nil, refusal(c.Name, *no)
}

// beside reports whether a tool may be called in parallel with others.
func (r *run) beside(name string) bool {
	t, ok := r.all.Get(name)
	return !ok || t.Effect == tool.Pure
}

// decide reports for each call of a turn whether it may happen.
func (r *run) decide(ctx context.Context, turn, from int, calls []model.Call) ([]fate, error) {
	fates := make([]fate, len(calls))
	refused := make([]bool, len(calls))
	fits := map[string]bool{} // the tools that were called, and whether any of the calls fits
	for i, c := range calls {
		if over, is := r.over(c.Name); is {
			fates[i] = fate{result: &over, free: true}
			continue
		}
		_, refused[i] = r.all.Refuses(c.Name, c.Args)
		if _, known := r.all.Get(c.Name); known {
			fits[c.Name] = fits[c.Name] || !refused[i]
		}
	}
	for name, fit := range fits {
		switch {
		case r.unfit[name] > mostUnfit:
		case fit:
			delete(r.unfit, name)
		case name != r.Finish: // which it cannot do without
			r.unfit[name]++
		}
	}
	r.unasked = map[string]bool{}
	for i, c := range calls {
		if fates[i].free {
			continue
		}
		key := callKey(r.prefix, turn, from+i)
		_, begun := r.scope.Hint(key)
		switch {
		case begun && refused[i]: // as it is recorded
		case r.unfit[c.Name] > mostUnfit && !begun:
			barred := tool.Failed(fmt.Sprintf("the tool %s is not available to you any more: its arguments did not fit %d times in a row; go on without it",
				c.Name, mostUnfit+1))
			fates[i].result = &barred
		case refused[i]: // it says so itself, and nobody has to be asked
		default:
			var err error
			fates[i].result, fates[i].seen, err = r.permit(ctx, key, c)
			if journal.Waits(err) {
				fates[i].waits = err
			} else if err != nil {
				return nil, err
			}
		}
	}
	return fates, nil
}

// over counts a call. If the call is beyond its quota, over returns the result to answer it with.
func (r *run) over(name string) (tool.Result, bool) {
	for i, q := range r.Limits.Calls {
		if !slices.Contains(q.Tools, name) {
			continue
		}
		if r.quota[i]++; r.quota[i] > q.Calls {
			return tool.Result{Text: fmt.Sprintf("%s: no more of %d calls are left; go on with what you have", strings.Join(q.Tools, " and "), q.Calls),
				Error: true}, true
		}
	}
	return tool.Result{}, false
}

// call runs a tool, or returns its recorded result. If the result is already decided, nothing runs.
func (r *run) call(ctx context.Context, turn, i int, c model.Call, f *fate) (tool.Result, error) {
	decided := f.result
	hash, err := journal.Hash(c)
	if err != nil {
		return tool.Result{}, err
	}
	e := &journal.Effect{
		Key: callKey(r.prefix, turn, i), Kind: "tool", Name: c.Name,
		Hash: hash, Input: c.Args, Repeat: r.repeat(c.Name), Cost: runlog.Amount{Calls: 1},
		Told: func(text string) any { return tool.Result{Text: text} },
	}
	if decided == nil {
		if err := r.beforeCall(ctx, e.Key, c); err != nil {
			return tool.Result{}, err
		}
	}
	action, place := r.acts[c.Name], r.place(c.Name, turn, i)
	var ask func(context.Context, string, json.RawMessage) (json.RawMessage, error)
	switch {
	case decided != nil:
		e.Repeat, e.Cost = journal.RepeatFreely, runlog.Amount{}
	case action != nil:
		if e.Inside = true; action.Scoped {
			e.Within = place
		}
	default:
		if ask, err = r.asker(ctx, place); err != nil {
			return tool.Result{}, err
		}
	}
	res, err := Do(ctx, r.scope, e, func(ctx context.Context, key string) (tool.Result, error) {
		if decided != nil {
			return *decided, nil
		}
		return hook.Tool(ctx, r.at(c.Name), c.Args, func(ctx context.Context) (tool.Result, error) {
			use := r.toolCall(c, key)
			if action != nil {
				return r.act(ctx, action, place, e.Key, use)
			}
			use.Approved, use.Trace, use.Ask = f.seen, r.scope.Traceparent(e.Key), ask
			return r.use(ctx, e.Key, c.Name, use)
		})
	})
	var happened *journal.HappenedError
	if errors.As(err, &happened) {
		return tool.Result{Text: happened.Error(), Error: true}, nil
	}
	if decided != nil {
		res.Denied = decided.Denied // an older log does not have it
	}
	return res, err
}

// asker returns the function with which one attempt of a call asks the user while it runs, see tool.Call.Ask. The place is the call's own.
func (r *run) asker(ctx context.Context, place *journal.Scope) (func(ctx context.Context, text string, schema json.RawMessage) (json.RawMessage, error), error) {
	ask, err := place.Asker(ctx)
	if err != nil || ask == nil || r.Headless {
		return nil, err
	}
	return func(ctx context.Context, text string, schema json.RawMessage) (json.RawMessage, error) {
		return ask(ctx, r.work.Stopped, &runlog.Question{Kind: runlog.QuestionForm, Agent: r.Name, Text: text, Schema: schema})
	}, nil
}

// at is the place of a call of this agent, for hooks.
func (r *run) at(name string) *hook.At {
	return &hook.At{Run: r.scope.Run(), Path: r.scope.Path(), Name: name, Agent: r.caller}
}

// use calls a tool.
func (r *run) use(ctx context.Context, key, name string, c *tool.Call) (tool.Result, error) {
	t, known := r.all.Get(name)
	if known && r.Gate != nil {
		// A call that was allowed and then interrupted by a crash may be denied by now. A call that was allowed without asking may need permission now: an
		// earlier call may have replaced its path by a link.
		switch v := r.Gate.Check(t, c); {
		case v.Decision == tool.Deny:
			return denied(v.Reason), nil
		case v.Decision != tool.Allow && r.unasked[key]:
			return denied(cmp.Or(v.Reason, "it needs permission") + "; it did not when it was decided on, so call it again to have it asked about"), nil
		}
	}
	c.Permitted = true // by permit
	if reads := c.Reads; reads != nil && r.unasked[key] {
		c.Reads = func(name, from string) func(string) tool.Verdict {
			if name == "read_file" { // nobody was asked about the file that it names, which may be another by now
				from = ""
			}
			return reads(name, from)
		}
	}
	res := r.all.CallWhole(ctx, name, c)
	if err := ctx.Err(); err != nil && res.Error {
		return res, err // stopped, not failed; a success is one all the same
	}
	if res.Stops {
		return res, errors.New(res.Text)
	}
	if !known || res.Error {
		return res, nil
	}
	if !tooLarge(t, res.Text) || r.Spill == nil {
		return cut(t, res), nil
	}
	path, err := r.Spill(r.scope.Run(), spillName(r.scope.Path(), key, name), res.Text)
	return spilled(t, res, path, err), nil
}

func (r *run) toolCall(c model.Call, key string) *tool.Call {
	out := &tool.Call{ID: c.ID, Key: key, Args: c.Args, Run: r.scope.Run(), Node: r.scope.Path(), Agent: r.caller, Seen: r.uses(c.Name), Stands: r.stands, State: r.work.State,
		Stopped: r.work.Stopped, Raw: r.work.Raw}
	if g, ok := r.Gate.(tool.Reader); ok {
		out.Reads = func(name, from string) func(string) tool.Verdict { return g.Reads(name, from, r.rules()) }
	}
	return out
}
