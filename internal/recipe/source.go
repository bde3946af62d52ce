package recipe

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/clean"
)

// A source is the text of a recipe with its lines, as YAML counts them.
type source struct {
	text  []byte
	lines []int // where they start

	last place // the place that was asked for last, so that asking in order costs nothing

	node   *yaml.Node // the scalar that was looked into last,
	inner  place      // where in it,
	value  int        // and how far in its value
	failed bool       // its value is not what the text says
}

// A place is a position and where it is in the text.
type place struct {
	Pos
	off int
}

func newSource(text []byte) *source {
	s := &source{text: text}
	start := 0
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		start = 3
	}
	s.lines = append(s.lines, start)
	for i := start; i < len(text); {
		n := lineBreak(text[i:])
		if n == 0 {
			i++
			continue
		}
		i += n
		s.lines = append(s.lines, i)
	}
	return s
}

// lineBreak returns the length of the end of a line that b starts with, 0 if it does not.
func lineBreak(b []byte) int {
	switch b[0] {
	case '\n':
		return 1
	case '\r':
		if len(b) > 1 && b[1] == '\n' {
			return 2
		}
		return 1
	case 0xc2: // U+0085
		if len(b) > 1 && b[1] == 0x85 {
			return 2
		}
	case 0xe2: // U+2028, U+2029
		if len(b) > 2 && b[1] == 0x80 && (b[2] == 0xa8 || b[2] == 0xa9) {
			return 3
		}
	}
	return 0
}

// line returns the text of a line, counted from 1, without its end.
func (s *source) line(n int) (string, bool) {
	if n < 1 || n > len(s.lines) {
		return "", false
	}
	end := len(s.text)
	if n < len(s.lines) {
		end = s.lines[n]
	}
	return strings.TrimRight(string(s.text[s.lines[n-1]:end]), "\r\n\u0085\u2028\u2029"), true
}

// find converts a position to a place.
func (s *source) find(p Pos) (place, bool) {
	if p.Line < 1 || p.Line > len(s.lines) || p.Col < 1 {
		return place{}, false
	}
	at := place{Pos{p.Line, 1}, s.lines[p.Line-1]}
	if s.last.Line == p.Line && s.last.Col <= p.Col {
		at = s.last
	}
	for at.Col < p.Col && at.off < len(s.text) && lineBreak(s.text[at.off:]) == 0 {
		at = s.next(at)
	}
	if at.Col != p.Col {
		return place{}, false
	}
	s.last = at
	return at, true
}

// next returns the place of the character after that at p.
func (s *source) next(p place) place {
	if n := lineBreak(s.text[p.off:]); n > 0 {
		return place{Pos{p.Line + 1, 1}, p.off + n}
	}
	_, n := utf8.DecodeRune(s.text[p.off:])
	return place{Pos{p.Line, p.Col + 1}, p.off + n}
}

// at returns the position of a byte of a scalar's value. It relies on the fact that every style of
// scalar keeps all characters other than white space in their order. If the text does not match the
// value, it returns the position of the scalar and reports that it is not exact.
func (s *source) at(n *yaml.Node, off int) (pos Pos, exact bool) {
	start := Pos{n.Line, n.Column}
	if s.node != n || s.value > off {
		p, ok := s.find(start)
		if !ok {
			return start, false
		}
		s.node, s.inner, s.value, s.failed = n, s.open(n, p), 0, false
	}
	for !s.failed {
		r, size := utf8.DecodeRuneInString(n.Value[s.value:])
		if s.value < off && (size == 0 || white(r)) {
			s.value += max(size, 1)
			continue
		}
		from, to, got, ok := s.char(n)
		if !ok || size > 0 && !white(r) && got != r {
			s.failed = true
			break
		}
		if s.value >= off || size == 0 {
			return from.Pos, true
		}
		s.inner = to
		s.value += size
	}
	return start, false
}

// open returns the place where the text of a scalar starts.
func (s *source) open(n *yaml.Node, p place) place {
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		for p.off < len(s.text) && lineBreak(s.text[p.off:]) == 0 {
			p = s.next(p)
		}
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		p = s.next(p)
	}
	return p
}

// char returns the next character of a scalar that is not white space, and where it starts and ends.
func (s *source) char(n *yaml.Node) (from, to place, r rune, ok bool) {
	p := s.inner
	for p.off < len(s.text) {
		r, _ := utf8.DecodeRune(s.text[p.off:])
		if white(r) {
			p = s.next(p)
			continue
		}
		to = s.next(p)
		switch {
		case n.Style&yaml.SingleQuotedStyle != 0 && r == '\'':
			if to.off >= len(s.text) || s.text[to.off] != '\'' {
				return p, to, r, false
			}
			to = s.next(to)
		case n.Style&yaml.DoubleQuotedStyle != 0 && r == '"':
			return p, to, r, false
		case n.Style&yaml.DoubleQuotedStyle != 0 && r == '\\':
			r, to = s.escape(to)
			if white(r) {
				p = to
				continue
			}
		}
		return p, to, r, true
	}
	return p, p, 0, false
}

// escape reads what follows a backslash.
func (s *source) escape(p place) (rune, place) {
	if p.off >= len(s.text) {
		return utf8.RuneError, p
	}
	if lineBreak(s.text[p.off:]) > 0 {
		return '\n', s.next(p)
	}
	c := s.text[p.off]
	p = s.next(p)
	var digits int
	switch c {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		const from, to = "0abtnvfreN_LP \t\"/\\", "\x00\a\b\t\n\v\f\r\x1b\u0085\u00a0\u2028\u2029 \t\"/\\"
		if i := strings.IndexByte(from, c); i >= 0 {
			return []rune(to)[i], p
		}
		return utf8.RuneError, p
	}
	var r rune
	for ; digits > 0 && p.off < len(s.text); digits-- {
		d := unhex(s.text[p.off])
		if d < 0 {
			return utf8.RuneError, p
		}
		r = r<<4 | d
		p = s.next(p)
	}
	return r, p
}

func unhex(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// white reports whether the styles of scalars may fold, cut or add a character.
func white(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// oneLine returns text for a message: cleaned, on one line and shortened.
func oneLine(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, clean.Text(s))
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit-1]) + "…"
	}
	return s
}

// shownRunes returns a part of a line for an excerpt. It replaces each character by exactly one, so
// that the caret below is aligned.
func shownRunes(runes []rune) string {
	var b strings.Builder
	for _, r := range runes {
		switch c := clean.Text(string(r)); {
		case r == '\t':
			b.WriteByte(' ')
		case c != string(r):
			b.WriteRune('\ufffd')
		default:
			b.WriteString(c)
		}
	}
	return b.String()
}

// width returns the number of columns that a terminal needs for text.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0x1f300 && r <= 0x1faff || r >= 0xff01 && r <= 0xff60:
			n += 2
		default:
			n++
		}
	}
	return n
}

// place returns the place of a node.
func posOf(n *yaml.Node) Pos { return Pos{max(n.Line, 1), max(n.Column, 1)} }
