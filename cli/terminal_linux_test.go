package cli

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// desk is a user with a folder, a model, and terminals in tmux.
type desk struct {
	t      *testing.T
	dir    string
	env    []string
	socket string
	binary string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux here:", err)
	}
	root := t.TempDir()
	d := &desk{t: t, dir: filepath.Join(root, "proj"), socket: filepath.Join(root, "tmux"), binary: filepath.Join(whole(t), "superstep")}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := modeltest.NewServer(t, atDesk, nil)
	d.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + root, "XDG_CONFIG_HOME=" + root + "/config", "SUPERSTEP_DATA_DIR=" + root + "/data", "TERM=xterm-256color",
		"LANG=C.UTF-8", "OPENAI_API_KEY=sk-0123456789abcdef", "OPENAI_BASE_URL=" + server.URL, "SUPERSTEP_MODEL=openai/gpt-test",
	}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", d.socket, "kill-server").Run()
		for _, pid := range d.executing() { // detached, and of no use to anybody now
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for end := time.Now().Add(5 * time.Second); os.RemoveAll(root) != nil && time.Now().Before(end); { // terminals that end may still write
			time.Sleep(20 * time.Millisecond)
		}
	})
	d.open("keep", "true") // the server ends with its last session
	return d
}

// atDesk asks, takes its time, or says what it was told.
func atDesk(r *modeltest.ParsedRequest) modeltest.Reply {
	last := r.Messages[len(r.Messages)-1]
	for _, p := range last.Parts {
		if p.Kind == model.Result {
			return modeltest.Text("It is " + p.Text + ", then.")
		}
	}
	switch text := last.Text(); {
	case strings.Contains(text, "ASK"):
		return modeltest.Reply{Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{
			ID: "q", Name: "ask_user", Args: json.RawMessage(`{"question":"Which region?","options":["eu","us"]}`),
		}}}}
	case strings.Contains(text, "SLOW"):
		if r.Attempt > 1 {
			return modeltest.Text("Slow and done.")
		}
		return modeltest.Reply{Fault: modeltest.Silent}
	default:
		return modeltest.Text("You said " + text)
	}
}

func (d *desk) tmux(args ...string) string {
	d.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", d.socket, "-f", "/dev/null"}, args...)...)
	cmd.Dir, cmd.Env = d.dir, d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// open opens a terminal that runs a command line in a shell.
func (d *desk) open(name string, command string) {
	d.t.Helper()
	d.tmux("new-session", "-d", "-s", name, "-x", "100", "-y", "30", command+"; echo exit $?; exec cat")
}

func (d *desk) keys(name string, keys ...string) {
	d.t.Helper()
	d.tmux(append([]string{"send-keys", "-t", name + ":"}, keys...)...)
}

// until waits until a terminal shows all texts, and returns its picture.
func (d *desk) until(name string, texts ...string) string {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		picture := d.tmux("capture-pane", "-p", "-t", name+":")
		missing := ""
		for _, text := range texts {
			if !strings.Contains(picture, text) {
				missing = text
			}
		}
		if missing == "" {
			return picture
		}
		if time.Now().After(end) {
			d.t.Fatalf("%q never came:\n%s", missing, picture)
		}
	}
}

// press presses a key until a terminal shows all texts: again each time its card says that it has only just come.
func (d *desk) press(name, key string, texts ...string) {
	d.t.Helper()
	for end, pressed := time.Now().Add(time.Minute), (time.Time{}); ; time.Sleep(50 * time.Millisecond) {
		picture := d.tmux("capture-pane", "-p", "-t", name+":")
		missing := has(picture, texts...)
		switch {
		case missing == "" && !pressed.IsZero():
			return
		case time.Now().After(end):
			d.t.Fatalf("%q never came:\n%s", missing, picture)
		case pressed.IsZero(), strings.Contains(picture, "press the key again") && time.Since(pressed) > time.Second:
			d.keys(name, key)
			pressed = time.Now()
		}
	}
}

// executing returns the processes that execute runs of the desk.
func (d *desk) executing() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(line), d.binary+"\x00") || !strings.Contains(string(line), "--detached=") {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "environ"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && strings.Contains(string(environ), d.dir[:len(d.dir)-len("proj")]+"data") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Two terminals show the same run. What waits is on top of a third one, and gone from there when it is answered in the inbox of a fourth.
func TestTerminalAttach(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open("a", d.binary)
	d.until("a", "superstep", "gpt-test")
	d.keys("a", "ASK me", "Enter")
	d.until("a", "ask_user")
	d.open("b", d.binary)
	d.until("b", "Needs you (1)", "asks: Which region?")
	d.keys("b", "Tab", "r")
	d.until("b", "RUNS", "needs you", "ASK me")
	d.keys("b", "Enter")
	d.until("b", "> ASK me", "ask_user")
	d.open("c", d.binary)
	d.until("c", "Needs you (1)")
	d.open("d", d.binary)
	d.until("d", "Needs you (1)")
	d.keys("d", "Tab", "i")
	d.until("d", "1 question in 1 run", "asks: Which region?")
	d.keys("d", "Enter")
	d.until("d", "INBOX", "2 us", "1-2 answer") // its card, over the inbox
	d.press("d", "2", "INBOX", "Nothing waits for you")
	for _, name := range []string{"a", "b"} {
		d.until(name, "It is us, then.")
	}
	for end := time.Now().Add(time.Minute); strings.Contains(d.tmux("capture-pane", "-p", "-t", "c:"), "Needs you"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it still needs an answer:\n%s", d.until("c"))
		}
	}
	d.until("c", "Recent", "your turn", "ASK me")
}

// A terminal that is killed stops no run. A process that is killed stops its run, which the terminal says, and resumes.
func TestTerminalKills(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open("a", d.binary)
	d.until("a", "gpt-test")
	d.keys("a", "SLOW work", "Enter")
	d.until("a", "thinking")
	pid, err := strconv.Atoi(strings.TrimSpace(d.tmux("display-message", "-p", "-t", "a:", "#{pane_pid}")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil { // the shell, and the terminal in its group
		t.Fatal(err)
	}
	if len(d.executing()) != 1 {
		t.Fatalf("the processes that execute runs: %v", d.executing())
	}
	d.open("b", d.binary)
	d.until("b", "Running", "SLOW work")
	d.keys("b", "Tab", "Enter")
	d.until("b", "> SLOW work", "thinking")
	for _, pid := range d.executing() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	killed := time.Now()
	d.until("b", "No process executes it", "/resume")
	if took := time.Since(killed); took > faults.Bound(10*time.Second) {
		t.Errorf("it was said after %s", took)
	}
	d.open("c", d.binary)
	d.until("c", "interrupted", "SLOW work")
	d.keys("b", "/resume", "Enter")
	d.until("b", "Slow and done.")
	d.keys("c", "Tab", "Enter") // that this one resumed it is seen here, too
	d.until("c", "Slow and done.")
}

// The first frame waits for nothing: not for a server of models on this machine that does not answer, and not for a network.
func TestTerminalFirstFrame(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(whole(t), "superstep")
	stuck, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	env := []string{"OLLAMA_HOST=" + stuck.Addr().String(), "HTTPS_PROXY=http://192.0.2.1:1", "HTTP_PROXY=http://192.0.2.1:1"}
	best := time.Hour
	for range 3 {
		start := time.Now()
		c := openCommand(t, t.TempDir(), 100, 30, env, binary)
		for !strings.Contains(c.screen(), "superstep") {
			if time.Since(start) > 20*time.Second {
				t.Fatalf("no frame:\n%q", c.screen())
			}
			time.Sleep(time.Millisecond)
		}
		best = min(best, time.Since(start))
		c.until("No model yet.")
		c.typed("\x03\x03")
		if code := c.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	t.Logf("the first frame came after %s", best)
	if best > faults.Bound(2*time.Second) { // ten times what is wanted
		t.Errorf("the first frame came after %s", best)
	}
}

// Convention 29: whatever ends the terminal gives the screen back, and the keys.
func TestTerminalRestored(t *testing.T) {
	t.Parallel()
	faults.HangsUp(t)
	binary := filepath.Join(whole(t), "superstep")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		c := openCommand(t, t.TempDir(), 100, 30, nil, binary)
		c.until("No model yet.")
		if state, err := unix.IoctlGetTermios(int(c.master.Fd()), unix.TCGETS); err != nil || state.Lflag&unix.ECHO != 0 {
			t.Errorf("%s: the terminal is not in its mode: %v", sig, err)
		}
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := c.exit(); code != 128+int(sig) {
			t.Errorf("%s: exit code %d", sig, code)
		}
		if state, err := unix.IoctlGetTermios(int(c.master.Fd()), unix.TCGETS); err == nil && state.Lflag&unix.ECHO == 0 {
			t.Errorf("%s: the terminal shows no keys any more", sig)
		}
		if raw := c.screen(); !strings.Contains(raw, "\x1b[?1049l") || !strings.Contains(raw, "\x1b[?25h") {
			t.Errorf("%s: the screen is not as it was:\n%q", sig, raw[max(0, len(raw)-400):])
		}
	}
}

// Convention 29: ^Z goes to the shell, and fg comes back.
func TestTerminalSuspend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open("a", "bash --norc -i")
	d.keys("a", d.binary, "Enter")
	d.until("a", "gpt-test")
	d.keys("a", "C-z")
	d.until("a", "Stopped")
	d.keys("a", "echo $((6*7))", "Enter")
	d.until("a", "42")
	d.keys("a", "fg", "Enter")
	picture := d.until("a", "gpt-test", "Workflows")
	if strings.Contains(picture, "Stopped") {
		t.Errorf("the screen of the shell is still there:\n%s", picture)
	}
	d.keys("a", "C-d")
	d.until("a", "Stopped") // the shell's screen, as it was
}

// Convention 30: the terminal captures no mouse, so that texts are selected as everywhere else; not in a run, a list or a page either.
func TestConvention30NativeSelection(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open("a", d.binary)
	for _, step := range [][]string{{"gpt-test"}, {"You said hello", "hello", "Enter"}, {"KEYS", "Tab", "?"}, {"RUNS", "q", "Tab", "r"}} {
		if len(step) > 1 {
			d.keys("a", step[1:]...)
		}
		d.until("a", step[0])
		if got := strings.TrimSpace(d.tmux("display-message", "-p", "-t", "a:", "#{alternate_on} #{mouse_any_flag} #{mouse_button_flag} #{mouse_sgr_flag}")); got != "1 0 0 0" {
			t.Errorf("at %s: %s", step[0], got)
		}
	}
}

// Convention 29: the terminal follows the size of its window, from 40 to 200 columns and back, and goes on.
func TestConvention29Resize(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open("a", d.binary)
	d.until("a", "gpt-test")
	d.keys("a", "hello", "Enter")
	d.until("a", "You said hello")
	for _, size := range [][2]string{{"40", "12"}, {"200", "60"}, {"10", "3"}, {"60", "20"}, {"250", "30"}, {"100", "30"}} {
		d.tmux("resize-window", "-t", "a:", "-x", size[0], "-y", size[1])
		if size[0] == "10" {
			d.until("a", "too small")
			continue
		}
		height, err := strconv.Atoi(strings.TrimSpace(d.tmux("display-message", "-p", "-t", "a:", "#{pane_height}")))
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // until it is drawn anew, down to the last row
			picture := d.until("a", "You said hello")
			if rows := strings.Split(picture, "\n"); len(rows) >= height && strings.Contains(rows[height-1], "Enter send") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("at %s columns and %d rows:\n%s", size[0], height, picture)
			}
		}
	}
	d.keys("a", "again", "Enter")
	d.until("a", "You said again")
}
