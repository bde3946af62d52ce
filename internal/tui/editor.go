package tui

import (
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// An editor is a text that is typed into a card. Unlike the composer it changes nothing of what it is given, not even tabs.
type editor struct {
	text []rune
	at   int // where the cursor is
}

func (e *editor) set(s string) { e.text, e.at = []rune(s), len([]rune(s)) }

func (e *editor) value() string { return string(e.text) }

func (e *editor) insert(s string) {
	in := []rune(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n"))
	e.text = append(e.text[:e.at:e.at], append(in, e.text[e.at:]...)...)
	e.at += len(in)
}

func (e *editor) remove(from, to int) {
	e.text = append(e.text[:from:from], e.text[to:]...)
	e.at = from
}

// line returns the beginning and the end of the line that the cursor is in.
func (e *editor) line() (from, to int) {
	for from = e.at; from > 0 && e.text[from-1] != '\n'; from-- {
	}
	for to = e.at; to < len(e.text) && e.text[to] != '\n'; to++ {
	}
	return from, to
}

// word returns the beginning of the word before the cursor.
func (e *editor) word() int {
	at := e.at
	for at > 0 && unicode.IsSpace(e.text[at-1]) {
		at--
	}
	for at > 0 && !unicode.IsSpace(e.text[at-1]) {
		at--
	}
	return at
}

// key edits the text, and reports whether the key was for that.
func (e *editor) key(k tea.KeyPressMsg) bool {
	from, to := e.line()
	switch k.String() {
	case "left", "ctrl+b":
		e.at = max(0, e.at-1)
	case "right", "ctrl+f":
		e.at = min(len(e.text), e.at+1)
	case "home", "ctrl+a":
		e.at = from
	case "end", "ctrl+e":
		e.at = to
	case "up":
		if from == 0 {
			return false
		}
		column := e.at - from
		e.at = from - 1
		above, end := e.line()
		e.at = min(above+column, end)
	case "down":
		if to == len(e.text) {
			return false
		}
		column := e.at - from
		e.at = to + 1
		_, end := e.line()
		e.at = min(e.at+column, end)
	case "backspace", "ctrl+h":
		if e.at > 0 {
			e.remove(e.at-1, e.at)
		}
	case "delete", "ctrl+d":
		if e.at < len(e.text) {
			e.remove(e.at, e.at+1)
		}
	case "ctrl+w", "alt+backspace":
		e.remove(e.word(), e.at)
	case "ctrl+u":
		e.remove(from, e.at)
	case "ctrl+k":
		e.remove(e.at, to)
	default:
		if k.Text == "" {
			return false
		}
		e.insert(k.Text)
	}
	return true
}

// widens is a character that makes the one before it wide, on some terminals. It is not shown where lines must not be too long.
const widens = "\ufe0f"

// draw returns the text as at most h lines of at most w cells, those around the cursor, and where in them the cursor is.
func (e *editor) draw(w, h int) (lines []string, x, y int) {
	w = max(3, w)
	var b strings.Builder
	width, row := 0, 0
	broken := func() {
		lines = append(lines, b.String())
		b.Reset()
		width = 0
	}
	for i, r := range e.text {
		cell := string(r)
		switch {
		case r == '\n', cell == widens:
			cell = ""
		case r == '\t':
			cell = strings.Repeat(" ", min(4, w-1))
		case !unicode.IsGraphic(r):
			cell = "·"
		}
		n := ansi.StringWidth(cell)
		if width+n >= w {
			broken()
		}
		if i == e.at {
			x, row = width, len(lines)
		}
		b.WriteString(cell)
		if width += n; r == '\n' {
			broken()
		}
	}
	if e.at == len(e.text) {
		x, row = width, len(lines)
	}
	lines = append(lines, b.String())
	from := max(0, min(row-h+1, len(lines)-h))
	return lines[from:min(len(lines), from+h)], x, row - from
}
