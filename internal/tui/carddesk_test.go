package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// A cardDesk is a terminal whose runs execute in a real engine over a store. Its keys, and its clock, are moved by hand.
type cardDesk struct {
	*Terminal
	t       testing.TB
	store   runlog.Store
	engine  *superstep.Engine
	msgs    chan tea.Msg
	at      time.Time
	raw     strings.Builder // what was sent to the terminal beside the screen
	mu      sync.Mutex
	resumed []string // runs that the terminal has resumed
	runs    []*superstep.Run
	waiting []host.InboxItem
	refuse  error // of Start
	broken  error // of Engine
}

func (d *cardDesk) Engine(context.Context) (*superstep.Engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine, d.broken
}

func (d *cardDesk) Start(_ context.Context, s *Start) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		return "", d.refuse
	}
	d.resumed = append(d.resumed, s.Run)
	r, err := d.engine.Resume(context.Background(), s.Run, nil)
	if err == nil {
		d.runs = append(d.runs, r)
	}
	return s.Run, err
}
func (d *cardDesk) Catalog(context.Context) (*Catalog, error) { return &Catalog{Folder: "/proj"}, nil }
func (d *cardDesk) Inbox(context.Context) ([]host.InboxItem, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.waiting), nil
}
func (d *cardDesk) Command(context.Context, ...string) (string, error) { return "", nil }

// newCardDesk returns a desk with a workflow for each function, by the name of its only node.
func newCardDesk(t testing.TB, nodes map[string]func(ctx context.Context, t *graph.Task) (string, error)) *cardDesk {
	d := &cardDesk{t: t, store: runlog.NewMemory(nil), msgs: make(chan tea.Msg, 1000), at: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	var all []*workflow.Workflow
	for name, run := range nodes {
		g := graph.New(name, func(s, u string) string { return s + u })
		g.AddNode(graph.Node[string, string]{Name: name, Run: func(ctx context.Context, t *graph.Task, _ string) (string, error) { return run(ctx, t) }})
		g.Edge(graph.Start, name)
		g.Edge(name, graph.End)
		flow, err := g.Compile()
		if err != nil {
			t.Fatal(err)
		}
		w, err := workflow.New(name, "A test.", flow, func(struct{}) (string, error) { return "", nil }, func(s string) (string, error) { return s, nil })
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	var err error
	if d.engine, err = superstep.New(d.store, &superstep.Options{Workflows: all}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if d.Terminal, err = newTerminal(ctx, d, "", &TerminalOptions{Now: func() time.Time { return d.at }, Bell: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		d.engine.Close()
	})
	return d
}

// begin starts a run, and shows it if show is set.
func (d *cardDesk) begin(name string, show bool) string {
	d.t.Helper()
	r, err := d.engine.Start(context.Background(), name, json.RawMessage(`{}`), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	d.runs = append(d.runs, r)
	if show {
		d.with(func() { d.open(r.ID()) })
	}
	return r.ID()
}

func (d *cardDesk) with(do func()) {
	d.Terminal.mu.Lock()
	defer d.Terminal.mu.Unlock()
	do()
}

// send gives the terminal a message, and carries out what comes of it.
func (d *cardDesk) send(msg tea.Msg) {
	_, cmd := d.Update(msg)
	d.do(cmd)
}

func (d *cardDesk) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		switch m := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range m {
				d.do(c)
			}
		default:
			d.msgs <- m
		}
	}()
}

// drain gives the terminal what has come meanwhile.
func (d *cardDesk) drain(wait time.Duration) {
	for {
		select {
		case m := <-d.msgs:
			if raw, ok := m.(tea.RawMsg); ok {
				fmt.Fprint(&d.raw, raw.Msg)
				continue
			}
			d.send(m)
		case <-time.After(wait):
			d.send(frameMsg{})
			return
		}
	}
}

// until waits for something.
func (d *cardDesk) until(what string, is func() bool) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		ok := false
		d.with(func() { ok = is() })
		if ok {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("%s never came:\n%s", what, d.picture(100, 30))
		}
		d.drain(5 * time.Millisecond)
	}
}

// pass lets time pass while the terminal is drawn.
func (d *cardDesk) pass(by time.Duration) {
	for ; by > 0; by -= 100 * time.Millisecond {
		d.picture(100, 30)
		d.at = d.at.Add(min(by, 100*time.Millisecond))
		d.send(tickMsg(d.at))
	}
}

func (d *cardDesk) picture(w, h int) string {
	d.Terminal.mu.Lock()
	defer d.Terminal.mu.Unlock()
	lines := d.lines(w, h)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// keyNamed is the key press of a letter, or of a key by its name.
func keyNamed(name string) tea.KeyPressMsg {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
		"backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd}
	switch code, ok := codes[name]; {
	case ok:
		return tea.KeyPressMsg{Code: code}
	case name == "shift+tab":
		return tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
	case name == "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case strings.HasPrefix(name, "ctrl+"):
		return tea.KeyPressMsg{Code: rune(name[5]), Mod: tea.ModCtrl}
	}
	r := []rune(name)[0]
	return tea.KeyPressMsg{Code: r, Text: string(r)}
}

// press presses keys, named or letters.
func (d *cardDesk) press(names ...string) {
	for _, name := range names {
		d.send(keyNamed(name))
	}
}

// write types a text.
func (d *cardDesk) write(s string) {
	for _, r := range s {
		d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

// asks waits for a card with a text, and until it accepts an answer.
func (d *cardDesk) asks(text string) {
	d.t.Helper()
	d.until(text, func() bool {
		return d.card != nil && strings.Contains(strings.Join(d.card.content(200), "\n"), text)
	})
	d.pass(500 * time.Millisecond)
}

// answers returns the answers in the log of a run, and who gave them.
func (d *cardDesk) answers(id string) []string {
	var out []string
	for rec, err := range runlog.Records(context.Background(), d.store, id, 0) {
		if err != nil {
			d.t.Fatal(err)
		}
		if rec.Kind == runlog.KindAnswered {
			var a runlog.Answer
			if err := json.Unmarshal(rec.Data, &a); err != nil {
				d.t.Fatal(err)
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s by %s %s", a.Value, a.By, a.Output)))
		}
	}
	return out
}

// editorIn returns a node that runs an agent on the files of a folder, whose model takes these turns. No rule allows what changes something.
func editorIn(t testing.TB, dir string, rules []string, turns ...scripted.Turn) func(ctx context.Context, t *graph.Task) (string, error) {
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := builtin.Tools(&builtin.Options{Root: root, Write: true, Bash: &builtin.BashOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	var ask []permit.Rule
	for _, r := range rules {
		name, pattern, _ := strings.Cut(strings.TrimSuffix(r, ")"), "(")
		ask = append(ask, permit.Rule{Tool: name, Pattern: pattern, Decision: tool.Ask})
	}
	policy, err := permit.New(&permit.Options{Root: dir, Rules: map[permit.Layer][]permit.Rule{permit.User: ask}})
	if err != nil {
		t.Fatal(err)
	}
	m := &scripted.Model{Answer: func(req *model.Request) scripted.Turn { // by how far the conversation is, since a task runs again after each answer
		n := 0
		for _, m := range req.Messages {
			if m.Role == model.Assistant {
				n++
			}
		}
		if n < len(turns) {
			return turns[n]
		}
		return scripted.Say("done")
	}}
	return func(ctx context.Context, t *graph.Task) (string, error) {
		a := &agent.Agent{Name: "editor", Model: m, Tools: set, Gate: policy}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "go", Stopped: t.Stopped()})
		if err != nil {
			return "", err
		}
		return out.Text, nil
	}
}

// asksOnce is the question of a node, whose answer is its output.
func asksOnce(q runlog.Question) func(ctx context.Context, t *graph.Task) (string, error) {
	return func(ctx context.Context, t *graph.Task) (string, error) {
		if q.Key == "" {
			q.Key = "q"
		}
		v, err := t.Scope().Ask(ctx, &q)
		return transcript.Value(v), err
	}
}

// inBox fails unless every line of a card fits into its box.
func inBox(t interface{ Fatalf(string, ...any) }, lines []string, w, h int) {
	if len(lines) > h {
		t.Fatalf("%d lines of %d at %d columns", len(lines), h, w)
	}
	for _, l := range lines {
		if ansi.StringWidth(l) > w || strings.ContainsAny(l, "\x1b\x07\r\n\t\u009b") {
			t.Fatalf("%q at %d columns", l, w)
		}
	}
}
