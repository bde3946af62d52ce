//go:build !unix

package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const nonblock = 0

// private does nothing, because this system does not report which users may write.
func private(fs.FileInfo) error { return nil }

// replaceFile replaces a file atomically, by renaming another one.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
