//go:build unix

package detach

import "syscall"

// session returns what gives the process a session of its own, so that the end of a terminal does not reach it.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
