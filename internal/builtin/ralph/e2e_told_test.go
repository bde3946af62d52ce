//go:build unix

package ralph_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/modeltest"
)

// more returns a site whose planner first plans task 1, and task 2 when the user asks for it.
func more(t *testing.T) *site {
	s := newSite(t, []siteTask{{ID: "1", Title: "Task 1"}, {ID: "2", Title: "Task 2"}})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = func(prompt string) []siteTask {
		if _, said, ok := strings.Cut(prompt, "Now the user says"); ok {
			if !strings.Contains(said, "also \"do\" 2") {
				t.Errorf("the planner hears %s", said)
			}
			return s.tasks[1:]
		}
		return s.tasks[:1]
	}
	return s
}

// TestTold adds to the plan of a run by what the user says when it is resumed.
func TestTold(t *testing.T) {
	t.Parallel()
	s := more(t)
	args := slices.DeleteFunc(siteRun(), func(arg string) bool { return arg == "--yes" })
	if out, code := s.superstep("", args...); code != 3 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	run, _ := s.run()
	if out, code := s.superstep("", "run", "ralph", "--resume", run, `also "do" 2`); code != 3 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	if out, code := s.superstep("", "runs", "answer", run, "approve"); code != 0 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	s.merged(run)
}

// TestYes stops before the plan that its user has said yes to is made: whoever resumes the run is not asked. What no command checks is told at both ends.
func TestYes(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair()[:1])
	think := s.think
	var up atomic.Bool
	s.server = modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		if !up.Load() {
			return modeltest.Reply{Status: 400, Message: "no such model"}
		}
		return think(r)
	}, nil)
	if out, code := s.superstep("", "run", "ralph", "Build all of it", "--yes", "-o", "jsonl"); code != 1 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	up.Store(true)
	run, _ := s.run()
	said, errs, code := s.outputs("", "runs", "resume", run)
	if code != 0 || !strings.Contains(said, "1 task merged without a check: any change passed.") || !strings.Contains(errs, "1 task without a check: any change passes") || strings.Contains(errs, "warning") {
		t.Errorf("exit code %d: %s\n%s", code, said, errs)
	}
	s.merged(run)
	if out, code := s.superstep("", "runs", "replay", run); code != 0 {
		t.Errorf("replay: exit code %d: %s", code, out)
	}
}

// TestPlanInQuestion has a plan of the user's. Without a terminal the run pauses and shows it as a table; its titles name the run.
func TestPlanInQuestion(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair())
	s.write("plan.yaml", "acceptance: [it works]\ntasks:\n- {id: '1', title: Task 1}\n- {id: '2', title: Task 2, blocked_by: [1]}\n")
	_, said, code := s.outputs("", "run", "ralph", "--plan", "plan.yaml", "--check", "sh check.sh")
	for _, want := range []string{`\[approve, edit: …, reject\]`, "approve asks: Work on this plan\\?.*", "1   Task 1", "2   Task 2 \\(after 1\\)", "- it works", "Check: sh check.sh"} {
		if !regexp.MustCompile("(?m)^  " + want + "$").MatchString(said) {
			t.Errorf("exit code %d, and no line %q in\n%s", code, want, said)
		}
	}
	if !regexp.MustCompile(`(?m) ask approve "Work on this plan.* …"$`).MatchString(said) || code != 3 {
		t.Errorf("exit code %d: %s", code, said)
	}
	if out, _ := s.superstep("", "runs", "list"); !strings.Contains(out, "  Task 1; Task 2\n") || len(s.server.Requests()) > 0 {
		t.Error(out)
	}
}

// TestTerminal runs the workflow in the terminal: a plan is approved there, and a text with --resume adds to it.
func TestTerminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux")
	}
	t.Parallel()
	s := more(t)
	socket := filepath.Join(t.TempDir(), "s")
	tmux := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Env = s.environ("TERM=xterm-256color", "LANG=C.UTF-8", "XDG_RUNTIME_DIR="+filepath.Dir(socket))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	until := func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			screen := tmux("capture-pane", "-p")
			if strings.Contains(screen, text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%q is not on the screen:\n%s", text, screen)
			}
		}
	}
	typed := func(text string) {
		t.Helper()
		tmux("send-keys", "-l", "--", text)
		tmux("send-keys", "Enter")
	}
	tmux("new-session", "-d", "-x", "110", "-y", "36", "-c", s.dir, "--", s.binary)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() })
	until("Enter send")
	typed(`/ralph "Build all of it" check="sh check.sh"`)
	until("1 approve")
	run, _ := s.run()
	typed(`/ralph --resume ` + run + ` also "do" 2`)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); tmux("send-keys", "BSpace") {
		time.Sleep(time.Second) // a card is inert at first
		tmux("send-keys", "1")
		time.Sleep(time.Second)
		if !strings.Contains(tmux("capture-pane", "-p"), " > 1\n") {
			break
		}
	}
	until("2 of 2 tasks merged")
	s.merged(run)
}
