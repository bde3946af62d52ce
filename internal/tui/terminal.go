package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	sockets "github.com/superstep-dev/superstep/internal/live"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// A Backend is what the full-screen terminal needs of the program around it. Runs execute in processes of their own; the terminal only follows them and
// sends them requests, so that closing it changes none.
type Backend interface {
	// Engine returns an engine that reads runs and sends requests to them.
	Engine(ctx context.Context) (*superstep.Engine, error)
	// Start starts, resumes or continues a run in a process of its own, and returns its ID.
	Start(ctx context.Context, s *Start) (run string, err error)
	// Catalog returns what can be started and named here.
	Catalog(ctx context.Context) (*Catalog, error)
	// Inbox returns the open questions of all runs of the store, the oldest first.
	Inbox(ctx context.Context) ([]host.InboxItem, error)
	// Command carries out a command line of this program, without its name, and returns what it prints.
	Command(ctx context.Context, args ...string) (output string, err error)
}

// A Start names what to execute: a new run of a workflow, or a run to resume.
type Start struct {
	Workflow string          // of a new run, or of Run if Message is to be added to its plan
	ID       string          // of a new run, "" for any; see superstep.StartOptions
	Inputs   json.RawMessage // of a new run: an object
	Run      string          // to resume, or to continue with Message
	Message  string          // the next message of the conversation of Run
	Model    string          // "" for the one that is configured
	Trace    string          // of a new run, see superstep.StartOptions
}

// A Catalog is what can be started and named in the folder.
type Catalog struct {
	Folder    string      // for people
	Model     string      // that runs use, "" if there is none
	NoModel   string      // why there is none
	Workflows []host.Item // runnable
	Agents    []host.Item
	Skills    []host.Item
	Models    *host.ModelList // nil if they cannot be listed
	Demo      bool            // whether the program has one
	Documents bool            // there are some in the folder to ask about
	Untrusted int             // items of the project that wait for a decision
	Broken    string          // a line about tools that cannot be used, "" if all can
	RunFiles  string          // the folder that holds one with the files of each run, "" if none are kept
	// Opens returns an error if no run can be given a model of that name. It is nil if that is not known.
	Opens func(name string) error
	// Find returns a workflow of the list for its inputs: to read them, and not to run it. It returns nil if there is none of that name.
	Find func(name string) *workflow.Workflow
	// Prompt returns the text of a prompt of an MCP server, or for "" a line for each prompt; see host.Host.Prompt. It may take a while.
	Prompt func(ctx context.Context, name string, args ...string) (string, error)
	// Files lists the files of the folder that a message may name, as paths relative to it. It may take a while.
	Files func(ctx context.Context) ([]string, error)
}

// TerminalOptions are the settings of a Terminal.
type TerminalOptions struct {
	Run     string            // the run to show, "" for the start page
	History string            // the file that keeps what was typed, "" for none
	Drafts  string            // the folder that keeps what was typed and not sent, "" for none
	Keys    map[string]string // keys by action, in place of the default; see KeyActions
	Editor  []string          // the command that edits a file, nil for none
	Program []string          // the command that is this program, with its flags; nil for none
	Bell    bool
	Theme   Palette          // "" for the usual one
	Calm    bool             // no spinners, timers of whole seconds
	Now     func() time.Time // defaults to time.Now
}

// focus is what keys are for.
type focus int

const (
	onComposer focus = iota
	onCard
	onPane // the rows of the run, or the page that covers them
)

// frameGap is the least time between two drawings of what runs do.
const frameGap = 33 * time.Millisecond

type (
	frameMsg  struct{}            // runs have changed
	tickMsg   time.Time           // time has passed
	doneMsg   struct{ do func() } // an action has ended; do runs with the lock held
	resizeMsg = tea.WindowSizeMsg
)

// A Terminal is the full-screen view of the runs of a store. All of its fields are protected by mu: the goroutines that follow runs change them, too.
type Terminal struct {
	ctx     context.Context
	end     context.CancelCauseFunc // ends ctx, and the program with it
	spawned sync.WaitGroup
	backend Backend
	opt     TerminalOptions
	pal     Palette
	keys    *keymap
	send    func(tea.Msg)

	mu       sync.Mutex
	engine   *superstep.Engine // nil until it is open
	dirty    bool
	width    int
	height   int
	frame    int
	focus    focus
	runs     map[string]*following
	run      *following // that is shown, nil for the start page
	view     *runPane   // of that run
	panes    []pane     // that cover it, the last on top
	card     *cardView  // nil if nothing is asked
	compose  *composer
	inbox    []host.InboxItem
	recent   []runlog.Info // the newest runs of the store
	looked   time.Time     // when those were read
	looking  bool          // they are being read
	stale    bool          // something was asked or answered since
	trouble  error         // why they could not be read the last time
	home     *startPane
	sure     twice // about what cannot be taken back
	presses  int   // of keys so far
	catalog  *Catalog
	prompts  []string // the lines of the last list of prompts
	model    string   // of the next run, "" for the one that is configured
	before   []string // the runs that were shown before this one, the last on top
	notice   string   // the last thing that was reported, until the next key
	failed   bool     // it is an error
	hinted   int      // how many lines at the end it took when it was last drawn
	quits    time.Time
	stopping string // the run that ^C stops at its next checkpoint
	blurred  bool
	rang     map[string]bool // questions that have rung, by cardKey
	deck
	then []tea.Cmd // what a doneMsg wants to be carried out
}

// A pane covers the run view, or is it. Its methods are called with the lock held and do no I/O.
type pane interface {
	title() string
	draw(w, h int) []string              // at most h lines of at most w cells
	key(k tea.KeyPressMsg) (cmd tea.Cmd) // of a key that is not global
	hints() string                       // what the keys do, the most important first
}

// A nester is a pane in which Esc leaves something before it closes the pane. A pane of several parts also has next, for Tab.
type nester interface{ back() bool }

// following is a run that the terminal follows.
type following struct {
	id     string
	run    transcript.Run
	loaded bool // all that was stored when it was opened has been applied
	only   bool // live records of its process are out of reach
	err    error
	stop   context.CancelFunc
	wake   chan struct{} // looks at the run at once, see resume
	ended  bool          // no process executes it, as far as is known
}

// RunTerminal shows the terminal until the user leaves it. Out is the terminal itself.
func (c *Screen) RunTerminal(ctx context.Context, out io.Writer, b Backend, opt *TerminalOptions) error {
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		var hung context.CancelFunc
		ctx, hung = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer hung()
	}
	pal := c.Out
	if pal != "" && opt.Theme != "" {
		pal = opt.Theme
	}
	t, err := newTerminal(ctx, b, pal, opt)
	if err != nil {
		return err
	}
	p := tea.NewProgram(t, tea.WithContext(t.ctx), tea.WithInput(c.in.r), tea.WithOutput(out), tea.WithFPS(30))
	t.send, t.tmux = p.Send, c.env("TMUX") != ""
	t.spawn(t.pump)
	_, err = p.Run()
	t.end(nil)
	t.spawned.Wait()
	t.mu.Lock() // for commands that still run
	kept := t.compose.keep()
	t.mu.Unlock()
	if cause := context.Cause(t.ctx); errors.Is(cause, errCrashed) {
		err = cause
	} else if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, context.Canceled) && !errors.Is(err, tea.ErrProgramPanic) {
		err = nil
	}
	return errors.Join(err, kept)
}

func newTerminal(ctx context.Context, b Backend, pal Palette, opt *TerminalOptions) (*Terminal, error) {
	t := &Terminal{backend: b, opt: *opt, pal: pal, send: func(tea.Msg) {}, width: 80, height: 24, runs: map[string]*following{},
		rang: map[string]bool{}}
	if t.opt.Now == nil {
		t.opt.Now = time.Now
	}
	var err error
	if t.keys, err = newKeymap(opt.Keys); err != nil {
		return nil, err
	}
	t.ctx, t.end = context.WithCancelCause(ctx)
	t.compose = newComposer(t)
	t.home = newStartPane(t)
	return t, nil
}

// errCrashed is wrapped by the error of a panic in a goroutine of the terminal.
var errCrashed = errors.New("the terminal failed, and runs are as they were")

// spawn starts a goroutine of the terminal, which must end with t.ctx and leave no lock held if it panics. A panic ends the program: RunTerminal returns it
// as an error once the screen is restored. No other code of a terminal starts goroutines, apart from Bubble Tea, which does the same for its own.
func (t *Terminal) spawn(do func()) {
	t.spawned.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				t.end(fmt.Errorf("%w: %v\n%s", errCrashed, r, debug.Stack()))
			}
		}()
		do()
	})
}

// pump draws runs that have changed, and the time, until the terminal ends.
func (t *Terminal) pump() {
	frames := time.NewTicker(frameGap)
	defer frames.Stop()
	var ticked time.Time
	for {
		select {
		case <-t.ctx.Done():
			return
		case now := <-frames.C:
			dirty, gap := t.due()
			switch {
			case now.Sub(ticked) >= gap: // also while something changes all the time
				ticked = now
				t.send(tickMsg(t.opt.Now()))
			case dirty:
				t.send(frameMsg{})
			}
		}
	}
}

// due reports whether runs have changed since the last call, and returns how often the time is drawn.
func (t *Terminal) due() (dirty bool, gap time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dirty, t.dirty = t.dirty, false
	if t.moves() && !t.opt.Calm || t.card != nil && !t.card.armed {
		return dirty, 100 * time.Millisecond
	}
	return dirty, time.Second
}

// moves reports whether the shown run works.
func (t *Terminal) moves() bool {
	return t.run != nil && t.run.run.Status == runlog.Running && !t.run.ended && !t.run.run.AwaitsMessage()
}

// open shows a run, and follows it from now on. The caller holds the lock.
func (t *Terminal) open(id string) {
	f := t.runs[id]
	if f == nil {
		f = t.follow(id)
	}
	for len(t.panes) > 0 {
		t.pop()
	}
	t.run, t.notice = f, ""
	t.view = newRunPane(t, f)
	t.compose.load(id)
	t.setFocus(onComposer)
}

// follow begins to follow a run. The caller holds the lock.
func (t *Terminal) follow(id string) *following {
	ctx, stop := context.WithCancel(t.ctx)
	f := &following{id: id, stop: stop, wake: make(chan struct{}, 1)}
	f.run.Window = 32 << 20
	t.runs[id] = f
	t.spawn(func() {
		for again := true; again; {
			err := t.read(ctx, f)
			t.mu.Lock()
			if ctx.Err() == nil {
				f.err, f.ended = err, true
			}
			f.loaded, t.dirty = true, true
			t.mu.Unlock()
			again = t.awaken(ctx, f)
		}
	})
	return f
}

// awakenGap is how often a run that no process executes is looked at.
const awakenGap = 2 * time.Second

// awaken waits until a process executes a run again, or something has changed its log, and reports whether that has happened. A run that has ended for
// good is looked at only when resume says so.
func (t *Terminal) awaken(ctx context.Context, f *following) bool {
	for gap := time.After(awakenGap); ; {
		select {
		case <-ctx.Done():
			return false
		case <-f.wake:
		case <-gap:
		}
		gap = time.After(awakenGap)
		engine, err := t.reader(ctx)
		if err != nil {
			continue
		}
		info, err := engine.Find(ctx, f.id)
		t.mu.Lock()
		switch {
		case ctx.Err() != nil, errors.As(err, new(*runlog.NotFoundError)):
			t.mu.Unlock()
			return false
		case err == nil && (info.Status == runlog.Running || info.Head > f.run.Seq):
			f.err, f.ended = nil, info.Status != runlog.Running
			t.mu.Unlock()
			return true
		}
		t.mu.Unlock()
		if err == nil && info.Status.Ended() {
			gap = nil
		}
	}
}

// read applies the records of a run until no process executes it any more.
func (t *Terminal) read(ctx context.Context, f *following) (err error) {
	defer func() {
		if r := recover(); r != nil { // one run that cannot be shown must not leave the terminal in a mess
			err = fmt.Errorf("run %s cannot be shown: %v; superstep runs show %s may say more", f.id, r, f.id)
		}
	}()
	engine, err := t.reader(ctx)
	if err != nil {
		return err
	}
	info, err := engine.Find(ctx, f.id)
	if err != nil {
		return err
	}
	t.mu.Lock()
	from := f.run.Seq + 1
	t.mu.Unlock()
	for rec, err := range engine.Follow(ctx, f.id, from) {
		if err != nil {
			return err
		}
		t.take(f, &rec, info.Head)
	}
	if info, err = engine.Find(ctx, f.id); err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		f.run.End(info.Status)
	}
	return err
}

// take applies a record. The run is loaded once it has the one numbered head.
func (t *Terminal) take(f *following, rec *runlog.Record, head uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.apply(f, rec)
	if rec.Seq >= head && !f.loaded {
		f.loaded = true
	}
}

// apply takes the next record of a run. The caller holds the lock.
func (t *Terminal) apply(f *following, rec *runlog.Record) {
	if rec.Kind == runlog.KindEvent && rec.Seq == 0 && sockets.StoredOnly(rec) {
		f.only = true
	}
	if f.loaded && (rec.Kind == runlog.KindAsked || rec.Kind == runlog.KindAnswered) {
		t.stale = true
	}
	f.run.Apply(*rec)
	t.compose.heard(f.id, rec)
	if f.loaded || rec.Seq == 0 {
		t.dirty = true
	}
}

// reader returns the engine, and opens it the first time.
func (t *Terminal) reader(ctx context.Context) (*superstep.Engine, error) {
	t.mu.Lock()
	e := t.engine
	t.mu.Unlock()
	if e != nil {
		return e, nil
	}
	e, err := t.backend.Engine(ctx)
	if err == nil {
		t.mu.Lock()
		t.engine = e
		t.mu.Unlock()
	}
	return e, err
}

// resume looks at a run at once that may be executed again, or that has changed since nobody executes it.
func (f *following) resume() {
	select {
	case f.wake <- struct{}{}:
	default: // it is about to be looked at
	}
}

// do carries out an action that may take time. Then runs with the lock held afterwards, unless the action failed; nil does nothing.
func (t *Terminal) do(what string, action func(ctx context.Context, e *superstep.Engine) error, then func()) tea.Cmd {
	t.say(what + " …")
	return func() tea.Msg {
		e, err := t.reader(t.ctx)
		if err == nil {
			err = action(t.ctx, e)
		}
		return doneMsg{func() {
			switch {
			case err != nil:
				t.fail(err)
			default:
				t.say(what + ": done")
				if then != nil {
					then()
				}
			}
		}}
	}
}

// say shows a notice until the next key.
func (t *Terminal) say(text string) { t.notice, t.failed = transcript.Line(text), false }

// fail shows why something did not work.
func (t *Terminal) fail(err error) { t.notice, t.failed = transcript.Line(err.Error()), true }

// Init implements tea.Model.
func (t *Terminal) Init() tea.Cmd {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.opt.Run != "" {
		t.open(t.opt.Run)
	} else {
		t.compose.load("")
	}
	return tea.Batch(t.look(), t.compose.init())
}

// look reads the catalog, the newest runs and the inbox.
func (t *Terminal) look() tea.Cmd {
	return tea.Batch(t.lookCatalog(), t.lookRuns())
}

// Update implements tea.Model.
func (t *Terminal) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var cmd tea.Cmd
	switch m := msg.(type) {
	case resizeMsg:
		t.width, t.height = m.Width, m.Height
	case frameMsg:
	case tickMsg:
		if t.frame++; t.card != nil {
			t.card.tick(time.Time(m))
		}
		cmd = tea.Batch(t.poll(), t.tick())
	case doneMsg:
		if m.do != nil {
			m.do()
		}
	case tea.FocusMsg:
		t.blurred = false
	case tea.BlurMsg:
		t.blurred = true
	case tea.KeyPressMsg:
		cmd = t.key(m)
		t.pressed = t.opt.Now()
	case tea.PasteMsg:
		t.pressed = t.opt.Now()
		if t.focus == onComposer {
			cmd = t.compose.paste(m.Content)
		} else if t.focus == onCard && t.card != nil {
			t.card.paste(m.Content)
		} else if e, ok := t.top().(*editPane); ok && t.focus == onPane {
			cmd = e.paste(m.Content)
		} else if p, ok := t.top().(interface{ paste(s string) }); ok && t.focus == onPane {
			p.paste(m.Content)
		} else if t.focus == onPane {
			t.setFocus(onComposer)
			cmd = t.compose.paste(m.Content)
		}
	default:
		cmd = t.compose.update(msg)
	}
	return t, tea.Batch(cmd, t.settle())
}

// settle brings what depends on runs up to date: the card, the bell, and pages that go on by themselves.
func (t *Terminal) settle() tea.Cmd {
	met := t.meet()
	t.nextCard()
	t.forget()
	cmds := slices.Concat(t.then, []tea.Cmd{met, t.ring(), t.compose.settle()})
	t.then = nil
	for _, p := range t.panes {
		if x, ok := p.(interface{ settle() tea.Cmd }); ok {
			cmds = append(cmds, x.settle())
		}
	}
	return tea.Batch(cmds...)
}

// key routes a key: global ones first, then to what has the focus.
func (t *Terminal) key(k tea.KeyPressMsg) tea.Cmd {
	t.presses++
	if !t.keys.is(k, "stop") {
		t.quits, t.stopping = time.Time{}, ""
	}
	if t.failed || !strings.HasSuffix(t.notice, "…") {
		t.notice, t.failed = "", false
	}
	switch {
	case t.keys.is(k, "suspend"):
		return tea.Suspend
	case t.keys.is(k, "stop"):
		return t.stopKey()
	case t.keys.is(k, "leave") && t.editing():
		t.say("what is edited would be lost; Esc leaves the editor")
		return nil
	case t.keys.is(k, "leave") && t.compose.empty() && (t.focus != onCard || t.card == nil || t.card.text.value() == ""):
		return tea.Quit
	case t.keys.is(k, "leave"):
		t.say("^C clears what is typed; on an empty line ^D leaves")
	case t.keys.is(k, "focus"):
		if t.focus == onComposer && t.compose.completing() {
			break
		}
		if x, ok := t.top().(interface{ next() bool }); ok && t.focus == onPane && x.next() {
			return nil
		}
		t.nextFocus()
		return nil
	case t.keys.is(k, "expand"):
		if t.view != nil {
			t.view.expanded = !t.view.expanded
		}
		return nil
	case t.keys.is(k, "tasks"):
		if t.view != nil {
			t.view.todos = !t.view.todos
		}
		return nil
	case t.keys.is(k, "graph"):
		return t.showGraph()
	case t.keys.is(k, "mode"):
		return t.nextMode()
	case t.keys.is(k, "back") && t.focus != onCard && len(t.panes) > 0 && !t.compose.completing():
		if x, ok := t.top().(nester); !ok || !x.back() {
			t.pop()
		}
		return nil
	case t.keys.is(k, "back") && t.card == nil && t.escapes():
		return t.interrupt(t.view.chosen())
	}
	switch t.focus {
	case onCard:
		if t.card != nil {
			return t.card.key(k)
		}
		t.setFocus(onComposer)
		return nil
	case onPane:
		return t.top().key(k)
	}
	if t.card != nil && t.compose.empty() && t.card.takes(k) {
		t.setFocus(onCard)
		return t.card.key(k)
	}
	if k.Text == "?" && t.keys.is(k, "help") && t.compose.empty() && t.compose.search == nil {
		t.push(newHelpPane(t))
		return nil
	}
	if p := t.top(); p != t.home && t.compose.empty() && scrolls(k) && k.String() != "up" && k.String() != "down" {
		return p.key(k)
	}
	return t.compose.key(k)
}

// types begins a message with a letter that the page on top has no use for.
func (t *Terminal) types(k tea.KeyPressMsg) tea.Cmd {
	t.setFocus(onComposer)
	return t.compose.key(k)
}

// scrolls reports whether a key scrolls.
func scrolls(k tea.KeyPressMsg) bool {
	switch k.String() {
	case "pgup", "pgdown", "up", "down", "home", "end":
		return true
	}
	return false
}

// nextFocus moves the focus: composer, card, page, composer.
func (t *Terminal) nextFocus() {
	switch {
	case t.focus == onComposer && (t.card != nil || t.bringBack()):
		t.setFocus(onCard)
	case t.focus != onPane:
		t.setFocus(onPane)
	default:
		t.setFocus(onComposer)
	}
}

func (t *Terminal) setFocus(f focus) {
	t.focus = f
	t.compose.focus(f == onComposer)
}

// top is the page on top: the run view if none covers it, the start page if no run is shown.
func (t *Terminal) top() pane {
	if n := len(t.panes); n > 0 {
		return t.panes[n-1]
	}
	if t.view != nil {
		return t.view
	}
	return t.home
}

// push covers what is shown with a page, which has the focus.
func (t *Terminal) push(p pane) {
	t.panes = append(t.panes, p)
	t.setFocus(onPane)
}

// pop uncovers what is below.
func (t *Terminal) pop() {
	if p, ok := t.panes[len(t.panes)-1].(interface{ leave() }); ok {
		p.leave()
	}
	t.panes = t.panes[:len(t.panes)-1]
	if len(t.panes) == 0 {
		t.setFocus(onComposer)
		t.home.settled()
	}
}

// stopKey is ^C: it clears what is typed, then leaves what is on top, and stops the run when pressed twice.
func (t *Terminal) stopKey() tea.Cmd {
	now := t.opt.Now()
	switch {
	case t.focus == onCard && t.card != nil && t.card.clear():
		return nil
	case !t.compose.empty():
		t.compose.clear()
		return nil
	case t.run == nil || !t.moves():
		if now.Sub(t.quits) < 2*time.Second {
			return tea.Quit
		}
		t.quits = now
		t.say("^C again leaves; nothing that runs is stopped by that")
		return nil
	case t.stopping == t.run.id:
		return t.killRun()
	case now.Sub(t.quits) < 2*time.Second:
		t.quits = time.Time{}
		return t.stopRun()
	}
	t.quits = now
	t.say("^C again stops the run at its next checkpoint (it can be resumed); ^D leaves and lets it run")
	return nil
}

// stopRun pauses the shown run.
func (t *Terminal) stopRun() tea.Cmd {
	id := t.run.id
	t.stopping = id
	return t.do("stopping run "+id+" at its next checkpoint; ^C kills its process, which loses nothing that is recorded", func(ctx context.Context, e *superstep.Engine) error {
		return e.Pause(ctx, id, "person")
	}, func() {
		t.stopping = ""
		t.say("run " + id + " is stopped; resume it with /resume, or superstep runs resume " + id)
	})
}

// killRun ends the process that executes the shown run, which is being stopped and then stops where its log ends.
func (t *Terminal) killRun() tea.Cmd {
	id := t.run.id
	return t.do("killing run "+id, func(ctx context.Context, e *superstep.Engine) error {
		info, err := e.Find(ctx, id)
		if err != nil || info.Status != runlog.Running || info.Owner == "" {
			return err
		}
		at := strings.LastIndexByte(info.Owner, ':')
		pid, err := strconv.Atoi(info.Owner[at+1:])
		if host, herr := os.Hostname(); err != nil || herr != nil || host != info.Owner[:max(0, at)] || pid == os.Getpid() {
			return fmt.Errorf("run %s is executed by %s, which cannot be killed from here; it stops at its next checkpoint", id, info.Owner)
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		return p.Kill()
	}, nil)
}

// View implements tea.Model.
func (t *Terminal) View() tea.View {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines(t.width, t.height)
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen, v.ReportFocus = true, true
	v.WindowTitle = t.windowTitle()
	switch t.focus {
	case onComposer:
		v.Cursor = t.compose.cursor(t.height - t.hinted + 1)
	case onCard:
		v.Cursor = t.cardCursor(t.height)
	}
	return v
}

// lines draws the whole screen: exactly h lines of at most w cells.
func (t *Terminal) lines(w, h int) []string {
	if w < 20 || h < 6 {
		if t.card != nil {
			t.card.show() // nothing answers what is not on the screen
		}
		out := make([]string, max(h, 0))
		if h > 0 {
			out[0] = cut("too small", max(w, 0))
		}
		return out
	}
	var below []string
	if line := t.inboxLine(w); line != "" && h > 12 {
		below = append(below, line)
	}
	above := len(below)
	below = append(below, t.cardLines(w, h)...)
	below = append(below, t.compose.draw(w, max(1, min(8, h/3)))...)
	hints := t.hintLines(w, h)
	t.hinted = len(hints)
	below = append(below, hints...)
	t.below = len(below) - above
	hidden := max(0, len(below)-h+2)
	if below = below[hidden:]; hidden > above && t.card != nil { // some of the card: nothing answers it until it is back
		t.card.show()
	}
	head := t.header(w)
	room := h - len(head) - len(below)
	var body []string
	if room > 0 {
		body = t.top().draw(w, room)
	}
	if len(body) > room {
		body = body[:max(0, room)]
	}
	for len(body) < room {
		body = append(body, "")
	}
	out := make([]string, 0, h)
	out = append(append(append(out, head...), body...), below...)
	for i, l := range out {
		if strings.IndexByte(l, '\t') >= 0 { // terminals make of it what they want
			l = strings.ReplaceAll(l, "\t", "    ")
			out[i] = l
		}
		if ansi.StringWidth(l) > w {
			l = ansi.Truncate(l, w, "…")
			out[i] = l
		}
		if most := 1000 + 40*w; len(l) > most { // of marks without a width, for which a terminal would take long
			out[i] = strings.ToValidUTF8(l[:most], "")
			if t.pal != "" {
				out[i] += ansi.ResetStyle
			}
		}
	}
	return out
}

// inboxLine tells what waits for the user in other runs.
func (t *Terminal) inboxLine(w int) string {
	here, other := 0, ""
	for _, q := range t.inbox {
		switch {
		case t.run != nil && q.Run == t.run.id:
			here++
		case other == "":
			other = fmt.Sprintf("%s asks: %s", q.Run, transcript.Line(q.Text))
		}
	}
	if _, listed := t.top().(*inboxPane); other == "" || listed || t.top() == pane(t.home) { // it is on the screen
		return ""
	}
	n := len(t.inbox)
	if here > 0 {
		other = fmt.Sprintf("this run %d, %s", here, other)
	}
	return t.pal.Yellow(cut(fmt.Sprintf(" Inbox %d (%s)", n, other), w))
}

// hintLines are the last lines: an error whole, if it is not too long, or one line.
func (t *Terminal) hintLines(w, h int) []string {
	if t.notice == "" || !t.failed {
		return []string{t.hintLine(w)}
	}
	lines := wrapLine(" ✗ "+t.notice, w, 3)
	if most := max(1, min(4, h/6)); len(lines) > most {
		lines[most-1] = cut(strings.Join(lines[most-1:], " "), w)
		lines = lines[:most]
	}
	for i := range lines {
		lines[i] = t.pal.Red(lines[i])
	}
	return lines
}

// hintLine is a notice, or what the keys do.
func (t *Terminal) hintLine(w int) string {
	if t.notice != "" {
		return cut(" "+t.notice, w)
	}
	hints := "Enter send · Tab agents · /help · ^D leave"
	switch {
	case t.focus == onCard && t.card != nil:
		hints = t.card.hints()
	case t.focus == onPane:
		hints = t.top().hints()
	case t.focus == onComposer:
		hints = t.compose.hints()
	}
	return t.pal.Dim(cut(" "+hints, w))
}
