package tui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/internal/transcript"
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
	c.top = min(c.top, first)
	c.top = max(c.top, min(last-h+1, first))
	c.top = max(0, min(c.top, n-h))
	return c.top, min(n, c.top+h)
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

// textPane shows a text.
type textPane struct {
	t      *Terminal
	name   string
	text   string
	scroll int
	height int
}

// showText covers the screen with a text.
func (t *Terminal) showText(name, text string) { t.push(&textPane{t: t, name: name, text: text}) }

func (p *textPane) title() string { return p.name }
func (p *textPane) hints() string { return "↑↓ scroll · Esc back" }

func (p *textPane) draw(w, h int) []string {
	p.height = h
	var out []string
	for line := range strings.SplitSeq(strings.TrimRight(transcript.Clean(p.text), "\n"), "\n") {
		for _, l := range wrapped(strings.ReplaceAll(line, "\t", "    "), w-2) {
			out = append(out, " "+l)
		}
	}
	p.scroll = max(0, min(p.scroll, len(out)-h))
	return out[p.scroll:min(len(out), p.scroll+h)]
}

func (p *textPane) key(k tea.KeyPressMsg) tea.Cmd {
	switch t := p.t; {
	case t.keys.is(k, "quit"):
		t.pop()
	case t.keys.is(k, "up"):
		p.scroll--
	case t.keys.is(k, "down"):
		p.scroll++
	case k.String() == "pgup":
		p.scroll -= max(1, p.height-1)
	case k.String() == "pgdown", k.String() == "space":
		p.scroll += max(1, p.height-1)
	case k.String() == "home":
		p.scroll = 0
	case k.String() == "end":
		p.scroll = 1 << 30
	}
	return nil
}
