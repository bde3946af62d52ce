package tui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/evaluate"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A startPane is shown while there is no run: what waits for the user, what runs, what ran, and what can be started.
type startPane struct {
	t    *Terminal
	list list[func() tea.Cmd] // each row with what it does
}

func newStartPane(t *Terminal) *startPane {
	return &startPane{t: t, list: list[func() tea.Cmd]{t: t}}
}

func (p *startPane) title() string { return "START" }

func (p *startPane) hints() string {
	write := "Tab or any message to chat"
	if c := p.t.catalog; c != nil && c.Model == "" {
		write = "Tab to type" // a letter is a key here
	}
	return "↑↓ · Enter open · i inbox · r runs · " + write + " · ? keys · ^D leave"
}

// settled gives the page the focus where there is no model to chat with, so that one key is enough, unless what was written has just failed.
func (p *startPane) settled() {
	t := p.t
	if c := t.catalog; c != nil && c.Model == "" && t.run == nil && t.focus == onComposer && t.compose.empty() && len(t.panes) == 0 && t.notice == "" {
		t.setFocus(onPane)
	}
}

// build makes the rows of the page.
func (p *startPane) build(w int) {
	t := p.t
	c := t.catalog
	var rows []listRow[func() tea.Cmd]
	remark := func(line string) { rows = append(rows, fixed[func() tea.Cmd]("", nil, ansi.Truncate(line, w, "…"))) }
	heading := func(line string) {
		if len(rows) > 0 {
			remark("")
		}
		remark(" " + t.pal.Bold(line))
	}
	n := 0
	row := func(do func() tea.Cmd, lines ...string) {
		n++
		rows = append(rows, fixed(strconv.Itoa(n), do, lines...))
	}
	key := func(action, name, about string, do func() tea.Cmd) {
		row(do, cut(fmt.Sprintf("  %s  %s %s", t.pal.Bold(padded(t.keyOf(action), 3)), padded(name, 9), about), w-1))
	}
	if c != nil && c.Model == "" {
		remark(" " + t.pal.Bold("No model yet.") + " These need none:")
		if c.Demo {
			key("demo", "demo", "five agents are killed and resumed, in half a minute", t.demo)
		}
		if c.Documents {
			key("askFolder", "research", "ask about the documents of this folder; it quotes them", t.askFolder)
		}
		key("doctor", "doctor", "check this machine", t.doctor)
		key("addModel", "add", "how to add a model", t.addModel)
	}
	if c != nil && c.Untrusted > 0 {
		if len(rows) > 0 {
			remark("")
		}
		row(t.decideTrust, cut(fmt.Sprintf(" %s %s of this project %s not used until you trust %s: /trust looks and asks", t.pal.Yellow("!"),
			inwords.Plural(c.Untrusted, "item"), map[bool]string{true: "is", false: "are"}[c.Untrusted == 1],
			map[bool]string{true: "it", false: "them"}[c.Untrusted == 1]), w-1))
	}
	if c != nil && c.Broken != "" {
		for i, line := range wrapLine(transcript.Line(c.Broken), w-4, 0) {
			remark(" " + map[bool]string{true: t.pal.Yellow("!"), false: " "}[i == 0] + " " + strings.TrimSpace(line))
		}
	}
	const most = 5
	if n := len(t.inbox); n > 0 {
		heading(fmt.Sprintf("Needs you (%d)", n))
		for i := range t.inbox[:min(n, most)] {
			q := t.inbox[i]
			row(func() tea.Cmd { return t.answerHere(&q) }, t.waitingLines(&q, w-2)...)
		}
		if n > most {
			remark(t.pal.Dim(fmt.Sprintf("   +%d more (%s)", n-most, t.keyOf("inbox"))))
		}
	}
	runs := func(name string, of func(*runlog.Info) bool, most int) {
		n := 0
		for k := range t.recent {
			i := t.recent[k]
			if t.waitingOf(i.ID) != nil || !of(&i) {
				continue
			}
			if n++; n == 1 {
				heading(name)
			}
			if n <= most {
				row(func() tea.Cmd { t.open(i.ID); return nil }, t.runRow(&i, w-1))
			}
		}
		if n > most {
			remark(t.pal.Dim(fmt.Sprintf("   +%d more (%s)", n-most, t.keyOf("runs"))))
		}
	}
	running := func(i *runlog.Info) bool { return i.Status == runlog.Running && !t.yourTurn(i) }
	runs("Running", running, 8)
	runs("Recent", func(i *runlog.Info) bool { return !running(i) && !evaluate.Of(i) }, mostRecent)
	if c != nil && len(c.Workflows) > 0 {
		heading("Workflows")
		wide := 0
		for i := range c.Workflows {
			wide = min(max(12, w/4), max(wide, ansi.StringWidth(c.Workflows[i].Name)))
		}
		for _, x := range c.Workflows {
			name := transcript.Line(x.Name)
			row(func() tea.Cmd {
				t.compose.set("/" + name + " ")
				t.setFocus(onComposer)
				return nil
			}, cut(" /"+padded(name, wide)+"  "+t.pal.Dim(transcript.Line(x.Description)), w-1))
		}
	}
	switch {
	case c == nil:
		remark(t.pal.Dim(" looking at this folder …"))
	case c.Model != "" && len(t.recent) == 0:
		rows = slices.Insert(rows, 0, fixed[func() tea.Cmd]("", nil, cut(" Type a message to talk to an agent, or /name to start a workflow.", w)))
	}
	p.list.set(rows)
}

func (p *startPane) draw(w, h int) []string {
	p.build(w)
	all := 0
	for i := range p.list.rows {
		all += p.list.rows[i].high
	}
	if h > all+1 {
		return append([]string{""}, p.list.lines(w, h-1)...)
	}
	return p.list.lines(w, h)
}

func (p *startPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	c := t.catalog
	bare := c != nil && c.Model == ""
	switch {
	case p.list.moves(k):
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
	case t.keys.is(k, "inbox"):
		t.push(newInboxPane(t))
	case t.keys.is(k, "runs"):
		return t.showRuns()
	case t.keys.is(k, "back"):
		t.setFocus(onComposer)
	case k.String() == "enter":
		if row := p.list.chosen(); row != nil {
			return row.item()
		}
	case bare && c.Demo && t.keys.is(k, "demo"):
		return t.demo()
	case bare && c.Documents && t.keys.is(k, "askFolder"):
		return t.askFolder()
	case bare && t.keys.is(k, "doctor"):
		return t.doctor()
	case t.keys.is(k, "addModel"):
		return t.addModel()
	case c != nil && c.Untrusted > 0 && t.keys.is(k, "trust"):
		return t.decideTrust()
	case k.Text != "" && k.Text != " ": // whoever types what is no key here writes a message
		t.setFocus(onComposer)
		return t.compose.key(k)
	}
	return nil
}

// keyOf is the first key of an action.
func (t *Terminal) keyOf(action string) string { return t.keys.keys[action][0] }

// startHeader is the first line while no run is shown: the folder, and the model that runs use.
func (t *Terminal) startHeader(w int) []string {
	left, right := " "+t.pal.Bold("superstep"), ""
	if n := len(t.panes); n > 0 {
		left += " " + t.pal.Yellow("▏"+t.panes[n-1].title())
	}
	if c := t.catalog; c != nil {
		left += "  " + transcript.Line(c.Folder)
		right = "no model"
		if c.Model != "" {
			right = transcript.Line(c.Model)
			if c.Models != nil && c.Models.Use.Why != "" && w >= 80 {
				right += t.pal.Dim(" (" + transcript.Line(c.Models.Use.Why) + ")")
			}
		}
	}
	return []string{apart(left, right, w)}
}

// demo shows the demo on the terminal, and comes back.
func (t *Terminal) demo() tea.Cmd { return t.foreground("demo") }

// decideTrust asks on the terminal which items of the project to trust.
func (t *Terminal) decideTrust() tea.Cmd { return t.foreground("trust") }

func (t *Terminal) doctor() tea.Cmd { return t.showOutput("doctor", "doctor") }

// firstQuestion is asked about a folder whose user has asked nothing yet.
const firstQuestion = "What is this project, and how is it used?"

// askFolder asks about the documents of the folder, with the model that only quotes.
func (t *Terminal) askFolder() tea.Cmd {
	inputs, _ := json.Marshal(map[string]string{"question": firstQuestion, "docs": "."})
	return t.start(&Start{Workflow: "research", Inputs: inputs, Model: "offline"})
}

// addModel tells how to add a model. The terminal writes no keys itself.
func (t *Terminal) addModel() tea.Cmd {
	why := ""
	if t.catalog != nil {
		why = t.catalog.NoModel
	}
	t.showText("ADD A MODEL", strings.TrimSpace(why+`

With a key, in the shell from which you start superstep (it never writes keys):
  export ANTHROPIC_API_KEY=…      or OPENAI_API_KEY, or GEMINI_API_KEY

With a model on this machine: start Ollama, LM Studio or llama.cpp. It is found by itself.

To use another model than the one that is found:
  /model PROVIDER/NAME                           here
  superstep config set model PROVIDER/NAME       from now on
  superstep models list                          all models, and what each lacks

Then start superstep again.`))
	return nil
}

// foreground runs a command of this program on the terminal, and comes back when it has ended.
func (t *Terminal) foreground(args ...string) tea.Cmd {
	if len(t.opt.Program) == 0 {
		t.fail(errors.New("this program cannot be started again; run superstep " + strings.Join(args, " ") + " in a shell"))
		return nil
	}
	p := t.opt.Program
	cmd := exec.CommandContext(t.ctx, p[0], slices.Concat(p[1:], args)...)
	return tea.Exec(&stays{Cmd: cmd}, func(err error) tea.Msg {
		return doneMsg{func() {
			if err != nil && !errors.As(err, new(*exec.ExitError)) { // which it has said itself
				t.fail(err)
			}
			t.looked, t.stale = t.looked.Add(-pollIdle), true
			t.then = append(t.then, t.lookCatalog()) // the folder may be another now
		}}
	})
}

// stays is a command on the terminal whose output stays until Enter is pressed.
type stays struct{ *exec.Cmd }

func (s *stays) SetStdin(r io.Reader)  { s.Stdin = r }
func (s *stays) SetStdout(w io.Writer) { s.Stdout = w }
func (s *stays) SetStderr(w io.Writer) { s.Stderr = w }

func (s *stays) Run() error {
	err := s.Cmd.Run()
	_, _ = io.WriteString(s.Stdout, "\nEnter goes back. ")
	for b := make([]byte, 1); ; {
		if n, rerr := s.Stdin.Read(b); rerr != nil || n == 1 && (b[0] == '\n' || b[0] == '\r') {
			return err
		}
	}
}
