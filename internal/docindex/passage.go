package docindex

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// These are the sizes of passages and of the rows of the index.
const (
	maxLines   = 15   // of a passage
	maxBytes   = 1600 // of one of several lines
	enoughText = 400  // bytes of prose that stand alone
	rowLines   = 40   // of a row of code
	farthest   = 200  // lines from a comment to what it is about
)

// A document is a parsed file.
type document struct {
	kind  kind
	title string // what it says it is about
	lines []line
	spans []span
}

// A span is a passage of a document: the lines from first up to but excluding last, counted from 0.
type span struct {
	first, last int
	head        string // the headings above it, or the symbol it belongs to
	prose       bool   // it is text for people: a paragraph, a comment with what it is about
	decl        bool   // it is no comment within the body of a function
}

// parse parses a file. It may reuse the memory of lines.
func parse(k kind, raw []byte, lines []line) *document {
	d := &document{kind: k, lines: linesOf(k, raw, lines)}
	d.title = d.about()
	var p packer
	if k == source {
		d.code(&p)
	} else {
		d.text(&p)
	}
	d.spans = p.done
	return d
}

// A packer joins blocks of lines to passages.
type packer struct {
	done  []span
	lines []line
	bytes int  // of the last one
	open  bool // the last one may still grow
	colon bool // the last one announces what follows
}

// add adds a block, cut if it is too long.
func (p *packer) add(s span, least int) {
	blank := func(i int) bool { return len(bytes.TrimSpace(p.lines[i].text)) == 0 }
	for s.last > s.first && blank(s.last-1) {
		s.last--
	}
	for s.first < s.last {
		if blank(s.first) {
			s.first++
			continue
		}
		part := s
		part.last = p.cut(s)
		s.first = part.last
		for blank(part.last - 1) {
			part.last--
		}
		p.join(part, least)
	}
}

// cut returns where to cut a block that is too long for a passage: before a list item if there is
// one.
func (p *packer) cut(s span) int {
	size, at := 0, s.first
	for i := s.first; i < s.last; i++ {
		size += len(p.lines[i].text)
		if i > s.first && size > maxBytes {
			return max(at, s.first+1)
		}
		if i-s.first == maxLines {
			if at-s.first >= maxLines/3 {
				return at
			}
			if s.last-s.first < 2*maxLines {
				return s.first + (s.last-s.first+1)/2
			}
			return i
		}
		if t := p.lines[i].text; i > s.first && (item(t) || len(bytes.TrimSpace(t)) == 0 || Ends(string(p.lines[i-1].text))) {
			at = i
		}
	}
	return s.last
}

func (p *packer) join(s span, least int) {
	size := 0
	for _, l := range p.lines[s.first:s.last] {
		size += len(bytes.TrimSpace(l.text))
	}
	if n := len(p.done); n > 0 && p.open {
		l := &p.done[n-1]
		if l.head == s.head && (p.bytes < least || p.colon || !s.prose && !l.prose) && s.last-l.first <= maxLines && p.bytes+size <= maxBytes {
			l.last = s.last
			l.prose = l.prose || s.prose
			l.decl = l.decl || s.decl
			p.bytes += size
			p.colon = announces(p.lines[s.last-1].text)
			return
		}
	}
	p.done = append(p.done, s)
	p.bytes, p.open, p.colon = size, true, announces(p.lines[s.last-1].text)
}

// Ends reports whether a line ends with the end of a sentence.
func Ends(line string) bool {
	line = strings.TrimRight(line, " \t)\"'”’*_`")
	return strings.HasSuffix(line, ".") || strings.HasSuffix(line, "!") || strings.HasSuffix(line, "?")
}

func announces(text []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(text, " \t*_`"), []byte(":"))
}

var itemStart = regexp.MustCompile(`^[\s/*#]*([-*+•]|\d{1,3}[.)]|\|)\s`)

func item(text []byte) bool {
	if t := bytes.TrimLeft(text, " \t/*#"); len(t) == 0 || t[0] > '9' && t[0] != '|' && t[0] < 0x80 {
		return bytes.HasPrefix(bytes.TrimLeft(text, " \t"), []byte("* "))
	}
	return itemStart.Match(text)
}

// text finds the passages of prose.
func (d *document) text(p *packer) {
	p.lines = d.lines
	var heads [7]string
	var head string
	start := 0
	flush := func(end int) {
		if start < end {
			p.add(span{first: start, last: end, head: head, prose: true}, enoughText)
		}
		start = end
	}
	fence := ""
	for i := 0; i < len(d.lines); i++ {
		l := &d.lines[i]
		t := bytes.TrimSpace(l.text)
		if d.kind == markdown {
			if mark := fenceMark(t); mark != "" && (fence == "" || strings.HasPrefix(mark, fence)) {
				if fence == "" {
					flush(i)
					fence = mark
				} else {
					fence = ""
					flush(i + 1)
				}
				continue
			}
			if fence != "" {
				continue
			}
		}
		level, name, used := d.heading(i)
		switch {
		case level > 0:
			flush(i)
			start = i + used
			if l := d.lines[start-1]; len(bytes.TrimSpace(l.text)) > len(bytes.TrimSpace(l.head)) && d.kind == markup {
				start-- // text stands behind the heading
			}
			p.open = false
			heads[min(level, 6)] = name
			clear(heads[min(level, 6)+1:])
			head = headPath(heads)
			i += used - 1
		case len(t) == 0 && l.code:
		case len(t) == 0:
			flush(i)
			start = i + 1
		case l.block:
			flush(i)
		}
	}
	flush(len(d.lines))
}

// headPath returns the headings above a passage, without the title of the file.
func headPath(heads [7]string) string {
	var out []string
	for _, h := range heads[1:] {
		if h != "" && (len(out) == 0 || out[len(out)-1] != h) {
			out = append(out, h)
		}
	}
	return strings.Join(out, " › ")
}

func fenceMark(t []byte) string {
	n := 0
	for n < len(t) && (t[n] == '`' || t[n] == '~') && t[n] == t[0] {
		n++
	}
	if n < 3 {
		return ""
	}
	return string(t[:n])
}

// heading returns the level and the text of the heading that begins at line i, and how many lines it has.
func (d *document) heading(i int) (level int, name string, used int) {
	t := d.lines[i].text
	switch d.kind {
	case markup:
		for level = d.lines[i].level; level > 0 && used < maxLines && i+used < len(d.lines) && d.lines[i+used].level == level &&
			(used == 0 || !d.lines[i+used].block); used++ {
			name += " " + string(d.lines[i+used].head)
		}
		if name = oneLine(name); name == "" {
			return 0, "", 0
		}
		return level, name, used
	case markdown:
		if n := len(t) - len(bytes.TrimLeft(t, "#")); n >= 1 && n <= 6 && n < len(t) && t[n] == ' ' {
			return n, oneLine(string(bytes.Trim(t, "# \t"))), 1
		}
	case prose:
		if n := len(t) - len(bytes.TrimLeft(t, "=")); n >= 1 && n <= 6 && n < len(t) && t[n] == ' ' { // AsciiDoc
			return n, oneLine(string(bytes.Trim(t, "= \t"))), 1
		}
		if bytes.HasPrefix(t, []byte(".SH ")) || bytes.HasPrefix(t, []byte(".SS ")) || bytes.HasPrefix(t, []byte(".Sh ")) {
			return 1 + int(bytes.ToUpper(t[2:3])[0]-'H')/11, oneLine(strings.ReplaceAll(string(t[4:]), `"`, "")), 1
		}
	}
	if i+1 < len(d.lines) && len(t) > 0 && len(t) < 100 && (i == 0 || len(bytes.TrimSpace(d.lines[i-1].text)) == 0) {
		u := bytes.TrimSpace(d.lines[i+1].text)
		if len(u) >= 3 && len(u)*2 >= len(t) && strings.IndexByte("=-~^", u[0]) >= 0 && len(bytes.Trim(u, string(u[:1]))) == 0 {
			return 1 + strings.IndexByte("=-~^", u[0]), oneLine(string(t)), 2
		}
	}
	return 0, "", 0
}

var marks = strings.NewReplacer("`", "", "**", "", "¶", "")

// oneLine returns a heading without its markup.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, " {#") // an anchor
	s = strings.Join(strings.Fields(marks.Replace(strings.Map(func(r rune) rune {
		if unseen(r) && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))), " ")
	return clean.Clip(strings.TrimRight(s, " #"), 120)
}

// code finds the passages of program text: comments with the declarations they document,
// declarations, and parts of bodies.
func (d *document) code(p *packer) {
	p.lines = d.lines
	head, prose, pack := "", 0, ""
	start, code, decl := 0, 0, false
	whole := false // the comment at hand began before start
	flush := func(end int) {
		if start < end && prose+code > 0 && !(prose > 0 && code == 0 && licence(d.lines[start:end])) {
			least := enoughText
			if prose == 0 || whole {
				least = maxBytes
			}
			p.add(span{first: start, last: end, head: head, prose: prose > 0, decl: decl || !strings.HasPrefix(head, "func ")}, least)
		}
		start, prose, code, decl, whole = end, 0, 0, false, false
	}
	inside := false // a comment of several lines
	for i, l := range d.lines {
		t := bytes.TrimSpace(l.text)
		if len(t) == 0 {
			if !inside {
				flush(i)
			}
			continue
		}
		isComment := inside || comment(t)
		if bytes.HasPrefix(t, []byte("/*")) || inside {
			inside = !bytes.Contains(t, []byte("*/"))
		}
		if isComment {
			if code > 0 {
				flush(i)
			}
			if bare := bytes.Trim(t, "/*#-;="); len(bytes.TrimSpace(bare)) == 0 && prose > 0 && !inside {
				prose++ // a paragraph ends
				flush(i + 1)
				whole = true
				continue
			}
			if col0(l.text) && prose == 0 && !whole {
				head = d.symbol(i, pack)
			}
			if title, ok := bytes.CutPrefix(l.text, []byte("// # ")); ok || inside && bytes.HasPrefix(l.text, []byte("# ")) {
				flush(i)
				head, _, _ = strings.Cut(head, " › ")
				head = strings.TrimPrefix(head+" › "+oneLine(string(bytes.TrimPrefix(title, []byte("# ")))), " › ")
				prose, whole = 1, true
				continue
			}
			if !directive(t) {
				decl = decl || col0(l.text)
				prose++
			} else {
				code++
			}
			continue
		}
		if opens(l.text) {
			if prose == 0 {
				if code > 0 && declares(l.text) {
					flush(i)
				}
			}
			if head2 := symbolOf(l.text); head2 != "" {
				head = head2
			}
			if rest, ok := bytes.CutPrefix(l.text, []byte("package ")); ok && pack == "" {
				pack = "package " + string(bytes.TrimRight(rest, "; \t"))
				head = pack
			}
		}
		code++
		if c := t[len(t)-1]; prose > 0 && (c == '{' || c == '(' || code >= 4) {
			flush(i + 1) // the comment and the head of what it is about
			p.open = false
		}
	}
	flush(len(d.lines))
}

func col0(text []byte) bool { return len(text) > 0 && text[0] != ' ' && text[0] != '\t' }

func opens(text []byte) bool { return col0(text) && text[0] != '}' && text[0] != ')' && text[0] != '#' }

// symbol returns the declaration below the comment at line i.
func (d *document) symbol(i int, pack string) string {
	inside := false
	for end := min(len(d.lines), i+farthest); i < end; i++ {
		t := d.lines[i].text
		inside = inside || bytes.HasPrefix(t, []byte("/*"))
		switch {
		case inside:
			inside = !bytes.Contains(t, []byte("*/"))
		case len(bytes.TrimSpace(t)) == 0:
			return pack
		case opens(t) && !comment(t) && !bytes.HasPrefix(t, []byte("/*")):
			if rest, ok := bytes.CutPrefix(t, []byte("package ")); ok {
				return "package " + string(bytes.TrimRight(rest, "; \t"))
			}
			return symbolOf(t)
		}
	}
	return pack
}

// symbolOf returns the head of the declaration that a line opens.
func symbolOf(t []byte) string {
	if !declares(t) {
		return ""
	}
	return oneLine(string(bytes.TrimRight(t, " \t{(=:")))
}

// directive reports whether a comment is for tools.
func directive(t []byte) bool {
	return bytes.HasPrefix(t, []byte("//go:")) || bytes.HasPrefix(t, []byte("// +build")) || bytes.HasPrefix(t, []byte("#!")) ||
		bytes.HasPrefix(t, []byte("//line "))
}

// declares reports whether a line opens a top-level declaration.
func declares(l []byte) bool {
	if len(l) == 0 || (l[0] < 'a' || l[0] > 'z') && l[0] != '#' {
		return false
	}
	for _, open := range []string{"func ", "type ", "var ", "const ", "class ", "def ", "fn ", "pub ", "export ", "public ", "struct ",
		"interface ", "enum ", "static ",
		"function ", "async ", "module ", "typedef ", "#define "} {
		if bytes.HasPrefix(l, []byte(open)) {
			return true
		}
	}
	return false
}

func comment(l []byte) bool {
	l = bytes.TrimLeft(l, " \t")
	for _, open := range []string{"//", "# ", "/*", "* ", "*/", "--", ";;", `"""`} {
		if bytes.HasPrefix(l, []byte(open)) {
			return true
		}
	}
	return len(l) == 1 && (l[0] == '#' || l[0] == '*')
}

// about returns a file's own description: the title or first heading of a document, or the first
// comment of a source file that is not a licence.
func (d *document) about() string {
	block := ""
	for i, l := range d.lines[:min(len(d.lines), 80)] {
		t := strings.TrimSpace(string(l.text[:min(len(l.text), 300)]))
		if d.kind != source {
			if level, name, _ := d.heading(i); level > 0 {
				return name
			}
			if block == "" && d.kind != markup && !strings.HasPrefix(t, "<") && !strings.HasPrefix(t, ".") {
				block = t
			}
			continue
		}
		switch {
		case comment([]byte(t)) || block != "" && strings.HasPrefix(block, "/*") && !strings.Contains(block, "*/"):
			block += " " + strings.TrimLeft(t, "#;- ")
			block = strings.TrimLeft(block, " ")
			continue
		case !boilerplate(block):
			return oneLine(strings.Trim(block, "/*;- "))
		}
		block = ""
	}
	if boilerplate(block) {
		return ""
	}
	return oneLine(strings.Trim(block, "/*;- "))
}

// licence reports whether a comment is a licence.
func licence(lines []line) bool {
	var text []byte
	for _, l := range lines[:min(len(lines), 4)] {
		text = append(append(text, l.text...), ' ')
	}
	return bytes.Contains(text, []byte("Copyright")) || bytes.Contains(text, []byte("SPDX-License"))
}

func boilerplate(block string) bool {
	b := strings.ToLower(block)
	for _, s := range []string{"copyright", "license", "licence", "go:build", "+build", "code generated", "do not edit", "#!/", "coding:", "eslint", "@ts-"} {
		if strings.Contains(b, s) {
			return true
		}
	}
	return len(strings.Trim(b, "/#*;- ")) < 8
}
