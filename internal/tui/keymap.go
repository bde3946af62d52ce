package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/internal/suggest"
)

// A binding is what keys do.
type binding struct {
	action string
	keys   []string
	about  string
	where  string // the part of the list of keys that it is in
}

// bindings are the keys as they are by default. Letters are commands outside of the composer only.
func bindings() []binding {
	return []binding{
		{"send", []string{"enter"}, "send the message, or queue it while the agent works", "Writing"},
		{"newline", []string{"ctrl+j", "alt+enter", "shift+enter"}, "begin a new line", "Writing"},
		{"search", []string{"ctrl+r"}, "search what was typed before", "Writing"},
		{"editor", []string{"ctrl+x"}, "write the message in $EDITOR", "Writing"},
		{"mode", []string{"shift+tab"}, "ask about everything, accept edits, or plan only", "Everywhere"},
		{"focus", []string{"tab"}, "from the composer to the question, to the agents, and back", "Everywhere"},
		{"expand", []string{"ctrl+o"}, "show all rows, thoughts and results, or few", "Everywhere"},
		{"tasks", []string{"ctrl+t"}, "show the task list", "Everywhere"},
		{"graph", []string{"ctrl+g"}, "show the graph", "Everywhere"},
		{"back", []string{"esc"}, "go back; twice stops the selected agent", "Everywhere"},
		{"stop", []string{"ctrl+c"}, "clear the line; twice stops the run at a checkpoint", "Everywhere"},
		{"leave", []string{"ctrl+d"}, "leave; runs go on", "Everywhere"},
		{"suspend", []string{"ctrl+z"}, "back to the shell; fg returns", "Everywhere"},
		{"help", []string{"?"}, "the keys", "In the run"},
		{"up", []string{"up", "k"}, "the row above", "In the run"},
		{"down", []string{"down", "j"}, "the row below", "In the run"},
		{"open", []string{"enter", "right"}, "open the selected row", "In the run"},
		{"inbox", []string{"i"}, "everything that waits for you, in all runs", "In the run"},
		{"runs", []string{"r"}, "all runs", "In the run"},
		{"graphs", []string{"g"}, "the graph", "In the run"},
		{"history", []string{"h"}, "go back in time", "In the run"},
		{"budget", []string{"b"}, "change the budget", "In the run"},
		{"stopAgent", []string{"s"}, "stop the selected agent", "In the run"},
		{"quit", []string{"q"}, "close what is on top", "In the run"},
	}
}

// keymap maps actions to keys.
type keymap struct {
	keys map[string][]string
	list []binding
}

// newKeymap returns the default keys with those of the user in their place: several are separated by blanks.
func newKeymap(own map[string]string) (*keymap, error) {
	m := &keymap{keys: map[string][]string{}, list: bindings()}
	var names []string
	for i := range m.list {
		b := &m.list[i]
		names = append(names, b.action)
		if keys, ok := own[b.action]; ok {
			if b.keys = strings.Fields(strings.ToLower(keys)); len(b.keys) == 0 {
				return nil, fmt.Errorf("keys.%s: want one or several keys, such as %q", b.action, "ctrl+g f2")
			}
		}
		m.keys[b.action] = b.keys
	}
	for action := range own {
		if m.keys[action] == nil {
			near := suggest.Closest(action, names)
			if near != "" {
				near = fmt.Sprintf("; did you mean %s?", near)
			}
			return nil, fmt.Errorf("keys.%s: there is no such action%s; ? in the terminal lists them", action, near)
		}
	}
	return m, nil
}

// KeyActions returns the actions whose keys can be changed.
func KeyActions() []string {
	var out []string
	for _, b := range bindings() {
		out = append(out, b.action)
	}
	return out
}

// CheckKeys returns what is wrong with keys of the user, by action.
func CheckKeys(own map[string]string) error {
	_, err := newKeymap(own)
	return err
}

func (m *keymap) is(k tea.KeyPressMsg, action string) bool {
	return slices.Contains(m.keys[action], k.String()) || slices.Contains(m.keys[action], k.Text) && k.Text != ""
}

// helpPane lists the keys.
type helpPane struct {
	t      *Terminal
	scroll int
}

func newHelpPane(t *Terminal) *helpPane { return &helpPane{t: t} }

func (p *helpPane) title() string { return "KEYS" }
func (p *helpPane) hints() string { return "↑↓ scroll · Esc back" }

func (p *helpPane) draw(w, h int) []string {
	var out []string
	where := ""
	for _, b := range p.t.keys.list {
		if b.where != where {
			where = b.where
			out = append(out, "", " "+p.t.pal.Bold(where))
		}
		out = append(out, cut(fmt.Sprintf("   %-24s %s", strings.Join(b.keys, ", "), b.about), w))
	}
	out = append(out, "", " "+p.t.pal.Bold("Commands"))
	for _, c := range commands() {
		out = append(out, cut(fmt.Sprintf("   %-24s %s", "/"+c.name+" "+c.args, c.about), w))
	}
	p.scroll = max(0, min(p.scroll, len(out)-h))
	return out[p.scroll:min(len(out), p.scroll+h)]
}

func (p *helpPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	switch {
	case t.keys.is(k, "back"), t.keys.is(k, "quit"), t.keys.is(k, "help"):
		t.pop()
	case k.String() == "up", k.String() == "k":
		p.scroll--
	case k.String() == "pgup":
		p.scroll -= 10
	case k.String() == "pgdown":
		p.scroll += 10
	case k.String() == "down", k.String() == "j":
		p.scroll++
	}
	return nil
}
