// Package localfs tells local file systems from those that are shared over a network,
// on which the locks and the write-ahead files that stores rely on may not work.
package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
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

// refuse is the error for a file system of that name, none for "".
func refuse(path, name, setting string) error {
	if name == "" {
		return nil
	}
	return fmt.Errorf("locks are unreliable on %s: %s is on a network file system, where two machines could write one run; put the store on a local disk or set %s", name, path, setting)
}
