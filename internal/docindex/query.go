package docindex

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/words"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const maxTerms = 60 // of a query that are looked for; bits of a set

// A term is a word of a question, or a part of an identifier in it.
type term struct {
	text   string
	df     int     // rows it is in
	plain  bool    // it is in every text
	code   bool    // it is written as code is
	name   string  // as the question writes it, if it is a name, which an answer has
	weight float64 // what it says about an answer: its inverse document frequency, less for words of questions
}

// A query is a parsed question. None of its characters has a special meaning to the database.
type query struct {
	terms   []term
	index   map[string]int // of terms
	total   float64        // of their weights
	phrases [][]string     // what was between double quotes
	options []*regexp.Regexp
	missing []string // words that are nowhere
	absent  bool     // a name of several words is nowhere
	code    bool     // it asks for tests
	vague   bool     // it has no word to look for: What is this project?
}

// names are options and identifiers of several words. They match only as a whole.
var names = regexp.MustCompile(`--\w[\w-]+|\w+_\w+`)

// smallest is the least number of rows that is assumed for a folder, so that words weigh the same
// in small folders.
const smallest = 1000

func (ix *Index) parseQuery(ctx context.Context, text string) (*query, error) {
	tok := newTokenizer()
	q := &query{index: make(map[string]int)}
	if parts := strings.Split(text, `"`); len(parts)%2 == 1 { // or the last quote opens nothing
		for i := 1; i < len(parts); i += 2 {
			if p := tok.wholes([]byte(parts[i])); len(p) > 1 {
				q.phrases = append(q.phrases, p)
			}
		}
	}
	var failed error
	stop, frame, self := termSet(tok, words.Plain), termSet(tok, frameWords), termSet(tok, selfWords)
	add := func(text string, factor float64) (df int) {
		i, known := q.index[text]
		if !known {
			if len(q.terms) == maxTerms {
				return 1
			}
			n, err := ix.stats.Passages, error(nil)
			if !everywhere(text) {
				n, err = ix.frequency(ctx, text)
			}
			failed = cmp.Or(failed, err)
			i = len(q.terms)
			q.index[text] = i
			q.terms = append(q.terms, term{text: text, df: n, plain: stop[text]})
		}
		t := &q.terms[i]
		t.code = t.code || factor > 1
		t.weight = max(t.weight, factor*idf(t.df, max(ix.stats.Passages, smallest)))
		return t.df
	}
	raw := []byte(text)
	var whole string // the word at hand
	var at, df int   // where it is, in how many rows
	gone := false    // it is nowhere
	end := func() {
		if gone && whole != "" && !slices.Contains(q.missing, whole) {
			q.missing = append(q.missing, whole)
		}
		whole, gone = "", false
	}
	tok.each(raw, func(s *stem, i int, part bool) {
		text := s.text
		if part {
			factor := 0.5
			if df == 0 {
				factor = 1
			}
			n := add(text, factor)
			gone = gone && n == 0 || df == 0 && n == 0 && len(text) > 2
			return
		}
		end()
		at = i
		whole = string(raw[at:max(wordEnd(raw, at), at+len(text))])
		factor := 1.0
		switch ident := identifier(raw, at, at+len(whole)); {
		case ident:
			factor = 1.3
		case stop[text]:
			factor = 0.1
		case frame[text]:
			factor = 0.35
		}
		df = add(text, factor)
		gone = df == 0 && !stop[text] && !frame[text]
		if i, ok := q.index[text]; ok {
			if factor > 1 && (unicode.IsUpper(firstRune(raw[at:])) || hasCapital(whole)) {
				q.terms[i].name = strings.TrimSuffix(whole, "s") // of a plural the name
			}
		}
	})
	end()
	for _, o := range option.FindAllStringSubmatch(text, maxTerms) {
		q.options = append(q.options, regexp.MustCompile(`(^|[^\w-])--?`+regexp.QuoteMeta(o[2])+`($|[^\w-])`))
	}
	asks := slices.ContainsFunc(q.terms, func(t term) bool { return t.text == "what" || self[t.text] })
	q.vague = asks && !slices.ContainsFunc(q.terms, func(t term) bool { return t.code || !t.plain && !frame[t.text] && !self[t.text] })
	for _, name := range names.FindAllString(text, maxTerms) {
		parts := slices.DeleteFunc(tok.wholes([]byte(name)), everywhere)
		if len(parts) < 2 || slices.Contains(q.missing, name) {
			continue
		}
		n, err := ix.number(ctx, `select count(*) from t where t match ?`, `"`+strings.Join(parts, " ")+`"`)
		failed = cmp.Or(failed, err)
		if n == 0 {
			q.missing = append(q.missing, name)
			q.absent = true
		}
	}
	for _, t := range q.terms {
		q.total += t.weight
		q.code = q.code || slices.Contains([]string{"test", "benchmark", "fuzz", "exampl"}, t.text)
	}
	return q, failed
}

// option matches an option of a command.
var option = regexp.MustCompile(`(^|[^\w-])--(\w[\w-]*\w)`)

func hasCapital(word string) bool { return strings.ContainsFunc(word, unicode.IsUpper) }

// identifier reports whether the word is written like code and so must match exactly, such as Do in
// sync.Once.Do.
func identifier(text []byte, from, to int) bool {
	word := text[from:to]
	for i, c := range word {
		if c >= 'A' && c <= 'Z' && i > 0 || c >= '0' && c <= '9' {
			return true
		}
	}
	joins := func(i, beyond int) bool {
		if i < 0 || i >= len(text) {
			return false
		}
		return strings.IndexByte("_`(", text[i]) >= 0 || strings.IndexByte(".:/", text[i]) >= 0 && beyond >= 0 && beyond < len(text) && wordRune(rune(text[beyond]))
	}
	if joins(from-1, from-2) && text[from-1] != '(' || joins(to, to+1) {
		return true
	}
	if r, _ := utf8.DecodeRune(word); !unicode.IsUpper(r) || len(word) < 2 {
		return false
	}
	before := strings.TrimRight(string(text[:from]), " \t\n\"'(")
	return before != "" && !strings.ContainsAny(before[len(before)-1:], ".?!:")
}

// frequency returns in how many rows a term is.
func (ix *Index) frequency(ctx context.Context, text string) (df int, err error) {
	ix.mu.Lock()
	df, ok := ix.known[text]
	ix.mu.Unlock()
	if ok {
		return df, nil
	}
	df, err = ix.number(ctx, `select doc from v where term = ?`, text)
	if err == nil {
		ix.mu.Lock()
		ix.known[text] = df
		ix.mu.Unlock()
	}
	return df, err
}

// number returns the number that a query with one argument finds, 0 if it finds nothing.
func (ix *Index) number(ctx context.Context, query, arg string) (n int, err error) {
	err = ix.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, query, &sqlitex.ExecOptions{
			Args:       []any{arg},
			ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt(0); return nil },
		})
	})
	return n, err
}

// openings returns the files that may describe all documents, the likeliest first: a README near
// the top.
func (ix *Index) openings(ctx context.Context, may func(string) bool) (out []candidate, err error) {
	err = ix.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `
			select path, size, mtime from files
			order by length(path) - length(replace(path, '/', '')), lower(path) not like 'readme%', lower(path) not like '%index.%', path limit 20`,
			&sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
				if name := s.ColumnText(0); may == nil || may(name) {
					out = append(out, candidate{file: file{path: name, size: s.ColumnInt64(1), mtime: s.ColumnInt64(2)}})
				}
				return nil
			}})
	})
	return out, err
}

// match returns the query as an FTS5 expression: any of its terms, without the very common ones
// unless there are no others.
func (q *query) match(rows int) string {
	terms := slices.Clone(q.terms)
	slices.SortStableFunc(terms, func(a, b term) int { return cmp.Compare(b.weight, a.weight) })
	var any []string
	for _, t := range terms {
		if t.df > 0 && !everywhere(t.text) && (t.df < max(rows/40, 20) && t.weight > 1 || len(any) < 3) {
			any = append(any, t.text)
		}
	}
	if len(any) == 0 {
		return ""
	}
	expr := "(" + quoted(any, " OR ") + ")"
	for _, p := range q.phrases {
		if p = slices.DeleteFunc(slices.Clone(p), everywhere); len(p) > 0 {
			expr = "(" + quoted(p, " AND ") + ") AND " + expr
		}
	}
	return expr
}

// quoted joins terms, which consist of letters and digits, as FTS5 strings.
func quoted(terms []string, op string) string { return `"` + strings.Join(terms, `"`+op+`"`) + `"` }

// holds reports whether all phrases are in a text.
func (q *query) holds(have []string) bool {
	return !slices.ContainsFunc(q.phrases, func(p []string) bool {
		for i := 0; i+len(p) <= len(have); i++ {
			if slices.Equal(have[i:i+len(p)], p) {
				return false
			}
		}
		return true
	})
}

// wholes returns the terms of text without the parts of identifiers.
func (t *tokenizer) wholes(text []byte) []string {
	var out []string
	t.each(text, func(term *stem, _ int, part bool) {
		if !part {
			out = append(out, term.text)
		}
	})
	return out
}

// frameWords belong to questions rather than answers: words for what users do, see and want.
const frameWords = `decide determine choose happen work know mean find get make made use used using cause handle write
	written exactly actually way kind thing possible want need difference best give given gave take taken put set go goes
	come comes keep kept let try tell told say said see look show call called calling turn turned done never ever always
	still really already yet again else instead much many lot little good bad better wrong right safe sure okay new old
	whole big small first last next same certain particular something anything nothing somebody someone anybody nobody
	everything people mine myself while without within after before inside ahead back away around once else often
	able help please like seem may`

// selfWords are words for the documents themselves.
const selfWords = `project readme document documentation documents program software library repository repo folder package tool purpose overview
	introduction summary thing stuff`

func termSet(tok *tokenizer, words string) map[string]bool {
	set := make(map[string]bool)
	for _, t := range tok.all(words) {
		set[t] = true
	}
	return set
}
