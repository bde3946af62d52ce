package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// timeTravel is the terminal on a screen of tmux, over a data folder of its own.
type timeTravel struct {
	t      *testing.T
	dir    string
	socket string
	env    []string
	data   string
}

// openTmux runs a workflow to its end, and then opens the terminal on a screen.
func openTmux(t *testing.T, width, height, workflow string) *timeTravel {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	dir, err := os.MkdirTemp("", "mux") //nolint:usetesting // t.TempDir may be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	x := &timeTravel{t: t, dir: dir, socket: filepath.Join(dir, "s"), data: filepath.Join(dir, "data")}
	x.env = append(os.Environ(), "SUPERSTEP_DATA_DIR="+x.data, "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "TERM=xterm-256color", "TMUX=")
	x.command("superstep", "run", workflow)
	x.command("tmux", "-S", x.socket, "-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", dir, "superstep")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() })
	return x
}

func (x *timeTravel) command(name string, args ...string) string {
	x.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = x.dir, x.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (x *timeTravel) screen() string {
	return x.command("tmux", "-S", x.socket, "capture-pane", "-p")
}

// keys presses keys by tmux's names, or types a text that begins with a quote.
func (x *timeTravel) keys(keys ...string) {
	x.t.Helper()
	for _, k := range keys {
		if text, ok := strings.CutPrefix(k, "'"); ok {
			x.command("tmux", "-S", x.socket, "send-keys", "-l", text)
		} else {
			x.command("tmux", "-S", x.socket, "send-keys", k)
		}
	}
}

// until waits for all of some texts on the screen, and returns it: another look may find it half drawn.
func (x *timeTravel) until(texts ...string) string {
	x.t.Helper()
	missing := func(s string) string {
		for _, text := range texts {
			if !strings.Contains(s, text) {
				return text
			}
		}
		return ""
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		s := x.screen()
		text := missing(s)
		if text == "" {
			return s
		}
		if time.Now().After(end) {
			x.t.Fatalf("%q never came:\n%s", text, s)
		}
	}
}

// The history of a finished run is opened; the user goes back, forks there, and sees the fork complete, which a process of its own executes.
func TestTmuxForkFromHistory(t *testing.T) {
	t.Parallel()
	x := openTmux(t, "110", "30", "gather")
	x.until("superstep")
	x.keys("'/history @last", "Enter")
	found := regexp.MustCompile(`(?:gather|run) ([0-9a-f]{8})`).FindStringSubmatch(x.until("TIME TRAVEL", "completed", "step 3"))
	if found == nil {
		t.Fatal("the run has no name")
	}
	first := found[1]
	x.keys("{", "{")
	x.until("step 2, committed", `auth  "found"`)
	x.keys("f")
	x.until("FORK at record", "replayed from the log, $0.00", "computed next: brief", "Run "+first+" stays as it is")
	x.keys("Enter")
	x.until("forked from run "+first, "completed in")
	list := x.command("superstep", "runs", "list", "-o", "jsonl")
	if strings.Count(list, `"completed"`) != 2 || !strings.Contains(list, `"parent":"`+first+`"`) {
		t.Errorf("the runs are\n%s", list)
	}
}

// With an edited field of the state the fork computes something else, and a run is left open for another look.
func TestTmuxEditAndFork(t *testing.T) {
	t.Parallel()
	x := openTmux(t, "110", "30", "gather")
	x.until("superstep")
	x.keys("'/history @last", "Enter")
	x.until("TIME TRAVEL", "completed")
	x.keys("{", "{")
	x.until("step 2, committed", `api  "found"`)
	x.keys("e")
	x.until("EDIT the field api of the state")
	for range len(`"found"`) {
		x.keys("BSpace")
	}
	x.keys("'nothing", "C-s")
	x.until("FORK at record", `~ api  "found" → "nothing"`)
	x.keys("Enter")
	x.until("completed in")
	if out := x.command("superstep", "runs", "show", "@last", "-q"); !strings.Contains(out, "auth found, api nothing") {
		t.Errorf("the fork gave\n%s", out)
	}
	x.keys("Tab", "g")
	x.until("GRAPH", "critical path: brief", "plan ↩ kept")
	x.command("tmux", "-S", x.socket, "resize-window", "-x", "50", "-y", "20")
	x.until("gather ↩ kept\n")
	x.keys("q", "Tab", "h")
	x.until("TIME ", "state @", "completed")
}
