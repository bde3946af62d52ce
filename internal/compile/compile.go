// Package compile turns recipes into workflows and runs them.
//
// A block of steps becomes a graph: a step is a node that reads the results of the steps it names,
// so that it starts the moment these are final, and every result is durable at once. Containers run
// their own graphs inside their task. A run pins its definition (the text of its recipe and of all
// recipes that it uses, and the digests of agents and tools), so that later changes do not affect
// it.
package compile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// A Bundle is a recipe with all recipes that it uses, directly and indirectly.
type Bundle struct {
	Main *recipe.Recipe
	Uses []*recipe.Recipe
}

// find returns the recipe that a step calls by a name, or nil if the name is not a recipe.
func (b *Bundle) find(name string) *recipe.Recipe {
	for _, r := range b.all() {
		if r.Name == name {
			return r
		}
	}
	for _, r := range b.all() {
		if slices.Contains(r.Aliases, name) {
			return r
		}
	}
	return nil
}

func (b *Bundle) all() []*recipe.Recipe { return append([]*recipe.Recipe{b.Main}, b.Uses...) }

// A Setting holds the folder of a run and its permissions. The run stores it. For an imported run
// only the Parts of the stored setting are used, for comparison.
type Setting struct {
	Dir   string   `json:"dir,omitempty"`    // the folder to work in, absolute
	Model string   `json:"model,omitempty"`  // of all agents, whatever the recipe says; "" for those it names
	Rules []string `json:"rules,omitempty"`  // what agents may do, such as "deny read_file(secret/**)"
	OnAsk string   `json:"on_ask,omitempty"` // what becomes of calls that need leave where nobody can be asked
	// Parts are the digests of the run's agents and tools, by the names users know. A run is not
	// resumed with other parts.
	Parts map[string]string `json:"parts,omitempty"`
}

// Needs lists the agents and tools that the steps of a bundle use.
type Needs struct {
	Agents []AgentNeed
	Tools  []string // of tool steps
}

// An AgentNeed is an agent of a step.
type AgentNeed struct{ Name, Model string } // the model is the one that the recipe says, "" for the agent's own

// Needs returns the agents and tools that the steps use, each once, in the order of the steps.
func (b *Bundle) Needs() Needs {
	var n Needs
	for _, r := range b.all() {
		r.Walk(func(s *recipe.Step, _ int) bool {
			switch {
			case s.Agent != nil:
				need := AgentNeed{s.Agent.Name, modelOf(r, s)}
				if !slices.Contains(n.Agents, need) {
					n.Agents = append(n.Agents, need)
				}
			case s.Tool != nil && !slices.Contains(n.Tools, s.Tool.Name):
				n.Tools = append(n.Tools, s.Tool.Name)
			}
			return true
		})
	}
	return n
}

func modelOf(r *recipe.Recipe, s *recipe.Step) string {
	if s.Agent.Model != "" {
		return s.Agent.Model
	}
	return r.Model
}

// A Crew holds the agents and tools that were started for the steps of a run.
type Crew struct {
	// Agent creates the agent of a name with a model; for "", the agent's own. It is called from
	// several goroutines.
	Agent func(name, model string) (*agent.Agent, error)
	Tools *tool.Set // for tool steps, whose Guard decides on calls; nil for none
	// Unknown returns the error for an unknown tool, with a remedy. If nil, the error only states
	// that the tool is unknown.
	Unknown func(name string) string
	Parts   map[string]string // see Setting, as they are now
	Close   func() error      // ends what was started; nil for nothing
}

// Options are the settings with which recipes are compiled.
type Options struct {
	Setting Setting // of runs that begin, before Prepare
	// Concurrency limits the steps of a run that execute at once, whatever its recipe says. If 0, the recipe decides.
	Concurrency int
	// Lazy compiles a recipe when it is first drawn or run, so that New returns no error about its graph.
	Lazy bool
	// Compiled, if non-nil, counts the compiled recipes.
	Compiled *atomic.Int64
	// Prepare checks whether a run with these needs is possible, and completes its setting. It
	// starts nothing. If nil, the setting does not change.
	Prepare func(n *Needs, s *Setting) error
	// Open returns the crew for a run that starts or is resumed. It is called only if the run needs
	// agents or tools.
	Open func(ctx context.Context, n *Needs, s *Setting) (*Crew, error)
}

// pinned is the stored definition of a run.
type pinned struct {
	Files   []file  `json:"files"` // of the recipes; the first one is the run's own
	Setting Setting `json:"setting,omitzero"`
}

type file struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// New creates a workflow from a recipe. The recipes have been checked: every workflow called by a step
// is in the bundle or known to the host of the run.
func New(b *Bundle, opt *Options) (*workflow.Workflow, error) {
	if b == nil || b.Main == nil {
		return nil, errors.New("there is no recipe")
	}
	o := Options{}
	if opt != nil {
		o = *opt
	}
	return build(b, &o, nil)
}

// Restore rebuilds the workflow pinned by a run.
func Restore(raw json.RawMessage, opt *Options) (*workflow.Workflow, error) {
	var p pinned
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("what the run has pinned: %w", err)
	}
	b, err := p.bundle()
	if err != nil {
		return nil, err
	}
	o := Options{}
	if opt != nil {
		o = *opt
	}
	return build(b, &o, &p.Setting)
}

// bundle reads the recipes that a run has stored.
func (p *pinned) bundle() (*Bundle, error) {
	if len(p.Files) == 0 {
		return nil, errors.New("the run has pinned no recipe")
	}
	b := &Bundle{}
	for i, f := range p.Files {
		r, problems := recipe.Parse(f.Name, []byte(f.Text))
		if err := problems.Err(); err != nil {
			return nil, fmt.Errorf("the recipe that the run has kept cannot be read by this version: %w", err)
		}
		if i == 0 {
			b.Main = r
		} else {
			b.Uses = append(b.Uses, r)
		}
	}
	return b, nil
}

// restore is like Restore, but reuses a definition that this process has just pinned.
func (m *machine) restore(raw json.RawMessage) (*workflow.Workflow, error) {
	var p pinned
	if json.Unmarshal(raw, &p) != nil || !slices.Equal(p.Files, m.files()) {
		return Restore(raw, m.opt)
	}
	same := *m
	same.kept = &p.Setting
	return same.workflow(), nil
}

// files returns the recipes in the form that a run stores.
func (m *machine) files() []file {
	var out []file
	for _, r := range m.bundle.all() {
		out = append(out, file{r.File, string(r.Source)})
	}
	return out
}

// build creates the workflow. Kept is the setting of a run that has begun. For a new run it is nil.
func build(b *Bundle, opt *Options, kept *Setting) (*workflow.Workflow, error) {
	m := &machine{bundle: b, opt: opt, needs: b.Needs(), kept: kept, drawn: &drawn{}}
	if !opt.Lazy {
		if err := m.draw(); err != nil {
			return nil, err
		}
	}
	return m.workflow(), nil
}

// workflow returns the workflow for hosts.
func (m *machine) workflow() *workflow.Workflow {
	r := m.bundle.Main
	w := &workflow.Workflow{
		Name: r.Name, Aliases: r.Aliases, Description: r.Description,
		Inputs: recipe.InputSchema(r.Inputs), NoModel: len(m.needs.Agents) == 0, Uses: m.hostCalls(), Budget: budget(r.Budget),
		Prepare: func(inputs json.RawMessage) (json.RawMessage, error) { return settle(r, inputs) },
		Pin:     func(json.RawMessage) (json.RawMessage, error) { return m.pin() },
		Restore: m.restore,
		Run:     m.run, Edit: edited, Adopt: m.adopt,
		Flow: func(json.RawMessage) (graph.Reading, error) {
			return m.look(r)
		},
	}
	return w
}

func budget(b *recipe.Budget) *runlog.Budget {
	if b == nil {
		return nil
	}
	return &runlog.Budget{Tokens: b.Tokens, Money: int64(b.Cost * 1e6), Turns: b.Turns, Calls: b.Calls, Agents: b.Agents, Wall: b.Time}
}

// settle adds the defaults to inputs.
func settle(r *recipe.Recipe, inputs json.RawMessage) (json.RawMessage, error) {
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(inputs, &given); err != nil {
		return nil, fmt.Errorf("workflow %q: its inputs: %w", r.Name, err)
	}
	for _, in := range r.Inputs {
		if _, ok := given[in.Name]; !ok && in.Default != nil {
			given[in.Name] = in.Default
		}
	}
	return json.Marshal(given)
}

// values returns the inputs for templates, in which every input is present.
func values(r *recipe.Recipe, inputs json.RawMessage) (map[string]any, error) {
	inputs, err := settle(r, inputs)
	if err != nil {
		return nil, err
	}
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(inputs, &given); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, in := range r.Inputs {
		if raw, ok := given[in.Name]; ok {
			if out[in.Name], err = recipe.Decode(raw); err != nil {
				return nil, fmt.Errorf("workflow %q: input %s: %w", r.Name, in.Name, err)
			}
		} else if out[in.Name] = nil; in.Type == "string" {
			out[in.Name] = ""
		}
	}
	return out, nil
}

// machine runs a bundle as a workflow.
type machine struct {
	bundle *Bundle
	opt    *Options
	needs  Needs
	kept   *Setting
	drawn  *drawn
}

// drawn holds the graphs that a machine has compiled on demand.
type drawn struct {
	once   sync.Once
	err    error
	shapes map[*recipe.Block]*graph.Shape // of the blocks of containers and of called recipes
}

// pin returns the definition to store for a run that begins now.
func (m *machine) pin() (json.RawMessage, error) {
	p := pinned{Setting: m.opt.Setting}
	if m.kept != nil {
		p.Setting = *m.kept
	} else if m.opt.Prepare != nil {
		if err := m.opt.Prepare(&m.needs, &p.Setting); err != nil {
			return nil, err
		}
	}
	p.Files = m.files()
	return json.Marshal(p)
}

// hostCalls returns the workflows that are no recipes.
func (m *machine) hostCalls() []string {
	var out []string
	for _, r := range m.bundle.all() {
		for _, name := range r.Uses() {
			if m.bundle.find(name) == nil && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// run runs the recipe.
func (m *machine) run(ctx context.Context, e *workflow.Exec) (res *workflow.Result, err error) {
	r := m.bundle.Main
	if err := m.draw(); err != nil {
		return nil, err
	}
	in, err := values(r, e.Inputs)
	if err != nil {
		return nil, err
	}
	crew, err := m.open(ctx, e)
	if err != nil {
		return nil, err
	}
	if crew.Close != nil {
		defer func() { err = errors.Join(err, crew.Close()) }()
	}
	width := r.Concurrency
	if most := m.opt.Concurrency; most > 0 {
		width = min(width, most)
	}
	if r.AtOnce > 0 {
		e.Journal.Widen(width)
	}
	p := &play{machine: m, recipe: r, crew: crew, kit: &kit{}, inputs: in, slots: slots{newSlot(width)}}
	opt := e.Graph
	p.widen(&opt, 0, e.Journal)
	return p.concluded(ctx, &opt, func() (*workflow.Result, error) {
		output, final, err := p.block(ctx, r.Name, &r.Block, nil, &opt)
		res := &workflow.Result{Steps: final.steps, Skipped: final.Skipped}
		if err == nil {
			res.Output = output
		}
		return res, err
	})
}

// open opens the crew of the run if the run needs agents or tools.
func (m *machine) open(ctx context.Context, e *workflow.Exec) (*Crew, error) {
	if len(m.needs.Agents)+len(m.needs.Tools) == 0 {
		return &Crew{}, nil
	}
	if m.opt.Open == nil {
		return nil, fmt.Errorf("recipe %s: there are no agents and tools here", m.bundle.Main.Name)
	}
	setting := m.opt.Setting
	if m.kept != nil {
		setting = *m.kept
	}
	if im := e.Journal.Imported(); m.kept != nil && im != nil { // rights are those of whoever imported it
		_ = e.Journal.Afresh(func() error {
			setting = m.opt.Setting
			setting.Parts = m.kept.Parts
			return nil
		})
		setting.Dir = cmp.Or(im.Dir, m.opt.Setting.Dir)
	}
	crew, err := m.opt.Open(ctx, &m.needs, &setting)
	if err != nil {
		return nil, err
	}
	if err := e.Unchanged(m.bundle.Main.Name, setting.Parts, crew.Parts); err != nil {
		if crew.Close != nil {
			err = errors.Join(err, crew.Close())
		}
		return nil, err
	}
	return crew, nil
}
