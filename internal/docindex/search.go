package docindex

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	defaultHits = 8
	perFile     = 2   // hits
	candidates  = 200 // chunks looked at closely
	phraseScan  = 600 // of them if some may not hold a phrase
	windowLines = 8   // of a hit, before it grows to the ends of paragraphs
	windowGrow  = 2   // lines either way
	maxLine     = 400 // bytes of a line shown
	minUses     = 5   // of words, before their initials may stand for them
	minShare    = 4   // and one in so many uses has to have them near
)

// A Hit is a place in a file that fits a query.
type Hit struct {
	Path  string // relative to the folder, with slashes
	Start int    // first line of the place, from 1
	End   int    // last line
	Score float64
	Lines []Line // those of Start to End that have something to show
}

// A Line is a line of a file. Text is verbatim contained in it: the line itself without
// trailing space; of HTML, of a line with control characters or invalid UTF-8, and of a
// very long line, the longest or best matching run without them.
type Line struct {
	N    int
	Text string
}

// Search returns the places that fit the words of the query best, best first, at most
// limit of them (8 if limit is not positive) and two per file. Words are matched by
// stem and regardless of case, and identifiers also by their parts. A phrase in double
// quotes must occur as it is. Any other character of the query only separates words.
// Places in files that changed since the index was opened are left out.
func (ix *Index) Search(ctx context.Context, text string, limit int) ([]Hit, error) {
	if limit <= 0 {
		limit = defaultHits
	}
	q := parseQuery(text)
	if len(q.terms) == 0 {
		return nil, nil
	}
	if err := ix.learn(ctx, &q); err != nil {
		return nil, fmt.Errorf("search %s: %w", ix.dir, err)
	}
	found, err := ix.candidates(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("search %s: %w", ix.dir, err)
	}
	r := ix.newRanker(ctx, q)
	var ranked []*candidate
	for i := range found {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c := &found[i]; r.load(c) {
			ranked = append(ranked, c)
		}
	}
	return r.hits(ranked, limit), nil
}

// A candidate is a chunk the database found.
type candidate struct {
	file
	first, last, off, size int
	bm25                   float64 // larger is better

	lines  [][]byte // of the chunk, tags masked
	window [2]int   // the best part of lines
	score  float64
}

func (ix *Index) candidates(ctx context.Context, q query) ([]candidate, error) {
	n := candidates
	if len(q.phrases) > 0 {
		n = phraseScan
	}
	var out []candidate
	err := ix.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `
			select f.path, f.size, f.mtime, c.first, c.last, c.off, c.size, m.score, f.title
			from (select rowid, bm25(t, 1, 2) as score from t where t match ? order by score limit ?) m
			join chunks c on c.id = m.rowid join files f on f.id = c.file
			order by m.score, f.path, c.first, c.off`,
			&sqlitex.ExecOptions{Args: []any{q.match(), n}, ResultFunc: func(s *sqlite.Stmt) error {
				out = append(out, candidate{
					file:  file{path: s.ColumnText(0), size: s.ColumnInt64(1), mtime: s.ColumnInt64(2), title: s.ColumnText(8)},
					first: s.ColumnInt(3), last: s.ColumnInt(4), off: s.ColumnInt(5), size: s.ColumnInt(6),
					bm25: -s.ColumnFloat(7),
				})
				return nil
			}})
	})
	return out, err
}

// learn finds the initialisms by which the folder calls word sequences of the query: "gc"
// if places that say "garbage collector" often say "gc" too.
func (ix *Index) learn(ctx context.Context, q *query) error {
	return ix.with(ctx, func(c *sqlite.Conn) error {
		for _, run := range q.runs {
			short := initials(run)
			if slices.Contains(q.terms, short) {
				continue
			}
			phrase := `"` + strings.Join(run, " ") + `"`
			long, err := count(c, phrase)
			if err != nil {
				return err
			}
			if long < minUses {
				continue
			}
			both, err := count(c, phrase+` AND "`+short+`"`)
			if err != nil {
				return err
			}
			if both*minShare >= long {
				q.initialisms[short] = run
			}
		}
		return nil
	})
}

func count(c *sqlite.Conn, match string) (n int, err error) {
	err = sqlitex.Execute(c, `select count(*) from t where t match ?`, &sqlitex.ExecOptions{
		Args:       []any{match},
		ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt(0); return nil },
	})
	return n, err
}

// A ranker orders the candidates of one query.
type ranker struct {
	ix     *Index
	q      query
	tok    *tokenizer
	bits   map[string]uint64 // that a term stands for: its own, or of an initialism those of its words
	weight []float64         // by bit
	total  float64
	masked map[string][]byte // HTML files read
	tests  bool              // the query asks for tests
}

func (ix *Index) newRanker(ctx context.Context, q query) *ranker {
	r := &ranker{ix: ix, q: q, tok: newTokenizer(), bits: make(map[string]uint64), masked: make(map[string][]byte)}
	frame := termSet(r.tok, frameWords)
	for i, t := range q.terms {
		w := ix.weight(ctx, t)
		if frame[t] {
			w *= 0.35
		}
		r.bits[t] = 1 << i
		r.weight = append(r.weight, w)
		r.total += w
		switch t {
		case "test", "benchmark", "fuzz", "exampl":
			r.tests = true
		}
	}
	for short, long := range q.initialisms {
		for _, t := range long {
			r.bits[short] |= r.bits[t]
		}
	}
	return r
}

func (r *ranker) weigh(set uint64) float64 {
	w := 0.0
	for ; set != 0; set &= set - 1 {
		w += r.weight[bits.TrailingZeros64(set)]
	}
	return w / r.total
}

// in returns the set of the query's terms in text.
func (r *ranker) in(text []byte) (set uint64) {
	r.tok.each(text, func(term string, _ int, _ bool) { set |= r.bits[term] })
	return set
}

// load reads the text of a candidate and finds its best window. It is false if the
// file is not the one indexed any more or a phrase is missing.
func (r *ranker) load(c *candidate) bool {
	text, ok := r.read(c)
	k := kindOf(c.path)
	if !ok || !r.q.holds(r.tok, text) {
		return false
	}
	c.lines = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	sets := make([]uint64, len(c.lines))
	var all uint64
	for i, l := range c.lines {
		sets[i] = r.in(words(l, k))
		all |= sets[i]
	}
	c.window = r.bestWindow(sets)
	var near uint64
	for _, s := range sets[c.window[0]:c.window[1]] {
		near |= s
	}
	if near == 0 { // only the path or a heading fits
		c.window = [2]int{0, min(windowLines, len(sets))}
	}
	c.grow()
	head := r.in([]byte(c.path)) | r.in([]byte(c.title))
	coverage := 0.7*r.weigh(all|head) + 0.3*r.weigh(all)
	c.score = (0.9*c.bm25/(8+c.bm25) + 0.8*coverage + 0.6*r.weigh(near) + 0.5*r.closest(sets)) / 2.8
	c.score *= r.prior(c, k)
	return true
}

// closest is the weight of the terms that are within two lines of each other.
func (r *ranker) closest(sets []uint64) float64 {
	best := 0.0
	for i, s := range sets {
		if i > 0 {
			s |= sets[i-1]
		}
		best = max(best, r.weigh(s))
	}
	return best
}

// bestWindow returns the windowLines lines with the most, and the rarest, of the terms.
func (r *ranker) bestWindow(sets []uint64) [2]int {
	best, bestValue := 0, -1.0
	for i := 0; i == 0 || i+windowLines <= len(sets); i++ {
		j := min(i+windowLines, len(sets))
		var set uint64
		value := 0.0
		for n, s := range sets[i:j] {
			value += 0.1 * r.weigh(s) * r.weigh(s)
			if n < 3 {
				value += 0.001 * r.weigh(s) // rather with what follows than with what precedes
			}
			set |= s
		}
		if value += r.weigh(set); value > bestValue {
			best, bestValue = i, value
		}
	}
	return [2]int{best, min(best+windowLines, len(sets))}
}

// grow lets the window reach the ends of its paragraphs if they are near, and drops
// blank lines at its ends.
func (c *candidate) grow() {
	blank := func(i int) bool { return len(bytes.Trim(c.lines[i], "\x00 \t\r/#*;")) == 0 }
	lo, hi := c.window[0], c.window[1]
	for n := 0; n < windowGrow && lo > 0 && !blank(lo) && !blank(lo-1); n++ {
		lo--
	}
	for n := 0; n < windowGrow && hi < len(c.lines) && !blank(hi-1) && !blank(hi); n++ {
		hi++
	}
	for lo < hi-1 && blank(lo) {
		lo++
	}
	for lo < hi-1 && blank(hi-1) {
		hi--
	}
	c.window = [2]int{lo, hi}
}

// read returns the text of the chunk if the file is still what was indexed.
func (r *ranker) read(c *candidate) ([]byte, bool) {
	f, err := openRegular(r.ix.root, c.path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != c.file.size || info.ModTime().UnixNano() != c.mtime {
		return nil, false
	}
	if kindOf(c.path) == markup {
		masked, ok := r.masked[c.path]
		if !ok {
			raw := make([]byte, info.Size())
			if _, err := f.ReadAt(raw, 0); err != nil {
				return nil, false
			}
			masked, _ = maskHTML(raw)
			r.masked[c.path] = masked
		}
		if c.off+c.size > len(masked) {
			return nil, false
		}
		return masked[c.off : c.off+c.size], true
	}
	text := make([]byte, c.size)
	if _, err := f.ReadAt(text, int64(c.off)); err != nil {
		return nil, false
	}
	return text, true
}

// prior is how much more, or less, likely a place answers a question than another with
// the same words: documents and comments more, tests, test data, copies of other
// people's code and licences less.
func (r *ranker) prior(c *candidate, k kind) float64 {
	p := 1.0
	base := path.Base(c.path)
	stem := strings.TrimSuffix(base, path.Ext(base))
	dirs := "/" + path.Dir(c.path) + "/"
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(dirs, "/"+n+"/") })
	}
	switch {
	case has("testdata", "fixtures", "golden"):
		p *= 0.75
	case !r.tests && (has("test", "tests", "__tests__") || strings.HasSuffix(stem, "_test") || strings.HasPrefix(stem, "test_") ||
		strings.HasSuffix(stem, ".test") || strings.HasSuffix(stem, ".spec")):
		p *= 0.85
	}
	if has("vendor", "third_party") {
		p *= 0.85
	}
	switch strings.ToUpper(stem) {
	case "LICENSE", "LICENCE", "COPYING", "PATENTS", "NOTICE", "AUTHORS", "CONTRIBUTORS":
		p *= 0.6
	}
	switch {
	case k == markup || k == markdown || base == "doc.go":
		return p * 1.1
	case k == prose:
		return p
	}
	comments := 0
	lines := c.lines[c.window[0]:c.window[1]]
	for i, l := range lines {
		if comment(l) {
			comments++
		} else if p == 1 && i > 0 && comment(lines[i-1]) && declares(l) {
			p = 1.08
		}
	}
	return p * (1 + 0.2*float64(comments)/float64(len(lines)))
}

// declares says whether a line opens a top-level declaration, so that the comment above
// it says what something is.
func declares(l []byte) bool {
	for _, open := range []string{"func ", "type ", "class ", "def ", "fn ", "pub ", "export ", "public ", "struct ", "interface "} {
		if bytes.HasPrefix(l, []byte(open)) {
			return true
		}
	}
	return false
}

func comment(l []byte) bool {
	l = bytes.TrimLeft(l, " \t")
	for _, open := range []string{"//", "# ", "/*", "* ", "--", ";;", `"""`} {
		if bytes.HasPrefix(l, []byte(open)) {
			return true
		}
	}
	return len(l) == 1 && (l[0] == '#' || l[0] == '*')
}

// hits turns the best candidates into what callers see.
func (r *ranker) hits(ranked []*candidate, limit int) []Hit {
	slices.SortStableFunc(ranked, func(a, b *candidate) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	var out []Hit
	count := make(map[string]int)
	seen := make(map[string]bool)
	for _, c := range ranked {
		if len(out) == limit {
			break
		}
		if count[c.path] == perFile {
			continue
		}
		h := r.hit(c)
		if len(h.Lines) == 0 {
			continue
		}
		text := ""
		for _, l := range h.Lines {
			text += l.Text + "\n"
		}
		if seen[text] { // a copy
			continue
		}
		seen[text] = true
		count[c.path]++
		out = append(out, h)
	}
	return out
}

func (r *ranker) hit(c *candidate) Hit {
	h := Hit{Path: c.path, Score: c.score}
	k := kindOf(c.path)
	for i := c.window[0]; i < c.window[1]; i++ {
		if text := r.around(shown(c.lines[i], k)); strings.TrimSpace(text) != "" || k != markup {
			h.Lines = append(h.Lines, Line{N: c.first + i, Text: text})
		}
	}
	if len(h.Lines) > 0 {
		h.Start, h.End = h.Lines[0].N, h.Lines[len(h.Lines)-1].N
	}
	return h
}

// around cuts a long line to maxLine bytes about the rarest term in it.
func (r *ranker) around(text string) string {
	if len(text) <= maxLine {
		return text
	}
	at, best := 0, 0.0
	r.tok.each([]byte(text), func(term string, i int, _ bool) {
		if w := r.weigh(r.bits[term]); w > best {
			at, best = i, w
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
