//go:build !unix

package gitwork

import (
	"io"
	"os"
	"os/exec"

	"github.com/gofrs/flock"
)

// tryLock takes the lock of a file, and returns nil if somebody has it.
func tryLock(path string) (*os.File, io.Closer, error) {
	l := flock.New(path)
	if ok, err := l.TryLock(); err != nil || !ok {
		return nil, nil, err
	}
	return nil, l, nil
}

func inherit(*exec.Cmd, *os.File) {}
