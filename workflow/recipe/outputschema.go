package recipe

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"
)

// outputSchema reads the schema of a step's output. It is complete: nothing of it is somewhere else.
func (p *reading) outputSchema(n *yaml.Node) *jsonschema.Schema {
	if n.Kind != yaml.MappingNode {
		p.wrongType(n, "`output` of a step", "a map, a JSON Schema")
		return nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(p.json(n), &s); err != nil {
		p.add(posOf(n), codeSchema, "`output` is no JSON Schema: %v", err)
		return nil
	}
	if bad := unknownType(&s, 0); bad != "" {
		p.add(posOf(n), codeSchema, "`output` is no JSON Schema: there is no type %s; there are string, integer, number, boolean, array, object and null", quoted(bad))
		return nil
	}
	if _, err := s.CloneSchemas().Resolve(nil); err != nil {
		p.add(posOf(n), codeSchema, "`output` is no JSON Schema: %v", err)
		return nil
	}
	return &s
}

// unknownType finds a type that JSON Schema does not have, which the library would let pass, and then
// nothing would ever fit. It is "" if there is none.
func unknownType(s *jsonschema.Schema, depth int) string {
	if s == nil || depth > 2*MaxDepth {
		return ""
	}
	known := []string{"string", "integer", "number", "boolean", "array", "object", "null"}
	types := s.Types
	if s.Type != "" {
		types = append(slices.Clip(types), s.Type)
	}
	for _, t := range types {
		if !slices.Contains(known, t) {
			return t
		}
	}
	below := []*jsonschema.Schema{
		s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems, s.AdditionalProperties, s.PropertyNames, s.UnevaluatedProperties,
		s.Not, s.If, s.Then, s.Else, s.ContentSchema,
	}
	below = slices.Concat(below, s.ItemsArray, s.PrefixItems, s.AllOf, s.AnyOf, s.OneOf)
	for _, m := range []map[string]*jsonschema.Schema{s.Defs, s.Definitions, s.Properties, s.PatternProperties, s.DependentSchemas, s.DependencySchemas} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			below = append(below, m[k])
		}
	}
	for _, c := range below {
		if t := unknownType(c, depth+1); t != "" {
			return t
		}
	}
	return ""
}
