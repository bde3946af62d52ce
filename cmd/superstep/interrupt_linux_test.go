package main_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
)

// Esc twice breaks off a turn, after which the chat reads what was queued or waits. ^C stops the run at its next checkpoint, and kills its process the third
// time, which loses nothing.
func TestTerminalInterrupt(t *testing.T) {
	s := newSeat(t)
	s.binary = faults.Failpoints(t)
	escape := func() {
		s.keys("Escape")
		s.until("the same key again interrupts")
		s.keys("Escape")
	}
	s.open()
	s.keys("a slow one", "Enter")
	s.until("thinking")
	escape()
	s.until("(broken off)")
	s.gone("thinking")
	s.keys("a slow two", "Enter")
	s.until("thinking")
	s.keys("be brief", "Enter")
	s.until("queued: be brief")
	escape()
	s.until("Heard: be brief")
	s.keys("a slow three", "Enter")
	s.until("thinking")
	s.keys("C-c")
	s.until("^C again stops the run")
	s.keys("C-c")
	s.until("^C kills its process")
	s.keys("C-c")
	s.until("is stopped; resume it")
	if out, err := s.command("runs", "list").CombinedOutput(); err != nil || !strings.Contains(string(out), "paused") {
		t.Errorf("%v\n%s", err, out)
	}
	close(s.gate)
	s.keys("/resume", "Enter")
	s.until("Heard: a slow three")
	if out, err := s.command("runs", "replay", "@last").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	s.keys("C-d")
}

// Wherever the process of a chat is killed around an interrupt from another process, one turn is broken off, once, and the chat goes on.
func TestInterruptKilled(t *testing.T) {
	s := newSeat(t)
	s.binary = faults.Failpoints(t)
	step, kills := 1, 0
	if testing.Short() {
		step = 5
	}
	for n := 1; ; n += step {
		cmd := s.command("run", "agent", "--chat", fmt.Sprint("a slow number ", n))
		cmd.Env = append(cmd.Env, fmt.Sprint("SUPERSTEP_FAILPOINT=any:", n))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		dead := make(chan error, 1)
		go func() { dead <- cmd.Wait() }()
		whole := s.interrupts(dead) // else it has died
		id := s.newest(fmt.Sprint("a slow number ", n))
		if id == "" {
			kills++
			continue // it died before there was a run
		}
		if !whole {
			kills++
			again := s.command("runs", "resume", id)
			if err := again.Start(); err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { over <- again.Wait() }()
			if !s.interrupts(over) {
				t.Fatalf("%d: the resumed run died", n)
			}
		}
		out, err := s.command("runs", "export", id).Output()
		if broken := strings.Count(string(out), `"interrupted":[`); err != nil || broken != 1 {
			t.Fatalf("%d: %d turns were broken off, %v\n%s", n, broken, err, out)
		}
		if out, err := s.command("run", "agent", "--continue="+id, "more").CombinedOutput(); !strings.Contains(string(out), "Heard: more") {
			t.Fatalf("%d: %v\n%s", n, err, out)
		}
		if out, err := s.command("runs", "replay", id).CombinedOutput(); err != nil {
			t.Errorf("%d: %v\n%s", n, err, out)
		}
		if whole {
			break
		}
	}
	if kills < 3 {
		t.Errorf("only %d kills", kills)
	}
}

// interrupts interrupts the newest run until its process ends, and reports whether that ends by itself.
func (s *seat) interrupts(dead <-chan error) (whole bool) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-dead:
			code, ok := err.(*exec.ExitError)
			return err == nil || ok && code.ExitCode() >= 0
		default:
			if out, _ := s.command("runs", "export", "@last").Output(); strings.Contains(string(out), `"kind":"agent"`) && !strings.Contains(string(out), `"interrupted":[`) {
				_ = s.command("runs", "interrupt", "@last").Run()
			}
		}
	}
	s.t.Fatal("the run does not end")
	return false
}

// newest returns the ID of the run of that title.
func (s *seat) newest(title string) string {
	out, _ := s.command("runs", "list", "-o", "json").Output()
	var runs []struct{ ID, Title string }
	_ = json.Unmarshal(out, &runs)
	for _, r := range runs {
		if strings.Contains(r.Title, title) {
			return r.ID
		}
	}
	return ""
}
