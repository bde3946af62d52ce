// Package mail reads from the log of a run the requests to its holder that were carried out, such as changes of the budget and messages to agents, and
// which agents accept messages.
package mail

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// EventBudget is the name of the event that changes the budget of a run. Its data is a Budget.
const EventBudget = "budget.changed"

// A Budget is a change of the budget of a run.
type Budget struct {
	Budget  runlog.Budget `json:"budget"`            // in place of the one before
	Request string        `json:"request,omitempty"` // the ID of the request for it
}

// BudgetOf decodes a record that changes the budget. It returns nil for any other record.
func BudgetOf(r *runlog.Record) *Budget { return eventOf[Budget](r, EventBudget) }

// EventLent is the name of the event that changes what a run sets aside for a child run. Its data is a Loan.
const EventLent = "budget.lent"

// A Loan is what a run sets aside for a child run, in place of what it did before, or why it does not.
type Loan struct {
	Run     string              `json:"run"`            // the child
	Path    string              `json:"path,omitempty"` // of the task that waits for it, with the key of the effect; "" if none does
	Key     string              `json:"key,omitempty"`
	Amount  runlog.Amount       `json:"amount,omitzero"`
	Short   *runlog.BudgetError `json:"short,omitempty"` // the limit of the run that does not cover it
	Request string              `json:"request,omitempty"`
}

// LoanOf decodes a record of an EventLent. It returns nil for any other record.
func LoanOf(r *runlog.Record) *Loan { return eventOf[Loan](r, EventLent) }

// eventOf decodes the event of the run as a whole that has a name.
func eventOf[T any](r *runlog.Record, name string) *T {
	if r.Kind != runlog.KindEvent || r.Path != "" || !bytes.HasPrefix(r.Data, []byte(`{"name":"`+name+`"`)) {
		return nil
	}
	var e struct{ Data T }
	if json.Unmarshal(r.Data, &e) != nil {
		return nil
	}
	return &e.Data
}

// KindSteer is the kind of the effect by which an agent receives messages of users. Its output is a Steering.
const KindSteer = "steer"

// Steering holds the messages that users sent to an agent between two of its turns, oldest first.
type Steering struct {
	Messages []Message `json:"messages"`
}

// A Message is a message of a user to an agent.
type Message struct {
	Request string `json:"request"` // its ID
	Text    string `json:"text"`
	Compact bool   `json:"compact,omitempty"` // in place of a text: the agent is to sum up its conversation
}

// SteeringOf returns the messages that the outcome of an effect of KindSteer holds, and nil for other effects.
func SteeringOf(d *runlog.Settled) []Message {
	var s Steering
	if d.Kind != KindSteer || json.Unmarshal(d.Output, &s) != nil {
		return nil
	}
	return s.Messages
}

// An Agent is a running or waiting agent, according to the log of its run.
type Agent struct {
	Path string // its address
	Name string
}

// Agents returns the agents that have begun and not ended, in the order in which they began. The first is the lead.
func Agents(recs iter.Seq2[runlog.Record, error]) ([]Agent, error) {
	var all []Agent
	for r, err := range recs {
		if err != nil {
			return all, err
		}
		if d := Settled(&r); d != nil && d.Kind == "agent" && d.Error == "" {
			a := Agent{Path: strings.TrimSuffix(r.Path+"/"+strings.TrimSuffix(d.Key, "agent"), "/"), Name: d.Name}
			if !slices.Contains(all, a) { // it is not another time after a crash
				all = append(all, a)
			}
		}
		all = slices.DeleteFunc(all, func(a Agent) bool { return Ends(&r, a.Path) })
	}
	return all, nil
}

// Ends reports whether a record ends the agent at that path: its task has ended, or its job as a sub-agent.
func Ends(r *runlog.Record, agent string) bool {
	within := func(path string) bool { return path == agent || strings.HasPrefix(agent, path+"/") }
	if r.Kind == runlog.KindTaskDone {
		return within(r.Path)
	}
	d := Settled(r)
	if d == nil || d.Kind != "job" {
		return false
	}
	return within(r.Path+"/"+d.Key) || within(r.Path+"/"+strings.TrimPrefix(d.Key, "job/")) // of a node, or of a team
}

// ErrInterrupted is the cause of the end of a model turn that a user broke off.
var ErrInterrupted = errors.New("a user interrupted the turn")

// StopInterrupted is the model.StopCode of such a turn.
const StopInterrupted = "interrupted"

// Told reports whether a record shows that an agent received the message with that request ID, or was interrupted by it.
func Told(r *runlog.Record, request string) bool {
	d := Settled(r)
	return d != nil && (slices.Contains(d.Interrupted, request) || slices.ContainsFunc(SteeringOf(d), func(m Message) bool { return m.Request == request }))
}

// Settled decodes a record that holds the outcome of an effect. It returns nil for any other record.
func Settled(r *runlog.Record) *runlog.Settled {
	var d runlog.Settled
	if r.Kind != runlog.KindSettled || json.Unmarshal(r.Data, &d) != nil {
		return nil
	}
	return &d
}
