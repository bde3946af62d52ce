package tui

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/transcript"
)

// A textPane shows a text, such as what a command printed.
type textPane struct {
	t       *Terminal
	name    string
	text    string // clean
	err     string // why there is no more, "" if nothing is wrong
	running bool
	closed  bool
	stop    context.CancelFunc // nil unless a command prints it
	scroll  int
	height  int

	lines []string // of the text, as of that width
	width int
}

func newTextPane(t *Terminal, name, text string) *textPane {
	p := &textPane{t: t, name: name}
	p.set(text)
	return p
}

func (p *textPane) set(text string) {
	p.text, p.width = strings.TrimRight(transcript.Clean(text), "\n"), 0
}

func (p *textPane) title() string { return cut(transcript.Line(p.name), 40) }

func (p *textPane) hints() string {
	switch {
	case p.running:
		return "Esc stop it"
	case p.stop != nil && strings.HasPrefix(p.name, "! ") && p.text != "":
		return "↑↓ PgUp PgDn scroll · a attach it to the message · Esc back"
	}
	return "↑↓ PgUp PgDn scroll · Esc back"
}

func (p *textPane) draw(w, h int) []string {
	if p.width != w {
		p.width = w
		p.lines = strings.Split(ansi.Wrap(strings.ReplaceAll(p.text, "\t", "    "), max(8, w-2), ""), "\n")
	}
	all := p.lines
	if p.text == "" {
		all = nil
	}
	switch {
	case p.running:
		all = append(all[:len(all):len(all)], p.t.pal.Dim(spinner(p.t.frame)+" runs …"))
	case p.err != "":
		for line := range strings.SplitSeq(ansi.Wrap(p.err, max(8, w-4), ""), "\n") {
			all = append(all[:len(all):len(all)], p.t.pal.Red("✗ "+line))
		}
	case len(all) == 0:
		all = []string{p.t.pal.Dim("it printed nothing")}
	}
	p.height = h
	p.scroll = max(0, min(p.scroll, len(all)-h))
	out := make([]string, 0, h)
	for _, l := range all[p.scroll:min(len(all), p.scroll+h)] {
		out = append(out, " "+cut(l, w-1))
	}
	return out
}

func (p *textPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	switch {
	case t.keys.is(k, "back"), t.keys.is(k, "quit"):
		t.pop()
	case k.Text == "a" && !p.running && p.stop != nil && p.text != "":
		t.pop()
		t.setFocus(onComposer)
		t.compose.attach(p.name + "\n" + p.text)
		return t.compose.changed()
	case k.Text != "" && !strings.Contains(" jk", k.Text):
		return t.types(k)
	default:
		p.scroll = scrolledBy(p.scroll, p.height, k)
	}
	return nil
}

// leave ends the command that prints the text.
func (p *textPane) leave() {
	p.closed = true
	if p.stop != nil {
		p.stop()
	}
}

// scrolledBy returns the first line to show after a key that scrolls.
func scrolledBy(at, height int, k tea.KeyPressMsg) int {
	switch k.String() {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup":
		at -= max(1, height-2)
	case "pgdown", "space":
		at += max(1, height-2)
	case "home":
		at = 0
	case "end":
		at = 1 << 30
	}
	return max(0, at)
}

// A choosePane has the user choose one of several.
type choosePane struct {
	t      *Terminal
	name   string
	offers []offer
	query  string
	popup  popup
	done   func(offer) tea.Cmd
}

func newChoosePane(t *Terminal, name string, offers []offer, done func(offer) tea.Cmd) *choosePane {
	p := &choosePane{t: t, name: name, offers: offers, done: done}
	p.popup.offers = offers
	return p
}

func (p *choosePane) title() string { return p.name }
func (p *choosePane) hints() string {
	return "type to filter · ↑↓ choose · Enter take it · Esc back"
}

func (p *choosePane) draw(w, h int) []string {
	out := []string{"", " " + p.name + ": " + p.query + "▏"}
	if len(p.popup.offers) == 0 {
		return append(out, p.t.pal.Dim("   nothing"))
	}
	n := max(1, h-len(out))
	first := max(0, min(p.popup.sel-n/2, len(p.popup.offers)-n))
	for i := first; i < min(len(p.popup.offers), first+n); i++ {
		o, mark := p.popup.offers[i], "   "
		if i == p.popup.sel {
			mark = " ▸ "
		}
		out = append(out, cut(mark+o.text+"  "+p.t.pal.Dim(o.about), w))
	}
	return out
}

func (p *choosePane) key(k tea.KeyPressMsg) tea.Cmd {
	t, n := p.t, len(p.popup.offers)
	switch {
	case t.keys.is(k, "back"):
		t.pop()
	case k.String() == "up" && n > 0:
		p.popup.sel = (p.popup.sel + n - 1) % n
	case k.String() == "down" && n > 0:
		p.popup.sel = (p.popup.sel + 1) % n
	case k.String() == "enter" && n > 0:
		o := p.popup.offers[p.popup.sel]
		t.pop()
		return p.done(o)
	case k.String() == "backspace" && p.query != "":
		r := []rune(p.query)
		p.filter(string(r[:len(r)-1]))
	case k.Text != "" && k.String() != "enter":
		p.filter(p.query + k.Text)
	}
	return nil
}

func (p *choosePane) filter(query string) {
	p.query = query
	p.popup.offers, p.popup.sel = match(query, p.offers), 0
}
