package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

// planJSON is what a run would do, as far as that is known before it does anything.
type planJSON struct {
	Workflow  string      `json:"workflow"`
	File      string      `json:"file,omitempty"`
	Steps     []planStep  `json:"steps"`
	Agents    []planAgent `json:"agents"`
	Tools     []string    `json:"tools"`     // that steps call; agents have others besides
	Workflows []string    `json:"workflows"` // that steps run
	Width     int         `json:"width,omitempty"`
	Budget    *budgetJSON `json:"budget,omitempty"`
	// AtMost is how many agents steps begin, not counting those that agents begin. Nil if that
	// is not known, and then Why.
	AtMost  *int64   `json:"agents_at_most"`
	Why     string   `json:"agents_why,omitempty"`
	Cost    *float64 `json:"cost_at_most"` // US dollars; nil if that is not known
	CostWhy string   `json:"cost_why"`     // why it is not, or what bounds it
}

type planAgent struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"` // "" if none is configured
}

type budgetJSON struct {
	Tokens int64   `json:"tokens,omitempty"`
	Cost   float64 `json:"cost,omitempty"`
	Turns  int64   `json:"turns,omitempty"`
	Calls  int64   `json:"calls,omitempty"`
	Agents int64   `json:"agents,omitempty"`
	Time   string  `json:"time,omitempty"`
}

// plan says what a run would do, with the model of all agents if one was named. It calls no model, starts
// nothing and records no run.
func (a *app) plan(w *workflow.Workflow, inputs json.RawMessage, r *running, model string) error {
	p := &planJSON{Workflow: w.Name, Agents: []planAgent{}, Tools: []string{}, Workflows: []string{}}
	var err error
	if b := a.planned(w.Name); b != nil {
		if err = a.check(a.recipes.project, b); err == nil {
			a.planRecipe(p, b, inputs, model)
		}
	} else {
		err = a.planGraph(p, w, inputs)
	}
	if err != nil {
		return err
	}
	a.limit(p, w, r)
	a.price(p)
	if a.programs() {
		return a.out.json(p, a.set.output == "json")
	}
	a.printPlan(p)
	return nil
}

// planned is the recipe of a workflow, with all that it uses; nil for one that is no recipe.
func (a *app) planned(name string) *library.Bundle {
	p := a.recipes.project
	if p == nil {
		return nil
	}
	if e := a.recipes.file; e != nil && e.Name == name {
		b, err := p.BundleOf(e.Recipe)
		if err != nil {
			return nil
		}
		return b
	}
	b, err := p.Bundle(name)
	if err != nil {
		return nil
	}
	return b
}

func (a *app) planRecipe(out *planJSON, b *library.Bundle, inputs json.RawMessage, model string) {
	r := b.Main
	out.File, out.Steps, out.Width = r.File, planSteps(r.Steps), r.Concurrency
	c := &counting{b: b, main: r, inputs: inputValues(r, inputs)}
	n := c.block(r.Steps, 0)
	if c.why == "" {
		out.AtMost = &n
	}
	out.Why = c.why
	for _, x := range append([]*recipe.Recipe{r}, b.Uses...) {
		x.Walk(func(s *recipe.Step, _ int) bool {
			switch {
			case s.Agent != nil:
				agent := planAgent{Name: s.Agent.Name, Model: a.modelOf(x, s, model)}
				if !slices.Contains(out.Agents, agent) {
					out.Agents = append(out.Agents, agent)
				}
			case s.Tool != nil && !slices.Contains(out.Tools, s.Tool.Name):
				out.Tools = append(out.Tools, s.Tool.Name)
			}
			return true
		})
	}
	for _, x := range b.Uses {
		out.Workflows = append(out.Workflows, x.Name)
	}
	out.Workflows = append(out.Workflows, b.Others...)
}

// modelOf is the model that an agent of a step would have: the one given with the run, the step's, the
// recipe's, its own, or the one that is configured. It is "" if there is none.
func (a *app) modelOf(r *recipe.Recipe, s *recipe.Step, given string) string {
	p := a.recipes.project
	asked := cmp.Or(given, s.Agent.Model, r.Model)
	if found, err := p.Prepare(s.Agent.Name, asked); err == nil {
		return found.Model
	}
	if asked == "" { // it cannot be opened, but perhaps it is named
		if d, _, err := p.Definition(s.Agent.Name); err == nil {
			asked = d.Model
		}
	}
	return cmp.Or(asked, a.set.model)
}

// inputValues are the inputs of a run by name, with the defaults of those that are not given.
func inputValues(r *recipe.Recipe, inputs json.RawMessage) map[string]any {
	out := map[string]any{}
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(inputs, &raw) // they were checked, or are not given
	for _, in := range r.Inputs {
		value := in.Default
		if raw[in.Name] != nil {
			value = raw[in.Name]
		}
		if value == nil {
			continue
		}
		if v, err := recipe.Decode(value); err == nil {
			out[in.Name] = v
		}
	}
	return out
}

// counting finds out how many agents the steps of a recipe begin at most.
type counting struct {
	b      *library.Bundle
	main   *recipe.Recipe // whose steps they are
	inputs map[string]any
	why    string // that is not known
}

const manyAgents = 1_000_000_000

func (c *counting) block(steps []*recipe.Step, depth int) int64 {
	var n int64
	for _, s := range steps {
		n = min(manyAgents, n+c.step(s, depth))
	}
	return n
}

func (c *counting) step(s *recipe.Step, depth int) int64 {
	var n int64
	switch {
	case s.Agent != nil:
		n = 1
	case s.Workflow != nil:
		n = c.called(s.Workflow.Name, depth)
	case s.Parallel != nil:
		n = c.block(s.Parallel.Steps, depth)
	case s.Loop != nil:
		n = c.block(s.Loop.Steps, depth) * int64(s.Loop.Max)
	case s.Foreach != nil:
		if n = c.block(s.Foreach.Steps, depth); n > 0 {
			n *= c.items(s)
		}
	}
	if s.Retry != nil && s.Retry.Attempts > 1 {
		n *= int64(s.Retry.Attempts)
	}
	return min(n, manyAgents)
}

// items is how many there are of a foreach at most.
func (c *counting) items(s *recipe.Step) int64 {
	// What needs more than inputs cannot be resolved yet.
	v, err := s.Foreach.In.Resolve(&recipe.Scope{Inputs: c.inputs, Step: func(string) (*recipe.Result, bool) { return nil, false }})
	if list, ok := v.([]any); err == nil && ok {
		return int64(len(list))
	}
	var written []json.RawMessage
	if json.Unmarshal([]byte(s.Foreach.In.String()), &written) == nil { // with references in it
		return int64(len(written))
	}
	if refs := s.Foreach.In.Refs(); len(refs) == 1 {
		if n, ok := c.longest(refs[0]); ok {
			return n
		}
	}
	c.unknown(fmt.Sprintf("step %s has as many as there are items when it runs", s.ID))
	return 1
}

// longest is how long the list can be at most that a reference stands for: as the schema of a
// step's output says, or as many items as a foreach has.
func (c *counting) longest(ref recipe.Ref) (int64, bool) {
	path := ref.Path()
	if len(path) < 3 || path[0] != "steps" || path[2] != "output" {
		return 0, false
	}
	var of *recipe.Step
	c.main.Walk(func(s *recipe.Step, _ int) bool {
		if s.ID == path[1] {
			of = s
		}
		return of == nil
	})
	if of == nil {
		return 0, false
	}
	if of.Foreach != nil && of.Foreach.Output == nil && len(path) == 3 {
		before := c.why
		n := c.items(of)
		return n, c.why == before
	}
	schema := of.Output
	for _, name := range path[3:] {
		if schema == nil {
			return 0, false
		}
		schema = schema.Properties[name]
	}
	if schema == nil || schema.Type != "array" || schema.MaxItems == nil {
		return 0, false
	}
	return int64(*schema.MaxItems), true
}

func (c *counting) called(name string, depth int) int64 {
	r := c.b.Names[name]
	if r == nil || depth > len(c.b.Uses) {
		c.unknown(fmt.Sprintf("workflow %s does not say how many it begins", name))
		return 0
	}
	inner := &counting{b: c.b, main: r, inputs: map[string]any{}} // those that the step gives are not known
	n := inner.block(r.Steps, depth+1)
	c.unknown(inner.why)
	return n
}

func (c *counting) unknown(why string) {
	if c.why == "" {
		c.why = why
	}
}

// planGraph is for workflows that are no recipes.
func (a *app) planGraph(out *planJSON, w *workflow.Workflow, inputs json.RawMessage) error {
	flow, err := graphOf(w, inputs)
	if err != nil {
		return err
	}
	shape := flow.Shape()
	after := map[string][]string{}
	for _, e := range shape.Edges {
		if !slices.Contains(after[e.To], e.From) && e.From != graph.Start {
			after[e.To] = append(after[e.To], e.From)
		}
	}
	out.Steps = []planStep{}
	agents := false
	for _, n := range shape.Nodes {
		kind := n.Kind
		if kind == "" {
			kind = "node"
		}
		agents = agents || kind == "agent"
		s := planStep{ID: n.Name, Kind: kind, After: after[n.Name]}
		if n.Most > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%d at a time", n.Most))
		}
		out.Steps = append(out.Steps, s)
		for _, name := range n.Uses {
			if !slices.Contains(out.Workflows, name) {
				out.Workflows = append(out.Workflows, name)
			}
		}
	}
	out.Why = "it is a part of the program, which decides that while it runs"
	if w.NoModel && !agents {
		out.AtMost, out.Why = new(int64), ""
	}
	return nil
}

// limit applies what the recipe and the flags allow at most.
func (a *app) limit(out *planJSON, w *workflow.Workflow, r *running) {
	var b runlog.Budget
	if w.Budget != nil {
		b = *w.Budget
	}
	if flags := r.budget(); flags != nil {
		b = flags.Over(b)
	}
	if b == (runlog.Budget{}) {
		return
	}
	out.Budget = &budgetJSON{Tokens: b.Tokens, Cost: float64(b.Money) / 1e6, Turns: b.Turns, Calls: b.Calls, Agents: b.Agents}
	if b.Wall > 0 {
		out.Budget.Time = b.Wall.String()
	}
	if b.Agents > 0 && (out.AtMost == nil || *out.AtMost > b.Agents) {
		out.AtMost, out.Why = &b.Agents, "" // the run pauses there
	}
}

// price says what a run costs at most, where that can be known.
func (a *app) price(out *planJSON) {
	bound := func(dollars float64, why string) { out.Cost, out.CostWhy = &dollars, why }
	budget := out.Budget
	switch {
	case len(out.Agents) == 0 && len(out.Workflows) == 0 && out.AtMost != nil:
		bound(0, "no step asks a model")
	case len(out.Agents) > 0 && !slices.ContainsFunc(out.Agents, func(x planAgent) bool { return cmp.Or(x.Model, a.set.model) != offline.Name }):
		bound(0, "the model offline is a part of the program")
	case budget != nil && budget.Cost > 0:
		bound(budget.Cost, "the run pauses there")
	case budget != nil && budget.Tokens > 0:
		dollars, err := a.dearest(out, budget.Tokens)
		if err != nil {
			out.CostWhy = "not known: " + err.Error()
			return
		}
		bound(dollars, fmt.Sprintf("%s at the price of the dearest model", plural(int(budget.Tokens), "token")))
	default:
		out.CostWhy = "not known: models read and write as much as they want; bound it with --max-cost or --max-tokens"
	}
}

// dearest is what so many tokens cost with the dearest of the models.
func (a *app) dearest(out *planJSON, tokens int64) (float64, error) {
	m, err := a.models()
	if err != nil {
		return 0, err
	}
	names := map[string]bool{}
	for _, x := range out.Agents {
		names[cmp.Or(x.Model, a.set.model)] = true
	}
	if len(names) == 0 {
		names[a.set.model] = true
	}
	most := 0.0
	for name := range names {
		_, info, err := m.Open(name)
		if err != nil {
			return 0, err
		}
		if info.Price == nil {
			return 0, fmt.Errorf("the price of %s is not known", info.Name)
		}
		most = max(most, info.Price.In, info.Price.Out, info.Price.Written)
	}
	return math.Ceil(most*float64(tokens)/1e4) / 100, nil
}

func (a *app) printPlan(p *planJSON) {
	head := transcript.Line(p.Workflow)
	if p.File != "" {
		head += "  " + transcript.Line(p.File)
	}
	a.out.line(head + "\n")
	a.printSteps(p.Steps)
	a.out.line("")
	line := func(label, text string) {
		if text != "" {
			a.out.line(fmt.Sprintf("%-10s %s", label, transcript.Line(text)))
		}
	}
	var agents []string
	for _, x := range p.Agents {
		agents = append(agents, x.Name+" ("+cmp.Or(x.Model, "no model is configured")+")")
	}
	line("agents", strings.Join(agents, ", "))
	line("tools", strings.Join(p.Tools, ", "))
	line("workflows", strings.Join(p.Workflows, ", "))
	if p.Width > 0 {
		line("width", fmt.Sprintf("%s at work at once", plural(p.Width, "step")))
	}
	if p.Budget != nil {
		line("budget", p.Budget.String())
	}
	if p.AtMost != nil {
		line("at most", plural(int(*p.AtMost), "agent")+", and those that they begin themselves")
	} else {
		line("at most", "not known how many agents: "+p.Why)
	}
	if p.Cost != nil {
		line("cost", fmt.Sprintf("at most $%.2f: %s", *p.Cost, p.CostWhy))
	} else {
		line("cost", p.CostWhy)
	}
	a.err.line("nothing ran, and no model was asked")
}

func (b *budgetJSON) String() string {
	var out []string
	add := func(n int64, what string) {
		if n > 0 {
			out = append(out, plural(int(n), what))
		}
	}
	if b.Cost > 0 {
		out = append(out, fmt.Sprintf("$%.2f", b.Cost))
	}
	add(b.Tokens, "token")
	add(b.Turns, "turn")
	add(b.Calls, "call")
	add(b.Agents, "agent")
	if d, err := time.ParseDuration(b.Time); err == nil && d > 0 {
		out = append(out, duration(d))
	}
	return strings.Join(out, ", ")
}
