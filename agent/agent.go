// Package agent turns a model and tools into something that works towards an end: a
// definition, and the loop that runs it.
//
// Every turn of the model and every tool call is an effect in the run's log. An agent
// that is run again after a crash is given what it has already been told and done, and
// goes on from there.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// An Agent is a definition. It is a value: build it, hand it over, never change it after.
type Agent struct {
	Name   string
	Prompt string // the system prompt
	Model  model.Model
	Tools  *tool.Set // nil for none
	// Finish names the tool whose successful call ends the agent: its arguments are the
	// result. The agent is reminded of it when it stops without, and made to call it in
	// its last turn. "" for an agent that ends by saying something.
	Finish string
	Limits Limits
}

// Limits bound an agent. Zero means the defaults.
type Limits struct {
	Turns     int // of the model; defaults to 10
	MaxTokens int // of output per turn; defaults to the provider's own limit
	// Calls bounds how often tools may be called; one that no quota names may be called
	// at will. A call beyond its quota is turned down, and the model is told.
	Calls []Quota
}

// A Quota is how often some tools may be called, all of them together.
type Quota struct {
	Tools []string // by name
	Calls int
}

// Stop says why an agent ended.
type Stop string

// Why an agent ended.
const (
	StopSaid     Stop = "said"     // it called no more tools
	StopFinished Stop = "finished" // it called its Finish tool
	StopLimit    Stop = "limit"    // it was out of turns
	StopCut      Stop = "cut"      // the provider cut its last turn off, at the token limit or by a filter
)

// An Outcome is what an agent ended with.
type Outcome struct {
	Stop     Stop
	Text     string          // what it said last
	Args     json.RawMessage // of the Finish call, nil if there was none
	Messages []model.Message // the conversation
	Turns    int
	Usage    model.Usage
}

// A LimitError says that an agent was out of turns before it had a result.
type LimitError struct {
	Agent string
	Turns int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("agent %s has no result after %d turns; give it more turns, or a stronger model", e.Agent, e.Turns)
}

// Work is what an agent is to do.
type Work struct {
	// Key names this use of the agent within its task, so that one task can run
	// several. "" will do for the only one.
	Key    string
	Prompt string // what the user says
}

// Run lets the agent work until it ends. The scope is that of the task it works for;
// nil if the run has no log. It keeps to the budget of the run: near a limit it is told,
// once, to wrap up, and at one it gives *runlog.BudgetError, which the task is to return. An agent with a Finish tool that never calls it gives
// *LimitError, with the outcome so far; a failing model gives its error.
func (a *Agent) Run(ctx context.Context, scope *runlog.Scope, w *Work) (*Outcome, error) {
	r := &run{Agent: a, scope: scope, prefix: w.Key, quota: make([]int, len(a.Limits.Calls))}
	if r.prefix != "" {
		r.prefix += "/"
	}
	if r.turns = a.Limits.Turns; r.turns <= 0 {
		r.turns = 10
	}
	if a.Tools != nil {
		for _, t := range a.Tools.Tools() {
			r.specs = append(r.specs, model.ToolSpec{Name: t.Name, Description: t.Description, Input: t.Input})
		}
	}
	if err := r.announce(ctx, w); err != nil {
		return nil, err
	}
	r.out.Messages = []model.Message{model.UserText(w.Prompt)}
	for r.out.Turns < r.turns {
		done, err := r.turn(ctx)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.Name, err)
		}
		if done {
			return &r.out, nil
		}
	}
	r.out.Stop = StopLimit
	if a.Finish != "" {
		return &r.out, &LimitError{a.Name, r.turns}
	}
	return &r.out, nil
}

// run is one agent at work.
type run struct {
	*Agent
	scope  *runlog.Scope
	prefix string
	turns  int
	specs  []model.ToolSpec
	quota  []int // how much of Limits.Calls is used, by recorded calls too
	warned bool  // it was told to wrap up
	out    Outcome
}

// Started is the input of an effect of kind "agent", which marks where an agent began.
type Started struct {
	Agent  string `json:"agent"`
	Model  string `json:"model"`
	Prompt string `json:"prompt"`
}

func (r *run) announce(ctx context.Context, w *Work) error {
	_, err := r.scope.Do(ctx, &runlog.Effect{
		Key: r.prefix + "agent", Kind: "agent", Name: r.Name,
		Input: Started{r.Name, r.Model.Name(), w.Prompt}, Cost: runlog.Amount{Agents: 1},
		Do: func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage(`{}`), r.unpriced(ctx)
		},
	})
	return err
}

// turn asks the model once and calls the tools it wants.
func (r *run) turn(ctx context.Context) (done bool, err error) {
	n := r.out.Turns
	r.out.Turns++
	hint := r.hint(turnKey(r.prefix, n))
	req := &model.Request{System: r.Prompt, Messages: r.out.Messages, Tools: r.specs, MaxTokens: r.Limits.MaxTokens}
	if r.Finish != "" && r.out.Turns == r.turns {
		req.Choice = r.Finish // the last chance for a result
	}
	resp, err := r.ask(ctx, n, req, hint)
	if err != nil {
		return false, err
	}
	r.out.Usage = r.out.Usage.Add(resp.Usage)
	r.out.Messages = append(r.out.Messages, resp.Message)
	if text := resp.Message.Text(); text != "" {
		r.out.Text = text
	}
	calls := resp.Message.Calls()
	if len(calls) == 0 {
		return r.said(resp.Stop), nil
	}
	results, err := r.callAll(ctx, n, calls)
	if err != nil {
		return false, err
	}
	answers := model.Message{Role: model.Tool}
	for i, c := range calls {
		answers.Parts = append(answers.Parts, model.ToolResult(c, results[i].Text, results[i].Error).Parts...)
		if c.Name == r.Finish && !results[i].Error && r.out.Args == nil {
			r.out.Args = c.Args
		}
	}
	r.out.Messages = append(r.out.Messages, answers)
	if r.out.Args != nil {
		r.out.Stop = StopFinished
		return true, nil
	}
	return false, nil
}

// said is a turn without calls: the end, unless the agent owes a result.
func (r *run) said(stop model.StopCode) bool {
	if r.Finish == "" {
		r.out.Stop = StopSaid
		if stop == model.StopLength || stop == model.StopFilter {
			r.out.Stop = StopCut
		}
		return true
	}
	r.out.Messages = append(r.out.Messages, model.UserText(fmt.Sprintf("Call the tool %s with your result to finish.", r.Finish)))
	return false
}

// Delta is a live-only event: a piece of what the model is saying.
type Delta struct {
	Agent string `json:"agent"`
	Text  string `json:"text"`
}

// ask gets a turn from the model, or from the log if it was had before.
func (r *run) ask(ctx context.Context, n int, req *model.Request, hint string) (*model.Response, error) {
	hash, err := runlog.Hash(struct {
		System   string
		Messages []model.Message
		Choice   string
	}{req.System, req.Messages, req.Choice})
	if err != nil {
		return nil, err
	}
	effect := &runlog.Effect{
		Key: turnKey(r.prefix, n), Kind: "model", Name: r.Model.Name(), Repeat: runlog.RepeatByKey, Hash: hash,
		Hint: hint, Cost: r.estimate(req), Spent: r.spent,
	}
	return runlog.Do(ctx, r.scope, effect, func(ctx context.Context, key string) (*model.Response, error) {
		keyed := *req
		keyed.Key = key
		keyed.Messages = slices.Clone(req.Messages)
		return model.Collect(r.Model.Generate(ctx, &keyed), func(p model.Part) {
			if p.Kind == model.Text || p.Kind == model.Reasoning {
				r.scope.Live(string(p.Kind), Delta{r.Name, p.Text})
			}
		})
	})
}

// callAll runs the calls of a turn: side by side if none of them changes anything, else
// one after the other, in the order the model asked for.
func (r *run) callAll(ctx context.Context, turn int, calls []model.Call) ([]tool.Result, error) {
	results, errs := make([]tool.Result, len(calls)), make([]error, len(calls))
	over := make([]bool, len(calls))
	pure := true
	for i, c := range calls {
		results[i], over[i] = r.over(c.Name)
		pure = pure && r.repeat(c.Name) == runlog.RepeatFreely
	}
	var work sync.WaitGroup
	for i, c := range calls {
		if over[i] {
			continue
		}
		if pure && len(calls) > 1 {
			work.Go(func() { results[i], errs[i] = r.call(ctx, turn, i, c) })
			continue
		}
		if results[i], errs[i] = r.call(ctx, turn, i, c); errs[i] != nil {
			break
		}
	}
	work.Wait()
	return results, errors.Join(errs...)
}

// over counts a call and says what to answer if it is beyond its quota.
func (r *run) over(name string) (tool.Result, bool) {
	for i, q := range r.Limits.Calls {
		if !slices.Contains(q.Tools, name) {
			continue
		}
		if r.quota[i]++; r.quota[i] > q.Calls {
			return tool.Result{Text: fmt.Sprintf("%s: no more of %d calls are left; go on with what you have", strings.Join(q.Tools, " and "), q.Calls), Error: true}, true
		}
	}
	return tool.Result{}, false
}

// call runs a tool, or gives what it gave before.
func (r *run) call(ctx context.Context, turn, i int, c model.Call) (tool.Result, error) {
	hash, err := runlog.Hash(c)
	if err != nil {
		return tool.Result{}, err
	}
	effect := &runlog.Effect{
		Key: fmt.Sprintf("%sturn-%d/call-%d", r.prefix, turn, i), Kind: "tool", Name: c.Name,
		Hash: hash, Input: c.Args, Repeat: r.repeat(c.Name), Cost: runlog.Amount{Calls: 1},
	}
	res, err := runlog.Do(ctx, r.scope, effect, func(ctx context.Context, key string) (tool.Result, error) {
		res := r.Tools.Call(ctx, c.Name, &tool.Call{ID: c.ID, Key: key, Args: c.Args})
		if err := ctx.Err(); err != nil && res.Error {
			return res, err // stopped, not failed; a success is one all the same
		}
		return res, nil
	})
	var happened *runlog.HappenedError
	if errors.As(err, &happened) {
		return tool.Result{Text: happened.Error(), Error: true}, nil
	}
	return res, err
}

func (r *run) repeat(name string) runlog.Repeat {
	t, ok := r.Tools.Get(name)
	switch {
	case !ok || t.Effect == tool.Pure: // an unknown tool does nothing
		return runlog.RepeatFreely
	case t.Effect == tool.Idempotent:
		return runlog.RepeatByKey
	}
	return runlog.RepeatNever
}
