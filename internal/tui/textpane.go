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
	scroller

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
	out := make([]string, 0, h)
	for _, l := range p.view(all, h) {
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
		p.scroller.key(k)
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

// A choosePane has the user choose one of several.
type choosePane struct {
	t      *Terminal
	name   string
	offers []offer
	query  string
	popup  popup
	done   func(offer) tea.Cmd
	sure   bool // letters choose nothing
}

// asks has the user choose, by keys that no text has, whether something happens. A letter may be part of a sentence that was meant for the composer.
func (t *Terminal) asks(question, does string, act func() tea.Cmd) {
	p := newChoosePane(t, question, []offer{{text: "no"}, {text: "yes", about: does}}, func(o offer) tea.Cmd {
		if o.text != "yes" {
			return nil
		}
		return act()
	})
	p.sure = true
	t.push(p)
}

func newChoosePane(t *Terminal, name string, offers []offer, done func(offer) tea.Cmd) *choosePane {
	p := &choosePane{t: t, name: name, offers: offers, done: done}
	p.popup.offers = offers
	return p
}

func (p *choosePane) title() string { return p.name }
func (p *choosePane) hints() string {
	if p.sure {
		return "↑↓ choose · Enter take it · Esc back"
	}
	return "type to filter · ↑↓ choose · Enter take it · Esc back"
}

func (p *choosePane) draw(w, h int) []string {
	out := []string{"", " " + p.name + ": " + p.query + "▏"}
	if p.sure {
		out[1] = " " + p.name
	}
	if len(p.popup.offers) == 0 {
		return append(out, p.t.pal.Dim("   nothing"))
	}
	return append(out, p.popup.lines(p.t.pal, w, max(1, h-len(out)))...)
}

func (p *choosePane) key(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case p.t.keys.is(k, "back"):
		p.t.pop()
	case len(p.popup.offers) > 0 && p.popup.moves(k):
	case k.String() == "enter" && len(p.popup.offers) > 0:
		o := p.popup.offers[p.popup.sel]
		p.t.pop()
		return p.done(o)
	case !p.sure && typeInto(&p.query, k):
		p.popup.offers, p.popup.sel = match(p.query, p.offers), 0
	}
	return nil
}
