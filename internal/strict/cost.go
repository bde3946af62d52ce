package strict

import (
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// A tree is the part of a value that decides which schemas apply to its elements.
type tree struct {
	fields map[string]*tree
	items  []*tree
}

// costs counts the schemas that are evaluated when a value is checked, including all alternatives.
// Schemas that contain themselves twice double the cost with each level of the value, and a running
// check cannot be stopped.
type costs struct {
	root  *jsonschema.Schema
	most  int
	leaf  *tree // each value that holds no others
	known map[costKey]int
	parts map[*jsonschema.Schema][]costPart // of those that were looked at
}

type costPart struct {
	part
	inner *jsonschema.Schema
	same  bool // it applies to the same value
}

type costKey struct {
	s *jsonschema.Schema
	t *tree
}

// Affordable reports whether the time to check a decoded value against a schema is in proportion to
// the size of both. A nil schema is no schema.
func Affordable(root *jsonschema.Schema, v any) bool {
	return root == nil || !refers(root) || affordable(root, root, v)
}

// affordable does the work of Affordable for a schema with references. Without references there is nothing to count: each schema is evaluated once per
// part of a value.
func affordable(root, s *jsonschema.Schema, v any) bool {
	c := &costs{root: root, most: 1_000_000, leaf: new(tree), known: map[costKey]int{}, parts: map[*jsonschema.Schema][]costPart{}}
	t := c.tree(v)
	return c.of(s, t) <= c.most
}

// tree creates a tree from a value, and lets each part of it cost some steps.
func (c *costs) tree(v any) *tree {
	c.most += 100
	switch v := v.(type) {
	case map[string]any:
		t := &tree{fields: make(map[string]*tree, len(v))}
		for name, in := range v {
			t.fields[name] = c.tree(in)
		}
		return t
	case []any:
		t := &tree{items: make([]*tree, len(v))}
		for i, in := range v {
			t.items[i] = c.tree(in)
		}
		return t
	}
	return c.leaf
}

// refers reports whether there is a reference in a schema.
func refers(s *jsonschema.Schema) bool {
	if s.Ref != "" {
		return true
	}
	for _, inner := range parts(s) {
		if refers(inner) {
			return true
		}
	}
	return false
}

// partsOf returns the direct subschemas of a schema, and its references.
func (c *costs) partsOf(s *jsonschema.Schema) []costPart {
	out, known := c.parts[s]
	if known {
		return out
	}
	for p, inner := range parts(s) {
		out = append(out, costPart{p, inner, slices.Contains(forSame(), p.keyword)})
	}
	if s.Ref != "" {
		if to := named(c.root, s.Ref); to != nil {
			out = append(out, costPart{part{keyword: "$ref"}, to, true})
		}
	}
	c.parts[s] = out
	return out
}

// of returns how many schemas are evaluated for a value; a result above most means that there are
// more than most.
func (c *costs) of(s *jsonschema.Schema, t *tree) int {
	key := costKey{s, t}
	if n, known := c.known[key]; known {
		return n
	}
	c.known[key] = c.most + 1 // of one that has itself for the same value
	n := 1
	add := func(more int) { n = min(n+more, c.most+1) }
	for _, p := range c.partsOf(s) {
		inner := p.inner
		switch p.keyword {
		case "$defs", "definitions", "contentSchema":
		case "properties":
			if in := t.fields[p.name]; in != nil {
				add(c.of(inner, in))
			}
		case "additionalProperties", "patternProperties", "unevaluatedProperties":
			for name, in := range t.fields {
				if p.keyword != "additionalProperties" || s.Properties[name] == nil {
					add(c.of(inner, in))
				}
			}
		case "propertyNames":
			for range t.fields {
				add(c.of(inner, c.leaf))
			}
		case "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems":
			for _, in := range t.items {
				add(c.of(inner, in))
			}
		default:
			if p.same {
				add(c.of(inner, t))
			}
		}
		if n > c.most {
			break
		}
	}
	c.known[key] = n
	return n
}
