// Package mail reads what the log of a run has of requests to its holder: changes of the budget, what was said to agents, and
// which agents can be spoken to.
package mail

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// EventBudget is the name of the event of the run that changes its budget. Budget is its data.
const EventBudget = "budget.changed"

// A Budget is a change of the budget of a run.
type Budget struct {
	Budget  runlog.Budget `json:"budget"`            // in place of the one before
	Request string        `json:"request,omitempty"` // the ID of the request for it
}

// BudgetOf returns the change of the budget that a record is, nil if it is none.
func BudgetOf(r *runlog.Record) *Budget {
	if r.Kind != runlog.KindEvent || r.Path != "" || !bytes.HasPrefix(r.Data, []byte(`{"name":"`+EventBudget+`"`)) {
		return nil
	}
	var e struct{ Data Budget }
	if json.Unmarshal(r.Data, &e) != nil {
		return nil
	}
	return &e.Data
}

// KindSteer is the kind of the effect by which an agent is told what users say. Steering is its output.
const KindSteer = "steer"

// Steering is what users have said to an agent between two of its turns, oldest first.
type Steering struct {
	Messages []Message `json:"messages"`
}

// A Message is something that a user has said to an agent.
type Message struct {
	Request string `json:"request"` // its ID
	Text    string `json:"text"`
}

// SteeringOf returns what the outcome of an effect has told an agent, nil for another effect.
func SteeringOf(d *runlog.Settled) []Message {
	var s Steering
	if d.Kind != KindSteer || json.Unmarshal(d.Output, &s) != nil {
		return nil
	}
	return s.Messages
}

// An Agent is one that runs, or waits, as far as the log of its run says.
type Agent struct {
	Path string // its address
	Name string
}

// Agents returns the agents that have begun and not ended, those that have begun first first. The first is the lead.
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

// Ends reports whether with a record the agent of that path has ended: its task is over, or its work for another agent.
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

// Told reports whether with a record an agent was told what the request of that ID says.
func Told(r *runlog.Record, request string) bool {
	d := Settled(r)
	return d != nil && slices.ContainsFunc(SteeringOf(d), func(m Message) bool { return m.Request == request })
}

// Settled returns the outcome of an effect, nil for another record.
func Settled(r *runlog.Record) *runlog.Settled {
	var d runlog.Settled
	if r.Kind != runlog.KindSettled || json.Unmarshal(r.Data, &d) != nil {
		return nil
	}
	return &d
}
