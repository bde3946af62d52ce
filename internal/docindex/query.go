package docindex

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxTerms = 64 // of a query; the rest is ignored

// A query is what people typed, taken apart. No character of it has a meaning to the
// database.
type query struct {
	terms   []string   // distinct, in order; stop words only if there is nothing else
	phrases [][]string // what was between double quotes
	runs    [][]string // sequences of two to four terms that may have an initialism

	initialisms map[string][]string // those that do
}

func parseQuery(s string) query {
	tok := newTokenizer()
	q := query{initialisms: make(map[string][]string)}
	var all []string
	for i, part := range strings.Split(s, `"`) {
		terms := tok.terms(part)
		all = append(all, terms...)
		if whole := tok.wholes([]byte(part)); i%2 == 1 && len(whole) > 1 {
			q.phrases = append(q.phrases, whole)
		}
	}
	if strings.Count(s, `"`)%2 == 1 { // the last quote opens nothing
		if i := strings.LastIndexByte(s, '"'); len(q.phrases) > 0 && len(tok.wholes([]byte(s[i+1:]))) > 1 {
			q.phrases = q.phrases[:len(q.phrases)-1]
		} else if len(q.phrases) == 1 && i == strings.IndexByte(s, '"') {
			q.phrases = nil
		}
	}
	add := func(keep func(string) bool) {
		for _, t := range all {
			if len(q.terms) < maxTerms && keep(t) && !slices.Contains(q.terms, t) {
				q.terms = append(q.terms, t)
			}
		}
	}
	stop := termSet(tok, stopWords)
	add(func(t string) bool { return !stop[t] })
	if len(q.terms) == 0 {
		add(func(string) bool { return true })
		return q
	}
	whole := tok.wholes([]byte(s))
	for i := range whole {
		for n := 2; n <= 4 && i+n <= len(whole) && len(q.runs) < maxTerms; n++ {
			if run := whole[i : i+n]; !slices.ContainsFunc(run, func(t string) bool { return stop[t] || t[0] >= utf8.RuneSelf }) {
				q.runs = append(q.runs, run)
			}
		}
	}
	return q
}

func initials(terms []string) string {
	b := make([]byte, len(terms))
	for i, t := range terms {
		b[i] = t[0]
	}
	return string(b)
}

// wholes returns the terms of text without the parts of identifiers.
func (t *tokenizer) wholes(text []byte) []string {
	var out []string
	t.each(text, func(term string, _ int, part bool) {
		if !part {
			out = append(out, term)
		}
	})
	return out
}

// match is the query as an FTS5 expression.
func (q query) match() string {
	any := slices.Concat(q.terms, slices.Sorted(maps.Keys(q.initialisms)))
	expr := "(" + quoted(any, " OR ") + ")"
	for _, p := range q.phrases {
		expr = "(" + quoted(p, " AND ") + ") AND " + expr
	}
	return expr
}

// quoted joins terms, which consist of letters and digits, as FTS5 strings.
func quoted(terms []string, op string) string {
	var b strings.Builder
	for i, t := range terms {
		if i > 0 {
			b.WriteString(op)
		}
		b.WriteString(`"` + strings.ReplaceAll(t, `"`, `""`) + `"`)
	}
	return b.String()
}

// holds says whether all phrases are in text.
func (q query) holds(tok *tokenizer, text []byte) bool {
	if len(q.phrases) == 0 {
		return true
	}
	have := tok.wholes(text)
	for _, p := range q.phrases {
		if !containsRun(have, p) {
			return false
		}
	}
	return true
}

func containsRun(have, want []string) bool {
	for i := 0; i+len(want) <= len(have); i++ {
		if slices.Equal(have[i:i+len(want)], want) {
			return true
		}
	}
	return false
}

const stopWords = `a about above after again all also am an and any are as at be because been before
	being below between both but by can cannot could did do does doing down during each few for from further had
	has have having he her here hers him his how i if in into is it its itself just let lets me might more most must
	my no nor not of off on once only or other our ours out over own please same shall she should so some such than
	that the their theirs them then there these they this those through to too under until up us very was we were
	what when where which while who whom why will with would you your yours d ll m re s t ve don doesn isn aren
	explain describe tell show`

// frameWords are those of a question rather than of its answer.
const frameWords = `decide determine choose happen work know mean find get make use used using cause handle write
	written exactly actually way kind thing possible want need difference best`

func termSet(tok *tokenizer, words string) map[string]bool {
	set := make(map[string]bool)
	for _, t := range tok.terms(words) {
		set[t] = true
	}
	return set
}
