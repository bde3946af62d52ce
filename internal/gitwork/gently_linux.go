package gitwork

import (
	"os/exec"
	"syscall"
)

// gently has a command terminated, not killed, when this process dies: git then removes its lock files.
func gently(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM }
