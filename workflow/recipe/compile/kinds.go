package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

// agent has an agent work.
func (w *work) agent(ctx context.Context, prompt string) (g given, err error) {
	s := w.step
	def, err := w.crew.Agent(s.Agent.Name, modelOf(w.recipe, s))
	if err != nil {
		return g, err
	}
	one := *def
	wrapped := false
	if s.Output != nil {
		one.Schema, wrapped = answering(s.Output)
		if one.Again = s.Tries; s.Tries == 0 {
			one.Again = -1
		}
	}
	n := node.Agent(s.ID, &one, func(results) (string, error) { return prompt, nil }, func(_ results, out *agent.Outcome) (given, error) {
		switch {
		case s.Output != nil:
			return unwrapped(out.Args, wrapped)
		case out.Stop == agent.StopLimit:
			return given{}, &agent.LimitError{Agent: one.Name, Turns: out.Turns}
		case out.Stop == agent.StopCut:
			return given{}, fmt.Errorf("agent %s: the provider cut its last answer off; ask for less, or use another model", one.Name)
		}
		said, err := json.Marshal(out.Text)
		return given{output: said}, err
	})
	if n.Err != nil {
		return g, n.Err
	}
	return n.Run(ctx, w.task, w.state)
}

// wrapper is the field in which an agent gives what is no object, since providers take only
// schemas of objects.
const wrapper = "result"

// answering is the schema of what an agent is to answer.
func answering(s *jsonschema.Schema) (_ *jsonschema.Schema, wrapped bool) {
	if s.Type == "object" || s.Type == "" && len(s.Types) == 0 && len(s.Properties) > 0 {
		return s, false
	}
	inner := *s
	outer := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{wrapper: &inner}, Required: []string{wrapper},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, Defs: s.Defs, Definitions: s.Definitions,
	}
	inner.Defs, inner.Definitions, inner.ID, inner.Schema = nil, nil, "", ""
	return outer, true
}

func unwrapped(args json.RawMessage, wrapped bool) (given, error) {
	if !wrapped {
		return given{output: args}, nil
	}
	var in map[string]json.RawMessage
	err := json.Unmarshal(args, &in)
	return given{output: orNull(in[wrapper])}, err
}

// toModels is what a denial says to a model besides.
const toModels = "; go on without it, and say what you could not do"

// A deniedError says that a call was not allowed.
type deniedError struct{ error }

// Unwrap gives why the run fails, if it does.
func (*deniedError) Unwrap() error { return runlog.ErrDenied }

// maxOutput is how much of what a tool gives is kept.
const maxOutput = 1 << 20

// tool calls a tool, as an agent would that may do nothing else.
func (w *work) tool(ctx context.Context, args json.RawMessage) (g given, err error) {
	s := w.step
	if _, ok := w.crew.Tools.Get(s.Tool.Name); !ok && w.crew.Unknown != nil {
		return g, errors.New(w.crew.Unknown(s.Tool.Name))
	}
	set, err := w.kit.tool(w.crew.Tools, s.Tool.Name, tool.Effect(s.Tool.Effects))
	if err != nil {
		return g, err
	}
	one := set.Tools()[0]
	caller := &agent.Agent{Name: s.ID, Tools: set, Gate: w.crew.Gate, OnAsk: w.crew.OnAsk, Remember: w.crew.Remember}
	res, err := caller.Call(ctx, w.task.Scope(), &agent.Work{Key: w.try(), State: w.seen, Stopped: w.task.Stopped()}, model.Call{ID: s.ID, Name: one.Name, Args: args})
	if err != nil {
		return g, err
	}
	if res.Error {
		err := fmt.Errorf("tool %s: %s", one.Name, strings.TrimSuffix(res.Text, toModels))
		if strings.HasPrefix(res.Text, "denied") {
			err = &deniedError{err}
		}
		return g, err
	}
	if len(res.Text) > maxOutput {
		return g, fmt.Errorf("tool %s gave over 1 MiB, which is too much for a step; ask it for less", one.Name)
	}
	wanted := s.Output
	if wanted == nil {
		wanted = one.Output
	}
	g.output, err = text(res.Text, wanted)
	return g, err
}

// try is the key of the call of this attempt. What failed before is in the log, so that another attempt is
// another call; but one whose outcome is not known is taken up again, as its effect demands.
func (w *work) try() string {
	key := func(n int) string {
		if n == 1 {
			return ""
		}
		return fmt.Sprintf("try-%d", n)
	}
	for n := 1; n < w.task.Attempt(); n++ {
		call := strings.TrimPrefix(key(n)+"/"+agent.FirstCall, "/")
		_, begun := w.task.Scope().Hint(call)
		if _, done := w.task.Scope().Done(call); begun && !done {
			return key(n)
		}
	}
	return key(w.task.Attempt())
}

// kit has the tools of a run as its steps use them, so that each is checked once.
type kit struct {
	mu   sync.Mutex
	sets map[kitKey]*tool.Set
}

type kitKey struct {
	name   string
	effect tool.Effect
}

// tool is a set of a tool alone, whose result is not cut and which is at least as careful as it is said to be.
func (k *kit) tool(all *tool.Set, name string, effect tool.Effect) (*tool.Set, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if set := k.sets[kitKey{name, effect}]; set != nil {
		return set, nil
	}
	def, ok := all.Get(name)
	if !ok {
		return nil, fmt.Errorf("there is no tool %s", name)
	}
	one := *def
	one.Whole, one.Effect = true, stricter(def.Effect, effect)
	set, err := tool.NewSet(&one)
	if err != nil {
		return nil, err
	}
	if k.sets == nil {
		k.sets = map[kitKey]*tool.Set{}
	}
	k.sets[kitKey{name, effect}] = set
	return set, nil
}

// stricter is the more careful of two effects; a recipe does not make light of what a tool says of itself.
func stricter(declared, said tool.Effect) tool.Effect {
	rank := map[tool.Effect]int{tool.Pure: 1, tool.Idempotent: 2, tool.Once: 3}
	if declared == "" {
		declared = tool.Once
	}
	if rank[said] > rank[declared] {
		return said
	}
	return declared
}

// call runs another recipe.
func (w *work) call(ctx context.Context, r *recipe.Recipe, inputs json.RawMessage) (g given, err error) {
	if err := (&workflow.Workflow{Name: r.Name, Inputs: recipe.InputSchema(r.Inputs)}).Check(inputs); err != nil {
		return g, err
	}
	in, err := values(r, inputs)
	if err != nil {
		return g, err
	}
	p := &play{machine: w.machine, recipe: r, crew: w.crew, kit: w.kit, inputs: in, slots: append(slots{newSlot(r.Concurrency)}, w.slots...)}
	output, final, err := p.block(ctx, r.Name, &r.Block, nil, p.nested(w.task, 0))
	if err != nil {
		return g, fmt.Errorf("%s: %w", r.Name, err)
	}
	return given{output, w.remains(final.Skipped)}, nil
}

// host runs a workflow of the host.
func (w *work) host(ctx context.Context, name string, inputs json.RawMessage) (g given, err error) {
	n := graph.Call("call", name,
		func(results) (any, error) { return inputs, nil },
		func(output json.RawMessage) (given, error) { return given{output: output}, nil })
	if n.Err != nil {
		return g, n.Err
	}
	return n.Run(ctx, w.task, w.state)
}

// ask asks a person.
func (w *work) ask(ctx context.Context, question string) (g given, err error) {
	a := w.step.Ask
	schema := &jsonschema.Schema{Type: "string"}
	switch {
	case a.Form != nil:
		schema = recipe.InputSchema(a.Form)
	case len(a.Options) > 0:
		for _, o := range a.Options {
			schema.Enum = append(schema.Enum, o)
		}
	}
	q := &runlog.Asked{Key: "answer", Question: question, Options: a.Options, Default: a.Default}
	if q.Schema, err = json.Marshal(schema); err != nil {
		return g, err
	}
	answer, err := w.task.Ask(ctx, q)
	if errors.Is(err, runlog.ErrDenied) && a.Default != nil {
		answer, err = a.Default, nil
	}
	if err == nil && a.Form != nil {
		answer, err = settle(&recipe.Recipe{Name: w.step.ID, Inputs: a.Form}, answer)
	}
	return given{output: answer}, err
}

// The answers at a gate.
const (
	approve = "approve"
	edit    = "edit"
	reject  = "reject"
)

// errRejected is why a step does not happen.
var errRejected = errors.New("rejected by operator")

// pass stops before a step until a person has let it go on.
func (w *work) pass(ctx context.Context, j *job) error {
	wrong := ""
	for n := 1; ; n++ {
		q, err := w.gate(j, wrong)
		if err != nil {
			return err
		}
		if n > 1 {
			q.Key = fmt.Sprintf("%s-%d", q.Key, n)
		}
		raw, err := w.task.Ask(ctx, q)
		if errors.Is(err, runlog.ErrDenied) {
			return graph.Halt(errRejected)
		}
		if err != nil {
			return err
		}
		decision, said := decided(raw)
		switch {
		case decision == approve:
			return nil
		case decision == edit && j.data == nil:
			j.text = said
			return nil
		case decision == edit:
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(said), &object); err == nil && object != nil {
				j.data = json.RawMessage(said)
				return nil
			}
			wrong = "What was given is no JSON object; nothing was done with it."
		case said != "":
			return graph.Halt(fmt.Errorf("%w: %s", errRejected, said))
		default:
			return graph.Halt(errRejected)
		}
	}
}

// gate is the question of a gate: what is about to happen, in full, and the answers as a form. Wrong is
// why the last answer could not be used.
func (w *work) gate(j *job, wrong string) (*runlog.Asked, error) {
	s := w.step
	var b strings.Builder
	what := map[recipe.Kind]string{
		recipe.KindAgent: "agent", recipe.KindTool: "tool", recipe.KindWorkflow: "workflow", recipe.KindAsk: "a question",
		recipe.KindParallel: "steps side by side", recipe.KindForeach: "steps for each item", recipe.KindLoop: "a loop",
	}[s.Kind()]
	switch {
	case s.Agent != nil:
		what += " " + s.Agent.Name
	case s.Tool != nil:
		what += " " + s.Tool.Name
	case s.Workflow != nil:
		what += " " + s.Workflow.Name
	}
	fmt.Fprintf(&b, "Go on with step %s (%s)?", s.ID, what)
	if wrong != "" {
		b.WriteString("\n\n" + wrong)
	}
	if s.Gate.Message != nil {
		m, err := s.Gate.Message.Render(w.scope)
		if err != nil {
			return nil, about("gate", err)
		}
		b.WriteString("\n\n" + m)
	}
	about := j.text
	if j.data != nil {
		about = string(j.data)
	}
	options := []string{approve, reject}
	forms := []any{
		map[string]any{"enum": options},
		map[string]any{"type": "string", "pattern": "^" + reject + ":"},
	}
	decisions := []string{approve, reject}
	properties := map[string]any{"reason": map[string]any{"type": "string", "description": "why it is rejected"}}
	if about != "" {
		b.WriteString("\n\n  " + strings.ReplaceAll(strings.TrimRight(about, "\n"), "\n", "\n  "))
		decisions = []string{approve, edit, reject}
		options = []string{approve, edit + ": …", reject}
		forms = append(forms, map[string]any{"type": "string", "pattern": "^" + edit + `:\s*([^\s…]|…\s*\S)`})
		text := map[string]any{"type": "string", "minLength": 1, "description": "with edit: what to go on with instead"}
		if j.data != nil {
			text["description"] = "with edit: what to go on with instead, a JSON object"
		}
		properties["text"] = text
	}
	properties["decision"] = map[string]any{"enum": decisions}
	forms = append(forms, map[string]any{
		"type": "object", "required": []string{"decision"}, "properties": properties, "additionalProperties": false,
		"if":   map[string]any{"properties": map[string]any{"decision": map[string]any{"const": edit}}},
		"then": map[string]any{"required": []string{"text"}},
	})
	schema, err := json.Marshal(map[string]any{"anyOf": forms})
	return &runlog.Asked{Key: "gate", Question: b.String(), Options: options, Schema: schema}, err
}

// decided reads the answer at a gate.
func decided(raw json.RawMessage) (decision, said string) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		decision, said, _ = strings.Cut(s, ":")
		if decision == edit {
			return edit, strings.TrimPrefix(said, " ")
		}
		return decision, strings.TrimSpace(said)
	}
	var o struct{ Decision, Text, Reason string }
	_ = json.Unmarshal(raw, &o) // what cannot be read rejects
	if o.Decision == edit {
		return edit, o.Text
	}
	return o.Decision, o.Reason
}
