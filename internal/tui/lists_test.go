package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// A harbour is a terminal over a store with runs of a real engine, whose clock stands unless it is moved.
type harbour struct {
	*Terminal
	t       testing.TB
	store   runlog.Store
	engine  *superstep.Engine
	clock   atomic.Int64 // seconds after noon
	moves   bool         // the clock, while something is waited for
	chain   int          // how many commands in a row came of one
	release chan struct{}
	folder  Catalog

	lock     sync.Mutex
	started  []Start
	commands []string
}

func (h *harbour) now() time.Time {
	return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).Add(time.Duration(h.clock.Load()) * time.Second)
}

func (h *harbour) Engine(context.Context) (*superstep.Engine, error) { return h.engine, nil }
func (h *harbour) Catalog(context.Context) (*Catalog, error)         { c := h.folder; return &c, nil }

// Inbox asks the logs of all runs.
func (h *harbour) Inbox(ctx context.Context) (out []host.InboxItem, err error) {
	infos, err := h.engine.Runs(ctx, nil)
	for _, i := range slices.Backward(infos) {
		var asked []runlog.Question
		var times []time.Time
		for rec, err := range runlog.Records(ctx, h.store, i.ID, 0) {
			if err != nil {
				return nil, err
			}
			switch rec.Kind {
			case runlog.KindAsked:
				q := runlog.Question{Path: rec.Path}
				if err := json.Unmarshal(rec.Data, &q); err != nil {
					return nil, err
				}
				asked, times = append(asked, q), append(times, rec.Time)
			case runlog.KindAnswered:
				asked, times = nil, nil // the workflow here asks once
			}
		}
		for n, q := range asked {
			if i.Status == runlog.Paused || i.Status == runlog.Running {
				out = append(out, host.InboxItem{Run: i.ID, Title: i.Title, Workflow: i.Workflow, Path: q.Path, Task: q.Path, Key: q.Key, Kind: q.Kind, Text: q.Text, Asked: times[n]})
			}
		}
	}
	return out, err
}

func (h *harbour) Start(ctx context.Context, s *Start) (string, error) {
	h.lock.Lock()
	h.started = append(h.started, *s)
	h.lock.Unlock()
	if s.Run == "" {
		return "", errors.New("nothing starts here")
	}
	_, err := h.engine.Resume(context.WithoutCancel(ctx), s.Run, nil)
	return s.Run, err
}

func (h *harbour) Command(ctx context.Context, args ...string) (string, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.commands = append(h.commands, strings.Join(args, " "))
	if len(args) == 4 && args[1] == "rm" {
		return "", h.engine.Hide(ctx, args[3])
	}
	return "+ what differs\n", nil
}

// newHarbour has the workflows ship, which asks; fast; bad, which fails; and slow, which runs until it is released.
func newHarbour(t testing.TB) *harbour {
	h := &harbour{t: t, release: make(chan struct{}), folder: Catalog{Folder: "/proj", Model: "openai/gpt-5", Models: modelList(t, "openai/gpt-5", "OPENAI_API_KEY is set", "[]"), RunFiles: "/data/runs"}}
	h.folder.Workflows = []host.Item{{Item: catalog.Item{Name: "ship", Description: "Ships a release"}}, {Item: catalog.Item{Name: "fast", Description: "Is quick"}}}
	var all []*workflow.Workflow
	for name, run := range map[string]func(context.Context) (string, error){
		"ship": func(ctx context.Context) (string, error) {
			return graph.Ask[string](ctx, graph.Question{Key: "region", Text: "Which region?\nIt cannot be changed."})
		},
		"fast": func(context.Context) (string, error) { return "It is done.", nil },
		"bad":  func(context.Context) (string, error) { return "", errors.New("the disk \x1b[31mis full") },
		"slow": func(ctx context.Context) (string, error) {
			select {
			case <-h.release:
				return "late", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	} {
		g := graph.New(name, func(s, u string) string { return s + u })
		g.Add("plan", func(context.Context, string) (string, error) { return "planned ", nil })
		g.AddNode(graph.Node[string, string]{Name: "work", Run: func(ctx context.Context, _ *graph.Task, _ string) (string, error) { return run(ctx) }})
		g.Edge(graph.Start, "plan")
		g.Edge("plan", "work")
		g.Edge("work", graph.End)
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
	h.store = runlog.NewMemory(&runlog.MemoryOptions{Now: h.now, Lease: 1000 * time.Hour})
	var err error
	if h.engine, err = superstep.New(h.store, &superstep.Options{Workflows: all, Now: h.now}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if h.Terminal, err = newTerminal(ctx, h, "", &TerminalOptions{Now: h.now, Calm: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); h.engine.Close() })
	return h
}

// begin starts a run, and waits until it has ended or paused, unless it is slow.
func (h *harbour) begin(workflow, id, title string) {
	h.t.Helper()
	r, err := h.engine.Start(context.Background(), workflow, json.RawMessage(`{}`), &superstep.StartOptions{ID: id, Title: title})
	if err != nil {
		h.t.Fatal(err)
	}
	if workflow != "slow" {
		_, _ = r.Wait(context.Background())
	}
}

// fleet starts a run of every kind, an hour apart.
func (h *harbour) fleet() {
	for i, r := range [][3]string{
		{"bad", "bad00001", "Yesterday's release"}, {"fast", "fast0001", "A quick look"}, {"ship", "ship0001", "Release 1.2"},
		{"slow", "slow0001", "A long search"}, {"ship", "ship0002", "Release 1.3"}, {"fast", "fast0002", "Another look"},
	} {
		h.begin(r[0], r[1], r[2])
		step := int64(3600)
		if i == 0 {
			step = 20 * 3600
		}
		h.clock.Add(step)
	}
	slow := func() bool { // its first step is recorded, and the second waits
		infos, err := h.store.Runs(h.t.Context(), &runlog.Filter{ID: "slow0001"})
		return err != nil || infos[0].Head >= 3
	}
	for end := time.Now().Add(time.Minute); !slow(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatal("slow0001 does not begin")
		}
	}
}

// run carries out a command of the terminal, and what comes of it.
func (h *harbour) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	got := make(chan tea.Msg, 1)
	go func() { got <- cmd() }()
	select {
	case msg := <-got:
		switch m := msg.(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range m {
				h.run(c)
			}
		case doneMsg:
			_, next := h.Update(m)
			if h.chain++; h.chain < 50 { // else it plays what was, on and on
				h.run(next)
			}
			h.chain--
		}
	case <-time.After(time.Minute):
		h.t.Fatal("a command of the terminal does not end")
	}
}

func (h *harbour) look() {
	h.Terminal.mu.Lock()
	cmd := h.Terminal.look()
	h.Terminal.mu.Unlock()
	h.run(cmd)
}

// press presses keys: names such as enter, or letters.
func (h *harbour) press(keys ...string) {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome, "space": tea.KeySpace, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		msg := tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		if code, ok := special[k]; ok {
			msg = tea.KeyPressMsg{Code: code}
			if k == "space" {
				msg.Text = " "
			}
		}
		_, cmd := h.Update(msg)
		h.run(cmd)
	}
	h.tick()
}

func (h *harbour) tick() {
	_, cmd := h.Update(tickMsg(h.now()))
	h.run(cmd)
}

func (h *harbour) picture(w, hh int) string {
	h.Terminal.mu.Lock()
	defer h.Terminal.mu.Unlock()
	lines := h.lines(w, hh)
	if len(lines) != hh {
		h.t.Errorf("%d lines of %d", len(lines), hh)
	}
	for i, l := range lines {
		if ansi.StringWidth(l) > w || strings.ContainsAny(l, "\x1b\t\n\r\x07") {
			h.t.Errorf("a line that does not belong on a screen of %d: %q", w, l)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// until waits until the screen shows texts.
func (h *harbour) until(texts ...string) string {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if h.moves {
			h.clock.Add(3)
		}
		h.tick()
		picture := h.picture(100, 30)
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(picture, s) }) {
			return picture
		}
		if time.Now().After(end) {
			h.t.Fatalf("not all of %q came:\n%s", texts, picture)
		}
	}
}

// beginning matches how far the slow run is, whose first step may be done, or be listed, a moment later.
var beginning = regexp.MustCompile(`(slow0001 .*step )1`)

// golden compares pictures of the screen at three widths with files.
func (h *harbour) golden(name string) {
	h.t.Helper()
	for _, size := range [][2]int{{60, 20}, {100, 24}, {160, 24}} {
		h.picture(size[0], size[1]) // what it wants to know when it sees the rows
		h.tick()
		got := beginning.ReplaceAllString(h.picture(size[0], size[1]), "${1}0") + "\n"
		path := filepath.Join("testdata", "lists", fmt.Sprintf("%s-%d.txt", name, size[0]))
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				h.t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			h.t.Fatal(err)
		}
		if string(want) != got {
			h.t.Errorf("%s is not as it was; look at the change, then run with -update:\n%s", path, got)
		}
	}
}

func TestStartPage(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	if p := h.picture(100, 24); !strings.Contains(p, "looking at this folder") {
		t.Errorf("the first frame, before anything is known:\n%s", p)
	}
	h.fleet()
	h.look()
	h.golden("start")
	h.press("tab", "enter") // its card comes over the page
	h.until("run ship0001 · work asks", "Needs you (2)")
}

// However many runs an evaluation had, those of the user are recent. The list of all runs has both.
func TestStartPageAfterEvaluation(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.begin("fast", "fast0001", "A quick look")
	for i := range 2 * recentRuns {
		h.clock.Add(1)
		h.begin("fast", fmt.Sprintf("eval-0a1b2c-1-%012x", i), fmt.Sprintf("brief.eval.yaml: case %d", i))
	}
	h.look()
	h.until("Recent", "A quick look")
	if p := h.picture(100, 24); strings.Contains(p, "brief.eval.yaml") {
		t.Errorf("%s", p)
	}
	h.press("tab", "r")
	h.until("RUNS", "brief.eval.yaml")
}

func TestStartPageWithoutModel(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.folder.Model, h.folder.NoModel, h.folder.Demo, h.folder.Documents, h.folder.Untrusted = "", "no model is configured", true, true, 2
	h.folder.Broken = "some tools cannot be used: .mcp.json:1:34: not JSON: invalid character '}' looking for beginning of value; superstep tools list shows what is wrong"
	h.look()
	h.golden("nomodel")
	h.press("m") // the page has the focus
	if p := h.picture(100, 24); !strings.Contains(p, "ADD A MODEL") || !strings.Contains(p, "no model is configured") || !strings.Contains(p, "export ANTHROPIC_API_KEY") {
		t.Errorf("%s", p)
	}
	h.press("esc", "tab", "a", "backspace", "tab", "a") // the page has it again, then what is typed, then the page
	if len(h.started) != 1 || h.started[0].Workflow != "research" || h.started[0].Model != "offline" {
		t.Errorf("started: %+v", h.started)
	}
	h.press("c")
	h.until("▏doctor", "what differs") // as the command here prints it
	h.press("esc", "W", "h", "a", "t")
	if p := h.picture(100, 24); !strings.Contains(p, "What") || len(h.started) != 1 {
		t.Errorf("a message that is typed starts what its letters are the keys of: %+v\n%s", h.started, p)
	}
	h.press("backspace", "backspace", "backspace", "backspace")
	h.Terminal.fail(errors.New("it could not be started"))
	h.Terminal.home.settled()
	if h.Terminal.focus != onComposer {
		t.Error("after an error the next key goes to the page")
	}
}

func TestInboxPane(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.look()
	h.press("tab", "i")
	if p := h.picture(100, 24); !strings.Contains(p, "Nothing waits for you") {
		t.Errorf("%s", p)
	}
	h.fleet()
	h.until("2 questions in 2 runs")
	h.golden("inbox")
	h.press("down")
	sel := "▸? ship0002"
	if p := h.picture(100, 24); !strings.Contains(p, sel) {
		t.Errorf("%q is not selected:\n%s", sel, p)
	}
	if err := h.engine.Answer(t.Context(), "ship0001", "work", &runlog.Answer{Key: "region", Value: json.RawMessage(`"eu"`)}); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(5)
	if p := h.until("1 question in 1 run"); !strings.Contains(p, sel) { // the list has moved under the cursor
		t.Errorf("%q is not selected any more:\n%s", sel, p)
	}
	h.press("enter")
	h.until("run ship0002 · work asks", "▏INBOX", "  ? ship0002"[1:])
	h.press("esc", "tab", "tab")
	h.until("▏INBOX")
	h.press("o")
	h.until(" ship ship0002", "step")
}

func TestRunsPane(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.fleet()
	h.look()
	h.press("tab", "r")
	h.until("Needs you (2)", "Running (1)")
	h.golden("runs")
	for filter, want := range map[string]string{"failed": "1 of 6", "needs": "2 of 6", "yesterday failed": "1 of 6", "RELEASE ship": "2 of 6", "zebra": "0 of 6", "slow0": "1 of 6"} {
		h.press("/")
		for _, r := range filter {
			if r == ' ' {
				h.press("space")
				continue
			}
			h.press(string(r))
		}
		if p := h.picture(100, 24); !strings.Contains(p, want) {
			t.Errorf("%q: no %q in\n%s", filter, want, p)
		}
		h.press("esc")
		if p := h.picture(100, 24); !strings.Contains(p, "RUNS") || strings.Contains(p, " of 6") {
			t.Fatalf("Esc does not end the filter alone:\n%s", p)
		}
	}
	// It compares two marked runs.
	h.press("c")
	h.until("mark two runs")
	h.press("end", "space", "up", "space", "c")
	h.until("DIFF bad00001 → fast0001", "+ what differs")
	h.press("esc", "esc") // the page, then the marks
	h.until("RUNS", "Needs you")
	h.moves = true
	// It deletes what has ended, when that is chosen.
	h.press("end", "d")
	h.until("Delete run bad00001?", "can be restored for 24 hours")
	h.golden("runs-delete")
	h.press("down", "enter")
	if p := h.until("run bad00001 is hidden; superstep runs restore bad00001 brings it back", "fast0001"); strings.Contains(p, "  bad00001") {
		t.Errorf("it is still there:\n%s", p)
	}
	if !slices.Contains(h.commands, "runs rm -- bad00001") {
		t.Errorf("commands: %q", h.commands)
	}
	// It cancels what runs, and deletes nothing that runs.
	h.press("/", "s", "l", "o", "w", "enter", "d")
	h.until("is running")
	h.press("x")
	h.until("Cancel run slow0001?")
	h.press("enter") // no
	h.until("RUNS", "slow0001")
	h.press("x", "down", "enter")
	h.until("■ slow0001  cancelled")
	// It resumes.
	h.press("esc", "home")
	h.press("R", "down", "enter")
	h.until("ship ship000")
}

// Words that were meant for the composer change no run, and Enter after them says no to what a letter has asked.
func TestWordsChangeNoRun(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.fleet()
	h.look()
	h.moves = true
	for _, text := range []string{"please add a test", "Read the address, and resume", "xx", "dd", "ddd", "RR", "mixxed", "Really", "yes", "y", "n", "pppp", "stop passing", "add"} {
		for _, open := range [][]string{{"tab", "r"}, {"tab", "r", "end"}, {"tab", "r", "down", "down"}} {
			h.press(open...)
			for _, r := range text {
				if r == ' ' {
					h.press("space")
				} else {
					h.press(string(r))
				}
			}
			if _, asks := h.top().(*choosePane); asks {
				h.press("enter")
			}
			for range 6 {
				h.press("esc")
			}
			h.compose.set("")
		}
	}
	if len(h.commands) > 0 || len(h.started) > 0 {
		t.Errorf("commands %q, started %q", h.commands, h.started)
	}
	h.press("tab", "r")
	h.until("Needs you (2)", "Running (1)", "slow0001", "bad00001")
}

// No sequence of printable keys changes a run, on whatever screen it is typed, in bursts and singly. What a letter asks is left with Esc.
func TestTypingChangesNoRun(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.fleet()
	h.look()
	type fact struct {
		status runlog.Status
		head   uint64
		cancel bool
	}
	facts := func() map[string]fact {
		out := map[string]fact{}
		infos, err := h.store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{
			runlog.Running, runlog.Paused, runlog.Completed, runlog.Failed, runlog.Cancelled, runlog.Partial, runlog.Queued, runlog.Interrupted, runlog.Importing,
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			if slices.Contains([]string{"bad00001", "fast0001", "ship0001", "slow0001", "ship0002", "fast0002"}, i.ID) || i.Status == runlog.Importing {
				out[i.ID] = fact{i.Status, i.Head, i.Cancel}
			}
		}
		return out
	}
	before := facts()
	screens := map[string][]string{
		"runs": {"tab", "r"}, "the last run": {"tab", "r", "end"}, "a row": {"tab", "r", "down", "down"}, "inbox": {"tab", "i"}, "start": {"tab"}, "composer": nil,
		"a run that has failed": {"tab", "r", "end", "enter", "tab"}, "a running run": {"tab", "r", "/", "s", "l", "o", "w", "enter", "enter", "tab"},
		"history": {"tab", "r", "end", "enter", "tab", "h"}, "graph": {"tab", "r", "end", "enter", "tab", "g"}, "keys": {"tab", "?"},
	}
	names := slices.Sorted(maps.Keys(screens))
	rnd, seed := faults.Rand(t)
	words := strings.Fields("please add a test and delete the old address then resume Read it R x d p s xx dd RR ss pp stop passing pause mixed cancel yes no y n 1 2 Really hidden middle [x] q/d ?r :5 !ls")
	for n := range 20 + faults.N(400) {
		name := names[rnd.IntN(len(names))]
		h.press(screens[name]...)
		var typed strings.Builder
		for range 1 + rnd.IntN(6) {
			word := words[rnd.IntN(len(words))]
			if rnd.IntN(3) == 0 {
				b := make([]byte, 1+rnd.IntN(6))
				for i := range b {
					b[i] = byte('!' + rnd.IntN('~'-'!'+1))
				}
				word = string(b)
			}
			keys := append(strings.Split(word, ""), "space")
			typed.WriteString(word + " ")
			if rnd.IntN(2) == 0 { // a burst
				h.press(keys...)
				continue
			}
			for _, k := range keys {
				h.clock.Add(int64(rnd.IntN(5)))
				h.press(k)
			}
		}
		if now := facts(); !maps.Equal(now, before) || slices.ContainsFunc(h.started, func(s Start) bool { return s.Run != "" }) || slices.ContainsFunc(h.commands, changes) {
			t.Fatalf("seed %d, sequence %d: %q in %s: the runs were %v and are %v; commands %q, started %+v", seed, n, typed.String(), name, before, now, h.commands, h.started)
		}
		for range 9 {
			h.press("esc")
			h.clock.Add(5)
		}
		h.compose.set("")
	}
}

// changes reports whether a command of the terminal changes a run.
func changes(command string) bool {
	return slices.ContainsFunc([]string{"runs rm", "runs cancel", "runs pause", "runs resume", "runs budget"}, func(verb string) bool { return strings.HasPrefix(command, verb) })
}

func TestRunsPaneOfThousands(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	p := newRunsPane(h.Terminal)
	p.loaded, p.read = true, h.now()
	for i := range 10_000 {
		p.all = append(p.all, runlog.Info{ID: fmt.Sprintf("%08x", i), Workflow: "research", Title: fmt.Sprint("Question ", i), Status: runlog.Completed, Created: h.now()})
	}
	h.push(p)
	h.picture(100, 30)
	start := time.Now()
	for range 30 {
		h.press("down")
		h.picture(100, 30)
	}
	each := time.Since(start) / 30
	start = time.Now()
	h.press("/", "9", "9", "9", "7")
	picture := h.picture(100, 30)
	t.Logf("a key and a frame: %s; a filter of four letters: %s", each, time.Since(start))
	if !strings.Contains(picture, "Question 9997") || !strings.Contains(picture, " of 10000") {
		t.Errorf("%s", picture)
	}
	if each > faults.Bound(100*time.Millisecond) || time.Since(start) > faults.Bound(4*time.Second) { // ten times what is wanted, with the race detector
		t.Error("that is too slow to type")
	}
}

// showAgent gives all records of a recorded session, and shows the task for which pick returns true.
func showAgent(t *testing.T, name, path string, cut int) *harbour {
	h := newHarbour(t)
	f := &following{id: "7f3a21c0", loaded: true, stop: func() {}}
	h.runs[f.id], h.Terminal.run = f, f
	h.view = newRunPane(h.Terminal, f)
	recs := recorded.Load(name)
	if cut > 0 {
		recs = recs[:cut]
	}
	for i := range recs {
		h.apply(f, &recs[i])
	}
	h.Terminal.catalog = &h.folder
	at := recs[len(recs)-1].Time
	h.opt.Now = func() time.Time { return at }
	if path == "" {
		return h
	}
	if f.run.Task(path) == nil {
		var known []string
		for _, task := range f.run.Tasks {
			known = append(known, task.Path)
		}
		t.Fatalf("no task %s; there are %q", path, known)
	}
	h.openAgent(path)
	return h
}

func TestAgentPane(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		session, path string
		cut           int
		want          []string
	}{
		{"agents", "gather/2/read", 0, []string{"context"}},
		{"agents", "gather/1/read", 80, nil},
		{"subagents", "work", 0, []string{"── 3 agents, 3 done", "↓ its agents"}},
		{"subagents", "work/task_batch[1.1]/reader[2]", 60, []string{"reader/2 2/3", "↑ parent", "←→ sibling"}},
		{"failure", "gather/5/read", 0, []string{"log: /data/runs/7f3a21c0/logs/run.log", "again: /resume"}},
		{"question", "work/ask_user[2.1]", 18, nil},
	} {
		h := showAgent(t, c.session, c.path, c.cut)
		p := h.picture(100, 24)
		for _, want := range c.want {
			if !strings.Contains(p, want) {
				t.Errorf("%s %s: no %q in\n%s", c.session, c.path, want, p)
			}
		}
		h.golden(fmt.Sprintf("agent-%s-%s", c.session, strings.Map(func(r rune) rune {
			if strings.ContainsRune("/[].~", r) {
				return '_'
			}
			return r
		}, c.path)))
	}
}

// Every agent can be reached from every other by keys, at any time of any session.
func TestAgentPaneKeys(t *testing.T) {
	t.Parallel()
	h := showAgent(t, "subagents", "work", 0)
	title := func(want string) {
		t.Helper()
		if got := h.top().title(); got != want {
			t.Fatalf("it shows %s, not %s:\n%s", got, want, h.picture(100, 24))
		}
	}
	h.press("down", "down", "enter")
	title("reader/2")
	h.press("right")
	title("reader/3")
	h.press("right") // there is none
	h.press("left", "left")
	title("reader/1")
	h.press("up")
	title("work")
	h.press("up", "esc")
	title("work") // from which the reader was opened
	h.press("esc")
	if h.top() != pane(h.view) {
		t.Errorf("it shows %s", h.top().title())
	}
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		for cut := 1; cut <= len(recs); cut += 7 {
			h := showAgent(t, name, "", cut)
			for _, task := range h.Terminal.run.run.Tasks {
				h.openAgent(task.Path)
				for _, size := range [][2]int{{20, 6}, {33, 11}, {100, 30}} {
					h.picture(size[0], size[1])
				}
				h.press("down", "pgup", "home", "left", "up")
			}
		}
	}
}

// What is typed over an agent is for that agent.
func TestAddressed(t *testing.T) {
	t.Parallel()
	h := showAgent(t, "subagents", "work/task_batch[1.1]/reader[2]", 60)
	if got := h.addressed(); got != "work/task_batch[1.1]/reader[2]" {
		t.Errorf("to %q", got)
	}
	h.press("right")
	if got := h.addressed(); got != "work/task_batch[1.1]/reader[3]" {
		t.Errorf("to %q", got)
	}
	h.press("esc")
	if got := h.addressed(); got != "" { // the lead of a conversation
		t.Errorf("to %q", got)
	}
}

// A step of the graph cannot be stopped alone, and an agent is stopped when that is chosen.
func TestStopAgent(t *testing.T) {
	t.Parallel()
	h := showAgent(t, "agents", "plan", 10)
	h.press("s")
	if !strings.Contains(h.notice, "a step of the workflow") || !h.failed {
		t.Errorf("%q", h.notice)
	}
	h = showAgent(t, "subagents", "work/task_batch[1.1]/reader[2]", 50)
	h.press("s")
	h.until("Stop reader/2?", "continues")
	h.press("s", "enter")
	if len(h.panes) != 1 || h.notice != "" {
		t.Errorf("letters stop it: %d panes, %q", len(h.panes), h.notice)
	}
}

// Whoever executes a run again, the terminal sees it.
func TestAttachAgain(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.begin("ship", "ship0001", "Release 1.2")
	h.Terminal.mu.Lock()
	h.open("ship0001")
	h.Terminal.mu.Unlock()
	h.until("Workflow paused")
	if err := h.engine.Answer(t.Context(), "ship0001", "work", &runlog.Answer{Key: "region", Value: json.RawMessage(`"eu"`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.engine.Resume(context.Background(), "ship0001", nil); err != nil {
		t.Fatal(err)
	}
	h.until("Workflow completed")
}

// Of the runs that were looked at, the shown one is followed, and the one that Esc goes back to.
func TestRunsAreForgotten(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	for i := range 5 {
		id := fmt.Sprintf("ship%04d", i)
		h.begin("ship", id, "")
		h.Terminal.mu.Lock()
		h.shown(id)
		h.Terminal.mu.Unlock()
		h.until("ship0", "Which region?")
	}
	if len(h.runs) != 2 || h.runs["ship0003"] == nil || h.runs["ship0004"] != h.Terminal.run || len(h.cards) > 2 {
		t.Errorf("follows %d runs, with %d questions", len(h.runs), len(h.cards))
	}
	first := h.runs["ship0003"]
	h.press("esc")
	h.until("ship0003", "Which region?")
	if h.Terminal.run != first {
		t.Error("it was read again")
	}
}

// A record that cannot be shown costs the view of its run, and not the terminal.
func TestReadPanics(t *testing.T) {
	t.Parallel()
	h := newHarbour(t)
	h.begin("fast", "fast0001", "")
	h.Terminal.mu.Lock()
	f := &following{id: "fast0001"}
	h.Terminal.engine = new(superstep.Engine) // which panics
	h.Terminal.mu.Unlock()
	if err := h.read(t.Context(), f); err == nil || !strings.Contains(err.Error(), "cannot be shown") {
		t.Errorf("got %v", err)
	}
}
