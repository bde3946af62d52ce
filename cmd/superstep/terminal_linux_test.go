package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// A seat is a person at a terminal: the built command in tmux, and a model that repeats what it is told. It waits before it answers what has
// "slow" in it.
type seat struct {
	t      *testing.T
	binary string
	dir    string // the project
	home   string
	socket string
	env    []string

	mu   sync.Mutex
	gate chan struct{}
}

const greetRecipe = `name: greet
description: Greets somebody
inputs:
  - {name: who, description: Who is greeted, required: true}
  - {name: how, description: In which manner, enum: [short, long], default: short}
steps:
  - {id: say, subagent: general-purpose, prompt: "Greet {{inputs.who}} in a {{inputs.how}} way."}
output: "{{steps.say.output}}"
`

const quizRecipe = `name: quiz
description: Asks something that has a default
steps:
  - {id: colour, ask: {question: "Which colour?", options: [red, green], default: red}}
output: "It is {{steps.colour.output}}."
`

func newSeat(t *testing.T) *seat {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	short := t.TempDir()
	s := &seat{t: t, dir: t.TempDir(), home: t.TempDir(), socket: filepath.Join(short, "s"), gate: make(chan struct{})}
	recipes := filepath.Join(s.home, ".config", "superstep", "workflows")
	for name, text := range map[string]string{filepath.Join(recipes, "greet.yaml"): greetRecipe, filepath.Join(recipes, "quiz.yaml"): quizRecipe,
		filepath.Join(s.dir, "guide.md"):   "# A guide\n",
		filepath.Join(s.dir, ".gitignore"): "*.log\n", filepath.Join(s.dir, "guidance.log"): "x"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		text := ""
		for _, m := range r.Messages {
			if m.Role == model.User {
				text = m.Text()
			}
		}
		if strings.Contains(text, "slow") {
			s.mu.Lock()
			gate := s.gate
			s.mu.Unlock()
			select {
			case <-gate:
			case <-r.Gone:
			case <-time.After(time.Minute):
			}
		}
		return modeltest.Text("Heard: " + text)
	}, nil)
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "OPENAI_BASE_URL=" + server.URL, "OPENAI_API_KEY=none", "LANG=C.UTF-8",
		"XDG_RUNTIME_DIR=" + short, "TERM=xterm-256color"}
	t.Cleanup(func() { // before the server is closed
		_ = s.tmux("kill-server").Run()
		out, _ := s.command("runs", "list", "-o", "json").Output()
		var runs []struct{ ID, Status string }
		_ = json.Unmarshal(out, &runs)
		for _, r := range runs {
			_ = s.command("runs", "cancel", r.ID).Run()
		}
	})
	return s
}

func (s *seat) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", s.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = s.env
	return cmd
}

func (s *seat) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// open opens the terminal.
func (s *seat) open(args ...string) {
	s.t.Helper()
	line := append([]string{"new-session", "-d", "-x", "100", "-y", "30", "-c", s.dir, "--", s.binary}, args...)
	if out, err := s.tmux(line...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux: %v\n%s", err, out)
	}
	s.until("Enter send")
}

// kill ends the terminal as a crash would.
func (s *seat) kill() {
	s.t.Helper()
	out, err := s.tmux("display-message", "-p", "#{pane_pid} #{pid}").Output()
	pane, server, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err == nil {
		err = exec.Command("kill", "-9", pane).Run()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); exec.Command("kill", "-0", server).Run() == nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	} // a server that ends has no session any more and still takes the next one
}

// drafted waits until a draft that is kept has a text.
func (s *seat) drafted(text string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(s.home, ".local", "share", "superstep", "terminal", "drafts", "*"))
		for _, f := range files {
			if b, _ := os.ReadFile(f); strings.Contains(string(b), text) {
				return
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("%q is in none of the drafts %q", text, files)
		}
	}
}

// keys presses keys by their names in tmux.
func (s *seat) keys(keys ...string) {
	s.t.Helper()
	if out, err := s.tmux(append([]string{"send-keys", "--"}, keys...)...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

func (s *seat) screen() string {
	out, _ := s.tmux("capture-pane", "-p").Output()
	return string(out)
}

func (s *seat) until(text string) {
	s.t.Helper()
	s.wait(text, true)
}

func (s *seat) gone(text string) {
	s.t.Helper()
	s.wait(text, false)
}

func (s *seat) wait(text string, there bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); strings.Contains(s.screen(), text) != there; time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%q: want %t:\n%s", text, there, s.screen())
		}
	}
}

// A chat is steered while its agent works, survives the death of its terminal with what was being typed, and goes on in the next one. A workflow is
// asked for what it lacks, a file is completed, and a shell command runs.
func TestTerminalChat(t *testing.T) {
	binary := faults.Failpoints(t)
	t.Run("chat", func(t *testing.T) {
		s := newSeat(t)
		s.binary = binary
		s.open()
		s.keys("first words", "Enter")
		s.until("Heard: first words")
		s.keys("a slow one", "Enter")
		s.until("> a slow one")
		s.until("thinking")
		s.keys("and be brief", "Enter")
		s.until("queued: and be brief")
		s.keys("half a th", "C-j", "ought")
		s.drafted("ought")
		s.kill()

		s.open("runs", "open", "@last")
		for _, want := range []string{"first words", "Heard: first words", "> a slow one", "queued: and be brief", "> half a th", "ought"} {
			s.until(want)
		}
		s.mu.Lock()
		close(s.gate)
		s.mu.Unlock()
		s.until("Heard: and be brief")
		s.keys("Enter")
		s.until("Heard: half a th")
		s.gone("queued:")
		s.keys("Up")
		s.until("ought\n Enter send")
		s.keys("C-c", "/FORK 1", "Enter")
		s.until("forked from run")
		s.until("> half a th")
		s.keys("Escape")
		time.Sleep(100 * time.Millisecond)
		s.keys("C-c", "/new", "Enter")
		s.gone("forked from")
		s.gone("Heard:")
		s.keys("C-r", "first")
		s.until("> first words")
		s.keys("Enter", "C-c", "C-d")
	})
	t.Run("workflow", func(t *testing.T) {
		s := newSeat(t)
		s.binary = binary
		s.open()
		s.keys("/gre")
		s.until("▸ /greet")
		s.keys("Tab")
		s.until("who=STRING [how=short|long]")
		s.keys("how=long", "Enter")
		s.until("▸ who *")
		s.keys("Enter")
		s.until("✗ who is required")
		s.keys("the world", "Enter", "Enter")
		s.until("▸ start the run")
		s.keys("Enter")
		s.until("Greet the world in a long way.")
		s.until("completed in")
		s.keys("/quiz", "Enter") // somebody is here: the default does not answer
		s.until("a number answers")
		s.keys("2")
		s.until("It is green.")
		s.keys("read @gui")
		s.until("▸ @guide.md")
		if strings.Contains(s.screen(), "guidance.log") {
			t.Errorf("an ignored file is offered:\n%s", s.screen())
		}
		s.keys("Tab")
		s.until("> read @guide.md")
		s.keys("C-c", "!cat guide.md; echo 1$((1+1))3", "Enter")
		s.until("# A guide")
		s.until("123")
		s.keys("a")
		s.until("[#1 pasted 3 lines]")
	})
}
