//go:build unix

package procgroup

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orphaned(cmd.SysProcAttr)
}

func terminate(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGTERM)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err // exec kills the command after WaitDelay, and Sweep the others
}

// kill kills a group. There may be none of it left.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// marked returns the living processes that have a variable in their environment.
func marked(v string) []int {
	if runtime.GOOS != "linux" || v == "" {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f) // others' cannot be read, and dead ones' are empty
		if err != nil || !hasVar(b, v) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasVar(environ []byte, v string) bool {
	for e := range bytes.SplitSeq(environ, []byte{0}) {
		if string(e) == v {
			return true
		}
	}
	return false
}

// Alive reports whether there is a process of that number.
func Alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH }
