package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// A ticker is a pane that reads something from time to time while it is on top.
type ticker interface {
	tick(now time.Time) tea.Cmd
}

// tick lets the pane on top read.
func (t *Terminal) tick() tea.Cmd {
	if p, ok := t.top().(ticker); ok {
		return p.tick(t.opt.Now())
	}
	return nil
}

// A cursor is the selected row of a list. Zero is the first row.
type cursor struct {
	at    int
	top   int // the first line that is seen
	lines int // that were seen when it was last drawn
}

// moves moves the cursor over n rows if the key does that.
func (c *cursor) moves(t *Terminal, k tea.KeyPressMsg, n int) bool {
	page := max(1, c.lines-2)
	switch {
	case t.keys.is(k, "up"):
		c.at--
	case t.keys.is(k, "down"):
		c.at++
	case k.String() == "pgup":
		c.at -= page
	case k.String() == "pgdown":
		c.at += page
	case k.String() == "home":
		c.at = 0
	case k.String() == "end":
		c.at = n - 1
	default:
		return false
	}
	c.at = max(0, min(c.at, n-1))
	return true
}

// window returns which of n lines are seen in h of them, so that those from first to last are among them, as far as they fit.
func (c *cursor) window(n, h, first, last int) (from, to int) {
	c.lines = h
	c.top = scrolled(c.top, first, last+1, h, n)
	return c.top, min(n, c.top+h)
}

// scrolled returns where to begin with what is seen, so that a part of it is.
func scrolled(at, from, to, room, all int) int {
	at = min(max(at, to-room), from)
	return max(0, min(at, all-room))
}

// mark is the first cell of a row: it tells which one is selected.
func (t *Terminal) mark(selected bool) string {
	if selected && t.focus == onPane {
		return "▸"
	}
	return " "
}

// A twice guards a key that cannot be taken back: it has to be pressed again, as the next key and within a few seconds.
type twice struct {
	what    string
	at      time.Time
	presses int
}

// pressed reports whether this is the second time, and else says what the second time does.
func (w *twice) pressed(t *Terminal, what, say string) bool {
	now := t.opt.Now()
	if w.what == what && now.Sub(w.at) < 4*time.Second && t.presses == w.presses+1 {
		w.what = ""
		return true
	}
	w.what, w.at, w.presses = what, now, t.presses
	t.say(say)
	return false
}

// showText covers the screen with a text.
func (t *Terminal) showText(name, text string) { t.push(newTextPane(t, name, text)) }
