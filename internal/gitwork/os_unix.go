//go:build unix

package gitwork

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// tryLock takes an exclusive lock on an open file, and reports whether it did. Processes that inherit the file keep the lock until the
// last of them ends.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// inherit hands a locked file to a command.
func inherit(cmd *exec.Cmd, f *os.File) {
	if f != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
}
