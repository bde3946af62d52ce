//go:build unix

package detach

import "syscall"

// session returns the attributes that start the process in a new session, so that closing the terminal does not end it.
func session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
