// Package agent provides agents, which pursue a goal with a model and tools: their definition, and the loop that runs them.
//
// The run's log records every model turn and every tool call as an effect, and also permissions, compacted conversations and waits for rate limits.
// After a crash, an agent gets its recorded turns and results and continues from there.
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

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// An Agent is the definition of an agent. Do not change it after passing it on.
type Agent struct {
	Name    string
	Prompt  string // the system prompt
	Model   model.Model
	Tools   *tool.Set // nil for none
	Actions []*Action // tools that work within the run; their names are none of Tools
	// Finish names the tool whose successful call ends the agent: its arguments are the result. If the agent stops without calling it, the agent is
	// reminded, and its last turn must call it. If "", the agent ends with a turn that calls no tool, and the text of that turn is the result.
	Finish string
	// Schema, if non-nil, is the schema that the final answer must satisfy, as JSON. If the answer does not fit, the agent is told why and asked again.
	// If Finish is set, Schema is ignored.
	Schema *jsonschema.Schema
	Again  int // how often it is asked again for that at most; defaults to 2, and less than 0 is never
	Limits Limits

	Gate tool.Gate // decides on calls before they happen; if nil, the Guard of Tools does
	// Headless means that no user can be asked: a call that needs permission is denied, and an event "denied" is recorded. If false, the run asks and
	// waits for the answer.
	Headless bool
	// Strict means that only the Gate permits calls: a call that it asks about waits for a run without Strict, whatever is answered.
	Strict bool
	// Remember stores a rule for future runs when the user chooses to always allow something. It may be called again after a crash. If nil, that choice
	// is not offered.
	Remember func(rule string) error
	// Spill stores a result that is too large for a conversation, and returns the path at which the agent can read it. The name is a valid file name and
	// unique in the run; after a crash, Spill may be called again with the same name and text. If nil, such results are truncated.
	Spill func(run, name, text string) (path string, err error)
	// Clock measures the waits for rate limits. If nil, a rate limit is a failure.
	Clock *Clock
	// RateLimits shares the rate limits of models with other agents, such as those of other processes. If nil, each agent meets them by itself.
	RateLimits RateLimits

	check func(answer json.RawMessage) error // besides Schema, see Typed; nil for none
}

// Limits bound an agent. Zero means the defaults.
type Limits struct {
	Turns     int // of the model; defaults to 10
	MaxTokens int // of output per turn; defaults to the provider's own limit
	// Calls limits how often tools may be called; a tool that no quota names has no limit. A call beyond its quota is denied, and the model is told.
	Calls []Quota
	// Single limits the agent to one turn without tools; the text of that turn is its result.
	Single bool
	// Window is the size of the model's context window in tokens, for a request and its answer together. The default is the size that the model reports
	// (see model.Sized). If it reports none, a conversation is compacted only when the provider rejects it.
	Window int
}

// A Quota limits how often some tools may be called, counted together.
type Quota struct {
	Tools []string // by name
	Calls int
}

// Stop explains why an agent ended.
type Stop string

// Why an agent ended.
const (
	StopSaid     Stop = "said"     // it called no more tools
	StopFinished Stop = "finished" // it called its Finish tool
	StopLimit    Stop = "limit"    // it was out of turns
	StopCut      Stop = "cut"      // the provider cut its last turn off, at the token limit or by a filter, or a user did
	StopHandoff  Stop = "handoff"  // it handed the conversation to another agent; see HandedTo
)

// An Outcome is the result of an agent and the reason why it ended.
type Outcome struct {
	Stop Stop
	Text string          // what it said last
	Args json.RawMessage // of the Finish call, or what fits its Schema; nil if there was neither
	// Messages is the conversation, with that of the Work, as the model had it at the end. Each message has an ID,
	// which is the same when the run is resumed, and which no other run gives.
	Messages  []model.Message
	Seen      []string // the tools whose results the agent was given, with those of the Work
	Shortened bool     // messages were cut down, or a summary took their place
	Turns     int
	Calls     int // of tools, with those that were turned down
	Usage     model.Usage
}

// A LimitError reports that an agent used up its turns before it had a result.
type LimitError struct {
	Agent string
	Turns int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("agent %s has no result after %d turns; give it more turns, or a stronger model", e.Agent, e.Turns)
}

// FailureCode returns the code of runs that fail with the error.
func (e *LimitError) FailureCode() string { return "limit" }

// Work is the assignment of an agent.
type Work struct {
	// Key names this use of an agent within its scope. One attempt of a task that runs several gives each
	// a Key, or a scope, of its own: else the error is a *journal.UsedError. "" will do for the only one.
	Key    string
	Prompt string // what the user says, at most maxPrompt; may be "" with Messages that await an answer
	// Messages is the conversation so far, before the Prompt: every call in it has its result. They
	// must not change while the agent works.
	Messages []model.Message
	// Seen says what the Prompt and the conversation come from, beside the results in Messages; see tool.Call. If nil, it is what the tasks beside this one
	// have seen.
	Seen []string
	// Links are addresses that the user or a document has named in the Prompt and the conversation. Those of the Prompt are added if no stranger has written
	// anything that is in it.
	Links []string
	// State is passed to tools, see tool.Call. It is nil outside of a workflow.
	State func() (json.RawMessage, error)
	// Stopped is closed when the run must stop between two tasks: an agent that waits for a rate limit then ends with graph.ErrStopped. It may be nil.
	Stopped <-chan struct{}
	// Listens means that the agent gets the user's next message in another Work. A turn that the user interrupts then ends the agent, with StopCut. If false,
	// the user is asked what the agent is to do instead.
	Listens bool
	Raw     bool // the results of tools are data for a program, see tool.Call
}

// Run runs the agent until it ends. Scope is the scope of its task, or nil if the run has no log. Near a limit of the run's budget, the agent is told
// once to wrap up; at a limit, Run returns *runlog.BudgetError. While a question of the Gate or of an Action is open, Run returns *journal.WaitError.
// The task must return both of these errors. If an agent with a Finish tool or a Schema uses up its turns without a result, Run returns *LimitError with
// the outcome so far. If its answers never fit the Schema, the error is *UnfitError. A failing model's error is returned.
func (a *Agent) Run(ctx context.Context, scope *journal.Scope, w *Work) (*Outcome, error) {
	r, err := a.begin(scope, w)
	if err == nil {
		err = r.announce(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := r.begins(ctx); err != nil {
		return nil, err
	}
	made := map[string]model.Call{}
	for _, m := range w.Messages {
		for _, c := range m.Calls() {
			made[c.ID] = c
		}
		for _, p := range m.Parts {
			if p.Kind == model.Result && p.Call != nil {
				r.took(model.Call{Name: p.Call.Name, Args: made[p.Call.ID].Args}, p.Text, p.Error)
			}
		}
		r.add(m)
	}
	if err := r.tell(ctx, "seen-before"); err != nil {
		return nil, err
	}
	defer func() { r.out.Seen = r.seen }()
	if w.Prompt != "" || len(w.Messages) == 0 {
		r.add(model.UserText(w.Prompt))
	}
	defer r.rise()
	if r.external() {
		return r.runExternal(ctx)
	}
	for r.out.Turns < r.turns {
		done, err := r.turn(ctx)
		var unfit *UnfitError
		if errors.As(err, &unfit) { // which names the agent
			return nil, err
		}
		more := false
		if err == nil && (done || r.out.Turns == r.turns) { // who has said something meanwhile is answered
			if more, err = r.heed(ctx, r.out.Turns, r.last); more {
				r.turns, r.out.Args = max(r.turns, r.out.Turns+1), nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.Name, err)
		}
		if done && !more {
			return &r.out, r.publish(ctx, "links", r.out.Text+" "+text(r.out.Args))
		}
	}
	r.out.Stop = StopLimit
	if err := r.publish(ctx, "links", r.out.Text); err != nil {
		return nil, err
	}
	if a.Finish != "" || a.Schema != nil {
		return &r.out, &LimitError{a.Name, r.turns}
	}
	return &r.out, nil
}

// run is one running agent.
type run struct {
	*Agent
	scope   *journal.Scope
	owner   *journal.Scope // the same as it was given, in which each key is used once
	work    *Work
	prefix  string
	turns   int
	all     *tool.Set // Tools, and what Actions look like
	acts    map[string]*Action
	specs   []model.ToolSpec
	quota   []int           // how much of Limits.Calls is used, by recorded calls too
	unasked map[string]bool // the calls of this turn that the Gate let happen without a question, by their keys
	unfit   map[string]int  // in how many turns on end the arguments for a tool did not fit
	again   int             // how often it was asked for something that fits its Schema
	empty   int             // how often in a row it has ended without an answer
	warned  bool            // it was told to wrap up
	window  int             // tokens, 0 if nobody knows
	used    int             // tokens of the window, about
	out     Outcome
	seen    []string        // what its values come from, see tool.Call
	links   map[string]bool // addresses that stand in what it was given
	told    bool            // that strangers may have written what comes of it is recorded
	pinned  *agentStarted   // what it is made of, in a replay
	quiet   bool            // what the model says is not shown
	caller  string          // who calls tools
	seat    sync.Mutex
	leave   func()          // gives back its place among the agents of the run; nil if it has none
	last    string          // the key of the last turn if it is from the log, "" if it was had now
	broke   <-chan struct{} // closed when a user interrupts its turn
	by      func() []string // the requests for that
	heeded  int             // the number of the turn before which users were heard, from 1
	idRoot  string          // what the IDs of messages begin with
	added   int             // messages so far
	trimmed int             // the number of the turn before which the conversation was summed up last, from 1
}

// maxPrompt is the maximum size of a prompt in bytes, about 250,000 tokens. Every turn of every parallel agent copies its prompt several times.
const maxPrompt = 1 << 20

func (a *Agent) begin(scope *journal.Scope, w *Work) (*run, error) {
	r := &run{Agent: a, caller: a.Name, scope: scope.Reuse(), owner: scope, work: w, prefix: w.Key, quota: make([]int, len(a.Limits.Calls)), unfit: map[string]int{}}
	if r.prefix != "" {
		r.prefix += "/"
	}
	var err error
	if a, r.pinned, err = a.recorded(scope, r.prefix+"agent"); err != nil {
		return nil, err
	}
	r.Agent = a
	if g := a.Tools.Guard(); a.Gate == nil && g.Gate != nil {
		guarded := *a
		if guarded.Gate = g.Gate; guarded.Remember == nil {
			guarded.Remember = g.Remember
		}
		guarded.Headless, guarded.Strict = guarded.Headless || g.Headless, guarded.Strict || g.Strict
		r.Agent = &guarded
	}
	if r.turns = a.Limits.Turns; r.turns <= 0 {
		r.turns = 10
	}
	if r.external() {
		err = r.equipExternal()
	}
	if err = cmp.Or(err, r.equip()); err == nil {
		err = r.handsOver()
	}
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", a.Name, err)
	}
	switch {
	case wrong(w) != nil:
		return nil, fmt.Errorf("agent %s: %w", a.Name, wrong(w))
	case len(w.Prompt) > maxPrompt:
		return nil, fmt.Errorf("agent %s: its prompt is %.1f MiB; a prompt may have %d MiB: name a file in it that the agent can read", a.Name,
			float64(len(w.Prompt))/(1<<20), maxPrompt>>20)
	case a.Limits.Single && a.Finish != "":
		return nil, fmt.Errorf("agent %s: it is to speak once and to call the tool %s; that is not both possible", a.Name, a.Finish)
	case a.Limits.Single:
		r.turns = 1
	default:
		for _, t := range r.all.Tools() {
			r.specs = append(r.specs, model.ToolSpec{Name: t.Name, Description: t.Description, Input: t.Input})
		}
	}
	if r.window = a.Limits.Window; r.window <= 0 {
		r.window = 0
		if m, ok := a.Model.(model.Sized); ok {
			if n, known := m.Window(); known {
				r.window = n
			}
		}
	}
	r.used = len(a.Prompt) / bytesPerToken
	return r, nil
}

// wrong returns an error for a conversation that no model would accept.
func wrong(w *Work) error {
	var open []model.Call // without a result so far
	from := 0             // the message that made them
	missing := func() error {
		return fmt.Errorf("message %d of its conversation calls %s, and the result is missing; add it, or remove the message", from, open[0].Name)
	}
	for i, m := range w.Messages {
		switch {
		case m.Role != model.User && m.Role != model.Assistant && m.Role != model.Tool:
			return fmt.Errorf("message %d of its conversation has the role %q; use user, assistant or tool", i+1, m.Role)
		case m.Role == model.Tool:
			var ok bool
			if open, ok = answered(open, m); !ok {
				return fmt.Errorf("message %d of its conversation has a result without its call; remove it", i+1)
			}
		case len(open) > 0:
			return missing()
		default:
			open, from = m.Calls(), i+1
		}
	}
	switch n := len(w.Messages); {
	case len(open) > 0:
		return missing()
	case n > 0 && w.Messages[n-1].Role == model.Assistant && w.Prompt == "":
		return errors.New("its conversation ends with an answer; give a prompt, or a message of the user")
	}
	return nil
}

// answered returns the calls that a message with results leaves open, and reports whether the message has results and each belongs to an open call.
func answered(open []model.Call, m model.Message) (left []model.Call, ok bool) {
	left = slices.Clone(open)
	for _, p := range m.Parts {
		if p.Kind != model.Result {
			continue
		}
		i := slices.IndexFunc(left, func(c model.Call) bool { return p.Call != nil && c.ID == p.Call.ID })
		if i < 0 {
			return nil, false
		}
		left, ok = slices.Delete(left, i, i+1), true
	}
	return left, ok
}

// add puts a message into the conversation.
func (r *run) add(m model.Message) {
	if r.added++; m.ID == "" {
		m.ID = fmt.Sprintf("%s/%smessage-%d", r.idRoot, r.prefix, r.added)
	}
	if m.Role == model.User {
		if name := toolnames.PromptOf(m.Text()); name != "" { // a server wrote it, not the user who sent it
			r.saw(name)
		}
	}
	r.out.Messages = append(r.out.Messages, m)
	r.used += size(m) / bytesPerToken
}

// begun is the output of the effect that marks where an agent began.
type begun struct {
	IDs  string   `json:"ids,omitempty"`  // as in agentStarted: a run that goes on keeps to it
	Seen []string `json:"seen,omitempty"` // the same
}

func (r *run) announce(ctx context.Context) error {
	made := r.made()
	e := &journal.Effect{Key: r.prefix + "agent", Kind: "agent", Name: r.Name, Input: made, Cost: runlog.Amount{Agents: 1}, Inside: true}
	began, err := journal.Do(ctx, r.owner, e, func(ctx context.Context, _ string) (begun, error) {
		if made.Unpriced {
			return begun{made.IDs, made.Seen}, r.unpriced(ctx)
		}
		return begun{made.IDs, made.Seen}, nil
	})
	r.saw(began.Seen...)
	if r.idRoot = began.IDs; r.idRoot == "" { // in older logs
		r.idRoot = r.scope.Path()
	}
	return err
}

// heed adds new messages of users to the conversation before the agent's nth turn, and reports whether there were any. If a user asks for it, the
// conversation before them is summed up. Before is the key of the turn
// that the agent was about to end with, if that turn is from the log.
func (r *run) heed(ctx context.Context, n int, before string) (bool, error) {
	if r.heeded == n+1 {
		return false, nil
	}
	texts, compact, err := r.scope.Steered(ctx, fmt.Sprintf("%ssteer-%d", r.prefix, n), r.Name, r.work.Key, turnKey(r.prefix, n), before)
	if err == nil && compact {
		err = r.compact(ctx, n)
	}
	for _, text := range texts {
		r.heeded = n + 1
		r.know(text)
		r.add(model.UserText(text))
	}
	return len(texts) > 0, err
}

// turn asks the model once and calls the tools it wants.
func (r *run) turn(ctx context.Context) (done bool, err error) {
	n := r.out.Turns
	r.out.Turns++
	if err := r.trim(ctx, n); err != nil {
		return false, err
	}
	if _, err := r.heed(ctx, n, ""); err != nil {
		return false, err
	}
	r.last = ""
	if _, had := r.scope.Done(turnKey(r.prefix, n)); had {
		r.last = turnKey(r.prefix, n)
	}
	resp, err := r.converse(ctx, n, r.hint(turnKey(r.prefix, n)))
	if err != nil {
		return false, err
	}
	if r.Limits.Single { // it has nothing to call
		resp.Message.Parts = slices.DeleteFunc(slices.Clone(resp.Message.Parts), func(p model.Part) bool { return p.Kind == model.ToolCall })
	}
	r.out.Usage = r.out.Usage.Add(resp.Usage)
	r.add(resp.Message)
	r.measure(resp.Usage)
	if text := resp.Message.Text(); text != "" {
		r.out.Text = text
	}
	calls := resp.Message.Calls()
	switch {
	case resp.Stop == mail.StopInterrupted:
		return r.whatNow(ctx)
	case len(calls) == 0:
		return r.said(ctx, n, resp)
	}
	r.empty = 0
	results, err := r.callAll(ctx, n, 0, calls)
	if err != nil {
		return false, err
	}
	answers, to := model.Message{Role: model.Tool}, ""
	for i, c := range calls {
		r.took(c, results[i].Text, results[i].Error)
		if a := r.acts[c.Name]; a != nil && a.to != "" && !results[i].Error {
			if to != "" {
				results[i] = tool.Failed("the conversation was handed over to " + to + " already")
			}
			to = cmp.Or(to, a.to)
		}
		answers.Parts = append(answers.Parts, model.ToolResult(c, results[i].Text, results[i].Error).Parts...)
		if c.Name == r.Finish && !results[i].Error && r.out.Args == nil {
			r.out.Args = c.Args
		}
	}
	r.add(answers)
	if err := r.tell(ctx, turnKey("", n)+"/seen"); err != nil {
		return false, err
	}
	switch {
	case r.out.Args != nil:
		r.out.Stop = StopFinished
	case to != "":
		r.out.Stop = StopHandoff
	default:
		return false, nil
	}
	return true, nil
}

// converse gets a turn, from a shorter conversation if the model says that it is too long.
func (r *run) converse(ctx context.Context, n int, hint string) (*model.Response, error) {
	key := fmt.Sprintf("%soverflow-%d", r.prefix, n)
	shrunk := false
	if _, before := r.scope.Done(key); before {
		if _, err := r.shrink(ctx, key, true); err != nil {
			return nil, err
		}
		shrunk = true
	}
	told, err := r.retell(ctx, turnKey(r.prefix, n))
	if err != nil {
		return nil, err
	}
	turn, by, stop := r.scope.Interruptible(ctx, r.work.Key)
	defer stop()
	r.by = by
	for {
		req := &model.Request{System: r.Prompt, Messages: r.out.Messages, Tools: r.specs, MaxTokens: r.Limits.MaxTokens}
		if r.Finish != "" && r.out.Turns == r.turns {
			req.Choice = r.Finish // the last chance for a result
		}
		if r.Finish == "" {
			req.Schema = r.Schema
		}
		resp, err := r.ask(ctx, turn, turnKey(r.prefix, n), req, hint)
		if unreadable.is(err) {
			told++
			if again, cerr := r.complain(ctx, turnKey(r.prefix, n), told, err); cerr != nil || !again {
				return nil, errors.Join(cerr, err)
			}
			continue
		}
		if !tooLong.is(err) || shrunk {
			return resp, err
		}
		shrunk = true
		if shorter, serr := r.shrink(ctx, key, true); serr != nil {
			return nil, serr
		} else if !shorter {
			return nil, err
		}
	}
}

// mostEmpty is how often an agent is asked again in a row when it ends without a text.
const mostEmpty = 2

// said handles a turn without calls: it ends the agent, unless a result is still required. One that says nothing is no answer.
func (r *run) said(ctx context.Context, n int, resp *model.Response) (done bool, err error) {
	cut := resp.Stop == model.StopLength || resp.Stop == model.StopFilter
	if r.Finish != "" || r.Schema != nil || cut || strings.TrimSpace(resp.Message.Text()) != "" {
		r.empty = 0
	} else if again, err := r.saidNothing(ctx, n); again || err != nil {
		return false, err
	}
	switch {
	case r.Finish != "":
		r.add(model.UserText(fmt.Sprintf("Call the tool %s with your result to finish.", r.Finish)))
		return false, nil
	case r.Schema != nil:
		if done, err = r.fits(ctx, n, resp.Message.Text()); !done || err != nil {
			return false, err
		}
	}
	if r.out.Stop = StopSaid; cut {
		r.out.Stop = StopCut
	}
	return true, nil
}

// saidNothing asks for an answer in place of an empty one, and reports whether it did. Older logs took an empty turn for an answer. In a chat the user can
// ask, too.
func (r *run) saidNothing(ctx context.Context, n int) (again bool, err error) {
	key := turnKey(r.prefix, n) + "/empty"
	if !r.scope.Does(key, true) {
		return false, nil
	}
	if err := r.mark(ctx, key, "note", note{r.Model.Name() + " ended without an answer"}); err != nil {
		return false, err
	}
	if r.empty++; r.empty > mostEmpty {
		if r.empty = 0; r.work.Listens {
			return false, nil
		}
		return false, fmt.Errorf("%s ended %d times without an answer or a call; try another model", r.Model.Name(), mostEmpty+1)
	}
	r.turns++ // asking again is no turn of its own
	r.add(model.UserText("You ended your turn without an answer. Give your answer now, or call a tool."))
	return true, nil
}

// repeat returns how to treat a tool call whose outcome is unknown after a crash.
func (r *run) repeat(name string) journal.Repeat {
	t, ok := r.all.Get(name)
	switch {
	case !ok || t.Effect == tool.Pure: // an unknown tool does nothing
		return journal.RepeatFreely
	case r.acts[name] != nil: // what it does are effects of their own
		return journal.RepeatFreely
	case t.Effect == tool.Idempotent:
		return journal.RepeatByKey
	}
	return journal.RepeatNever
}
