package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// A Plan describes the expected steps, cost and requests of a run, as far as they are known before it starts.
type Plan struct {
	Workflow string      `json:"workflow"`
	File     string      `json:"file,omitempty"`
	Steps    []Step      `json:"steps"`
	Agents   []PlanAgent `json:"agents"`
	Tools    []string    `json:"tools"` // that steps call; agents have others besides
	// Needs are the calls of steps that are asked about on a terminal and denied without one. Agents ask as they go.
	Needs     []PlanNeed  `json:"needs,omitempty"`
	Workflows []string    `json:"workflows"` // that steps run
	Width     int         `json:"width,omitempty"`
	Beside    int         `json:"agents_at_once,omitempty"` // of a recipe: how many of those at once may be agents
	Budget    *PlanBudget `json:"budget,omitempty"`
	// AtMost is the largest number of agents that steps start. Sub-agents are not counted. If the
	// number is unknown, AtMost is nil and Why holds the reason.
	AtMost *int64   `json:"agents_at_most"`
	Why    string   `json:"agents_why,omitempty"`
	Cost   *float64 `json:"cost_at_most"` // US dollars; nil if that is not known
	// Judgements are the steps that need a language model: the model offline cannot do them.
	Judgements []recipe.Judgement `json:"judgements,omitempty"`
	CostWhy    string             `json:"cost_why"` // why it is not, or what bounds it
}

// A PlanAgent is an agent of a step, or of a workflow.
type PlanAgent struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"` // "" if none is configured
}

// A PlanNeed is a call that does not simply happen.
type PlanNeed struct {
	Step     string        `json:"step"`
	Tool     string        `json:"tool"`
	Subject  string        `json:"subject,omitempty"`
	Decision tool.Decision `json:"decision"`       // ask or deny
	Open     bool          `json:"open,omitempty"` // it depends on arguments that are known when it runs
	Reason   string        `json:"reason,omitempty"`
	Always   string        `json:"always,omitempty"` // a rule that would allow it
}

func (n *PlanNeed) String() string {
	s := n.Step + ": " + strings.TrimRight(n.Tool+" "+n.Subject, " ")
	switch {
	case n.Open:
		return s + " (by its arguments, which are known when it runs)"
	case n.Decision == tool.Deny:
		return s + " (denied: " + n.Reason + ")"
	case n.Always != "":
		return s + " (asks, and without a terminal is denied; --allow " + clean.Shell(n.Always) + ")"
	}
	return s + " (asks, and without a terminal is denied)"
}

// need returns the rules' decision on the call of a step, or nil if the call is allowed.
func (h *Host) need(s *recipe.Step, inputs map[string]any) *PlanNeed {
	n := &PlanNeed{Step: s.ID, Tool: s.Tool.Name}
	args := json.RawMessage("{}")
	if s.Tool.Args != nil {
		v, err := s.Tool.Args.Resolve(&recipe.Scope{Inputs: inputs, Step: func(string) (*recipe.Result, bool) { return nil, false }})
		if err == nil {
			args, err = json.Marshal(v)
		}
		if n.Open = err != nil; n.Open {
			args = json.RawMessage("{}")
		}
	}
	policy, err := h.read().project.policy()
	if err != nil {
		return nil // what is wrong with the rules is said elsewhere
	}
	v := policy.Check(&tool.Tool{Name: s.Tool.Name}, &tool.Call{Args: args})
	if v.Decision == tool.Allow {
		return nil
	}
	n.Decision, n.Reason, n.Always = v.Decision, v.Reason, v.Always
	never := func(r permit.Rule) bool {
		return r.Decision == tool.Deny && r.Tool == n.Tool && r.Pattern == "" && r.Ignored == ""
	}
	n.Open = n.Open && v.Always != n.Tool && !slices.ContainsFunc(policy.List(), never) // else no argument changes the decision
	if n.Open {
		n.Decision = tool.Ask
	} else {
		if n.Subject = transcript.Line(v.Subject); n.Subject == n.Tool {
			n.Subject = ""
		}
	}
	return n
}

// A PlanBudget holds the limits of a run.
type PlanBudget struct {
	Tokens int64   `json:"tokens,omitempty"`
	Cost   float64 `json:"cost,omitempty"`
	Turns  int64   `json:"turns,omitempty"`
	Calls  int64   `json:"calls,omitempty"`
	Agents int64   `json:"agents,omitempty"`
	Time   string  `json:"time,omitempty"`
}

// PlanOptions are the options of a planned run. Nil means the defaults.
type PlanOptions struct {
	Inputs json.RawMessage
	Model  string // of all agents, "" for those that they have
	Budget *runlog.Budget
	Agents int // at once, see superstep.Options
}

// Plan returns the plan of a run of a workflow. It calls no model, starts nothing and records no run.
func (h *Host) Plan(w *workflow.Workflow, opt *PlanOptions) (*Plan, error) {
	if opt == nil {
		opt = &PlanOptions{}
	}
	p := &Plan{Workflow: w.Name, Agents: []PlanAgent{}, Tools: []string{}, Workflows: []string{}}
	var err error
	if b := h.bundle(w.Name); b != nil {
		if err = h.checkBundle(b); err == nil {
			h.planRecipe(p, b, opt)
		}
	} else {
		err = h.planGraph(p, w, opt.Inputs, opt.Model)
	}
	if err != nil {
		return nil, err
	}
	p.Judgements = h.Judgements(w)
	h.limit(p, w, opt.Budget)
	h.price(p)
	return p, nil
}

func (h *Host) planRecipe(out *Plan, b *catalog.Bundle, opt *PlanOptions) {
	r := b.Main
	out.File, out.Steps, out.Width = r.File, recipeSteps(r), r.Concurrency
	if most := h.cfg.Concurrency; most > 0 {
		out.Width = min(out.Width, most)
	}
	if out.Beside = opt.Agents; out.Beside <= 0 {
		out.Beside = max(journal.DefaultAgents, min(r.AtOnce, out.Width))
	}
	out.Beside = min(out.Beside, out.Width)
	c := &counting{b: b, main: r, inputs: inputValues(r, opt.Inputs)}
	n := c.block(slices.Concat(r.Steps, r.Handlers), 0)
	if c.why == "" {
		out.AtMost = &n
	}
	out.Why = c.why
	for _, x := range append([]*recipe.Recipe{r}, b.Uses...) {
		x.Walk(func(s *recipe.Step, _ int) bool {
			switch {
			case s.Agent != nil:
				agent := PlanAgent{Name: s.Agent.Name, Model: h.modelOf(x, s, opt.Model)}
				if !slices.Contains(out.Agents, agent) {
					out.Agents = append(out.Agents, agent)
				}
			case s.Tool != nil:
				if !slices.Contains(out.Tools, s.Tool.Name) {
					out.Tools = append(out.Tools, s.Tool.Name)
				}
				var given map[string]any // those of another recipe are known when it is called
				if x == r {
					given = c.inputs
				}
				if n := h.need(s, given); n != nil {
					out.Needs = append(out.Needs, *n)
				}
			}
			return true
		})
	}
	for _, x := range b.Uses {
		out.Workflows = append(out.Workflows, x.Name)
	}
	out.Workflows = append(out.Workflows, b.Others...)
}

// modelOf returns the model that an agent of a step would use. The first one set applies: the
// run's, the step's, the recipe's, the agent's, the project's, or the configured one. It is "" if
// there is none.
func (h *Host) modelOf(r *recipe.Recipe, s *recipe.Step, given string) string {
	p := h.read().project
	if found, err := p.prepare(s.Agent.Name, cmp.Or(given, s.Agent.Model, r.Model)); err == nil {
		return found.model
	}
	return h.asked(r, s, given) // it cannot be opened, but perhaps it is named
}

// inputValues returns the inputs of a run by name, with defaults for missing ones.
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

// counting computes an upper bound on the number of agents that the steps of a recipe start.
type counting struct {
	b      *catalog.Bundle
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

// items returns the largest number of items that a foreach can have.
func (c *counting) items(s *recipe.Step) int64 {
	// An expression that needs more than inputs cannot be resolved yet.
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

// longest returns the maximum length of the list behind a reference: from the schema of a step's output, or from the number of items of a foreach.
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
func (h *Host) planGraph(out *Plan, w *workflow.Workflow, inputs json.RawMessage, model string) error {
	if w.Flow == nil {
		return &workflow.OpaqueError{Name: w.Name}
	}
	flow, err := w.Flow(inputs)
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
	out.Steps = []Step{}
	for _, n := range shape.Nodes {
		kind := n.Kind
		if kind == "" {
			kind = "node"
		}
		s := Step{ID: n.Name, Kind: kind, After: after[n.Name]}
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
	if !w.NoModel {
		out.Agents = append(out.Agents, h.planLead(w, inputs, model))
	}
	agents, known := shape.Agents()
	if known && agents > 0 {
		m := int64(agents)
		out.AtMost, out.Why = &m, ""
	}
	if w.NoModel && known && agents == 0 {
		out.AtMost, out.Why = new(int64), ""
	}
	return nil
}

// planLead returns the lead agent of a built-in workflow. Inputs may name the agent.
func (h *Host) planLead(w *workflow.Workflow, inputs json.RawMessage, model string) PlanAgent {
	var in struct{ Agent, Model string }
	_ = json.Unmarshal(inputs, &in) // there may be no such inputs
	x := PlanAgent{Name: cmp.Or(in.Agent, w.Name), Model: cmp.Or(in.Model, model)}
	if p := h.read().project; p != nil {
		if found, err := p.prepare(x.Name, x.Model); err == nil {
			x.Model = found.model
		}
	}
	x.Model = cmp.Or(x.Model, h.cfg.Model)
	return x
}

// limit applies the limits of the recipe and the flags.
func (h *Host) limit(out *Plan, w *workflow.Workflow, given *runlog.Budget) {
	var b runlog.Budget
	if w.Budget != nil {
		b = *w.Budget
	}
	if given != nil {
		b = given.Over(b)
	}
	if b == (runlog.Budget{}) {
		return
	}
	out.Budget = &PlanBudget{Tokens: b.Tokens, Cost: float64(b.Money) / 1e6, Turns: b.Turns, Calls: b.Calls, Agents: b.Agents}
	if b.Wall > 0 {
		out.Budget.Time = b.Wall.String()
	}
	switch {
	case b.Agents > 0 && out.AtMost == nil:
		out.AtMost, out.Why = &b.Agents, "the run pauses there"
	case b.Agents > 0 && *out.AtMost > b.Agents:
		out.Why = fmt.Sprintf("over the limit of %d, at which the run pauses, or refuses a foreach that is too wide", b.Agents)
	}
}

// price computes the maximum cost of a run, where it can be known.
func (h *Host) price(out *Plan) {
	bound := func(dollars float64, why string) { out.Cost, out.CostWhy = &dollars, why }
	budget := out.Budget
	switch {
	case len(out.Agents) == 0 && len(out.Workflows) == 0 && out.AtMost != nil:
		bound(0, "no step asks a model")
	case len(out.Agents) > 0 && !slices.ContainsFunc(out.Agents, func(x PlanAgent) bool { return cmp.Or(x.Model, h.cfg.Model) != offline.Name }):
		bound(0, "the model offline is a part of the program")
	case budget != nil && budget.Cost > 0 && budget.Tokens == 0 && h.unpriced(out) != "":
		out.CostWhy = fmt.Sprintf("not known: model %s tells no price, so a limit on money does not hold for it", h.unpriced(out))
	case budget != nil && budget.Cost > 0:
		bound(budget.Cost, "the run pauses there")
	case budget != nil && budget.Tokens > 0:
		dollars, err := h.dearest(out, budget.Tokens)
		if err != nil {
			out.CostWhy = "not known: " + err.Error()
			return
		}
		bound(dollars, fmt.Sprintf("%s at the price of the dearest model", inwords.Plural(int(budget.Tokens), "token")))
	default:
		out.CostWhy = "not known: models read and write as much as they want; bound it with --max-cost or --max-tokens"
	}
}

// unpriced returns the first model of the plan whose cost cannot be counted, "" if there is none. What agents of other programs report is counted.
func (h *Host) unpriced(out *Plan) string {
	for _, x := range out.Agents {
		if x.Model == "" || isExternal(x.Model) {
			continue
		}
		if _, info, err := h.OpenModel(x.Model); err == nil && info.Price == nil {
			return info.Name
		}
	}
	return ""
}

// dearest returns what so many tokens cost with the dearest of the models.
func (h *Host) dearest(out *Plan, tokens int64) (float64, error) {
	names := map[string]bool{}
	for _, x := range out.Agents {
		names[cmp.Or(x.Model, h.cfg.Model)] = true
	}
	if len(names) == 0 {
		names[h.cfg.Model] = true
	}
	most := 0.0
	for name := range names {
		_, info, err := h.OpenModel(name)
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

// A Step describes a step in a list.
type Step struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind"`
	Uses  string   `json:"uses,omitempty"` // the agent, tool or workflow
	After []string `json:"depends_on,omitempty"`
	Notes []string `json:"notes,omitempty"` // what else there is to know: when, gate, retry
	Steps []Step   `json:"steps,omitempty"`
}

// recipeSteps lists the steps of a recipe, and its handlers.
func recipeSteps(r *recipe.Recipe) []Step {
	out := stepsOf(r.Steps)
	for _, h := range stepsOf(r.Handlers) {
		h.Kind = "handler"
		h.Notes = []string{map[string]string{recipe.OnFailure: "after a failure", recipe.OnCancel: "after a cancellation", recipe.Always: "after any end"}[h.ID]}
		out = append(out, h)
	}
	return out
}

// stepsOf lists steps.
func stepsOf(steps []*recipe.Step) []Step {
	var out []Step
	for _, s := range steps {
		p := Step{ID: s.ID, Kind: s.Kind(), After: s.DependsOn, Notes: stepNotes(s)}
		switch {
		case s.Agent != nil:
			p.Uses = s.Agent.Name
		case s.Tool != nil:
			p.Uses = s.Tool.Name
		case s.Workflow != nil:
			p.Uses = s.Workflow.Name
		}
		if body := s.Body(); body != nil {
			p.Steps = stepsOf(body.Steps)
		}
		out = append(out, p)
	}
	return out
}

func stepNotes(s *recipe.Step) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	width := 0
	switch {
	case s.Parallel != nil:
		width = s.Parallel.Width
	case s.Foreach != nil:
		note("for each %s", s.Foreach.As)
		width = s.Foreach.Width
	case s.Loop != nil && s.Loop.Until != nil:
		note("at most %s, until %s", inwords.Plural(s.Loop.Max, "round"), s.Loop.Until)
	case s.Loop != nil:
		note("%s", inwords.Plural(s.Loop.Max, "round"))
	case s.Agent != nil && s.Agent.Model != "":
		note("model %s", s.Agent.Model)
	case s.Value != nil:
		note("%s", s.Value)
	case s.Tool != nil && s.Tool.Effects != "":
		note("effects %s", s.Tool.Effects)
	}
	if width > 0 {
		note("%d at a time", width)
	}
	if s.When != nil {
		note("when %s", s.When)
	}
	if s.Gate != nil {
		note("a person lets it go on")
	}
	if s.Output != nil {
		note("checked output")
	}
	if s.Retry != nil {
		note("%d attempts", s.Retry.Attempts)
	}
	if s.Timeout > 0 {
		note("at most %s", inwords.Brief(s.Timeout))
	}
	if s.OnError != "" && s.OnError != "continue" {
		note("on error %s", s.OnError)
	}
	return out
}
