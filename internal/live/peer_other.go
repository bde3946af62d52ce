//go:build !linux && !darwin && !freebsd

package live

import "net"

// mine reports whether the process at the other end belongs to this user. This system cannot tell, but other users cannot reach the directory.
func mine(*net.UnixConn) bool { return true }
