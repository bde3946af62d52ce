//go:build unix

package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

const nonblock = syscall.O_NONBLOCK

// private refuses files that anyone but the user and the system may write.
func private(info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 && (!info.IsDir() || info.Mode()&fs.ModeSticky == 0) {
		return errors.New("may be written by others")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return errors.New("belongs to somebody else")
	}
	return nil
}

// replaceFile replaces a file atomically and durably. Only the user may read or write it.
func replaceFile(path string, content []byte) error {
	return renameio.WriteFile(path, content, 0o600, renameio.WithStaticPermissions(0o600), renameio.WithTempDir(filepath.Dir(path)))
}
