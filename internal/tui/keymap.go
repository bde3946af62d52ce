package tui

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

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
		{"back", []string{"esc"}, "go back; twice interrupts the selected agent", "Everywhere"},
		{"stop", []string{"ctrl+c"}, "clear the line; twice stops the run at a checkpoint, three times kills it", "Everywhere"},
		{"leave", []string{"ctrl+d"}, "leave; runs go on", "Everywhere"},
		{"suspend", []string{"ctrl+z"}, "back to the shell; fg returns", "Everywhere"},
		{"more", []string{"v"}, "a larger card, to read a long change", "At a question"},
		{"transcript", []string{"ctrl+p"}, "what the agent did that asks", "At a question"},
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
		{"pause", []string{"p"}, "pause the run at its next checkpoint", "In the run"},
		{"nextAgent", []string{"right"}, "in an agent: the one beside it", "In the run"},
		{"prevAgent", []string{"left"}, "in an agent: the one before it", "In the run"},
		{"quit", []string{"q"}, "close what is on top", "In the run"},
		{"openRun", []string{"o"}, "in the inbox: open the run that asks", "In lists"},
		{"filter", []string{"/"}, "only the rows with these words", "In lists"},
		{"resumeRun", []string{"R"}, "resume the selected run", "In lists"},
		{"cancelRun", []string{"x"}, "cancel the selected run", "In lists"},
		{"deleteRun", []string{"d"}, "delete the selected run", "In lists"},
		{"forkRun", []string{"f"}, "fork the selected run at a checkpoint", "In lists"},
		{"markRun", []string{"space"}, "mark the selected run", "In lists"},
		{"compareRuns", []string{"c"}, "compare two marked runs", "In lists"},
		{"demo", []string{"d"}, "see five agents killed and resumed", "On the start page"},
		{"askFolder", []string{"a"}, "ask about the documents of this folder, without a model", "On the start page"},
		{"addModel", []string{"m"}, "how to add a model", "On the start page"},
		{"doctor", []string{"c"}, "check this machine", "On the start page"},
		{"trust", []string{"t"}, "decide what of this project to trust", "On the start page"},
		{"earlier", []string{"left"}, "the record before; with Shift ten; Home is the first", "Back in time"},
		{"later", []string{"right"}, "the record after; End is the last, digits and Enter any", "Back in time"},
		{"stepBack", []string{"["}, "where the step began, or the one before", "Back in time"},
		{"stepOn", []string{"]"}, "where the next step began", "Back in time"},
		{"commitBack", []string{"{"}, "the commit before", "Back in time"},
		{"commitOn", []string{"}"}, "the next commit", "Back in time"},
		{"jump", []string{":"}, "go to a record by its number", "Back in time"},
		{"play", []string{"p"}, "play, eight times as fast", "Back in time"},
		{"diff", []string{"d"}, "compare the state then with that of now", "Back in time"},
		{"inside", []string{"i"}, "show the states of a graph inside of a task, or of the run's own", "Back in time"},
		{"edit", []string{"e"}, "edit the selected value, and fork with it", "Back in time"},
		{"fork", []string{"f"}, "fork there, or from before a node of the graph", "Back in time"},
		{"rerun", []string{"r"}, "run a node, and what follows from it, again in a fork", "In the graph"},
		{"output", []string{"o"}, "show what a node gave", "In the graph"},
		{"collapse", []string{"z"}, "show the tasks of a node as one, or one by one", "In the graph"},
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
			if b.keys = strings.Fields(keys); len(b.keys) == 0 {
				return nil, fmt.Errorf("keys.%s: want one or several keys, such as %q", b.action, "ctrl+g f2")
			}
			for n, key := range b.keys {
				letter := utf8.RuneCountInString(key) == 1
				if letter && (b.where == "Writing" || b.where == "Everywhere") {
					return nil, fmt.Errorf("keys.%s: %s could not be typed any more; want a key such as ctrl+%s or f2", b.action, key, strings.ToLower(key))
				}
				if !letter { // R is not r
					b.keys[n] = strings.ToLower(key)
				}
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
	return m, m.collision(own)
}

// collision returns an error if a key of the user is for two actions in one place. What moves and closes is everywhere but in texts.
func (m *keymap) collision(own map[string]string) error {
	common := []string{"help", "up", "down", "open", "quit"}
	usual := bindings()
	for i, a := range m.list {
		for n, b := range m.list[:i] {
			both := a.where == b.where || a.where == "Everywhere" || b.where == "Everywhere" ||
				a.where != "Writing" && b.where != "Writing" && (slices.Contains(common, a.action) || slices.Contains(common, b.action))
			if !both || own[a.action] == "" && own[b.action] == "" {
				continue
			}
			for _, key := range a.keys {
				if slices.Contains(b.keys, key) && !(slices.Contains(usual[i].keys, key) && slices.Contains(usual[n].keys, key)) {
					return fmt.Errorf("keys.%s and keys.%s: %s is for both; give one of them another key", b.action, a.action, key)
				}
			}
		}
	}
	return nil
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

// which returns the first of some actions that a key is for, "" for none.
func (m *keymap) which(k tea.KeyPressMsg, actions ...string) string {
	for _, a := range actions {
		if m.is(k, a) {
			return a
		}
	}
	return ""
}

// helpPane lists the keys.
type helpPane struct {
	t *Terminal
	scroller
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
	return p.view(out, h)
}

func (p *helpPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	if t.keys.which(k, "back", "quit", "help") != "" {
		t.pop()
		return nil
	}
	if k.Text != "" && !strings.Contains(" jk", k.Text) {
		return t.types(k)
	}
	p.scroller.key(k)
	return nil
}
