//go:build unix

package docindex

import "syscall"

const nonblock = syscall.O_NONBLOCK // or opening a FIFO would wait for a writer
