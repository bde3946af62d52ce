package docindex

import (
	"bytes"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/words"
	"github.com/superstep-dev/superstep/internal/wordvec"
)

// A ranker orders the passages that may answer one question.
type ranker struct {
	ix      *Index
	q       *query
	tok     *tokenizer
	docs    map[string]*loaded
	ranked  []*scored
	best    float64            // bm25 of a row
	cluster map[string]float64 // mean bm25 of the best rows, by file and folder
	plain   map[string]bool
	lex     lexicon
	like    map[string][]float64 // how alike a word is to each term
}

// A loaded file has the terms of its passages, computed as needed.
type loaded struct {
	*document
	path  string
	where []float64 // by term of the query: it is in the path or title
	terms map[int]*counts
	done  map[int]bool // spans ranked
}

// counts are the terms of the query in a passage.
type counts struct {
	tf     []float64
	soft   []float64 // how alike to a term the most alike word is
	head   []bool
	near   float64 // the largest share of the weight within two lines
	length int     // terms
	plain  int     // of them words that are in every text
}

type scored struct {
	*loaded
	span     span
	features [features]float64
	score    float64
	worst    float64 // weight of the weightiest term that is nowhere near
	n        int     // of the span
	opening  bool    // it says what the documents are about
}

func newRanker(ix *Index, q *query, lex lexicon) *ranker {
	return &ranker{
		ix: ix, q: q, lex: lex, like: make(map[string][]float64), tok: newTokenizer(), docs: make(map[string]*loaded), plain: termSet(newTokenizer(), words.Plain),
	}
}

// load returns the file of a candidate, or nil if it has changed since it was indexed.
func (r *ranker) load(c candidate) *loaded {
	if d, ok := r.docs[c.path]; ok {
		return d
	}
	r.docs[c.path] = nil
	parsed := r.ix.document(c.file)
	if parsed == nil {
		return nil
	}
	d := &loaded{document: parsed, path: c.path, terms: make(map[int]*counts), done: make(map[int]bool)}
	d.where = make([]float64, len(r.q.terms))
	r.tok.each([]byte(c.path+" "+d.title), func(t *stem, _ int, _ bool) {
		if i, ok := r.q.index[t.text]; ok {
			d.where[i] = 1
		}
	})
	r.docs[c.path] = d
	return d
}

func (r *ranker) counts(d *loaded, n int) *counts {
	if c, ok := d.terms[n]; ok {
		return c
	}
	c := &counts{tf: make([]float64, len(r.q.terms)), soft: make([]float64, len(r.q.terms)), head: make([]bool, len(r.q.terms))}
	s := d.spans[n]
	var last, before uint64
	for _, l := range d.lines[s.first:s.last] {
		var set uint64
		r.tok.each(l.text[:min(len(l.text), longLine)], func(t *stem, _ int, part bool) {
			if !part {
				c.length++
				if r.plain[t.text] {
					c.plain++
				}
			}
			if i, ok := r.q.index[t.text]; ok {
				c.tf[i]++
				set |= 1 << i
			} else {
				for i, x := range r.liking(t.text) {
					c.soft[i] = max(c.soft[i], x)
				}
			}
		})
		c.near = max(c.near, r.weigh(set|last|before))
		before, last = last, set
	}
	r.tok.each([]byte(s.head), func(t *stem, _ int, _ bool) {
		if i, ok := r.q.index[t.text]; ok {
			c.head[i] = true
		}
	})
	d.terms[n] = c
	return c
}

// A lexicon has the vectors of the stems that have one.
type lexicon map[string][]float32

// newLexicon is called at the first search. It takes a few milliseconds for 20,000 stems.
func newLexicon() (lexicon, error) {
	t, err := wordvec.Load()
	if err != nil {
		return nil, err
	}
	l := make(lexicon)
	tok := newTokenizer()
	for word, v := range t.All() {
		stem := tok.stem([]byte(word)).text
		sum := l[stem]
		if sum == nil {
			sum = make([]float32, wordvec.Dims)
			l[stem] = sum
		}
		for i, x := range v {
			sum[i] += x
		}
	}
	return l, nil
}

// liking returns how similar a word is to each of the terms, or nil if that is unknown.
func (r *ranker) liking(word string) []float64 {
	like, ok := r.like[word]
	if !ok {
		if v := r.lex[word]; v != nil && !r.plain[word] {
			like = make([]float64, len(r.q.terms))
			for i, t := range r.q.terms {
				if !t.plain {
					like[i] = cosine(v, r.lex[t.text])
				}
			}
		}
		r.like[word] = like
	}
	return like
}

func (r *ranker) weigh(set uint64) float64 {
	w := 0.0
	for i, t := range r.q.terms {
		if set&(1<<i) != 0 {
			w += t.weight
		}
	}
	return w / r.q.total
}

// rank scores the passages of a row.
func (r *ranker) rank(c candidate, wide bool) {
	d := r.load(c)
	if d == nil {
		return
	}
	n, _ := slices.BinarySearchFunc(d.spans, c.first-1, func(s span, line int) int { return s.first - line })
	end := n
	for end < len(d.spans) && d.spans[end].first < c.last {
		end++
	}
	if wide {
		n, end = max(0, n-2), min(len(d.spans), end+2)
	}
	for ; n < end; n++ {
		if d.done[n] {
			continue
		}
		d.done[n] = true
		s := d.spans[n]
		if len(r.q.phrases) > 0 {
			var have []string
			for _, l := range d.lines[s.first:s.last] {
				have = append(have, r.tok.wholes(l.text)...)
			}
			if !r.q.holds(have) {
				continue
			}
		}
		if s := r.score(d, n, c); s != nil {
			r.ranked = append(r.ranked, s)
		}
	}
}

const (
	k1, b     = 1.2, 0.5
	typical   = 60.0 // terms of a passage
	nearSpans = 3
	fewRows   = 0.8 // the prior below which files are indexed by larger parts
)

// The features of a passage, by which it is ranked. Shares are relative to the total weight of the
// question's terms.
const (
	own     = iota // share in the passage, by how often
	heads          // share in its headings or symbol
	around         // share in passages next to it, but not in it
	where          // share in the path or title, but not in it
	near           // largest share within three lines
	likely         // logarithm of the prior of the file
	prosaic        // text for people
	decl           // not within the body of a function
	hidden         // about a symbol that is not exported
	matched        // bm25 of the row, of the best one's
	longer         // logarithm of the length
	plain          // how much it reads like prose
	depth          // of the path
	akin           // share of terms that are not in it but words alike
	every          // mean logarithm of what each term counts: low if one is missing altogether
	top            // what the weightiest term counts
	content        // number of terms in it
	full           // share in the passage
	inFile         // mean of the three best rows of the file
	inDir          // mean of the six best rows of the folder
	named          // share of terms written as code, by where they are
	features
)

// weights of the features. They maximize the likelihood of the passages that answer (softmax over
// the candidates of each question, L2 of 0.01) for the tuned half of the golden questions and 61
// others over the Go tree. The weights of named and decl were set by hand. So was the rule that
// there is no answer if a flag or identifier occurs nowhere (query.absent). Two features of little
// weight were removed after the fit.
var weights = [features]float64{own: 2.65, heads: 2.1, around: -0.48, where: 0.78, near: 1.59, likely: 2.01, prosaic: 0.85, decl: 0.4, hidden: -2.3,
	matched: 1.37, longer: 0.65, plain: 1.75, depth: -1.48, akin: 0.29, every: 2.3, top: 0.28, content: 1.88, full: 0.69, inFile: 1.22, inDir: 1.25, named: 4}

// score ranks a passage, or returns nil if no term is in it.
func (r *ranker) score(d *loaded, n int, c candidate) *scored {
	s, has := d.spans[n], r.counts(d, n)
	out := &scored{loaded: d, span: s, n: n}
	f := &out.features
	next := make([]float64, len(r.q.terms))
	for m := max(0, n-nearSpans); m < min(len(d.spans), n+nearSpans+1); m++ {
		factor := 1.0
		if d.spans[m].head != s.head {
			factor = 0.5
		}
		for i, tf := range r.counts(d, m).tf {
			if tf > 0 && m != n {
				next[i] = max(next[i], factor)
			}
		}
	}
	norm := 1 - b + b*float64(has.length)/typical
	heaviest, any := 0.0, false
	for i, t := range r.q.terms {
		share, credit := t.weight/r.q.total, 0.0
		if has.head[i] {
			f[heads] += share
			credit, any = 0.7, true
		}
		switch tf := has.tf[i]; {
		case tf > 0:
			saturated := tf / (tf + k1*norm) * (k1 + 1) / k1 / 1.5
			f[own] += share * saturated
			f[content] += 0.2
			f[full] += share
			credit, any = max(credit, min(1, 0.3+saturated)), true
		case !has.head[i]:
			like := max(0, has.soft[i]-0.3) / 0.7
			f[around] += share * next[i]
			f[where] += share * d.where[i]
			f[akin] += share * like
			credit = max(0.5*next[i], 0.4*d.where[i], 0.9*like)
			if !t.plain && next[i]+d.where[i] == 0 {
				out.worst = max(out.worst, t.weight)
			}
		}
		if t.code {
			f[named] += share * max(truth(has.head[i]), 0.5*truth(has.tf[i] > 0), 0.5*d.where[i])
		}
		f[every] += share * math.Log(0.08+credit)
		if t.weight > heaviest {
			heaviest, f[top] = t.weight, credit
		}
	}
	if !any {
		return nil
	}
	f[near] = has.near
	f[likely] = math.Log(c.prior)
	f[matched] = c.bm25 / r.best
	f[longer] = math.Log(float64(has.length+5) / typical)
	f[prosaic] = truth(s.prose)
	f[decl] = truth(s.decl)
	f[hidden] = truth(d.kind == source && private(s.head))
	f[plain] = min(1, float64(has.plain)/float64(has.length+1)/0.35)
	f[depth] = math.Log(float64(1 + strings.Count(d.path, "/")))
	f[inFile] = r.cluster[d.path] / r.best
	f[inDir] = r.cluster[path.Dir(d.path)+"/"] / r.best
	for i, w := range weights {
		out.score += w * f[i]
	}
	return out
}

// lacks counts the names and options of the question that are neither in a passage nor in its
// heading, path or title, nor near it. Names are written as in the question: "react" is no "React".
// A comment in the body of a function does not count, since it only mentions them.
func (r *ranker) lacks(d *loaded, n int) (count int) {
	first, last := d.spans[max(0, n-nearSpans)].first, d.spans[min(len(d.spans), n+nearSpans+1)-1].last
	near := append([]line{{text: []byte(d.spans[n].head)}}, d.lines[first:last]...)
	for i, t := range r.q.terms {
		rare := 20*t.df <= r.ix.stats.Passages+50
		mentioned := d.kind == source && !d.spans[n].decl
		if t.name != "" && rare && d.where[i] == 0 && (mentioned || !slices.ContainsFunc(near, func(l line) bool { return bytes.Contains(l.text, []byte(t.name)) })) {
			count++
		}
	}
	for _, o := range r.q.options {
		if !slices.ContainsFunc(near, func(l line) bool { return o.Match(l.text) }) {
			count += 2 // a word of the text is no option
		}
	}
	return count
}

// clusters sets the means of the best rows of each file and folder. Rows come best first.
func (r *ranker) clusters(rows []candidate) {
	seen := make(map[string]float64)
	r.best = 1e-9
	r.cluster = make(map[string]float64)
	for _, c := range rows {
		r.best = max(r.best, c.bm25)
		for name, most := range map[string]float64{c.path: 3, path.Dir(c.path) + "/": 6} {
			if seen[name]++; seen[name] <= most {
				r.cluster[name] += c.bm25 / most
			}
		}
	}
}

// aboutAll is the likelihood that the opening of a README answers a question about all documents.
const aboutAll = 0.8

// open ranks the first paragraph of the README, or else of the first document, before all others:
// it answers a question without any word to search for.
func (r *ranker) open(files []candidate) {
	for _, c := range files {
		d := r.load(c)
		if d == nil {
			continue
		}
		for n, s := range d.spans {
			if !s.prose {
				continue
			}
			r.ranked = slices.DeleteFunc(r.ranked, func(o *scored) bool { return o.loaded == d && o.span == s })
			r.ranked = append(r.ranked, &scored{loaded: d, span: d.spans[n], score: math.MaxFloat64, opening: true})
			return
		}
	}
}

// likelihood returns how likely a passage is an answer: a logistic function of its ranking
// features, fitted to the same questions, a quarter of which have no answer.
func (r *ranker) likelihood(s *scored) float64 {
	missing := 0.0
	for _, t := range r.q.terms {
		if t.df == 0 && !t.plain {
			missing += t.weight
		}
	}
	if r.q.absent {
		missing = r.q.total
	}
	if s.opening {
		return aboutAll
	}
	asked := max(s.features[content], 0.6*s.features[full]) // a short question is answered with few words
	x := -0.7 + 1.66*s.features[every] + 0.158*s.score + 3.17*asked - 0.154*s.worst - 2.27*missing/r.q.total - 3*float64(min(r.lacks(s.loaded, s.n), 2))
	return 1 / (1 + math.Exp(-x))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// private reports whether a Go symbol is not meant for users of its package.
func private(head string) bool {
	for _, kind := range []string{"func ", "type ", "var ", "const "} {
		if rest, ok := strings.CutPrefix(head, kind); ok {
			if _, method, ok := strings.Cut(rest, ") "); ok && rest[0] == '(' {
				rest = method
			}
			return rest != "" && rest[0] >= 'a' && rest[0] <= 'z'
		}
	}
	return false
}

// prior returns a factor for the kind of a file: documents are likelier to answer a question than
// others with the same words; tests, test data, vendored code, histories and licences are less
// likely.
func prior(name string, tests bool) float64 {
	p := 1.0
	base := path.Base(name)
	ext := path.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	dirs := "/" + path.Dir(name) + "/"
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(dirs, "/"+n+"/") })
	}
	lower := strings.ToLower(stem)
	switch {
	case has("testdata", "fixtures", "golden"):
		p *= 0.5
	case !tests && (has("test", "tests", "__tests__") || strings.HasSuffix(stem, "_test") || strings.HasPrefix(stem, "test_") ||
		strings.HasSuffix(stem, ".test") || strings.HasSuffix(stem, ".spec")):
		p *= 0.65
	}
	if has("vendor", "third_party") {
		p *= 0.75
	}
	if has("internal") {
		p *= 0.85
	}
	for _, w := range []string{"license", "licence", "copying", "patents", "notice", "authors", "contributors", "copyright"} {
		if strings.HasPrefix(lower, w) {
			p *= 0.6
		}
	}
	for _, w := range []string{"changelog", "changes", "news", "history", "releases"} {
		if strings.HasPrefix(lower, w) {
			p *= 0.85
		}
	}
	switch k := kindOf(name); {
	case k == markup || k == markdown || base == "doc.go":
		p *= 1.1
	case k == source && !strings.Contains(" .go .py .js .ts .rs .java .c .h ", " "+ext+" "):
		p *= 0.85
	}
	return p
}
