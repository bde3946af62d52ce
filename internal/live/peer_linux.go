package live

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// mine reports whether the process at the other end is this user's.
func mine(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && int(cred.Uid) == os.Geteuid()
	})
	return err == nil && ok
}
