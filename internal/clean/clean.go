// Package clean makes untrusted text harmless.
package clean

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s without what could drive a terminal or deceive a reader: escape sequences, control
// characters other than newline and tab, and characters that change the direction of text, have no
// width or are for machines only. Other ends of lines become newlines. Invalid UTF-8 becomes
// U+FFFD. It takes time in proportion to the length of s, and returns clean text as it is.
func Text(s string) string {
	i := firstUnclean(s)
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		b.WriteString(s[:i])
		s = s[i:]
		if s == "" {
			return b.String()
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteRune(utf8.RuneError)
		case r == '\r' && strings.HasPrefix(s, "\r\n"):
			// The newline stays.
		case r == '\r' || r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		case r == '\x1b':
			n = escape(s)
		}
		s = s[n:]
		i = firstUnclean(s)
	}
}

func firstUnclean(s string) int {
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || unclean(r) {
			return i
		}
		i += n
	}
	return len(s)
}

// escape returns the length of the escape sequence that s starts with. One without an end is
// only its first character, so that it cannot hide the rest of the text.
func escape(s string) int {
	if len(s) < 2 {
		return 1
	}
	switch c := s[1]; {
	case c == '[':
		for i := 2; i < len(s) && i < 64; i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x3f {
				return 1
			}
		}
	case c == ']' || c == 'P' || c == '^' || c == '_' || c == 'X':
		for i := 2; i < len(s) && i < 4096 && s[i] != '\n'; i++ {
			if s[i] == '\a' {
				return i + 1
			}
			if s[i] == '\x1b' { // another one, or the end of this
				if i+1 < len(s) && s[i+1] == '\\' {
					return i + 2
				}
				return 1
			}
		}
	case c >= 0x30 && c <= 0x7e:
		return 2
	}
	return 1
}

// unclean reports whether a character other than newline and tab must be removed.
func unclean(r rune) bool {
	return unicode.IsControl(r) || // C0, DEL, C1
		unicode.Is(unicode.Bidi_Control, r) ||
		r == '\u2028' || r == '\u2029' || // ends of lines
		r == '\ufeff' || r == '\u200b' || r == '\u2060' || // they take no room
		r >= 0xfff9 && r <= 0xfffb || // interlinear annotations
		r >= 0xe0000 && r <= 0xe007f // tags, which smuggle ASCII
}

// Clip returns at most the first most bytes of a text, without half a character at the end. If something is left out, it
// ends in "…".
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Quote returns an untrusted name in a form that fits a message: cleaned, quoted and shortened.
func Quote(s string) string {
	s = Text(s)
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return strconv.Quote(s)
}

// Place formats a position in a file for users: file, file:line or file:line:col. A zero line or
// column is left out.
func Place(file string, line, col int) string {
	switch file = Text(file); {
	case line == 0:
		return file
	case col == 0:
		return fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Sprintf("%s:%d:%d", file, line, col)
}

// Shell quotes a string as one word for a POSIX shell.
func Shell(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,=", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
