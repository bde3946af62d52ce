package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// handoff begins the names of the tools that hand a conversation over.
const handoff = "transfer_to_"

// Handoff returns an action with which an agent hands its conversation to another agent: the model calls the tool transfer_to_NAME, and the agent ends
// with StopHandoff. The caller then continues the conversation with that agent; see [HandedTo]. The description tells the model when to do so. An agent with
// a Finish tool or a Schema cannot have such actions.
func Handoff(to, description string) *Action {
	return &Action{
		Tool: &tool.Tool{
			Name: handoff + to, Description: fmt.Sprintf("Hand the conversation over to %s. %s", to, description), Effect: tool.Pure,
			Input: &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}},
		},
		Run: func(context.Context, *journal.Scope, *tool.Call) (tool.Result, error) {
			return tool.Result{Text: "You are " + to + " now: continue the conversation."}, nil
		},
		Scoped: true, to: to,
	}
}

// HandedTo returns the name of the agent to which a conversation was handed over by its last message, "" if it was not.
func HandedTo(conversation []model.Message) string {
	if len(conversation) == 0 {
		return ""
	}
	for _, p := range conversation[len(conversation)-1].Parts {
		if p.Kind == model.Result && p.Call != nil && !p.Error && strings.HasPrefix(p.Call.Name, handoff) {
			return strings.TrimPrefix(p.Call.Name, handoff)
		}
	}
	return ""
}

// handsOver reports an agent that cannot both hand its conversation over and do what else it must.
func (r *run) handsOver() error {
	for _, a := range r.acts {
		switch {
		case a.to == "":
		case r.Finish != "" || r.Schema != nil:
			return errors.New("it must give a result, and may hand its conversation over instead; leave out the hand-off, or Finish and Schema")
		case r.external():
			return fmt.Errorf("it may hand its conversation over, and %s keeps its own; use a model", r.Model.Name())
		}
	}
	return nil
}
