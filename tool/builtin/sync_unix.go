//go:build unix

package builtin

import (
	"os"
	"path/filepath"
)

// syncDir syncs the names in a folder.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(filepath.FromSlash(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
