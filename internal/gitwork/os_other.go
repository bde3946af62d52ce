//go:build !unix

package gitwork

import (
	"os"
	"os/exec"

	"github.com/gofrs/flock"
)

// tryLock takes an exclusive lock beside an open file, and reports whether it did.
func tryLock(f *os.File) (bool, error) { return flock.New(f.Name() + "ed").TryLock() }

func inherit(*exec.Cmd, *os.File) {}
