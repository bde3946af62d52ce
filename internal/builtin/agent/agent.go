// Package agent provides the built-in workflow "agent": one agent works on the user's prompt, with its tools, its sub-agents and the workflows it may
// run.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/workflow"
)

// Name is the name of the workflow.
const Name = "agent"

// Lead is the agent that works when none is named.
const Lead = "general-purpose"

// Options configure the workflow.
type Options struct {
	// Prepare checks the inputs of a run and completes them with the agent and its model. It starts nothing. It is required.
	Prepare func(in *Inputs) error
	// Open returns the agent of a starting or resumed run, and starts everything that the agent needs. It is required.
	Open func(ctx context.Context, in *Inputs) (*Crew, error)
	// Workflows are the workflows that the agent may run by name. The default is none.
	Workflows []*workflow.Workflow
	// SaveDraft stores the text of a recipe under its name until the user approves it, and returns its location for display. After a crash, it may be
	// called again with the same text. If nil, agents cannot write recipes.
	SaveDraft func(ctx context.Context, name string, text []byte) (where string, err error)
	// Dir is the base of a relative folder. The default is the process's working folder.
	Dir string
}

// Inputs are the inputs of the workflow.
type Inputs struct {
	Prompt string `json:"prompt" jsonschema:"what to do"`
	Agent  string `json:"agent,omitempty" jsonschema:"who does it, by name; defaults to general-purpose"`
	Model  string `json:"model,omitempty" jsonschema:"the model to use, as provider/name; defaults to that of the agent, or the one that is configured"`
	Dir    string `json:"dir,omitempty" jsonschema:"a folder of the project to work in; defaults to this one"`
	// Rules are the permission rules for agents in this run, whichever user resumes it.
	Rules []string `json:"rules,omitempty" jsonschema:"set by the run itself: what agents may do in this run, such as deny read_file(secret/**)"`
	OnAsk string   `json:"on_ask,omitempty" jsonschema:"set by the run itself: what becomes of calls that need leave where nobody can be asked: wait or deny"`
	// Chat makes the run wait for the next message after each answer, see conversation.go.
	Chat bool `json:"chat,omitempty" jsonschema:"wait for the next message after each answer, instead of ending"`
	// Messages is the conversation before Prompt: in the inputs, the conversation of the continued run; in the state, the whole one.
	Messages []model.Message `json:"messages,omitempty" jsonschema:"set by the run itself: the conversation that it continues"`
	// Seen names the tools whose results are in the conversation, or were before it was cut down: their results may have misled
	// the agent.
	Seen []string `json:"seen,omitempty" jsonschema:"set by the run itself: the tools whose results are in messages"`
	// Definition identifies the agent's definition, so that a run is not resumed with a different one.
	Definition map[string]string `json:"definition,omitempty" jsonschema:"set by the run itself"`
}

// An Output is the output of the workflow.
type Output struct {
	Text  string `json:"text"` // what the agent said last
	Agent string `json:"agent"`
	Model string `json:"model"`
}

// A Crew is an agent, with everything that was started for it.
type Crew struct {
	Agent      *agent.Agent
	Definition map[string]string // what the agent is made of now; a run continues with what it began with
	// Check returns the mistakes of a recipe that its text alone does not show, such as unknown
	// agents. Nil checks nothing more.
	Check func(r *recipe.Recipe) recipe.Problems
	// SaveDraft takes precedence over the SaveDraft of the options, if drafts belong to the project of the crew. If nil, the options' SaveDraft is used.
	SaveDraft func(ctx context.Context, name string, text []byte) (where string, err error)
	Close     func() error // ends what was started; nil for nothing
}

// state is the state of the workflow's graph.
type state struct {
	Inputs
	Text  string `json:"text,omitempty"`
	Ended bool   `json:"ended,omitempty"` // a chat that gets no more messages
}

// New creates the workflow.
func New(opt *Options) (*workflow.Workflow, error) {
	if opt == nil || opt.Prepare == nil || opt.Open == nil {
		return nil, errors.New("workflow agent: it needs a way to get agents")
	}
	d := &delegate{opt: opt}
	w, err := workflow.Func(Name, "Have an agent do something, with its tools and sub-agents", d.run)
	if err != nil {
		return nil, err
	}
	w.NeedsModel = true
	w.Continue = continued
	for _, other := range opt.Workflows {
		w.Uses = append(w.Uses, other.Name)
	}
	w.Prepare = func(raw json.RawMessage) (json.RawMessage, error) {
		var in Inputs
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("workflow agent: its inputs: %w", err)
		}
		if err := d.prepare(&in); err != nil {
			return nil, err
		}
		return json.Marshal(in)
	}
	w.Flow = func(raw json.RawMessage) (graph.Reading, error) {
		var in Inputs
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &in); err != nil {
				return nil, fmt.Errorf("workflow agent: its inputs: %w", err)
			}
		}
		return d.flow(&in, nil)
	}
	return w, nil
}

type delegate struct{ opt *Options }

func (d *delegate) prepare(in *Inputs) error {
	if strings.TrimSpace(in.Prompt) == "" {
		return &workflow.InputsError{Workflow: Name, Problems: []string{"prompt: is empty; say what to do"}}
	}
	in.Agent = cmp.Or(in.Agent, Lead)
	if !filepath.IsAbs(in.Dir) {
		dir, err := filepath.Abs(filepath.Join(d.opt.Dir, in.Dir))
		if err != nil {
			return err
		}
		in.Dir = dir
	}
	return d.opt.Prepare(in)
}

func (d *delegate) run(ctx context.Context, in Inputs, e *workflow.Exec) (out Output, err error) {
	im := e.Journal.Imported()
	if im != nil { // rights are those of whoever imported it
		in.Dir = im.Dir
	}
	err = e.Journal.Afresh(func() error {
		if im != nil {
			in.Model, in.Rules, in.OnAsk = "", nil, ""
		}
		if filepath.IsAbs(in.Dir) && in.Agent != "" {
			return nil
		}
		return d.prepare(&in) // for hosts that began the run without Settle
	})
	if err != nil {
		return out, err
	}
	crew, err := d.opt.Open(ctx, &in)
	if err != nil {
		return out, err
	}
	if crew.Close != nil {
		defer func() { err = errors.Join(err, crew.Close()) }()
	}
	if err := e.Unchanged(Name, in.Definition, crew.Definition); err != nil {
		return out, err
	}
	if in.Model == "" && crew.Agent.Model != nil {
		in.Model = crew.Agent.Model.Name()
	}
	flow, err := d.flow(&in, crew)
	if err != nil {
		return out, err
	}
	final, err := flow.Run(ctx, state{Inputs: in}, &e.Graph)
	if err != nil && final.Text == "" {
		return out, err
	}
	return Output{Text: final.Text, Agent: in.Agent, Model: in.Model}, err
}

// flow returns the graph of a run: one node, the agent, and in a chat another that waits for the next message. With a nil crew
// the graph can only be inspected.
func (d *delegate) flow(in *Inputs, crew *Crew) (*graph.Flow[state, update], error) {
	version, err := journal.Hash(in.Definition)
	if err != nil {
		return nil, err
	}
	g := graph.New(Name, fold)
	n := graph.Node[state, update]{Name: "work", Kind: "agent", Agents: 1, Version: version}
	n.UsesAny = len(d.opt.Workflows) > 0
	n.Run = func(ctx context.Context, t *graph.Task, s state) (update, error) {
		if crew == nil {
			return update{}, errors.New("this graph is for looking at only")
		}
		return d.work(ctx, t, crew, &s)
	}
	g.AddNode(n)
	g.Edge(graph.Start, n.Name)
	if in.Chat {
		listen(g, n.Name)
	} else {
		g.Edge(n.Name, graph.End)
	}
	return g.Compile()
}

// work runs the agent, with workflows in the background, and returns its last text.
func (d *delegate) work(ctx context.Context, t *graph.Task, crew *Crew, s *state) (u update, err error) {
	k, err := d.sit(ctx, t)
	if err != nil {
		return u, err
	}
	defer k.close()
	lead := *crew.Agent
	if _, external := lead.Model.(external.Agent); !external { // which gets no workflows
		lead.Actions = append(lead.Actions[:len(lead.Actions):len(lead.Actions)], k.actions(crew)...)
	}
	w := &agent.Work{
		Prompt:   s.Prompt,
		Messages: s.Messages,
		Seen:     append([]string{}, s.Seen...),
		Links:    named(s),
		State:    func() (json.RawMessage, error) { return json.Marshal(s) },
		Stopped:  t.Stopped(),
		Listens:  s.Chat,
	}
	out, err := k.converse(&lead, w)
	if s.Chat && err == nil {
		u = turned(s, out)
	} else if u.Text, err = said(lead.Name, out, err); err != nil {
		return u, err
	}
	rest, err := k.rest()
	if err != nil || len(rest) == 0 {
		return u, err
	}
	text, err := k.handOver(&lead, w, cmp.Or(u.Text, out.Text), rest)
	if !s.Chat {
		return update{Text: text}, err
	}
	u.Messages = append(u.Messages, model.Message{
		ID: out.Messages[len(out.Messages)-1].ID + "/results", Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: text}},
	})
	return u, err
}

// named returns the addresses that the user has named.
func named(s *state) []string {
	out := clean.Links(s.Prompt)
	for _, m := range s.Messages {
		if m.Role == model.User && toolnames.PromptOf(m.Text()) == "" {
			out = append(out, clean.Links(m.Text())...)
		}
	}
	return out
}

// said returns the result of an agent, or an error if there is none.
func said(name string, out *agent.Outcome, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case out.Stop == agent.StopLimit:
		return "", &agent.LimitError{Agent: name, Turns: out.Turns}
	case out.Stop == agent.StopCut:
		return "", fmt.Errorf("agent %s: the provider cut its last answer off; ask for less, or use another model", name)
	}
	return out.Text, nil
}
