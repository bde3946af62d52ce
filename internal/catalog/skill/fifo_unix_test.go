//go:build unix

package skill_test

import "syscall"

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o600) }
