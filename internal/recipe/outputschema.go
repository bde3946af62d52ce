package recipe

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/strict"
)

// outputSchema reads the schema of an output, which is the value of a key. It is complete and has no external references.
func (p *reading) outputSchema(n *yaml.Node, key, of string) *jsonschema.Schema {
	if n.Kind != yaml.MappingNode {
		p.wrongType(n, "`"+key+"` of "+of, "a map, a JSON Schema")
		return nil
	}
	p.keywords(n, slices.Sorted(maps.Keys(schemaWords)))
	if p.full() {
		return nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(p.json(n), &s); err != nil {
		p.add(posOf(n), codeSchema, "`%s` is no JSON Schema: %v", key, err)
		return nil
	}
	if bad := unknownType(&s, 0); bad != "" {
		p.add(posOf(n), codeSchema, "`%s` is no JSON Schema: there is no type %s; there are string, integer, number, boolean, array, object and null",
			key, quoted(bad))
		return nil
	}
	if _, err := s.CloneSchemas().Resolve(nil); err != nil {
		p.add(posOf(n), codeSchema, "`%s` is no JSON Schema: %v", key, err)
		return nil
	}
	if err := strict.CheckJSON(s.CloneSchemas(), "null"); err != nil {
		if _, why, bad := strings.Cut(err.Error(), "invalid output schema: "); bad {
			p.add(posOf(n), codeSchema, "`%s` is no JSON Schema that can be checked: %s", key, why)
			return nil
		}
	}
	return &s
}

// unknownType returns a type that JSON Schema does not have, or "". The library would accept such a
// type, but no value would ever satisfy it.
func unknownType(s *jsonschema.Schema, depth int) string {
	if s == nil || depth > 2*maxDepth {
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

// schemaWords maps the keywords of JSON Schema to the schemas that they contain: "" for none, "one"
// for a schema, "list" for a list of schemas (or one), "map" for a map of schemas.
var schemaWords = map[string]string{
	"title": "", "description": "", "default": "", "deprecated": "", "readOnly": "", "writeOnly": "", "examples": "",
	"type": "", "enum": "", "const": "", "multipleOf": "", "minimum": "", "maximum": "", "exclusiveMinimum": "", "exclusiveMaximum": "",
	"minLength": "", "maxLength": "", "pattern": "", "format": "", "contentEncoding": "", "contentMediaType": "", "contentSchema": "one",
	"prefixItems": "list", "items": "list", "additionalItems": "one", "unevaluatedItems": "one", "contains": "one",
	"minItems": "", "maxItems": "", "uniqueItems": "", "minContains": "", "maxContains": "",
	"properties": "map", "patternProperties": "map", "additionalProperties": "one", "propertyNames": "one", "unevaluatedProperties": "one",
	"minProperties": "", "maxProperties": "", "required": "", "dependentRequired": "", "dependentSchemas": "map", "dependencies": "map", "definitions": "map",
	"allOf": "list", "anyOf": "list", "oneOf": "list", "not": "one", "if": "one", "then": "one", "else": "one",
}

// keywords warns of keywords that JSON Schema does not have: they are ignored.
func (p *reading) keywords(n *yaml.Node, known []string) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content) && !p.full(); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			continue
		}
		below, is := schemaWords[k.Value]
		switch {
		case k.Value == "$defs":
			below = "map"
		case !is && !strings.HasPrefix(k.Value, "$") && !strings.HasPrefix(strings.ToLower(k.Value), "x-"):
			hint := meant(p.hint(k.Value, known))
			switch {
			case cutOff(n, v):
				hint = commaHint
			case hint == "":
				hint = "; it is not looked at"
			}
			p.warn(k, codeKeyword, "JSON Schema has no keyword `%s`%s", name(k.Value), hint)
		}
		switch {
		case below == "one", below == "list" && v.Kind == yaml.MappingNode:
			p.keywords(v, known)
		case below == "list" && v.Kind == yaml.SequenceNode:
			for _, c := range v.Content {
				p.keywords(c, known)
			}
		case below == "map" && v.Kind == yaml.MappingNode:
			for j := 1; j < len(v.Content); j += 2 {
				p.keywords(v.Content[j], known)
			}
		}
	}
}
