// Package localfs tells local file systems from those that are shared over a network,
// on which the locks and the write-ahead files that stores rely on may not work, and makes
// directories and names in them durable.
package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Check returns an error if path is, or would be made, on a network file system. The
// remedy names the setting that overrides it, for instance "Options.AllowNetwork". Where
// the system does not say what a file system is, it counts as local.
func Check(path, setting string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("finding the file system of %s: %w", path, err)
	}
	for {
		name, err := network(path)
		parent := filepath.Dir(path)
		if errors.Is(err, fs.ErrNotExist) && parent != path {
			path = parent // it will be made there
			continue
		}
		return refuse(path, name, setting)
	}
}

// refuse returns the error for a file system of that name, none for "".
func refuse(path, name, setting string) error {
	if name == "" {
		return nil
	}
	return fmt.Errorf("locks are unreliable on %s: %s is on a network file system, where two machines could write one run; put the store on a "+
		"local disk or set %s", name, path, setting)
}

// MakeDir creates a directory, and those above it that are missing. It returns the directories that
// have the new names in them: they are durable once each of these is synced, see [SyncDir].
func MakeDir(dir string) (unsynced []string, err error) {
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		unsynced = append(unsynced, filepath.Dir(at))
	}
	return unsynced, os.MkdirAll(dir, 0o700)
}

// SyncDir makes a new name in a directory durable, if the directory may be listed:
// without that right nothing can be done about it.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
