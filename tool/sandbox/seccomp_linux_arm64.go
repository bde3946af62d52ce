package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0
)

// oldChanges returns those that later processors lack.
func oldChanges() map[uint32]change { return nil }
