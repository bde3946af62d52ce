package tui

import (
	"time"
	"unicode/utf8"

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
	c.top = scrolled(c.top, first, last+1, h, n)
	return c.top, min(n, c.top+h)
}

// scrolled returns where to begin with what is seen, so that a part of it is.
func scrolled(at, from, to, room, all int) int {
	at = min(max(at, to-room), from)
	return max(0, min(at, all-room))
}

// A list is rows below each other, one of which is selected. Rows may come and go while it is shown: the selected one is known by its id.
type list[T any] struct {
	t    *Terminal
	rows []listRow[T]
	cur  cursor // counts the rows that can be selected
	sel  string // the id of the selected row
}

// A listRow is a row of a list. One without an id is a heading or a remark, which cannot be selected.
type listRow[T any] struct {
	id   string
	item T
	high int                  // how many lines it has
	draw func(w int) []string // without the mark before them
}

// fixed returns a row whose lines are drawn already.
func fixed[T any](id string, item T, lines ...string) listRow[T] {
	return listRow[T]{id, item, len(lines), func(int) []string { return lines }}
}

// set shows other rows, and finds the selected one among them.
func (l *list[T]) set(rows []listRow[T]) {
	l.rows = rows
	l.cur.at = max(0, min(l.cur.at, l.count()-1))
	n := 0
	for i := range rows {
		if rows[i].id == "" {
			continue
		}
		if rows[i].id == l.sel {
			l.cur.at = n
		}
		n++
	}
}

// count returns how many rows can be selected.
func (l *list[T]) count() (n int) {
	for i := range l.rows {
		if l.rows[i].id != "" {
			n++
		}
	}
	return n
}

// chosen returns the selected row, nil if there is none.
func (l *list[T]) chosen() *listRow[T] {
	n := 0
	for i := range l.rows {
		if l.rows[i].id == "" {
			continue
		}
		if n == l.cur.at {
			return &l.rows[i]
		}
		n++
	}
	return nil
}

// keep remembers which row is selected.
func (l *list[T]) keep() {
	if row := l.chosen(); row != nil {
		l.sel = row.id
	}
}

// moves selects another row if the key does that.
func (l *list[T]) moves(k tea.KeyPressMsg) bool {
	if !l.cur.moves(l.t, k, l.count()) {
		return false
	}
	l.keep()
	return true
}

// lines draws the rows that are seen in h lines.
func (l *list[T]) lines(w, h int) []string {
	l.keep()
	all, first, last, chosen := 0, 0, 0, l.chosen()
	for i := range l.rows {
		if &l.rows[i] == chosen {
			first, last = all, all+l.rows[i].high-1
		}
		all += l.rows[i].high
	}
	if l.cur.at == 0 {
		first = 0 // with what is above it
	}
	from, to := l.cur.window(all, h, first, last)
	var out []string
	at := 0
	for i := range l.rows {
		row := &l.rows[i]
		if at += row.high; at <= from || at-row.high >= to {
			continue
		}
		mark := l.t.mark(row == chosen)
		for n, line := range row.draw(w - 1) {
			if here := at - row.high + n; here >= from && here < to {
				out = append(out, mark+line)
			}
			mark = " "
		}
	}
	return out
}

// typeInto changes a text of one line by a key, and reports whether the key was for that.
func typeInto(s *string, k tea.KeyPressMsg) bool {
	switch {
	case k.String() == "backspace":
		_, last := utf8.DecodeLastRuneInString(*s)
		*s = (*s)[:len(*s)-last]
	case k.Text != "" && k.String() != "enter":
		*s += transcript.Clean(k.Text)
	default:
		return false
	}
	return true
}

// A scroller is which part of a text is seen.
type scroller struct{ at, height int }

// view returns the lines that are seen in h of them.
func (s *scroller) view(lines []string, h int) []string {
	s.at, s.height = max(0, min(s.at, len(lines)-h)), h
	return lines[s.at:min(len(lines), s.at+h)]
}

// key scrolls.
func (s *scroller) key(k tea.KeyPressMsg) {
	page := max(1, s.height-2)
	switch k.String() {
	case "up", "k":
		s.at--
	case "down", "j":
		s.at++
	case "pgup":
		s.at -= page
	case "pgdown", "space":
		s.at += page
	case "home":
		s.at = 0
	case "end":
		s.at = 1 << 30
	}
	s.at = max(0, s.at)
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
