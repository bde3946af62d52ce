package offline

import (
	"math"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// fill makes arguments for a tool by the names of their properties. It fills what is
// required, and what it knows how to.
func (c *conversation) fill(s *jsonschema.Schema) map[string]any {
	args := map[string]any{}
	for name, p := range s.Properties {
		if v, ok := c.value(name, p, slices.Contains(s.Required, name)); ok {
			args[name] = v
		}
	}
	return args
}

func (c *conversation) value(name string, p *jsonschema.Schema, required bool) (any, bool) {
	switch name {
	case "queries":
		return queries(c.question, c.topic), true
	case "directions":
		return c.directions(), true
	case "findings":
		return c.findings(), true
	case "content":
		return c.report(), true
	}
	if !required {
		return nil, false
	}
	switch kind(p) {
	case "array":
		return []any{}, true
	case "integer", "number":
		return 0, true
	case "boolean":
		return false, true
	case "object":
		return map[string]any{}, true
	}
	if best := c.best(1); len(best) > 0 {
		return best[0].String(), true
	}
	return c.question, true
}

func kind(s *jsonschema.Schema) string {
	for _, t := range append([]string{s.Type}, s.Types...) {
		if t != "" && t != "null" {
			return t
		}
	}
	return ""
}

// mostSure is the confidence of a sentence that fits best: words that match are a hint,
// not understanding.
const mostSure = 0.5

// findings are the best sentences of the results.
func (c *conversation) findings() []any {
	out := []any{}
	for _, s := range c.best(5) {
		quote := make([]string, len(s.pieces))
		for i, p := range s.pieces {
			quote[i] = p.text
		}
		out = append(out, map[string]any{
			"claim": s.String(), "quote": strings.Join(quote, "\n"), "path": s.path, "line": s.pieces[0].n,
			"confidence": math.Round(100*mostSure*min(1, s.score)) / 100,
		})
	}
	return out
}
