//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// group gives a command a process group of its own, which ends with its context: asked first, then killed.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		pid := cmd.Process.Pid
		time.AfterFunc(grace, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }) // most are gone by then
		return syscall.Kill(-pid, syscall.SIGTERM)
	}
}
