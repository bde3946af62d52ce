package procgroup_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// A command does not outlive the process that started it, even one that is killed.
func TestKilledParent(t *testing.T) {
	if os.Getenv("PROCGROUP_PARENT") != "" {
		cmd := procgroup.Command(t.Context(), os.Environ(), "sleep", "300")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("pid", cmd.Process.Pid)
		_ = cmd.Wait() // until somebody kills this process
		return
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "TestKilledParent$")
	parent.Env = append(os.Environ(), "PROCGROUP_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			if pid, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 {
		t.Fatal("the parent started nothing")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	for range 500 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives on", pid)
}
