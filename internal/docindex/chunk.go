package docindex

import (
	"bytes"
	"sort"
	"strings"
)

// The sizes of chunks, in lines and bytes.
const (
	chunkMin    = 20
	chunkTarget = 40
	chunkMax    = 60
	chunkBytes  = 8 << 10
)

// A chunk is a piece of a file. Lines count from 1. A line longer than chunkBytes is
// several chunks of one line.
type chunk struct {
	start, end int // lines
	off, size  int // bytes
	head       string
}

// split cuts text into chunks of about chunkTarget lines, before headings, top-level
// declarations and paragraphs where it can. headings are the offsets of those of HTML.
func split(text []byte, k kind, headings []int) []chunk {
	lines := scanLines(text, k, headings)
	var chunks []chunk
	var title, section string
	for i := 0; i < len(lines); {
		j := cutAfter(lines, i)
		c := chunk{start: i + 1, end: j, off: lines[i].off, size: lines[j-1].next - lines[i].off}
		head := []string{title, section}
		for _, l := range lines[i:j] {
			if l.heading {
				section = headingText(text, lines, l)
				head = append(head, section)
				if title == "" {
					title = section
				}
			}
		}
		c.head = strings.Join(head, " ")
		chunks = append(chunks, pieces(text, c)...)
		i = j
	}
	return chunks
}

// pieces is c, or if it is one long line the parts of that.
func pieces(text []byte, c chunk) []chunk {
	var out []chunk
	for c.start == c.end && c.size > chunkBytes {
		n := chunkBytes
		if i := bytes.LastIndexByte(text[c.off:c.off+n], ' '); i > n/2 {
			n = i + 1
		}
		for n > chunkBytes/2 && text[c.off+n]&0xc0 == 0x80 { // inside a character
			n--
		}
		p := c
		p.size = n
		out = append(out, p)
		c.off, c.size = c.off+n, c.size-n
	}
	return append(out, c)
}

type line struct {
	off, next int // where it starts, where the next one does
	blank     bool
	top       bool // starts in the first column with something that opens a declaration
	heading   bool
}

func scanLines(text []byte, k kind, headings []int) []line {
	lines := make([]line, 0, len(text)/32+1)
	fenced := false
	for off := 0; off < len(text); {
		next := len(text)
		if i := bytes.IndexByte(text[off:], '\n'); i >= 0 {
			next = off + i + 1
		}
		l := line{off: off, next: next}
		b := text[off:next]
		l.blank = len(bytes.TrimSpace(b)) == 0
		l.top = !l.blank && b[0] != ' ' && b[0] != '\t' && b[0] != '}' && b[0] != ')'
		switch k {
		case markdown:
			if bytes.HasPrefix(b, []byte("```")) || bytes.HasPrefix(b, []byte("~~~")) {
				fenced = !fenced
			}
			l.heading = !fenced && atxHeading(b)
		case markup:
			i := sort.SearchInts(headings, off)
			l.heading = i < len(headings) && headings[i] < next
			l.blank = len(bytes.Trim(b, "\x00 \t\r\n")) == 0
		}
		lines = append(lines, l)
		off = next
	}
	return lines
}

func atxHeading(b []byte) bool {
	n := 0
	for n < len(b) && b[n] == '#' {
		n++
	}
	return n >= 1 && n <= 6 && n < len(b) && b[n] == ' '
}

// cutAfter returns the line before which the chunk that starts at line i should end.
func cutAfter(lines []line, i int) int {
	best, bestScore := i+1, -1.0
	for j := i + 1; j <= len(lines); j++ {
		if lines[j-1].next-lines[i].off > chunkBytes && j > i+1 {
			break
		}
		if j == len(lines) {
			if j-i <= chunkMax {
				return j
			}
			break
		}
		n := j - i
		if n > chunkMax {
			break
		}
		score := 0.0
		switch {
		case lines[j].heading:
			score = 4
		case lines[j].top && lines[j-1].blank:
			score = 3
		case lines[j-1].blank:
			score = 2
		}
		if n < chunkMin {
			score -= float64(chunkMin-n) / 4
		}
		score -= float64(max(n-chunkTarget, chunkTarget-n)) / chunkTarget
		if score > bestScore || bestScore < 0 && n <= chunkTarget {
			best, bestScore = j, score
		}
	}
	return best
}

func headingText(text []byte, lines []line, l line) string {
	b := text[l.off:l.next]
	if len(bytes.Trim(b, "\x00 \t\r\n")) == 0 { // <h2> on a line of its own
		i := sort.Search(len(lines), func(i int) bool { return lines[i].off >= l.next })
		if i < len(lines) {
			b = text[lines[i].off:lines[i].next]
		}
	}
	return string(b[:min(len(b), 200)])
}

const (
	titleLines = 60  // of a file looked at for what it is about
	titleBytes = 240 // of that
)

// titleOf returns what a file says it is about: the title or first heading of a document,
// the first comment of a source file that is not a licence or a directive.
func titleOf(text []byte, k kind, headings []int) string {
	if k == markup {
		if len(headings) > 0 {
			text = text[headings[0]:]
		}
		return firstLine(bytes.TrimLeft(text, "\x00 \t\r\n"))
	}
	if k != source {
		return firstLine(bytes.TrimLeft(text, " \t\r\n#=*"))
	}
	var block []byte
	for n := 0; n < titleLines && len(text) > 0; n++ {
		l, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		l = bytes.TrimSpace(l)
		inside := len(block) > 0 && len(bytes.TrimLeft(l, "/#* ;-")) > 0
		switch {
		case comment(l) || inside && block[0] == '/' && bytes.HasPrefix(block, []byte("/*")):
			if len(block) > 0 {
				l = bytes.TrimLeft(l, "/#*;- ")
			}
			block = append(append(block, l...), ' ')
			if len(block) > titleBytes {
				n = titleLines
			}
			continue
		case !boilerplate(block):
			return firstLine(bytes.TrimLeft(block, "/#*;- "))
		}
		block = nil
	}
	if boilerplate(block) {
		return ""
	}
	return firstLine(bytes.TrimLeft(block, "/#*;- "))
}

func boilerplate(block []byte) bool {
	b := bytes.ToLower(block)
	for _, s := range []string{"copyright", "license", "licence", "go:build", "+build", "code generated", "do not edit", "#!/", "coding:", "eslint", "@ts-"} {
		if bytes.Contains(b, []byte(s)) {
			return true
		}
	}
	return len(bytes.Trim(b, "/#*;- ")) < 8
}

func firstLine(b []byte) string {
	l, _, _ := bytes.Cut(b, []byte("\n"))
	return string(l[:min(len(l), titleBytes)])
}
