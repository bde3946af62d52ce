package script

import (
	"io/fs"
	"syscall"
)

func stampOf(info fs.FileInfo) (stamp, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	return stamp{inode: st.Ino, size: info.Size(), mode: info.Mode(), modified: info.ModTime().UnixNano(), moved: st.Ctim.Nano()}, true
}
