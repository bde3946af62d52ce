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
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// agent runs an agent.
func (w *work) agent(ctx context.Context, prompt string) (g given, err error) {
	s := w.step
	def, err := w.crew.Agent(s.Agent.Name, modelOf(w.recipe, s))
	if err != nil {
		return g, err
	}
	one := *def
	if s.Agent.Turns > 0 {
		one.Limits.Turns = s.Agent.Turns
	}
	wrapped := false
	if s.Output != nil {
		one.Schema, wrapped = answering(s.Output)
		if one.Again = s.Tries; s.Tries == 0 {
			one.Again = -1
		}
	}
	if one.Model == nil {
		return g, fmt.Errorf("agent %s has no model", one.Name)
	}
	out, err := one.RunAgain(ctx, w.task.Scope(), &agent.Work{Prompt: prompt, Seen: w.took, Links: w.links, State: w.seen, Stopped: w.task.Stopped()})
	switch {
	case err != nil:
	case s.Output != nil:
		g.output, err = unwrapped(out.Args, wrapped)
	case out.Stop == agent.StopLimit:
		err = &agent.LimitError{Agent: one.Name, Turns: out.Turns}
	case out.Stop == agent.StopCut:
		err = fmt.Errorf("agent %s: the provider cut its last answer off; ask for less, or use another model", one.Name)
	default:
		g.output, err = json.Marshal(out.Text)
	}
	return g, err
}

// wrapper is the field in which an agent returns a value that is not an object, since providers
// accept only schemas of objects.
const wrapper = "result"

// answering returns the schema for the answer of an agent.
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

func unwrapped(args json.RawMessage, wrapped bool) (json.RawMessage, error) {
	if !wrapped {
		return args, nil
	}
	var in map[string]json.RawMessage
	err := json.Unmarshal(args, &in)
	return orNull(in[wrapper]), err
}

// maxOutput is the number of bytes of a tool's result that are kept.
const maxOutput = 1 << 20

// tool calls a tool in the way of an agent that may call only this one.
func (w *work) tool(ctx context.Context, args json.RawMessage) (g given, err error) {
	s := w.step
	set, err := w.one(ctx)
	if err != nil {
		return g, err
	}
	if was := w.task.Scope().Failed(w.task.Attempt()); was != nil && w.task.Scope().Recorded(strings.TrimPrefix(w.try()+"/"+agent.FirstCall, "/")) == nil {
		return g, &journal.ReplayedError{Text: was.Error} // before the call: there was no such tool
	}
	one := set.Tools()[0]
	caller := &agent.Agent{Name: s.ID, Tools: set}
	res, err := caller.Call(ctx, w.task.Scope(), &agent.Work{Key: w.try(), Seen: w.took, Links: w.links, State: w.seen, Stopped: w.task.Stopped(), Raw: true},
		model.Call{ID: s.ID, Name: one.Name, Args: args})
	if err != nil {
		return g, err
	}
	if res.Error {
		return g, fmt.Errorf("tool %s: %s", one.Name, res.Text)
	}
	if len(res.Text) > maxOutput {
		return g, fmt.Errorf("tool %s gave over 1 MiB, which is too much for a step; ask it for less", one.Name)
	}
	wanted := s.Output
	if wanted == nil {
		wanted = one.Output
	}
	g.output, err = data(res.Text, wanted)
	return g, err
}

// one returns a set with the tool of the step. If only the tool declares its output schema, that is
// recorded, so that a replay does not need the tool.
func (w *work) one(ctx context.Context) (*tool.Set, error) {
	s, scope, key := w.step, w.task.Scope(), strings.TrimPrefix(w.try()+"/tool", "/")
	made := &tool.Tool{Name: s.Tool.Name, Input: &jsonschema.Schema{Type: "object"}, Whole: true}
	made.Run = func(context.Context, *tool.Call) (string, error) { return "", errors.New("a replay calls no tools") }
	declares := false
	if was := scope.Recorded(key); was != nil {
		if err := json.Unmarshal(was.Input, &made.Output); err != nil {
			return nil, err
		}
		declares = made.Output != nil
	}
	set, err := tool.NewSet(made)
	if err != nil {
		return nil, err
	}
	err = scope.Afresh(func() (err error) {
		if _, ok := w.crew.Tools.Get(s.Tool.Name); !ok && w.crew.Unknown != nil {
			return errors.New(w.crew.Unknown(s.Tool.Name))
		}
		if set, err = w.kit.tool(w.crew.Tools, s.Tool.Name, tool.Effect(s.Tool.Effects)); err == nil {
			made = set.Tools()[0]
			declares = made.Output != nil && s.Output == nil
		}
		return err
	})
	if err == nil && declares {
		err = w.declare(ctx, key, made)
	}
	return set, err
}

// declare records the output schema of a tool.
func (w *work) declare(ctx context.Context, key string, t *tool.Tool) error {
	_, err := w.task.Scope().Do(ctx, &journal.Effect{
		Key: key, Kind: "note", Name: t.Name, Input: t.Output, Inside: true,
		Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
	})
	return err
}

// try returns the key of the call in this attempt. Failed calls are in the log, so another attempt
// is a new call. A call whose outcome is unknown is resumed according to its effect.
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

// kit holds the tools that the steps of a run use, so that each is checked once.
type kit struct {
	mu   sync.Mutex
	sets map[kitKey]*tool.Set
}

type kitKey struct {
	name   string
	effect tool.Effect
}

// tool returns a set with one tool, whose result is not truncated and whose effect is at least as
// strict as the recipe demands.
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
	set = set.Guarded(all.Guard())
	k.sets[kitKey{name, effect}] = set
	return set, nil
}

// stricter returns the stricter of two effects: a recipe cannot weaken the effect that a tool
// declares.
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
	final, err := w.whole(ctx, p, r.Name, &r.Block, nil, 0)
	if err == nil {
		g.output, err = p.output(&r.Block, final.State, nil)
	}
	if err != nil {
		return g, fmt.Errorf("%s: %w", r.Name, err)
	}
	w.remains(&g, final.Skipped)
	return g, nil
}

// host runs a workflow of the host.
func (w *work) host(ctx context.Context, name string, inputs json.RawMessage) (g given, err error) {
	n := graph.Call("call", name,
		func(results) (any, error) { return inputs, nil },
		func(output json.RawMessage) (amount, error) { return amount{Output: output}, nil })
	if n.Err != nil {
		return g, n.Err
	}
	out, err := n.Run(ctx, w.task, w.state)
	return given{output: out.Output}, err
}

// ask asks the user a question.
func (w *work) ask(ctx context.Context, question string) (g given, err error) {
	a := w.step.Ask
	q := &runlog.Question{Key: "answer", Kind: runlog.QuestionAsk, Header: a.Header, Text: question, Options: a.Options, About: a.About, Default: a.Default}
	if a.Form != nil {
		q.Kind = runlog.QuestionForm
	}
	if q.Schema, err = json.Marshal(a.Schema()); err != nil {
		return g, err
	}
	answer, err := w.task.Scope().Ask(ctx, q)
	if errors.Is(err, journal.ErrDenied) && a.Default != nil {
		answer, err = a.Default, nil
	}
	if err == nil && a.Form != nil {
		answer, err = settle(&recipe.Recipe{Name: w.step.ID, Inputs: a.Form}, answer)
	}
	return given{output: answer}, err
}

// value evaluates an expression.
func (w *work) value(context.Context) (g given, err error) {
	v, err := w.step.Value.Value(w.tracked())
	if err != nil {
		return g, about("value", err)
	}
	if g.output, err = json.Marshal(v); err == nil && len(g.output) > maxOutput {
		err = errors.New("it gives over 1 MiB; filter it, or take a part")
	}
	return g, about("value", err)
}

// The answers at a gate.
const (
	approve = "approve"
	edit    = "edit"
	reject  = "reject"
)

// errRejected is the error of a step that a user rejected.
var errRejected = errors.New("rejected by operator")

// pass waits before a step until a user has approved it.
func (w *work) pass(ctx context.Context, j *job) error {
	wrong := ""
	for n := 1; ; n++ {
		q, err := w.gate(j, wrong)
		if err != nil {
			return w.quotes(ctx, err)
		}
		if n > 1 {
			q.Key = fmt.Sprintf("%s-%d", q.Key, n)
		}
		if key := w.task.Scope().Own(q.Key); key != q.Key { // what the file of an imported run asks and answers lets nothing go on
			if err := w.task.Scope().Withdraw(ctx, "import", q.Key); err != nil {
				return err
			}
			q.Key = key
		}
		raw, err := w.task.Scope().Ask(ctx, q)
		if errors.Is(err, journal.ErrDenied) {
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

// gate returns the question of a gate: a full description of the pending action, and a form for the
// answer. Wrong is why the last answer was refused.
func (w *work) gate(j *job, wrong string) (*runlog.Question, error) {
	s := w.step
	var b strings.Builder
	what := map[string]string{
		"agent": "agent", "tool": "tool", "workflow": "workflow", "ask": "a question", "value": "a value",
		"parallel": "steps side by side", "foreach": "steps for each item", "loop": "a loop",
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
			_, _ = s.Gate.Message.Render(w.tracked())
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
	return &runlog.Question{Key: "gate", Kind: runlog.QuestionGate, Text: b.String(), Options: options, Schema: schema}, err
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
