package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// console is a command on a terminal of its own.
type console struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	done   chan struct{}

	mu   sync.Mutex
	seen strings.Builder
}

func open(t *testing.T, width, height uint16, env []string, args ...string) *console {
	t.Helper()
	path, err := exec.LookPath("superstep")
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
	c := &console{t: t, master: master, done: make(chan struct{})}
	c.resize(width, height)
	c.cmd = exec.Command(path, args...)
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

func (c *console) resize(width, height uint16) {
	if err := unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.String()
}

// until waits for text on the terminal.
func (c *console) until(text string) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(c.screen(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%q never came:\n%q", text, c.screen())
		}
	}
}

func (c *console) typed(text string) {
	if _, err := io.WriteString(c.master, text); err != nil {
		c.t.Fatal(err)
	}
}

// exit waits for the end and gives the exit code.
func (c *console) exit() int {
	c.t.Helper()
	err := c.cmd.Wait()
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
	c.until("+4 more")
	c.resize(30, 10)
	time.Sleep(250 * time.Millisecond)
	c.resize(100, 30)
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	raw := c.screen()
	for _, want := range []string{"\x1b[J", "── Step: wait (running) ── 0/12 done", " wait/t00  ", "── Step: first ✓ (0.0s) ──"} {
		if !strings.Contains(raw, want) {
			t.Errorf("no %q in\n%q", want, raw)
		}
	}
	text := ansi.Strip(raw)
	last := regexp.MustCompile(`(?m)^⣿ Workflow completed in [12]s · ↓ 0 tokens · 0 agents\r\n  Inspect superstep runs show [0-9a-f]{8}\r\n\z`)
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

// A wrong key at a question about a call asks the same question again, and answers no other.
func TestTerminalPermission(t *testing.T) {
	t.Parallel()
	c := open(t, 100, 24, nil, "run", "leave")
	c.until(`Answer 1-4, or "deny: why", Ctrl-D to leave it open: `)
	c.typed("purple\n")
	c.until(`answer 1-4, or "deny: why"; want one of once, run, always, deny, or deny: why`)
	c.typed("9\n")
	c.typed("n\n")
	c.until(`{"what":"b"}`)
	c.typed("1\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := ansi.Strip(c.screen())
	if !strings.Contains(text, "denied | put b") || strings.Contains(text, "anyOf") || strings.Count(text, "asks: May tester call put?") != 4 {
		t.Errorf("not as it was answered:\n%s", text)
	}
	c = open(t, 100, 24, nil, "run", "leave", "--on-ask", "deny")
	if code := c.exit(); code != ExitDenied || strings.Contains(c.screen(), "Ctrl-D") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
	c = open(t, 100, 24, nil, "run", "leave")
	c.until("leave it open: ")
	c.typed("maybe\n")
	c.until("want one of")
	c.typed("\x04")
	if code := c.exit(); code != ExitPaused {
		t.Errorf("exit code %d", code)
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
	c.until("Answer 1-3, Ctrl-D to leave it open: ")
	c.typed("2\n")
	c.until("Now:\r\n  Who?\r\n  \r\n  Say it.\r\n")
	c.until("Go on with instead, an empty line ends it: ")
	c.typed("\n") // not after all
	c.typed("edit\n")
	c.typed("Who reads it?\nAnd why?\n\n")
	c.until("who asks:\x1b[0m Who reads it?\r\nAnd why?\r\n")
	c.typed("everybody\n")
	if code := c.exit(); code != 0 || !strings.Contains(c.screen(), "\neverybody\r\n") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
	for typed, want := range map[string]string{"3\nit is late\n": "rejected by operator: it is late", "reject\n\n": "rejected by operator\r\n", "reject: no\n": "rejected by operator: no"} {
		c = open(t, 100, 30, nil, "run", path)
		c.until("leave it open: ")
		c.typed(typed)
		if code := c.exit(); code != ExitFailed || !strings.Contains(c.screen(), want) || !strings.Contains(c.screen(), "--from who") {
			t.Errorf("%q: exit code %d\n%s", typed, code, c.screen())
		}
	}
	path = recipeFile(t, "name: tooled\nsteps:\n  - {id: find, tool: glob, args: {pattern: '*.none'}, gate: human}\n")
	c = open(t, 100, 30, nil, "run", path)
	c.until("leave it open: ")
	c.typed("2\n")
	c.typed("every file\n\n")
	c.until("want a JSON object as the one there is")
	c.typed("{\"pattern\":\n\"form.go\"}\n\n")
	if code := c.exit(); code != 0 || !strings.Contains(c.screen(), "\nno file matches form.go;") {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
}

// A question that comes while something else is at work is announced, and put in the end.
func TestTerminalLater(t *testing.T) {
	t.Parallel()
	path := recipeFile(t, "name: later\nsteps:\n  - {id: slow, tool: bash, args: {command: sleep 2}}\n  - {id: who, ask: Who?}\n")
	c := open(t, 100, 30, nil, "run", path, "--allow", "bash(sleep *)")
	c.until("who has a question for you, for when nothing else can go on\r\n")
	if strings.Contains(c.screen(), "Step: slow") {
		t.Error("it was announced when the rest was done")
	}
	c.until("leave it open: ")
	c.typed("me\n")
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.screen())
	}
	if c = open(t, 100, 30, nil, "run", path, "--allow", "bash(sleep *)", "--answer", "who=me"); c.exit() != 0 || strings.Contains(c.screen(), "has a question") {
		t.Errorf("%s", c.screen())
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
	c.until("how many\r\npages (a whole number): ")
	c.typed("\n")
	c.until("pages is required")
	c.typed("some\n")
	c.until(`pages: want a whole number, got "some"`)
	c.typed("3\n")
	c.until("1. plain\r\n  2. formal\r\ntone (1-2, Enter for plain): ")
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
	cancel := exec.Command(c.cmd.Path, "runs", "cancel", "@last")
	cancel.Env = c.cmd.Env
	if out, err := cancel.CombinedOutput(); err != nil || !strings.Contains(string(out), "is cancelled") {
		t.Errorf("%v\n%s", err, out)
		c.typed("\x03")
	}
	c.until("was cancelled")
	if code := c.exit(); code != ExitFailed {
		t.Errorf("exit code %d", code)
	}
}

func TestTerminalPlain(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"ACCESSIBLE=1", "NO_COLOR=1", "TERM=dumb"} {
		c := open(t, 80, 24, []string{env}, "run", "slow", "ms=50", "tasks=3")
		if code := c.exit(); code != 0 {
			t.Errorf("%s: exit code %d", env, code)
		}
		if env != "ACCESSIBLE=1" && strings.Contains(c.screen(), "\x1b") {
			t.Errorf("%s: escape sequences: %q", env, c.screen())
		}
		if i := strings.IndexFunc(c.screen(), func(r rune) bool { return r >= 0x2500 && r < 0x2600 || r >= 0x2800 && r < 0x2900 }); i >= 0 {
			t.Errorf("%s: decoration: %q", env, c.screen()[i:])
		}
	}
	c := open(t, 80, 24, nil)
	if code := c.exit(); code != 0 || !strings.Contains(c.screen(), "superstep run hello") {
		t.Errorf("the greeting: exit code %d\n%s", code, c.screen())
	}
}
