package clean

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The limits of what a tool may tell a model, notice included. They keep one careless
// call from filling the context of a conversation.
const (
	MaxLines = 2000
	MaxBytes = 50_000
)

const noticeBytes = 200 // room for the notice

// Truncate cuts s to MaxLines lines and MaxBytes bytes, at the end of a line where one
// is near, never inside a character, and says in a last line how much was left out and
// how to see it. It reports whether it did. A text within the limits is returned as it
// is.
func Truncate(s string) (string, bool) {
	lines := countLines(s)
	if len(s) <= MaxBytes && lines <= MaxLines {
		return s, false
	}
	keep := s
	if len(keep) > MaxBytes-noticeBytes {
		n := MaxBytes - noticeBytes
		for n > 0 && !utf8.RuneStart(keep[n]) && MaxBytes-noticeBytes-n < utf8.UTFMax {
			n--
		}
		keep = keep[:n]
		if i := strings.LastIndexByte(keep, '\n'); i > len(keep)*9/10 {
			keep = keep[:i]
		}
	}
	if countLines(keep) >= MaxLines {
		keep = keep[:endOfLine(keep, MaxLines-1)]
	}
	keep = strings.TrimSuffix(keep, "\n")
	out := fmt.Sprintf("%d of %d bytes", len(s)-len(keep), len(s))
	if n := lines - countLines(keep); n > 0 { // the last one may have been cut
		out += fmt.Sprintf(" and %d of %d lines", n, lines)
	}
	return keep + "\n[truncated: " + out + " left out; call again for less at a time, such as a narrower search or a range of lines]", true
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// endOfLine returns the offset of the newline that ends the nth line.
func endOfLine(s string, n int) int {
	at := -1
	for range n {
		i := strings.IndexByte(s[at+1:], '\n')
		if i < 0 {
			return len(s)
		}
		at += 1 + i
	}
	return at
}
