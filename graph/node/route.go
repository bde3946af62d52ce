package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/model"
)

// A Chooser chooses one of the targets. The choice "" means none of them. Any call to the outside
// must be an effect of the task.
type Chooser[S any] func(ctx context.Context, t *graph.Task, s S, targets []string) (string, error)

// Router returns a node that chooses one of the targets and sends to it. If the chooser returns "",
// the node sends to the fallback; if the fallback is "" too, the node fails. Update may note the
// choice. A choice that is not among the targets is a failure.
//
// graph.End among the targets, or as the fallback, means to send nothing.
func Router[S, U any](name string, choose Chooser[S], update func(S, string) (U, error), fallback string, targets ...string) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "decision"}
	n.Err = errors.Join(missing("chooser", choose == nil), missing("update", update == nil))
	if len(targets) == 0 {
		n.Err = errors.Join(n.Err, errors.New("it has no targets; list the nodes it may choose"))
	}
	for _, to := range append(slices.Clone(targets), fallback) {
		if to != "" && !slices.Contains(n.Sends, to) {
			n.Sends = append(n.Sends, to)
		}
	}
	targets = slices.Clone(targets)
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		to, err := choose(ctx, t, s, targets)
		switch {
		case err != nil:
			return u, err
		case to == "" && fallback == "":
			return u, fmt.Errorf("nothing was chosen out of %s, and there is no fallback", strings.Join(targets, ", "))
		case to == "":
			to = fallback
		case !slices.Contains(targets, to):
			return u, fmt.Errorf("the choice %q is not among the targets%s", to, suggest.Hint(to, targets))
		}
		if u, err = update(s, to); err == nil {
			t.Send(graph.Send{To: to})
		}
		return u, err
	}
	return n
}

// choices is how often a model is asked to choose before the fallback is used.
const choices = 3

// ByModel returns a chooser that asks a model: the model must call a tool whose only argument is one of the targets. Every turn is recorded. If the
// model does not choose a target, it is told so; after three attempts the chooser returns "".
func ByModel[S any](m model.Model, system string, prompt func(S) (string, error)) Chooser[S] {
	return func(ctx context.Context, t *graph.Task, s S, targets []string) (string, error) {
		if m == nil || prompt == nil {
			return "", errors.New("the chooser has no model or no prompt")
		}
		text, err := prompt(s)
		if err != nil {
			return "", err
		}
		req := &model.Request{System: system, Choice: "choose", Tools: []model.ToolSpec{chooseTool(targets)}}
		req.Messages = []model.Message{model.UserText(withFeedback(text, t.Feedback()))}
		for i := range choices {
			resp, err := agent.Ask(ctx, t.Scope(), m, fmt.Sprintf("choice-%d", i+1), req)
			if err != nil {
				return "", err
			}
			to, problem := chosen(resp.Message, targets)
			if problem == "" {
				return to, nil
			}
			req.Messages = append(slices.Clone(req.Messages), resp.Message)
			calls := resp.Message.Calls()
			for _, c := range calls {
				req.Messages = append(req.Messages, model.ToolResult(c, problem, true))
			}
			if len(calls) == 0 {
				req.Messages = append(req.Messages, model.UserText(problem))
			}
		}
		return "", nil
	}
}

func chooseTool(targets []string) model.ToolSpec {
	to := &jsonschema.Schema{Type: "string", Description: "Where to go on."}
	for _, name := range targets {
		to.Enum = append(to.Enum, name)
	}
	return model.ToolSpec{Name: "choose", Description: "Choose where to go on.", Input: &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{"to": to}, Required: []string{"to"},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}}
}

// chosen parses a choice, or returns the mistake in it.
func chosen(m model.Message, targets []string) (to, problem string) {
	want := fmt.Sprintf(`Call the tool "choose" once, with "to" one of: %s.`, strings.Join(targets, ", "))
	calls := m.Calls()
	if len(calls) != 1 || calls[0].Name != "choose" {
		return "", want
	}
	var args struct {
		To string `json:"to"`
	}
	if err := json.Unmarshal(calls[0].Args, &args); err != nil || !slices.Contains(targets, args.To) {
		return "", want
	}
	return args.To, ""
}
