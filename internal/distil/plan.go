package distil

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// A step is a step of the recipe that is being made.
type step struct {
	id     string
	unit   *unit // what it stands for; of a fold's inner steps, the first of them
	text   *tmpl // the prompt of an agent
	args   any   // of a tool or a workflow: a JSON value in which texts are *tmpl
	schema json.RawMessage

	in    *tmpl     // of a foreach: its list
	items int       // how many
	inner []*step   // of a foreach
	rows  [][]*unit // of a foreach, by item: what the inner steps stand for

	outs  []*source // what it is in later texts, once that is asked
	after []*step   // that it waits for although it has nothing from them
	final bool      // it stands for what the agent that led said at last
	why   string    // of a step that is not proven word for word: why
}

// asked and ended are the positions at which all its inputs were known and at which its result was
// known.
func (s *step) asked() uint64 {
	if s.rows == nil {
		return s.unit.asked
	}
	at := s.rows[0][0].asked
	for _, row := range s.rows {
		at = min(at, row[0].asked)
	}
	return at
}

func (s *step) ended() uint64 {
	at := uint64(0)
	for _, row := range s.rows {
		at = max(at, row[len(row)-1].ended)
	}
	if s.rows == nil {
		at = s.unit.ended
	}
	return at
}

// value returns the result of the step.
func (s *step) value() json.RawMessage {
	if s.rows == nil {
		return s.unit.value
	}
	var list []json.RawMessage
	for _, row := range s.rows {
		list = append(list, row[len(row)-1].value)
	}
	return compact(list)
}

// texts returns all templates of the step, nested ones included.
func (s *step) texts() []*tmpl {
	var out []*tmpl
	for _, t := range []*tmpl{s.text, s.in} {
		if t != nil {
			out = append(out, t)
		}
	}
	out = append(out, textsIn(s.args)...)
	for _, i := range s.inner {
		out = append(out, i.texts()...)
	}
	return out
}

func textsIn(v any) []*tmpl {
	var out []*tmpl
	switch x := v.(type) {
	case *tmpl:
		out = append(out, x)
	case []any:
		for _, e := range x {
			out = append(out, textsIn(e)...)
		}
	case map[string]any:
		for _, k := range keysOf(x) {
			out = append(out, textsIn(x[k])...)
		}
	}
	return out
}

// uses returns the steps of its block that the step needs, in the order of their references.
func (s *step) uses() []*step {
	out := slices.Clone(s.after)
	for _, t := range s.texts() {
		for _, src := range t.sources() {
			if src.step != nil && !slices.Contains(s.inner, src.step) && !slices.Contains(out, src.step) {
				out = append(out, src.step)
			}
		}
	}
	return out
}

// An input is an input of the recipe that is being made.
type input struct {
	recipe.Input
	value any    // as it was recorded
	given string // who gave it, "" for the run's inputs
}

// plan is a recipe in the making.
type plan struct {
	rec    *Recording
	opt    *Options
	steps  []*step // in their order
	inputs []*input
	from   []*source // the inputs as sources
	result any       // the output: a JSON value in which texts are *tmpl
	want   json.RawMessage
	cut    []Cut
	notes  []string
	task   *tmpl // what the user asked for, nil if it was no chat
	prompt string
	words  map[*unit]*said // of their outputs
	told   map[*unit]*said // of what they were asked
}

// maxUnits bounds the number of units that are examined.
const maxUnits = 2 * recipe.MaxSteps

// draft creates a plan, with the folds that are given.
func draft(rec *Recording, opt *Options, folds []*fold) (*plan, error) {
	p, err := begin(rec, opt, folds)
	if err != nil {
		return nil, err
	}
	if err := p.unfold(folds); err != nil {
		return nil, err
	}
	if p.prompt != "" {
		p.slots()
		p.write()
		if err := p.unfold(folds); err != nil {
			return nil, err
		}
	}
	if err := p.conclude(); err != nil {
		return nil, err
	}
	p.examine()
	p.prune()
	return p, p.proper()
}

// begin creates a plan of all possible steps.
func begin(rec *Recording, opt *Options, folds []*fold) (*plan, error) {
	p := &plan{rec: rec, opt: opt, words: map[*unit]*said{}, told: map[*unit]*said{}}
	if len(rec.units) > maxUnits {
		return nil, unfit("over %d agents and tools were running in it", maxUnits)
	}
	for _, u := range rec.units {
		p.add(u, folds)
	}
	slices.SortStableFunc(p.steps, func(a, b *step) int { return cmp.Compare(a.asked(), b.asked()) })
	if err := p.given(); err != nil {
		return nil, err
	}
	if len(p.steps) == 0 && len(folds) == 0 {
		return nil, unfit("no agent and no tool did anything in it that could be a step; what one agent does alone is no recipe")
	}
	for _, f := range folds {
		p.fold(f)
	}
	p.order()
	for _, s := range p.steps {
		if s.unit.kind == flowUnit && s.rows == nil && s.unit.told {
			p.notes = append(p.notes, fmt.Sprintf("of what workflow %s gave, the log has what the agent was told; if it gives an object with a text, "+
				"refer to that as output.text", s.unit.name))
		}
	}
	p.write()
	return p, nil
}

// add creates a step from a unit, unless it failed or is a part of a fold.
func (p *plan) add(u *unit, folds []*fold) {
	switch {
	case u.failed != "":
		again := ""
		for _, o := range p.rec.units {
			if o.kind == u.kind && o.name == u.name && o.asked > u.asked && o.failed == "" {
				again = ", and was done again"
			}
		}
		p.cut = append(p.cut, Cut{what(u), u.path, "it failed" + again + ": " + line(u.failed, 160)})
		return
	case u.kind == funcUnit:
		return
	}
	for _, s := range p.steps {
		if repeated(s.unit, u) && string(s.unit.value) == string(u.value) && !u.changes {
			p.cut = append(p.cut, Cut{what(u), u.path, "it was asked the same again, and gave the same"})
			return
		}
	}
	for _, f := range folds {
		for _, row := range f.rows {
			if slices.Contains(row, u) {
				return
			}
		}
	}
	p.steps = append(p.steps, &step{unit: u, schema: u.schema})
}

// order makes each step wait for earlier steps that changed something: the step may depend on the
// change, although no text shows it. In a run of a recipe, the recipe itself declares the order.
func (p *plan) order() {
	known := p.rec.recipeSteps()
	for i, s := range p.steps {
		if of := known[s.unit.label]; of != nil {
			for _, o := range p.steps {
				if o.unit.changes && slices.Contains(of.DependsOn, o.unit.label) {
					s.after = append(s.after, o)
				}
			}
			continue
		}
		for k, o := range slices.Backward(p.steps) {
			if o.rows == nil && o.unit.changes && (o.ended() < s.asked() || k < i && s.unit.changes && s.rows == nil) {
				s.after = []*step{o}
				break
			}
		}
	}
}

// repeated reports whether two units had the same input.
func repeated(a, b *unit) bool {
	return a.kind == b.kind && a.name == b.name && a.prompt == b.prompt && string(a.args) == string(b.args)
}

// what returns a description of a unit.
func what(u *unit) string {
	switch u.kind {
	case toolUnit:
		return "tool " + u.name
	case flowUnit:
		return "workflow " + u.name
	case funcUnit:
		return "function " + u.name
	}
	return "agent " + u.name
}

// known returns the sources that were available when a unit was asked.
func (p *plan) known(asked uint64, but *step) []*source {
	out := slices.Clone(p.from)
	for _, s := range p.steps {
		if s == but || s.ended() >= asked {
			continue
		}
		if s.outs == nil {
			s.outs = outputs(s.value(), s.ended(), func(sub string) *source { return &source{step: s, sub: sub} })
		}
		out = append(out, s.outs...)
	}
	return out
}

// write creates the templates of all steps.
func (p *plan) write() {
	for _, s := range p.steps {
		if s.rows == nil {
			s.text, s.args = written(s.unit, p.known(s.asked(), s))
		}
	}
}

// written returns a unit with templates for its texts.
func written(u *unit, known []*source) (*tmpl, any) {
	if u.kind == agentUnit {
		return build(u.prompt, texts(known)), nil
	}
	if len(u.args) == 0 || string(u.args) == "null" {
		return nil, map[string]any{}
	}
	return nil, templated(decoded(u.args), known)
}

// texts returns the sources that may occur within a text.
func texts(sources []*source) []*source {
	return slices.DeleteFunc(slices.Clone(sources), func(s *source) bool { return s.exact && len(s.text) < 2 && s.item == "" && s.input == "" })
}

// templated returns a JSON value with templates for its texts; another value that is an input or an
// output is a reference.
func templated(v any, known []*source) any {
	switch x := v.(type) {
	case string:
		return build(x, known)
	case []any:
		if t := whole(x, known); t != nil {
			return t
		}
		out := make([]any, len(x))
		for i := range x {
			out[i] = templated(x[i], known)
		}
		return out
	case map[string]any:
		if t := whole(x, known); t != nil && len(x) > 0 {
			return t
		}
		out := map[string]any{}
		for k := range x {
			out[k] = templated(x[k], known)
		}
		return out
	case json.Number:
		if t := whole(x, known); t != nil {
			return t
		}
	}
	return v
}

// whole returns a reference if a value as a whole equals a source.
func whole(v any, known []*source) *tmpl {
	text := string(compact(v))
	for _, s := range slices.Backward(known) {
		if s.text == text {
			return &tmpl{[]part{{src: s}}}
		}
	}
	return nil
}

// conclude creates the output.
func (p *plan) conclude() error {
	if p.prompt == "" {
		p.want = orNull(p.rec.finished.Output)
		p.result = templated(decoded(p.want), p.known(1<<63, nil))
		if len(p.concluding()) == 0 {
			return unfit("what it ended with has nothing in it that an agent or a tool gave, word for word; its program makes it, and a recipe has no program")
		}
		return nil
	}
	var out struct{ Text string }
	if err := json.Unmarshal(orNull(p.rec.finished.Output), &out); err != nil {
		return fmt.Errorf("the output of the run: %w", err)
	}
	p.want = quoted(out.Text)
	t := build(out.Text, p.known(1<<63, nil))
	p.result = t
	if p.spoken(t) {
		return nil
	}
	p.synthesize(out.Text, t)
	return nil
}

// concluding returns the steps that the output needs.
func (p *plan) concluding() []*step {
	return (&step{args: p.result}).uses()
}

// mostWords is the largest number of additional words in an output, such as a heading.
const mostWords = 12

// spoken reports whether an answer consists of the results of steps, with little else.
func (p *plan) spoken(t *tmpl) bool {
	rest := tokens(t.literal())
	some := slices.ContainsFunc(t.sources(), func(s *source) bool { return s.step != nil })
	if !some || len(rest) > mostWords {
		return false
	}
	own, prompt := saying(t.literal()), saying(p.prompt)
	for _, s := range p.steps {
		if s.rows == nil && evidence(own, p.saying(s.unit), prompt, p.asked(s.unit)) != "" {
			return false
		}
	}
	return true
}

func (p *plan) saying(u *unit) *said {
	w := p.words[u]
	if w == nil {
		w = saying(textOf(u.value))
		p.words[u] = w
	}
	return w
}

// asked returns the words of a unit's input.
func (p *plan) asked(u *unit) *said {
	w := p.told[u]
	if w == nil {
		w = saying(u.prompt + "\n" + string(u.args))
		p.told[u] = w
	}
	return w
}

// synthesize adds a step for the last answer of the lead, based on the results available to it.
func (p *plan) synthesize(text string, t *tmpl) {
	s := &step{final: true, unit: &unit{
		kind: agentUnit, name: cmp.Or(p.opt.Synthesizer, "synthesizer"), said: text, value: quoted(text), label: "answer", path: "the answer",
		asked: 1<<63 - 1, ended: 1<<63 - 1,
	}}
	var fed []*step
	for _, src := range t.sources() {
		if src.step != nil && !slices.Contains(fed, src.step) {
			fed = append(fed, src.step)
		}
	}
	spoke, prompt := saying(text), saying(p.prompt)
	ends := p.ends(p.steps)
	for _, o := range p.steps {
		if slices.Contains(fed, o) || p.again(o) {
			continue
		}
		for _, u := range o.units() {
			known := []*said{prompt, p.asked(u)}
			some, _, _ := spoke.shares(p.saying(u), hearing(known))
			if evidence(spoke, p.saying(u), known...) != "" || len(some) > 0 && slices.Contains(ends, o) {
				fed = append(fed, o)
				break
			}
		}
	}
	if len(fed) == 0 { // it cannot be told; then all that nobody else has used
		fed = p.ends(p.steps)
		p.notes = append(p.notes, "which results the last answer was made of cannot be seen; it is given all that no other step has used")
	}
	slices.SortStableFunc(fed, func(a, b *step) int { return slices.Index(p.steps, a) - slices.Index(p.steps, b) })
	s.text = p.promptOf(fed, "What came of it so far:", "Give the answer to the task from that, and nothing that is not in it.")
	p.steps = append(p.steps, s)
	p.result = &tmpl{[]part{{src: &source{step: s}}}}
	p.notes = append(p.notes, fmt.Sprintf("the agent that led wrote the answer in its own words; step answer stands for it, with %s: what is "+
		"proven of that step is what it is given, not what it will say", count(len(fed), "result")))
}

// again reports whether the same was asked again later.
func (p *plan) again(s *step) bool {
	return s.rows == nil && slices.ContainsFunc(p.steps, func(o *step) bool {
		return o != s && o.rows == nil && repeated(s.unit, o.unit) && s.unit.asked <= o.unit.asked && slices.Index(p.steps, s) < slices.Index(p.steps, o)
	})
}

// units returns the units that a step represents.
func (s *step) units() []*unit {
	if s.rows == nil {
		return []*unit{s.unit}
	}
	var out []*unit
	for _, row := range s.rows {
		out = append(out, row...)
	}
	return out
}

// ends returns the steps whose results no other step uses.
func (p *plan) ends(steps []*step) []*step {
	used := map[*step]bool{}
	for _, s := range steps {
		for _, o := range s.uses() {
			used[o] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s *step) bool { return used[s] })
}

// promptOf returns a prompt made of the user's request and of results.
func (p *plan) promptOf(results []*step, before, after string) *tmpl {
	t := &tmpl{}
	lit := func(s string) { t.parts = append(t.parts, part{lit: s}) }
	t.parts = append(t.parts, p.task.parts...)
	lit("\n\n" + before + "\n")
	for _, s := range results {
		lit("\n")
		t.parts = append(t.parts, part{src: &source{step: s, text: textOf(s.value())}})
		lit("\n")
	}
	lit("\n" + after + "\n")
	return t
}

// line returns a text on one line, truncated.
func line(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
