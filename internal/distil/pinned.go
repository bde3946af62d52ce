package distil

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// files returns the recipes that a run has pinned, or nil if it is not a run of a recipe.
func (r *Recording) files() []*recipe.Recipe {
	var p struct {
		Files []struct{ Name, Text string }
	}
	if len(r.started.Pinned) == 0 || json.Unmarshal(r.started.Pinned, &p) != nil {
		return nil
	}
	var out []*recipe.Recipe
	for _, f := range p.Files {
		if parsed, _ := recipe.Parse(f.Name, []byte(f.Text)); parsed != nil {
			out = append(out, parsed)
		}
	}
	return out
}

// recipeSteps returns the steps of the run's recipes by ID. If several recipes have the same ID,
// the first one counts.
func (r *Recording) recipeSteps() map[string]*recipe.Step {
	known := map[string]*recipe.Step{}
	for _, f := range r.files() {
		f.Walk(func(s *recipe.Step, _ int) bool {
			if known[s.ID] == nil {
				known[s.ID] = s
			}
			return true
		})
	}
	return known
}

// settle completes a unit that was a step of a recipe with data from the recipe and from its
// result.
func (r *Recording) settle(u *unit, known map[string]*recipe.Step) {
	s := known[u.label]
	if s == nil || (s.Agent == nil || u.kind != agentUnit || s.Agent.Name != u.name) && (s.Tool == nil || u.kind != toolUnit || s.Tool.Name != u.name) {
		return
	}
	if s.Agent != nil {
		u.model = s.Agent.Model
	}
	var result recipe.Result
	if json.Unmarshal(orNull(r.done[u.path]), &result) == nil && result.Status == recipe.Done && len(result.Output) > 0 {
		u.value = result.Output
	}
	if u.schema = nil; s.Output != nil {
		if raw, err := json.Marshal(s.Output); err == nil {
			u.schema = raw
		}
	}
}
