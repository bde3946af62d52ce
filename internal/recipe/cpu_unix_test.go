//go:build unix

package recipe_test

import (
	"syscall"
	"testing"
	"time"
)

// spent returns the processor time of this process, which others that use the machine do not lengthen.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
