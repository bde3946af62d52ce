package script

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// readRegular reads a file that is one, and no larger than limit. A pipe that nobody writes to
// does not stop it.
func readRegular(path string, limit int64) (_ []byte, err error) {
	f, err := openRegular(path, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, tooLarge(path, limit)
	}
	return b, nil
}

func openRegular(path string, limit int64) (*os.File, error) {
	// Asked before it is opened, since opening a pipe waits for somebody to write to it.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > limit {
		return nil, tooLarge(path, limit)
	}
	return os.Open(path)
}

func tooLarge(path string, limit int64) error {
	return fmt.Errorf("%s is larger than %d MiB", path, limit>>20)
}

// within gives the path of a file relative to the root, both real and absolute.
func within(root, path string) (string, bool) {
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// realRoot is the root of a scope without symbolic links.
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

// lookPath finds a program in the absolute folders of the PATH of an environment.
func lookPath(environ []string, name string) (string, error) {
	var path string
	for _, v := range environ {
		if key, value, _ := strings.Cut(v, "="); key == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(key, "PATH") {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // what lies in the folder somebody happens to be in is not theirs to run
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// notExecutable says why a file cannot be run, "" if it can as far as can be seen.
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
