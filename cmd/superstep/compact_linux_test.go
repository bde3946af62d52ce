package main_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
)

// A conversation is summed up where its user asks for it: in the terminal, while it waits; and from the command line while its agent works, also if
// the process that executes it is killed before it knows.
func TestCompact(t *testing.T) {
	binary := faults.Failpoints(t)
	t.Run("terminal", func(t *testing.T) {
		s := newSeat(t)
		s.binary = binary
		s.open()
		s.keys("/compact", "Enter")
		s.until("no run is shown")
		s.keys("C-c", "one", "Enter")
		s.until("Heard: one")
		s.keys("/compact", "Enter")
		s.until("there is nothing to sum up yet")
		s.keys("C-c", "two", "Enter")
		s.until("Heard: two")
		s.keys("/compact", "Enter")
		s.until("the conversation is summed up before the next answer")
		s.keys("three", "Enter")
		s.until("the conversation so far was summed up")
		s.until("Heard: three")
		s.keys("C-d")
	})
	t.Run("killed", func(t *testing.T) {
		s := newSeat(t)
		s.binary = binary
		does := func(want string, args ...string) {
			t.Helper()
			out, err := s.command(args...).CombinedOutput()
			if _, failed := err.(*exec.ExitError); err != nil && !failed {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), want) {
				t.Fatalf("%q: want %q:\n%s", args, want, out)
			}
		}
		does("Heard: one", "run", "agent", "--chat", "one")
		does("nothing to sum up yet", "runs", "steer", "@last", "--compact")
		does("takes the run and no text", "runs", "steer", "@last", "--compact", "text")
		does("no agent works now", "runs", "steer", "@last", "--compact", "--agent", "gone")
		does("Heard: two", "run", "agent", "--continue", "two")
		slow := s.command("run", "agent", "--continue", "a slow one")
		if err := slow.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			out, _ := s.command("runs", "show", "@last").CombinedOutput()
			if strings.Contains(string(out), "running") && strings.Contains(string(out), "work#2") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s", out)
			}
		}
		does("before the agent's next turn", "runs", "steer", "@last", "--compact")
		if err := slow.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = slow.Wait()
		close(s.gate)
		does("Heard: a slow one", "run", "agent", "--continue")
		does("Heard: four", "run", "agent", "--continue", "four")
		does("a user asks to sum up the conversation", "runs", "show", "@last", "-v")
		does("the conversation so far was summed up", "runs", "show", "@last", "-v")
		does("", "runs", "replay", "@last")
		if out, err := s.command("runs", "replay", "@last").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		does("is cancelled", "runs", "cancel", "@last")
		does("is cancelled", "runs", "steer", "@last", "--compact")
	})
}
