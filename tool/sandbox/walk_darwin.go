package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// readFolder calls each with the entries of an open folder: their names and the type bits of their modes.
func readFolder(fd int, _ []byte, each func(name string, kind uint32)) error {
	again, err := unix.Openat(fd, ".", openFolder, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(again), ".") //nolint:gosec // a descriptor
	defer f.Close()
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			each(name, uint32(st.Mode)&unix.S_IFMT)
		}
	}
	return err
}

// chmodAt changes the mode of a folder that is no symbolic link.
func chmodAt(dir int, name string, mode uint32) error {
	return unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW)
}
