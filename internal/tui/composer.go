package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
)

// A composer is where messages and commands are typed.
type composer struct {
	t    *Terminal
	area textarea.Model
	mode string // "", "accept edits" or "plan"; see nextMode
}

func newComposer(t *Terminal) *composer {
	a := textarea.New()
	a.Prompt, a.ShowLineNumbers, a.EndOfBufferCharacter = "> ", false, ' '
	a.Placeholder = "message, /command, @agent or @file"
	a.SetVirtualCursor(false)
	plain, dim := lipgloss.NewStyle(), lipgloss.NewStyle().Faint(bool(t.pal))
	state := textarea.StyleState{Base: plain, Text: plain, CursorLine: plain, EndOfBuffer: plain, Prompt: plain, Placeholder: dim}
	a.SetStyles(textarea.Styles{Focused: state, Blurred: state})
	a.KeyMap.InsertNewline.SetKeys(t.keys.keys["newline"]...)
	c := &composer{t: t, area: a}
	return c
}

func (c *composer) init() tea.Cmd { return c.area.Focus() }

func (c *composer) focus(on bool) {
	if on {
		c.area.Focus()
	} else {
		c.area.Blur()
	}
}

func (c *composer) empty() bool      { return strings.TrimSpace(c.area.Value()) == "" }
func (c *composer) completing() bool { return false }
func (c *composer) clear()           { c.area.Reset() }
func (c *composer) set(s string)     { c.area.SetValue(s); c.area.MoveToEnd() }
func (c *composer) load(string)      {}
func (c *composer) keep()            {}
func (c *composer) hints() string {
	return "Enter send · ^J new line · Tab agents · /help · ^D leave"
}

func (c *composer) draw(w, h int) []string {
	c.area.SetWidth(w - 1)
	c.area.SetHeight(max(1, min(h, c.area.LineCount())))
	out := strings.Split(c.area.View(), "\n")
	for i := range out {
		out[i] = " " + out[i]
	}
	return out
}

// cursor places the cursor of the composer, which is above the last line.
func (c *composer) cursor(h int) *tea.Cursor {
	cur := c.area.Cursor()
	if cur != nil {
		cur.X++
		cur.Y += h - 1 - c.area.Height()
	}
	return cur
}

func (c *composer) update(msg tea.Msg) (cmd tea.Cmd) {
	c.area, cmd = c.area.Update(msg)
	return cmd
}

func (c *composer) paste(s string) tea.Cmd { return c.update(tea.PasteMsg{Content: s}) }

func (c *composer) key(k tea.KeyPressMsg) tea.Cmd {
	if c.t.keys.is(k, "send") {
		return c.submit()
	}
	return c.update(k)
}

// submit sends what is typed.
func (c *composer) submit() tea.Cmd {
	text := strings.TrimSpace(c.area.Value())
	if text == "" {
		return nil
	}
	c.clear()
	if strings.HasPrefix(text, "/") {
		return c.t.command(text[1:])
	}
	return c.t.message(text)
}

// message sends a message to the conversation that is shown, or begins one.
func (t *Terminal) message(text string) tea.Cmd {
	if t.run == nil || t.run.run.Status.Ended() && t.run.run.Workflow != "agent" {
		inputs, _ := json.Marshal(map[string]any{"prompt": text, "chat": true})
		return t.start(&Start{Workflow: "agent", Inputs: inputs})
	}
	id, r := t.run.id, &t.run.run
	if r.Status == runlog.Running && !t.run.ended {
		path := t.addressed()
		return t.do("message to run "+id, func(ctx context.Context, e *superstep.Engine) error { return e.Steer(ctx, id, path, text) }, nil)
	}
	return t.start(&Start{Run: id, Message: text})
}

// start starts a run in a process of its own and shows it.
func (t *Terminal) start(s *Start) tea.Cmd {
	t.say("starting …")
	return func() tea.Msg {
		id, err := t.backend.Start(t.ctx, s)
		return doneMsg{func() {
			if err != nil {
				t.fail(err)
				if s.Message != "" {
					t.compose.set(s.Message)
				}
				return
			}
			t.notice = ""
			if f := t.runs[id]; f != nil {
				f.stop()
				delete(t.runs, id)
			}
			t.open(id)
		}}
	}
}

// A command is what can be typed after a slash, beside the workflows.
type command struct {
	name, args, about string
	aliases           []string
	do                func(t *Terminal, args string) tea.Cmd
}

func commands() []command {
	return []command{
		{"help", "", "the keys and the commands", []string{"?", "keys"}, func(t *Terminal, _ string) tea.Cmd { t.push(newHelpPane(t)); return nil }},
		{"runs", "", "all runs", []string{"sessions"}, func(t *Terminal, _ string) tea.Cmd { return t.showRuns() }},
		{"inbox", "", "everything that waits for you", nil, func(t *Terminal, _ string) tea.Cmd { t.push(newInboxPane(t)); return nil }},
		{"resume", "[RUN]", "go on with a run", nil, func(t *Terminal, args string) tea.Cmd {
			if args == "" && t.run != nil {
				return t.start(&Start{Run: t.run.id})
			}
			if args == "" {
				return t.showRuns()
			}
			return t.start(&Start{Run: args})
		}},
		{"history", "[RUN]", "go back in time", []string{"time"}, func(t *Terminal, args string) tea.Cmd { return t.visit(args, t.showHistory) }},
		{"graph", "[RUN]", "the graph", nil, func(t *Terminal, args string) tea.Cmd { return t.visit(args, t.showGraph) }},
		{"exit", "", "leave; runs go on", []string{"quit", "q"}, func(*Terminal, string) tea.Cmd { return tea.Quit }},
	}
}

// command carries out a command line without its slash.
func (t *Terminal) command(line string) tea.Cmd {
	name, args, _ := strings.Cut(line, " ")
	for _, c := range commands() {
		if strings.EqualFold(c.name, name) {
			return c.do(t, strings.TrimSpace(args))
		}
		for _, a := range c.aliases {
			if strings.EqualFold(a, name) {
				return c.do(t, strings.TrimSpace(args))
			}
		}
	}
	t.fail(fmt.Errorf("there is no command /%s; /help lists them", name))
	return nil
}
