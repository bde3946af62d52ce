package transcript

import (
	"maps"
	"slices"
)

// Clone returns a copy of the run that further records may be applied to, while the original stays as it is. Both share what no record changes any more,
// such as texts. It takes time in proportion to the number of parts.
func (r *Run) Clone() *Run {
	out := *r
	c := cloner{tasks: make(map[*Task]*Task, len(r.Tasks)), tools: map[*Tool]*Tool{}, agents: make(map[*Agent]*Agent, len(r.Agents)),
		questions: make(map[*Question]*Question, len(r.Questions))}
	for _, t := range r.Tasks {
		c.tasks[t] = &Task{}
	}
	out.Agents = clones(r.Agents, c.agent)
	out.Questions = clones(r.Questions, c.question)
	for _, t := range r.Tasks {
		c.task(t)
	}
	out.Tasks, out.ended = clones(r.Tasks, c.at), clones(r.ended, c.at)
	steps := make(map[*Step]*Step, len(r.Steps))
	out.Steps = clones(r.Steps, func(s *Step) *Step {
		step := *s
		step.Tasks, step.Planned = clones(s.Tasks, c.at), maps.Clone(s.Planned)
		steps[s] = &step
		return &step
	})
	out.changed.tasks = r.changed.tasks.clone(c.at, func(t *Task) *spot[Task] { return &t.place })
	out.changed.steps = r.changed.steps.clone(func(s *Step) *Step { return steps[s] }, func(s *Step) *spot[Step] { return &s.place })
	out.changed.questions = slices.Clone(r.changed.questions)
	for i := range out.changed.questions {
		q := &out.changed.questions[i]
		q.what = c.question(q.what)
	}
	out.paths = cloned(r.paths, c.at)
	out.Failed, out.Degraded, out.Skipped = slices.Clone(r.Failed), slices.Clone(r.Degraded), slices.Clone(r.Skipped)
	out.Denied, out.Refused = slices.Clone(r.Denied), slices.Clone(r.Refused)
	out.loads = cloned(r.loads, func(l *load) *load { return new(*l) })
	out.sends = cloned(r.sends, maps.Clone[map[string]bool])
	out.aside, out.turns, out.order = maps.Clone(r.aside), maps.Clone(r.turns), maps.Clone(r.order)
	return &out
}

// A cloner knows the copies of what is pointed to from several places.
type cloner struct {
	tasks     map[*Task]*Task
	tools     map[*Tool]*Tool
	agents    map[*Agent]*Agent
	questions map[*Question]*Question
}

func clones[T any](list []*T, clone func(*T) *T) []*T {
	if list == nil {
		return nil
	}
	out := make([]*T, len(list))
	for i, x := range list {
		out[i] = clone(x)
	}
	return out
}

func cloned[V any](m map[string]V, clone func(V) V) map[string]V {
	if m == nil {
		return nil
	}
	out := make(map[string]V, len(m))
	for key, v := range m {
		out[key] = clone(v)
	}
	return out
}

// clone returns a queue of the copies of what is in this one, whose places are made anew.
func (q *queue[T]) clone(copied func(*T) *T, place func(*T) *spot[T]) (out queue[T]) {
	var later *spot[T]
	for s := q.end; s != nil; s = s.before {
		what := copied(s.what)
		here := place(what)
		if *here = (spot[T]{what: what, rev: s.rev, after: later}); later != nil {
			later.before = here
		} else {
			out.end = here
		}
		later = here
	}
	return out
}

// at returns the copy of a task; one that the run does not list any more is copied when it is first met.
func (c *cloner) at(t *Task) *Task {
	if t == nil {
		return nil
	}
	if c.tasks[t] == nil {
		c.tasks[t] = &Task{}
		c.task(t)
	}
	return c.tasks[t]
}

func (c *cloner) task(t *Task) {
	out := c.tasks[t]
	*out = *t
	out.Parent, out.Children, out.Agents = c.at(t.Parent), clones(t.Children, c.at), clones(t.Agents, c.agent)
	out.Parts, out.parts = slices.Clone(t.Parts), slices.Clone(t.parts)
	for i := range out.Parts {
		p := &out.Parts[i]
		p.Tool, p.Question = c.tool(p.Tool), c.question(p.Question)
	}
	out.open = clones(t.open, c.tool)
	out.Bad, out.Todos = slices.Clone(t.Bad), slices.Clone(t.Todos)
	out.live, out.shown = slices.Clone(t.live), slices.Clone(t.shown)
	out.inputs, out.ids, out.items = maps.Clone(t.inputs), maps.Clone(t.ids), maps.Clone(t.items)
	if t.Progress != nil {
		out.Progress = new(*t.Progress)
	}
}

func (c *cloner) tool(u *Tool) *Tool {
	if u == nil {
		return nil
	}
	out := c.tools[u]
	if out == nil {
		out = new(*u)
		c.tools[u] = out
		out.Child = c.at(u.Child)
	}
	return out
}

func (c *cloner) agent(a *Agent) *Agent {
	if a == nil {
		return nil
	}
	out := c.agents[a]
	if out == nil {
		out = new(*a)
		c.agents[a] = out
		out.Task, out.Calls = c.at(a.Task), clones(a.Calls, c.tool)
	}
	return out
}

func (c *cloner) question(q *Question) *Question {
	if q == nil {
		return nil
	}
	out := c.questions[q]
	if out == nil {
		out = new(*q)
		c.questions[q] = out
	}
	return out
}
