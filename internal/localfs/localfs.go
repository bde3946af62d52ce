// Package localfs distinguishes local file systems from network file systems, on which the locks
// and write-ahead files of stores may not work. It also makes directories and names in them
// durable.
package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Check returns an error if path is, or would be made, on a network file system. The remedy names
// the setting that overrides it, for instance "Options.AllowNetwork". A file system of unknown kind
// counts as local.
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

// SyncDir makes a new name in a directory durable. It does nothing without the right to list the
// directory.
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
