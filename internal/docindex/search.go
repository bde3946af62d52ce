package docindex

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	defaultLimit = 8
	perFile      = 2    // passages
	scanned      = 1000 // rows that the database ranks
	candidates   = 300  // of them looked at closely
	widened      = 60   // of them whose neighbours are looked at, too
	maxLine      = 1000 // bytes of a line shown
	mostCopies   = 5    // that are named
)

// A Passage is a paragraph, doc comment with its declaration head, list, or row group.
type Passage struct {
	Path       string   // relative to the folder, with slashes; of a .gz file the lines count in the unpacked text
	Start, End int      // lines, from 1
	Heading    string   // heading path or symbol it belongs to; "" if there is none
	Lines      []Line   // those of Start to End that have something to show
	Score      float64  // 0…1, comparable between questions: how likely it answers
	Copies     []string // "path:start-end" of the same text elsewhere
}

// A Line is a line of a file. Text occurs verbatim in that line of [Text]. It is the line without
// trailing space. If the line is very long or has control characters or invalid UTF-8, it is the
// best part without these.
type Line struct {
	N    int
	Text string
}

// Found is the outcome of a search.
type Found struct {
	Passages []Passage // best first; at most two per file, copies collapsed
	Missing  []string  // words of the question that occur nowhere in the folder, as the question writes them
	Answered bool      // whether the first passage is likely enough to answer the question
}

// Search returns the passages that are likely to answer a question, best first, at most limit of
// them (8 if limit is not positive). Words are matched by stem and regardless of case, and
// identifiers also by their parts. A phrase in double quotes must occur verbatim. All other
// characters of the question only separate words. Passages in files that changed since the index
// was opened are left out, and so are those in files for which may, if non-nil, returns false.
func (ix *Index) Search(ctx context.Context, question string, limit int, may func(path string) bool) (Found, error) {
	if limit <= 0 {
		limit = defaultLimit
	}
	found, err := ix.search(ctx, question, limit, may)
	if err != nil {
		return Found{}, fmt.Errorf("search %s: %w", ix.dir, err)
	}
	return found, nil
}

func (ix *Index) search(ctx context.Context, question string, limit int, may func(path string) bool) (Found, error) {
	q, err := ix.parseQuery(ctx, question)
	if err != nil || len(q.terms) == 0 {
		return Found{}, err
	}
	lex, err := ix.words()
	if err != nil {
		return Found{}, err
	}
	r := newRanker(ix, q, lex)
	rows, err := ix.candidates(ctx, q, may)
	if err != nil {
		return Found{}, err
	}
	r.clusters(rows)
	for i, c := range rows {
		if err := ctx.Err(); err != nil {
			return Found{}, err
		}
		r.rank(c, i < widened)
	}
	if q.vague {
		first, err := ix.openings(ctx, may)
		if err != nil {
			return Found{}, err
		}
		r.open(first)
	}
	if ix.embed == nil {
		return r.found(limit), nil
	}
	out := r.found(max(limit, reranked))
	out.Passages = ix.rerank(ctx, question, out.Passages)
	out.Passages = out.Passages[:min(len(out.Passages), limit)]
	return out, ctx.Err()
}

// A candidate is a row the database found.
type candidate struct {
	file
	first, last int
	bm25        float64 // larger is better
	prior       float64
}

// candidates returns the rows that may answer, best first.
func (ix *Index) candidates(ctx context.Context, q *query, may func(string) bool) ([]candidate, error) {
	match := q.match(ix.stats.Passages)
	if match == "" {
		return nil, nil
	}
	var out []candidate
	err := ix.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `
			select f.path, f.size, f.mtime, r.first, r.last, m.score
			from (select rowid, bm25(t, 1, 1.5, 1) as score from t where t match ? order by score limit ?) m
			join rows r on r.id = m.rowid join files f on f.id = r.file
			order by m.score, f.path, r.first`,
			&sqlitex.ExecOptions{Args: []any{match, scanned}, ResultFunc: func(s *sqlite.Stmt) error {
				out = append(out, candidate{
					file:  file{path: s.ColumnText(0), size: s.ColumnInt64(1), mtime: s.ColumnInt64(2)},
					first: s.ColumnInt(3), last: s.ColumnInt(4), bm25: -s.ColumnFloat(5),
				})
				return nil
			}})
	})
	if err != nil {
		return nil, err
	}
	if may != nil {
		answers := make(map[string]bool)
		out = slices.DeleteFunc(out, func(c candidate) bool {
			ok, asked := answers[c.path]
			if !asked {
				ok = may(c.path) && may(strings.TrimSuffix(c.path, ".gz"))
				answers[c.path] = ok
			}
			return !ok
		})
	}
	for i := range out {
		out[i].prior = prior(out[i].path, q.code)
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(b.bm25*b.prior, a.bm25*a.prior) })
	return out[:min(len(out), candidates)], nil
}

// found converts the best passages into the result for callers.
func (r *ranker) found(limit int) Found {
	slices.SortStableFunc(r.ranked, func(a, b *scored) int { return cmp.Compare(b.score, a.score) })
	out := Found{Missing: r.q.missing}
	count := make(map[string]int)
	var texts []map[string]bool // shingles of those chosen
	for n, s := range r.ranked {
		if len(out.Passages) == limit && n > 4*limit {
			break
		}
		p := r.passage(s)
		if len(p.Lines) == 0 {
			continue
		}
		text := r.shingles(p)
		if i := slices.IndexFunc(texts, func(t map[string]bool) bool { return alike(t, text) }); i >= 0 {
			if c := &out.Passages[i]; len(c.Copies) < mostCopies {
				c.Copies = append(c.Copies, fmt.Sprintf("%s:%d-%d", p.Path, p.Start, p.End))
			}
			continue
		}
		if count[p.Path] == perFile || len(out.Passages) == limit {
			continue
		}
		if n := len(out.Passages); n > 0 {
			p.Score = min(p.Score, out.Passages[n-1].Score)
		}
		texts = append(texts, text)
		count[p.Path]++
		out.Passages = append(out.Passages, p)
	}
	out.Answered = len(out.Passages) > 0 && out.Passages[0].Score >= 0.5
	return out
}

// shingles returns the sequences of three words in a passage.
func (r *ranker) shingles(p Passage) map[string]bool {
	var words []string
	for _, l := range p.Lines {
		words = append(words, r.tok.wholes([]byte(l.Text))...)
	}
	set := make(map[string]bool)
	for i := range words {
		set[strings.Join(words[i:min(i+3, len(words))], " ")] = true
	}
	return set
}

// alike reports whether texts are equal except for a few words.
func alike(a, b map[string]bool) bool {
	both := 0
	for s := range a {
		if b[s] {
			both++
		}
	}
	return 3*2*both >= 2*(len(a)+len(b))
}

func (r *ranker) passage(s *scored) Passage {
	p := Passage{Path: s.path, Heading: s.span.head, Score: r.likelihood(s)}
	for i := s.span.first; i < s.span.last; i++ {
		if text := r.around(shown(s.lines[i].text)); strings.TrimSpace(text) != "" || s.kind != markup {
			p.Lines = append(p.Lines, Line{N: i + 1, Text: text})
		}
	}
	if len(p.Lines) > 0 {
		p.Start, p.End = p.Lines[0].N, p.Lines[len(p.Lines)-1].N
	}
	return p
}

// around cuts a long line to maxLine bytes around the rarest term in it.
func (r *ranker) around(text string) string {
	if len(text) <= maxLine {
		return text
	}
	at, best := 0, 0.0
	r.tok.each([]byte(text), func(t *stem, i int, _ bool) {
		if n, ok := r.q.index[t.text]; ok && r.q.terms[n].weight > best {
			at, best = i, r.q.terms[n].weight
		}
	})
	lo := max(0, at-maxLine/3)
	hi := min(len(text), lo+maxLine)
	if lo > 0 {
		if i := strings.IndexByte(text[lo:at], ' '); i >= 0 {
			lo += i + 1
		}
	}
	for lo < hi && !utf8.RuneStart(text[lo]) {
		lo++
	}
	for hi < len(text) && hi > lo && !utf8.RuneStart(text[hi]) {
		hi--
	}
	return text[lo:hi]
}
