package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// On a terminal the demo has the live view and asks. Who does not answer gets an answer, and who breaks it off gets the terminal back.
func TestDemoOnTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as people do")
	}
	t.Parallel()
	binary := buildDemo(t)
	t.Run("to its end", func(t *testing.T) {
		t.Parallel()
		d := newDemoing(t, binary)
		start := time.Now()
		c := openCommand(t, d.here, 100, 40, d.env, binary, "demo")
		c.until("Answer 1-2")
		c.typed("2\n")
		c.until("SIGKILL")
		c.until("Answer 1-5")
		c.until("? report -> \"once\" (the demo)")
		if code := c.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		screen := ansi.Strip(c.screen())
		for _, want := range []string{
			"after 5s the demo answers by itself", "Step: lead ✓", "3/4 done", `the answer "customers"`, "(resumed)", "for customers", "⣿ Workflow completed in",
		} {
			if !strings.Contains(screen, want) {
				t.Errorf("%q is missing:\n%s", want, screen)
			}
		}
		if took := time.Since(start); took > 5*time.Minute {
			t.Errorf("it took %s", took)
		}
		d.empty(t)
	})
	t.Run("broken off", func(t *testing.T) {
		t.Parallel()
		d := newDemoing(t, binary)
		c := openCommand(t, d.here, 100, 40, d.env, binary, "demo")
		c.until("Answer 1-2")
		c.typed("\x03")
		c.until("interrupted")
		if state, err := unix.IoctlGetTermios(int(c.master.Fd()), unix.TCGETS); err != nil || state.Lflag&unix.ECHO == 0 {
			t.Errorf("the terminal shows no keys any more: %v", err)
		}
		if code := c.exit(); code != ExitInterrupted {
			t.Errorf("exit code %d\n%s", code, c.screen())
		}
		d.empty(t)
	})
}
