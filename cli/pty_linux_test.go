package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// terminalTest is a command on a terminal of its own.
type terminalTest struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	done   chan struct{}

	mu   sync.Mutex
	seen strings.Builder
}

func open(t *testing.T, width, height uint16, env []string, args ...string) *terminalTest {
	t.Helper()
	return openIn(t, "", width, height, env, args...)
}

// openIn is open in a folder, "" for this one.
func openIn(t *testing.T, dir string, width, height uint16, env []string, args ...string) *terminalTest {
	t.Helper()
	return openCommand(t, dir, width, height, env, "superstep", args...)
}

func openCommand(t *testing.T, dir string, width, height uint16, env []string, name string, args ...string) *terminalTest {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { master.Close() })
	var unlock int32
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, int(unlock))
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	c := &terminalTest{t: t, master: master, done: make(chan struct{})}
	c.resize(width, height)
	c.cmd = exec.Command(path, args...)
	c.cmd.Dir = dir
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.Env = append([]string{"TERM=xterm-256color", "HOME=" + t.TempDir(), "SUPERSTEP_DATA_DIR=" + t.TempDir()}, env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			c.mu.Lock()
			c.seen.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return // EIO once nobody has the other end
			}
		}
	}()
	return c
}

func (c *terminalTest) resize(width, height uint16) {
	if err := unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *terminalTest) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.String()
}

// until waits for text on the terminal.
func (c *terminalTest) until(text string) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(c.screen(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%q never came:\n%q", text, c.screen())
		}
	}
}

// untilAfter waits for text on the terminal behind the last of another.
func (c *terminalTest) untilAfter(mark, text string) {
	c.t.Helper()
	c.until(mark)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		screen := c.screen()
		if strings.Contains(screen[strings.LastIndex(screen, mark):], text) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%q never came after %q:\n%q", text, mark, screen)
		}
	}
}

// untilFrom waits for text on the terminal behind so many bytes of what was written there.
func (c *terminalTest) untilFrom(n int, text string) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(c.screen()[n:], text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%q never came:\n%q", text, c.screen()[n:])
		}
	}
}

func (c *terminalTest) typed(text string) {
	if _, err := io.WriteString(c.master, text); err != nil {
		c.t.Fatal(err)
	}
}

// exit waits for the end and gives the exit code.
func (c *terminalTest) exit() int {
	c.t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() }) // it waits for what never comes
	defer late.Stop()
	err := c.cmd.Wait()
	if c.cmd.ProcessState.ExitCode() < 0 {
		c.t.Errorf("it never ended:\n%q", c.screen())
	}
	<-c.done
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

func TestTerminalProgress(t *testing.T) {
	t.Parallel()
	c := open(t, 60, 20, nil, "run", "slow", "ms=900", "tasks=12")
	c.until("+7 more")
	c.resize(30, 10)
	time.Sleep(250 * time.Millisecond)
	c.resize(100, 30)
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	raw := c.screen()
	for _, want := range []string{"\x1b[J", "── Step: wait (running) ── 0/12 items", "── Step: first ✓ (0.0s) ──"} {
		if !strings.Contains(raw, want) {
			t.Errorf("no %q in\n%q", want, raw)
		}
	}
	text := ansi.Strip(raw)
	if !strings.Contains(text, " wait/t00  ") {
		t.Errorf("no row of a task in\n%s", text)
	}
	last := regexp.MustCompile(`(?m)^⣿ Workflow completed in [12]s\r\n  Inspect superstep runs show [0-9a-f]{8}\r\n\z`)
	if !last.MatchString(text) {
		t.Errorf("the end is not as it should be:\n%s", text)
	}
	if strings.Contains(raw, "\x1b[?25l") {
		t.Error("the cursor was hidden, which a killed process cannot undo")
	}
	if n := strings.Count(raw, "\x1b[J"); n > 40 {
		t.Errorf("%d frames in about a second", n)
	}
	for line := range strings.SplitSeq(raw, "\n") {
		if w := ansi.StringWidth(line); w > 100 {
			t.Errorf("a line of %d cells: %q", w, line)
		}
	}
}

// The places in a brief are links to the files.
func TestTerminalLinks(t *testing.T) {
	t.Parallel()
	docs := t.TempDir()
	file := filepath.Join(docs, "my notes.md")
	if err := os.WriteFile(file, []byte("# Heron\n\nA heron is a bird that stands in water.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, 100, 30, []string{"TEST_RESEARCH=" + t.TempDir()}, "run", "research", "What is a heron?", "--docs", docs)
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, c.screen())
	}
	link := ansi.SetHyperlink((&url.URL{Scheme: "file", Path: file, Fragment: "L3"}).String()) + "my notes.md:3" + ansi.ResetHyperlink()
	if !strings.Contains(c.screen(), link) {
		t.Errorf("no %q in\n%q", link, c.screen())
	}
}

func TestTerminalPrompt(t *testing.T) {
	t.Parallel()
	c := open(t, 80, 24, nil, "run", "ask")
	c.until("Answer 1-2, Ctrl-D to leave it open: ")
	c.typed("maybe\n")
	c.until("want one of yes, no")
	c.typed("2\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(c.screen(), "answered no") {
		t.Errorf("the answer did not arrive:\n%s", c.screen())
	}
}

const permissionLabel = "Answer 1-5, Ctrl-D to leave it open: "

// A wrong key at a question about a call asks the same question again, and answers no other.
func TestTerminalPermission(t *testing.T) {
	t.Parallel()
	c := open(t, 100, 30, nil, "run", "leave")
	c.until("\x1b[1mwork (tester) wants to call put")
	c.until("asked because: no rule allows it\r\n  1. once              only this call\r\n")
	c.until("1 of 2 · " + permissionLabel)
	c.typed("purple\n")
	c.until("answer 1-5; want one of once, run, always, deny, or deny: why")
	c.typed("9\n")
	c.typed("4\n")
	c.until("2 of 2 · " + permissionLabel)
	c.typed("1\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := ansi.Strip(c.screen())
	if !strings.Contains(text, "denied | put b") || strings.Contains(text, "anyOf") {
		t.Errorf("not as it was answered:\n%s", text)
	}
	c = open(t, 100, 24, nil, "run", "leave", "--on-ask", "deny")
	if code := c.exit(); code != ExitDenied || strings.Contains(c.screen(), "Ctrl-D") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
	c = open(t, 100, 24, nil, "run", "leave")
	c.until(permissionLabel)
	c.typed("maybe\n")
	c.until("want one of")
	c.typed("\x04") // the second question comes all the same
	c.until("2 of 2 · " + permissionLabel)
	c.typed("5\nuse the API\n")
	if code := c.exit(); code != ExitPaused {
		t.Errorf("exit code %d", code)
	}
	if text := ansi.Strip(c.screen()); !strings.Contains(text, "Why: use the API") || !strings.Contains(text, "  Answer  superstep runs answer") || !strings.Contains(text, "asks again, on a terminal") {
		t.Errorf("%s", text)
	}
}

// What was typed before a question was on the screen answers nothing, not even with Enter; nor does what was typed at
// one question answer the next. It is the same where lines are read one by one.
func TestConvention27TypedAhead(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"LIVE=1", "ACCESSIBLE=1"} {
		c := open(t, 100, 30, []string{env}, "run", "leave")
		c.typed("always\nalways\nalways\nalwa") // the program has not even begun
		c.until("only this call")               // the question is being drawn
		c.typed("ys\nalways\n")
		c.until(permissionLabel)
		c.typed("1\ny\ny\nalways\n")
		c.until("2 of 2 · " + permissionLabel)
		c.typed("4\n")
		if code := c.exit(); code != 0 {
			t.Errorf("%s: exit code %d", env, code)
		}
		if text := ansi.Strip(c.screen()); !strings.Contains(text, "put a | denied") {
			t.Errorf("%s: not as it was answered:\n%s", env, text)
		}
	}
}

// A question rings, unless that is off.
func TestTerminalBell(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]bool{"X=": true, "SUPERSTEP_NO_BELL=1": false, "TERM=dumb": false} {
		c := open(t, 100, 30, []string{env}, "run", "ask")
		c.until("leave it open: ")
		if got := strings.Contains(c.screen(), "\a"); got != want {
			t.Errorf("%q: the bell is %v", env, got)
		}
		c.typed("yes\n")
		if code := c.exit(); code != 0 {
			t.Errorf("%q: exit code %d", env, code)
		}
	}
}

// recipeFile is a recipe in a folder of its own.
func recipeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Who edits at a gate is asked for the text, and who rejects may say why.
func TestTerminalGate(t *testing.T) {
	t.Parallel()
	path := recipeFile(t, "name: gated\nsteps:\n  - {id: who, ask: \"Who?\\n\\nSay it.\", gate: human}\noutput: \"{{steps.who.output}}\"\n")
	c := open(t, 100, 30, nil, "run", path)
	c.until("Answer 1-4, Ctrl-D to leave it open: ")
	c.typed("2\n")
	c.until("Now:\r\n  Who?\r\n  \r\n  Say it.\r\n")
	c.until("Go on with instead, an empty line ends it: ")
	c.typed("\n") // not after all
	c.typed("edit\n")
	c.typed("Who reads it?\nAnd why?\n\n")
	c.untilAfter("who asks:\x1b[0m Who reads it?\r\nAnd why?\r\n", "leave it open: ")
	c.typed("everybody\n")
	result := func(text string) bool { // on a line of its own
		return regexp.MustCompile(`[\r\n]` + regexp.QuoteMeta(text) + `\r\n`).MatchString(ansi.Strip(c.screen()))
	}
	if code := c.exit(); code != 0 || !result("everybody") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
	for typed, want := range map[string]string{"4\nit is late\n": "rejected by operator: it is late", "n\n": "rejected by operator\r\n", "3\n": "rejected by operator\r\n", "reject: no\n": "rejected by operator: no"} {
		c = open(t, 100, 30, nil, "run", path)
		c.until("leave it open: ")
		c.typed(typed)
		if code := c.exit(); code != ExitFailed || !strings.Contains(c.screen(), want) || !strings.Contains(c.screen(), "--from who") {
			t.Errorf("%q: exit code %d\n%s", typed, code, c.screen())
		}
	}
	path = recipeFile(t, "name: tooled\nsteps:\n  - {id: find, tool: glob, args: {pattern: '*.none'}, gate: human}\n")
	c = openIn(t, filepath.Dir(path), 100, 30, nil, "run", path)
	c.until("leave it open: ")
	c.typed("2\n")
	c.typed("every file\n\n")
	c.until("want a JSON object as the one there is")
	c.typed("{\"pattern\":\n\"it.yaml\"}\n\n")
	if code := c.exit(); code != 0 || !result("it.yaml") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
}

// A question is put at once while others run, and what it waits for continues with the answer.
func TestTerminalAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := recipeFile(t, "name: atonce\nsteps:\n  - {id: slow, tool: bash, args: {command: \"until test -e go; do sleep 0.05; done\"}}\n  - {id: who, ask: Who?}\n  - {id: then, depends_on: [who], tool: bash, args: {command: touch go}}\n")
	for _, env := range []string{"LIVE=1", "ACCESSIBLE=1"} {
		c := openIn(t, dir, 100, 30, []string{env}, "run", path, "--allow", "bash")
		c.until("leave it open: ")
		c.typed("me\n") // or else the other never ends
		if code := c.exit(); code != 0 {
			t.Errorf("%s: exit code %d\n%s", env, code, c.screen())
		}
		if err := os.Remove(filepath.Join(dir, "go")); err != nil {
			t.Error(err)
		}
	}
}

// A form is asked for field by field, and a field that does not fit is asked for again.
func TestTerminalForm(t *testing.T) {
	t.Parallel()
	path := recipeFile(t, `name: formed
steps:
  - id: details
    ask:
      question: What is it to be?
      form:
        - {name: pages, type: integer, required: true, description: how many}
        - {name: tone, enum: [plain, formal], default: plain}
        - {name: draft, type: boolean, required: true}
        - note
output: "{{steps.details.output}}"
`)
	c := open(t, 100, 30, nil, "run", path)
	c.untilAfter("how many\r\n", "pages (a whole number): ")
	c.typed("\n")
	c.until("pages is required")
	c.typed("some\n")
	c.until(`pages: want a whole number, got "some"`)
	c.typed("3\n")
	c.untilAfter("2. formal\r\n", "tone (1-2, Enter for plain): ")
	c.typed("2\n")
	c.until("draft (true or false): ")
	c.typed("yes\n")
	c.until("note (a text, Enter for none): ")
	c.typed("\n")
	if code := c.exit(); code != 0 || !strings.Contains(ansi.Strip(c.screen()), "{\r\n  \"draft\": true,\r\n  \"pages\": 3,\r\n  \"tone\": \"formal\"\r\n}") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
	c = open(t, 100, 30, nil, "run", path)
	c.until("pages (a whole number): ")
	c.typed("3\n\x04")
	if code := c.exit(); code != ExitPaused {
		t.Errorf("exit code %d", code)
	}
}

// The words of an MCP server keep their mark where the terminal is too narrow for them, and its form is declined by one field.
func TestTerminalServerAsks(t *testing.T) {
	t.Parallel()
	c := open(t, 50, 40, nil, "run", "ask", "default=server")
	c.until("decision (1-2): ")
	if screen := ansi.Strip(c.screen()); !strings.Contains(screen, "\r\n> "+strings.Repeat("word ", 9)+"\r\n> word word") {
		t.Errorf("%s", screen)
	}
	c.typed("2\n")
	if code := c.exit(); code != 0 || !strings.Contains(ansi.Strip(c.screen()), `answered {"decision":"decline"}`) || strings.Contains(c.screen(), "seat (") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
}

func TestTerminalPromptLeftOpen(t *testing.T) {
	t.Parallel()
	c := open(t, 80, 24, nil, "run", "ask")
	c.until("leave it open: ")
	c.typed("\x04")
	if code := c.exit(); code != ExitPaused {
		t.Errorf("exit code %d", code)
	}
	c.until("Workflow paused after 1s")
}

func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	c := open(t, 80, 24, nil, "run", "slow", "ms=20000")
	c.until("wait/t00")
	c.typed("\x03")
	if code := c.exit(); code != ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	c.until("superstep runs resume ")
	c = open(t, 80, 24, nil, "run", "ask")
	c.until("leave it open: ")
	c.typed("\x03")
	if code := c.exit(); code != ExitInterrupted {
		t.Errorf("exit code %d at a prompt", code)
	}
}

// Somebody else may cancel a run that waits at a prompt.
func TestTerminalPromptCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{"SUPERSTEP_DATA_DIR=" + dir}
	c := open(t, 80, 24, env, "run", "ask")
	c.until("leave it open: ")
	for command, want := range map[string]string{
		"runs list": " waiting (needs you: 1 question) ", "runs show @last": "  waiting  ask", "runs show @last -o json": `"status": "waiting"`,
		"workflows graph --run @last": " (waiting)",
	} {
		look := exec.Command(c.cmd.Path, strings.Fields(command)...)
		look.Env = c.cmd.Env
		if out, err := look.CombinedOutput(); err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "running") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	cancel := exec.Command(c.cmd.Path, "runs", "cancel", "@last")
	cancel.Env = c.cmd.Env
	if out, err := cancel.CombinedOutput(); err != nil || !strings.Contains(string(out), "is cancelled") {
		t.Errorf("%v\n%s", err, out)
		c.typed("\x03")
	}
	c.until("was cancelled")
	if code := c.exit(); code != ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

func TestTerminalPlain(t *testing.T) {
	t.Parallel()
	c := open(t, 80, 24, []string{"TERM=dumb"}, "run", "slow", "ms=50", "tasks=3")
	if code := c.exit(); code != 0 || strings.Contains(c.screen(), "\x1b") || decorated(c.screen()) != "" {
		t.Errorf("exit code %d, and on a dumb terminal: %q", code, c.screen())
	}
	c = open(t, 80, 24, []string{"NO_COLOR=1"}, "run", "slow", "ms=200", "tasks=3")
	if code := c.exit(); code != 0 || !strings.Contains(c.screen(), "\x1b[J") || regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(c.screen()) {
		t.Errorf("NO_COLOR has the view without colors: exit code %d\n%q", code, c.screen())
	}
}

// screenOf is what a terminal of that many columns shows after all that was written to it, as far as the view uses it. It has
// no last row.
func screenOf(raw string, width int) []string {
	rows, row, col := []string{""}, 0, 0
	for raw != "" {
		var n int
		if _, err := fmt.Sscanf(raw, "\x1b[%dA", &n); err == nil {
			row, raw = max(0, row-n), raw[strings.IndexByte(raw, 'A')+1:]
			continue
		}
		if rest, ok := strings.CutPrefix(raw, "\x1b[J"); ok {
			rows = rows[:row+1]
			rows[row] = string([]rune(rows[row])[:col])
			raw = rest
			continue
		}
		if m := regexp.MustCompile("^\x1b\\[[0-9;?]*[a-zA-Z]").FindString(raw); m != "" {
			raw = raw[len(m):]
			continue
		}
		r, size := utf8.DecodeRuneInString(raw)
		raw = raw[size:]
		switch r {
		case '\r':
			col = 0
		case '\n':
			row++
		case '\a':
		default:
			if col == width {
				row, col = row+1, 0
			}
			for len(rows) <= row {
				rows = append(rows, "")
			}
			line := []rune(rows[row])
			for len(line) <= col {
				line = append(line, ' ')
			}
			line[col] = r
			rows[row], col = string(line), col+1
		}
		for len(rows) <= row {
			rows = append(rows, "")
		}
	}
	return rows
}

// What is no record of the run is shown above the block, whole, and leaves nothing behind.
func TestTerminalNotice(t *testing.T) {
	t.Parallel()
	c := open(t, 60, 20, nil, "run", "noticing")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := strings.Join(screenOf(c.screen(), 60), "\n")
	if !strings.Contains(strings.Join(strings.Fields(text), " "), "the agent reviewer "+strings.Repeat("is a long story ", 6)+"and ends") {
		t.Errorf("the notice is not whole:\n%s", text)
	}
	if n := strings.Count(text, "── Step:"); n != 1 || strings.Contains(text, "(running)") {
		t.Errorf("%d dividers are left:\n%s", n, text)
	}
}

// Keys do nothing to the view, and are for nobody once it is gone.
func TestTerminalKeys(t *testing.T) {
	t.Parallel()
	c := open(t, 80, 24, nil, "run", "slow", "ms=1500")
	c.untilAfter("wait/t00", "s\x1b[0m\r\n")
	time.Sleep(200 * time.Millisecond)
	c.typed("abc\n\nrm -r x\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := strings.Join(screenOf(c.screen(), 80), "\n")
	if strings.Contains(text, "abc") || strings.Contains(text, "rm -r") || strings.Contains(text, "(running)") {
		t.Errorf("typed text is shown, or leaves lines behind:\n%s", text)
	}
}

// After a resize the view is drawn below what is on the screen, and moves the cursor nowhere above that.
func TestTerminalResize(t *testing.T) {
	t.Parallel()
	c := open(t, 60, 20, nil, "run", "slow", "ms=5000") // long enough for both widths
	c.untilAfter("wait/t00", "s\x1b[0m\r\n")
	for _, width := range []uint16{40, 100} {
		before := len(c.screen())
		c.resize(width, 20)
		c.untilFrom(before, "── Step: wait (running)")
	}
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := strings.Join(screenOf(c.screen(), 100), "\n"); !strings.HasPrefix(text, "slow run ") || !strings.Contains(text, "── Step: first ✓") {
		t.Errorf("the first lines are gone:\n%s", text)
	}
}

// Ctrl-\ stops the run like Ctrl-C, at once if it is pressed again, and nothing is dumped.
func TestTerminalQuit(t *testing.T) {
	t.Parallel()
	c := open(t, 80, 24, nil, "run", "slow", "ms=20000")
	c.untilAfter("wait/t00", "s\x1b[0m\r\n")
	c.typed("\x1c")
	if code := c.exit(); code != ExitInterrupted || strings.Contains(c.screen(), "goroutine ") || !strings.Contains(c.screen(), "superstep runs resume ") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
}

// Under a shell the view leaves the screen to it while the run is stopped or in the background.
func TestTerminalJobControl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
	c := openCommand(t, "", 80, 24, []string{"PS1=$ ", "PATH=" + os.Getenv("PATH")}, "bash", "--norc", "--noprofile", "-i")
	c.until("$ ")
	c.typed("superstep run slow ms=8000\n") // longer than it is stopped
	c.untilAfter("wait/t00", "s\x1b[0m\r\n")
	time.Sleep(300 * time.Millisecond)
	c.typed("\x1a")
	c.until("Stopped")
	c.typed("stty -a | grep -o ' echo '; echo be''fore\n")
	c.untilAfter(" echo ", "before")
	c.typed("fg\n")
	c.untilAfter("before", "── Step: wait (running)")
	c.until("Workflow completed in")
	mark := len(c.screen())
	c.typed("superstep run slow ms=1500 & sleep 0.7; echo un''touched\n")
	c.untilFrom(mark, "untouched")
	c.untilFrom(mark, "Workflow completed in")
	time.Sleep(100 * time.Millisecond)
	if text := c.screen()[mark:]; strings.Contains(text, "(running)") || strings.Contains(text, "\x1b[J") || strings.Count(text, "slow\x1b[0m") != 1 {
		t.Errorf("drawn from the background:\n%q", text)
	}
	c.typed("exit\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := strings.Join(screenOf(c.screen()[:mark], 80), "\n"); !strings.Contains(text, "before") || !strings.Contains(text, "Stopped") {
		t.Errorf("what the shell wrote was erased:\n%s", text)
	}
}

// Neither help nor errors leave it to the terminal where lines are broken.
func TestTerminalWidth(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"trust", "--help"}, {"--help"}, {"run", "hello", "--help"}, {"runs", "diff", "a"}} {
		c := open(t, 60, 24, nil, args...)
		c.exit()
		for line := range strings.SplitSeq(ansi.Strip(c.screen()), "\r\n") {
			command := strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") // or what one is for
			if ansi.StringWidth(line) > 60 && !command {
				t.Errorf("%q: %q", args, line)
			}
		}
	}
}

func TestTerminalSeveral(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recipe := `name: parts
steps:
  - id: which
    ask:
      header: Parts
      question: Which of them?
      options: [{label: intro, description: a page to begin with}, body, "notes, all"]
      several: true
      default: [body]
output: "{{steps.which.output}}"
`
	if err := os.WriteFile(filepath.Join(dir, "parts.yaml"), []byte(recipe), 0o600); err != nil {
		t.Fatal(err)
	}
	c := openIn(t, dir, 100, 24, nil, "run", "parts.yaml")
	c.until("Answer 1-3, several with commas, Enter for [\"body\"], Ctrl-D to leave it open: ")
	for _, want := range []string{"Parts: Which of them?", "1. intro       a page to begin with", "2. body        (default)"} {
		if !strings.Contains(c.screen(), want) {
			t.Errorf("it does not show %q:\n%s", want, c.screen())
		}
	}
	c.typed("1,4\n")
	c.until(`want one or more of intro, body, notes, all, with commas between, each once; got "1,4"`)
	c.typed("1, 3\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if flat := strings.Join(strings.Fields(c.screen()), ""); !strings.Contains(flat, `["intro","notes,all"]`) {
		t.Errorf("the answer did not arrive:\n%s", c.screen())
	}
}
