//go:build unix

package live

import (
	"os"
	"syscall"
)

// owned reports whether a file belongs to this user.
func owned(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
