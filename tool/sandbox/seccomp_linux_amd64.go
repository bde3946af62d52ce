package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // of the numbers of calls in the way of x32
)

// oldChanges returns those that later processors lack.
func oldChanges() map[uint32]change {
	return map[uint32]change{
		unix.SYS_CHMOD:     {absent, 0, 1, absent, false, changeMode},
		unix.SYS_CHOWN:     {absent, 0, 1, absent, false, changeOwner},
		unix.SYS_LCHOWN:    {absent, 0, 1, absent, true, changeOwner},
		unix.SYS_UTIME:     {absent, 0, 1, absent, false, changeTimes(2, 0)},
		unix.SYS_UTIMES:    {absent, 0, 1, absent, false, changeTimes(4, 1000)},
		unix.SYS_FUTIMESAT: {0, 1, 2, absent, false, changeTimes(4, 1000)},
	}
}
