package script

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/superstep-dev/superstep/internal/inside"
)

// readRegular reads a file that is one, and no larger than limit. A pipe that nobody writes to
// does not stop it.
func readRegular(path string, limit int64) ([]byte, error) {
	b, err := inside.ReadFile(path, limit)
	switch {
	case errors.Is(err, inside.ErrTooLarge):
		return nil, fmt.Errorf("%s is larger than %d MiB", path, limit>>20)
	case errors.Is(err, inside.ErrNotRegular), errors.Is(err, inside.ErrFolder):
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return b, err
}

// realRoot returns the root of a scope without symbolic links.
func (s Scope) realRoot(dir string) (string, error) {
	root := s.Root
	if root == "" {
		root = filepath.Dir(dir)
		if strings.HasPrefix(filepath.Base(root), ".") {
			root = filepath.Dir(root)
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(root)
}

// notExecutable returns why a file cannot be run, "" if it can as far as can be seen.
func notExecutable(path string) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file"
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		return "it is not executable; chmod +x it"
	}
	return ""
}
