package offline

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/porter"
)

// A passage is a stretch of a file as search and read tools give it: a header
// "## path:first-last" and lines "N<tab>text".
type passage struct {
	path  string
	rank  int // its place among the results of its search, from 0
	lines []line
}

// A line has number 0 if it is of a page of the web.
type line struct {
	n    int
	text string
}

func passages(text string) []passage {
	var out []passage
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		if head, ok := strings.CutPrefix(l, "## "); ok {
			path := head
			if i := strings.LastIndexByte(head, ':'); i > 0 && strings.Trim(head[i+1:], "0123456789-") == "" {
				path = head[:i]
			}
			out = append(out, passage{path: path, rank: len(out)})
			continue
		}
		if len(out) == 0 {
			continue
		}
		p := &out[len(out)-1]
		if num, rest, ok := strings.Cut(l, "\t"); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(num)); err == nil {
				p.lines = append(p.lines, line{n, rest})
				continue
			}
		}
		if l != "" {
			p.lines = append(p.lines, line{0, l})
		}
	}
	return out
}

// A sentence is something a file says, in the pieces it is broken into by the file's lines.
type sentence struct {
	path   string
	head   string // the heading it stands under, "" if none is in sight
	rank   int    // of its passage
	pieces []line // each verbatim in its line; consecutive lines
	item   bool   // of a list
	to     int    // the last line of its place, if it is of the material and its piece is of several lines
	own    string // without the sentence that it leans on, if it comes with one

	order []string // the stems of its words, each once
	terms map[string]bool
	score float64
}

func (s *sentence) String() string {
	var b strings.Builder
	for i, p := range s.pieces {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// The most a sentence may be. Longer ones are enumerations and accidents.
const (
	mostWords  = 65
	mostPieces = 6
)

// sentences cuts a passage into sentences. What introduces a line (comment marks,
// bullets) is not part of what it says. Code, tables and headings are left out, and so
// is what only looks like a sentence. A sentence that leans on the one before it comes
// together with that one.
func (p *passage) sentences() []sentence {
	c := &cutter{passage: p, form: formOf(p.path)}
	for i := p.frontMatter(c.form); i < len(p.lines); i++ {
		c.line(&p.lines[i])
	}
	c.end()
	var out []sentence
	for i := range c.out {
		s := c.out[i].sentence
		if i > 0 && c.out[i-1].paragraph == c.out[i].paragraph && leans(s.String()) {
			if both, ok := p.join(&c.out[i-1].sentence, &s); ok {
				s = both
			}
		}
		if s.sound() {
			out = append(out, s)
		}
	}
	return out
}

// frontMatter is how many of the lines are metadata at the head of a Markdown file,
// which end with a rule.
func (p *passage) frontMatter(f form) int {
	const most = 25 // lines of it
	for i, l := range p.lines {
		t := strings.TrimSpace(l.text)
		switch {
		case f != markdown || l.n == 0 || l.n > most || l.n == 1 && t != "---" || strings.HasPrefix(t, "# "):
			return 0
		case t == "---" && l.n > 1:
			return i + 1
		}
	}
	return 0
}

// join puts two sentences together that follow each other.
func (p *passage) join(a, b *sentence) (sentence, bool) {
	s := *a
	s.pieces = slices.Clone(a.pieces)
	last, first := &s.pieces[len(s.pieces)-1], b.pieces[0]
	if first.n > last.n+1 {
		return s, false // a quote is of consecutive lines
	}
	rest := b.pieces
	if last.n == first.n && last.n > 0 {
		i := slices.IndexFunc(p.lines, func(l line) bool { return l.n == last.n })
		if last.text += " " + first.text; !strings.Contains(p.lines[i].text, last.text) {
			return s, false
		}
		rest = rest[1:]
	}
	s.pieces = append(s.pieces, rest...)
	s.own = b.String()
	return s, len(s.pieces) <= mostPieces && len(strings.Fields(s.String())) <= mostWords
}

// sound tells sentences from what only looks like one.
func (s *sentence) sound() bool {
	text := s.String()
	n := len(strings.Fields(text))
	return n >= 5 && n <= mostWords && len(s.pieces) <= mostPieces && prose(text) && !boilerplate(text) && (ends(text) || s.item && !field(text))
}

// field tells the entries of a reference from sentences: "name (type, meaning)".
func field(s string) bool {
	_, rest, _ := strings.Cut(s, " ")
	return strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "= ")
}

// cutter goes through the lines of a passage.
type cutter struct {
	passage   *passage
	form      form
	head      string
	begun     bool
	last      int  // the line before
	block     bool // within a block comment
	fenced    bool // within a fenced block of code
	item      bool // within an item of a list
	partial   bool // the sentence that is open may lack its beginning
	open      []line
	paragraph int
	out       []cutting
}

type cutting struct {
	sentence
	paragraph int
}

// end ends the sentence that is open.
func (c *cutter) end() {
	if len(c.open) > 0 && !c.partial {
		s := sentence{path: c.passage.path, head: c.head, rank: c.passage.rank, pieces: c.open, item: c.item}
		c.out = append(c.out, cutting{s, c.paragraph})
	}
	c.open, c.partial = nil, false
}

// stop ends the paragraph.
func (c *cutter) stop() {
	c.end()
	c.item = false
	c.paragraph++
}

func (c *cutter) line(l *line) {
	begins := !c.begun || l.n != c.last+1 && l.n > 0
	c.begun = true
	if begins {
		c.stop()
	}
	c.last = l.n
	m := c.mark(l.text)
	switch {
	case m.heading:
		c.stop()
		c.head = m.text
		return
	case m.text == "", m.code && !c.item, c.form == code && !m.comment, directive(m.text):
		c.stop()
		return
	case m.item:
		c.stop()
		c.item = true
	case !prose(m.text) && len(c.open) == 0:
		return
	}
	text := m.text
	if c.form == markup {
		c.whole(l.n, text)
		return
	}
	c.partial = c.partial || begins && len(c.open) == 0 && lower(text) && !m.item && l.n != 1
	for text != "" {
		head, rest := cutSentence(text)
		c.open = append(c.open, line{l.n, head})
		if rest != "" || ends(head) && !abbreviation(strings.TrimSuffix(head, ".")) {
			c.end()
		}
		text = rest
	}
}

// whole takes the sentences that begin and end on a line: what stands before and after
// it may be on the other side of a tag, and is not in the text.
func (c *cutter) whole(n int, text string) {
	c.stop()
	for text != "" {
		head, rest := cutSentence(text)
		if first := []rune(head)[0]; unicode.IsUpper(first) && ends(head) && !abbreviation(strings.TrimSuffix(head, ".")) {
			c.open = []line{{n, head}}
			c.stop()
		}
		text = rest
	}
}

type form int

const (
	plain    form = iota
	markdown      // "#" is a heading, "```" a block of code
	markup        // a line is what stands between tags: it is no more than itself
	code          // prose stands in comments
)

func formOf(path string) form {
	i := strings.LastIndexByte(path, '.')
	if i < 0 || strings.Contains(path[i:], "/") || strings.Contains(path, "://") {
		return plain // a file like README, or a page of the web
	}
	switch strings.ToLower(path[i:]) {
	case ".md", ".markdown", ".mdx":
		return markdown
	case ".html", ".htm", ".xhtml":
		return markup
	case ".txt", ".rst", ".adoc", ".org", ".tex", ".text":
		return plain
	}
	return code
}

// A mark is a line without what introduces it.
type mark struct {
	text    string
	comment bool
	item    bool // an item of a list begins here
	heading bool
	code    bool // a piece of code, a table, a rule
}

func (c *cutter) mark(raw string) mark {
	var m mark
	t := strings.TrimSpace(raw)
	if c.form == markdown && (strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~")) {
		c.fenced = !c.fenced
		return mark{code: true}
	}
	if c.fenced {
		return mark{code: true}
	}
	inner := raw
	if c.form == code {
		inner, m.comment = c.comment(t, raw)
		if !m.comment {
			return m
		}
	}
	m.code = strings.HasPrefix(strings.TrimLeft(inner, " "), "\t") || strings.HasPrefix(inner, "     ")
	if c.form != code {
		m.code = strings.HasPrefix(t, "|") || c.form == markdown && strings.HasPrefix(raw, "    ") && !c.item
	}
	t = strings.TrimSpace(inner)
	if hashes := len(t) - len(strings.TrimLeft(t, "#")); hashes > 0 && strings.HasPrefix(t[hashes:], " ") && c.form != plain {
		m.text, m.heading = strings.TrimSpace(strings.Trim(t, "# ")), true
		return m
	}
	for {
		rest, ok := bullet(t)
		if !ok {
			break
		}
		t, m.item, m.code = strings.TrimSpace(rest), true, false
	}
	m.text = strings.TrimSpace(strings.TrimPrefix(t, "> "))
	return m
}

// comment gives what a line of code says in a comment.
func (c *cutter) comment(t, raw string) (inner string, ok bool) {
	if c.block {
		if i := strings.Index(t, "*/"); i >= 0 {
			c.block = false
			return strings.TrimPrefix(t[:i], "* "), true
		}
		if rest, ok := strings.CutPrefix(t, "* "); ok {
			return rest, true
		}
		return strings.TrimRight(raw, " \t"), t != "*"
	}
	for _, m := range []string{"///", "//!", "//", "--", ";;", "<!--", "#"} {
		if rest, ok := strings.CutPrefix(t, m); ok && rest != "" && (m != "#" || rest[0] == ' ') {
			rest = strings.TrimSuffix(rest, "-->")
			if again, ok := strings.CutPrefix(strings.TrimSpace(rest), "// "); ok {
				rest = "\t" + again // a comment in a piece of code in a comment
			}
			return rest, true
		}
	}
	if rest, ok := strings.CutPrefix(t, "/*"); ok {
		rest, _, closed := strings.Cut(strings.TrimPrefix(rest, "*"), "*/")
		c.block = !closed
		return rest, true
	}
	if rest, ok := strings.CutPrefix(t, "* "); ok && strings.HasPrefix(raw, " *") {
		return rest, true // of a block comment that began before the passage
	}
	return "", false
}

// bullet cuts off what introduces an item of a list.
func bullet(t string) (rest string, ok bool) {
	for _, m := range []string{"- ", "* ", "+ ", "• "} {
		if rest, ok := strings.CutPrefix(t, m); ok {
			return rest, true
		}
	}
	digits := strings.TrimLeft(t, "0123456789")
	if n := len(t) - len(digits); n > 0 && n < 3 && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") ")) {
		return digits[2:], true
	}
	return t, false
}

// directive tells instructions to tools from comments.
func directive(s string) bool {
	for _, p := range []string{"go:", "+build", "nolint", "eslint", "pragma", "lint:", "!/", "line ", "vim:", "-*-"} {
		if strings.HasPrefix(s, p) {
			return p != "line " || strings.Contains(s, ".go:")
		}
	}
	return false
}

// boilerplate tells what answers no question: licences, notes of authors to themselves,
// what generators say, and the names of tests.
func boilerplate(s string) bool {
	low := strings.ToLower(s)
	for _, w := range []string{
		"copyright", "all rights reserved", "license that can be found", "licensed under", "spdx-", "warranties", "warranty",
		"todo", "fixme", "xxx", "do not edit", "code generated", "generated by", "this file is part of",
	} {
		if strings.Contains(low, w) {
			return true
		}
	}
	for _, p := range []string{"Test", "Benchmark", "Fuzz"} {
		if rest, ok := strings.CutPrefix(s, p); ok && rest != "" && (unicode.IsUpper(rune(rest[0])) || rest[0] == '_') {
			return true
		}
	}
	return false
}

// cutSentence cuts after the first full stop that ends a sentence.
func cutSentence(s string) (head, rest string) {
	for i := 0; i+2 < len(s); i++ {
		if (s[i] == '.' || s[i] == '!' || s[i] == '?') && s[i+1] == ' ' && !abbreviation(s[:i]) {
			if r := strings.TrimLeft(s[i+1:], " "); r != "" && !unicode.IsLower([]rune(r)[0]) {
				return s[:i+1], r
			}
		}
	}
	return s, ""
}

func abbreviation(s string) bool {
	word := s[strings.LastIndexByte(s, ' ')+1:]
	initial := len(word) == 1 || len(word) > 2 && word[len(word)-2] == '-' && unicode.IsUpper(rune(word[len(word)-1]))
	return initial || slices.Contains([]string{"e.g", "i.e", "etc", "cf", "vs", "Dr", "Mr", "Fig", "al"}, strings.Trim(word, "("))
}

func ends(s string) bool {
	t := strings.TrimRight(s, `)"'”*_`+"`")
	return t != "" && strings.IndexByte(".!?:", t[len(t)-1]) >= 0
}

// lower reports whether a text begins with an ordinary word in small letters, as what
// is left of a sentence does.
func lower(s string) bool {
	first, _, _ := strings.Cut(s, " ")
	return first != "" && unicode.IsLower([]rune(first)[0]) && strings.ToLower(first) == first && !strings.ContainsAny(first, "._()")
}

// prose tells sentences from code and tables.
func prose(s string) bool {
	letters, other := 0, 0
	for _, r := range s {
		switch {
		case unicode.IsLetter(r) || r == ' ':
			letters++
		case strings.ContainsRune(`{}[]<>=|&;$\_/#@^~+*`, r):
			other += 2
		default:
			other++
		}
	}
	return letters > 12 && letters > 4*other && !strings.HasSuffix(s, "{") && !strings.HasSuffix(s, ";")
}

// terms are the stems of the words of a text that mean something, in order, each once.
func terms(text string) []string {
	var out []string
	for _, w := range words(text) {
		if t := porter.Stem(w); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// words are the words of a text that mean something, lower-case, in order.
func words(text string) []string {
	fields := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '’' })
	var out []string
	for _, f := range fields {
		w := strings.ToLower(f)
		for _, s := range []string{"'s", "’s"} {
			w = strings.TrimSuffix(w, s)
		}
		w = strings.Trim(w, "'’")
		if len(w) > 1 && !stopword(w) {
			out = append(out, w)
		}
	}
	return out
}

func stopword(w string) bool {
	const list = " a about above after again all also am an and any are as at be because been before being below between both but by can cannot could did do does doing down during each either else etc few for from further get gets give given goes had has have having he her here hers him his how however i if in into is it its itself just let like made make makes many may me might more most much must my need needs no nor not now of off on once one only or other our ours out over own please same say see shall she should so some such tell than that the their theirs them then there these they this those through to too two under until up us use used uses using very was way we were what when where which while who whom why will with without would you your can't don't doesn't isn't aren't won't didn't couldn't wouldn't it's we're we'll that's "
	return strings.Contains(list, " "+w+" ")
}
