package offline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// A CannotError says that an answer was asked for that takes more than quoting.
type CannotError struct {
	At  string // the place in the answer, as "findings/severity"; "" for the whole of it
	Why string // such as "it is to be a number, and that takes judgement"
}

func (e *CannotError) Error() string {
	at := "the answer"
	if e.At != "" {
		at = fmt.Sprintf("%q", e.At)
	}
	return fmt.Sprintf("the model offline quotes and cannot judge: %s %s; this needs a language model, see superstep models list", at, e.Why)
}

// Unwrap makes it an error as all models give them.
func (e *CannotError) Unwrap() error {
	return &model.Error{Provider: Name, Model: Name, Code: model.CodeRequest, Err: errors.New(e.Why)}
}

// filling fills a schema with quotes.
type filling struct {
	root  *jsonschema.Schema
	topic string
	pool  []sentence // the best first
	next  int        // of the pool, what no text has used
	text  string     // what a value of a choice has to occur in
	work  int        // the parts that were looked at
	any   bool       // the pool is made up: only whether it could be done is asked
}

// bound is the quote that a part of a schema is filled from.
type bound struct {
	*sentence
	beside bool // its place is said by the side of it
}

// The quotes of a list whose schema does not say how many, and how deep schemas may be.
const (
	listQuotes    = 5
	deepestSchema = 32
	optionalDepth = 6
	mostParts     = 5000
)

// dry reports what no quotes in the world could fill.
func (w *worker) dry() error {
	f := &filling{root: w.req.Schema, topic: "x", any: true}
	for range mostQuotes {
		f.pool = append(f.pool, sentence{path: "x", pieces: []line{{1, "x"}}})
	}
	_, err := f.value(f.root, "", "", nil, 0)
	return err
}

// json is the answer as the schema wants it.
func (w *worker) json() (string, error) {
	quotes, leading := w.evidence()
	if leading {
		quotes = nil // what does not fit is not handed in as if it did
	}
	f := &filling{root: w.req.Schema, topic: strings.Join(words(w.topic), " "), pool: quotes}
	var text strings.Builder
	for _, g := range w.brief.given {
		text.WriteString(g + "\n")
	}
	if len(w.brief.given) == 0 {
		for i := range quotes {
			text.WriteString(quotes[i].String() + "\n")
		}
	}
	f.text = text.String()
	v, err := f.value(f.root, "", "", nil, 0)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", &CannotError{Why: "cannot be written down: " + err.Error()}
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		return "", &CannotError{Why: "cannot be written down: " + err.Error()}
	}
	r, err := f.root.CloneSchemas().Resolve(nil)
	if err == nil {
		err = r.Validate(plain)
	}
	if err != nil {
		return "", &CannotError{Why: "cannot be made of quotes: " + err.Error()}
	}
	return string(b), nil
}

// value fills one schema. With a quote everything in it is of that quote.
func (f *filling) value(s *jsonschema.Schema, at, name string, q *bound, depth int) (any, error) {
	if f.work++; depth > deepestSchema || f.work > mostParts {
		return nil, &CannotError{at, "is nested too deep"}
	}
	s, err := f.resolve(s, at)
	if err != nil {
		return nil, err
	}
	if s.Const != nil {
		return *s.Const, nil
	}
	v, err := f.typed(s, at, name, q, depth)
	if err != nil && nullable(s) {
		return nil, nil
	}
	return v, err
}

func (f *filling) typed(s *jsonschema.Schema, at, name string, q *bound, depth int) (any, error) {
	if len(s.Enum) > 0 {
		return f.choice(s, at, q)
	}
	if alt := append(slices.Clone(s.AnyOf), s.OneOf...); len(alt) > 0 && len(s.Properties) == 0 {
		var first error
		for _, a := range alt {
			v, err := f.value(a, at, name, q, depth+1)
			if err == nil && (v != nil || len(alt) == 1) {
				return v, nil
			}
			if first == nil {
				first = err
			}
		}
		if slices.ContainsFunc(alt, nullable) {
			return nil, nil
		}
		return nil, first
	}
	if len(s.AllOf) == 1 && len(s.Properties) == 0 && kind(s) == "" {
		return f.value(s.AllOf[0], at, name, q, depth+1)
	}
	if v, ok := f.absent(s, name, q); ok {
		return v, nil
	}
	switch k := kind(s); {
	case k == "object" || k == "" && len(s.Properties) > 0:
		return f.object(s, at, q, depth)
	case k == "array" || k == "" && s.Items != nil:
		return f.array(s, at, name, q, depth)
	case k == "integer" || k == "number":
		if q != nil && (name == "line" || name == "line_number") && len(q.pieces) > 0 && (q.pieces[0].n > 0 || f.any) {
			return q.pieces[0].n, nil
		}
		return nil, &CannotError{at, "is to be a number"}
	case k == "boolean":
		return nil, &CannotError{at, "is to be true or false"}
	case nullable(s) && k == "":
		if len(s.Types) > 0 || s.Type == "null" {
			return nil, nil
		}
	}
	return f.words(s, at, name, q)
}

// absent fills what is to name something that is not there: no quote says that.
func (f *filling) absent(s *jsonschema.Schema, name string, q *bound) (any, bool) {
	if q != nil || !slices.Contains([]string{"open", "missing", "gaps", "unknown", "contradictions", "conflicts", "disagreements", "objections"}, name) {
		return nil, false
	}
	const text = "not judged: the offline model only quotes"
	switch item, err := f.resolve(s.Items, ""); {
	case kind(s) == "string":
		return text, true
	case kind(s) == "array" && err == nil && (kind(item) == "string" || kind(item) == "") && len(item.Enum) == 0:
		return []any{text}, true
	}
	return nil, false
}

// nullable reports whether null will do.
func nullable(s *jsonschema.Schema) bool {
	return s != nil && (s.Type == "null" || slices.Contains(s.Types, "null")) && (len(s.Enum) == 0 || slices.Contains(s.Enum, nil))
}

// resolve follows references within the schema.
func (f *filling) resolve(s *jsonschema.Schema, at string) (*jsonschema.Schema, error) {
	for range deepestSchema {
		if s == nil {
			return &jsonschema.Schema{}, nil
		}
		if s.Ref == "" {
			return s, nil
		}
		defs, name := f.root.Defs, strings.TrimPrefix(s.Ref, "#/$defs/")
		if n, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
			defs, name = f.root.Definitions, n
		}
		switch {
		case s.Ref == "#":
			s = f.root
		case defs[name] != nil:
			s = defs[name]
		default:
			return nil, &CannotError{at, fmt.Sprintf("refers to %q, which it does not follow", s.Ref)}
		}
	}
	return nil, &CannotError{at, "refers to itself"}
}

// choice takes a value that the material names, if it names one and no other.
func (f *filling) choice(s *jsonschema.Schema, at string, q *bound) (any, error) {
	if len(s.Enum) == 1 {
		return s.Enum[0], nil
	}
	text := f.text
	if q != nil {
		text = q.String()
	}
	var named []any
	for _, v := range s.Enum {
		word, ok := v.(string)
		if f.any && ok {
			return word, nil
		}
		if ok && word != "" && occurs(word, text) {
			named = append(named, v)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], nil
	case slices.Contains(s.Enum, nil):
		return nil, nil
	case len(named) > 1:
		return nil, &CannotError{at, fmt.Sprintf("is to be one of several values, and the material has %d of them", len(named))}
	}
	return nil, &CannotError{at, "is to be one of several values, and the material has none of them"}
}

// occurs reports whether a text has a word, as a whole.
func occurs(word, text string) bool {
	re, err := regexp.Compile(`(?i)(?:^|[^\pL\pN_])` + regexp.QuoteMeta(word) + `(?:$|[^\pL\pN_])`)
	return err == nil && re.MatchString(text)
}

// fields are the names of an object's properties in a fixed order.
func fields(s *jsonschema.Schema) []string {
	var out []string
	for _, n := range s.PropertyOrder {
		if s.Properties[n] != nil && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	var rest []string
	for n := range s.Properties {
		if !slices.Contains(out, n) {
			rest = append(rest, n)
		}
	}
	slices.Sort(rest)
	return append(out, rest...)
}

// Kinds of texts that say where a quote stands.
func isPath(name string) bool { return slices.Contains([]string{"path", "file", "filename"}, name) }

func isPlace(name string) bool {
	return slices.Contains([]string{"source", "sources", "citation", "cite", "reference", "location", "place", "where"}, name)
}

func (f *filling) object(s *jsonschema.Schema, at string, q *bound, depth int) (any, error) {
	names := fields(s)
	placed := slices.ContainsFunc(names, func(n string) bool {
		return isPath(n) || isPlace(n) || n == "line" || n == "quote"
	})
	if q == nil && placed {
		next := f.take(nil)
		if next == nil {
			return nil, &CannotError{at, "is to have a quote, and nothing was found that fits"}
		}
		q = &bound{sentence: next}
	}
	if q != nil {
		q = &bound{q.sentence, q.beside || placed}
	}
	out := map[string]any{}
	var first error
	for _, n := range names {
		if depth > optionalDepth && !slices.Contains(s.Required, n) { // likely the same within itself
			first = cmp.Or[error](first, &CannotError{at, "is nested too deep"})
			continue
		}
		v, err := f.value(s.Properties[n], join(at, n), n, q, depth+1)
		switch {
		case err == nil:
			out[n] = v
		case slices.Contains(s.Required, n):
			return nil, err
		case first == nil:
			first = err
		}
	}
	if len(out) == 0 && first != nil {
		return nil, first
	}
	for _, n := range s.Required {
		if _, ok := out[n]; !ok {
			return nil, &CannotError{join(at, n), "is asked for without a word of what it is"}
		}
	}
	return out, nil
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "/" + name
}

func (f *filling) array(s *jsonschema.Schema, at, name string, q *bound, depth int) (any, error) {
	least, most := 0, listQuotes
	if s.MinItems != nil {
		least = *s.MinItems
		most = max(most, min(least, mostQuotes))
	}
	if s.MaxItems != nil {
		most = min(*s.MaxItems, max(most, mostQuotes))
		most = min(most, max(listQuotes, least))
	}
	out := []any{}
	var first error
	if item, err := f.resolve(s.Items, at); q != nil && least == 0 && err == nil && kind(item) == "object" {
		return out, nil // one quote has no parts
	}
	if item, err := f.resolve(s.Items, at); err == nil && name == "queries" && (kind(item) == "string" || kind(item) == "") && !f.any {
		for _, t := range queries(f.topic, "") {
			if t != "" && !slices.Contains(out, any(t)) && len(out) < most {
				out = append(out, t)
			}
		}
	} else {
		pool := f.pool
		if q != nil {
			pool = []sentence{*q.sentence}
		}
		for i := range pool {
			if len(out) >= most {
				break
			}
			v, err := f.value(s.Items, at, name, &bound{sentence: &pool[i]}, depth+1)
			switch {
			case err == nil:
				out = append(out, v)
			case first == nil:
				first = err
			}
		}
	}
	if len(out) == 0 && first != nil {
		return nil, first
	}
	if len(out) < least && !f.any {
		return nil, &CannotError{at, fmt.Sprintf("is to have at least %d items, and %d quotes fit", least, len(out))}
	}
	return out, nil
}

// take is the next quote that suits, or the best one again if none is left.
func (f *filling) take(suits func(*sentence) bool) *sentence {
	for i := f.next; i < len(f.pool); i++ {
		if suits == nil || suits(&f.pool[i]) {
			f.pool[f.next], f.pool[i] = f.pool[i], f.pool[f.next]
			f.next++
			return &f.pool[f.next-1]
		}
	}
	for i := range f.pool {
		if suits == nil || suits(&f.pool[i]) {
			return &f.pool[i]
		}
	}
	return nil
}

// words is a text: a quote with its place, unless that is said by the side of it.
func (f *filling) words(s *jsonschema.Schema, at, name string, q *bound) (any, error) {
	longest := math.MaxInt
	if s.MaxLength != nil {
		longest = *s.MaxLength
	}
	if f.any {
		return "x", nil
	}
	if s.Format != "" {
		return nil, &CannotError{at, "is to have the format " + s.Format}
	}
	switch {
	case q == nil && slices.Contains([]string{"topic", "question", "query", "subject"}, name) && f.topic != "":
		return f.topic, nil
	case q != nil && isPath(name), q != nil && isPlace(name):
		v := q.cite()
		if isPath(name) {
			v = q.path
		}
		if v == "" {
			return nil, &CannotError{at, "is to be the place of a quote, and the material does not say it"}
		}
		return v, nil
	}
	short := func(o *sentence) bool { return utf8.RuneCountInString(o.String()) <= longest }
	if q == nil {
		if next := f.take(short); next != nil {
			q = &bound{sentence: next}
		}
	}
	if q == nil || !short(q.sentence) {
		if len(f.pool) == 0 {
			return nil, &CannotError{at, "is to be filled, and nothing was found that fits"}
		}
		return nil, &CannotError{at, fmt.Sprintf("is to have at most %d characters, and no quote is that short", longest)}
	}
	text := q.String()
	if c := q.cite(); c != "" && !q.beside {
		if with := fmt.Sprintf("“%s” (%s)", text, c); utf8.RuneCountInString(with) <= longest {
			return with, nil
		}
	}
	return text, nil
}
