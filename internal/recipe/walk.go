package recipe

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Walk visits all steps, outer ones before those inside, in the order of the file. The depth of the top ones is
// 0. The handlers come last. If visit returns false, the steps inside are skipped.
func (r *Recipe) Walk(visit func(s *Step, depth int) bool) {
	r.Block.walk(visit, 0)
	(&Block{Steps: r.Handlers}).walk(visit, 0)
}

// HandlerBlocks returns the steps of the handlers.
func (r *Recipe) HandlerBlocks() (out []*Block) {
	for _, h := range r.Handlers {
		out = append(out, h.Body())
	}
	return out
}

func (b *Block) walk(visit func(*Step, int) bool, depth int) {
	for _, s := range b.Steps {
		if body := s.Body(); visit(s, depth) && body != nil {
			body.walk(visit, depth+1)
		}
	}
}

// Definitions returns the source of each top-level step by ID, as JSON. Equal steps have equal
// texts.
func (r *Recipe) Definitions() (map[string]string, error) {
	var in struct {
		Steps []map[string]any `yaml:"steps"`
	}
	if err := yaml.Unmarshal(r.Source, &in); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i, s := range in.Steps {
		b, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if i < len(r.Steps) {
			out[r.Steps[i].ID] = string(b)
		}
	}
	return out, nil
}

// Uses returns the names of the workflows it calls, in the order of the file, each once.
func (r *Recipe) Uses() []string {
	return r.names(func(s *Step) string {
		if s.Workflow == nil {
			return ""
		}
		return s.Workflow.Name
	})
}

// AgentNames returns the names of the sub-agents that the recipe uses, each once, in the order of
// the file.
func (r *Recipe) AgentNames() []string {
	return r.names(func(s *Step) string {
		if s.Agent == nil {
			return ""
		}
		return s.Agent.Name
	})
}

// ToolNames returns the names of the tools it calls by itself, in the order of the file, each once.
func (r *Recipe) ToolNames() []string {
	return r.names(func(s *Step) string {
		if s.Tool == nil {
			return ""
		}
		return s.Tool.Name
	})
}

func (r *Recipe) names(of func(*Step) string) []string {
	var names []string
	r.Walk(func(s *Step, _ int) bool {
		if n := of(s); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
		return true
	})
	return names
}
