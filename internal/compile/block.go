package compile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
)

// results holds the results of the finished steps of a block. Older states share the list, since
// each step has its own state, into which only the results it reads are folded.
type results struct{ last *ended }

type ended struct {
	id     string
	result *recipe.Result
	before *ended
}

// update is the result of a step.
type update struct {
	ID string `json:"id"`
	recipe.Result
}

// edited creates an update from a user's replacement for the result of a step: its output, or a
// result in its recorded form.
func edited(step string, raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var u update
	ends := []recipe.Status{recipe.Done, recipe.Skipped, recipe.Failed, recipe.Degraded}
	if err := d.Decode(&u); err != nil || !slices.Contains(ends, u.Status) {
		u = update{Result: recipe.Result{Status: recipe.Done, Output: raw}}
	}
	u.ID = step
	return json.Marshal(u)
}

func fold(s results, u update) results { return results{&ended{u.ID, &u.Result, s.last}} }

func (s results) find(id string) (*recipe.Result, bool) {
	for e := s.last; e != nil; e = e.before {
		if e.id == id {
			return e.result, true
		}
	}
	return nil, false
}

// has reports whether every step of a block has a result.
func (s results) has(b *recipe.Block) bool {
	return !slices.ContainsFunc(b.Steps, func(one *recipe.Step) bool { _, ok := s.find(one.ID); return !ok })
}

// MarshalJSON returns the results by the IDs of their steps.
func (s results) MarshalJSON() ([]byte, error) {
	steps := map[string]*recipe.Result{}
	for e := s.last; e != nil; e = e.before {
		if _, later := steps[e.id]; !later {
			steps[e.id] = e.result
		}
	}
	return json.Marshal(map[string]any{"steps": steps})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (s *results) UnmarshalJSON(b []byte) error {
	var in struct {
		Steps map[string]*recipe.Result `json:"steps"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	s.last = nil
	for id, r := range in.Steps { // in any order: an ID is there once
		s.last = &ended{id, r, s.last}
	}
	return nil
}

// surroundings holds the results and items of the enclosing blocks that a block inside a container
// can read. It is nil at the top level.
type surroundings struct {
	step func(id string) (*recipe.Result, bool)
	saw  func(id string) []string // what the result of a step comes from
	vars map[string]any
}

// within returns the surroundings with additions.
func (o *surroundings) within(w *work, vars map[string]any) *surroundings {
	in := &surroundings{step: w.scope.Step, saw: w.saw, vars: map[string]any{}}
	if o != nil {
		for k, v := range o.vars {
			in.vars[k] = v
		}
	}
	for k, v := range vars {
		in.vars[k] = v
	}
	return in
}

// play is the execution of a recipe in a run: the run's own recipe or one called by a step.
type play struct {
	*machine
	recipe *recipe.Recipe
	crew   *Crew
	kit    *kit
	inputs map[string]any
	slots  slots
	kept   map[*recipe.Step]*update // what another attempt of a block need not do again
}

// sees returns the scope that a step with state s can read.
func (p *play) sees(s results, around *surroundings) *recipe.Scope {
	sc := &recipe.Scope{Inputs: p.inputs, Step: s.find}
	if around != nil {
		sc.Vars = around.vars
		sc.Step = func(id string) (*recipe.Result, bool) {
			if r, ok := s.find(id); ok {
				return r, true
			}
			return around.step(id)
		}
	}
	return sc
}

// many is the largest number of parallel tasks of one graph. A run is bounded by its slots instead,
// which the tasks of all its graphs share.
const many = 1 << 20

// widen sets how many tasks of a graph may be running at once; 0 is any number.
func (*play) widen(opt *graph.RunOptions, width int, j *journal.Journal) {
	if width <= 0 {
		width = many
	}
	_ = j.Afresh(func() error { opt.Parallelism = width; return nil })
}

// block runs the steps of a block and returns their combined output.
func (p *play) block(ctx context.Context, name string, b *recipe.Block, around *surroundings, opt *graph.RunOptions) (json.RawMessage, ending, error) {
	final, err := p.execute(ctx, name, b, around, opt)
	if err != nil {
		return nil, final, err
	}
	output, err := p.output(b, final.State, around)
	return output, final, err
}

// execute runs the steps of a block.
func (p *play) execute(ctx context.Context, name string, b *recipe.Block, around *surroundings, opt *graph.RunOptions) (ending, error) {
	flow, err := p.flow(name, b, around)
	if err != nil {
		return ending{}, err
	}
	var out ending
	own := *opt
	own.FailFast = own.FailFast || p.recipe.FailFast
	own.Ended = func(steps int, skipped []string) { out.steps, out.Skipped = steps, skipped }
	out.State, err = flow.Run(ctx, results{}, &own)
	return out, err
}

// nested returns the options to run a block within a task.
func (p *play) nested(t *graph.Task, width int) *graph.RunOptions {
	opt := t.Nested("")
	p.widen(opt, width, opt.Journal)
	return opt
}

// ending is the recorded end of a block's graph. Another attempt of the block's step reads it.
type ending struct {
	State   results  `json:"state"`
	Skipped []string `json:"skipped,omitempty"` // see graph.RunOptions
	steps   int      // of a block that was run now
}

// whole runs the single block of a step within the step's own task. Another attempt repeats only
// the failed steps and those that depend on them, or all steps if the previous attempt was
// interrupted.
func (w *work) whole(ctx context.Context, p *play, name string, b *recipe.Block, around *surroundings, width int) (final ending, err error) {
	if r := w.step.Retry; r == nil || r.Attempts < 2 {
		return p.execute(ctx, name, b, around, w.nested(w.task, width))
	}
	scope, attempt, again, space := w.task.Scope(), w.task.Attempt(), *p, ""
	for n := 1; n < attempt; n++ {
		raw, done := scope.Done(fmt.Sprintf("ended/%d", n))
		if !done {
			continue
		}
		var last ending
		if err := json.Unmarshal(raw, &last); err != nil {
			return final, err
		}
		again.kept = last.keeps(b)
	}
	if attempt > 1 {
		space = fmt.Sprintf("try-%d", attempt)
	}
	key := fmt.Sprintf("ended/%d", attempt)
	opt := w.task.Nested(space)
	w.widen(opt, width, opt.Journal)
	if !scope.Does(key, true) { // it was cut off, or an older log does not have it
		return again.execute(ctx, name, b, around, opt)
	}
	effect := &journal.Effect{Key: key, Kind: "branch", Name: w.step.ID, Inside: true}
	var last ending
	final, err = journal.Do(ctx, scope, effect, func(ctx context.Context, _ string) (_ ending, err error) {
		last, err = again.execute(ctx, name, b, around, opt)
		return last, err
	})
	if err != nil {
		return last, err
	}
	return final, nil
}

// keeps returns the results of the steps that need not be repeated because they and all their
// dependencies succeeded.
func (e *ending) keeps(b *recipe.Block) map[*recipe.Step]*update {
	steps, again := map[string]*recipe.Step{}, map[string]bool{}
	for _, s := range b.Steps {
		steps[s.ID] = s
	}
	var fresh func(id string) bool
	fresh = func(id string) bool {
		if is, known := again[id]; known {
			return is
		}
		r, ok := e.State.find(id)
		is := !ok || r.Status != recipe.Done && r.Status != recipe.Skipped || len(r.Bad) > 0
		if s := steps[id]; s != nil {
			is = is || slices.ContainsFunc(s.DependsOn, fresh)
		}
		again[id] = is
		return is
	}
	out := map[*recipe.Step]*update{}
	for id, s := range steps {
		if r, ok := e.State.find(id); ok && r.Status == recipe.Done && !fresh(id) {
			out[s] = &update{id, *r}
		}
	}
	return out
}

// output returns the output of a block: the declared output, or else the output of its last step.
func (p *play) output(b *recipe.Block, s results, around *surroundings) (json.RawMessage, error) {
	if b.Output == nil {
		r, ok := s.find(b.Steps[len(b.Steps)-1].ID)
		if !ok {
			return nil, fmt.Errorf("step %s has no result", b.Steps[len(b.Steps)-1].ID)
		}
		return orNull(r.Output), nil
	}
	v, err := b.Output.Resolve(p.sees(s, around))
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	return json.Marshal(v)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// flow returns the graph of a block.
func (p *play) flow(name string, b *recipe.Block, around *surroundings) (*graph.Flow[results, update], error) {
	g := graph.New(name, fold)
	leads := map[string]bool{}
	for _, s := range b.Steps {
		for _, id := range s.DependsOn {
			leads[id] = true
		}
	}
	for _, s := range b.Steps {
		g.AddNode(p.node(s, around))
		if len(s.DependsOn) == 0 {
			g.Edge(graph.Start, s.ID)
		}
		for _, id := range s.DependsOn {
			g.Edge(id, s.ID)
		}
		if !leads[s.ID] {
			g.Edge(s.ID, graph.End)
		}
	}
	return g.Compile()
}

// node returns the node of a step.
func (p *play) node(s *recipe.Step, around *surroundings) graph.Node[results, update] {
	n := graph.Node[results, update]{
		Name: s.ID, Kind: s.Kind(), Reads: reads(s), Join: graph.Any,
		Run: func(ctx context.Context, t *graph.Task, st results) (update, error) {
			if u := p.kept[s]; u != nil {
				return *u, keeps(ctx, t.Scope(), s.ID)
			}
			w := &work{play: p, step: s, task: t, state: st, around: around, scope: p.sees(st, around)}
			return w.do(ctx)
		},
	}
	if len(s.DependsOn) > 1 {
		n.Join = graph.All
	}
	if r := s.Retry; r != nil {
		n.Retry = &graph.Retry{Attempts: r.Attempts, Backoff: r.Delay, Factor: r.Backoff, Max: r.MaxDelay}
		if r.Delay <= 0 {
			n.Retry.Backoff = -1
		}
		if r.Backoff <= 0 {
			n.Retry.Factor = 1
		}
		if r.MaxDelay <= 0 {
			n.Retry.Max = 1<<63 - 1
		}
	}
	if s.OnError != "fail" {
		n.OnError = graph.Skip
		n.Instead = func(st results, err error) update {
			w := &work{play: p, step: s, state: st, around: around, scope: p.sees(st, around)}
			return w.failed(err)
		}
	}
	switch {
	case s.Agent != nil:
		n.Agents = 1
	case s.Workflow != nil && p.bundle.find(s.Workflow.Name) == nil:
		n.Uses = []string{s.Workflow.Name}
	case s.Workflow != nil:
		r := p.bundle.find(s.Workflow.Name)
		n.Sub = p.drawn.shapes[&r.Block]
		n.Inner = func(string) (graph.Reading, error) { return p.machine.look(r) }
	case s.Body() != nil:
		n.Sub = p.drawn.shapes[s.Body()]
		n.Inner = func(string) (graph.Reading, error) { return p.flow(s.ID, s.Body(), nil) }
	}
	return n
}

// reads returns the steps whose results a step sees. If no step remains, it returns an empty slice,
// because nil would mean all steps.
func reads(s *recipe.Step) []string { return append([]string{}, s.Reads...) }

// draw compiles the recipe once. It computes the shapes of all nested blocks, the innermost first.
func (m *machine) draw() error {
	m.drawn.once.Do(func() {
		if m.opt.Compiled != nil {
			m.opt.Compiled.Add(1)
		}
		m.drawn.shapes = map[*recipe.Block]*graph.Shape{}
		for _, r := range m.bundle.all() {
			for _, b := range append([]*recipe.Block{&r.Block}, r.HandlerBlocks()...) {
				if m.drawn.err = m.drawBlock(r, b, 0); m.drawn.err != nil {
					return
				}
			}
		}
	})
	return m.drawn.err
}

// maxNesting bounds how deep recipes call each other, in case they were not checked for cycles.
const maxNesting = 200

func (m *machine) drawBlock(r *recipe.Recipe, b *recipe.Block, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("recipe %s is over %d deep; it runs itself", r.Name, maxNesting)
	}
	if m.drawn.shapes[b] != nil {
		return nil
	}
	for _, s := range b.Steps {
		var err error
		if s.Workflow != nil {
			if called := m.bundle.find(s.Workflow.Name); called != nil {
				err = m.drawBlock(called, &called.Block, depth+1)
			}
		} else if body := s.Body(); body != nil {
			err = m.drawBlock(r, body, depth+1)
		}
		if err != nil {
			return err
		}
	}
	p := &play{machine: m, recipe: r}
	flow, err := p.flow(r.Name, b, nil)
	if err != nil {
		return fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	shape := flow.Shape()
	m.drawn.shapes[b] = &shape
	return nil
}

// look returns the graph of a recipe for reading logs.
func (m *machine) look(r *recipe.Recipe) (graph.Reading, error) {
	if err := m.draw(); err != nil {
		return nil, err
	}
	return (&play{machine: m, recipe: r}).flow(r.Name, &r.Block, nil)
}

// timeoutError reports that an attempt exceeded its timeout.
type timeoutError struct {
	after  time.Duration
	ended  string          // how much of a container did end, "" if nothing is known
	output json.RawMessage // what the container has by then, if that is known
}

const timeoutText = "it did not end within "

func (e *timeoutError) Error() string {
	if e.ended != "" {
		return timeoutText + e.after.String() + "; " + e.ended + " did"
	}
	return timeoutText + e.after.String()
}

// OfAttempt reports that the attempt of the step's task ran out of time, for its record.
func (*timeoutError) OfAttempt() bool { return true }
