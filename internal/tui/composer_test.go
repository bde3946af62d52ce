package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// desk is a terminal whose program starts nothing: it records what it is told to.
type desk struct {
	t        *testing.T
	term     *Terminal
	engine   *superstep.Engine
	catalog  *Catalog
	starts   []Start
	commands [][]string
	refuse   error                          // of Start
	prints   func([]string) (string, error) // of Command
	dir      string
}

func (d *desk) Engine(context.Context) (*superstep.Engine, error) { return d.engine, nil }
func (d *desk) Start(_ context.Context, s *Start) (string, error) {
	if d.refuse != nil {
		return "", d.refuse
	}
	d.starts = append(d.starts, *s)
	return fmt.Sprintf("run%d", len(d.starts)), nil
}
func (d *desk) Catalog(context.Context) (*Catalog, error)       { return d.catalog, nil }
func (d *desk) Inbox(context.Context) ([]host.InboxItem, error) { return nil, nil }
func (d *desk) Command(_ context.Context, args ...string) (string, error) {
	d.commands = append(d.commands, args)
	if d.prints == nil {
		return "", nil
	}
	return d.prints(args)
}

// brief is a workflow with an input of each kind.
func brief() *workflow.Workflow {
	return &workflow.Workflow{Name: "brief", Description: "Writes a brief", Inputs: &jsonschema.Schema{
		Type: "object", Required: []string{"topic"}, PropertyOrder: []string{"depth", "topic", "pages"},
		Properties: map[string]*jsonschema.Schema{
			"topic": {Type: "string", Description: "What it is about"}, "pages": {Type: "integer", Default: json.RawMessage("3")},
			"depth": {Type: "string", Enum: []any{"flat", "deep"}},
		},
	}}
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	e, err := superstep.New(runlog.NewMemory(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	item := func(name, about string) host.Item {
		return host.Item{Item: catalog.Item{Name: name, Description: about, State: catalog.Usable}}
	}
	w := brief()
	flow := item("brief", w.Description)
	flow.Inputs = w.List()
	d := &desk{t: t, engine: e, dir: t.TempDir(), catalog: &Catalog{Model: "words",
		Workflows: []host.Item{flow, item("doctor", "another")}, Agents: []host.Item{item("explorer", "looks around"), item("brief", "an agent")},
		Skills: []host.Item{item("web", "finds pages")},
		Find:   func(string) *workflow.Workflow { return brief() },
		Files:  func(context.Context) ([]string, error) { return []string{"a.md", "docs/guide.md", "docs/b.go"}, nil },
	}}
	d.open()
	return d
}

// open opens the terminal, another time after a crash.
func (d *desk) open() {
	d.t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	term, err := newTerminal(d.t.Context(), d, "", &TerminalOptions{History: filepath.Join(d.dir, "history"), Drafts: filepath.Join(d.dir, "drafts"),
		Now: func() time.Time { now = now.Add(10 * time.Millisecond); return now }})
	if err != nil {
		d.t.Fatal(err)
	}
	d.term = term
	term.compose.saving = true // no ticks
	d.run(term.Init())
}

// run carries out a command and what follows from it.
func (d *desk) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch m := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range m {
			d.run(c)
		}
	default:
		_, next := d.term.Update(m)
		d.run(next)
	}
}

// press presses keys by their names; a text of several letters is typed.
func (d *desk) press(keys ...string) {
	d.t.Helper()
	named := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "backspace": {Code: tea.KeyBackspace}, "ctrl+j": {Code: 'j', Mod: tea.ModCtrl},
		"ctrl+r": {Code: 'r', Mod: tea.ModCtrl}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+d": {Code: 'd', Mod: tea.ModCtrl}, "alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt},
		"shift+enter": {Code: tea.KeyEnter, Mod: tea.ModShift},
	}
	for _, k := range keys {
		if key, ok := named[k]; ok {
			_, cmd := d.term.Update(tea.KeyPressMsg(key))
			d.run(cmd)
			continue
		}
		for _, r := range k {
			_, cmd := d.term.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
			d.run(cmd)
		}
	}
}

func (d *desk) typed() string { return d.term.compose.area.Value() }

func (d *desk) screen() string {
	d.term.mu.Lock()
	defer d.term.mu.Unlock()
	return strings.Join(d.term.lines(100, 30), "\n")
}

func (d *desk) shows(want string) {
	d.t.Helper()
	if s := d.screen(); !strings.Contains(s, want) {
		d.t.Errorf("the screen has no %q:\n%s", want, s)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "terminal", "history")
	h := readHistory(file)
	for _, s := range []string{"one", "two\nlines", "one", "", strings.Repeat("x", longTyped+1)} {
		if err := h.add(s)(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("rubbish\n\x00{\n{\"text\":\"torn")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := readHistory(file).list, []string{"two\nlines", "one"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h = readHistory(file)
	for n := range 2*mostTyped + 10 {
		if err := h.add(fmt.Sprint("text ", n))(); err != nil {
			t.Fatal(err)
		}
	}
	if h = readHistory(file); len(h.list) != mostTyped || h.list[mostTyped-1] != fmt.Sprint("text ", 2*mostTyped+9) {
		t.Errorf("%d texts are kept", len(h.list))
	}
	b, err := os.ReadFile(file)
	if n := strings.Count(string(b), "\n"); err != nil || n != mostTyped {
		t.Errorf("the file has %d lines, %v", n, err)
	}
	if i := h.find("TEXT 101", len(h.list)); i < 0 || h.find("nowhere", len(h.list)) != -1 || h.find("TEXT 101", 0) != -1 {
		t.Errorf("found %d", i)
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	dir, now := filepath.Join(t.TempDir(), "drafts"), time.Now()
	d := readDrafts(dir, now)
	d.set("7f3a", draft{Text: "half a thought", Parts: []string{"pasted"}})
	d.set("", draft{Sending: []sending{{Text: "on its way"}}})
	d.set("../../evil", draft{Text: "no file"})
	if err := d.save()(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
	again := readDrafts(dir, now)
	delete(d.all, "../../evil")
	d.all[""] = draft{Text: "on its way"} // the user looks whether it arrived
	if !reflect.DeepEqual(again.all, d.all) {
		t.Errorf("%v, want %v", again.all, d.all)
	}
	again.set("7f3a", draft{})
	if err := again.save()(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "7f3a.json")); err == nil {
		t.Error("a draft that is sent stays")
	}
	if old := readDrafts(dir, now.Add(draftAge*time.Hour+time.Hour)); len(old.all) != 0 {
		t.Errorf("%v", old.all)
	}
}

// Up and down walk through the history, and come back to what was being typed.
func TestRecall(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press("/nothing-1", "enter", "ctrl+c", "/nothing-2", "enter", "ctrl+c", "now")
	for _, x := range [][2]string{{"up", "/nothing-2"}, {"up", "/nothing-1"}, {"up", "/nothing-1"}, {"down", "/nothing-2"}, {"down", "now"}, {"down", "now"}} {
		if d.press(x[0]); d.typed() != x[1] {
			t.Fatalf("%s shows %q, want %q", x[0], d.typed(), x[1])
		}
	}
	d.press("ctrl+j", "second")
	if d.press("up"); d.typed() != "now\nsecond" {
		t.Errorf("up within a text shows %q", d.typed())
	}
	d.press("ctrl+r", "1")
	if d.typed() != "/nothing-1" {
		t.Errorf("the search shows %q", d.typed())
	}
	d.shows("history: 1")
	if d.press("esc"); d.typed() != "now\nsecond" {
		t.Errorf("Esc shows %q", d.typed())
	}
	d.press("ctrl+r", "nothing", "ctrl+r", "enter")
	if d.typed() != "/nothing-1" {
		t.Errorf("the older one is %q", d.typed())
	}
}

func TestNewline(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d")
	if d.typed() != "a\nb\nc\nd" || len(d.starts) != 0 {
		t.Errorf("%q, %v", d.typed(), d.starts)
	}
	if got := len(d.term.compose.draw(100, 8)); got != 4 {
		t.Errorf("it is %d lines high", got)
	}
	d.term.compose.set(strings.Repeat("line\n", 40))
	if got := len(d.term.compose.draw(100, 8)); got != 8 {
		t.Errorf("it is %d lines high", got)
	}
	d.term.compose.set(strings.Repeat("wide ", 60))
	if got := len(d.term.compose.draw(80, 8)); got < 4 {
		t.Errorf("a wide line has %d", got)
	}
}

// A long paste is a word in the text until it is sent.
func TestAttachment(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	long := strings.TrimSuffix(strings.Repeat("line of a log\x1b[31m\n", 120), "\n")
	d.press("see ")
	d.term.Update(tea.PasteMsg{Content: long})
	d.term.Update(tea.PasteMsg{Content: strings.Repeat("y", 1001)})
	if d.typed() != "see [#1 pasted 120 lines][#2 pasted 1 line]" {
		t.Fatalf("%q", d.typed())
	}
	if d.press("backspace"); d.typed() != "see [#1 pasted 120 lines]" {
		t.Fatalf("%q", d.typed())
	}
	d.press(" please", "enter")
	var in struct{ Prompt string }
	if len(d.starts) != 1 || json.Unmarshal(d.starts[0].Inputs, &in) != nil {
		t.Fatalf("%v", d.starts)
	}
	if want := "see " + strings.TrimSuffix(strings.Repeat("line of a log\n", 120), "\n") + " please"; in.Prompt != want {
		t.Errorf("%q", in.Prompt)
	}
	if d.term.Update(tea.PasteMsg{Content: "short\ntext"}); d.typed() != "short\ntext" {
		t.Errorf("%q", d.typed())
	}
}

// Convention 32: a slash names commands and every workflow, an at sign agents and files.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{
		"/re": "/re", "  /re": "/re", "see @do": "@do", "@": "@", "a /re": "", "/etc/passwd": "", "mail a@b": "", "/model op": "", "x\n@f": "@f",
	} {
		if got, _ := token(before); got != want {
			t.Errorf("token(%q) = %q, want %q", before, got, want)
		}
	}
	var names []string
	for _, o := range match("gde", []offer{{name: "agde"}, {name: "docs/guide.md"}, {name: "gde/x"}, {name: "none"}, {name: "docs/gde.go"}}) {
		names = append(names, o.name)
	}
	if !slices.Equal(names, []string{"gde/x", "docs/gde.go", "agde", "docs/guide.md"}) {
		t.Errorf("%q", names)
	}
	d := newDesk(t)
	d.press("/DOC")
	d.shows("▸ /doctor  command  check what is set up (there is also the workflow doctor)")
	d.press("esc")
	if s := d.screen(); strings.Contains(s, "▸") {
		t.Errorf("Esc leaves it open:\n%s", s)
	}
	d.press("ctrl+c", "/bri", "tab")
	if d.typed() != "/brief " {
		t.Errorf("%q", d.typed())
	}
	d.shows("topic=STRING [depth=flat|deep] [pages=INTEGER]")
	d.press("ctrl+c", "read @gui")
	d.shows("▸ @docs/guide.md  file")
	d.press("enter", "and ", "@expl", "tab")
	if d.typed() != "read @docs/guide.md and @explorer " || len(d.starts) > 0 {
		t.Errorf("%q %v", d.typed(), d.starts)
	}
	for _, list := range [][]host.Item{d.catalog.Workflows, d.catalog.Agents, d.catalog.Skills} {
		for _, item := range list {
			if !slices.ContainsFunc(d.term.named(), func(o offer) bool { return o.text == "/"+item.Name }) {
				t.Errorf("/%s is not offered", item.Name)
			}
		}
	}
	d.press("ctrl+c", "/wor", "enter")
	if len(d.commands) != 1 || !slices.Equal(d.commands[0], []string{"workflows", "list"}) {
		t.Errorf("%q", d.commands)
	}
}

// New files, workflows and agents are offered without a restart.
func TestCompletionIsFresh(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press("@new")
	d.catalog = &Catalog{Files: func(context.Context) ([]string, error) { return []string{"new.txt"}, nil }, Agents: []host.Item{
		{Item: catalog.Item{Name: "newcomer", State: catalog.Usable}}, {Item: catalog.Item{Name: "newbie", State: catalog.Untrusted}}}}
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	d.term.opt.Now = func() time.Time { return now }
	d.press("ctrl+c", "/new")
	now = now.Add(time.Minute)
	d.press("ctrl+c", "@n", "e")
	d.shows("@new.txt")
	d.shows("@newcomer")
	if strings.Contains(d.screen(), "newbie") {
		t.Error("an agent that is not trusted is offered")
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press("/docter all", "enter")
	d.shows("there is no command /docter; did you mean /doctor?")
	if d.typed() != "/docter all" {
		t.Errorf("%q", d.typed())
	}
	d.press("ctrl+c", "/DOCTOR", "enter", "esc", "/Rules forget bash(go test *)", "enter")
	want := [][]string{{"doctor"}, {"permissions", "forget", "bash(go test *)"}}
	if !reflect.DeepEqual(d.commands, want) {
		t.Errorf("%q", d.commands)
	}
	d.press("/budget 2", "enter")
	d.shows("no run is shown")
	d.press("ctrl+c", "/compact", "enter")
	d.shows("no run is shown")
	d.commands = nil
	d.press("!go test ./...", "enter")
	if len(d.commands) != 1 || !slices.Equal(d.commands[0], []string{"tools", "call", "bash", `{"command":"go test ./..."}`, "--ask=bash"}) {
		t.Errorf("%q", d.commands)
	}
}

// What is typed or pasted over a page that has no use for it is a message, ? asks for the keys, and ^D tells why it does not leave.
func TestTypedOverPage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.term.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	d.press("?")
	d.shows("KEYS")
	d.press("w", "h", "y", "?")
	if d.typed() != "why?" {
		t.Errorf("%q", d.typed())
	}
	d.press("ctrl+d")
	d.shows("^C clears what is typed")
	d.press("ctrl+c", "esc", "!true", "enter")
	if d.term.focus != onPane {
		t.Fatal("the output of the command has not the focus")
	}
	d.term.Update(tea.PasteMsg{Content: "pasted"})
	if d.typed() != "pasted" {
		t.Errorf("%q", d.typed())
	}
	d.press("ctrl+c")
	d.term.setFocus(onPane)
	d.press("/co")
	if d.typed() != "/co" {
		t.Errorf("%q", d.typed())
	}
}

// A command that is not there may be of a project that nobody has trusted.
func TestUntrustedCommand(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.term.catalog.Untrusted = 2
	d.press("/zzyzx", "enter")
	d.shows("there is no command /zzyzx; if it is of this project, /trust lets it be used")
}

// What a shell command printed can go with the next message.
func TestShellOutput(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.prints = func([]string) (string, error) { return "one\ntwo \x1b[31mred\x1b[0m\n", errors.New("exit status 1") }
	d.press("!false", "enter")
	d.shows(" two red")
	d.shows("✗ exit status 1")
	d.press("a", "!")
	if d.typed() != "[#1 pasted 3 lines]!" || d.term.compose.expand(d.typed()) != "! false\none\ntwo red!" {
		t.Errorf("%q: %q", d.typed(), d.term.compose.expand(d.typed()))
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`a "b c" d='e "f' g\ h`: {"a", "b c", `d=e "f`, "g h"}, `it's`: {"it's"}, `""`: {""}, "": nil, `"open end`: {"open end"}, "a\n b": {"a", "b"},
	} {
		if got := arguments.Words(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// A workflow starts with the inputs of its line, and a form asks for those that are missing.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press(`/brief "Go 1.26" depth=deep --pages 5`, "enter")
	if len(d.starts) != 1 || d.starts[0].Workflow != "brief" || string(d.starts[0].Inputs) != `{"depth":"deep","pages":5,"topic":"Go 1.26"}` {
		t.Fatalf("%+v", d.starts)
	}
	d.press(`/brief depth=deep`, "enter")
	d.shows("▸ topic *")
	d.shows("a text: What it is about")
	d.shows("deep")
	d.press("enter")
	d.shows("✗ topic is required")
	d.term.Update(tea.PasteMsg{Content: "Raft"})
	d.press("enter", "right", "enter", "x")
	d.press("enter")
	d.shows("✗ want a whole number")
	d.press("backspace", "enter", "enter")
	if len(d.starts) != 2 || string(d.starts[1].Inputs) != `{"topic":"Raft","depth":"flat"}` {
		t.Fatalf("%+v\n%s", d.starts, d.screen())
	}
	d.press("/brief nonsense=1", "enter")
	d.shows("nonsense")
	if d.typed() != "/brief nonsense=1" || len(d.starts) != 2 {
		t.Errorf("%q", d.typed())
	}
}

// A message that could not be sent is put back, and one that was on its way during a crash is there again.
func TestMessageIsNotLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.refuse = errors.New("no model is configured")
	d.press("precious words", "enter")
	d.shows("✗ no model is configured")
	if d.typed() != "precious words" {
		t.Fatalf("%q", d.typed())
	}
	d.term.compose.drafts.set("", draft{Sending: []sending{{Text: "was sent"}}, Text: "was typed"})
	d.term.compose.area.SetValue("was typed")
	d.term.compose.keep()
	d.open()
	if d.typed() != "was sent\nwas typed" {
		t.Fatalf("%q", d.typed())
	}
	d.refuse = nil
	d.press("enter")
	if len(d.starts) != 1 || !strings.Contains(string(d.starts[0].Inputs), `was sent\nwas typed`) || d.typed() != "" {
		t.Errorf("%v %q", d.starts, d.typed())
	}
	d.term.compose.keep()
	if list, _ := filepath.Glob(filepath.Join(d.dir, "drafts", "*")); len(list) > 0 {
		t.Errorf("%q stays", list)
	}
}

// Drafts are written a second after a letter at the latest, and once.
func TestDraftIsWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.term.compose
	d.press("ab")
	c.saving = false
	if _, cmd := d.term.Update(tea.KeyPressMsg{Code: 'c', Text: "c"}); cmd == nil || !c.saving {
		t.Fatal("nothing will write it")
	}
	if _, cmd := d.term.Update(tea.KeyPressMsg{Code: tea.KeyLeft}); cmd != nil {
		t.Error("it is written twice")
	}
	_, cmd := d.term.Update(draftMsg{})
	d.run(cmd)
	d.open()
	if d.typed() != "abc" {
		t.Errorf("%q", d.typed())
	}
}

func TestAgentMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press("@explorer look here", "enter", "@nobody look", "enter", "/web find it", "enter")
	var got []string
	for _, s := range d.starts {
		got = append(got, string(s.Inputs)+s.Message)
	}
	want := []string{`{"agent":"explorer","chat":true,"prompt":"look here"}`, "@nobody look", "Use the skill web. find it"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A prompt of an MCP server is sent as its text. Once the prompts were listed, their names are completed.
func TestServerPrompts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.catalog.Prompt = func(_ context.Context, name string, args ...string) (string, error) {
		switch {
		case name == "":
			return "/mcp__docs__review FILE  Reviews", nil
		case len(args) == 0:
			return "", errors.New("needs FILE")
		}
		return name + " of " + strings.Join(args, "|"), nil
	}
	d.press("/mcp__docs__review", "enter")
	if d.typed() != "/mcp__docs__review" || !strings.Contains(d.term.notice, "needs FILE") {
		t.Errorf("%q, %q", d.typed(), d.term.notice)
	}
	d.press(` "a b.go" style=x`, "enter")
	if len(d.starts) != 1 || !strings.Contains(string(d.starts[0].Inputs), "mcp__docs__review of a b.go|style=x") {
		t.Errorf("started %+v", d.starts)
	}
	d.press("/prompts", "enter")
	if !slices.ContainsFunc(d.term.named(), func(o offer) bool { return o.name == "mcp__docs__review" && o.about == "FILE Reviews" }) {
		t.Errorf("offers %+v", d.term.named())
	}
}

// modelList is what a host lists, from JSON.
func modelList(t testing.TB, use, why, providers string) *host.ModelList {
	t.Helper()
	var out host.ModelList
	if err := json.Unmarshal([]byte(providers), &out.Providers); err != nil {
		t.Fatal(err)
	}
	out.Use.Name, out.Use.Why = use, why
	return &out
}

func TestModelCommand(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.term.catalog.Models = modelList(t, "a/one", "a key", `[{"name":"a","configured":true,"models":[{"name":"a/one"},{"name":"a/two"}]},
		{"name":"b","missing":"set B_KEY","models":[{"name":"b/x"}]}]`)
	d.press("/model TWO", "enter")
	d.shows("uses a/two")
	d.press("/model b/x", "enter")
	d.shows("b is not set up: set B_KEY")
	d.press("/model two#HIGH", "enter")
	d.shows("uses a/two#high")
	d.press("/model two#fast", "enter")
	d.shows("want low, medium, high, xhigh or max")
	d.press("/model a/twoo", "enter", "/model", "enter", "on", "enter", "hello", "enter")
	if len(d.starts) != 1 || d.starts[0].Model != "a/one" {
		t.Errorf("%+v", d.starts)
	}
	d.press("/model Offline", "enter") // as --model takes it
	d.shows("uses offline")
	d.press("/model nothing", "enter")
	d.shows(`there is no model "nothing"; known: a/one, a/two, offline, b/x; /model lists them`)
	d.term.catalog.Opens = func(name string) error {
		if name == "sonnet" {
			return nil
		}
		return &host.Error{Message: "no model of that name", Next: []string{"name it as provider/model: a/one"}}
	}
	d.press("/model sonnet#high", "enter")
	d.shows("uses sonnet#high")
	d.press("/model nothing", "enter")
	d.shows("no model of that name; name it as provider/model: a/one")
}

func TestEffortCommand(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.term.catalog.Models = modelList(t, "a/one", "a key", `[{"name":"a","configured":true,"models":[{"name":"a/one"}]}]`)
	for _, none := range []string{"", "offline", "acp:x"} {
		d.term.model, d.term.catalog.Model = "", none
		d.press("/effort high", "enter")
		d.shows("/model chooses")
	}
	d.term.catalog.Model = "a/one"
	d.press("/effort fast", "enter")
	d.shows("low, medium, high, xhigh or max, or default")
	d.press("hello", "enter", "/new", "enter", "/effort high", "enter")
	d.shows("uses a/one#high")
	d.press("/model", "enter")
	d.shows("effort high, chosen")
	d.press("esc", "hello", "enter", "/new", "enter", "/effort", "enter")
	d.shows("effort of a/one")
	d.press("max", "enter", "hello", "enter", "/new", "enter", "/effort default", "enter", "hello", "enter")
	var got []string
	for _, s := range d.starts {
		got = append(got, s.Model)
	}
	if want := []string{"", "a/one#high", "a/one#max", "a/one"}; !slices.Equal(got, want) {
		t.Errorf("models %q, want %q", got, want)
	}
}

// A message that a run ended without having read is put back, whichever terminal sent it; one that its log has is not.
func TestUnreadMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	term := d.term
	f := &following{id: "7f3a", stop: func() {}}
	f.run.Workflow, f.run.Status, f.run.Seq = "agent", runlog.Running, 7
	term.runs[f.id] = f
	term.compose.drafts.set(f.id, draft{Text: "typed", Sending: []sending{{Text: "read", After: 3}, {Text: "unread", After: 5}, {Text: "read", After: 9}}})
	term.open(f.id)
	d.shows("queued: unread")
	data, err := json.Marshal(runlog.Settled{Key: "steer-1", Kind: mail.KindSteer, Output: json.RawMessage(`{"messages":[{"request":"r","text":"read"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	term.apply(f, &runlog.Record{Seq: 8, Kind: runlog.KindSettled, Path: "work", Data: data})
	if d.typed() != "typed" {
		t.Errorf("%q", d.typed())
	}
	f.loaded, f.ended = true, true
	term.Update(frameMsg{})
	if d.typed() != "unread\nread\ntyped" {
		t.Errorf("%q", d.typed())
	}
	if s := d.screen(); strings.Contains(s, "queued") {
		t.Errorf("it is still queued:\n%s", s)
	}
}

// An agent that can be spoken to by its name has the address by which the engine knows it.
func TestAgentAddress(t *testing.T) {
	t.Parallel()
	spoken := 0
	for _, name := range recorded.Names() {
		records := recorded.Load(name)
		var fold transcript.Run
		for i := range records {
			fold.Apply(records[i])
			if i%7 != 0 {
				continue
			}
			agents, err := mail.Agents(func(yield func(runlog.Record, error) bool) {
				for _, r := range records[:i+1] {
					if !yield(r, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range fold.Active() {
				if task.State != transcript.Running || len(task.Agents) == 0 {
					continue
				}
				spoken++
				if !slices.ContainsFunc(agents, func(a mail.Agent) bool { return a.Path == task.Path }) {
					t.Errorf("%s: after record %d the engine knows no agent at %s: %v", name, records[i].Seq, task.Path, agents)
				}
			}
		}
	}
	if spoken == 0 {
		t.Error("no agent runs")
	}
}

// What is typed before it is known what can be started waits until it is.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.term.catalog = nil
	d.press("/brief topic=ahead", "enter")
	d.term.catalog = nil
	d.press("@explorer look", "enter")
	d.term.catalog = nil
	d.press("/nosuch thing", "enter")
	d.shows("there is no command /nosuch")
	if d.typed() != "/nosuch thing" {
		t.Errorf("%q is left", d.typed())
	}
	if len(d.starts) != 2 || d.starts[0].Workflow != "brief" || !strings.Contains(string(d.starts[1].Inputs), `"agent":"explorer"`) {
		t.Errorf("%+v %q", d.starts, d.commands)
	}
}

// An error that is longer than the screen is wide is shown whole, with the cursor in the prompt.
func TestLongError(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.press("hello")
	before := d.term.View().Cursor
	d.term.fail(errors.New(strings.Repeat("many words ", 12) + "and the remedy"))
	d.shows("and the remedy")
	after := d.term.View().Cursor
	if before == nil || after == nil || after.Y >= before.Y || after.X != before.X {
		t.Errorf("the cursor was at %+v and is at %+v", before, after)
	}
	d.term.fail(errors.New(strings.Repeat("many words ", 400)))
	if lines := d.term.hintLines(80, 24); len(lines) != 4 || !strings.HasSuffix(ansi.Strip(lines[3]), "…") {
		t.Errorf("%q", lines)
	}
}
