package main

import (
	"os"
	"syscall"
	"time"
)

func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// processor returns the processor time of this process.
func processor() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // zero if it fails
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
