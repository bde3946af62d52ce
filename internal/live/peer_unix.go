//go:build linux || darwin || freebsd

package live

import (
	"net"
	"os"
)

// mine reports whether the process at the other end is this user's.
func mine(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		uid, err := peerUID(int(fd))
		ok = err == nil && int(uid) == os.Geteuid()
	})
	return err == nil && ok
}
