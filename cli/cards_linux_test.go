package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A cardSeat is a person at the terminal in tmux, with the built command and a workflow that asks.
type cardSeat struct {
	t                         *testing.T
	dir, home, socket, binary string
	env                       []string
}

const cardRecipe = `name: mix
steps:
  - {id: touch, tool: bash, args: {command: "touch made && echo done"}}
  - {id: who, depends_on: [touch], ask: "Who reads it?"}
  - id: details
    depends_on: [who]
    ask:
      question: What is it to be?
      form:
        - {name: pages, type: integer, required: true, description: how many}
        - {name: tone, enum: [plain, formal], default: plain}
  - {id: say, depends_on: [details], ask: "Say it.", gate: human}
output: "{{steps.who.output}}, {{steps.details.output.pages}} {{steps.details.output.tone}}, {{steps.say.output}}"
`

const pairRecipe = `name: pair
steps:
  - {id: touch, tool: bash, args: {command: "touch made && echo done"}}
  - {id: who, ask: "Who reads it?"}
`

func newCardSeat(t *testing.T) *cardSeat {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux here:", err)
	}
	short, err := os.MkdirTemp("", "cards") //nolint:usetesting // t.TempDir may be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &cardSeat{t: t, dir: t.TempDir(), home: t.TempDir(), socket: filepath.Join(short, "s"), binary: filepath.Join(whole(t), "superstep")}
	recipes := filepath.Join(s.home, ".config", "superstep", "workflows")
	if err := os.MkdirAll(recipes, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mix.yaml": cardRecipe, "pair.yaml": pairRecipe} {
		if err := os.WriteFile(filepath.Join(recipes, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "LANG=C.UTF-8", "TERM=xterm-256color", "XDG_RUNTIME_DIR=" + short, "SUPERSTEP_DATA_DIR=" + filepath.Join(s.home, "data")}
	t.Cleanup(func() {
		_ = s.tmux("kill-server").Run()
		_ = s.command("runs", "cancel", "@last").Run()
		_ = os.RemoveAll(short)
	})
	return s
}

func (s *cardSeat) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", s.socket, "-f", "/dev/null"}, args...)...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

func (s *cardSeat) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// begin starts the workflow in a process of its own, which crashes once it has asked.
func (s *cardSeat) begin(workflow string, asks ...string) (run string) {
	s.t.Helper()
	out, err := s.command("run", workflow, "--detach", "--ask", "bash", "-o", "json").Output()
	var p struct {
		Run string
		PID int
	}
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	s.shows(p.Run, asks...)
	s.crash(p.PID)
	return p.Run
}

// shows waits until the command line shows something of a run.
func (s *cardSeat) shows(run string, texts ...string) {
	s.t.Helper()
	var out []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, _ = s.command("runs", "show", run).CombinedOutput()
		if has(string(out), texts...) == "" {
			return
		}
	}
	s.t.Fatalf("%q is not shown of the run:\n%s", texts, out)
}

func (s *cardSeat) crash(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// has returns the first text that is missing, "" for none.
func has(s string, texts ...string) string {
	for _, text := range texts {
		if !strings.Contains(s, text) {
			return text
		}
	}
	return ""
}

func (s *cardSeat) open() {
	s.t.Helper()
	if out, err := s.tmux("new-session", "-d", "-x", "100", "-y", "30", "-c", s.dir, "--", s.binary).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux: %v\n%s", err, out)
	}
	s.until("^D leave")
}

func (s *cardSeat) keys(keys ...string) {
	s.t.Helper()
	if out, err := s.tmux(append([]string{"send-keys", "--"}, keys...)...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

func (s *cardSeat) screen() string {
	out, _ := s.tmux("capture-pane", "-p").Output()
	return string(out)
}

func (s *cardSeat) until(texts ...string) string {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		picture := s.screen()
		missing := has(picture, texts...)
		if missing == "" {
			return picture
		}
		if time.Now().After(end) {
			s.t.Fatalf("%q never came:\n%s", missing, picture)
		}
	}
}

// press presses a key until the screen shows all texts: again each time the card says that it has only just come.
func (s *cardSeat) press(key string, texts ...string) {
	s.t.Helper()
	for end, pressed := time.Now().Add(time.Minute), (time.Time{}); ; time.Sleep(50 * time.Millisecond) {
		picture := s.screen()
		missing := has(picture, texts...)
		switch {
		case missing == "" && !pressed.IsZero():
			return
		case time.Now().After(end):
			s.t.Fatalf("%q never came:\n%s", missing, picture)
		case pressed.IsZero(), strings.Contains(picture, "press the key again") && time.Since(pressed) > time.Second:
			s.keys(key)
			pressed = time.Now()
		}
	}
}

// A crashed run is resumed, and all that it asks is answered on the screen. What was typed too early answers nothing. Where the process crashes again,
// the answer resumes the run.
func TestTerminalCards(t *testing.T) {
	t.Parallel()
	s := newCardSeat(t)
	run := s.begin("mix", "touch made")
	s.open()
	s.keys("/resume "+run, "Enter")
	s.until("needs you")
	s.keys("1", "1", "1", "Enter", "1") // as if it had been typed ahead
	picture := s.until("run "+run+" · touch wants to run a command", "$ touch made && echo done", "sandbox: ", "? touch made", "Tab to answer", "> 1")
	if strings.Contains(picture, "→ once") {
		t.Fatalf("what was typed early has answered:\n%s", picture)
	}
	s.keys("C-c")
	s.until("a number answers")
	s.keys("1")
	s.until("run "+run+" · who asks", "Tab to answer")
	s.keys("Tab", "every", "body")
	s.press("Enter", "1/2 pages (a whole number)")
	s.keys("Tab", "x")
	s.press("Enter", `pages: want a whole number, got "x"`)
	s.keys("BSpace", "7", "Enter")
	s.until("2/2 tone (1-2, Enter for plain)")
	s.keys("2", "Enter")
	s.until("say asks", "a number answers")
	s.keys("2")
	s.until("go on with instead> Say it.")
	s.keys(" Now.", "Enter")
	s.until("│ Say it. Now.", "answer>")
	// The process crashes, and the answer resumes the run.
	out, err := s.command("runs", "list", "-o", "json").Output()
	var list []struct{ Owner string }
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil || len(list) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	pid, err := strconv.Atoi(list[0].Owner[strings.LastIndexByte(list[0].Owner, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	s.crash(pid)
	s.keys("Tab", "well ", "said")
	s.press("Enter", "Workflow completed", "everybody, 7 formal, well said")
	if _, err := os.Stat(filepath.Join(s.dir, "made")); err != nil {
		t.Error(err)
	}
}

// A question that is answered elsewhere goes, and what was being typed for it answers no other. The title of the window tells that something waits.
func TestTerminalCardElsewhere(t *testing.T) {
	t.Parallel()
	s := newCardSeat(t)
	run := s.begin("pair", "touch made", "Who reads it?")
	s.open()
	s.keys("/resume "+run, "Enter")
	if picture := s.until("1 of 2 · run " + run); !strings.Contains(picture, "who asks") { // the one with a text
		s.keys("Escape")
	}
	s.until("who asks", "Tab to answer")
	s.keys("Tab", "1", "2")
	s.until("answer> 12")
	if title, _ := s.tmux("display-message", "-p", "#{pane_title}").Output(); !strings.HasPrefix(string(title), "? ") {
		t.Errorf("the title of the window is %q", title)
	}
	typing, stop := context.WithCancel(t.Context())
	defer stop()
	hands := s.tmux("-C", "attach", "-f", "ignore-size") // one process for all keys: there must be no pause in which a question counts as seen
	keyboard, err := hands.StdinPipe()
	if err == nil {
		err = hands.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var typist sync.WaitGroup
	typist.Go(func() {
		for typing.Err() == nil {
			_, _ = io.WriteString(keyboard, "send-keys 1\n")
			time.Sleep(20 * time.Millisecond)
		}
		_ = keyboard.Close()
		_ = hands.Wait()
	})
	out, err := s.command("runs", "answer", run, "who=nobody").CombinedOutput()
	if err == nil {
		s.until("✓ who", "> 11")
	}
	stop()
	typist.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.keys("C-u")
	if strings.Contains(s.screen(), "put away: Tab") {
		s.keys("Tab")
	}
	s.until("wants to run a command")
	if err := s.tmux("resize-window", "-x", "44", "-y", "16").Run(); err != nil {
		t.Fatal(err)
	}
	s.until("touch made", "4 deny")
	if err := s.tmux("resize-window", "-x", "100", "-y", "30").Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.screen(), "1-5 answer") { // the composer has the focus
		s.until("a number answers")
	}
	s.press("5", "why> ")
	s.keys("not now", "Enter")
	s.shows(run, "not now")
	if _, err := os.Stat(filepath.Join(s.dir, "made")); err == nil {
		t.Error("a denied command has run")
	}
}
