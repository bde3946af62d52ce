package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// agentStarted is the input of an effect of kind "agent", which marks where an agent began. It pins the agent's definition, model and tools, so that a
// replay needs none of them. Older logs have the first three fields only.
type agentStarted struct {
	Agent  string `json:"agent"`
	Model  string `json:"model"`
	Prompt string `json:"prompt"`           // what the user says
	Before int    `json:"before,omitempty"` // messages of the conversation that it continues

	System   string                 `json:"system,omitempty"` // the system prompt
	Tools    map[string]tool.Effect `json:"tools,omitempty"`  // what it may call, the names of actions with "action"
	Turns    int                    `json:"turns,omitempty"`
	Single   bool                   `json:"single,omitempty"`
	Window   int                    `json:"window,omitempty"` // of the model, in tokens
	Unpriced bool                   `json:"unpriced,omitempty"`
	IDs      string                 `json:"ids,omitempty"`      // what the IDs of its messages begin with
	Priced   bool                   `json:"priced,omitempty"`   // the model tells its price
	Effort   string                 `json:"effort,omitempty"`   // of the model, in its provider's words; "" for the default
	External bool                   `json:"external,omitempty"` // it works outside of this process
	Seen     []string               `json:"seen,omitempty"`     // what the tasks beside it had seen when it began
	Network  []string               `json:"network,omitempty"`  // the tools that reach the network; everything of an external agent
}

// effectAction stands for the effect of an action, which is work of the run.
const effectAction tool.Effect = "action"

// made returns the definitions that an agent's run consists of.
func (r *run) made() *agentStarted {
	if r.pinned != nil {
		return r.pinned
	}
	out := &agentStarted{Agent: r.Name, Model: r.Model.Name(), Prompt: r.work.Prompt, Before: len(r.work.Messages)}
	_, priced := price(r.Model)
	if out.Priced, out.External = priced, r.external(); out.External {
		out.Network = []string{everything}
	}
	if m, ok := r.Model.(interface{ Effort() string }); ok {
		out.Effort = m.Effort()
	}
	out.System, out.Turns, out.Single, out.Window = r.Prompt, r.turns, r.Limits.Single, r.window
	out.Unpriced = !priced && r.scope.CountsMoney()
	if out.IDs = r.scope.Run() + "/" + r.scope.Path(); r.scope.Run() == "" {
		out.IDs = rand.Text() // nothing else is told apart by it
	}
	if r.work.Seen == nil {
		out.Seen = r.neighbours()
	}
	if !out.Single {
		for _, t := range r.all.Tools() {
			if out.Tools == nil {
				out.Tools = map[string]tool.Effect{}
			}
			if out.Tools[t.Name] = t.Effect; t.Network {
				out.Network = append(out.Network, t.Name)
			}
			if r.acts[t.Name] != nil {
				out.Tools[t.Name] = effectAction
			}
		}
	}
	return out
}

// recorded restores the agent as the replayed record describes it, and returns an error if something needed is missing.
func (a *Agent) recorded(scope *journal.Scope, key string) (*Agent, *agentStarted, error) {
	was := scope.Recorded(key)
	if was == nil {
		return a, nil, nil
	}
	var s agentStarted
	if err := json.Unmarshal(was.Input, &s); err != nil || s.Turns == 0 {
		if a.Model == nil || a.Model.Name() == "" {
			return a, nil, fmt.Errorf("agent %s: the run is of an older version, which did not record what agents are made of; replay it with the "+
				"version that began it", a.Name)
		}
		if err == nil {
			return a, &s, nil // of a log that pins no more
		}
		return a, nil, nil
	}
	anything := &jsonschema.Schema{Type: "object"} // what was refused is on record
	out := *a
	out.Prompt, out.Model = s.System, model.Named(s.Model)
	out.Limits.Turns, out.Limits.Single, out.Limits.Window = s.Turns, s.Single, s.Window
	out.Tools, out.Actions = nil, nil
	for _, act := range a.Actions {
		if act != nil && act.Tool != nil && s.Tools[act.Tool.Name] == effectAction {
			out.Actions = append(out.Actions, act)
		}
	}
	var tools []*tool.Tool
	for name, effect := range s.Tools { // in any order: a replay shows them to nobody
		if effect == effectAction {
			continue
		}
		network := slices.Contains(s.Network, name)
		if t, ok := a.Tools.Get(name); ok { // one that comes with the code, and so may have changed with it only
			same := *t
			same.Network = network
			tools = append(tools, &same)
			continue
		}
		tools = append(tools, &tool.Tool{Name: name, Effect: effect, Network: network, Input: anything, Run: func(context.Context, *tool.Call) (string, error) {
			return "", errors.New("a replay calls no tools")
		}})
	}
	var err error
	out.Tools, err = tool.NewSet(tools...)
	return &out, &s, err
}
