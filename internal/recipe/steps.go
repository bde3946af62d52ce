package recipe

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A block is a Block that is being read.
type block struct {
	*Block
	steps []*step
	of    *step  // the container, nil for the top
	sites []site // of its output and its condition
	names map[string]*step
}

// A step is a Step that is being read.
type step struct {
	*Step
	node  *yaml.Node // the whole of it
	id    *yaml.Node
	in    *block
	index int  // in its block
	free  bool // it has no depends_on
	// refers lists, for a step without depends_on, the sibling steps that it refers to, with the
	// first position of each reference.
	refers map[*step]site
	deps   []*yaml.Node
	sites  []site // of all that is evaluated before it starts
	body   *block
	as     *yaml.Node // of a foreach
	waits  []*step    // what it depends on, of its block
	done   ancestors  // what has ended when it starts
	reads  map[*step]bool
}

// recipe reads the top of the document.
func (p *reading) recipe(n *yaml.Node, r *Recipe) *block {
	top := &block{Block: &r.Block}
	var list, aliases *yaml.Node
	var handlers [3]*yaml.Node
	keys := p.object(n, "a recipe", []field{
		{"name", func(v *yaml.Node) { r.Name = p.named(v, "`name`", recipeName) }},
		{"description", func(v *yaml.Node) { r.Description, _ = p.text(v, "`description`") }},
		{"version", func(v *yaml.Node) { p.version(v) }},
		{"aliases", func(v *yaml.Node) { r.Aliases, aliases = p.aliases(v), v }},
		{"inputs", func(v *yaml.Node) { r.Inputs = p.declared(v, "input") }},
		{"model", func(v *yaml.Node) { r.Model = p.named(v, "`model`", modelName) }},
		{"max_concurrency", func(v *yaml.Node) {
			r.AtOnce = int(p.wholeIn(v, "`max_concurrency`", 1, maxWidth))
			r.Concurrency = r.AtOnce
		}},
		{"fail_fast", func(v *yaml.Node) { r.FailFast = p.boolean(v, "`fail_fast`") }},
		{"budget", func(v *yaml.Node) { r.Budget = p.budget(v) }},
		{"steps", func(v *yaml.Node) { list = v }},
		{OnFailure, func(v *yaml.Node) { handlers[0] = v }},
		{OnCancel, func(v *yaml.Node) { handlers[1] = v }},
		{Always, func(v *yaml.Node) { handlers[2] = v }},
		{"output", func(v *yaml.Node) { r.Output = p.result(v, &top.sites) }},
	})
	p.need(n, keys, "a recipe", "name")
	if keys != nil && list == nil {
		p.add(posOf(n), codeNoSteps, "the recipe needs at least one step: a list under `steps`")
	}
	if list != nil {
		p.block(list, top)
	}
	p.handle(keys, handlers[:], r)
	p.inputs = r.Inputs
	p.names(r, aliases)
	if len(p.steps) > MaxSteps {
		p.add(posOf(p.steps[MaxSteps].node), codeTooManySteps, "over 1,000 steps, those in others counted; put some into recipes of their own")
	}
	return top
}

// The handlers of a recipe, by the ids of their steps.
const (
	OnFailure = "on_failure"
	OnCancel  = "on_cancel"
	Always    = "always"
)

// handle reads the handlers: a step or a list of steps each.
func (p *reading) handle(keys map[string]*yaml.Node, lists []*yaml.Node, r *Recipe) {
	p.after = &block{Block: &Block{}, names: map[string]*step{}}
	for i, id := range []string{OnFailure, OnCancel, Always} {
		n := lists[i]
		if n == nil {
			continue
		}
		if n.Kind == yaml.MappingNode {
			n = &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{n}}
		}
		s := &step{Step: &Step{ID: id, Pos: posOf(keys[id]), OnError: "continue", Parallel: &Parallel{}}, id: keys[id], node: keys[id], in: p.after, index: len(p.after.steps)}
		p.steps = append(p.steps, s)
		p.after.steps = append(p.after.steps, s)
		s.body = &block{Block: &s.Parallel.Block, of: s}
		p.block(n, s.body)
		r.Handlers = append(r.Handlers, s.Step)
	}
}

// names warns of names with a misleading meaning.
func (p *reading) names(r *Recipe, aliases *yaml.Node) {
	for _, in := range r.Inputs {
		if in.Name == "model" {
			p.report(&Problem{Pos: in.Pos, Code: codeFlag, Text: "the flag --model fills the input `model`; choose another name", Warning: true})
		}
	}
	if aliases == nil || r.Name == "" {
		return
	}
	for _, c := range aliases.Content {
		if c.Kind == yaml.ScalarNode && c.Value == r.Name {
			p.warn(c, codeUnused, "alias `%s` is the recipe's own name; take it away", name(c.Value))
		}
	}
}

// tooMany reports whether the limit of steps or problems is reached.
func (p *reading) tooMany() bool { return p.full() || len(p.steps) > 4*MaxSteps }

const maxWidth = 1000

func (p *reading) version(n *yaml.Node) {
	v, ok := p.wholeNumber(n)
	switch {
	case !ok:
		p.wrongType(n, "`version`", "the number 1")
	case v == "1":
	case strings.HasPrefix(v, "-") || v == "0":
		p.mark(n, codeVersion, "`version` is %s; this is version %d of the language", name(v), version)
	default:
		p.mark(n, codeVersion, "`version` is %s and needs a newer engine; this one reads version %d", name(v), version)
	}
}

func (p *reading) aliases(n *yaml.Node) []string {
	items, _ := p.sequence(n, "`aliases`")
	var all []string
	for _, c := range items {
		switch a := p.named(c, "an alias", recipeName); {
		case a == "":
		case slices.Contains(all, a):
			p.mark(c, codeRepeated, "alias `%s` is there twice", a)
		case len(all) == 100:
			p.add(posOf(c), codeRange, "over 100 aliases")
			return all
		default:
			all = append(all, a)
		}
	}
	return all
}

func (p *reading) budget(n *yaml.Node) *Budget {
	b := &Budget{}
	count := func(name string, to *int64) field {
		return field{name, func(v *yaml.Node) { *to = p.wholeIn(v, "`"+name+"`", 1, maxWhole) }}
	}
	p.object(n, "`budget`", []field{
		count("tokens", &b.Tokens),
		{"cost", func(v *yaml.Node) {
			b.Cost = p.real(v, "`cost`", 0, true, 1e9, "more than 0 and at most 1e9, in US dollars")
		}},
		count("turns", &b.Turns), count("calls", &b.Calls), count("agents", &b.Agents),
		{"time", func(v *yaml.Node) { b.Time = p.duration(v, "`time`") }},
	})
	return b
}

// block reads the steps of a block.
func (p *reading) block(n *yaml.Node, b *block) {
	items, ok := p.sequence(n, "`steps`")
	if ok && len(items) == 0 {
		p.add(posOf(n), codeNoSteps, "`steps` is empty; it needs at least one step")
	}
	b.names = make(map[string]*step, len(items))
	for _, item := range items {
		if p.tooMany() {
			return
		}
		s := p.step(item, b)
		b.steps = append(b.steps, s)
		b.Steps = append(b.Steps, s.Step)
	}
}

// kinds returns the fields that determine the kind of a step.
func kinds() []string {
	return []string{"subagent", "tool", "workflow", "ask", "value", "parallel", "foreach", "loop"}
}

// owned returns the fields that go with a kind.
func owned() [][2]string {
	return [][2]string{
		{"prompt", "subagent"}, {"model", "subagent"}, {"max_turns", "subagent"}, {"output_retries", "subagent"},
		{"args", "tool"}, {"effects", "tool"}, {"inputs", "workflow"},
	}
}

// step reads one step.
func (p *reading) step(n *yaml.Node, in *block) *step {
	s := &step{Step: &Step{Pos: posOf(n), OnError: "continue", Tries: defaultTries}, node: n, in: in, index: len(in.steps)}
	p.steps = append(p.steps, s)
	agent, tool, call := &Agent{}, &Tool{}, &Call{}
	fields := []field{
		{"id", func(v *yaml.Node) { s.ID, s.id = p.named(v, "`id`", plainName), v }},
		{"subagent", func(v *yaml.Node) { s.Agent, agent.Name, agent.Pos = agent, p.named(v, "`subagent`", thing), posOf(v) }},
		{"prompt", func(v *yaml.Node) { agent.Prompt = p.textTemplate(v, "`prompt`", &s.sites) }},
		{"model", func(v *yaml.Node) { agent.Model = p.named(v, "`model`", modelName) }},
		{"max_turns", func(v *yaml.Node) { agent.Turns = int(p.wholeIn(v, "`max_turns`", 1, maxWidth)) }},
		{"tool", func(v *yaml.Node) { s.Tool, tool.Name, tool.Pos = tool, p.named(v, "`tool`", thing), posOf(v) }},
		{"args", func(v *yaml.Node) { tool.Args = p.mapping(v, "`args`", &s.sites) }},
		{"effects", func(v *yaml.Node) { tool.Effects = p.choice(v, "`effects`", "once", "idempotent") }},
		{"workflow", func(v *yaml.Node) { s.Workflow = call; p.workflow(v, call) }},
		{"inputs", func(v *yaml.Node) { call.Inputs = p.mapping(v, "`inputs`", &s.sites) }},
		{"ask", func(v *yaml.Node) { s.Ask = p.ask(v, s) }},
		{"value", func(v *yaml.Node) { s.Value = p.expression(v, "`value`", &s.sites) }},
		{"parallel", func(v *yaml.Node) { s.Parallel = p.parallel(v, s) }},
		{"foreach", func(v *yaml.Node) { s.Foreach = p.foreach(v, s) }},
		{"loop", func(v *yaml.Node) { s.Loop = p.loop(v, s) }},
		{"depends_on", func(v *yaml.Node) { p.dependsOn(v, s) }},
		{"when", func(v *yaml.Node) { s.When = p.condition(v, "`when`", &s.sites) }},
		{"gate", func(v *yaml.Node) { s.Gate = p.gate(v, s) }},
		{"output", func(v *yaml.Node) { s.Step.Output = p.outputSchema(v, "output", "a step") }},
		{"output_retries", func(v *yaml.Node) { s.Tries = int(p.wholeIn(v, "`output_retries`", 0, 10)) }},
		{"retry", func(v *yaml.Node) { s.Retry = p.retry(v) }},
		{"timeout", func(v *yaml.Node) { s.Timeout = p.duration(v, "`timeout`") }},
		{"on_error", func(v *yaml.Node) {
			if e := p.choice(v, "`on_error`", "continue", "fail", "skip"); e != "" {
				s.OnError = e
			}
		}},
	}
	keys := p.object(n, "a step", fields)
	if keys == nil {
		return s
	}
	if s.ID != "" {
		s.Pos = posOf(s.id)
	}
	s.free = keys["depends_on"] == nil
	p.need(n, keys, "a step", "id")
	p.oneKind(n, keys, tool.Effects)
	if keys["output_retries"] != nil && keys["output"] == nil {
		p.warn(keys["output_retries"], codeUnused, "`output_retries` does nothing without an `output` schema")
	}
	return s
}

// oneKind checks that a step has exactly one kind, and only the fields of that kind.
func (p *reading) oneKind(n *yaml.Node, keys map[string]*yaml.Node, effects string) {
	var is []string
	for _, k := range kinds() {
		if keys[k] != nil {
			is = append(is, k)
		}
	}
	slices.SortFunc(is, func(a, b string) int {
		if keys[a].Line != keys[b].Line {
			return keys[a].Line - keys[b].Line
		}
		return keys[a].Column - keys[b].Column
	})
	switch {
	case len(is) == 0:
		p.add(posOf(n), codeKind, "a step needs one of %s", either(kinds()))
		return
	case len(is) > 1:
		p.mark(keys[is[1]], codeKind, "a step is one thing, and this one has `%s`; make two steps of it", strings.Join(is, "` and `"))
		return
	}
	for _, o := range owned() {
		if k := keys[o[0]]; k != nil && o[1] != is[0] {
			p.mark(k, codeKind, "`%s` goes with `%s`, and this step has `%s`", o[0], o[1], is[0])
		}
	}
	for _, k := range []string{"retry", "timeout"} {
		if keys[k] != nil && (is[0] == "value" || is[0] == "ask" && k == "retry") {
			p.mark(keys[k], codeKind, "`%s` does nothing for `%s`; take it away", k, is[0])
		}
	}
	if v := keys["workflow"]; v != nil && v.Kind == yaml.MappingNode && keys["timeout"] != nil {
		p.mark(keys["timeout"], codeKind, "`timeout` does nothing for a workflow that is a run of its own; give its steps one")
	}
	if effects == "once" && keys["retry"] != nil {
		p.mark(keys["retry"], codeKind, "`retry` does nothing beside `effects: once`, which is not tried again; take one of them away")
	}
	if is[0] == "subagent" {
		p.need(n, keys, "a step with `subagent`", "prompt")
	}
}

// workflow reads the name of a workflow, or the map of one that is a run of its own.
func (p *reading) workflow(n *yaml.Node, call *Call) {
	if n.Kind != yaml.MappingNode {
		call.Name, call.Pos = p.named(n, "`workflow`", thing), posOf(n)
		return
	}
	keys := p.object(n, "`workflow`", []field{
		{"name", func(v *yaml.Node) { call.Name, call.Pos = p.named(v, "`name`", thing), posOf(v) }},
		{"detach", func(v *yaml.Node) { call.Detached = p.boolean(v, "`detach`") }},
		{"place", func(v *yaml.Node) { call.Place = p.places(v) }},
		{"budget", func(v *yaml.Node) { call.Budget = p.budget(v) }},
	})
	p.need(n, keys, "`workflow`", "name")
	if keys != nil && keys["place"] == nil && !call.Detached {
		p.add(posOf(n), codeMissing, "`workflow` as a map needs `place` or `detach: true`, which make it a run of its own; or write only its name")
	}
	call.Detached = true
}

// places reads a label of a worker, or a list of labels.
func (p *reading) places(n *yaml.Node) (all []string) {
	items := []*yaml.Node{n}
	if n.Kind != yaml.ScalarNode {
		items, _ = p.sequence(n, "`place`")
	}
	for i, c := range items {
		if i == 8 {
			p.add(posOf(c), codeRange, "over 8 labels")
			break
		}
		if label := p.named(c, "a label in `place`", placeName); label != "" {
			all = append(all, label)
		}
	}
	return all
}

func (p *reading) dependsOn(n *yaml.Node, s *step) {
	items := []*yaml.Node{n}
	if n.Kind != yaml.ScalarNode {
		var ok bool
		if items, ok = p.sequence(n, "`depends_on`"); !ok {
			return
		}
	}
	seen := map[string]bool{}
	for _, c := range items {
		id, ok := p.text(c, "a step in `depends_on`")
		switch {
		case !ok:
		case seen[id]:
			p.mark(c, codeRepeated, "`%s` is in `depends_on` twice", name(id))
		default:
			seen[id] = true
			s.deps = append(s.deps, c)
			s.DependsOn = append(s.DependsOn, id)
		}
	}
}

func (p *reading) gate(n *yaml.Node, s *step) *Gate {
	g := &Gate{}
	if n.Kind == yaml.MappingNode {
		keys := p.object(n, "`gate`", []field{{"message", func(v *yaml.Node) { g.Message = p.textTemplate(v, "`message`", &s.sites) }}})
		p.need(n, keys, "`gate`", "message")
		return g
	}
	if n.Kind != yaml.ScalarNode {
		p.wrongType(n, "`gate`", "human, or a map with a message")
		return g
	}
	if n.Value != "human" {
		p.mark(n, codeChoice, "`gate` is %s; write human, or a map with a message", quoted(n.Value))
	}
	return g
}

func (p *reading) retry(n *yaml.Node) *Retry {
	r := &Retry{Backoff: 1}
	attempts := func(v *yaml.Node) { r.Attempts = int(p.wholeIn(v, "`attempts`", 1, maxAttempts)) }
	if n.Kind == yaml.ScalarNode {
		r.Attempts = int(p.wholeIn(n, "`retry`", 1, maxAttempts))
		return r
	}
	keys := p.object(n, "`retry`", []field{
		{"attempts", attempts},
		{"delay", func(v *yaml.Node) { r.Delay = p.duration(v, "`delay`") }},
		{"backoff", func(v *yaml.Node) { r.Backoff = p.real(v, "`backoff`", 1, false, 100, "from 1 to 100") }},
		{"max_delay", func(v *yaml.Node) { r.MaxDelay = p.duration(v, "`max_delay`") }},
	})
	p.need(n, keys, "`retry`", "attempts")
	switch {
	case keys["delay"] == nil && keys["backoff"] != nil:
		p.warn(keys["backoff"], codeUnused, "`backoff` does nothing without a `delay`, which it multiplies")
	case keys["backoff"] == nil && keys["max_delay"] != nil:
		p.warn(keys["max_delay"], codeUnused, "`max_delay` does nothing without a `backoff`, which makes delays grow")
	}
	return r
}
