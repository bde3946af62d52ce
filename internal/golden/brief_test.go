package golden_test

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A cite is a place that a brief names: lines of a file.
type cite struct {
	path       string
	start, end int
}

// A passage is what a brief quotes, in quotation marks, a quoted block or a block of code.
type passage struct {
	lines   []string
	cites   []cite // that may be meant, the likeliest first; more if the passage stands in several places
	inline  bool   // in quotation marks
	nearest bool   // the brief calls it near or related, so it is no answer
	listed  bool   // in the list of sources
}

// paths are the files that the passage is cited with.
func (p *passage) paths() (out []string) {
	for _, c := range p.cites {
		out = append(out, c.path)
	}
	return out
}

var (
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*)`)
	rule     = regexp.MustCompile(`^\s*(-{3,}|\*{3,}|_{3,})\s*$`)
	fence    = regexp.MustCompile("^\\s*(```|~~~)")
	quote    = regexp.MustCompile(`^\s*(?:(?:[-*+]|\d+[.)])\s+)?> ?(.*)`)
	indented = regexp.MustCompile(`^(?: {4}|\t)(.*)`)
	item     = regexp.MustCompile(`^\s*([-*+]|\d+[.)]|\[\d+\])\s`)
	inline   = regexp.MustCompile(`“(?:[^“”]|“[^“”]*”)+”|"[^"]{20,}"`) // curly ones may have others within
	located  = regexp.MustCompile(`([\w./@+~%,=-]*[A-Za-z][\w./@+~%,=-]*):(\d+)(?:\s?[-–]\s?(\d+))?`)
	numbered = regexp.MustCompile(`\[(\d+(?:\s*,\s*\d+)*)\]`)
	target   = regexp.MustCompile(`\]\([^)\s]*\)`)
	sources  = regexp.MustCompile(`(?i)^(sources|references)\b`)
	near     = regexp.MustCompile(`(?i)\b(near|nearest|nearby|closest|related)\b`)
	denial   = regexp.MustCompile(`(?i)\b(not|n't|no|none|nothing)\b[^.]{0,80}\b(answers?|says?|speaks?|mentions?|found)\b`)
	number   = regexp.MustCompile(`^\s*\d+(?:\t|: | {1,4}|\s*[|│] ?)`)
	source   = regexp.MustCompile(`^\W*[\w./@+~%,=-]*[A-Za-z][\w./@+~%,=-]*:\d+`)
)

// A part of a brief is a heading, a block that quotes, or a paragraph.
type part struct {
	kind  byte // h, q or p
	lines []string
}

func (p part) text() string { return strings.Join(p.lines, "\n") }

func parts(brief string) (out []part) {
	var in *regexp.Regexp // what the block began with
	var open bool         // the last part goes on
	grow := func(kind byte, line string, joins bool) {
		if n := len(out); joins && open && n > 0 && out[n-1].kind == kind {
			out[n-1].lines = append(out[n-1].lines, line)
		} else {
			out = append(out, part{kind, []string{line}})
		}
		open = true
	}
	for line := range strings.Lines(brief) {
		line = strings.TrimRight(line, "\r\n")
		switch m := quote.FindStringSubmatch(line); {
		case in != nil && in.MatchString(line):
			in, open = nil, false
		case in != nil:
			grow('q', line, true)
		case fence.MatchString(line):
			in = regexp.MustCompile(`^\s*` + fence.FindStringSubmatch(line)[1])
			out, open = append(out, part{kind: 'q'}), true
		case heading.MatchString(line):
			text := heading.FindStringSubmatch(line)[1]
			if len(out) == 0 {
				text = "" // the question
			}
			out, open = append(out, part{'h', []string{text}}), false
		case strings.TrimSpace(line) == "" || rule.MatchString(line):
			open = false
		case m != nil && fence.MatchString(m[1]):
		case m != nil:
			grow('q', m[1], true)
		case indented.MatchString(line) && (!open || out[len(out)-1].kind == 'q') && !item.MatchString(line):
			grow('q', indented.FindStringSubmatch(line)[1], true)
		default:
			grow('p', line, !item.MatchString(line))
		}
	}
	return slices.DeleteFunc(out, func(p part) bool { return len(p.lines) == 0 })
}

// cites finds the places that a text names, itself or by the numbers of sources.
func cites(text string, listed map[string][]cite) (out []cite) {
	text = target.ReplaceAllString(text, "]")
	for _, m := range located.FindAllStringSubmatch(text, -1) {
		c := cite{path: strings.Trim(m[1], ".,~")}
		c.start, _ = strconv.Atoi(m[2])
		if c.end = c.start; m[3] != "" {
			c.end, _ = strconv.Atoi(m[3])
		}
		out = append(out, c)
	}
	for _, m := range numbered.FindAllStringSubmatch(text, -1) {
		for n := range strings.SplitSeq(m[1], ",") {
			out = append(out, listed[strings.TrimSpace(n)]...)
		}
	}
	return out
}

// parse finds what a brief quotes, and whether it says that the documents do not answer. A citation stands before the
// quote or behind it: verbatim, which counts the lines of a passage that stand at the places it is cited with, decides.
func parse(brief string, verbatim func(*passage) int) (quoted []*passage, denies bool) {
	all := parts(brief)
	listed := map[string][]cite{}
	section := ""
	for _, p := range all {
		if p.kind == 'h' {
			section = p.lines[0]
		} else if m := numbered.FindStringSubmatch(p.text()); sources.MatchString(section) && p.kind == 'p' && m != nil {
			listed[m[1]] = cites(inline.ReplaceAllString(p.text(), ""), nil)
		}
	}
	section = ""
	add := func(p *passage, candidates ...[]cite) {
		p.lines = slices.DeleteFunc(slices.Clone(p.lines), func(l string) bool { return strings.Trim(l, " \t…") == "" })
		best := -1
		for _, cites := range candidates {
			q := *p
			if q.cites = cites; len(cites) > 0 && verbatim(&q) > best {
				best, p.cites = verbatim(&q), cites
			}
		}
		if p.cites != nil || !p.inline { // words in quotation marks that nothing is cited for are no quote
			p.listed = sources.MatchString(section)
			p.nearest = p.nearest || near.MatchString(section)
			quoted = append(quoted, p)
		}
	}
	for i, p := range all {
		text := p.text()
		var before, after string
		if i > 0 {
			before = all[i-1].text()
		}
		if i+1 < len(all) && all[i+1].kind == 'p' {
			after = all[i+1].text()
		}
		switch p.kind {
		case 'h':
			section = text
		case 'q':
			q := &passage{lines: p.lines, nearest: i > 0 && all[i-1].kind == 'p' && near.MatchString(before)}
			var within []cite
			if last := len(p.lines) - 1; last > 0 && source.MatchString(p.lines[last]) {
				within, q.lines = cites(p.lines[last], listed), p.lines[:last]
			}
			if i > 0 && all[i-1].kind == 'q' {
				before = ""
			}
			after, _, _ = strings.Cut(after, "“")
			add(q, within, cites(after, listed), cites(before, listed))
		default:
			end := 0
			found := inline.FindAllStringIndex(text, -1)
			if len(quoted) == 0 && denial.MatchString(inline.ReplaceAllString(text, "")) {
				denies = true
			}
			for n, m := range found {
				next := len(text)
				if n+1 < len(found) {
					next = found[n+1][0]
				}
				said := []rune(text[m[0]:m[1]])
				q := &passage{lines: strings.Split(string(said[1:len(said)-1]), "\n"), inline: true, nearest: near.MatchString(text[end:m[0]])}
				add(q, cites(text[m[1]:next], listed), cites(text[end:m[0]], listed))
				end = m[1]
			}
		}
	}
	return quoted, denies
}

// whole is how many lines around a place in a file a sentence in quotation marks may span.
const whole = 10

// altered returns the lines of a passage that do not stand at the best of the places it is cited with.
func (p *passage) altered(dir string) []string {
	least := p.lines
	for _, c := range p.cites {
		text, err := lines(filepath.Join(dir, filepath.FromSlash(c.path)))
		if err != nil || c.start < 1 || c.start > len(text) || c.end < c.start {
			continue
		}
		at := text[c.start-1 : min(c.end, len(text))]
		var plain []string // of HTML the lines without tags, for which there may be a blank or none
		if strings.Contains(strings.ToLower(c.path), ".htm") {
			for l := range strings.Lines(untagged(strings.Join(at, "\n"))) {
				plain = append(plain, blankless(l))
			}
		}
		around := strings.Join(text[max(c.start-1-whole, 0):min(c.end+whole, len(text))], "\n")
		joins := func(as func(string) string, l string) bool { return p.inline && strings.Contains(as(around), as(l)) }
		var odd []string
		for _, l := range p.lines {
			if !stands(l, at) && !stands(blankless(l), plain) && !joins(normal, l) && !joins(folded, l) {
				odd = append(odd, l)
			}
		}
		if len(odd) < len(least) {
			least = odd
		}
	}
	return least
}

func blankless(text string) string { return strings.Join(strings.Fields(text), "") }

// stands reports whether a quoted line, perhaps with its number before it, is in one of the lines.
func stands(l string, at []string) bool {
	return slices.ContainsFunc([]string{l, number.ReplaceAllString(l, "")}, func(l string) bool {
		l = strings.TrimSpace(strings.Trim(strings.TrimSpace(l), "…"))
		return slices.ContainsFunc(at, func(line string) bool { return strings.Contains(line, l) })
	})
}

// quotes counts the lines of a passage.
func (r *result) quotes(p *passage, dir string) {
	odd := p.altered(dir)
	r.altered = append(r.altered, odd...)
	r.verbatim += len(p.lines) - len(odd)
	r.lines += len(p.lines)
}

// judge says what a brief is worth as an answer to a question about the documents in dir. Answered is what the run says
// itself, nil if nothing.
func judge(q *question, dir, brief string, answered *bool) *result {
	r := &result{q: q}
	quoted, denies := parse(brief, func(p *passage) int { return len(p.lines) - len(p.altered(dir)) })
	answers, body := 0, 0
	for _, p := range quoted {
		r.quotes(p, dir)
		bare := make([]string, len(p.lines)) // without the numbers of the lines
		for i, l := range p.lines {
			bare[i] = number.ReplaceAllString(l, "")
		}
		if q.answers(normal(strings.Join(p.lines, "\n")), p.paths()...) || q.answers(normal(strings.Join(bare, "\n")), p.paths()...) {
			r.brief = true
			r.lead = r.lead || !p.listed && body < 3
		}
		if !p.listed {
			body++
			if !p.nearest {
				answers++
			}
		}
		if r.first == "" && len(p.cites) > 0 {
			r.first = p.cites[0].path + ":" + strconv.Itoa(p.cites[0].start) + " " + normal(strings.Join(p.lines, " "))
		}
	}
	if r.abstains = (denies || answered != nil && !*answered) && answers == 0; r.abstains {
		r.lead, r.brief = false, false
	}
	return r
}

// TestParse holds that briefs of every shape are read.
func TestParse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "os/proc.go", "// Exit causes the current program to exit.\n"+
		"// The program terminates immediately; deferred functions\n// are not run.\nfunc Exit(code int) {\n")
	write(t, dir, "spec.html", "<p>The expression\n<code>x</code> may <a href=\"#y\">overflow</a> &amp; wrap.</p>\n")
	yes, no := true, false
	exits := &question{ID: "e", Expect: []place{{"os/*.go", "deferred functions are not run"}}}
	wraps := &question{ID: "w", Expect: []place{{"spec.html", "x may overflow & wrap"}}}
	none := &question{ID: "n", Abstain: true}
	const block = "> // The program terminates immediately; deferred functions\n> // are not run.\n"
	for _, c := range []struct {
		name     string
		q        *question
		brief    string
		answered *bool
		want     result // without question, first and altered
	}{
		{
			"quoted block, citation behind", exits,
			"# E?\n\n## Answer\n\n" + block + "\n`os/proc.go:2-3` func Exit\n\n## Sources\n\n- os/proc.go:2-3\n",
			&yes, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{
			"citation before", exits,
			"## Answer\n\n**[os/proc.go:2-3](file:///x/os/proc.go)**\n\n" + block,
			nil, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{
			"citation in the heading", exits,
			"# E?\n\n### os/proc.go:2-3\n```go\n// The program terminates immediately; deferred functions\n// are not run.\n```\n",
			nil, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{"citation within", exits, block + "> — os/proc.go:2-3\n", nil, result{lead: true, brief: true, lines: 2, verbatim: 2}},
		{
			"by number", exits,
			"A\n\n" + block + "\n[1]\n\n## Sources\n\n[1] `os/proc.go:2-3`\n",
			nil, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{
			"numbers of lines", exits,
			"```\n2\t// The program terminates immediately; deferred functions\n3\t// are not run.\n```\nos/proc.go:2–3\n",
			nil, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{
			"a sentence over lines", exits,
			"- “The program terminates immediately; deferred functions are not run.” [1]\n\n" +
				"## Sources\n\n[1] os/proc.go:2 — “The program terminates immediately; deferred functions”\n",
			nil, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{
			"quotes within", exits,
			"“The “program” terminates “immediately”; deferred functions are not run.” [1]\n\n## Sources\n\n[1] os/proc.go:2\n",
			nil, result{lead: true, brief: true, lines: 1},
		},
		{
			"only the first of two", exits,
			"> // Exit causes the current program to exit.\n\nos/proc.go:1\n\n" + block + "\nos/proc.go:2-3\n",
			nil, result{lead: true, brief: true, lines: 3, verbatim: 3},
		},
		{
			"in the sources alone", exits,
			"A [1]\n\n## Sources\n\n[1] os/proc.go:2 — “deferred functions are not run”\n",
			nil, result{brief: true, lines: 1, verbatim: 1},
		},
		{
			"late", exits,
			strings.Repeat("> // Exit causes\n\nos/proc.go:1\n\n", 3) + block + "\nos/proc.go:2-3\n",
			nil, result{brief: true, lines: 5, verbatim: 5},
		},
		{"wrong file", exits, block + "\nspec.html:1\n", nil, result{lines: 2}},
		{"wrong words", exits, "> Deferred functions are run.\n\nos/proc.go:2-3\n", nil, result{lines: 1}},
		{"wrong line", exits, block + "\nos/proc.go:1\n", nil, result{lead: true, brief: true, lines: 2}},
		{"words of the question", none, "# Which is the closest?\n\nIt is not answered.\n\n" + block + "\nos/proc.go:2-3\n", &no, result{lines: 2, verbatim: 2}},
		{"no citation", exits, block, nil, result{lines: 2}},
		{
			"text of HTML", wraps,
			"> The expression\n> x may  overflow  & wrap.\n\nspec.html:1-2\n",
			nil, result{lead: true, brief: true, lines: 2, verbatim: 2},
		},
		{
			"abstains", none,
			"# N?\n\nThe documents do not answer this. Searched: 3 files.\n\n## Nearest\n\n" + block + "\nos/proc.go:2-3\n",
			&no, result{abstains: true, lines: 2, verbatim: 2},
		},
		{
			"abstains in words", none,
			"The documents do not answer “What is the time in Oslo?”.\n\nThe nearest passage, os/proc.go:2-3:\n\n" + block,
			nil, result{abstains: true, lines: 2, verbatim: 2},
		},
		{
			"abstains, with sources", none,
			"Nothing that was found answers this; nearest is “Exit causes the current program” [1].\n\n## Sources\n\n[1] os/proc.go:1 — “Exit causes”\n",
			nil, result{abstains: true, lines: 2, verbatim: 2},
		},
		{
			"abstains and answers", none,
			"The documents do not answer this.\n\n## Answer\n\n" + block + "\nos/proc.go:2-3\n",
			&no, result{lines: 2, verbatim: 2},
		},
		{
			"abstains though it is there", exits,
			"The documents do not answer this.\n\n## Nearest\n\n" + block + "\nos/proc.go:2-3\n",
			&no, result{abstains: true, lines: 2, verbatim: 2},
		},
		{"nothing to abstain from", none, "## Answer\n\n" + block + "\nos/proc.go:2-3\n", &yes, result{lines: 2, verbatim: 2}},
	} {
		got := judge(c.q, dir, c.brief, c.answered)
		got.q, got.first, got.altered = nil, "", nil
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, *got, c.want)
		}
	}
}
