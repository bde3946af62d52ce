package sandbox

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// readFolder calls each with the entries of an open folder: their names and the type bits of their modes. It reads by means of
// a buffer.
func readFolder(fd int, buffer []byte, each func(name string, kind uint32)) error {
	for {
		n, err := unix.Getdents(fd, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		// struct linux_dirent64: ino, off, reclen, type, name
		for b := buffer[:n]; len(b) > 19; b = b[binary.NativeEndian.Uint16(b[16:]):] {
			text, _, _ := bytes.Cut(b[19:binary.NativeEndian.Uint16(b[16:])], []byte{0})
			name, kind := string(text), uint32(b[18])<<12
			if name == "." || name == ".." {
				continue
			}
			if kind == 0 { // the file system does not say
				var st unix.Stat_t
				if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
					kind = st.Mode & unix.S_IFMT
				}
			}
			each(name, kind)
		}
	}
}

// chmodAt changes the mode of a folder that is no symbolic link.
func chmodAt(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}
