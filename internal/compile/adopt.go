package compile

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/workflow"
)

// adopt creates a run that starts with the results of the steps that have not changed since an
// older run.
func (m *machine) adopt(inputs, now json.RawMessage, old *workflow.Past) (*graph.Forked, error) {
	c, err := m.compare(inputs, now, old)
	if err != nil {
		return nil, err
	}
	results := map[string]json.RawMessage{}
	take := func(u update) error {
		good := u.Status == recipe.Done || u.Status == recipe.Skipped && !u.Skips
		if !good || len(u.Bad) > 0 {
			delete(results, u.ID)
			return nil
		}
		b, err := json.Marshal(u)
		results[u.ID] = b
		return err
	}
	var state struct {
		Steps map[string]recipe.Result `json:"steps"`
	}
	if len(old.State) > 0 {
		if err := json.Unmarshal(old.State, &state); err != nil {
			return nil, err
		}
	}
	for id, r := range state.Steps { // each is for itself
		if err := take(update{id, r}); err != nil {
			return nil, err
		}
	}
	for _, raw := range old.Done {
		var u update
		if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
			continue
		}
		if _, folded := state.Steps[u.ID]; folded {
			continue
		}
		if err := take(u); err != nil {
			return nil, err
		}
	}
	for _, s := range m.bundle.Main.Steps {
		if !c.same(s) {
			delete(results, s.ID)
		}
	}
	flow, err := m.look(m.bundle.Main)
	if err != nil {
		return nil, err
	}
	return flow.Seed(results)
}

// comparison names the unchanged steps of a recipe.
type comparison struct {
	old, now      *Bundle
	defsOld, defs map[string]string
	inputs        []string // that have another value
	other         bool     // agents or tools have changed
	model         bool     // so has the model of those that name none
	known         map[string]bool
}

func (m *machine) compare(inputs, now json.RawMessage, old *workflow.Past) (*comparison, error) {
	c := &comparison{now: m.bundle, known: map[string]bool{}}
	var was, is pinned
	if err := json.Unmarshal(old.Pinned, &was); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(now, &is); err != nil {
		return nil, err
	}
	var err error
	if c.old, err = was.bundle(); err != nil {
		return nil, err
	}
	if c.defsOld, err = c.old.Main.Definitions(); err != nil {
		return nil, err
	}
	if c.defs, err = c.now.Main.Definitions(); err != nil {
		return nil, err
	}
	before, err := settled(c.old.Main, old.Inputs)
	if err != nil {
		return nil, err
	}
	after, err := settled(c.now.Main, inputs)
	if err != nil {
		return nil, err
	}
	for _, list := range []map[string]json.RawMessage{before, after} {
		for name := range list {
			if !bytes.Equal(before[name], after[name]) {
				c.inputs = append(c.inputs, name)
			}
		}
	}
	for name, digest := range is.Setting.Parts {
		if had, ok := was.Setting.Parts[name]; ok && had != digest {
			c.other = true
		}
	}
	c.model = c.old.Main.Model != c.now.Main.Model || was.Setting.Model != is.Setting.Model
	return c, nil
}

// settled returns inputs completed by the defaults.
func settled(r *recipe.Recipe, inputs json.RawMessage) (map[string]json.RawMessage, error) {
	all, err := settle(r, inputs)
	out := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(all, &out)
	}
	return out, err
}

// same reports whether a step and all its dependencies are unchanged.
func (c *comparison) same(s *recipe.Step) bool {
	if is, known := c.known[s.ID]; known {
		return is
	}
	is := c.alone(s)
	for _, other := range c.now.Main.Steps {
		if is && other != s && (slices.Contains(s.DependsOn, other.ID) || slices.Contains(s.Reads, other.ID)) {
			is = c.same(other)
		}
	}
	c.known[s.ID] = is
	return is
}

// alone is like same, but ignores the step's dependencies.
func (c *comparison) alone(s *recipe.Step) bool {
	def := c.defs[s.ID]
	if c.defsOld[s.ID] != def {
		return false
	}
	if slices.ContainsFunc(c.inputs, func(name string) bool { return strings.Contains(def, name) }) {
		return false
	}
	return c.made(s, 0)
}

// made reports whether the models, agents, tools and recipes of a step are unchanged.
func (c *comparison) made(s *recipe.Step, depth int) bool {
	switch {
	case depth > maxNesting:
		return false
	case s.Agent != nil:
		return !c.other && (s.Agent.Model != "" || !c.model)
	case s.Tool != nil:
		return !c.other
	case s.Workflow != nil:
		was, is := c.old.find(s.Workflow.Name), c.now.find(s.Workflow.Name)
		if was == nil || is == nil {
			return was == is
		}
		if !bytes.Equal(was.Source, is.Source) {
			return false
		}
		s = &recipe.Step{Parallel: &recipe.Parallel{Block: is.Block}}
	}
	body := s.Body()
	return body == nil || !slices.ContainsFunc(body.Steps, func(in *recipe.Step) bool { return !c.made(in, depth+1) })
}
