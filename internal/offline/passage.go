package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/words"
)

// preamble begins every answer that is a text.
const preamble = "Offline model: it quotes, and writes no prose."

// A passage is lines of a document, verbatim.
type passage struct {
	path     string // "" if the place is not known
	from, to int
	heading  string
	lines    []string
}

// String returns the passage in the form used in answers. [scan] parses it.
func (p *passage) String() string {
	var b strings.Builder
	if p.path != "" {
		fmt.Fprintf(&b, "%s:%d", p.path, p.from)
		if p.to > p.from {
			fmt.Fprintf(&b, "-%d", p.to)
		}
		if p.heading != "" {
			b.WriteString("  " + p.heading)
		}
		b.WriteByte('\n')
	}
	for i, l := range p.lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.TrimRight("> "+l, " "))
	}
	return b.String()
}

func (p *passage) text() string { return strings.Join(p.lines, "\n") }

// hidden reports whether a path leads through a hidden folder, which holds settings and not documents.
func hidden(path string) bool { return strings.HasPrefix(path, ".") || strings.Contains(path, "/.") }

var (
	place    = regexp.MustCompile(`^(## )?(\S.*?):(\d{1,7})(?:-(\d{1,7}))?(?:  (.*))?$`)
	numbered = regexp.MustCompile(`^(\d{1,7})\t(.*)$`)
	grepped  = regexp.MustCompile(`^([^\s:>"][^:"]*\.\w+):(\d{1,7}):(.*)$`)
)

// scan finds the passages of a text: those of this model, those of searches, and lines as grep prints them. The rest is all
// other lines.
func scan(text string) (found []passage, rest string) {
	lines := strings.Split(text, "\n")
	var others []string
	for i := 0; i < len(lines); i++ {
		l := strings.TrimRight(lines[i], "\r")
		if g := grepped.FindStringSubmatch(l); g != nil {
			n := atoi(g[2])
			found = append(found, passage{path: g[1], from: n, to: n, lines: []string{strings.TrimSpace(g[3])}})
			continue
		}
		m := place.FindStringSubmatch(l)
		if m == nil {
			if l != preamble {
				others = append(others, l)
			}
			continue
		}
		p := passage{path: m[2], from: atoi(m[3]), to: max(atoi(m[3]), atoi(m[4])), heading: m[5]}
		end := i + 1
		for ; end < len(lines); end++ {
			if quoted, ok := strings.CutPrefix(lines[end], ">"); ok && m[1] == "" {
				p.lines = append(p.lines, strings.TrimPrefix(quoted, " "))
			} else if n := numbered.FindStringSubmatch(lines[end]); n != nil && m[1] != "" {
				p.lines = append(p.lines, n[2])
			} else {
				break
			}
		}
		if p.trim(); len(p.lines) == 0 {
			others = append(others, l)
			continue
		}
		found = append(found, p)
		i = end - 1
	}
	return found, strings.Join(others, "\n")
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // digits, or nothing
	return n
}

// trim takes empty lines off both ends.
func (p *passage) trim() {
	empty := func(l string) bool { return strings.TrimSpace(l) == "" }
	for len(p.lines) > 0 && empty(p.lines[0]) {
		p.lines, p.from = p.lines[1:], p.from+1
	}
	for len(p.lines) > 0 && empty(p.lines[len(p.lines)-1]) {
		p.lines, p.to = p.lines[:len(p.lines)-1], p.to-1
	}
	p.to = max(p.to, p.from)
}

// longest bounds a passage that is cut out of a file, in lines.
const longest = 15

// paragraphs cuts what read_file printed of a file into passages below their headings.
func paragraphs(path, printed string) []passage {
	var out []passage
	var p passage
	heading := ""
	end := func() {
		if p.trim(); strings.ContainsFunc(p.text(), unicode.IsLetter) {
			p.path, p.heading = path, heading
			out = append(out, p)
		}
		p = passage{}
	}
	for line := range strings.SplitSeq(printed, "\n") {
		m := numbered.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, text := atoi(m[1]), m[2]
		title, marked := strings.CutPrefix(text, "#")
		switch {
		case marked && strings.HasPrefix(strings.TrimLeft(title, "#"), " "):
			end()
			heading = strings.Trim(title, "# ")
			continue
		case strings.TrimSpace(text) == "" || len(p.lines) == longest:
			end()
		}
		if p.lines == nil {
			p.from = n
		}
		p.lines, p.to = append(p.lines, text), n
	}
	end()
	return out
}

const mostLooked = 1000 // passages

// once removes passages that repeat earlier ones: by location or by text, also if one contains the
// other.
func once(all []passage) []passage {
	var out []passage
	for i := range all[:min(len(all), mostLooked)] {
		p := &all[i]
		if !slices.ContainsFunc(out, func(o passage) bool {
			return o.text() == p.text() || p.path != "" && o.path == p.path && (o.from <= p.from && p.to <= o.to || p.from <= o.from && o.to <= p.to)
		}) {
			out = append(out, *p)
		}
	}
	return out
}

// stems returns the stems of what a text is about, each once.
func stems(text string) []string {
	var out []string
	seen := map[string]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }) {
		if s := words.Stem(w); len(w) > 1 && !words.IsPlain(w) && !seen[s] {
			seen[s], out = true, append(out, s)
		}
	}
	return out
}

// rank sorts passages by how many of the words they have, and leaves out those with fewer than half.
func rank(all []passage, wanted []string) []passage {
	score := func(p *passage) (n int) {
		title, body := stems(p.heading), stems(p.text())
		for _, w := range wanted {
			if slices.Contains(body, w) {
				n += 2
			} else if slices.Contains(title, w) {
				n++
			}
		}
		return n
	}
	var out []passage
	for n := 2 * len(wanted); n > 0 && n >= len(wanted); n-- {
		for i := range all {
			if score(&all[i]) == n {
				out = append(out, all[i])
			}
		}
	}
	return out
}
