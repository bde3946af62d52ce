// Package external is the contract between the loop of package agent and agents that run outside of this process: the loop records, asks and counts, and
// the external agent works.
package external

import (
	"context"
	"encoding/json"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Continue is the prompt for an agent that was interrupted.
const Continue = "You were interrupted. Continue where you stopped, and do not repeat what is done. If all is done, give your final answer again."

// An Agent stands for an agent of another program. It is used as the Model of an agent.Agent, which then hands each prompt to it, instead of asking a
// model and calling tools itself. It calls its own tools and asks for permission where it wants to, and the loop performs its calls of ours.
type Agent interface {
	model.Model // its Generate fails: it answers no single turns

	// Step lets the agent work until there is something to record or to decide: a tool was started, a call ended, it asks for permission, it calls a
	// tool of ours, or its turn ended. If ctx ends meanwhile, the turn is cancelled, and Step returns what happened with Stepped.Lost set. An error means that the step failed.
	Step(ctx context.Context, s *Step) (*Stepped, error)

	// Look opens the session of a step whose outcome is unknown, and returns the outcome if the session holds it, else nil. It changes nothing.
	Look(ctx context.Context, s *Step) (*Stepped, error)

	// Leave cancels what the agent is doing in a session, "" for none, and frees what the use of the agent at a place has taken. Done reports that it
	// does not come back.
	Leave(place, session string, done bool)
}

// A Step is what the loop asks for. In the log it is the input of the step's effect, without the fields that only this process needs.
type Step struct {
	Session string   `json:"session,omitempty"` // "" creates a session, or continues the one in Prior
	Prior   string   `json:"prior,omitempty"`
	Prompt  string   `json:"prompt,omitempty"` // "" continues the turn
	Mark    string   `json:"mark,omitempty"`   // of the last prompt, by which the agent's copy of the conversation is searched for it
	Answers []Answer `json:"answers,omitempty"`
	Made    []string `json:"made,omitempty"` // the IDs of the calls of our tools whose results the agent gets now

	Results []Result          `json:"-"` // those results; each is the recorded outcome of its call
	Tools   *tool.Set         `json:"-"` // ours, which the agent is offered, and which its loop performs
	Trace   string            `json:"-"` // the traceparent of the step, "" for none
	Place   string            `json:"-"` // tells apart what uses the agent at the same time
	Past    int               `json:"-"` // how many calls of our tools were made since the prompt
	Agent   string            `json:"-"` // the agent's name in the run
	Open    []string          `json:"-"` // the IDs of calls of its own tools that have begun and have no result
	Known   []string          `json:"-"` // the IDs of all such calls since the prompt
	Again   bool              `json:"-"` // an earlier attempt did not end
	Say     func(model.Part)  `json:"-"` // is called with each piece of text and reasoning; not nil
	Note    func(text string) `json:"-"` // shows the user a short-lived message; not nil
}

// An Answer decides about a permission request.
type Answer struct {
	Call  string `json:"call"` // its ID
	Allow bool   `json:"allow,omitempty"`
}

// Stepped is the outcome of a step, as it is recorded. Its first fields are those of a model.Response.
type Stepped struct {
	Message model.Message  `json:"message"`
	Usage   model.Usage    `json:"usage"` // an estimate
	Stop    model.StopCode `json:"stop"`

	Session string   `json:"session,omitempty"` // of a step that created one
	Fresh   bool     `json:"fresh,omitempty"`   // the session knows nothing of what was before
	Started []Call   `json:"started,omitempty"`
	Results []Result `json:"results,omitempty"`
	Asks    []Call   `json:"asks,omitempty"`    // those that wait for permission, as permission is requested
	Calls   []Call   `json:"calls,omitempty"`   // of our tools, whose results the agent waits for
	Money   int64    `json:"money,omitempty"`   // as in runlog.Amount; an estimate
	Notes   []string `json:"notes,omitempty"`   // for users
	Done    bool     `json:"done,omitempty"`    // the agent's turn has ended
	Lost    bool     `json:"lost,omitempty"`    // the turn was interrupted, and the agent waits for a prompt
	Unheard bool     `json:"unheard,omitempty"` // the answers of the step did not reach the agent
}

// A Call is a call of one of our tools, or of one of the agent's own.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"` // of its own: that of our tool that does the same, so that rules about it apply, or the agent's name and its own
	Args json.RawMessage `json:"args"`
	Diff string          `json:"diff,omitempty"` // unified, of a change that waits for permission
	New  bool            `json:"new,omitempty"`  // of a file that does not exist yet
	Dir  string          `json:"dir,omitempty"`
}

// A Result is the end of a call.
type Result struct {
	Call  string `json:"call"` // its ID
	Text  string `json:"text"`
	Error bool   `json:"error,omitempty"`
	Took  int64  `json:"took_ms,omitempty"`
}
