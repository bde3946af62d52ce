//go:build unix

package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// detach has a command leave the group of whoever starts it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// alive says, on Linux, whether a process is there and not merely waiting to be reaped.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}
