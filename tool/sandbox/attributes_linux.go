//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A change describes a system call that changes the mode, the owner or the times of a file: which
// argument has which meaning.
type change struct {
	dir, path, value, flags int  // absent for what it lacks
	link                    bool // it changes a symbolic link itself
	apply                   func(fd int, st *unix.Stat_t, n *notification, value int) error
}

const absent = -1

// changes returns the calls that a gate makes, by their numbers.
func changes() map[uint32]change {
	all := map[uint32]change{
		unix.SYS_FCHMOD:    {0, absent, 1, absent, false, changeMode},
		unix.SYS_FCHMODAT:  {0, 1, 2, absent, false, changeMode},
		unix.SYS_FCHMODAT2: {0, 1, 2, 3, false, changeMode},
		unix.SYS_FCHOWN:    {0, absent, 1, absent, false, changeOwner},
		unix.SYS_FCHOWNAT:  {0, 1, 2, 4, false, changeOwner},
		unix.SYS_UTIMENSAT: {0, 1, 2, 3, false, changeTimes(4, 1)},
	}
	maps.Copy(all, oldChanges())
	return all
}

// unsupported lists calls that are refused in the way of a file system without the feature, which
// programs handle: extended attributes, with access lists among them, and flags.
func unsupported() []uint32 {
	return []uint32{
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
	}
}

// change performs a change where files may be written. The target is opened before it is checked,
// so that concurrent changes by the command to the path, its memory or its descriptors have no
// effect.
func (g *gate) change(n *notification, valid func() bool) error {
	c, ok := g.changes[uint32(n.nr)] //nolint:gosec // a number
	if !ok {
		return unix.ENOSYS
	}
	fd, err := c.target(n)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	name, err := os.Readlink(ownFile(fd))
	if err != nil {
		return err
	}
	if st.Nlink == 0 {
		name = strings.TrimSuffix(name, " (deleted)")
	}
	// Another user's file would be changed with rights that this process has and the command has
	// given up.
	if !g.writable(name) || int(st.Uid) != os.Geteuid() || !valid() {
		return unix.EPERM
	}
	return c.apply(fd, &st, n, c.value)
}

// writable reports whether a path without symbolic links is in a tree that may be written, and neither hidden nor protected.
func (g *gate) writable(name string) bool {
	if !filepath.IsAbs(name) { // a pipe, for one
		return false
	}
	write, found := false, false
	for dir := name; ; dir = filepath.Dir(dir) {
		if dir == g.temp {
			return true
		}
		if g.hidden[dir] || g.protected[dir] {
			return false
		}
		if w, ok := g.trees[dir]; ok && !found {
			write, found = w, true
		}
		if dir == filepath.Dir(dir) {
			return write
		}
	}
}

// target opens what a call is about, as the process that made it sees it.
func (c *change) target(n *notification) (int, error) {
	dir, flags := unix.AT_FDCWD, 0
	var path string
	if c.dir != absent {
		dir = int(int32(n.args[c.dir])) //nolint:gosec // as the kernel takes it
	}
	if c.flags != absent {
		flags = int(int32(n.args[c.flags])) //nolint:gosec // as the kernel takes it
	}
	switch {
	case flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0:
		return -1, unix.EINVAL
	case c.path == absent:
		return n.file(dir)
	case n.args[c.path] != 0:
		var err error
		if path, err = n.text(n.args[c.path]); err != nil {
			return -1, err
		}
		if path == "" && flags&unix.AT_EMPTY_PATH != 0 {
			return n.folder(dir)
		}
	case dir == unix.AT_FDCWD:
		return -1, unix.EFAULT
	default:
		return n.file(dir) // futimens
	}
	// A link in /proc has a different target for each process.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if c.link || flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	} else if fd, ok := n.descriptor(path); ok {
		return n.file(fd)
	}
	base := unix.AT_FDCWD
	if !filepath.IsAbs(path) {
		var err error
		if base, err = n.folder(dir); err != nil {
			return -1, err
		}
		defer unix.Close(base)
	}
	return unix.Openat2(base, path, &how)
}

// folder returns a copy of a descriptor of the process, or its current folder.
func (n *notification) folder(fd int) (int, error) {
	if fd == unix.AT_FDCWD {
		return unix.Open(fmt.Sprintf("/proc/%d/cwd", n.pid), unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	}
	return n.file(fd)
}

// descriptor returns which descriptor of the process a path in /proc or /dev stands for.
func (n *notification) descriptor(path string) (int, bool) {
	for _, dir := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/", fmt.Sprintf("/proc/%d/fd/", n.pid)} {
		if number, ok := strings.CutPrefix(path, dir); ok {
			fd, err := strconv.ParseUint(number, 10, 31)
			return int(fd), err == nil //nolint:gosec // 31 bits
		}
	}
	return 0, false
}

// text returns a string of the process.
func (n *notification) text(addr uint64) (string, error) {
	b := make([]byte, unix.PathMax)
	got := n.read(addr, b)
	end := bytes.IndexByte(b[:got], 0)
	switch {
	case end >= 0:
		return string(b[:end]), nil
	case got == len(b):
		return "", unix.ENAMETOOLONG
	}
	return "", unix.EFAULT
}

// read copies memory of the process, as far as it can be read, and returns how much.
func (n *notification) read(addr uint64, b []byte) int {
	const page = 4096 // what can be read ends with one
	first := min(page-int(addr%page), len(b))
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: first}, {Base: uintptr(addr) + uintptr(first), Len: len(b) - first}} //nolint:gosec // less than a page
	got, err := unix.ProcessVMReadv(int(n.pid), local, remote, 0)
	if err != nil {
		return 0
	}
	return got
}

func ownFile(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// changeMode sets only the permission bits, so a command cannot create setuid programs.
func changeMode(fd int, st *unix.Stat_t, n *notification, value int) error {
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod(ownFile(fd), uint32(n.args[value])&0o777) //nolint:gosec // as the kernel takes it
}

// changeOwner allows only the current owner of a file.
func changeOwner(_ int, st *unix.Stat_t, n *notification, value int) error {
	for i, has := range []uint32{st.Uid, st.Gid} {
		if id := uint32(n.args[value+i]); id != has && id != ^uint32(0) { //nolint:gosec // as the kernel takes it
			return unix.EPERM
		}
	}
	return nil
}

// changeTimes is for a call whose times are two or four numbers: seconds, or seconds with a part of unit nanoseconds each.
func changeTimes(numbers int, unit int64) func(int, *unix.Stat_t, *notification, int) error {
	return func(fd int, _ *unix.Stat_t, n *notification, value int) error {
		times := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		if addr := n.args[value]; addr != 0 {
			var given [4]int64
			b := unsafe.Slice((*byte)(unsafe.Pointer(&given)), numbers*8)
			if n.read(addr, b) != len(b) {
				return unix.EFAULT
			}
			for i := range times {
				if numbers == 2 {
					times[i] = unix.Timespec{Sec: given[i]}
					continue
				}
				part := given[2*i+1]
				if unit != 1 && (part < 0 || part >= 1e9/unit) {
					return unix.EINVAL
				}
				times[i] = unix.Timespec{Sec: given[2*i], Nsec: part * unit}
			}
		}
		return unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	}
}
