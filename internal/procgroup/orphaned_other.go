//go:build unix && !linux

package procgroup

import "syscall"

func orphaned(*syscall.SysProcAttr) {}
