//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A gate performs, on behalf of commands, the system calls that Landlock does not restrict.
// Landlock knows ports but no addresses, so a command could reach the port of the proxy on other
// hosts. It also does not restrict changes of modes, owners and times of files. The kernel suspends
// such a call and notifies the gate. Arguments are copied before they are checked, so that the
// command cannot change them any more.
type gate struct {
	port              int             // of the proxy on 127.0.0.1, 0 for none
	trees             map[string]bool // of the layout
	hidden, protected map[string]bool
	temp              string // may be written, although what is around it is hidden
	changes           map[uint32]change

	file *os.File // notifications of seccomp
	done sync.WaitGroup
}

const notifSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS

// notification is struct seccomp_notif, and reply is struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// open answers what seccomp asks.
func (g *gate) open(fd int) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	g.file = os.NewFile(uintptr(fd), "seccomp")
	raw, err := g.file.SyscallConn()
	if err != nil {
		return errors.Join(err, g.file.Close())
	}
	// The command and the gate wait for each other, so they share a processor. Older kernels have no such flag.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), notifSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	g.done.Go(func() {
		_ = raw.Read(func(fd uintptr) bool { // until it is closed
			for {
				ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
				if _, err := unix.Poll(ready, 0); err == unix.EINTR {
					continue
				}
				if ready[0].Revents&unix.POLLIN == 0 {
					return ready[0].Revents != 0 // nobody is left
				}
				g.answer(fd)
			}
		})
	})
	return nil
}

func (g *gate) close() {
	_ = g.file.Close()
	g.done.Wait()
}

// answer answers one command.
func (g *gate) answer(fd uintptr) {
	var n notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return // it has been killed
	}
	r := reply{id: n.id}
	valid := func() bool { // and not a later process of that number
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&n.id)))
		return errno == 0
	}
	call := g.change
	if n.nr == unix.SYS_CONNECT {
		call = g.connect
	}
	if err := call(&n, valid); err != nil {
		r.errno = -int32(unix.EACCES)
		if errno, ok := errors.AsType[unix.Errno](err); ok {
			r.errno = -int32(errno) //nolint:gosec // small
		}
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r))) // or it has been killed
}

// connect connects a socket of another process.
func (g *gate) connect(n *notification, valid func() bool) error {
	var addr [unix.SizeofSockaddrInet6]byte
	size := min(int(uint32(n.args[2])), len(addr)) //nolint:gosec // as the kernel takes it
	if size < 2 {
		return unix.EINVAL
	}
	if n.read(n.args[1], addr[:size]) != size {
		return unix.EFAULT
	}
	port := int(binary.BigEndian.Uint16(addr[2:]))
	loopback := []byte{127, 0, 0, 1}
	var to unix.Sockaddr
	switch family := binary.NativeEndian.Uint16(addr[:]); {
	case family == unix.AF_INET && size >= unix.SizeofSockaddrInet4 && port == g.port && bytes.Equal(addr[4:8], loopback):
		to = &unix.SockaddrInet4{Port: port, Addr: [4]byte(loopback)}
	case family == unix.AF_INET6 && size == len(addr) && port == g.port && bytes.Equal(addr[8:24], append([]byte{10: 0xff, 11: 0xff}, loopback...)):
		to = &unix.SockaddrInet6{Port: port, Addr: [16]byte(addr[8:24])}
	default:
		return unix.EACCES
	}
	sock, err := n.file(int(int32(n.args[0]))) //nolint:gosec // as the kernel takes it
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	if !valid() {
		return unix.EACCES
	}
	return unix.Connect(sock, to)
}

// file returns a copy of a descriptor of the process.
func (n *notification) file(fd int) (int, error) {
	pidfd, err := unix.PidfdOpen(int(n.pid), 0)
	if err != nil { // it is a thread
		process, err := leader(int(n.pid))
		if err != nil {
			return -1, err
		}
		if pidfd, err = unix.PidfdOpen(process, 0); err != nil {
			return -1, err
		}
	}
	defer unix.Close(pidfd)
	return unix.PidfdGetfd(pidfd, fd, 0)
}

// leader returns the process of a thread.
func leader(thread int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte("\nTgid:\t"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.Atoi(string(line))
}
