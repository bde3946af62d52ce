//go:build !linux && !darwin && !freebsd

package live

import "net"

// mine reports whether the process at the other end is this user's, as far as the system says: others cannot reach the directory.
func mine(*net.UnixConn) bool { return true }
