package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Quotable returns a [*CannotError] if quotes cannot satisfy a schema. They can satisfy a text, a
// list of texts, or an object whose only property is one of these.
func Quotable(s *jsonschema.Schema) error { return quotable(s, "") }

func quotable(s *jsonschema.Schema, at string) error {
	cannot := func(why string) error { return &CannotError{at, why} }
	switch {
	case s == nil, s.Ref != "", s.DynamicRef != "", s.Not != nil, s.If != nil, len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.Types)+len(s.PrefixItems) > 0:
		return cannot("is more than a text or a list of texts")
	case s.Const != nil, len(s.Enum) > 0:
		return cannot("is one of several values, which takes judgement")
	case s.Pattern != "":
		return cannot("has a pattern")
	case s.Format != "":
		return cannot("has the format " + s.Format)
	}
	switch s.Type {
	case "string", "":
		if s.Properties == nil && s.Items == nil {
			return nil
		}
	case "boolean":
		return cannot("is true or false, which takes judgement")
	case "number", "integer":
		return cannot("is a number, which takes judgement")
	case "array":
		if s.Items == nil {
			return nil
		}
		return quotable(s.Items, at)
	}
	var several error
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		inner := name
		if at != "" {
			inner = at + "/" + name
		}
		if err := quotable(s.Properties[name], inner); err != nil {
			return err
		}
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			several = cannot(fmt.Sprintf("has %q, of which nothing is said", name))
		}
	}
	if len(s.Properties) != 1 {
		several = cmp.Or(several, cannot("has several parts, and quotes do not tell what belongs into which"))
	}
	return several
}

// fill creates an answer that fits a schema, from a number of passages, or from more if the schema
// requires more items.
func fill(s *jsonschema.Schema, all []passage, most int) (string, error) {
	v, err := value(s, "", all, most)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", failure(err.Error())
	}
	var plain any
	r, err := s.CloneSchemas().Resolve(nil)
	if err == nil {
		if err = json.Unmarshal(b, &plain); err == nil {
			err = r.Validate(plain)
		}
	}
	if err != nil {
		return "", &CannotError{Why: "cannot be made of quotes: " + err.Error()}
	}
	return string(b), nil
}

func value(s *jsonschema.Schema, at string, all []passage, most int) (any, error) {
	switch {
	case s.Properties != nil:
		for name, inner := range s.Properties { // there is one
			v, err := value(inner, strings.TrimPrefix(at+"/"+name, "/"), all, most)
			return map[string]any{name: v}, err
		}
	case s.Type == "array":
		list := []any{}
		if s.MinItems != nil {
			most = max(most, *s.MinItems)
		}
		if s.MaxItems != nil {
			most = min(most, *s.MaxItems)
		}
		for i := range all[:min(len(all), most)] {
			var v any = all[i].String()
			if s.Items != nil {
				var err error
				if v, err = value(s.Items, at, all[i:i+1], 1); err != nil {
					return nil, err
				}
			}
			list = append(list, v)
		}
		if s.MinItems != nil && len(list) < *s.MinItems {
			return nil, &CannotError{at, fmt.Sprintf("has at least %d items, and the passages found are %d", *s.MinItems, len(list))}
		}
		return list, nil
	}
	if len(all) == 0 {
		return nil, &CannotError{at, "is a quote, and nothing was found"}
	}
	text := all[0].String()
	if s.MaxLength != nil && utf8.RuneCountInString(text) > *s.MaxLength {
		return nil, &CannotError{at, fmt.Sprintf("has at most %d characters, and the passage found has more", *s.MaxLength)}
	}
	for i := 1; i < min(len(all), most); i++ {
		longer := text + "\n\n" + all[i].String()
		if s.MaxLength != nil && utf8.RuneCountInString(longer) > *s.MaxLength {
			break
		}
		text = longer
	}
	return text, nil
}
