package sandbox

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns when a folder last changed: its ctime, which no program can set.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec)) //nolint:unconvert // 32 bits on some systems
	}
	return time.Time{}
}
