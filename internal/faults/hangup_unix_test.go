//go:build unix

package faults_test

import (
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
)

func TestHangsUp(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	code := func() int {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "kill -HUP $$; exit 7")
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode()
	}
	if got := code(); got != 7 {
		t.Fatalf("SIGHUP is not ignored: exit code %d", got)
	}
	t.Run("with", func(t *testing.T) {
		faults.HangsUp(t)
		if got := code(); got != -1 {
			t.Errorf("the program lived on: exit code %d", got)
		}
	})
}
