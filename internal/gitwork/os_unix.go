//go:build unix

package gitwork

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// tryLock takes the lock of a file, and returns nil if somebody has it. Processes that inherit the file keep the lock until the last of them ends.
func tryLock(path string) (*os.File, io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return f, f, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return nil, nil, err
}

// inherit hands a locked file to a command.
func inherit(cmd *exec.Cmd, f *os.File) {
	if f != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
}
