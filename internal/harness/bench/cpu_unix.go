//go:build unix

package main

import "syscall"

// cpuMs is the time this process has used the processors for, in milliseconds.
func cpuMs() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e6
}
