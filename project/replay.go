package project

import (
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/model"
)

// A Replay has the agents of a run that is replayed. What they are made of is in the run's log, so nothing of a
// project is read or started for it.
type Replay struct{ team *team.Team }

// NewReplay returns the agents of a run that is replayed.
func NewReplay() (*Replay, error) {
	r := &Replay{}
	var err error
	r.team, err = team.New(&team.Options{
		Agents: func(name string) (*agent.Agent, error) { return r.Agent(name, "") },
		List:   func() []team.Info { return nil },
	})
	return r, err
}

// Agent returns the agent of a name. Its log says which actions it has.
func (r *Replay) Agent(name, _ string) (*agent.Agent, error) {
	return &agent.Agent{Name: name, Model: model.Named(""), Actions: append(r.team.Actions(), askUser())}, nil
}

// Close ends the agents.
func (r *Replay) Close() error { r.team.Close(); return nil }
